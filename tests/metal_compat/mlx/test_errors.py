"""Wrong arguments raise what MLX raises: the type of the exception, and what it names."""

import numpy as np
import pytest

from hiprt.metal_compat import mlx as mx


def cases():
    a, z, whole = mx.array([1.0, 2.0, 3.0]), mx.array([1 + 2j, 3.0]), mx.array([1, 2, 3])
    return {
        "add text": (ValueError, "add on an mlx.core.array and str", lambda: a + "x"),
        "text times": (ValueError, "multiply on an mlx.core.array and str", lambda: "x" * a),
        "in place": (ValueError, "multiply on an mlx.core.array and list", lambda: a.__imul__([1, 2])),
        "order": (ValueError, "less on an mlx.core.array and str", lambda: a < "x"),
        "add None": (ValueError, "NoneType", lambda: mx.add(a, None)),
        "shapes": (ValueError, r"Shapes \(3\) and \(2\) cannot be broadcast", lambda: a + mx.zeros(2)),
        "matmul": (ValueError, r"\[matmul\] Last dimension", lambda: mx.zeros((2, 3)) @ mx.zeros((2, 3))),
        "matmul of integers": (ValueError, r"\[matmul\] Only real floating", lambda: whole @ whole),
        "bits of floats": (ValueError, "bitwise_and.*no bits", lambda: a & whole),
        "floor": (ValueError, r"\[floor\] Not supported for complex64", lambda: mx.floor(z)),
        "sigmoid": (ValueError, r"\[sigmoid\] Not supported for complex64", lambda: mx.sigmoid(z)),
        "remainder": (ValueError, r"\[remainder\] Not supported for complex64", lambda: z % z),
        "negative of bool": (ValueError, "bool", lambda: -mx.array(True)),
        "overflow": (ValueError, "3000000000 to int32 would result in overflow", lambda: whole + 3_000_000_000),
        "overflow of 8 bits": (ValueError, "300 does not fit uint8", lambda: mx.array([1], mx.uint8) + 300),
        "divide in place": (ValueError, "non-floating", lambda: whole.__itruediv__(1)),
        "reshape": (ValueError, "cannot reshape", lambda: a.reshape(2, 2)),
        "reshape by float": (TypeError, "float", lambda: mx.reshape(a, [3.0])),
        "topk by text": (TypeError, "str", lambda: mx.topk(a, "2")),
        "axis": (IndexError, "Invalid axis 5", lambda: mx.sum(a, 5)),
        "axis is a value, too": (ValueError, "Invalid axis 4", lambda: mx.sort(a, 4)),
        "axis of cumsum": (IndexError, "Invalid axis 4", lambda: mx.cumsum(a, 4)),
        "index": (IndexError, "out of bounds", lambda: a[5]),
        "two indices": (ValueError, "Too many indices", lambda: a[0, 0]),
        "index of no axes": (ValueError, "Too many indices", lambda: mx.array(3)[0]),
        "wide index": (ValueError, "32-bit", lambda: a[2**32]),
        "wide slice": (ValueError, "32-bit", lambda: a[: 2**32]),
        "float index": (ValueError, "Cannot index", lambda: a[1.5]),
        "mask": (ValueError, "boolean indices", lambda: a[mx.array([True, False, True])]),
        "at without index": (ValueError, "Must give indices", lambda: a.at.add(1)),
        "take of nothing": (ValueError, "non-empty take", lambda: mx.take(mx.zeros((4, 0)), mx.array([1]), 1)),
        "float take": (ValueError, "integral", lambda: mx.take(a, mx.array([1.5]))),
        "max of nothing": (ValueError, "zero size", lambda: mx.max(mx.zeros((0, 0)), -1)),
        "uneven": (ValueError, "non-uniform", lambda: mx.array([[1, 2], [3]])),
        "uneven arrays": (ValueError, "non-uniform", lambda: mx.array([a, 1.0])),
        "text": (ValueError, "Invalid type str", lambda: mx.array("x")),
        "negative size": (ValueError, "Negative dimensions", lambda: mx.zeros((-1,))),
        "large size": (OverflowError, "2147483648", lambda: mx.zeros(2**31)),
        "large reshape": (OverflowError, "2147483648", lambda: mx.reshape(a, [2**31])),
        "large broadcast": (OverflowError, "2147483648", lambda: mx.broadcast_to(a, [2**31, 1])),
        "large join": (OverflowError, "3221225472", lambda: mx.concatenate([mx.zeros(2**30)] * 3)),
        "repeats": (ValueError, "negative", lambda: mx.repeat(a, -1)),
        "eye": (ValueError, "positive", lambda: mx.eye(-2)),
        "step": (ValueError, "step", lambda: mx.arange(0, 5, 0)),
        "pad": (ValueError, "padding mode", lambda: mx.pad(a, 1, mode="wrap")),
        "pad of nothing": (ValueError, "empty", lambda: mx.pad(mx.zeros(0), 2, mode="reflect")),
        "joined axes": (ValueError, "dimensions 2 and 1", lambda: mx.concatenate([mx.zeros((2, 2)), mx.zeros(3)])),
        "several as one": (ValueError, "length-1", lambda: float(a)),
        "format": (TypeError, "format string", lambda: f"{a:.2f}"),
        "asarray": (ValueError, "copy", lambda: mx.asarray(a, copy=False)),
        "reversed": (ValueError, "Negative strides", lambda: mx.from_dlpack(np.arange(5.0)[::-1])),
        "bfloat16 for numpy": (ValueError, "bfloat16", lambda: np.array(mx.zeros(2, mx.bfloat16))),
        "no dtypes": (ValueError, "At least one", lambda: mx.result_type()),
        "save": (NotImplementedError, "not part of a decode runtime", lambda: mx.save_gguf("x.gguf", {})),
        "svd": (NotImplementedError, "linalg.svd is not part of a decode runtime", lambda: mx.linalg.svd(a)),
        "fft": (NotImplementedError, "fft.fft is not part of a decode runtime", lambda: mx.fft.fft(a)),
        "grad": (NotImplementedError, "grad is not part of a decode runtime", lambda: mx.grad(lambda x: x)(a)),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_raises(name):
    kind, message, wrong = CASES[name]
    with pytest.raises(kind, match=message):
        wrong()


def test_errors_leave_arrays_as_they_were():
    a = mx.array([1, 2, 3])
    for _, _, wrong in CASES.values():
        with pytest.raises(Exception):  # noqa: B017, PT011
            wrong()
    assert (a + 1).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"output_shapes": [(1.5,)]}, "`output_shapes` must hold sequences of integers"),
        ({"output_shapes": [3]}, "`output_shapes` must hold sequences of integers"),
        ({"template": {"T"}}, "`template` must be a list of names and values"),
        ({"grid": 3}, "`grid` must be three integers"),
        ({"threadgroup": (1, 1)}, "`threadgroup` must be three integers"),
    ],
)
def test_what_no_kernel_takes(wrong, said):
    kernel = mx.fast.metal_kernel("wrong_calls", ["x"], ["y"], "y[0] = x[0];")
    right = {"output_shapes": [(1,)], "output_dtypes": [mx.float32], "grid": (1, 1, 1), "threadgroup": (1, 1, 1)}
    with pytest.raises(TypeError, match=said):
        kernel(inputs=[mx.zeros(1)], **right | wrong)
