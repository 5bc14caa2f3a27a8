"""Functions of ours as files that MLX imports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hiprt.graphs.export.mlxfn.layout import Target
from hiprt.graphs.export.mlxfn.tape_writer import VERSION, Ref, TapeWriter
from hiprt.graphs.export.mlxfn.to_mlx import add
from hiprt.graphs.export.program_file import Exported
from hiprt.whole_file import whole_file

__all__ = ["write_mlxfn"]


def write_mlxfn(path: Path, functions: Sequence[Exported], *, shapeless: bool, metadata: str) -> None:
    """Write functions to a file of MLX 0.32.

    Raises
    ------
    OSError
        The file cannot be written.
    ValueError
        A function has an op that no primitives of MLX's do; the message names it.
    """
    target = Target()
    target.text(".".join(map(str, VERSION)))
    target.number("i", len(functions))
    target.number("B", shapeless)
    target.text(metadata)
    saved: dict[int, Ref] = {}
    first = 1
    for exported in functions:
        tape = TapeWriter(first, saved, shapeless)
        write_function(target, exported, tape)
        first = tape.next
    with whole_file(path) as partial:
        partial.write_bytes(target.content)


def write_function(target: Target, exported: Exported, tape: TapeWriter) -> None:
    """Append a function."""
    program = exported.program
    found = {value.number: tape.input(value.form.shape, value.dtype) for value in program.inputs}
    inputs = list(found.values())
    for primitive in program.primitives:
        add(tape, primitive, found)
    outputs = [tape.constant(each) if each.primitive is None else found[each.number] for each in program.outputs]
    target.number("Q", len(exported.keywords))
    for keyword in exported.keywords:
        target.text(keyword)
    target.numbers("Q", [each.number for each in inputs])
    target.number("Q", len(inputs))
    for each in inputs:
        target.form(each.shape, each.dtype)
    target.numbers("Q", [each.number for each in outputs])
    target.number("Q", len(tape.entries))
    for entry in tape.entries:
        target.content += entry
