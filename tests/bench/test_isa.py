"""Kernels executed as AMD machine code: what the committed table covers, and what is given to the emulator."""

import json
import struct
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import numpy as np
import pytest

from hiprt import kernels
from hiprt.__main__ import main
from hiprt.bench.isa import kernels as isa
from hiprt.bench.isa.attention_cases import heads
from hiprt.bench.isa.case import Case
from hiprt.bench.isa.emulator import load, mend, pack
from hiprt.bench.isa.kernels import STEPS, TARGETS, launch_of, measured, table, written
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.offline.catalogue import instances
from hiprt.kernels.offline.code_object import CodeObject
from hiprt.kernels.tuning.target import force_generic

SOURCE = """
extern "C" __global__ void scale(const float* x, char c, double by, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.y < gridDim.y) y[i] = x[i] * by + c;
}
"""

# The emulator's ways to tell a half of a register, and how it finds what a product is added to.
WRONG = """
def _load_vsrc0(inst, bits, off):
  if bits['s0'] == 16:  # hi half
    return off >= 384
  return False
def _compile_vop12(inst, bits, off):
  write_hi_half = bits['d'] == 16 and (off >= 128)
  return write_hi_half
def _compile_vopc(inst, bits, off):
  if bits['s0'] == 16:
    return off >= 128
  else:
    return False
def _compile_wmma(inst, ctx):
  src2_r, lane, vgpr = ctx.inst_field(type(inst).src2), 0, 1
  src2_r = (src2_r >= 256).where(src2_r - 256, src2_r)
  return ctx.rvgpr_dyn(src2_r + _c(vgpr), UOp.const(lane, dtypes.int))
_INST_HANDLERS = {"VOP1": _compile_vop12, "VOP2": _compile_vop12, "VOPC": _compile_vopc, "WMMA": _compile_wmma}
"""


@pytest.fixture(scope="module", params=TARGETS)
def code(request):
    """A code object."""
    compiler = Compiler()
    assembly = compiler.assembly(hip_program(SOURCE, "scale.hip"), "scale", request.param)
    return compiler.code_object(assembly, "scale", request.param)


def test_the_table_has_every_kernel_on_every_target(root):
    """A kernel is executed as machine code before it lands: ``hiprt bench isa`` writes the table."""
    tables = [json.loads(file.read_text()) for file in (root / "bench" / "results").glob("*-amd-isa-emulator.json")]
    assert all("not on AMD hardware" in found["where"] for found in tables)
    rows = [row for found in tables for row in found["results"]]
    executed = {(row["kernel"], row["target"]) for row in rows}
    assert executed == {(instance.symbol, target) for instance in instances() for target in TARGETS}
    assert all(row["largest_error"] <= 2**-7 * row["largest_value"] for row in rows)


def test_the_table_is_json():
    read = json.loads(table([], "2026-11-20", "clang"))
    assert (read["date"], read["compiler"], read["results"]) == ("2026-11-20", "clang", [])


@pytest.mark.only("cpu", reason="the emulator executes what the CPU device has launched")
def test_the_command_fails_where_a_result_is_wrong(monkeypatch, capsys):
    """An emulator that does nothing leaves zeros in the result."""

    def leave(*launch):
        for value in launch[-1]:
            if isinstance(value, np.ndarray):
                value.fill(0)

    ones = np.ones(8, np.float32)
    monkeypatch.setattr(isa, "cases", lambda: [Case("8 elements", kernels.add, (ones, ones), np.full(8, 2.0))])
    monkeypatch.setattr(isa, "Emulator", lambda folder: SimpleNamespace(run=leave))
    command = ["bench", "isa", "--tinygrad", "DIR", "--targets", "gfx942,gfx1201"]
    assert main(command) == 1
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["target"], row["largest_error"]) for row in rows] == [("gfx1201", 2.0), ("gfx942", 2.0)]
    assert main([*command, "--kernel", "qmv"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == []


def test_the_command_says_what_the_emulator_needs(monkeypatch, tmp_path, capsys):
    """A folder without an emulator, and a path without clang, are told before anything runs."""
    command = ["bench", "isa", "--tinygrad", str(tmp_path)]
    assert main(command) == 1
    assert f"hiprt: {tmp_path} has no test/mockgpu/amd/emu.py: give a checkout of tinygrad" in capsys.readouterr().err
    emulator = tmp_path / "test" / "mockgpu" / "amd" / "emu.py"
    emulator.parent.mkdir(parents=True)
    emulator.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(command) == 1
    assert "hiprt: clang is not on the path" in capsys.readouterr().err


@pytest.fixture
def mended(tmp_path):
    """The emulator's functions behind `mend`."""
    file = tmp_path / "emu.py"
    file.write_text(WRONG)
    spec = spec_from_file_location("emu", file)
    emu = module_from_spec(spec)
    spec.loader.exec_module(emu)
    mend(emu)
    return emu


@pytest.mark.parametrize(("family", "is_half"), [("cdna", False), ("rdna3", True), ("rdna4", True)])
def test_registers_have_halves_on_rdna_alone(mended, family, is_half):
    """Of 16-bit operands; others have none anywhere."""
    instruction = SimpleNamespace(op=type("Op", (), {"__module__": f"amd.{family}.enum"})())
    handlers = [handler for kind, handler in mended._INST_HANDLERS.items() if kind != "WMMA"]
    for handler in (mended._load_vsrc0, *handlers):
        assert handler(instruction, {"s0": 16, "d": 16}, 400) == is_half
        assert not handler(instruction, {"s0": 32, "d": 32}, 400)


class Number(int):
    """A number that chooses, as the emulator's values do."""

    def __ge__(self, other):
        return Number(int(self) >= other)

    def where(self, yes, no):
        return yes if self else no


@pytest.mark.parametrize(("operand", "read"), [(256 + 130, "v131"), (128, "constant 128"), (242, "constant 242")])
def test_a_product_may_be_added_to_a_constant(mended, operand, read):
    mended._c, mended.UOp, mended.dtypes = int, SimpleNamespace(const=lambda *_: None), SimpleNamespace(int=int)
    context = SimpleNamespace(
        inst_field=lambda field: Number(field),
        rvgpr_dyn=lambda register, lane: f"v{register}",
        rsrc_dyn=lambda code, lane: f"constant {code}",
    )
    instruction = type("Instruction", (), {"src2": operand})()
    assert mended._INST_HANDLERS["WMMA"](instruction, context) == read


@pytest.mark.parametrize(("magnitude", "is_right"), [(0.0, False), (100.0, True)])
def test_roundings_are_relative_to_terms_that_cancel(magnitude, is_right):
    """A sum of terms that cancel is off by roundings of the terms, not of what is left; more than that is wrong."""
    exact = np.array([0.5, 0.25])
    case = Case("two", None, (), exact, magnitude=magnitude)
    off = (exact + 0.9 * STEPS * 2.0**-24 * 100).astype(np.float32)
    assert measured("", case, "", off, off).is_right == is_right
    off = (exact + 1.1 * STEPS * 2.0**-24 * 100).astype(np.float32)
    assert not measured("", case, "", off, off).is_right


def test_the_result_of_a_launch_is_told_from_scratch_that_it_stands_for():
    """An array that stands in for counters and parts, which the launch does not need, is the result all the same."""
    with force_generic():
        case = next(
            case
            for case in heads(np.dtype(np.float16))
            if getattr(case.op, "func", None) is kernels.norm_rope_attention
        )
        launch, result = launch_of(case)
    assert launch.kernel.names[written(launch, result)] == "out"


def test_arguments_lie_where_the_code_reads_them(code):
    (kernel,) = CodeObject(code).kernels
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    block = pack(kernel, [x, np.int8(-3), np.float64(1.5), y], (7, 5, 3), (64, 2, 1))
    assert len(block) == kernel.numbers["kernarg_segment_size"]
    assert struct.unpack_from("<Qb7xdQ", block) == (x.ctypes.data, -3, 1.5, y.ctypes.data)
    at = {argument.kind: argument.offset for argument in kernel.arguments}
    assert struct.unpack_from("<III", block, at["hidden_block_count_x"]) == (7, 5, 3)
    assert struct.unpack_from("<HHHHHH", block, at["hidden_group_size_x"]) == (64, 2, 1, 0, 0, 0)


def test_the_image_has_the_kernel_and_its_descriptor(code):
    image, symbols = load(code)
    (entry,) = struct.unpack_from("<q", image, symbols["scale.kd"] + 16)
    assert symbols["scale.kd"] + entry == symbols["scale"]
    (_, _, kernarg) = struct.unpack_from("<III", image, symbols["scale.kd"])
    assert kernarg == CodeObject(code).kernels[0].numbers["kernarg_segment_size"]
