"""Logprobs: how likely each token of a text was, and which were the likeliest at its place, found inside the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hiprt import Array, Stream, current_stream, empty, zeros
from hiprt.array import Form
from hiprt.kernels import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.elementwise.copies import copy_into
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned

__all__ = ["MOST", "Likely", "Logprobs"]

MOST = 20  # tokens that are told for each place, as many as OpenAI's interface has
SHARE = 2048  # logits that a threadgroup takes

# A round finds the largest key of those behind the one that the round before has found; of equal keys the lowest place
# comes first. In a loop `count` rounds give the largest ones in order.
ROUNDS = """
int last = 0x7fffffff;
uint next = 0;
for (uint n = 0; n < count; n++) {{
  Largest best{{LOWEST_KEY, 0xffffffffu}};
  for (uint i = first; i < end; i += step) {{
    const int key = {key};
    const uint place = {place};
    if ((key < last || (key == last && place >= next)) && key > best.key) best = Largest{{key, place}};
  }}
#if !HIPRT_CPU_LOOPS
  best = largest_of_threadgroup(best, keys, places, lane, simdgroup, simdgroups);
  threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
  last = best.key;
  next = best.place + 1;
  if (thread_index_in_threadgroup == 0) {{
    {found}
  }}
}}
"""
START = """
threadgroup float parts[32];
threadgroup int keys[32];
threadgroup uint places[32];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint step = threads_per_threadgroup.x;
"""
HEADERS = ("reduction/largest.h", "norm/row_sums.h")
# For each part of a row: the largest logit, the sum of the exponentials of what the others are below it, and the places
# of the largest ones with their keys.
PART = Kernel(
    "logprobs_of_part",
    inputs={"logits": "T"},
    outputs={"sums": "float", "part_keys": "int", "part_places": "uint"},
    scalars={"width": "uint", "groups": "uint", "count": "uint"},
    template={"T": "dtype"},
    headers=HEADERS,
    source=START
    + f"""
const uint group = threadgroup_position_in_grid.y * groups + threadgroup_position_in_grid.x;
const device T* values = logits + size_t(threadgroup_position_in_grid.y) * width;
const uint first = threadgroup_position_in_grid.x * {SHARE} + thread_index_in_threadgroup;
const uint end = min(width, (threadgroup_position_in_grid.x + 1) * {SHARE});
float top = -INFINITY, sum = 0.0f;
for (uint i = first; i < end; i += step) top = max(top, float(values[i]));
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
for (uint i = first; i < end; i += step) sum += float(values[i]) > -INFINITY ? exp(float(values[i]) - top) : 0.0f;
sum = sum_of_row(sum, parts, lane, simdgroup, simdgroups);
if (thread_index_in_threadgroup == 0) {{
  sums[2 * group] = top;
  sums[2 * group + 1] = sum;
}}
"""
    + ROUNDS.format(
        key="order_key(float(values[i]))",
        place="i",
        found="part_keys[group * count + n] = best.key; part_places[group * count + n] = best.place;",
    ),
)
# For each row: what its parts have found, put together, at the place where the step block stands.
WHOLE = Kernel(
    "logprobs",
    inputs={"logits": "T", "sums": "float", "part_keys": "int", "part_places": "uint", "block": "int"},
    updates={"values": "float", "tokens": "int"},
    scalars={"width": "uint", "groups": "uint", "count": "uint", "rows": "uint", "capacity": "uint"},
    template={"T": "dtype"},
    is_varied=True,
    headers=HEADERS,
    source=START
    + """
const uint row = threadgroup_position_in_grid.x;
const uint token = uint(block[row]), position = uint(block[rows + row]);
if (position >= capacity) return;
const device T* given = logits + size_t(row) * width;
const device float* top_and_sum = sums + 2 * size_t(row) * groups;
device float* to = values + (size_t(row) * capacity + position) * (count + 1);
device int* names = tokens + (size_t(row) * capacity + position) * count;
float top = -INFINITY, sum = 0.0f;
for (uint i = thread_index_in_threadgroup; i < groups; i += step) top = max(top, top_and_sum[2 * i]);
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
for (uint i = thread_index_in_threadgroup; i < groups; i += step) {
  sum += top_and_sum[2 * i + 1] * exp(top_and_sum[2 * i] - top);
}
sum = sum_of_row(sum, parts, lane, simdgroup, simdgroups);
const float norm = top + log(sum);
if (thread_index_in_threadgroup == 0) to[0] = token < width ? float(given[token]) - norm : -INFINITY;
const size_t base = size_t(row) * groups * count;
const uint first = thread_index_in_threadgroup, end = groups * count;
"""
    + ROUNDS.format(
        key="part_keys[base + i]",
        place="part_places[base + i]",
        found="""
    const bool exists = best.place < width;
    names[n] = exists ? int(best.place) : -1;
    to[n + 1] = exists ? float(given[best.place]) - norm : -INFINITY;""",
    ),
)


class Likely(NamedTuple):
    """How likely the token at a place of a text was.

    Attributes
    ----------
    token : int
    logprob : float
        The natural logarithm of its probability.
    best : list of (int, float)
        The likeliest tokens of that place, the likeliest first, each with the logarithm of its probability.
    """

    token: int
    logprob: float
    best: list[tuple[int, float]]


class Logprobs:
    """The log probabilities of the tokens of some texts, on the device.

    They are those of the model's own logits: before penalties, filters and the temperature, as llama.cpp and vLLM give
    them.

    Parameters
    ----------
    count : int
        How many of the likeliest tokens are kept for each place, up to `MOST`.
    batch, capacity : int
        How many texts there are, and the tokens of a text for which there is memory.

    Attributes
    ----------
    values : Array of float32, shape (batch, capacity, kept + 1)
        For each place the log probability of its token, then those of the likeliest ones; at least one is kept.
    tokens : Array of int32, shape (batch, capacity, kept)
        The likeliest tokens.
    """

    def __init__(self, count: int, batch: int, capacity: int) -> None:
        self.count = count
        kept = max(count, 1)
        self.values = zeros((batch, capacity, kept + 1), np.float32)
        self.tokens = zeros((batch, capacity, kept), np.int32)

    def record(self, logits: Array, block: Array) -> None:
        """Launch what writes the places of the newest tokens.

        Parameters
        ----------
        logits : Array, shape (batch, vocab_size)
            Those from which the newest token of each text was drawn.
        block : Array of int32, shape (4, batch)
            The step block, with the newest tokens and their positions.
        """
        stream = current_stream()
        part, whole = launches_of(logits, self.values, target_of(stream))
        rows, groups, kept = len(logits), part.grid[0], self.tokens.shape[-1]
        sums = empty((rows, groups, 2), np.float32)
        keys, places = empty((rows, groups, kept), np.int32), empty((rows, groups, kept), np.uint32)
        found: Mapping[str, Any] = {"sums": sums, "part_keys": keys, "part_places": places}
        part(stream, logits=logits, **found)
        whole(stream, logits=logits, **found, block=block, values=self.values, tokens=self.tokens)

    def read(self, sequence: int, start: int, ids: list[int], stream: Stream) -> list[Likely]:
        """Return what is known of the tokens of a text.

        Parameters
        ----------
        sequence : int
        start : int
            The place of the first of them.
        ids : list of int
            The tokens.
        stream : Stream
            The stream that reads.
        """
        places = slice(start, start + len(ids))
        values = self.values[sequence, places].numpy(stream).tolist()
        best = self.tokens[sequence, places].numpy(stream).tolist()
        return [
            Likely(token, chosen, [pair for pair in zip(names[: self.count], others) if pair[0] >= 0])
            for token, (chosen, *others), names in zip(ids, values, best)
        ]

    def grow(self, capacity: int) -> None:
        """Move to larger arrays, on the current stream."""
        batch, old, kept = self.tokens.shape
        before = self.values, self.tokens
        self.values, self.tokens = (
            zeros((batch, capacity, kept + 1), np.float32),
            zeros((batch, capacity, kept), np.int32),
        )
        for target, source in zip((self.values, self.tokens), before):
            copy_into(target[:, :old], source, current_stream())


@Planned
def launches_of(logits: Form, values: Form, target: Target) -> tuple[Launch, Launch]:
    """Return the launch over the parts of rows, and the one over rows."""
    rows, width = logits.shape
    _, capacity, columns = values.shape
    groups, template = -(-width // SHARE), {"T": logits.dtype}
    sizes = {"width": width, "groups": groups, "count": columns - 1}
    _, threads = row_launch(target, rows, SHARE)
    part = Launch(PART, (groups, rows, 1), threads, template, **sizes)
    _, threads = row_launch(target, rows, groups * (columns - 1))
    return part, Launch(WHOLE, (rows, 1, 1), threads, template, rows=rows, capacity=capacity, **sizes)
