"""A real ROCm without its GPU: its hiprtc compiles the kernels, its runtimes open, its headers declare what ours do."""

import json
import subprocess

import pytest
from helpers.rocm import SUITES, VARIABLE, declared, run, unpacked

from hiprt import provider
from hiprt.array import bfloat16
from hiprt.bench.roofline.machine_code import full_waits
from hiprt.errors import CompileError, ProviderError
from hiprt.kernels.offline import command
from hiprt.kernels.offline.builder import RocmBackend, Unit, build, units
from hiprt.kernels.offline.report import Report
from hiprt.kernels.offline.resources import resources_of, text_of
from hiprt.kernels.offline.rocm_compiler import Rocm, RocmCompiler, labelled
from hiprt.kernels.ops.quantized.qmv_kernels import DOTS, PHASED, dot_instances
from hiprt.kernels.tuning.dots import dots_configuration, dots_of
from hiprt.kernels.tuning.target import make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import ROCM

TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")
EACH = 24  # in the short form one in so many instances is compiled
HEADERS = "hip/hip_runtime_api.h", "hip/hiprtc.h"
# The ends of enumerations move on with each version, and the union has had more members since.
ENDS = ("Max", "MAX", "Tbd", "Range", "RuntimeOther")
GROWN = {"hipLaunchAttributeValue", "hipKernelNodeAttrValue"}


@pytest.fixture(params=SUITES)
def folder(request):
    """An unpacked ROCm, of HIP 6 and of HIP 7."""
    return unpacked(request.param)


def work_of(form, part, folder, root):
    """Programs and targets: every instance for every target in the long form.

    In the usual form each kernel has one target, another by each compiler: for it the instance with the most registers.
    """
    programs = list(enumerate(units([])))
    if form == "usual":
        rows = Report.parse((root / "kernels" / "offline" / "amd_report.txt").read_text()).rows
        registers, kernels = {(row.kernel, row.target): row.vgpr for row in rows}, {}
        for _, unit in programs:
            kernels.setdefault(unit.instance.kernel.name, []).append(unit)
        turns = enumerate(kernels.values(), 2 * list(SUITES).index(folder.name))
        targets = [(alike, TARGETS[i % len(TARGETS)]) for i, alike in turns]
        return [(max(alike, key=lambda unit: registers[unit.name, on]), on) for alike, on in part(targets)]
    if form == "short":
        programs = programs[::EACH]
    every = len(TARGETS) if form == "long" else 1
    return [(unit, TARGETS[(i // EACH + i + j) % len(TARGETS)]) for i, unit in programs for j in range(every)]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_kernel_compiles(folder, form, part, root):
    """Each program becomes a code object for its target, and keeps no register in memory."""
    work, backend = work_of(form, part, folder, root), RocmBackend(folder)
    try:
        rows = {(product.unit.name, product.target): product.resources for product in build(work, backends=(backend,))}
    finally:
        backend.compiler.close()
    assert rows.keys() == {(unit.name, target) for unit, target in work}
    for (name, target), (row,) in rows.items():
        assert (row.kernel, row.target.partition(":")[0]) == (name, target)
        assert 0 < row.vgpr <= 512
        assert row.waves >= 1
    assert {name for (name, _), (row,) in rows.items() if row.spills} == set()


def test_instructions_are_counted(folder):
    """The disassembly of a real compiler's code has what the report counts."""
    backend = RocmBackend(folder)
    unit = next(unit for unit in units([]) if unit.name.startswith("qmv") and "bfloat" in unit.name)
    (product,) = build([(unit, "gfx1201")], backends=(backend,))
    backend.compiler.close()
    (row,) = product.resources
    assert row.wide_loads > 4
    assert row.dots > 4


@pytest.mark.singles
@pytest.mark.parametrize("bits", [4, 2, 3, 5, 6])
@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_decode_products_wait_for_all_loads_once(folder, target, bits):
    """In an iteration of the loop that a real compiler makes, whose jumps are told by the disassembly."""
    template = next(each for each in dot_instances(False) if each["BITS"] == bits)
    name, compiler = DOTS.symbol(template), RocmCompiler(Rocm.find(folder))
    assembly, _ = compiler.compile(DOTS.text("hip", template), name, target)
    compiler.close()
    assert full_waits(text_of(assembly, name)) <= 1


@pytest.mark.parametrize(("target", "units", "wave"), [("gfx942", 304, 64), ("gfx1201", 32, 32)])
def test_products_with_x_in_parts_keep_four_waves(folder, target, units, wave):
    """4B's down of four vectors, with codes of 4 bits and of 8, also where the sums of three tiles are kept."""
    compiler = RocmCompiler(Rocm.find(folder))
    for bits in (4, 8):
        product = Product(2560, 9728, 4, 64, bits, False)
        sharing = dots_of(product, make_target(target, units, wave, ROCM))
        template = {"T": bfloat16, "S": bfloat16, "GROUP": 64, "BITS": bits, "WIDTH": product.width, "ADDED": True}
        template |= {"NORMED": False, "GATED": False, **dots_configuration(product, sharing).template}
        name = PHASED.symbol(template)
        assembly, code = compiler.compile(PHASED.text("hip", template), name, target, ROCM.math_modes["safe"])
        (row,) = resources_of(assembly, code)
        assert (row.spills, row.scratch) == (0, 0)
        assert row.waves >= 4
        assert full_waits(text_of(assembly, name)) <= (
            1 if sharing.held > 32 * sharing.split else sharing.kept_rounds + 1
        )
    compiler.close()


def test_labels_stand_where_jumps_lead():
    """Forwards and backwards; a jump's number is of words behind it."""
    lines = [(0, " s_nop 0"), (4, "s_cbranch_scc1 2"), (8, "\tv_mov_b32_e32 v0, 0x1"), (16, "s_branch 65531")]
    assert labelled([*lines, (20, "s_endpgm")]) == [
        ".LBB0_0:",
        "\ts_nop 0",
        "\ts_cbranch_scc1 .LBB0_16",
        "\tv_mov_b32_e32 v0, 0x1",
        ".LBB0_16:",
        "\ts_branch .LBB0_0",
        "\ts_endpgm",
    ]


def test_errors_of_the_real_compiler_are_shown(folder, tmp_path):
    """With its own lines; a compiler whose process has ended is named."""
    compiler = RocmCompiler(Rocm.find(folder))
    with pytest.raises(CompileError, match="use of undeclared identifier 'missing'"):
        compiler.compile('extern "C" __global__ void k(int *x) { *x = missing; }', "wrong.hip", "gfx942")
    source = tmp_path / "wrong.hip"
    source.write_text("nonsense")
    backend = RocmBackend(folder)
    with pytest.raises(CompileError, match="wrong"):
        list(build([(Unit("wrong", path=source), "gfx942")], backends=(backend,)))
    backend.compiler.close()
    compiler.thread.process.kill()
    with pytest.raises(ProviderError, match=rf"hiprtc of HIP {SUITES[folder.name]}.*its process ended"):
        compiler.ask({})
    compiler.close()


def test_the_command_compiles_with_it(folder, tmp_path, capsys):
    """``hiprt compile --rocm``; the report says which compiler made it."""
    import argparse

    source = tmp_path / "square.hip"
    source.write_text('extern "C" __global__ void square(float *x) { x[threadIdx.x] *= x[threadIdx.x]; }')
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    given = ["--rocm", str(folder), "--target", "gfx1151,gfx942", str(source)]
    assert command.run(parser.parse_args([*given, "--report"])) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"# hiprtc of HIP {SUITES[folder.name]}")
    assert [line.split()[:2] for line in lines[2:]] == [["square", "gfx1151"], ["square", "gfx942"]]


def test_folders_without_a_rocm_are_refused(tmp_path):
    """With what to name instead; a target of another kind has nothing of a ROCm."""
    with pytest.raises(ProviderError, match="name an installed ROCm"):
        Rocm.find(tmp_path)
    for name in ("libamdhip64.so.7", "libhiprtc.so.6", "libamd_comgr.so.3"):
        (tmp_path / "lib").mkdir(exist_ok=True)
        (tmp_path / "lib" / name).touch()
    with pytest.raises(ProviderError):
        Rocm.find(tmp_path)
    (tmp_path / "lib" / "libhiprtc.so.7").touch()
    found = Rocm.find(tmp_path)
    assert (found.version, found.hiprtc.name) == ("7", "libhiprtc.so.7")


OPENED = """
import json, sys
from pathlib import Path
from hiprt import library, provider
from hiprt.core import ffi, lib, failure
path = Path(sys.argv[1])
hiprtc = provider.beside(path, "libhiprtc.so")
tried = []
chosen = library.open_library(provider.ROCM, provider.Files(path, hiprtc, hiprtc), tried)
count = ffi.new("int *")
status = lib.hipGetDeviceCount(count)
library.chosen = chosen
from hiprt import compiler
compiler.open_compiler()
version = ffi.new("int[2]")
compiled = lib.hiprtcVersion(version, version + 1)
error = str(failure(status))
python = repr(library.hip().hipGetDeviceCount()[0])
print(json.dumps([chosen.version, str(hiprtc), status, error, compiled, python, tried]))
"""


def test_the_runtime_opens_and_names_what_is_missing(folder):
    """The C core and hip-python use its library; without a GPU every function that is needed is there, and says so."""
    pytest.importorskip("rocm.bindings")
    rocm = Rocm.find(folder)
    version, hiprtc, status, error, compiled, python, tried = json.loads(run(folder, OPENED, rocm.hip))
    assert f"{version // 10**7}." == SUITES[folder.name]
    assert hiprtc == str(rocm.hiprtc)
    assert (status, compiled, tried) == (100, 0, [])
    assert "hipErrorNoDevice (100)" in error
    assert "hipErrorNoDevice" in python
    asked = run(folder, provider.PROBE, rocm.hip).split()
    assert asked == ["100", str(version), "0"]  # the status, named as hipErrorNoDevice where the library is refused


def test_doctor_says_what_it_found(folder):
    """The runtime of the folder with the reason why it is not used, and the CPU device that serves instead."""
    code = "from hiprt.doctor import diagnose, render\nprint(render(diagnose()))"
    hip = Rocm.find(folder).hip
    text = run(folder, code, HIPRT_HIP_LIB=str(hip), HIPRT_PROVIDER="auto")
    assert f"rocm {hip}: this machine has no AMD GPU" in text or f"rocm {hip}: it sees no GPU" in text


def test_headers_declare_what_ours_do(folder, root):
    """Sizes and offsets of every structure, and the values of every enumerator, that the version has."""
    ours = declared(root / "hiprt" / "native" / "include", *HEADERS)
    theirs = declared(folder / "root" / "usr" / "include", *HEADERS)
    structures = {name: each for name, each in ours[0].items() if name in theirs[0]}
    assert len(structures) > 40
    assert {"hipDeviceProp_tR0600", "hipKernelNodeParams", "hipMemPoolProps", "hipMemsetParams"} <= structures.keys()
    for name, (size, members) in structures.items():
        their_size, their_members = theirs[0][name]
        shared = {member: at for member, at in members.items() if member in their_members} if name in GROWN else members
        assert {member: their_members.get(member) for member in shared} == shared, name
        assert size >= their_size if name in GROWN else size == their_size, name
    values = {name: value for name, value in ours[1].items() if name in theirs[1] and not name.endswith(ENDS)}
    assert len(values) > 400
    assert {name: theirs[1][name] for name in values} == values


def test_the_script_says_why_it_cannot(root):
    """Wrong suites and missing tools end it with one line."""
    script = root / "kernels" / "offline" / "rocm.sh"
    for arguments, text in (((), "rocm.sh DIR sid"), (("x", "bookworm"), "bookworm is not sid or experimental")):
        child = subprocess.run([script, *arguments], capture_output=True, text=True, check=False)
        assert child.returncode == 2
        assert text in child.stderr
    child = subprocess.run(
        ["/bin/bash", script, "x", "sid"], capture_output=True, text=True, check=False, env={"PATH": "/nonexistent"}
    )
    assert (child.returncode, VARIABLE) == (1, "ROCM_UNPACKED")
    assert "Debian's packages cannot be had" in child.stderr
