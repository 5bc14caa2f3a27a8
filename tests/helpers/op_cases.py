"""A call of every op of the package, with operands whose rows do not depend on each other."""

from dataclasses import dataclass

import numpy as np

import hiprt
from hiprt import kernels
from hiprt.kernels.reference.quantize import quantize

FLOAT, INT, UINT = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint32)
CODE = np.dtype(np.int8)


def repeated(tile, size, axis):
    """Return an array repeated along an axis, up to a size."""
    times = [1] * tile.ndim
    times[axis] = -(-size // tile.shape[axis])
    return np.tile(tile, times)[(*[slice(None)] * axis, slice(size))]


@dataclass(frozen=True)
class Rows:
    """An operand with an axis of rows, that do not depend on each other.

    Attributes
    ----------
    shape : tuple of int
        Of a row.
    dtype : dtype
    top : int
        Whole numbers are below it.
    axis : int
        Where rows are counted.
    flat : bool
        Whether that axis is then joined with the one behind it.
    """

    shape: tuple[int, ...] = ()
    dtype: np.dtype = FLOAT
    top: int = 4
    axis: int = 0
    flat: bool = False

    def make(self, rows, period=0):
        """Return random rows; with a period, the first ones repeat."""
        random = np.random.default_rng(len(self.shape) + self.top)
        shape = list(self.shape)
        shape.insert(self.axis, period or rows)
        if self.dtype.kind in "iub":
            made = random.integers(0, self.top, shape).astype(self.dtype)
        else:
            made = random.normal(size=shape).astype(self.dtype)
        if period:
            made = repeated(made, rows, self.axis)
        if self.flat:
            made = made.reshape(*made.shape[: self.axis], -1, *made.shape[self.axis + 2 :])
        return made


@dataclass(frozen=True)
class Joined:
    """An operand of several others along an axis; those without rows are as they are."""

    parts: tuple
    axis: int

    def make(self, rows, period=0):
        """Return random rows of each part, side by side."""
        made = [part.make(rows, period) if isinstance(part, Rows) else part for part in self.parts]
        return np.concatenate(made, self.axis)


def whole(*shape, dtype=FLOAT):
    """Return an operand that all rows share."""
    return np.random.default_rng(5).normal(size=shape).astype(dtype)


def numbers(*values, dtype=INT):
    return np.array(values, dtype)


def matrix(rows, width, stack=None):
    """Return the three parts of a quantized matrix, or of a stack of them, by name."""
    parts = quantize(whole((stack or 1) * rows, width), 64, 4)
    lead = (rows,) if stack is None else (stack, rows)
    return dict(zip(("w", "scales", "biases"), (part.reshape(*lead, -1) for part in parts)))


UNARY = {"a": Rows((5,))}
PAIR = {"a": Rows((5,)), "b": Rows((5,))}
WHOLE = {"a": Rows((5,), INT), "b": Rows((5,), INT)}
REDUCED = {"x": Rows((7,)), "axis": -1}
SORTED = {"a": Rows((7,)), "axis": -1}
ATTENTION = {"q": Rows((2, 32)), "position": Rows((), INT), "scale": 0.5}
# Caches of 8 bits.
CODED = {
    "keys": Rows((1, 4, 64), CODE, 100), "values": Rows((1, 4, 64), CODE, 101),
    "key_scales": Rows((1, 4, 1)), "value_scales": Rows((1, 4, 1), FLOAT, 5),
}  # fmt: skip
STORED = matrix(3, 64)
DELTA = {"q": Rows((2, 1, 8)), "k": Rows((2, 1, 8)), "v": Rows((2, 2, 8))}
UNARIES = (
    "abs arccos arccosh arcsin arcsinh arctan arctanh ceil conjugate cos cosh erf erfinv exp expm1 floor gelu "
    "gelu_approx gelu_fast_approx imag isfinite isinf isnan log log1p log2 log10 logical_not negative real reciprocal "
    "round rsqrt sigmoid sign silu sin sinh softplus sqrt square tan tanh contiguous astype"
)
PAIRS = (
    "add arctan2 complex divide equal floor_divide greater greater_equal less less_equal logaddexp logical_and "
    "logical_or maximum minimum multiply not_equal power remainder subtract"
)
WHOLES = "bitwise_and bitwise_or bitwise_xor left_shift right_shift"
# One kernel text serves loops and GPUs.
ONE_BRANCH = {*UNARIES.split(), *PAIRS.split(), *WHOLES.split()} - {"add"}
# What each op is called with: operands by name.
CASES = {
    **dict.fromkeys(UNARIES.split(), UNARY),
    **dict.fromkeys(PAIRS.split(), PAIR),
    **dict.fromkeys(WHOLES.split(), WHOLE),
    **dict.fromkeys("all any argmax argmin logsumexp max mean min prod softmax sum".split(), REDUCED),
    **dict.fromkeys("argsort cumsum sort".split(), SORTED),
    "contiguous": {"x": Rows((5,))},
    "copy": {"x": Rows((5,))},
    "astype": {"x": Rows((5,)), "dtype": np.float16},
    "bitwise_invert": {"a": Rows((5,), INT)},
    "argpartition": SORTED | {"kth": 2},
    "partition": SORTED | {"kth": 2},
    "topk": SORTED | {"k": 2},
    "where": {"condition": Rows((5,), np.dtype(np.bool_), 2), "x": Rows((5,)), "y": Rows((5,))},
    "clip": UNARY | {"a_min": -0.5, "a_max": 0.5},
    "concatenate": PAIR | {"axis": 1},
    "take": {"a": whole(6, 3), "indices": Rows((), INT), "axis": 0},
    "take_along_axis": {"a": Rows((5,)), "indices": Rows((2,), INT), "axis": 1},
    "put_along_axis": {"a": Rows((5,)), "indices": Rows((1,), INT), "values": Rows((1,)), "axis": 1},
    "scatter": {"a": Rows((5,)), "indices": numbers(3, 1), "updates": Rows((2,)), "axis": 1},
    "scatter_add": {"a": Rows((5,)), "indices": numbers(1, 1), "updates": Rows((2,)), "axis": 1},
    "slice": {"a": Rows((5,)), "start_indices": numbers(1), "axes": [1], "slice_size": lambda rows: (rows, 2)},
    "slice_update": {"a": Rows((5,)), "update": Rows((2,)), "start_indices": numbers(1), "axes": [1]},
    "silu_mul": {"gate": Rows((5,)), "up": Rows((5,))},
    "rms_norm": {"x": Rows((5,)), "weight": whole(5), "eps": 1e-6},
    "layer_norm": {"x": Rows((5,)), "weight": whole(5), "bias": whole(5), "eps": 1e-6},
    "gated_rms_norm": {"x": Rows((5,)), "gate": Rows((5,)), "weight": whole(5), "eps": 1e-6},
    "add_rms_norm": {"x": Rows((5,)), "residual": Rows((5,)), "weight": whole(5), "eps": 1e-6},
    "matmul": {"a": Rows((5,)), "b": whole(5, 3)},
    "rope": {"x": Rows((2, 8)), "position": Rows((), INT), "base": 1e4},
    "kv_write": {"cache": Rows((2, 5, 4)), "x": Rows((2, 4)), "position": Rows((), INT)},
    "norm_rope_write": {
        "qkv": Rows((4 * 8,)), "q_norm": whole(8), "k_norm": whole(8), "position": Rows((), INT),
        "keys": Rows((1, 5, 8)), "values": Rows((1, 5, 8)), "heads": 2, "base": 1e4,
    },
    "norm_rope_attention": {
        "qkv": Rows((4 * 32,)), "q_norm": whole(32), "k_norm": whole(32), "position": Rows((), INT),
        "keys": Rows((1, 5, 32)), "values": Rows((1, 5, 32)), "heads": 2, "base": 1e4, "scale": 0.5,
        "gate": Rows((64,)),
    },
    "attention": ATTENTION | {"keys": Rows((1, 4, 32)), "values": Rows((1, 4, 32)), "gate": Rows((64,))},
    "prefill_attention": ATTENTION | {"keys": whole(1, 4, 32), "values": whole(1, 4, 32), "gate": Rows((64,))},
    "norm_rope_quantize": CODED | {
        "qkv": Rows((4 * 64,)), "q_norm": whole(64), "k_norm": whole(64), "position": Rows((), INT),
        "heads": 2, "base": 1e4,
    },
    "quantized_attention": CODED | {
        "q": Rows((2, 64)), "position": Rows((), INT), "scale": 0.5, "gate": Rows((128,)),
    },
    "dequantize_cache": {"codes": Rows((4, 64), CODE, 100), "scales": Rows((4, 1)), "position": numbers(3)},
    "block_slots": {"table": Rows((3,), INT), "position": Rows((), INT, 40), "block_rows": 16},
    "paged_attention": ATTENTION | {
        "keys": whole(1, 4, 16, 32), "values": whole(1, 4, 16, 32), "table": Rows((2,), INT), "gate": Rows((64,)),
    },
    "conv_step": {"x": Rows((2, 8)), "state": Rows((3, 8)), "weight": whole(8, 4), "bias": whole(8)},
    "gated_delta_gates": {"a": Rows((3,)), "b": Rows((3,)), "a_log": whole(3), "dt_bias": whole(3)},
    "gated_delta": DELTA | {"g": Rows((2, 2)), "beta": Rows((2, 2)), "state": Rows((2, 8, 8))},
    "gdn_step": {
        "proj": Rows((2 * 8 + 2 * 16 + 4,)), "conv_weight": whole(2 * 8 + 16, 4), "conv": Rows((3, 2 * 8 + 16)),
        "a_log": whole(2), "dt_bias": whole(2), "state": Rows((2, 8, 8)), "norm": whole(8),
        "key_heads": 1, "value_heads": 2, "key_width": 8, "value_width": 8,
    },
    "gdn_inputs": {
        "proj": Rows((2 * 8 + 16 + 5,)), "conv_weight": whole(2 * 8 + 16, 4), "conv": Rows((3, 2 * 8 + 16)),
        "a_log": whole(2), "dt_bias": whole(2), "key_heads": 1, "value_heads": 2, "key_width": 8, "value_width": 8,
    },
    "moe_route": {"logits": Rows((8,)), "k": 2},
    "moe_combine": {"y": Rows((2, 8)), "weights": Rows((2,)), "shared": Rows((8,)), "gate": Rows((1,))},
    "moe_gate_up": {"x": Rows((64,)), "indices": Rows((2,), INT), "norm": whole(64)} | matrix(4, 64, 4),
    "moe_down": {"y": Rows((2, 64)), "indices": Rows((2,), INT), "weights": Rows((2,)), "residual": Rows((3,))}
    | matrix(3, 64, 4),
    "quantize": {"w": Rows((64,))},
    "dequantize": {"w": Rows((8,), UINT, 2**32), "scales": Rows((1,)), "biases": Rows((1,))},
    "quantized_embedding": {"ids": Rows((), INT), "weight": STORED["w"]} | {k: STORED[k] for k in ("scales", "biases")},
    "quantized_matmul": {"x": Rows((64,))} | STORED,
    "qmv": {"x": Rows((64,)), "norm": whole(64), "residual": Rows((3,))} | STORED,
    "gather_qmm": {"x": Rows((1, 64)), "rhs_indices": Rows((), INT)} | matrix(3, 64, 4),
    "advance": {"step": Rows((4,), INT, axis=1), "tokens": Rows((6,), INT), "sampled": Rows((), INT)},
    "draft_ngram": {"step": numbers(2, 4, 3, 8), "tokens": numbers(1, 2, 3, 1, 2, 0, 0, 0), "drafts": 3},
    "accept_draft": {
        "step": numbers(2, 4, 3, 8), "tokens": numbers(1, 2, 3, 1, 2, 0, 0, 0), "draft": numbers([2, 3, 1], [4, 5, 6]),
        "chosen": numbers(3, 2, 9), "taken": numbers([0] * 4, [0] * 4), "steps": numbers(1),
    },
    "sample": {
        "logits": Rows((9,)), "temperature": Rows(), "seed": Rows((), UINT), "position": Rows((), INT),
    },
    "filter_logits": {
        "logits": whole(9), "top_k": numbers(3), "top_p": numbers(0.8, dtype=FLOAT), "min_p": numbers(0.1, dtype=FLOAT),
    },
    "repetition_penalty": {
        "logits": whole(9), "tokens": numbers(1, 2, 1), "position": numbers(2), "penalty": numbers(1.5, dtype=FLOAT),
    },
    "arange": {"start": 0, "stop": lambda rows: rows},
    "random_bits": {"key": numbers(3, 5, dtype=UINT), "shape": lambda rows: (rows,)},
}  # fmt: skip


def operands_of(name, rows, part=slice(None)):
    """Return some rows of a call's operands, on the host."""
    count = len(range(rows)[part])
    made = {}
    for key, value in CASES[name].items():
        if isinstance(value, Rows):
            made[key] = value.make(rows)[(*[slice(None)] * value.axis, part)]
        else:
            made[key] = value(count) if callable(value) and not isinstance(value, type) else value
    return made


def call(name, operands):
    """Call an op; return its results and what became of each operand: those with rows with these in front."""
    given = {k: hiprt.array(v) if isinstance(v, np.ndarray) else v for k, v in operands.items()}
    return call_on_device(name, given)


def call_on_device(name, given):
    """Call an op with operands on the device; return what `call` does."""
    axes = {k: getattr(CASES[name][k], "axis", 0) for k, v in given.items() if isinstance(v, hiprt.Array)}
    found = results_of(name, given)
    axes = {id(found[k]): axis for k, axis in axes.items()}
    return {k: v.numpy().swapaxes(0, axes[id(v)]) if axes.get(id(v)) else v.numpy() for k, v in found.items()}


def results_of(name, given):
    """Call an op with operands on the device; return these and, by number, the results."""
    arrays = {k: v for k, v in given.items() if isinstance(v, hiprt.Array)}
    if name == "concatenate":
        given = {"arrays": [given["a"], given["b"]], "axis": given["axis"]}
    results = getattr(kernels, name)(**given)
    results = results if isinstance(results, tuple) else (results,)
    return arrays | {str(i): x for i, x in enumerate(results)}
