"""The functions of an MLX file: their inputs, and a tape of what is computed, in order."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.graphs.export.mlxfn.from_mlx import call
from hiprt.graphs.export.mlxfn.layout import METADATA, Source, Version, layout_of, version_of
from hiprt.graphs.export.program_file import FileFunction, ProgramFile, without_memory
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.trace import Trace

__all__ = ["is_mlxfn", "read_mlxfn"]

Shape = tuple[int, ...]
DType = np.dtype[Any]
Constants = dict[int, tuple[int, np.ndarray[Any, DType]]]  # places and contents, by number


@dataclass(frozen=True, eq=False)
class Entry:
    """A primitive of a tape.

    Attributes
    ----------
    name : str
    state : list
    inputs : list of int
        The numbers of the arrays that it takes.
    outputs : list of int
        The numbers of those that it makes.
    forms : list of (shape, dtype)
        The forms of these.
    """

    name: str
    state: list[Any]
    inputs: list[int]
    outputs: list[int]
    forms: list[tuple[Shape, DType]]


@dataclass(frozen=True, eq=False)
class Tape:
    """A function in a file.

    Attributes
    ----------
    keywords : list of str
        The names of the last inputs.
    inputs : dict
        Shape and dtype by number.
    outputs : list of int
    entries : list of Entry
    constants : dict
        The place among the file's constants, by number.
    """

    keywords: list[str]
    inputs: dict[int, tuple[Shape, DType]]
    outputs: list[int]
    entries: list[Entry]
    constants: dict[int, int]


def is_mlxfn(path: Path) -> bool:
    """Whether a file is MLX's, by its name."""
    return path.suffix == ".mlxfn"


def read_mlxfn(path: Path) -> ProgramFile:
    """Read a file of MLX 0.30 to 0.32.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no such file, or it was damaged.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    source = Source(memoryview(mapped))
    version = version_of(source.text())
    count, shapeless = source.number("i"), source.bool()
    metadata = source.text() if version >= METADATA else ""
    if not 1 <= count <= len(mapped):
        raise ValueError(f"it has {count} functions")
    constants: Constants = {}
    functions = []
    for _ in range(count):
        tape = read_tape(source, version, constants)
        first = len(tape.inputs) - len(tape.keywords)
        names = list(tape.inputs)
        # Programs have inputs by name in the order of their names.
        order = names[:first] + [number for _, number in sorted(zip(tape.keywords, names[first:]))]
        inputs = tuple(without_memory(*tape.inputs[number]) for number in order)
        built = partial(build, tape, order, shapeless)
        functions.append(FileFunction(path.stem, tuple(sorted(tape.keywords)), inputs, built, is_general=False))
    if source.at != len(mapped):
        raise ValueError(f"{len(mapped) - source.at} bytes behind its functions")
    return ProgramFile(functions, [each for _, each in constants.values()], shapeless, metadata)


def read_tape(source: Source, version: Version, constants: Constants) -> Tape:
    """Read a function, and add the constants that are new."""
    keywords = source.listed(source.text, 8)
    numbers = source.numbers("Q")
    forms = source.listed(lambda: (source.shape(), source.dtype()), 13)
    if len(set(numbers)) != len(numbers) or len(forms) != len(numbers) or len(keywords) > len(numbers):
        raise ValueError("inputs that do not belong together")
    if len(set(keywords)) != len(keywords):
        raise ValueError("keywords that are there twice")
    inputs = dict(zip(numbers, forms))
    outputs = source.numbers("Q")
    known, used, entries = set(numbers), {}, []
    for _ in range(source.count(9)):
        number = source.number("Q")
        if source.bool():
            entry = read_entry(source, version, number)
            if not known.issuperset(entry.inputs) or not known.isdisjoint(entry.outputs):
                raise ValueError(f"{entry.name} with inputs that nothing has made")
            known.update(entry.outputs)
            entries.append(entry)
        elif source.bool():
            if number not in constants:
                shape, dtype = source.shape(), source.dtype()
                raw = source.take(math.prod(shape) * dtype.itemsize)
                made = np.frombuffer(raw, dtype).reshape(shape) if len(raw) else np.empty(shape, dtype)
                constants[number] = len(constants), made
            used[number] = constants[number][0]
            known.add(number)
        elif number not in inputs:
            raise ValueError("an input that the function does not have")
    if not known.issuperset(outputs):
        raise ValueError("an output that nothing has made")
    return Tape(keywords, inputs, outputs, entries, used)


def read_entry(source: Source, version: Version, number: int) -> Entry:
    """Read a primitive and its state."""
    inputs = source.numbers("Q")
    for _ in range(3):  # the stream
        source.number("i")
    name = source.text()
    state = [source.part(kind) for kind in layout_of(name, version)]
    if source.number("Q") == 0:
        return Entry(name, state, inputs, [number], [(source.shape(), source.dtype())])
    outputs = source.numbers("Q")
    shapes, dtypes = source.listed(source.shape, 8), source.listed(source.dtype, 5)
    if not len(outputs) == len(set(outputs)) == len(shapes) == len(dtypes) or number not in outputs:
        raise ValueError(f"{name} with outputs that do not belong together")
    return Entry(name, state, inputs, outputs, list(zip(shapes, dtypes)))


def build(
    tape: Tape, order: list[int], shapeless: bool, constants: Sequence[Array], inputs: Sequence[Array]
) -> Program:
    """Return the program of a tape for inputs of some forms, made of our ops.

    A function for all shapes is built for each: MLX's primitives in it infer their shapes anew.

    Raises
    ------
    ValueError
        A primitive cannot be made; the message names it.
    """
    trace = Trace()
    values = [trace.given(array) for array in inputs]
    found: dict[int, Array] = dict(zip(order, values))
    found |= {number: constants[place] for number, place in tape.constants.items()}
    with trace.recording():
        for entry in tape.entries:
            try:
                given = [found[number] for number in entry.inputs]
                made = call(entry.name, entry.state, given, entry.forms, shapeless)
            except Exception as error:  # ops say of wrong arguments what they will
                said = str(error) or type(error).__name__
                raise ValueError(f"MLX's primitive {entry.name} cannot be made of ops of hiprt: {said:.300}") from None
            found.update(zip(entry.outputs, made))
    return Program(values, trace.primitives, [found[number] for number in tape.outputs], trace.guards)
