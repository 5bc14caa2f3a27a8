"""Ops of arrays against numpy."""

import numpy as np
import pytest

from hiprt.metal_compat import mlx as mx

X = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
V = np.array([3.0, 1.0, 2.0], np.float32)
CASES = {
    "sum": lambda m, x: m.sum(x, axis=(0, 2)),
    "mean": lambda m, x: m.mean(x, axis=1),
    "var": lambda m, x: m.var(x, axis=-1, ddof=1),
    "std": lambda m, x: m.std(x),
    "median": lambda m, x: m.median(x, axis=1),
    "argmax": lambda m, x: m.argmax(x),
    "cumsum": lambda m, x: m.cumsum(x, axis=1),
    "cumprod": lambda m, x: m.cumprod(x, axis=2),
    "tril": lambda m, x: m.tril(x, 1),
    "triu": lambda m, x: m.triu(x, -1),
    "diag": lambda m, x: m.diag(x[0, 0], 1),
    "diagonal": lambda m, x: m.diagonal(x, 1, 0, 2),
    "pad": lambda m, x: m.pad(x, [(1, 0), (0, 2), (1, 1)]),
    "edge": lambda m, x: m.pad(x, [(1, 0), (0, 2), (1, 1)], mode="edge"),
    "tile": lambda m, x: m.tile(x, (2, 1, 3)),
    "repeat": lambda m, x: m.repeat(x, 3, 1),
    "roll": lambda m, x: m.roll(x, (1, -2), (0, 2)),
    "flat roll": lambda m, x: m.roll(x, 5),
    "stack": lambda m, x: m.stack([x, x], 1),
    "split": lambda m, x: m.concatenate(m.split(x, [1, 3], 2)[1:], 2),
    "moveaxis": lambda m, x: m.moveaxis(x, 0, 2),
    "einsum": lambda m, x: m.einsum("bij,bkj->kbi", x, x),
    "trace": lambda m, x: m.einsum("iij->j", x[:, :2]),
    "dots": lambda m, x: m.einsum("...ij,...kj->...ik", x, x),
    "tensordot": lambda m, x: m.tensordot(x, x, [[0, 2], [0, 2]]),
    "outer": lambda m, x: m.outer(x[0, 0], x[1, 1]),
    "inner": lambda m, x: m.inner(x, x),
    "kron": lambda m, x: m.kron(x[0], x[1]),
    "eye": lambda m, x: m.eye(3, 4, 1) + 0 * x[0],
    "linspace": lambda m, x: m.linspace(0, 1, 4) + 0 * x[0],
    "where": lambda m, x: m.where(x > 0, x, 0),
    "clip": lambda m, x: m.clip(x, -0.5, 0.5),
    "round": lambda m, x: m.round(x, 1),
    "argsort": lambda m, x: m.argsort(x, axis=1),
    "reshape": lambda m, x: x.transpose(2, 0, 1).reshape(4, -1),
    "floor_divide": lambda m, x: x // 0.3,
    "remainder": lambda m, x: x % 0.3,
    "reflected": lambda m, x: (1 - x) / (2 + x * x) ** 2,
    "norm": lambda m, x: m.linalg.norm(x, axis=-1),
    "angles": lambda m, x: m.arctan2(x, x[::-1]) + m.arctan(x) + m.arcsin(m.tanh(x)) + m.arccos(m.tanh(x)),
    "hyperbolic": lambda m, x: m.sinh(x) + m.cosh(x) + m.arcsinh(x) + m.arccosh(1 + m.abs(x)) + m.arctanh(m.tanh(x)),
    "tan": lambda m, x: m.tan(x / 4),
    "degrees": lambda m, x: m.degrees(x) + m.radians(x),
    "trunc": lambda m, x: m.trunc(3 * x),
    "divmod": lambda m, x: m.stack(m.divmod(x, 0.7)),
    "logical_xor": lambda m, x: m.logical_xor(x > 0, x > 0.5),
    "infinite": lambda m, x: m.isposinf(m.log(0 * x)) | m.isneginf(m.log(m.abs(0 * x))),
    "nan_to_num": lambda m, x: m.nan_to_num(m.sqrt(x), nan=2.0, posinf=3.0),
    "flip": lambda m, x: m.flip(x, (0, 2)) - m.flip(x),
    "unstack": lambda m, x: m.concatenate(m.unstack(x, axis=1), 0),
    "matrix_transpose": lambda m, x: m.matrix_transpose(x),
    "diff": lambda m, x: m.diff(x, 2, 1),
    "count_nonzero": lambda m, x: m.count_nonzero(x > 0, axis=1),
    "vecdot": lambda m, x: m.vecdot(x, x, axis=1),
    "searchsorted": lambda m, x: m.searchsorted(m.sort(x.reshape(-1)), x[0].T, side="right"),
    "windows": lambda m, x: m.stack([m.hanning(7), m.hamming(7), m.blackman(7), m.bartlett(7)]),
    "open linspace": lambda m, x: m.linspace(0, 10, 5, False),
    "meshgrid": lambda m, x: m.stack(m.meshgrid(x[0, 0], x[0, :, 0])),
    "array_equal": lambda m, x: m.array_equal(x, x),
    "allclose": lambda m, x: m.allclose(x, x + 1e-9),
}


def theirs(name):
    """What numpy computes; where it warns of what is no number, that is the case."""
    with np.errstate(all="ignore"):
        return CASES[name](np, X)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name):
    found, expected = np.array(CASES[name](mx, mx.array(X))), theirs(name)
    assert found.shape == np.shape(expected)
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda: mx.array(1), "int32"),
        (lambda: mx.array([2**40]), "int64"),
        (lambda: mx.array(np.float64(1)), "float32"),
        (lambda: mx.array([True, False]), "bool"),
        (lambda: mx.array([1, 2]) + 1.5, "float32"),
        (lambda: mx.array([1, 2], mx.uint8) + 1, "uint8"),
        (lambda: mx.array([1.0], mx.float16) * 2.5, "float16"),
        (lambda: mx.array([1.0], mx.float16) * mx.array(2.5), "float32"),
        (lambda: mx.array([1.0], mx.bfloat16) + mx.array([1.0], mx.float16), "float32"),
        (lambda: mx.array([1], mx.int8) + mx.array([1], mx.uint8), "int16"),
        (lambda: mx.array([1]) / 2, "float32"),
        (lambda: mx.arange(3), "int32"),
        (lambda: mx.arange(3.0), "float32"),
        (lambda: mx.argmax(mx.array([1.0, 2.0])), "uint32"),
    ],
)
def test_dtypes_are_those_of_mlx(made, dtype):
    assert made().dtype is getattr(mx, dtype if dtype != "bool" else "bool_")


def test_updates_in_place_keep_the_name():
    a = b = mx.array([1.0, 2.0])
    a += 1
    assert a is b
    assert b.tolist() == [2, 3]


def test_convolutions_are_sums_over_windows():
    x, w = X, np.random.default_rng(2).standard_normal((4, 2, 1)).astype(np.float32)
    expected = sum(x[:, j : j + 2] * w[:, j, 0] for j in range(2))
    assert np.allclose(np.array(mx.conv1d(mx.array(x), mx.array(w), groups=4)), expected, atol=1e-5)
    w = np.random.default_rng(2).standard_normal((6, 2, 2)).astype(np.float32)
    halves = [sum(x[:, j : j + 2, 2 * g : 2 * g + 2] @ w[3 * g : 3 * g + 3, j].T for j in range(2)) for g in range(2)]
    found = np.array(mx.conv1d(mx.array(x), mx.array(w), groups=2))
    assert np.allclose(found, np.concatenate(halves, 2), atol=1e-5)


def test_what_is_no_part_says_so():
    for call in (lambda: mx.grad(abs), lambda: mx.linalg.svd(mx.eye(2)), lambda: mx.fft.fft(mx.eye(2))):
        with pytest.raises(NotImplementedError, match="not part of a decode runtime"):
            call()


def test_functions_of_numpy_take_arrays():
    x, host = mx.array(X), X.copy()
    assert isinstance(np.abs(x), np.ndarray)
    np.testing.assert_array_equal(np.exp(x), np.exp(X))
    assert isinstance(host + x, mx.array)
    assert isinstance(np.float32(2) * x, mx.array)
    assert np.all(mx.array([True, True]))
    assert not np.any(mx.array([False]))
    with pytest.raises(ValueError, match="out must be None"):
        x.all(out=host)


def test_dtypes_have_kinds():
    assert mx.isdtype(mx.int8, "integral")
    assert mx.isdtype(mx.bfloat16, ("bool", "real floating"))
    assert not mx.isdtype(mx.bool_, "numeric")
    assert mx.can_cast(mx.int8, mx.int16)
    assert not mx.can_cast(mx.array(1.0), mx.float16)
    with pytest.raises(ValueError, match="'real' is not a kind"):
        mx.isdtype(mx.int8, "real")


def test_an_array_is_kept_where_nothing_changes():
    x = mx.array([1.0, 2.0])
    assert mx.asarray(x) is x
    assert mx.asarray(x, copy=True) is not x
    assert mx.asarray([1, 2], mx.float16).dtype == mx.float16
    assert mx.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="a copy is needed"):
        mx.asarray([1, 2], copy=False)


def test_the_median_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no elements"):
        mx.median(mx.zeros((0, 3)), axis=0)
    assert np.isnan(mx.median(mx.array([1.0, np.nan, 0.0])).item())
