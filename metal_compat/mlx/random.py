"""``mx.random``: MLX's random numbers from keys, with its bits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.dtype import bfloat16 as BFLOAT16  # noqa: N812
from hiprt.metal_compat.mlx import dtypes
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.dtypes import Dtype, float32, floating, inexact, int32, issubdtype
from hiprt.metal_compat.mlx.lazy import apply

__all__ = [
    "bernoulli",
    "categorical",
    "gumbel",
    "key",
    "laplace",
    "multivariate_normal",
    "normal",
    "permutation",
    "randint",
    "seed",
    "split",
    "state",
    "truncated_normal",
    "uniform",
]

FLOAT32, UINT32 = np.dtype(np.float32), np.dtype(np.uint32)
# The largest number below 1 of each dtype.
BELOW_ONE = {FLOAT32: 1 - 2.0**-24, np.dtype(np.float16): 1 - 2.0**-11, BFLOAT16: 1 - 2.0**-8}
ABOVE_MINUS_ONE = float(np.nextafter(np.float32(-1), np.float32(0)))
# MLX's next float above the largest uint32, by which bits that are compared with a probability are scaled.
ALL_BITS = float(np.nextafter(np.float32(2**32 - 1), np.float32(np.inf)))
Number = float | array
Key = array | None


class Keys(threading.local):
    """The key of a thread, from which those of calls without one are split; made from the time at first."""

    def __init__(self) -> None:
        self.state: list[array] = []

    def of_thread(self) -> list[array]:
        """Return the key, in a list."""
        if not self.state:
            self.state.append(key(time.time_ns() // 1_000_000))
        return self.state

    def next(self) -> array:
        """Return a new key, and keep another."""
        state = self.of_thread()
        two: tuple[array, array] = apply(halves, state[0])
        state[0] = two[0]
        return two[1]


keys = Keys()


class RandomState(list[array]):
    """What ``mx.random.state`` is: the list of the calling thread's key, whichever thread calls."""

    def __new__(cls, items: Iterable[array] | None = None) -> Any:
        """Return the state; of items a plain list, which is what a copy of the state is."""
        return super().__new__(cls) if items is None else list(items)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        if index not in (0, -1):
            raise IndexError("random state index out of range")
        return keys.of_thread()[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        keys.of_thread()[index] = value

    def __iter__(self) -> Iterator[array]:
        return iter(list(keys.of_thread()))


state = RandomState()


def seed(seed: int) -> None:
    """Set this thread's key to that of a number."""
    keys.state = [key(seed)]


def key(seed: int) -> array:
    """Return the key of a number: its upper and its lower 32 bits."""
    if not 0 <= int(seed) < 2**64:
        raise TypeError(f"key(): a seed is a number of 64 bits, not {seed}")
    return array(np.array([int(seed) >> 32, int(seed) & 0xFFFFFFFF], np.uint32))


def split(key: array, num: int = 2, stream: Any = None) -> array:
    """Return so many keys made of one, as rows."""
    return bits((num, 2), key)


def halves(key: Array) -> tuple[Array, Array]:
    """Return two keys made of one."""
    words = kernels.random_bits(key, (2, 2))
    return words[0], words[1]


def bits(shape: Sequence[int], key: Key) -> array:
    """Return random words of a shape, from a key or the thread's."""
    made: array = apply(kernels.random_bits, checked_key(key), checked_shape(shape))
    return made


def checked_key(key: Key) -> array:
    """Return a key, the next of the thread where none is given."""
    if key is None:
        return keys.next()
    if key.dtype is not dtypes.uint32:
        raise ValueError(f"[bits] Expected key type uint32 but received {key.dtype.name}.")
    if key.shape != (2,):
        raise ValueError(f"[bits] Expected key shape (2) but received {listed(key.shape)}.")
    return key


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without negative lengths."""
    made = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in made):
        raise ValueError("[bits] Negative dimensions not allowed.")
    return made


def listed(shape: Sequence[int]) -> str:
    """Return a shape as MLX writes it."""
    return f"({','.join(map(str, shape))})"


def joined(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"[broadcast_shapes] Shapes {' and '.join(map(listed, shapes))} cannot be broadcast."
        ) from None


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of an array or a number."""
    return x.shape if isinstance(x, array) else ()


def number_or_array(x: Any) -> Any:
    """Return a Python number as it is, what else there is as an array."""
    return x if isinstance(x, (bool, int, float)) else as_array(x)


def uniform(
    low: Number = 0,
    high: Number = 1,
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return numbers from `low` up to, but without, `high`."""
    kind = dtype or float32
    if not issubdtype(kind, floating):
        raise ValueError("[uniform] Can only generate uniform numbers with real floating point type.")
    if kind.numpy not in BELOW_ONE:
        raise RuntimeError("[uniform] Unsupported type.")
    low, high, of = number_or_array(low), number_or_array(high), checked_shape(shape)
    joint = joined(of, shape_of(low), shape_of(high))
    if joint != of:
        raise ValueError(
            f"[uniform] Cannot generate random values of shape {listed(of)} from broadcasted shape {listed(joint)}."
        )
    made: array = apply(uniform_of, checked_key(key), low, high, of, kind.numpy)
    return made


def uniform_of(key: Array, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return uniform numbers by MLX's steps, each rounded to the dtype."""
    words = kernels.astype(kernels.random_bits(key, shape), FLOAT32)
    unit = kernels.minimum(kernels.multiply(words, 2.0**-32), BELOW_ONE[dtype])
    unit = unit if dtype == FLOAT32 else kernels.astype(unit, dtype)
    low, high = in_dtype(low, dtype), in_dtype(high, dtype)
    if isinstance(low, Array) or isinstance(high, Array):
        span: Any = kernels.subtract(high, low)
    else:
        span = in_dtype(high - low, dtype)
        if span == 1 and low == 0:
            return unit
    return kernels.add(kernels.multiply(span, unit), low)


def in_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array in a dtype, a number rounded to it."""
    if isinstance(x, Array):
        return x if x.dtype == dtype else kernels.astype(x, dtype)
    return float(np.asarray(x, np.float64).astype(dtype))


def normal(
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    loc: Number | None = None,
    scale: Number | None = None,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return numbers of the normal distribution, the standard one without `loc` and `scale`."""
    kind = dtype or float32
    if not issubdtype(kind, inexact):
        raise ValueError("[normal] Only floating point and complex64 types are supported.")
    of = checked_shape(shape)
    loc, scale = (None if each is None else number_or_array(each) for each in (loc, scale))
    drawing = complex_normal_of if kind is dtypes.complex64 else normal_of
    made: array = apply(drawing, checked_key(key), of, kind.numpy, loc, scale)
    return made


def normal_of(key: Array, shape: tuple[int, ...], dtype: np.dtype[Any], loc: Any, scale: Any) -> Array:
    """Return normal numbers: the inverse error function of uniform ones."""
    drawn = in_dtype(kernels.erfinv(uniform_of(key, ABOVE_MINUS_ONE, 1.0, shape, FLOAT32)), dtype)
    factor: Any = in_dtype(math.sqrt(2.0), dtype)
    if scale is not None:
        scale = in_dtype(scale, dtype)
        factor = kernels.multiply(factor, scale) if isinstance(scale, Array) else in_dtype(factor * scale, dtype)
    drawn = kernels.multiply(factor, drawn)
    return drawn if loc is None else kernels.add(in_dtype(loc, dtype), drawn)


def complex_normal_of(key: Array, shape: tuple[int, ...], _: np.dtype[Any], loc: Any, scale: Any) -> Array:
    """Return complex normal numbers of variance 1, half of it in each part; parts are drawn in turn."""
    parts = kernels.erfinv(uniform_of(key, ABOVE_MINUS_ONE, 1.0, (*shape, 2), FLOAT32))
    drawn = kernels.complex(parts[..., 0], parts[..., 1])
    drawn = drawn if scale is None else kernels.multiply(scale, drawn)
    return drawn if loc is None else kernels.add(loc, drawn)


def multivariate_normal(*_: Any, **__: Any) -> array:
    """Refuse: it needs a singular value decomposition, which is not part of a decode runtime."""
    raise NotImplementedError("mx.random.multivariate_normal is not part of a decode runtime: it needs linalg.svd")


def randint(
    low: Number,
    high: Number,
    shape: Sequence[int] = (),
    dtype: Dtype | None = int32,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return integers from `low` up to, but without, `high`."""
    kind = dtype or int32
    if issubdtype(kind, inexact):
        raise ValueError("[randint] randint only accepts integer dtypes and bool.")
    low, high = as_array(low), as_array(high)
    drawn = uniform(low, high, shape, float32, key)
    made: array = apply(whole_of, drawn, low, high, kind.numpy)
    return made


def whole_of(drawn: Array, low: Array, high: Array, dtype: np.dtype[Any]) -> Array:
    """Return drawn numbers rounded down, and held within the bounds."""
    last = kernels.astype(kernels.subtract(high, 1), dtype)
    whole = kernels.astype(kernels.floor(drawn), dtype)
    return kernels.maximum(kernels.minimum(whole, last), kernels.astype(low, dtype))


def bernoulli(p: Number = 0.5, shape: Sequence[int] | None = None, key: Key = None, stream: Any = None) -> array:
    """Return which of draws of a probability came true."""
    chance = as_array(p)
    if not issubdtype(chance.dtype, floating):
        raise ValueError("[bernoulli] bernoulli probability `p` must be a float type.")
    of = chance.shape if shape is None else checked_shape(shape)
    if joined(of, chance.shape) != of:
        raise ValueError("[bernoulli] shape of `p` is incompatible with argument `shape`.")
    made: array = apply(bernoulli_of, checked_key(key), chance, of)
    return made


def bernoulli_of(key: Array, chance: Array, shape: tuple[int, ...]) -> Array:
    """Return which words are below the probability, on the scale of all words."""
    words = kernels.astype(kernels.random_bits(key, shape), FLOAT32)
    return kernels.less(words, kernels.multiply(kernels.astype(chance, FLOAT32), ALL_BITS))


def truncated_normal(
    lower: Number,
    upper: Number,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = float32,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return numbers of the normal distribution between two bounds."""
    kind = dtype or float32
    if not issubdtype(kind, floating):
        raise ValueError("[trunc_normal] trunc_normal only accepts floating point dtypes.")
    low, high = as_array(lower), as_array(upper)
    of = joined(low.shape, high.shape) if shape is None else checked_shape(shape)
    made: array = apply(truncated_of, checked_key(key), low, high, of, kind.numpy)
    return made


def truncated_of(key: Array, low: Array, high: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return truncated normal numbers, as JAX makes them."""
    root = in_dtype(math.sqrt(2.0), dtype)
    low, high = in_dtype(low, dtype), in_dtype(high, dtype)
    a, b = (kernels.erf(kernels.divide(each, root)) for each in (low, high))
    drawn = kernels.multiply(root, kernels.erfinv(uniform_of(key, a, b, shape, dtype)))
    return kernels.maximum(kernels.minimum(high, drawn), low)


def gumbel(shape: Sequence[int] = (), dtype: Dtype | None = float32, key: Key = None, stream: Any = None) -> array:
    """Return numbers of the standard Gumbel distribution."""
    kind = dtype or float32
    if not issubdtype(kind, floating):
        raise ValueError("[uniform] Can only generate uniform numbers with real floating point type.")
    made: array = apply(gumbel_of, checked_key(key), checked_shape(shape), kind.numpy)
    return made


def gumbel_of(key: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return Gumbel numbers: ``-log(-log(u))``."""
    drawn = uniform_of(key, 0, 1, shape, dtype)
    return kernels.negative(kernels.log(kernels.negative(kernels.log(drawn))))


def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return indices along an axis, drawn with the probabilities that logits stand for.

    The result has the shape of `logits` without the axis, with `num_samples` behind it where they are given, or
    `shape`, which that without the axis broadcasts to.
    """
    chosen = checked_key(key)
    if shape is not None and num_samples is not None:
        raise ValueError("[categorical] At most one of shape or num_samples can be specified.")
    if not -logits.ndim <= axis < logits.ndim:
        raise IndexError(f"[categorical] Invalid axis {axis} for logits with {logits.ndim} dimensions.")
    place = axis % logits.ndim
    rest = logits.shape[:place] + logits.shape[place + 1 :]
    if num_samples is not None:
        made: array = apply(drawn_from, chosen, logits, place, (*rest, num_samples), 1)
        return made
    of = rest if shape is None else checked_shape(shape)
    if joined(of, rest) != of:
        raise ValueError(
            f"[categorical] Requested shape {listed(of)} is not broadcast compatible with reduced logits shape"
            f"{listed(rest)}."
        )
    result: array = apply(drawn_from, chosen, logits, place, of, 0)
    return result


def drawn_from(key: Array, logits: Array, axis: int, shape: tuple[int, ...], behind: int) -> Array:
    """Return indices of the largest sums of logits and Gumbel noise; `behind` axes of the shape follow the logits'.

    Where there is one distribution and a shape, the running sum of probabilities is searched instead, as in MLX.
    """
    ndim = logits.ndim + behind
    if math.prod(logits.shape) == logits.shape[axis] > 0 and shape:
        return searched(key, kernels.contiguous(logits).reshape(-1), shape)
    place = axis + len(shape) - ndim + 1
    noise = gumbel_of(key, (*shape[:place], logits.shape[axis], *shape[place:]), FLOAT32)
    wide = logits[..., None] if behind else logits
    return kernels.astype(kernels.argmax(kernels.add(noise, wide), place), UINT32)


def searched(key: Array, logits: Array, shape: tuple[int, ...]) -> Array:
    """Return indices of one distribution, where a uniform number lies among the running sums of probabilities."""
    x = kernels.astype(logits, FLOAT32)
    largest = kernels.max(x)
    likely = kernels.exp(kernels.subtract(x, largest))
    alike = kernels.astype(kernels.equal(x, largest), FLOAT32)
    weights = kernels.where(kernels.isinf(largest), alike, likely)
    below = kernels.cumsum(weights, 0, inclusive=False)
    drawn = kernels.multiply(uniform_of(key, 0, 1, shape, FLOAT32), kernels.sum(weights))
    passed = kernels.sum(kernels.astype(kernels.less_equal(below, drawn[..., None]), np.dtype(np.int32)), -1)
    return kernels.astype(kernels.subtract(passed, 1), UINT32)


def laplace(
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: Key = None,
    stream: Any = None,
) -> array:
    """Return numbers of the Laplace distribution."""
    kind = dtype or float32
    if not issubdtype(kind, floating):
        raise ValueError("[laplace] Only real floating point types are supported.")
    made: array = apply(laplace_of, checked_key(key), checked_shape(shape), kind.numpy, float(loc), float(scale))
    return made


def laplace_of(key: Array, shape: tuple[int, ...], dtype: np.dtype[Any], loc: float, scale: float) -> Array:
    """Return Laplace numbers from uniform ones."""
    drawn = uniform_of(key, ABOVE_MINUS_ONE, 1.0, shape, FLOAT32)
    size = kernels.log1p(kernels.multiply(kernels.abs(drawn), -1.0))
    drawn = in_dtype(kernels.multiply(kernels.sign(drawn), size), dtype)
    drawn = drawn if scale == 1 else kernels.multiply(in_dtype(scale, dtype), drawn)
    return drawn if loc == 0 else kernels.add(in_dtype(loc, dtype), drawn)


def permutation(x: int | array, axis: int = 0, key: Key = None, stream: Any = None) -> array:
    """Return the numbers below `x`, or the parts of an array along an axis, in random order."""
    if not isinstance(x, (int, array)):
        raise TypeError(f"permutation(): x is a {type(x).__name__}, not an int or an array")
    if isinstance(x, int):
        made: array = apply(order_of, checked_key(key), x)
        return made
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"[permutation] Invalid axis {axis} for an array with {x.ndim} dimensions.")
    taken: array = apply(lambda key, x: kernels.take(x, order_of(key, x.shape[axis]), axis), checked_key(key), x)
    return taken


def order_of(key: Array, count: int) -> Array:
    """Return the numbers below a count in random order."""
    return kernels.astype(kernels.argsort(kernels.random_bits(key, (count,)), 0), UINT32)
