"""Users' bodies give the CPU device's bits through the Apple runner. Never run on Apple hardware."""

import numpy as np
import pytest
from helpers.metal.framework import Metal

import hiprt
from hiprt.errors import CompileError
from hiprt.metal_compat import metal_kernel
from hiprt.metal_compat.apple import MetalStream, Replay, open_device

pytestmark = pytest.mark.only("cpu", reason="what the fake records is run by the CPU device")

RANDOM = np.random.default_rng(1)
# The cases have smaller threadgroups at edges, strides, shapes, templates, few elements, simdgroups, several outputs.
CASES = {
    "exact grid": {
        "source": "uint3 at = thread_position_in_grid;\n"
        "uint3 size = threads_per_threadgroup;\n"
        "out[at.y * threads_per_grid.x + at.x] = a[at.x] * 2.5 + size.x + size.y * 100;",
        "inputs": [RANDOM.random(37, np.float32)],
        "shape": (5, 37),
        "grid": (37, 5, 1),
        "threadgroup": (16, 2, 1),
    },
    "strides": {
        "source": "uint i = thread_position_in_grid.x;\n"
        "out[i] = a[elem_to_loc(i, a_shape, a_strides, a_ndim)] + T(N) * b + c[1];",
        "inputs": [RANDOM.random((3, 2, 7), np.float32), np.float32(3), np.arange(3, dtype=np.float32)],
        "transposed": True,
        "shape": (7, 2, 3),
        "grid": (42, 1, 1),
        "threadgroup": (32, 1, 1),
        "template": [("T", np.dtype(np.float32)), ("N", 3)],
    },
    "simdgroups": {
        "header": "inline float twice(float x) { return x * 2; }\n",
        "source": "uint i = thread_position_in_grid.x;\nthreadgroup float part[2];\n"
        "float total = simd_sum(twice(a[i]));\n"
        "if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = total;\n"
        "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "out[i] = part[0] - (simdgroups_per_threadgroup > 1 ? part[1] : 0.5f);",
        "inputs": [RANDOM.random(96, np.float32)],
        "shape": (96,),
        "grid": (96, 1, 1),
        "threadgroup": (64, 1, 1),
    },
}


def run(case):
    """Call the kernel on this thread's stream."""
    case = dict(case)
    names = list("abc"[: len(case["inputs"])])
    kernel = metal_kernel("probe", names, ["out"], case["source"], case.get("header", ""), not case.get("transposed"))
    inputs = [hiprt.array(x) if np.ndim(x) else x for x in case["inputs"]]
    if case.get("transposed"):
        inputs[0] = inputs[0].T

    def call():
        return kernel(
            inputs=inputs,
            output_shapes=[case["shape"]],
            output_dtypes=[np.dtype(np.float32)],
            grid=case["grid"],
            threadgroup=case["threadgroup"],
            template=case.get("template"),
            init_value=7,
        )[0]

    return call


@pytest.mark.parametrize("name", CASES)
def test_a_body_has_the_same_bits(stream, name):
    with hiprt.use_stream(stream):
        expected = run(CASES[name])().numpy()
    with MetalStream(open_device(1 << 20, Metal(stream))) as apple, hiprt.use_stream(apple):
        call = run(CASES[name])
        np.testing.assert_array_equal(call().numpy(), expected)
        apple.synchronize()
        with apple.record() as recording:
            out = call()
        replay = Replay(recording, apple)
        for _ in range(2):
            replay.launch()
            np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
def test_math_modes(stream, mode):
    with MetalStream(open_device(1 << 20, Metal(stream))) as apple, hiprt.use_stream(apple):
        source = "#ifdef __FAST_MATH__\nout[0] = 1;\n#else\nout[0] = 0;\n#endif\n"
        kernel = metal_kernel("fast", [], ["out"], source, compile_options={"math_mode": mode})
        call = {"output_shapes": [(1,)], "output_dtypes": [np.dtype(np.float32)]}
        (out,) = kernel(inputs=[], grid=(1, 1, 1), threadgroup=(1, 1, 1), **call)
        assert out.item() == (mode == "fast")


@pytest.mark.parametrize("word", ["nothing", "complex64_t(1).real", "Limits<float>::max"])
def test_a_body_that_does_not_compile(stream, word):
    with MetalStream(open_device(1 << 20, Metal(stream))) as apple, hiprt.use_stream(apple):
        kernel = metal_kernel("wrong", [], ["out"], f"out[0] = {word};")
        call = {"output_shapes": [(1,)], "output_dtypes": [np.dtype(np.float32)]}
        with pytest.raises(CompileError, match=rf"Unable to build metal library from source\n.*{word[:6]}"):
            kernel(inputs=[], grid=(1, 1, 1), threadgroup=(1, 1, 1), **call)
