"""``mx.fast``: norms, rotary positions, attention and kernels written in Metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.integer import is_recorded
from hiprt.graphs.trace.prefixes import general, prefix_of
from hiprt.metal_compat.call import READERS
from hiprt.metal_compat.metal_kernel import MetalKernel, metal_kernel as body_kernel, run as run_kernel
from hiprt.metal_compat.mlx.array import array, as_array, packed
from hiprt.metal_compat.mlx.dtypes import (
    Dtype,
    bfloat16,
    finfo,
    float16,
    float32,
    floating,
    given,
    integer,
    issubdtype,
    of,
    result_type,
)
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.places import counted, prefix

__all__ = ["layer_norm", "metal_kernel", "rms_norm", "rope", "scaled_dot_product_attention"]

FLOATS = {each.numpy for each in (float16, bfloat16, float32)}
FLOAT32, INT32, BOOL = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_)


def rms_norm(x: array, weight: array | None, eps: float, *, stream: Any = None) -> array:
    """Return `x` divided by the root of the mean of its squares along the last axis, times a weight."""
    if weight is not None and fits_plainly(x.value, weight.value):
        plain: array = apply(kernels.rms_norm, x, weight, float(eps))
        return plain
    check_norm("rms_norm", x, weight)
    kind = x.dtype if weight is None else result_type(x, weight)
    made: array = apply(rms_norm_of, x, weight, float(eps), kind.numpy)
    return made


def fits_plainly(x: Array, weight: Array) -> bool:
    """Whether a norm takes its operands as they are."""
    shape, dtype = x.shape, x.dtype
    return (
        len(shape) > 0
        and weight.shape == shape[-1:]
        and weight.dtype is dtype
        and dtype in FLOATS
        and x.is_contiguous
        and weight.is_contiguous
    )


def rms_norm_of(x: Array, weight: Array | None, eps: float, dtype: np.dtype[Any]) -> Array:
    """Return the norm of operands in a dtype."""
    return kernels.rms_norm(solid(x, dtype), weight if weight is None else solid(weight, dtype), eps)


def layer_norm(x: array, weight: array | None, bias: array | None, eps: float, *, stream: Any = None) -> array:
    """Return `x` with mean 0 and variance 1 along the last axis, times a weight and with a bias added."""
    check_norm("layer_norm", x, weight, bias)
    kind = result_type(x, *(each for each in (weight, bias) if each is not None))
    made: array = apply(layer_norm_of, x, weight, bias, float(eps), kind.numpy)
    return made


def layer_norm_of(x: Array, weight: Array | None, bias: Array | None, eps: float, dtype: np.dtype[Any]) -> Array:
    """Return the norm of operands in a dtype."""
    scale, shift = (None if each is None else solid(each, dtype) for each in (weight, bias))
    if scale is None and shift is not None:
        return kernels.add(kernels.layer_norm(solid(x, dtype), None, None, eps), shift)
    return kernels.layer_norm(solid(x, dtype), scale, shift, eps)


def check_norm(op: str, x: array, *vectors: array | None) -> None:
    """Refuse what MLX refuses."""
    if not x.ndim:
        raise ValueError(f"[{op}] Input must have at least 1 dimension but got input with 0 dimensions.")
    for name, vector in zip(("weight", "bias"), vectors):
        if vector is not None and vector.ndim != 1:
            raise ValueError(f"[{op}] ({name}) must have 1 dimension but has {vector.ndim} dimensions.")
        if vector is not None and vector.size != x.shape[-1]:
            raise ValueError(
                f"[{op}] ({name}) must have the same size as the last dimension of x but has {vector.size} elements."
            )
    if not issubdtype(x.dtype, floating):
        raise ValueError(f"[{op}] Received unsupported type {x.dtype.name}.")


def solid(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return a contiguous array in a dtype."""
    return packed(x if x.dtype == dtype else kernels.astype(x, dtype))


def rope(
    a: array,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: int | array,
    freqs: array | None = None,
    stream: Any = None,
) -> array:
    """Return heads whose first `dims` elements are turned, pair by pair, by their position times a frequency.

    Parameters
    ----------
    a : array, [B, ..., T, D]
    dims : int
    traditional : bool
        Whether pairs are neighbours, instead of half of `dims` apart.
    base : float, optional
        The frequencies are ``base**(-2 i / dims)``; None where `freqs` gives their reciprocals.
    scale : float
        What positions are multiplied by.
    offset : int or array
        The first position, or one for each row.
    freqs : array, optional
    """
    if (base is None) == (freqs is None):
        raise ValueError("[rope] Exactly one of base or freqs must have a value.")
    if a.ndim < 3:
        raise ValueError(f"[rope] Input must have at least 3 dimensions but got input with {a.ndim} dimensions.")
    if not issubdtype(a.dtype, floating):
        raise ValueError(f"[rope] Input must be a floating type but got {a.dtype.name}.")
    first: Any = offset
    if isinstance(offset, array):
        if offset.ndim > 1:
            raise ValueError(f"[rope] offset must have at most one dimension but has shape {offset.shape}.")
        if offset.size not in (1, a.shape[0]):
            raise ValueError(
                f"[rope] offset must be a scalar or vector with {a.shape[0]} elements but has shape {offset.shape}."
            )
        if not issubdtype(offset.dtype, integer):
            raise ValueError(f"[rope] offset must be an integer but got type {offset.dtype.name}.")
    else:
        first = offset if is_recorded(offset) else int(offset)
    if dims <= 0 or dims % 2 or dims > a.shape[-1]:
        raise ValueError(f"[rope] dims must be positive, even and at most {a.shape[-1]} but got {dims}.")
    if freqs is not None and freqs.shape != (dims // 2,):
        raise ValueError(f"[rope] freqs must be one dimensional with size {dims // 2} but got shape {freqs.shape}.")
    if isinstance(first, int):
        first = counted(first)
    if a.shape[0] == 1 and a.shape[-2] == 1 and a.ndim == 4 and scale == 1.0 and base is not None and first.size == 1:
        turned: array = apply(token_rope, a, first, dims, bool(traditional), float(base))
        return turned
    made: array = apply(rope_of, a, dims, bool(traditional), base, float(scale), first, freqs)
    return made


def token_rope(x: Array, position: Array, dims: int, traditional: bool, base: float) -> Array:
    """Return the turned heads of one token, by one kernel."""
    heads = packed(x).reshape(x.shape[1], x.shape[3])
    place = position if position.dtype == INT32 else kernels.astype(position, INT32)
    place = place if place.shape == (1,) else place.reshape(1)
    return kernels.rope(heads, place, base=base, dims=dims, traditional=traditional).reshape(x.shape)


def rope_of(
    x: Array, dims: int, traditional: bool, base: float | None, scale: float, offset: Any, freqs: Array | None
) -> Array:
    """Return turned heads by the steps of MLX's own fallback, each rounded as it rounds."""
    half = dims // 2
    if freqs is not None:
        pace = kernels.reciprocal(freqs)
    else:
        assert base is not None
        pace = kernels.exp(kernels.multiply(numbers(0, -half, -1), float(np.float32(math.log(base) / half))))
    if isinstance(offset, Array):
        start: Any = kernels.astype(offset, FLOAT32)
        start = start.reshape(()) if offset.size == 1 else start.reshape(-1, *(1,) * (x.ndim - 2))
    else:
        start = float(offset)
    places = kernels.multiply(kernels.add(numbers(0, x.shape[-2], 1), start), scale)
    angles = kernels.multiply(places[..., None], pace)
    cos, sin = (kernels.astype(turn(angles), x.dtype) for turn in (kernels.cos, kernels.sin))
    turned = x[..., :dims]
    a, b = (turned[..., ::2], turned[..., 1::2]) if traditional else (turned[..., :half], turned[..., half:])
    left = kernels.subtract(kernels.multiply(a, cos), kernels.multiply(b, sin))
    right = kernels.add(kernels.multiply(a, sin), kernels.multiply(b, cos))
    if traditional:
        both = kernels.concatenate([left[..., None], right[..., None]], -1)
        made = both.reshape(*x.shape[:-1], dims)
        return made if dims == x.shape[-1] else kernels.concatenate([made, x[..., dims:]], -1)
    return kernels.concatenate([left, right] if dims == x.shape[-1] else [left, right, x[..., dims:]], -1)


def numbers(start: int, stop: int, step: int) -> Array:
    """Return whole numbers as float32."""
    return kernels.astype(kernels.arange(start, stop, step), FLOAT32)


def scaled_dot_product_attention(
    q: array,
    k: array,
    v: array,
    *,
    scale: float,
    mask: str | array | None = None,
    sinks: array | None = None,
    force_fused: bool = False,
    stream: Any = None,
) -> array:
    """Return ``softmax(scale * q @ k.T + mask) @ v`` of grouped heads.

    Parameters
    ----------
    q : array, [B, Hq, T, D]
    k, v : array, [B, Hkv, S, D]
    scale : float
    mask : str or array, optional
        ``"causal"``, or an array that broadcasts to [B, Hq, T, S]: bool, where True is seen, or numbers to add.
    sinks : array, [Hq], optional
        Scores that take part in the softmax, and in nothing else.
    """
    if mask is None and sinks is None and is_token(q.value, k.value, v.value):
        (keys, length), (values, _) = prefix(k), prefix(v)
        if keys.shape == values.shape:
            one: array = apply(general, token_attention, q, keys, values, counted(length - 1), float(scale))
            return one
    op = "scaled_dot_product_attention"
    for each in (q, k, v):
        if each.ndim != 4:
            raise ValueError(f"[{op}] input with shape {each.shape} expected to be rank 4")
    if isinstance(mask, str) and mask not in ("", "causal", "array"):
        raise ValueError(f"[{op}] Invalid mask_mode {mask}. mask_mode must be 'causal', 'array' or ''.")
    if isinstance(mask, array) and mask.ndim > 4:
        raise ValueError(f"[{op}] the mask with shape {mask.shape} expected to have at most rank 4.")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(f"[{op}] mismatching batch dimension for input with shape {k.shape}.")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"[{op}] query, keys expected to have matching last dimension; found query shape {q.shape} for keys shape "
            f"{k.shape}."
        )
    if k.shape[1] != v.shape[1]:
        raise ValueError(
            f"[{op}] keys, values expected to have matching n_kv_heads; found keys with n_heads {k.shape[1]} for "
            f"values with n_heads {v.shape[1]}."
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"[{op}] n_heads must be a multiple of n_kv_heads, found n_heads {q.shape[1]} for n_kv_heads {k.shape[1]}."
        )
    kind = q.dtype if q.dtype is k.dtype is v.dtype else result_type(q, k, v)
    if not issubdtype(kind, floating):
        raise ValueError(f"[{op}] Received unsupported type {kind.name}.")
    if isinstance(mask, array) and result_type(mask, kind) is not kind:
        raise ValueError(f"[{op}] Mask type must promote to output type {kind.name}.")
    if sinks is not None and result_type(sinks, kind) is not kind:
        raise ValueError(f"[{op}] Type of sinks must promote to output type {kind.name}.")
    if sinks is not None and sinks.shape != (q.shape[1],):
        raise ValueError(f"[{op}] Received invalid shape for sinks {sinks.shape}.")
    if isinstance(mask, array):
        whole = (*q.shape[:3], k.shape[2])
        if any(n not in (1, size) for n, size in zip(reversed(mask.shape), reversed(whole))):
            raise ValueError(f"[broadcast_shapes] Shapes {mask.shape} and {whole} cannot be broadcast.")
    seen = mask if isinstance(mask, array) else None
    is_causal = isinstance(mask, str) and mask == "causal"
    places, keys, values, seen = every_place(q, k, v, seen)
    made: array = apply(attention_of, q, keys, values, float(scale), is_causal, seen, sinks, kind.numpy, places)
    return made


def every_place(q: array, k: array, v: array, mask: array | None) -> tuple[array | None, array, array, array | None]:
    """Return the number of places of a cache as an array, and all that the cache has of keys, values and a mask.

    Where a cache ends is then no constant of what is computed, which comes again with the next token. None and the
    operands themselves are returned for keys and values that are not the beginning of what caches of one size hold.
    """
    (keys, count), (values, _) = prefix(k), prefix(v)
    capacity = keys.shape[2]
    if (keys is k and q.shape[2] > 1) or values.shape[2] != capacity:
        return None, k, v, mask
    if mask is not None and mask.ndim and mask.shape[-1] != 1:
        found = prefix_of(mask.value)
        all_of = mask.value if found is None else found.whole
        if (found is not None and found.axis != mask.ndim - 1) or all_of.shape[-1] < capacity:
            return None, k, v, mask
        mask = array.around(all_of)
        mask = mask if mask.shape[-1] == capacity else mask[..., :capacity]
    return counted(count), keys, values, mask


def is_token(q: Array, k: Array, v: Array) -> bool:
    """Whether operands are one token's heads and what a cache holds, as one kernel takes them."""
    (rows, heads, count, *width), kept = (*q.shape, 0, 0, 0)[:4], k.shape
    return (
        rows == count == 1
        and q.ndim == len(kept) == 4
        and kept == v.shape
        and kept[0] == 1
        and kept[3:] == tuple(width)
        and 32 <= width[0] <= 256
        and kept[1] > 0
        and kept[2] > 0
        and heads % kept[1] == 0
        and q.dtype is k.dtype is v.dtype
        and q.dtype in FLOATS
    )


def token_attention(q: Array, keys: Array, values: Array, position: Array, scale: float) -> Array:
    """Return the attention of one token to the places of a cache up to a position, by one kernel."""
    heads = packed(q).reshape(q.shape[0], q.shape[1], q.shape[3])
    return kernels.attention(heads, packed(keys), packed(values), position, scale=scale).reshape(q.shape)


def attention_of(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    is_causal: bool,
    mask: Array | None,
    sinks: Array | None,
    dtype: np.dtype[Any],
    places: Array | None,
) -> Array:
    """Return attention by the steps of MLX's own fallback; of keys and values the first `places` are there."""
    q, k, v = (x if x.dtype == dtype else kernels.astype(x, dtype) for x in (q, k, v))
    rows, heads, count, _ = q.shape
    groups, length = k.shape[1:3]
    wide = heads // groups
    q = kernels.contiguous(kernels.multiply(q, float(np.asarray(scale, dtype)))).reshape(rows, groups, wide, count, -1)
    scores = kernels.matmul(q, k[:, :, None].transpose(0, 1, 2, 4, 3))
    if places is None and is_causal:
        mask = kernels.greater_equal(kernels.arange(length - count, length)[:, None], kernels.arange(length))
    elif mask is not None:
        mask = mask if mask.dtype in (BOOL, dtype) else kernels.astype(mask, dtype)
        mask = kernels.broadcast_to(mask, (rows, heads, count, length))
        mask = kernels.contiguous(mask).reshape(rows, groups, wide, count, length)
    if mask is not None:
        hidden = finfo(of(dtype)).min
        scores = kernels.where(mask, scores, hidden) if mask.dtype == BOOL else kernels.add(scores, mask)
    if places is not None:
        ends = kernels.add(places, kernels.arange(1 - count, 1))[:, None] if is_causal else places
        every = kernels.arange(length)
        scores = kernels.where(kernels.less(every, ends), scores, -math.inf)
        v = kernels.where(kernels.less(every, places)[:, None], v, 0.0)  # what lies behind may be no number
    if sinks is not None:
        column = solid(sinks, dtype).reshape(1, groups, wide, 1, 1)
        column = kernels.broadcast_to(column, (rows, groups, wide, count, 1))
        scores = kernels.concatenate([column, scores], -1)
    shares = kernels.softmax(scores, -1)
    made = kernels.matmul(shares if sinks is None else shares[..., 1:], v[:, :, None])
    return kernels.contiguous(made).reshape(rows, heads, count, v.shape[-1])


class Kernel:
    """A kernel that `metal_kernel` made, for arrays of ``mlx.core``."""

    def __init__(self, kernel: MetalKernel) -> None:
        self.kernel = kernel

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, Any]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
    ) -> list[array]:
        """Return the outputs; arguments and messages are those of `hiprt.metal_compat.MetalKernel`."""
        named = tuple((name, plain(value)) for name, value in READERS["template"](template))
        made: list[array] = apply(
            self.run,
            [as_array(each) if isinstance(each, (np.ndarray, list)) else each for each in inputs],
            output_shapes=tuple(READERS["output_shapes"](output_shapes)),
            output_dtypes=tuple(given(each) for each in output_dtypes),
            grid=READERS["grid"](grid),
            threadgroup=READERS["threadgroup"](threadgroup),
            template=named,
            init_value=init_value,
            verbose=verbose,
        )
        return list(made)

    def run(self, inputs: list[Any], **named: Any) -> Any:
        """Record the call."""
        return run_kernel(self.kernel, inputs=inputs, contiguous=self.kernel.ensure_row_contiguous, **named)


def plain(value: Any) -> Any:
    """Return a template's value, with numpy's dtype for one of ours."""
    return value.numpy if isinstance(value, Dtype) else value


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: Any = None,
) -> Kernel:
    """Return a kernel from the body of a Metal function; see `hiprt.metal_compat.metal_kernel`."""
    return Kernel(
        body_kernel(
            name, input_names, output_names, source, header, ensure_row_contiguous, atomic_outputs, compile_options
        )
    )
