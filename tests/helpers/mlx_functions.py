"""Functions of MLX's ops, which MLX exports, with what they return: ``python -m helpers.mlx_functions CASE FOLDER``."""

import sys
from pathlib import Path

import mlx.core as mx
import numpy as np

RANDOM = np.random.default_rng(1)
UNARY = (
    *("abs", "exp", "sin", "cos", "tanh", "sigmoid", "square", "floor", "ceil", "round", "sign", "negative", "erf"),
    *("expm1", "logical_not", "tan", "sinh", "cosh", "arcsinh"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "logaddexp", "equal", "not_equal"),
    *("less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"),
)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "divmod")
SIZES = {"group_size": 32, "bits": 4}


def normal(*shape):
    """Return random numbers."""
    return mx.array(RANDOM.normal(size=shape).astype(np.float32))


def unary(x):
    """Ops of one array."""
    above = mx.abs(x) + 1
    made = [getattr(mx, name)(x) for name in UNARY]
    logs = [getattr(mx, name)(above) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "arccosh")]
    return [*made, *logs, mx.arctanh(mx.tanh(x)), mx.stop_gradient(x)]


def binary(x, y):
    """Ops of two arrays, and of three."""
    i, j = x.astype(mx.int32), mx.abs(y.astype(mx.int32)) + 1
    made = [getattr(mx, name)(x, y) for name in BINARY]
    for name in BITS:
        result = getattr(mx, name)(i, j)
        made += result if isinstance(result, (list, tuple)) else [result]
    same = mx.array_equal(x, mx.log(-mx.abs(x)), equal_nan=True)
    return [*made, mx.abs(x) ** y, mx.where(x > y, x, y), same, x + 1, 2 * x, x[:1] + y]


def reductions(x):
    """Sums, extremes, orders."""
    sums = [mx.sum(x), mx.sum(x, axis=1), mx.prod(x, axis=0), mx.mean(x, axis=0), mx.var(x, axis=1)]
    extremes = [mx.max(x, axis=1, keepdims=True), mx.min(x), mx.argmax(x, axis=1), mx.argmin(x, axis=0, keepdims=True)]
    truths = [mx.any(x > 1, axis=0), mx.all(x > -9)]
    scans = [mx.cumsum(x, axis=1), mx.cumsum(x, axis=0, reverse=True, inclusive=False)]
    orders = [mx.sort(x, axis=1), mx.argsort(x, axis=0), mx.topk(x, 8, axis=1)]
    return [*sums, *extremes, *truths, *scans, *orders, mx.logsumexp(x, axis=-1), mx.softmax(x, axis=-1)]


def shapes(x, y):
    """Views, copies and dtypes."""
    views = [x.reshape(4, 6), x.T, x[None], mx.flatten(x), x[1:, ::2], x[::-1], x[:, 3], mx.squeeze(x[None])]
    views += [mx.expand_dims(x, (0, 2)), mx.unflatten(x, 1, (2, 4)), mx.broadcast_to(x[:1], (5, 8))]
    joined = [mx.concatenate([x, y], axis=1), mx.stack([x, y]), *mx.split(x, 2, axis=1), mx.split(x, [1, 3], axis=1)[1]]
    padded = [mx.pad(x, ((1, 2), (0, 1)), constant_values=3.0), mx.repeat(x, 2, axis=0), mx.tile(x, (2, 1))]
    dtypes = [x.astype(mx.float16), x.astype(mx.bfloat16), x.astype(mx.int32), mx.view(x, mx.int32)]
    new = [mx.zeros((2, 3)) + x[0, 0], mx.arange(8) * x, mx.arange(0, 1, 0.125) + x, mx.tri(8) * x[0]]
    return [*views, *joined, *padded, *dtypes, *new]


def indexing(x, indices, start):
    """Reads and writes at indices."""
    order = mx.argsort(x, axis=1)
    taken = [mx.take(x, indices, axis=0), mx.take(x, indices, axis=1), x[indices], x[indices, indices]]
    along = [mx.take_along_axis(x, order, axis=1), mx.put_along_axis(x, order[:, :2], mx.array(0.0), axis=1)]
    parts = [mx.slice(x, start, axes=[0], slice_size=(2, 8)), mx.slice_update(x, x[:1], start, axes=[0])]
    row, rows, columns = mx.array(x), mx.array(x), mx.array(x)
    row[1] = 5.0
    rows[indices] = x
    columns[:, ::2] = x[:, 1::2]
    return [*taken, *along, *parts, row, rows, columns, mx.array(x).at[indices].add(x)]


def products(x, y):
    """Products of matrices."""
    zeros = mx.array([0, 0], mx.uint32)
    sums = mx.addmm(x[:, :3], x, y.T, alpha=2.0, beta=0.5)
    return [x @ y.T, sums, mx.inner(x, y), mx.outer(x[0], y[0]), mx.gather_mm(x[None], y.T[None], zeros, zeros)]


def quantized(x):
    """Quantised matrices, and their products."""
    weight = normal(16, 64)
    packed, two = mx.quantize(weight, **SIZES), mx.quantize(mx.stack([weight, weight * 2]), **SIZES)
    gathered = mx.gather_qmm(x[:, None], *two, rhs_indices=mx.array([1, 0], mx.uint32), **SIZES)
    made = [mx.quantized_matmul(x, *packed, **SIZES), mx.dequantize(*packed, **SIZES), gathered]
    return [*made, *mx.quantize(x, **SIZES)]


def layers(x, q, k):
    """What mlx.nn's layers are made of."""
    norms = [mx.fast.rms_norm(x, x[0], 1e-5), mx.fast.rms_norm(x, None, 1e-5), mx.fast.layer_norm(x, x[0], x[1], 1e-5)]
    turned = [mx.fast.rope(q, dims, traditional=dims == 4, base=10000.0, scale=1.0, offset=3) for dims in (4, 8)]
    masks = (None, "causal", mx.ones((3, 5)) > 0)
    return [*norms, *turned, *(mx.fast.scaled_dot_product_attention(q, k, k, scale=0.3, mask=mask) for mask in masks)]


CASES = {
    "unary": lambda: (unary, normal(3, 8)),
    "binary": lambda: (binary, normal(3, 8), normal(3, 8)),
    "reductions": lambda: (reductions, normal(3, 8)),
    "shapes": lambda: (shapes, normal(3, 8), normal(3, 8)),
    "indexing": lambda: (indexing, normal(3, 8), mx.array([2, 0, -1]), mx.array([1])),
    "products": lambda: (products, normal(3, 8), normal(3, 8)),
    "quantized": lambda: (quantized, normal(2, 64)),
    "layers": lambda: (layers, normal(3, 8), normal(1, 4, 3, 8), normal(1, 2, 5, 8)),
}


def host(array):
    """Return numpy's array, of float32 for bfloat16."""
    return np.array(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)


def main(case, folder):
    """Write the file, and the inputs and outputs."""
    function, *given = CASES[case]()
    state = RANDOM.bit_generator.state
    mx.export_function(str(Path(folder) / "f.mlxfn"), function, *given)
    RANDOM.bit_generator.state = state  # so that constants are the same
    arrays = {f"in{i}": host(each) for i, each in enumerate(given)}
    arrays |= {f"out{i:03}": host(each) for i, each in enumerate(function(*given))}
    np.savez(Path(folder) / "arrays.npz", **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
