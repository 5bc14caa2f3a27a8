"""Calls of what chooses tokens: the largest logit, filters, draws and penalties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hiprt
from hiprt import kernels
from hiprt.array import Array, empty
from hiprt.bench.isa.case import Case, int32, normal
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.reduction.argmax import PART, LargestPlan
from hiprt.kernels.ops.sampling.filter_logits import (
    COUNTED,
    KEYS,
    STATES,
    SUMS,
    FilterPlan,
    plan_of as filter_plan,
)
from hiprt.kernels.ops.sampling.sample import plan_of as sample_plan
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import target_of
from hiprt.stream import current_stream

__all__ = ["tokens"]


def tokens(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield the choice of tokens: the first of the largest, and draws."""
    for width in (1501, 1504):
        logits = normal(dtype, 2, width, seed=10)
        logits[:, 700] = logits[:, 1303] = 9
        yield Case(f"2 rows of {width} with equals", kernels.argmax, (logits,), reference.argmax(logits))
        for heat in (0.0, 0.8):
            given = logits[:1], np.array([heat], np.float32), np.array([77], np.uint32), int32(5)
            exact = int32(reference.sample(logits[0], heat, 77, 5))
            yield Case(f"{width} logits, temperature {heat}", kernels.sample, given, exact)
    found = int32(7, 4, 9, 40, -3, 50, 9, 70).reshape(4, 2)
    yield Case("4 threadgroups with equals", choose, (found,), int32(40))
    alike = np.full(1500, 0.5, dtype)
    tops, p = np.full(2, 0.5, np.float32), np.array([0.9], np.float32)
    yield Case("1500 equal logits", find_tops, (alike,), tops)
    yield Case("1500 equal logits", search, (alike, tops, int32(9), p), alike_words(dtype))
    yield Case("1500 equal logits, 9 wanted", keep, (alike, tops, int32(9), p, alike_words(dtype)), alike)
    for wide in (np.full(width, 0.5, dtype) for width in (1501, 1504)):
        how = np.array([0.8], np.float32), np.array([77], np.uint32), int32(5)
        rules = tops, int32(9), p, alike_words(dtype, wide.size)
        exact = int32(reference.sample(wide, 0.8, 77, 5))
        yield Case(f"{wide.size} equal logits, 9 wanted", draw, (wide, *how, *rules), exact)
    seen = int32(5, 700, 5, 9000)
    factor = np.array([1.3], np.float32)
    exact = reference.repetition_penalty(logits[0], seen, 2, 1.3)
    yield Case("3 tokens before", kernels.repetition_penalty, (logits[0], seen, int32(2), factor), exact)


def planned(logits: Array, top_k: Array | None = None, top_p: Array | None = None) -> FilterPlan:
    """Return the launches of `filter_logits`."""
    plan: FilterPlan = filter_plan(logits, top_k, top_p, None, target_of(current_stream()))
    return plan


def alike_words(dtype: np.dtype[Any], width: int = 1500) -> NDArray[np.uint32]:
    """Return what the first level of the search finds where all logits are one half."""
    key, levels, digit = KEYS[dtype.name]
    summed = SUMS << digit if key == COUNTED else levels * (SUMS << digit)
    words = np.zeros(summed + (1 << key if key == COUNTED else 0) + levels * STATES, np.uint32)
    mass = width << 40
    words[-levels * STATES] = 0x3F000000
    words[SUMS * (0xBF000000 >> (32 - digit)) :][:SUMS] = [width, mass & 0x3FFFF, mass >> 18 & 0x3FFFF, mass >> 36]
    if key == COUNTED:
        words[summed + (0xBF000000 >> (32 - key))] = width
    return words


def choose(found: Array) -> Array:
    """Launch the choice of the largest of what threadgroups found."""
    out = empty(1, np.dtype(np.int32))
    Launch(PART, (1, 1, 1), (32, 1, 1), groups=len(found))(current_stream(), parts=found, out=out)
    return out


def find_tops(logits: Array) -> Array:
    """Launch the search for the largest logits."""
    return planned(logits).find_tops(current_stream(), logits)[0]


def search(logits: Array, tops: Array, top_k: Array, top_p: Array) -> Array:
    """Launch the first level of the search, and return what it adds up."""
    plan = planned(logits, top_k, top_p)
    found = hiprt.zeros(plan.words, np.uint32)
    plan.levels[0](current_stream(), logits=logits, top_k=top_k, top_p=top_p, tops=tops, found=found)
    return found


def level_one(last: Launch) -> Launch:
    """Return a launch that looks at what one launch of the search found."""
    return Launch(last.kernel, last.grid, last.threads, last.template, **{**last.scalars, "level": 1})


def keep(logits: Array, tops: Array, top_k: Array, top_p: Array, found: Array) -> Array:
    """Launch the filter as if the search had settled one digit, so that all logits stay."""
    launch, out = level_one(planned(logits, top_k, top_p).keep), empty(logits.shape, logits.dtype)
    launch(current_stream(), logits=logits, top_k=top_k, top_p=top_p, tops=tops, found=found, min_p=top_p, out=out)
    return out


def draw(
    logits: Array,
    temperature: Array,
    seed: Array,
    position: Array,
    tops: Array,
    top_k: Array,
    top_p: Array,
    found: Array,
) -> Array:
    """Launch the draw as if the search had settled one digit, so that all logits stay."""
    stream = current_stream()
    filters = planned(logits, top_k, top_p)
    once = filters._replace(keep=level_one(filters.keep))
    target = replace(target_of(stream), table=DEFAULT)  # one launch, also where two are faster
    plan: LargestPlan = sample_plan(logits, temperature, seed, position, once, target)
    given = {"logits": logits, "temperature": temperature, "seed": seed, "position": position}
    return plan.run(stream, None, **given, top_k=top_k, top_p=top_p, min_p=top_p, tops=tops, found=found)
