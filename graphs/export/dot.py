"""`export_to_dot`: a program as a drawing in the language of Graphviz."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hiprt.array import Array
from hiprt.graphs.export.callback import Names
from hiprt.graphs.export.exporter import traced
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import form_text

__all__ = ["export_to_dot"]

File = str | os.PathLike[str] | Any


def export_to_dot(file: File, *args: Any, shapeless: bool = False, **kwargs: Any) -> None:
    """Write a program as a drawing: boxes are primitives, ellipses arrays.

    Parameters
    ----------
    file : path, or object with ``write``
    *args, **kwargs
        A function and examples of its inputs, as `export_function` takes them. Within a traced function: arrays that it
        has computed, of which all that they depend on is drawn; those that have a name are drawn with it.
    shapeless : bool
        The same as in `export_function`.

    Raises
    ------
    ValueError
        There is nothing to draw, or `file` is neither.
    """
    names = Names()
    if args and callable(args[0]):
        exported = traced(args[0], args[1:], kwargs, shapeless)
        program = exported.program
        primitives, outputs = list(program.primitives), list(program.outputs)
        first = len(program.inputs) - len(exported.keywords)
        named = dict(zip(exported.keywords, program.inputs[first:]))
    else:
        outputs, named = [*args, *kwargs.values()], kwargs
        if not outputs or not all(isinstance(each, Array) for each in outputs):
            raise ValueError("[export_to_dot] A function and its inputs are needed, or arrays of a traced function.")
        primitives = made_by(outputs)
    for name, array in named.items():
        names.names[array.number if array.primitive is not None else -id(array)] = name
    text = "".join(drawing(primitives, outputs, names))
    if isinstance(file, (str, os.PathLike)):
        Path(file).write_text(text)
    elif hasattr(file, "write"):
        file.write(text)
    else:
        raise ValueError("[export_to_dot] Accepts file-like objects or strings to be used as filenames.")


def made_by(outputs: Iterable[Array]) -> list[Primitive]:
    """Return the primitives that arrays depend on, each behind those that it depends on itself."""
    found: dict[int, Primitive] = {}
    waiting = [each.primitive for each in outputs]
    while waiting:
        primitive = waiting.pop()
        if primitive is not None and primitive.op is not None and primitive.number not in found:
            found[primitive.number] = primitive
            waiting += [each.primitive for each in primitive.inputs]
    return [found[number] for number in sorted(found)]


def drawing(primitives: list[Primitive], outputs: list[Array], names: Names) -> Iterable[str]:
    """Yield the lines of a drawing."""
    yield "digraph {\n"
    drawn: set[str] = set()

    def box(name: str, like: Array, style: str = "") -> Iterable[str]:
        if name not in drawn:
            drawn.add(name)
            yield f"  {quoted(name)} [label={quoted(name + ' ' + form_text(like))}{style}];\n"

    for at, primitive in enumerate(primitives):
        assert primitive.op is not None
        node = f"primitive {at}"
        yield f"  {quoted(node)} [label={quoted(primitive.op.name)}, shape=rectangle];\n"
        for value in primitive.inputs:
            yield from box(names(value), value, ", style=dashed" if value.primitive is None else "")
            yield f"  {quoted(names(value))} -> {quoted(node)};\n"
        for i, (pattern, _, _) in enumerate(primitive.rule[1]):
            if pattern is not None:
                name = names.numbered(primitive.number + i)
                yield from box(name, pattern)
                yield f"  {quoted(node)} -> {quoted(name)};\n"
    for value in outputs:
        yield from box(names(value), value)
        yield f"  {quoted(names(value))} [peripheries=2];\n"
    yield "}\n"


def quoted(text: str) -> str:
    """Return a text in DOT's quotation marks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
