"""What may be drawn: the likely tokens, and less of those that were drawn before."""

from __future__ import annotations

from hiprt.array import Array, empty
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOAT32, INT32, buffer, floating, made
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import target_of
from hiprt.stream import Stream, current_stream

__all__ = ["Search", "filter_logits", "repetition_penalty", "tops_of"]

FOUND = {"top_k": "int", "top_p": "float", "tops": "float", "before": "float", "low": "int", "above": "float"}
SIZES = {"width": "uint", "share": "uint", "groups": "uint", "given": "uint", "level": "uint"}
HEADERS = ("reduction/largest.h", "norm/row_sums.h", "sampling/filter.h")
THREADS = 1024
SHARE = 2048  # logits of a threadgroup that filters, unless there are very many
GROUPS = 1024  # the most threadgroups: each reads what all of them found
PARTS = 16  # of the range, in each launch of the search
LEVELS = {"bfloat16": 4, "float16": 5, "float32": 8}  # launches: four bits each of those in which keys differ
TOPS = Kernel(
    "sampling/filter_tops",
    inputs={"logits": "T"},
    outputs={"tops": "float"},
    scalars={"width": "uint", "share": "uint"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    instances=each(),
    part_of="filter_logits",
)
SEARCH = Kernel(
    "sampling/filter_search",
    inputs={"logits": "T", **FOUND},
    outputs={"after": "float", "new_low": "int", "new_above": "float"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=HEADERS,
    instances=each(),
    part_of="filter_logits",
)
KERNEL = Kernel(
    "sampling/filter_logits",
    inputs={"logits": "T", **FOUND, "min_p": "float"},
    outputs={"out": "T"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=HEADERS,
    aliasing={"out": ("logits",)},
    instances=each(),
)
PENALTY = Kernel(
    "sampling/repetition_penalty",
    inputs={"logits": "T", "tokens": "int", "position": "int", "penalty": "float"},
    outputs={"out": "T"},
    scalars={"width": "uint", "capacity": "uint", "window": "uint"},
    template={"T": "dtype"},
    threads=1024,
    instances=each(),
)


def threads_of(stream: Stream, width: int) -> tuple[int, int, int]:
    """Return the threads of the one threadgroup."""
    return (1 if uses_loops(stream) else min(THREADS, -(-width // 32) * 32), 1, 1)


def check_logits(op: str, logits: Array) -> None:
    """Require one row that is not empty."""
    floating(op, "logits", logits)
    if logits.shape not in ((logits.size,), (1, logits.size)) or not logits.size:
        raise ValueError(f"{op}: logits has shape {logits.shape}; [V] or [1, V] is needed")


def filter_logits(
    logits: Array,
    *,
    top_k: Array | None = None,
    top_p: Array | None = None,
    min_p: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return logits with those that must not be drawn set to -inf; for `sample` after it.

    Parameters
    ----------
    logits : Array, [V] or [1, V]
        float16, bfloat16 or float32, before the temperature is applied; V at least 1.
    top_k : Array, [1], optional
        int32, on the device: how many of the largest stay; all where it is not positive.
    top_p : Array, [1], optional
        float32, on the device: the fewest of the largest stay whose probabilities reach it; all from 1 on.
    min_p : Array, [1], optional
        float32, on the device: those stay whose probability is at least this part of the largest one.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `logits`.

    Returns
    -------
    Array
        The shape and dtype of `logits`. What every given rule keeps stays; each counts over all logits. Equal logits
        stay or go together.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input in part.
    """
    op = "filter_logits"
    check_logits(op, logits)
    rules = (("top_k", top_k, INT32), ("top_p", top_p, FLOAT32), ("min_p", min_p, FLOAT32))
    for name, value, dtype in rules:
        if value is not None:
            buffer(op, name, value, dtype, (1,))
    stream = stream or current_stream()
    others = [value for _, value, _ in rules if value is not None]
    # What is not given is not read either; the logits would be, were they passed twice, by declaration.
    spare = others[0] if others else logits
    values = [spare if value is None else value for _, value, _ in rules]
    out = made(op, out, logits.shape, logits.dtype, stream, others)
    out = made(op, out, logits.shape, logits.dtype, stream, (logits,), aliasing=True)
    given = sum((value is not None) << i for i, (_, value, _) in enumerate(rules))
    search = Search(stream, logits, tops_of(logits, stream), values[0], values[1], given)
    for _ in range(LEVELS[logits.dtype.name] if given & 3 else 0):
        search.narrow()
    return search.finish(values[2], out)


def share_of(size: int) -> int:
    """Return how many of so many logits a threadgroup takes."""
    return SHARE * max(1, -(-size // (SHARE * GROUPS)))


def tops_of(logits: Array, stream: Stream) -> Array:
    """Return of each threadgroup's logits the largest, and the sum of exponentials of what they are below it."""
    share = share_of(logits.size)
    groups = -(-logits.size // share)
    tops = empty((groups, 2), FLOAT32, stream)
    TOPS(stream, *row_launch(target_of(stream), groups, SHARE), (logits.dtype,), logits, tops, logits.size, share)
    return tops


class Search:
    """The search for what is likely enough, in launches that each find the part of a range that the next one takes.

    Parameters
    ----------
    stream : Stream
    logits : Array
    tops : Array
        Of `tops_of`.
    top_k, top_p : Array
        As of `filter_logits`.
    given : int
        Which of top_k, top_p and min_p there are: a bit each.

    Attributes
    ----------
    found : tuple of 4 Array
        What the last launches found: the largest logit and the sum of each threadgroup; by parts, how many logits and
        how much of their exponentials; the range's lowest key; what is above it.
    """

    def __init__(self, stream: Stream, logits: Array, tops: Array, top_k: Array, top_p: Array, given: int) -> None:
        self.stream, self.logits, self.rules, self.given = stream, logits, (top_k, top_p), given
        self.level = 0
        self.groups = len(tops)
        self.grid, self.threads = row_launch(target_of(stream), self.groups, SHARE)
        self.found = tops, tops, empty(1, INT32, stream), tops

    @property
    def sizes(self) -> tuple[int, ...]:
        """The scalars of a launch."""
        return self.logits.size, share_of(self.logits.size), self.groups, self.given, self.level

    def narrow(self) -> Array:
        """Find what the parts of the range hold, and return it."""
        after = empty((self.groups, 2 * PARTS), FLOAT32, self.stream)
        low, above = empty(1, INT32, self.stream), empty(2, FLOAT32, self.stream)
        template, inputs = (self.logits.dtype,), (self.logits, *self.rules, *self.found)
        SEARCH(self.stream, self.grid, self.threads, template, *inputs, after, low, above, *self.sizes)
        self.level += 1
        self.found = self.found[0], after, low, above
        return after

    def finish(self, min_p: Array, out: Array) -> Array:
        """Write the result."""
        inputs = self.logits, *self.rules, *self.found, min_p
        KERNEL(self.stream, self.grid, self.threads, (self.logits.dtype,), *inputs, out, *self.sizes)
        return out


def repetition_penalty(
    logits: Array,
    tokens: Array,
    position: Array,
    penalty: Array,
    *,
    window: int = 20,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return logits in which the tokens of the last positions are less likely.

    Parameters
    ----------
    logits : Array, [V] or [1, V]
        float16, bfloat16 or float32; V at least 1.
    tokens : Array, [capacity]
        int32: the text so far. Tokens that are not in 0..V-1 are passed over.
    position : Array, [1]
        int32, on the device: of the newest token; below 0 there is none.
    penalty : Array, [1]
        float32, on the device: positive logits are divided by it, the others multiplied.
    window : int
        How many of the newest tokens count; a token counts once.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array
        The shape and dtype of `logits`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, `window` is negative, an array is not contiguous, or `out` overlaps an input.

    Notes
    -----
    Keskar et al., "CTRL", 2019, section 4.1.
    """
    op = "repetition_penalty"
    check_logits(op, logits)
    buffer(op, "tokens", tokens, INT32)
    buffer(op, "position", position, INT32, (1,))
    buffer(op, "penalty", penalty, FLOAT32, (1,))
    if tokens.ndim != 1 or not 0 <= window < 2**31:
        raise ValueError(f"{op}: tokens has shape {tokens.shape} and window is {window}; one axis, from 0 are needed")
    stream = stream or current_stream()
    inputs = logits, tokens, position, penalty
    out = made(op, out, logits.shape, logits.dtype, stream, inputs)
    threads = threads_of(stream, logits.size)
    PENALTY(stream, (1, 1, 1), threads, (logits.dtype,), *inputs, out, logits.size, tokens.size, window)
    return out
