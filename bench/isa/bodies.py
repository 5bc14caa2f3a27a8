"""Users' Metal bodies are executed as AMD machine code: operations among lanes, matrices, functions of integers.

    python -m hiprt.bench.isa.bodies --tinygrad DIR [--targets gfx1151,gfx1201,gfx942]

prints a line for each body and target. The results are compared, bit by bit, with those of the CPU device. No lane of
these bodies is switched off: the emulator lets such lanes of the upper half of 64 take part in a permute.
"""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.array import empty
from hiprt.bench.isa.emulator import Emulator
from hiprt.bench.isa.kernels import TARGETS
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.metal_compat.program_cache import ProgramCache
from hiprt.stream import Stream, use_stream

__all__ = ["BODIES", "Case", "main"]

LANES = """
int i = int(thread_index_in_threadgroup);
int v = simd_prefix_inclusive_sum(i) + 7 * quad_prefix_exclusive_product(i % 3 + 1);
v = simd_shuffle_and_fill_up(v, -i, 3) + simd_shuffle_down(v, 5) * int(simd_is_first()) + quad_max(i) * 9;
v += (simd_all(i < 40) ? 1000 : 0) + int(uint(ulong(simd_ballot(i % 3 == 0)))) + simd_broadcast_first(i);
out[thread_position_in_grid.x] = v + int(thread_index_in_simdgroup * simdgroups_per_threadgroup);
"""
MATRICES = """
threadgroup float tile[64];
uint group = simdgroup_index_in_threadgroup;
simdgroup_float8x8 left, right, sum = make_filled_simdgroup_matrix<float, 8, 8>(0.5f), two = simdgroup_float8x8(2.0f);
simdgroup_load(left, a, 12, ulong2(group, 1));
simdgroup_load(right, a, 12, ulong2(1, group), true);
simdgroup_multiply_accumulate(sum, left, right, sum);
if (group == 0) simdgroup_store(sum, tile, 8, 0, true);
threadgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_load(left, &tile[0]);
simdgroup_multiply(right, left, two);
simdgroup_multiply_accumulate(sum, sum, two, right);
simdgroup_store(sum, out + 64 * group);
"""
INTEGERS = """
int i = int(thread_position_in_grid.x) * 0x01234567;
int2 v = int2(i, ~i);
long w = long(i) << 29;
v = rotate(addsat(v, v.yx), int2(5)) ^ mulhi(v, v) ^ madsat(v, v, v) ^ int2(clz(uint2(v))) ^ reverse_bits(v);
w = addsat(w, w << 3) ^ mulhi(w, w) ^ madsat(w, long(i), w) ^ subsat(w << 7, -w) ^ hadd(w, long(i));
v.x = extract_bits(v, 3, 20).x + insert_bits(v, v.yx, 5, 7).y + int(absdiff(v, 9).x);
out[thread_position_in_grid.x] = v.x + int(w ^ w >> 32);
"""


@dataclass(frozen=True)
class Case:
    """A body and one call of it; it has an input where `reads` says so."""

    source: str
    threads: int
    group: int
    elements: int
    word: str = "int32"
    reads: bool = False
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        inputs = (Operand(np.dtype(np.float32), 2, False),) if self.reads else ()
        object.__setattr__(self, "form", Form(inputs, (np.dtype(self.word),)))

    def body(self, name: str) -> Body:
        """Return the body of `metal_kernel` under this name."""
        return Body(name, ("a",) if self.reads else (), ("out",), self.source)


BODIES = {
    "lanes": Case(LANES, 192, 96, 192),
    "matrices": Case(MATRICES, 64, 64, 128, "float32", reads=True),
    "integers": Case(INTEGERS, 96, 64, 96),
}


def on_device(name: str, case: Case, stream: Stream) -> NDArray[Any]:
    """Run a body on the device in use; return its output."""
    given = [empty(x.shape, x.dtype, stream) for x in inputs(case)]
    for array, values in zip(given, inputs(case)):
        array.set(values)
    out = empty((case.elements,), np.dtype(case.word), stream)
    ProgramCache(case.body(name), "safe").launch(
        stream, case.form, (case.threads, 1, 1), (case.group, 1, 1), given, [out]
    )
    return out.numpy()


def inputs(case: Case) -> list[NDArray[Any]]:
    """Return the inputs of a body."""
    return [np.random.default_rng(1).normal(size=(12, 12)).astype(np.float32)] if case.reads else []


def on_amd(name: str, case: Case, target: str, emulator: Emulator, compiler: Compiler) -> NDArray[Any]:
    """Execute a body as machine code; return its output."""
    body = case.body(name)
    symbol, text = body.symbol(case.form), body.hip(case.form, line=True, threads=256)
    code = compiler.code_object(compiler.assembly(text, symbol, target), symbol, target)
    out = np.zeros(case.elements, case.word)
    extent = np.frombuffer(struct.pack("<6I", case.threads, 1, 1, case.group, 1, 1), np.dtype("V24"))[0]
    groups = (-(-case.threads // case.group), 1, 1)
    emulator.run(code, symbol, groups, (case.group, 1, 1), [*inputs(case), out, extent])
    return out


def main() -> int:
    """Run as ``python -m hiprt.bench.isa.bodies``; fails where a number differs."""
    parser = argparse.ArgumentParser("hiprt.bench.isa.bodies", description="Metal bodies executed as AMD machine code")
    parser.add_argument("--tinygrad", metavar="DIR", required=True, help="a checkout of github.com/tinygrad/tinygrad")
    parser.add_argument("--targets", metavar="LIST", default=",".join(TARGETS), help="by comma")
    options = parser.parse_args()
    emulator, compiler = Emulator(options.tinygrad), Compiler()
    right = True
    with Stream() as stream, use_stream(stream):
        for name, case in BODIES.items():
            expected = on_device(name, case, stream)
            for target in options.targets.split(","):
                got = on_amd(name, case, target, emulator, compiler)
                unlike = int((got.view(np.uint32) != expected.view(np.uint32)).sum())
                right &= unlike == 0
                print(f"{'right' if unlike == 0 else 'WRONG'} {name} {target}: {unlike} of {got.size} numbers differ")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
