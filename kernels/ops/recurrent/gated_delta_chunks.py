"""The gated delta rule by chunks: products of matrices within a chunk, and a state from one to the next.

The changes that the steps of a chunk make to a state depend on each other by a triangular matrix of the keys alone,
whose inverse every chunk finds at once (Yang et al., arXiv 2406.06484; with decays: Yang, Kautz and Hatamizadeh, arXiv
2412.06464). The decay from one step to another is a product of the gates between, never a quotient, so that gates of
0 and tiny ones are as exact as others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiprt.array import Array, make
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import FLOAT32, result
from hiprt.kernels.tuning.target import Target
from hiprt.stream import Stream

__all__ = ["CHUNK", "GatedDeltaChunks", "Rule", "gated_delta_chunks"]

OP = "gated_delta"
CHUNK = 32  # steps, as in the kernels
SIMDGROUPS = 4
VALUES = 16  # rows of a state that a threadgroup takes
WIDEST_KEY = 128  # elements of a head of keys, of which threadgroup memory holds a chunk beside the rows of a state
KEY_UNIT = 32  # a multiple of which they are: each simdgroup takes a part of them
KEYS = {"steps": "uint", "key_heads": "uint", "value_heads": "uint"}

FACTORS = Kernel(
    "recurrent/gated_delta_factors",
    inputs={"q": "T", "k": "T", "g": "float", "beta": "float"},
    outputs={"factors": "float"},
    scalars=KEYS,
    template={"T": "dtype", "KEY": "int"},
    headers=("recurrent/chunk_products.h",),
    threads=SIMDGROUPS * 32,
    instances=lambda takes_loops: [] if takes_loops else each(KEY=(128,))(takes_loops),
    part_of=OP,
)
CHUNKS = Kernel(
    "recurrent/gated_delta_chunks",
    inputs={"q": "T", "k": "T", "v": "T", "factors": "float"},
    updates={"state": "float"},
    outputs={"out": "T"},
    scalars={**KEYS, "value_width": "uint"},
    template={"T": "dtype", "KEY": "int", "VALUES": "int"},
    headers=("recurrent/chunk_products.h",),
    threads=SIMDGROUPS * 32,
    instances=lambda takes_loops: [] if takes_loops else each(KEY=(128,), VALUES=(VALUES,))(takes_loops),
    part_of=OP,
)


class Rule(NamedTuple):
    """The sizes of a call.

    Attributes
    ----------
    batch, steps, key_heads, value_heads, key_width, value_width : int
    is_aligned : bool
        Whether queries and keys start at multiples of 16 bytes.
    """

    batch: int
    steps: int
    key_heads: int
    value_heads: int
    key_width: int
    value_width: int
    is_aligned: bool


class GatedDeltaChunks(NamedTuple):
    """Two launches: what needs no state, for all chunks at once, then the chunks of each head one after another.

    Attributes
    ----------
    rule : Rule
    factors, chunks : Launch
    """

    rule: Rule
    factors: Launch
    chunks: Launch

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """That of the factors: of each chunk two matrices, and the decays from its start and until its end."""
        return self.rule.batch * self.rule.value_heads, -(-self.rule.steps // CHUNK), 2 * CHUNK + 2, CHUNK

    def run(
        self, stream: Stream, out: Array | None, q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array
    ) -> Array:
        """Launch on a stream, and return the result."""
        keys = {"q": q, "k": k}
        out = result(OP, out, v.shape, v.dtype, stream, {**keys, "v": v, "g": g, "beta": beta, "state": state})
        factors = make(self.shape, FLOAT32, stream)
        self.factors(stream, **keys, g=g, beta=beta, factors=factors)
        self.chunks(stream, **keys, v=v, factors=factors, state=state, out=out)
        return out


def gated_delta_chunks(rule: Rule, dtype: np.dtype[np.generic], target: Target) -> GatedDeltaChunks | None:
    """Return the launches for a call; None for few steps, and for keys that the kernels do not take."""
    is_served = rule.is_aligned and rule.key_width % KEY_UNIT == 0 and 0 < rule.key_width <= WIDEST_KEY
    if target.takes_loops or rule.steps < target.table.chunked_steps or not is_served:
        return None
    chunks, threads = -(-rule.steps // CHUNK), (SIMDGROUPS * 32, 1, 1)
    sizes = {"steps": rule.steps, "key_heads": rule.key_heads, "value_heads": rule.value_heads}
    template = {"T": dtype, "KEY": rule.key_width}
    factors = Launch(FACTORS, (chunks, rule.batch * rule.key_heads, 1), threads, template, **sizes)
    grid = (-(-rule.value_width // VALUES), rule.batch * rule.value_heads, 1)
    rest = Launch(CHUNKS, grid, threads, {**template, "VALUES": VALUES}, **sizes, value_width=rule.value_width)
    return GatedDeltaChunks(rule, factors, rest)
