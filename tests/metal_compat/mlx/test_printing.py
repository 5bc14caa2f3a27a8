"""Arrays as text, in MLX's form."""

import pytest

from hiprt.metal_compat import mlx as mx

TEXTS = [
    (lambda m: m.array(True), "array(True, dtype=bool)"),
    (lambda m: m.array(1.0), "array(1, dtype=float32)"),
    (lambda m: m.array([1.123456789, 1e10, 1e-10, float("nan"), float("inf"), -0.0]),
     "array([1.12346, 1e+10, 1e-10, nan, inf, -0], dtype=float32)"),
    (lambda m: m.array([1] * 7), "array([1, 1, 1, ..., 1, 1, 1], dtype=int32)"),
    (lambda m: m.zeros((0, 3)), "array([], dtype=float32)"),
    (lambda m: m.zeros((2, 0)), "array([[],\n       []], dtype=float32)"),
    (lambda m: m.array([[1.5, 2], [3, 4]], m.bfloat16), "array([[1.5, 2],\n       [3, 4]], dtype=bfloat16)"),
    (lambda m: m.array([1 + 1j, 1 - 1j, 2.5]), "array([1+1j, 1-1j, 2.5+0j], dtype=complex64)"),
    (lambda m: m.arange(28).reshape(7, 2, 2)[:, :1], "array([[[0, 1]],\n       [[4, 5]],\n       [[8, 9]],\n       ...,"
     "\n       [[16, 17]],\n       [[20, 21]],\n       [[24, 25]]], dtype=int32)"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text"), TEXTS)
def test_text(made, text):
    assert str(made(mx)) == repr(made(mx)) == f"{made(mx)}" == text


@pytest.mark.parametrize(("made", "text"), TEXTS)
def test_text_is_mlx(made, text):
    assert str(made(pytest.importorskip("mlx.core"))) == text


def test_precision():
    x = mx.array([1.123456789, 0.9, -2.0])
    with mx.printoptions(precision=4):
        assert str(x) == "array([1.1235, 0.9000, -2.0000], dtype=float32)"
        with mx.printoptions(2):
            assert str(mx.array(1.006 - 2j)) == "array(1.01-2.00j, dtype=complex64)"
        assert str(mx.array([1])) == "array([1], dtype=int32)"
    assert str(x) == "array([1.12346, 0.9, -2], dtype=float32)"
    mx.set_printoptions(precision=1)
    try:
        assert str(x) == "array([1.1, 0.9, -2.0], dtype=float32)"
    finally:
        mx.set_printoptions()
