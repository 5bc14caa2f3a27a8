"""HIPRT_ALLOC_POISON: recorded steps are guarded at each launch; freed memory is out of reach on the CPU."""

import gc
import json
import os
import warnings

import numpy as np
import pytest
from helpers.child import child
from helpers.kernels import accumulate, mix, scale

import hiprt
from hiprt import graphs, library
from hiprt.allocator import RedZoneError, UseAfterFreeError, check_steps, default_pool
from hiprt.array import Array
from hiprt.buffer import Buffer

POISON = {"HIPRT_ALLOC_POISON": "1"}
MODES = {"kept": {}, "issued": {"keep": False}}


def overrun(extra, mode):
    """A step whose intermediate is filled past its end by some bytes from its third launch on; what is then said."""
    x, launches = hiprt.full(100, 1.0), []

    def allocate_here():
        return scale(x, 2.0)

    def function(damage):
        y = allocate_here()
        hiprt.current_stream().fill(y.buffer.address + 400 - 4, 0, 1, 4 + damage)
        return scale(y, 3.0)

    step = graphs.Step(function, **MODES[mode])
    for i in range(5):
        out = step(extra if i >= 2 else 0)
        launches.append(float(out.numpy()[0]))
        # Whoever allocates only warns; who asks is told all the same.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hiprt.zeros(1)
        try:
            check_steps()
        except RedZoneError as error:
            return [i, error.nbytes, error.offset, "allocate_here" in error.allocated_at, "function" in error.freed_at]
    return launches


def reads_too_early(mode):
    """A step that adds to fresh memory: what each launch sees."""
    x = hiprt.full(100, 1.0)
    step = graphs.Step(lambda: scale(accumulate(x, hiprt.empty(100)), 2.0), **MODES[mode])
    return [bool(np.isnan(step().numpy()).all()) for _ in range(4)]


def right_steps(mode):
    """Steps with temporaries that share memory and results that are dropped: the same numbers, and no complaint."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = hiprt.array(np.linspace(-1, 1, 3000, dtype=np.float32))

        def function(by):
            y = mix(scale(x, by), scale(scale(x, 0.5), 2.0))
            big = hiprt.empty(7000)
            big.fill_bytes(0)
            return mix(scale(y, 2.0), scale(scale(y, 3.0), by)), y

        step, sums = graphs.Step(function, **MODES[mode]), []
        for i in range(12):
            outs = step(1.0 + i % 3)
            sums.append([float(out.numpy().sum()) for out in outs])
            if i % 4 == 3:
                del outs
        del step
        check_steps()
        return sums


def abandoned_and_cyclic():
    """Steps that fail while they record, and steps that only the collector finds: nothing to complain about."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, kept = hiprt.full(1000, 1.0), []

        def fails():
            kept.append(scale(scale(x, 2.0), 3.0))
            raise KeyError("planned")

        def works():
            return scale(scale(x, 2.0), 3.0)

        for keep in (True, False):
            step = graphs.Step(fails, keep=keep)
            for _ in range(3):
                with pytest.raises(KeyError):
                    step()
                kept.clear()
        for _ in range(5):
            step = graphs.Step(works)
            step.me, step.result = step, step()
            step.held = [segment.recording.memory for each in step.kept.values() for segment in each.segments]
            del step
            gc.collect()
        check_steps()
        return float(works().numpy()[3])


def use_after_free(is_step):
    """A kernel reads an array that was freed."""

    def allocate_here():
        return hiprt.full(3000, 1.0)

    x = allocate_here()
    stale = Array(Buffer(x.address, x.nbytes, 0), x.shape, x.dtype, x.address)

    def free_here(array):
        array.clear()

    kept = [x]
    del x
    free_here(kept)
    with pytest.raises(UseAfterFreeError, match=r"a kernel touched byte \d+ of the buffer of 12000") as caught:
        (graphs.Step(lambda: scale(stale, 2.0)) if is_step else lambda: scale(stale, 2.0))().numpy()
    error = caught.value
    # Any thread of the device may be the first.
    at = [error.start == stale.address, error.address - error.start in range(12000), error.nbytes]
    print(json.dumps([*at, "allocate_here" in error.allocated_at, "free_here" in error.freed_at]), flush=True)
    # The device is lost, and so is what the interpreter would say about it while it ends.
    os._exit(0)


def freed_memory_comes_back():
    """Closed pages are opened for the next user, and before they go back to the system."""
    for i in range(30):
        kept = [hiprt.full(1 + 977 * k % 9000, float(i)) for k in range(12)]
        assert all(float(x.numpy()[-1]) == i for x in kept)
        del kept[::2]
        if i % 7 == 0:
            default_pool.trim()
    kept.clear()
    default_pool.trim()
    return default_pool.stats().reserved


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extra", [1, 200])
def test_a_graph_that_writes_past_an_intermediate_is_named(extra, mode):
    got = child(overrun, extra, mode, **POISON)
    assert got == [2, 400, 400, True, True]


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_within_its_bounds_is_not(mode):
    assert child(overrun, 0, mode, **POISON) == [6.0] * 5


@pytest.mark.parametrize("mode", MODES)
def test_every_launch_finds_fresh_memory(mode):
    assert child(reads_too_early, mode, **POISON) == [True] * 4


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("most", ["0", "1", "5"])
def test_same_numbers_with_and_without(mode, most):
    """Also where a step is cut into several graphs."""
    assert child(right_steps, mode, HIPRT_GRAPH_MAX_NODES=most, **POISON) == child(right_steps, mode)


def test_steps_that_never_ran_or_go_in_any_order():
    assert child(abandoned_and_cyclic, **POISON) == 6.0


@pytest.mark.only("cpu", reason="only there can memory be made inaccessible")
@pytest.mark.parametrize("is_step", [False, True])
def test_use_after_free_is_named_with_both_stacks(is_step):
    built = library.current().hip.read_bytes()
    if b"__asan_init" in built or b"__tsan_init" in built:
        pytest.skip("the sanitizer reports the fault first")
    assert child(use_after_free, is_step, **POISON) == [True, True, 12000, True, True]


@pytest.mark.parametrize("memory", ["0", "1"])
def test_freed_memory_is_used_again(memory):
    assert child(freed_memory_comes_back, HIPRT_ALLOC_ASYNC=memory, **POISON) == 0
