"""The kernels of tiles: products of many rows with quantised matrices, unpacked once for all rows of a tile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form, array, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.matmul.stacks import SCALARS, Numbers, named
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS, BITS, Format
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.table import DEFAULT, Table
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tile_splits import split_of
from hiprt.objects import Planned
from hiprt.stream import Stream

__all__ = ["COLUMNS", "SHARED_TILES", "TILES", "chosen_rows", "tile_rows", "tiles_plan"]

FLOAT32 = np.dtype(np.float32)
COLUMNS = 64  # of a tile
UNPACKED_ROWS = 32  # rows whose products take as long as unpacking the weights of their tile, by count of machine code
SIMDGROUPS = 4
MATRIX = {"x": "T", "weight": "uint", "scales": "T", "biases": "T"}  # what a product with one matrix reads
STACK = {"left_indices": "uint", "right_indices": "uint", "order": "uint"}


def tile_choices(dtype: np.dtype[Any], takes_loops: bool, table: Table = DEFAULT) -> tuple[int, ...]:
    """Return the numbers of rows that a tile may have, the largest first."""
    return table.tile_rows if dtype.itemsize == 2 and not takes_loops else table.tile_rows[-1:]


def tile_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel of tiles that are compiled ahead; others are at first use.

    Those are all of codes that have other kernels of their own, and the smallest tile of the others.
    """
    rare = [bits for bits in AFFINE_BITS if bits not in BITS]
    smallest = each(BITS=rare, ROWS=lambda dtype, loops: tile_choices(dtype, loops)[-1:])(takes_loops)
    return [*each(BITS=BITS, ROWS=tile_choices)(takes_loops), *(one for one in smallest if one["T"].itemsize == 2)]


SIZES = {"columns": "uint", "width": "uint", "span": "uint", "count": "uint"}
COMMON: dict[str, Any] = {
    "outputs": {"out": "T"},
    "template": {"T": "dtype", "BITS": "int", "ROWS": "int"},
    "headers": (
        "quantized/codes.h",
        "matmul/stack.h",
        "matmul/tiles.h",
        "quantized/run_pieces.h",
        "quantized/tile_codes.h",
        "quantized/tile_weights.h",
        "quantized/kept_rows.h",
        "quantized/shared_rows.h",
    ),
    "threads": 128,
    "waves": 2,  # hiprtc of HIP 6.4 would take so many registers that there is one
    "part_of": "quantized_matmul",
}
TILES = Kernel(
    "quantized/quantized_tiles",
    inputs={**MATRIX, **STACK},
    scalars={**SIZES, **{name: SCALARS[name] for name in SCALARS if name != "start"}},
    instances=tile_instances,
    **COMMON,
)
# Threadgroups share the width of a tile, of a product with one matrix: constants stand for what says which matrix of a
# stack a row is multiplied with.
ONE_MATRIX = """#define HIPRT_SHARED_TILES 1
constexpr bool SHARED = true;
constexpr uint left_divisor = 1, left_modulus = 1, left_count = 1;
constexpr uint right_divisor = 1, right_modulus = 1, right_count = 1;
const uint lines = count, given = 0;
const device uint *left_indices = nullptr, *right_indices = nullptr, *order = nullptr;
#line 1 "quantized_tiles.metal"
"""
SHARED_TILES = Kernel(
    "quantized/shared_tiles",
    inputs=MATRIX,
    updates={"arrived": "uint", "parts": "float"},
    scalars={**SIZES, "shares": "uint"},
    ahead=(),
    source=ONE_MATRIX + (OPS / "quantized/quantized_tiles.metal").read_text(),
    **COMMON,
)


def tile_rows(dtype: np.dtype[Any], count: int, target: Target, *, is_single: bool = False) -> int:
    """Return the rows of a tile for matrices that each have `count` rows: large tiles where several still remain.

    The target may have tiles of which those with the least work are taken. Rows that are multiplied with a matrix start
    anywhere in a tile, but for those of a single one: they are half a piece more where they are more than one.
    """
    choices = tile_choices(dtype, target.takes_loops, target.table)
    if dtype.itemsize == 2 and target.table.matrix_tile_rows:

        def work(rows: int) -> float:
            pieces = -(-count // rows) if is_single else max(1.0, count / rows + 0.5)
            return pieces * (rows + UNPACKED_ROWS)

        return min(target.table.matrix_tile_rows, key=work)
    return next((rows for rows in choices if count >= 4 * rows), choices[-1])


@Planned
def chosen_rows(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    form: Format,
    columns: int,
    count: int,
    left: Numbers,
    right: Numbers,
    is_single: bool,
    target: Target,
) -> int:
    """Return the rows of a tile of a product: the rules', or those that timing has chosen.

    Numbers of rows between two powers of two have one choice. Where there is not one matrix but a stack, vectors choose
    matrices; as many rows of each are timed, one matrix behind the other.
    """
    dtype, width, matrices = x.dtype, x.shape[-1], right[-1]
    rule = tile_rows(dtype, count // max(matrices, 1), target, is_single=is_single)
    least = 1 << (count.bit_length() - 1)
    others = (rows for rows in tile_choices(dtype, target.takes_loops, target.table) if rows <= least)

    def run(way: int) -> Run:
        lines, flags = (count, 0) if is_single else (1, 2)
        plan = tiles_plan(form, dtype, columns, width, count, lines, left, right, flags, target, way, is_single)
        evenly, chosen = np.arange(count) * matrices // count, list[Array]()

        def launched(stream: Stream, given: dict[str, Any]) -> None:
            if not chosen:
                chosen.append(given["weight"] if is_single else array(evenly.astype(np.uint32), stream=stream))
            unread = dict.fromkeys(("left_indices", "order"), given["weight"])
            plan.run(stream, out=make((count, columns), dtype, stream), right_indices=chosen[0], **given, **unread)

        return launched

    kind = f"{form.bits} bits in groups of {form.group_size}, {dtype}"
    what = "quantized_matmul" if is_single else f"gather_qmm {matrices} of"
    name = f"{what} {columns}x{width} of {kind}, {least} to {2 * least - 1} rows"
    operands = {"x": x, "weight": w, "scales": scales, "biases": biases}
    return choose(target, name, [rule, *(rows for rows in others if rows != rule)], operands, run)


class TilesPlan(NamedTuple):
    """A launch of a kernel of tiles, and the sums that threadgroups leave where they share the width of a tile.

    Attributes
    ----------
    launch : Launch
    parts : tuple of int, or None
        The shape of the sums of each tile, by the threadgroup that leaves them; None where none share a tile.
    """

    launch: Launch
    parts: tuple[int, ...] | None = None

    def run(self, stream: Stream, **operands: Array) -> None:
        """Launch on a stream."""
        if self.parts is None:
            self.launch(stream, **operands)
        else:
            given = {name: operands[name] for name in ("out", *MATRIX)}
            self.launch(stream, **given, arrived=arrivals(stream), parts=make(self.parts, FLOAT32, stream))


@Planned
def tiles_plan(
    form: Format,
    dtype: np.dtype[Any],
    columns: int,
    depth: int,
    count: int,
    lines: int,
    left: Numbers,
    right: Numbers,
    flags: int,
    target: Target,
    rows: int | None = None,
    is_single: bool = False,
) -> TilesPlan:
    """Return the plan for `count` rows of results, of which a tile has `rows`, or as many as the rules say.

    With `is_single` there is one matrix, and threadgroups may share the width of a tile.
    """
    rows = rows or tile_rows(dtype, count // max(right[-1], 1), target, is_single=right[-1] == 1)
    split = split_of(columns, depth, count, rows, target) if is_single and dtype.itemsize == 2 else 1
    grid = (-(-count // rows), -(-columns // COLUMNS), split)
    launch = Launch(
        SHARED_TILES if split > 1 else TILES,
        grid,
        (1 if target.takes_loops else SIMDGROUPS * 32, 1, 1),
        {"T": dtype, "BITS": form.bits, "ROWS": rows},
        columns=columns,
        width=depth,
        span=form.group_size,
        count=count,
        **({"shares": split} if split > 1 else {"lines": lines, "given": flags, **named(left, right)}),
    )
    return TilesPlan(launch, (grid[0] * grid[1], split, rows, COLUMNS) if split > 1 else None)
