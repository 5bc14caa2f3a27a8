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
    "reflect": lambda m, x: m.pad(x, [(1, 0), (0, 7), (5, 1)], mode="reflect"),
    "symmetric": lambda m, x: m.pad(x, [(3, 0), (0, 2), (9, 1)], mode="symmetric"),
    "tile": lambda m, x: m.tile(x, (2, 1, 3)),
    "repeat": lambda m, x: m.repeat(x, 3, 1),
    "roll": lambda m, x: m.roll(x, (1, -2), (0, 2)),
    "rolls of one axis": lambda m, x: m.roll(x, (1, 33), 2) + m.roll(x, 1, (0, 0)),
    "flat roll": lambda m, x: m.roll(x, 5),
    "stack": lambda m, x: m.stack([x, x], 1),
    "split": lambda m, x: m.concatenate(m.split(x, [1, 3], 2)[1:], 2),
    "moveaxis": lambda m, x: m.moveaxis(x, 0, 2),
    "einsum": lambda m, x: m.einsum("bij,bkj->kbi", x, x),
    "trace": lambda m, x: m.einsum("iij->j", x[:, :2]),
    "dots": lambda m, x: m.einsum("...ij,...kj->...ik", x, x),
    "spread einsum": lambda m, x: m.einsum("ab,cb->ca", x[0, :, :1], x[1]),
    "complex einsum": lambda m, x: m.einsum("aij,akj->ik", x * 1j, x + 1j),
    "complex parts": lambda m, x: m.real(x - 2j * x) + m.imag(m.conj(1j * x)) + m.abs(x + 1j),
    "complex products": lambda m, x: (x[0] + 1j) @ (x[1].T * 1j - x[0].T),
    "complex order": lambda m, x: m.sort(m.round(x) + 1j * x, axis=1),
    "complex vecdot": lambda m, x: m.vecdot(x + 1j, x * 1j, axis=2),
    "complex deviation": lambda m, x: m.var(x + 2j * x[::-1], axis=0) + m.std(x * 1j, axis=0),
    "complex norm": lambda m, x: m.linalg.norm(x + 1j, axis=1),
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
    "last axes": lambda m, x: +(x.mT if m is mx else x.swapaxes(1, 2)),
    "along": lambda m, x: m.take_along_axis(x, m.argsort(x, axis=-1), *([] if m is mx else [-1])),
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
        (lambda: mx.diag(mx.array([True, False])), "bool"),
        (lambda: mx.arange(3), "int32"),
        (lambda: mx.arange(3.0), "float32"),
        (lambda: mx.argmax(mx.array([1.0, 2.0])), "uint32"),
    ],
)
def test_dtypes_are_those_of_mlx(made, dtype):
    assert made().dtype is getattr(mx, dtype if dtype != "bool" else "bool_")


def test_a_matrix_of_a_diagonal_has_zeros_beside_it():
    """Also where the first element is no number by which zeros can be made."""
    for first in (np.inf, np.nan):
        host = np.array([first, 1, 2], np.float32)
        np.testing.assert_array_equal(np.array(mx.diag(mx.array(host), -1)), np.diag(host, -1))


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
    with pytest.raises(ValueError, match="avoid copy"):
        mx.asarray([1, 2], copy=False)


def test_numbers_at_equal_distances_take_the_dtype_that_holds_them():
    for bounds in ((2**40, 2**40 + 3), (-(2**31) - 1, -(2**31) + 1), (2**40 + 3, 2**40, -1), (2**31 - 2, 2**31 + 2)):
        made = mx.arange(*bounds)
        assert made.dtype is mx.int64
        assert made.tolist() == list(range(*bounds))
    assert mx.arange(2**31 - 3, 2**31 - 1).dtype is mx.int32
    assert mx.arange(2**31 - 2, 2**31 + 2, dtype=mx.int32).tolist() == [2**31 - 2, 2**31 - 1, -(2**31), -(2**31) + 1]


def test_integers_are_rounded_to_tens():
    x = mx.array([15, 122], mx.int32)
    assert [mx.round(x, n).tolist() for n in (1, 0, -1, -2)] == [[15, 122], [15, 122], [20, 120], [0, 100]]
    assert mx.round(x, -1).dtype is mx.int32


def test_not_a_number_is_behind_all_others():
    line, nan = mx.array([1.0, 2.0, np.nan]), mx.array([np.nan])
    assert mx.searchsorted(line[:2], nan).tolist() == [2]
    assert mx.searchsorted(line, nan).tolist() == [2]
    assert mx.searchsorted(line, nan, side="right").tolist() == [3]
    assert mx.searchsorted(line, mx.array([2.0])).tolist() == [1]


def test_complex_numbers():
    x = mx.array([1 + 2j, 3.0])
    assert (x.dtype, x.real.tolist(), x.imag.tolist(), x.conj().tolist()) == (mx.complex64, [1, 3], [2, 0], [1 - 2j, 3])
    assert (complex(x[0]), mx.array(2.5).imag.item(), mx.array([1]).conj().dtype) == (1 + 2j, 0, mx.int32)
    assert mx.result_type(mx.float64, x) is mx.result_type(1j, mx.float32) is mx.complex64
    assert mx.median(mx.array([1 + 2j, 3 - 4j, 0.5j])).item() == 1 + 2j
    assert (mx.finfo(mx.complex64).dtype, mx.finfo(mx.complex64).bits) == (mx.float32, 32)
    drawn = np.array(mx.random.normal((40_000,), mx.complex64, key=mx.random.key(1)))
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.var() - 1) < 0.02
    theirs = pytest.importorskip("mlx.core")
    drawn = [m.random.normal((2, 3), m.complex64, 1 + 1j, 2.0, m.random.key(7)) for m in (mx, theirs)]
    np.testing.assert_allclose(*map(np.array, drawn), 1e-6)


def test_the_median_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no elements"):
        mx.median(mx.zeros((0, 3)), axis=0)
    assert np.isnan(mx.median(mx.array([1.0, np.nan, 0.0])).item())
