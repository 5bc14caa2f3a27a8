"""Dots: how the kernels of integer dot instructions share out the rows and the width of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hiprt.flags import flags
from hiprt.kernels.tuning.tiling import Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = [
    "LARGEST",
    "MOST_ROWS",
    "MOST_VECTORS",
    "TEMPLATE",
    "Dots",
    "dots",
    "dots_configuration",
    "dots_of",
    "piece_codes",
    "ranked_dots",
    "steps_of",
]

# The template parameters that a sharing gives to the kernels.
TEMPLATE = {"ROWS": "int", "SPLIT": "int", "TEAMS": "int", "DEPTH": "int", "PLANES": "int"}
LANES = 32
ROWS = (4, 2, 1)
MOST_ROWS = ROWS[0]
SPLITS = (1, 2, 4, 8, 16)
MOST_SIMDGROUPS = 32  # of a threadgroup
STEPS_AHEAD = 2  # that a lane has on their way of a single vector
MOST_VECTORS = 8  # of a threadgroup
SHARED_BYTES, OTHER_BYTES = 64 << 10, 64  # of threadgroup memory, and of it for what no vector has
SMALLEST_PART = 64  # pieces of x that are staged at a time
MOST_KEPT_ROUNDS = 4  # whose sums a lane keeps from one part of x to the next
# Sums of a lane, of all those tiles and of one, by the lanes of a wave, four of which fit a SIMD with them.
MOST_KEPT_SUMS, MOST_SUMS = {32: 64, 64: 32}, {32: 32, 64: 24}
LARGEST = 1 << 32  # bytes of a matrix, which offsets of 32 bits reach
# Vector instructions of a piece of a row by bits, of a step beside it, and of the sums of a row and of a tile.
PIECE = {2: 55, 3: 55, 4: 27, 5: 70, 6: 38, 8: 27}
STEP, SUM, TILE, MEETING = 10, 4, 20, 40


class Dots(NamedTuple):
    """How a kernel of integer dot instructions shares out its work.

    Attributes
    ----------
    rows : int
        The rows of a tile, which a lane multiplies at a time. A gate needs an even number.
    split : int
        The simdgroups of a team, among whose lanes a row's pieces are divided.
    teams : int
        The teams in a threadgroup, which take tiles in turn.
    groups : int
        The threadgroups, among which the tiles are divided evenly.
    planes : int
        The digits of 4 bits to which x is brought: 4, or 2 for activations of 8 bits.
    vectors : int
        The vectors of a threadgroup, for which a matrix is read once: one, or several of a product of several.
    held : int
        The pieces of x that threadgroup memory holds at a time, in whole steps of a team or an even share of one; 0
        where it holds all.
    kept_rounds : int
        The tiles of a team whose sums lanes keep from one part of x to the next. x is staged again for those behind.
    """

    rows: int
    split: int
    teams: int
    groups: int
    planes: int = 4
    vectors: int = 1
    held: int = 0
    kept_rounds: int = 1


def piece_codes(group: int, bits: int) -> int:
    """Return the codes that a lane reads at a time, as in the kernel: whole words, of one group."""
    return 64 if bits == 2 and group >= 64 else 32 if bits <= 5 else 16


def pieces_of(product: Product) -> int:
    """Return the pieces of a row."""
    return product.width // piece_codes(product.group, product.bits)


def steps_of(product: Product, split: int) -> int:
    """Return how many pieces of a row a lane has, where that many simdgroups share it."""
    return -(-pieces_of(product) // (LANES * split))


def rounds_of(product: Product, sharing: Dots) -> int:
    """Return how many tiles a team takes in turn."""
    return -(-tiles_of(product, sharing.rows) // (sharing.groups * sharing.teams))


def tiles_of(product: Product, rows: int) -> int:
    """Return the tiles of a matrix; a gate's have as many rows of each half."""
    return -(-product.rows // rows)


def dots(product: Product, target: Target) -> Iterator[Dots]:
    """Yield the sharings that fit a product, with one threadgroup on each compute unit for its vectors."""
    simdgroups, planes = target.table.dot_simdgroups, int(flags.qmv_planes)
    count = -(-product.batch // MOST_VECTORS)  # of threadgroups
    for rows in target.table.dot_rows:
        groups = min(target.compute_units, tiles_of(product, rows))
        for split in SPLITS:
            is_useful = split == 1 or steps_of(product, split) < steps_of(product, split // 2)
            if split <= simdgroups and is_useful:
                sharing = Dots(rows, split, simdgroups // split, groups, planes, -(-product.batch // count))
                sharing = with_parts(product, sharing, target)
                if fits(product, sharing):
                    yield sharing


def with_parts(product: Product, sharing: Dots, target: Target) -> Dots:
    """Return a sharing with the fewest parts of x that fit threadgroup memory, of nearly the same size.

    Where registers do not hold the sums of all vectors beside that, threadgroups have half of them each.
    """
    if shared_bytes(product, sharing) <= SHARED_BYTES:
        return sharing
    if sharing.vectors * sharing.rows > MOST_SUMS[target.wave]:
        return with_parts(product, sharing._replace(vectors=-(-sharing.vectors // 2)), target)
    pace, steps = LANES * sharing.split, steps_of(product, sharing.split)
    most = min(MOST_KEPT_ROUNDS, MOST_KEPT_SUMS[target.wave] // (sharing.vectors * sharing.rows))
    rounds = rounds_of(product, sharing)
    kept = -(-rounds // -(-rounds // most))
    for parts in range(2, steps + 1):
        cut = sharing._replace(held=pace * -(-steps // parts), kept_rounds=kept)
        if shared_bytes(product, cut) <= SHARED_BYTES:
            return cut
    held = pace // 2
    while held > SMALLEST_PART and shared_bytes(product, sharing._replace(held=held)) > SHARED_BYTES:
        held //= 2
    return sharing._replace(held=held, kept_rounds=kept)


def fits(product: Product, sharing: Dots) -> bool:
    """Whether the kernel takes a matrix with a sharing."""
    parts, pace = 2 if product.is_gated else 1, LANES * sharing.split
    return (
        1 <= sharing.vectors <= min(product.batch, MOST_VECTORS)
        and (sharing.vectors > 1) == (product.batch > 1)
        and product.rows >= sharing.rows >= parts
        and sharing.rows % parts == 0
        and sharing.rows in ROWS
        and 1 <= sharing.split * sharing.teams <= MOST_SIMDGROUPS
        and sharing.groups >= 1
        and sharing.planes in (2, 4)
        and 0 <= sharing.held < pieces_of(product)
        and (sharing.held % pace == 0 or (pace % sharing.held == 0 and sharing.held % LANES == 0))
        and 1 <= sharing.kept_rounds <= (MOST_KEPT_ROUNDS if sharing.held else 1)
        and shared_bytes(product, sharing) <= SHARED_BYTES
        and product.rows * product.width * product.bits < 8 * LARGEST
    )


def shared_bytes(product: Product, sharing: Dots) -> int:
    """Return the bytes of threadgroup memory: of a vector the digits of its pieces, 16 bytes for each, and its sums."""
    simdgroups = sharing.split * sharing.teams
    sums = 1 + (2 * sharing.rows if sharing.split > 1 else 0)  # of a simdgroup
    pieces = sharing.held or pieces_of(product)
    digits = sharing.planes * piece_codes(product.group, product.bits) // 2  # bytes of a piece
    return sharing.vectors * ((digits + 16) * pieces + 4 * sums * simdgroups) + OTHER_BYTES


def cost(product: Product, sharing: Dots) -> int:
    """Return about how many vector instructions a simdgroup executes."""
    rounds = rounds_of(product, sharing)
    steps = steps_of(product, sharing.split) * (PIECE[product.bits] * sharing.rows + STEP)
    return rounds * (steps + SUM * sharing.rows + TILE + (MEETING if sharing.split > 1 else 0))


def dots_of(product: Product, target: Target) -> Dots | None:
    """Return a sharing for a matrix; None where integer dot instructions do not serve the matrix or the target.

    Several vectors are shared out as one is, so that each has the bits that it has alone.
    """
    return next(iter(ranked_dots(product, target)), None)


def ranked_dots(product: Product, target: Target) -> list[Dots]:
    """Return the sharings that fit a matrix, that of the rules first; none where such instructions do not serve it."""
    if "dots" not in target.features:
        return []
    return sorted(dots(product, target), key=lambda sharing: cost(product, sharing))


def dots_configuration(product: Product, sharing: Dots) -> Configuration:
    """Return the launch of a kernel of integer dot instructions.

    Raises
    ------
    ValueError
        The sharing does not fit the matrix.
    """
    if not fits(product, sharing):
        raise ValueError(f"qmv: {sharing} does not fit {product}")
    rows, split, teams, groups, planes, vectors, held, kept_rounds = sharing
    steps = -(-held // (LANES * split)) if held else steps_of(product, split)
    depth = min(steps, STEPS_AHEAD) if vectors == 1 else 1
    template = {"ROWS": rows, "SPLIT": split, "TEAMS": teams, "DEPTH": depth, "PLANES": planes}
    if held:
        template |= {"VECTORS": vectors, "HELD": held, "KEPT_ROUNDS": kept_rounds}
    elif vectors > 1:
        template["VECTORS"] = vectors
    return Configuration((groups, -(-product.batch // vectors), 1), (split * teams * LANES, 1, 1), template)
