"""The tuning table: the shapes of launches that a family of targets prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiprt.kernels.tuning.rings import Ring, RingCost
from hiprt.kernels.tuning.stages import Stages
from hiprt.kernels.tuning.vector_rings import VectorRing

__all__ = ["DEFAULT", "Table"]


@dataclass(frozen=True)
class Table:
    """Numbers that plans take from the target instead of from themselves.

    The defaults are those of a large GPU; they were chosen on an NVIDIA H200 and serve every family that has measured
    nothing else.

    Attributes
    ----------
    is_measured : bool
        Whether the shapes were measured on a device of the family. Elsewhere decode products and attention are shared
        out as timing shows (`hiprt.kernels.tuning.choices`).
    attention_groups : int
        Threadgroups that keep the GPU busy: the positions of a cache are shared out until there are as many.
    attention_heads : tuple of int
        Query heads that a threadgroup of `attention` may take, the most first.
    attention_unsplit_capacity : int
        Positions of a cache up to which one threadgroup reads all: a second kernel would cost more than a split saves.
    joins_largest : bool
        Whether the last threadgroup that takes a row finds the largest of all, instead of another launch, which is
        faster where a launch starts before the one before it has ended.
    joins_attention : bool
        Whether one kernel norms and rotates heads, writes the cache and attends to it.
    chunked_steps : int
        Steps from which on the gated delta rule goes by chunks of 32.
    dot_rows : tuple of int
        Rows that a simdgroup may take at a time of a product by integer dot instructions.
    dot_simdgroups : int
        Simdgroups of a threadgroup of the kernels of integer dot instructions.
    expert_columns, expert_rows : int
        The columns of an expert's gate and up that a simdgroup takes, and the rows of its down.
    expert_simdgroups : int
        Simdgroups of a threadgroup of the experts' kernels.
    expert_tokens : int
        Tokens up to which each takes its experts by a ring, as if it were alone.
    prompt_tokens : int
        Tokens of a prompt up to which its experts go by the kernels of a decode step, which read a matrix for each
        token that chooses it; 0 leaves all prompts to products that are grouped by matrix.
    step_tokens : int
        Tokens of a prompt that take as long as a step does beside its tokens, where a step's time grows with each: so
        many may be taken twice for each step that this saves. 0 where a step of some more tokens takes hardly longer.
    gdn_simdgroups : int
        Simdgroups of a threadgroup of a gated-delta step.
    norm_long_row : int
        The elements of a row from which on several simdgroups share the row.
    norm_simdgroups : int
        Simdgroups of a threadgroup of an RMS norm.
    product_rows : int
        The most rows that a simdgroup takes of a quantised product of one vector.
    simdgroups_each : int
        The simdgroups of 32 lanes that each compute unit shall have of such a product; 0 leaves the rows unshared.
    turns_attention : bool
        Whether `prefill_attention` of 16-bit numbers keeps queries and scores in registers: its threadgroup memory does
        not depend on its rows then.
    multiplies_tiles : bool
        Whether products of matrices that are not quantised go by tiles where they have many rows.
    prefill_rows : tuple of int
        Rows that a threadgroup of `prefill_attention` may take, the most first.
    short_attention : tuple of 2 int
        Rows of a prompt, and positions of a cache, up to both of which `prefill_attention` goes by the kernel of every
        target where Hopper's serves it too.
    tile_rows : tuple of int
        Rows of results that a threadgroup may take of a quantised product, the most first; tiles of 32-bit numbers
        have the least.
    matrix_tile_rows : tuple of int
        The same for 16-bit numbers where matrix instructions take most of the issue slots of such tiles: the plan takes
        those with the least work. Empty where it takes tiles of which several remain.
    untiled_rows : int
        Rows of results up to which a product does without tiles.
    vector_rows : int
        Rows of 16-bit numbers up to which a quantised product with what stands around it takes 8 at a time by
        the kernel for few vectors; that reads the matrix each time, where tiles read it once.
    wgmma_rows : int
        Rows of 16-bit numbers from which on a product of a quantised matrix goes by the kernel of Hopper's matrix
        instructions, where the target has them.
    ring_vectors : int
        The most vectors that go by the kernel with the bits of one vector, where there is one; more go by that of
        `stages`.
    sorted_from : int
        The number of products from which on it pays to sort the matrices that they take.
    gathered_from : int
        The number of products from which on those with matrices that rows choose go by Hopper's tiles, where the target
        has them: each matrix that is chosen has tiles of its own, and is read once.
    loop_bytes : int
        The bytes of weights that one plain loop of the CPU device reads in a few microseconds.
    loop_elements : int
        Elements that one plain loop of the CPU device takes.
    rings : mapping of (int, int) to Ring
        The best ring for a matrix of 4 bits in groups of 64, by rows and width, where one was measured.
    plain_rings : mapping of (int, int) to Ring
        The same for vectors that are not normed first, where another one is the best.
    expert_rings : mapping of (int, int) to Ring
        The same for the experts of one token, whose rows lie behind or beside each other.
    many_expert_rings : mapping of (int, int, int) to Ring
        The same for the experts of several tokens, by rows, width and the fewest tokens that it is for.
    routed_rings : mapping of (int, int) to Ring
        The same for gates and ups of experts that the kernel chooses by logits that the one before it has left.
    vector_rings : mapping of (int, int, int) to VectorRing
        The best for several vectors, by rows, width and vectors.
    stages : mapping of (int, int) to Stages
        The best stages for such a matrix and several vectors.
    ring_cost : RingCost
        The cost that ranks rings for all other matrices.
    """

    is_measured: bool = False
    attention_groups: int = 128
    attention_heads: tuple[int, ...] = (4, 2, 1)
    attention_unsplit_capacity: int = 256
    joins_largest: bool = True
    joins_attention: bool = True
    chunked_steps: int = 33
    dot_rows: tuple[int, ...] = (4, 2)
    dot_simdgroups: int = 16
    expert_columns: int = 2
    expert_rows: int = 1
    expert_simdgroups: int = 8
    expert_tokens: int = 16
    prompt_tokens: int = 0
    step_tokens: int = 0
    gdn_simdgroups: int = 16
    norm_long_row: int = 1024
    norm_simdgroups: int = 8
    product_rows: int = 4
    simdgroups_each: int = 0
    turns_attention: bool = False
    multiplies_tiles: bool = True
    prefill_rows: tuple[int, ...] = (64, 32, 16)
    short_attention: tuple[int, int] = (16, 256)
    tile_rows: tuple[int, ...] = (128, 64, 32)
    matrix_tile_rows: tuple[int, ...] = ()
    untiled_rows: int = 8
    vector_rows: int = 8
    wgmma_rows: int = 9
    ring_vectors: int = 8
    sorted_from: int = 64
    gathered_from: int = 64
    loop_bytes: int = 16384
    loop_elements: int = 16384
    rings: Mapping[tuple[int, int], Ring] = field(default_factory=dict)
    plain_rings: Mapping[tuple[int, int], Ring] = field(default_factory=dict)
    expert_rings: Mapping[tuple[int, int], Ring] = field(default_factory=dict)
    many_expert_rings: Mapping[tuple[int, int, int], Ring] = field(default_factory=dict)
    routed_rings: Mapping[tuple[int, int], Ring] = field(default_factory=dict)
    vector_rings: Mapping[tuple[int, int, int], VectorRing] = field(default_factory=dict)
    stages: Mapping[tuple[int, int], Stages] = field(default_factory=dict)
    ring_cost: RingCost = field(default_factory=RingCost)


DEFAULT = Table()
