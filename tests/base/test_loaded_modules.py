"""Loaded modules: shared by content, bounded, and never unloaded while a function or a graph has them."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.gate import Gate

import hiprt
from hiprt import graphs, loaded_modules
from hiprt.compiler import compile_source
from hiprt.errors import CompileError, HipError
from hiprt.flags import flags
from hiprt.hip import lib
from hiprt.loaded_modules import FORMS, FunctionTable, ModuleCache
from hiprt.module import READ_WRITE, Argument, Function, Module

SOURCE = 'extern "C" __global__ void bump(int* p) {{ p[0] += {}; }}'
ONE = (1, 1, 1)


@pytest.fixture
def cache(stream):
    """A cache that keeps nothing by itself."""
    with flags.override(cache_modules=0):
        yield ModuleCache()


@pytest.fixture
def unloads(monkeypatch):
    """The modules that were unloaded."""
    done, unload = [], lib.hipModuleUnload
    counted = SimpleNamespace(hipModuleUnload=lambda module: done.append(module) or unload(module))
    monkeypatch.setattr(loaded_modules, "lib", counted)
    return done


def bump(cache, by):
    return Function(cache.load(SOURCE.format(by), "bump.hip"), "bump", [Argument("p", READ_WRITE)])


def test_one_content_is_one_module(cache):
    first = cache.load(SOURCE.format(1), "a.hip")
    assert cache.load(SOURCE.format(1), "a.hip") is first
    assert cache.load(SOURCE.format(2), "a.hip") is not first
    assert cache.load(SOURCE.format(1), "b.hip") is not first
    assert cache.load(SOURCE.format(1), "a.hip", options=["-DA"]) is not first
    named = cache.load(SOURCE.format(1), "a.hip", expressions=["bump"])
    assert named is not first
    assert named.lowered == {"bump": "bump"}


def test_a_header_on_disk_that_changed_is_read_again(cache, tmp_path):
    source, x = '#include "by.h"\n' + SOURCE.format("BY"), hiprt.zeros(1, np.int32)
    for by in (1, 20):
        (tmp_path / "by.h").write_text(f"#define BY {by}\n")
        module = cache.load(source, "bump.hip", options=[f"-I{tmp_path}"])
        Function(module, "bump", [Argument("p", READ_WRITE)])(hiprt.current_stream(), ONE, ONE, x)
    assert x.item() == 21


def test_a_failed_build_is_not_kept(cache):
    with pytest.raises(CompileError):
        cache.load("int x", "a.hip")
    assert not cache.alive
    assert not cache.recent


def test_the_module_used_longest_ago_goes(stream):
    with flags.override(cache_modules=2):
        cache = ModuleCache()
        gone = [weakref.ref(cache.load(SOURCE.format(i), "a.hip")) for i in range(2)]
        cache.load(SOURCE.format(0), "a.hip")
        cache.load(SOURCE.format(2), "a.hip")
        gc.collect()
        assert gone[0]() is not None
        assert gone[1]() is None
        assert len(cache.alive) == 2


def test_a_function_keeps_its_module(cache, unloads):
    function = bump(cache, 1)
    x = hiprt.zeros(1, np.int32)
    cache.sweep()
    function(hiprt.current_stream(), ONE, ONE, x)
    assert x.item() == 1
    assert unloads == []
    handle = function.module.handle
    del function
    gc.collect()
    assert unloads == []  # at a collection nothing is called that may be illegal there
    assert cache.sweep() == 1
    assert unloads == [handle]
    assert cache.sweep() == 0


def test_modules_go_when_another_is_loaded_and_they_are_many(cache, unloads, monkeypatch):
    monkeypatch.setattr(loaded_modules, "MANY", 3)
    for by in range(1, 4):
        bump(cache, by)
        gc.collect()
    assert unloads == []
    bump(cache, 4)
    assert len(unloads) == 3


def test_a_recording_that_was_never_launched_keeps_its_module(cache, unloads, stream):
    from hiprt.graphs.record.recording import Recording

    x = hiprt.zeros(1, np.int32)
    recording = Recording()
    with recording.record(stream):
        bump(cache, 7)(stream, ONE, ONE, x)
    gc.collect()
    assert len(cache.retired) == 1
    assert cache.sweep() == 0
    recording.run(stream)
    assert x.item() == 7
    assert unloads == []
    del recording
    gc.collect()
    assert cache.sweep() == 1
    assert len(unloads) == 1


def test_a_graph_keeps_its_modules(cache, unloads):
    x = hiprt.zeros(1, np.int32)
    functions = [bump(cache, 3)]

    def token():
        functions[0](hiprt.current_stream(), ONE, ONE, x)
        return x

    step = graphs.Step(token)
    step()
    functions.clear()
    gc.collect()
    assert cache.sweep() == 0
    for _ in range(3):
        step()
    assert x.item() == 12
    assert step.rungs["replay"] == 3
    assert unloads == []
    del step
    gc.collect()
    assert cache.sweep() == 1


def test_an_eager_kernel_has_finished_before_its_module_goes(cache, monkeypatch, stream):
    """Held back by a gate that opens when the device is waited for."""
    finished, gate, x, unload = [], Gate(stream), hiprt.zeros(1, np.int32), lib.hipModuleUnload
    watched = SimpleNamespace(hipModuleUnload=lambda module: finished.append(not gate.is_closed) or unload(module))
    monkeypatch.setattr(loaded_modules, "lib", watched)
    monkeypatch.setattr(hiprt.Device, "synchronize", lambda device: gate.open())
    kernel = bump(cache, 5)
    # A kernel's first launch may load it, which may wait for the device.
    kernel(stream, ONE, ONE, x)
    gate.shut()
    kernel(stream, ONE, ONE, x)
    del kernel
    gc.collect()
    try:
        assert cache.sweep() == 1
        assert finished == [True]
    finally:
        gate.open()
        gate.close()
    assert x.item() == 10


def test_a_device_that_cannot_be_waited_for_keeps_its_modules(cache, unloads, monkeypatch):
    """While a stream captures, say: who loads another module does not notice, and they go later."""
    monkeypatch.setattr(loaded_modules, "MANY", 1)
    bump(cache, 1)
    gc.collect()

    def refuse(device):
        raise HipError(900, "hipErrorStreamCaptureUnsupported", "hipDeviceSynchronize")

    with monkeypatch.context() as patch:
        patch.setattr(hiprt.Device, "synchronize", refuse)
        kept = bump(cache, 2)
        assert unloads == []
    assert cache.sweep() == 1
    assert len(unloads) == 1
    x = hiprt.zeros(1, np.int32)
    kept(hiprt.current_stream(), ONE, ONE, x)
    assert x.item() == 2


def test_many_functions_of_one_module_hold_no_memory(cache):
    module = cache.load(SOURCE.format(1), "a.hip")
    for _ in range(10):
        Function(module, "bump", [Argument("p", READ_WRITE)])
    gc.collect()
    kept = Function(module, "bump", [Argument("p", READ_WRITE)])
    assert len(module.kernels) == 1
    assert kept.module is module


def test_tables_of_functions_are_bounded():
    table = FunctionTable()
    for i in range(FORMS + 3):
        table[i] = str(i)
    assert list(table) == list(range(3, FORMS + 3))
    table[3] = "again"
    assert len(table) == FORMS


def test_a_step_lets_go_of_a_module(stream):
    """Its graphs, recordings and the names that its caller gave them; it makes new ones when it is called again."""
    x = hiprt.zeros(1, np.int32)
    launches = []
    step = graphs.Step(lambda: launches[0](hiprt.current_stream(), ONE, ONE, x))
    for i in range(2):
        module = Module(*compile_source(SOURCE.format(3 + i), "bump.hip"))
        launches[:] = [Function(module, "bump", [Argument("p", READ_WRITE)])]
        for _ in range(2):
            step(key="bump")
        launches.clear()
        step.forget()
        gc.collect()
        with pytest.raises(RuntimeError, match=r"the module is in use: .* or call their let_go"):
            module.close()
        step.let_go()
        module.close()
    assert x.item() == 14
    assert step.nodes == 0


def test_a_module_in_use_is_not_unloaded(stream):
    """Neither while a function is there, nor while a step has a graph of it; then it is."""
    x = hiprt.zeros(1, np.int32)
    module = Module(*compile_source(SOURCE.format(3), "bump.hip"))
    function = Function(module, "bump", [Argument("p", READ_WRITE)])
    step = graphs.Step(lambda launch=[function]: launch[0](hiprt.current_stream(), ONE, ONE, x))
    step()
    step()
    with pytest.raises(RuntimeError, match=r"the module is in use: .* 1 of its kernels \(bump\)"):
        module.close()
    step.function.__defaults__[0].clear()
    del function
    gc.collect()
    with pytest.raises(RuntimeError, match="the module is in use"):
        module.close()
    step()
    assert x.item() == 9
    del step
    gc.collect()
    module.close()
    assert module.handle == 0
    module.close()
