"""Bodies compile for AMD GPUs without one: waves of 32 and of 64 lanes."""

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.kernels.offline.amd_compiler import Compiler

SOURCE = """
threadgroup float4 parts[2];
threadgroup bfloat tile[32];
uint i = thread_index_in_threadgroup;
if (i == 0) {
  parts[1] = float4(1.0, float2(2), 3).wzyx;
  tile[i] = T(N);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
complex64_t z = a[elem_to_loc(i, a_shape, a_strides, a_ndim)];
z *= z + 1;
float s = among(z.real);
if (i % 2) s += simd_sum(s);
else s += float(ulong(simd_ballot(i % 4 == 0)));
s += simd_prefix_exclusive_sum(s) + quad_max(s) + simd_shuffle_and_fill_up(s, 1.0f, 3) + float(simd_is_first());
s += tanh(s) + atan2(s, 1.0) + sinpi(s) + popcount(i) + precise::exp(s) + acosh(s) + fmod(s, 2.0) + log1p(s);
s += dot(parts[1], parts[1]) + popcount(uint2(i, 3)).x + float(addsat(int3(i), 5).z);
threadgroup float block[64];
simdgroup_bfloat8x8 m;
simdgroup_load(m, &tile[0], 0);
simdgroup_float8x8 square;
simdgroup_multiply(square, m, simdgroup_float8x8(2.0f));
simdgroup_store(square, block);
s += block[i % 64];
out[thread_position_in_grid.x] = T(s + float(tile[3]) + float(exp(half(s))) + table[1] + float(Limits<T>::max));
"""
HEADER = "constant float table[] = {0.5, 0.25};\ninline float among(float x) { return simd_sum(x) * table[0]; }\n"


@pytest.mark.parametrize("line", [True, False], ids=["line", "box"])
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"])
def test_a_body_compiles(target, line):
    body = Body("probe", ("a",), ("out",), SOURCE, HEADER)
    form = Form(
        (Operand(np.dtype(np.complex64), 2, False),), (hiprt.bfloat16,), (("T", hiprt.bfloat16), ("N", 3), ("B", True))
    )
    assembly = Compiler().assembly(body.hip(form, line=line, threads=256), "probe", target)
    assert f".globl\t{body.symbol(form)}" in assembly
    assert ".vgpr_spill_count: 0" in assembly
