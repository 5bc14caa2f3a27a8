"""Program files: the programs of an exported function, as msgpack, with its constants in one file of tensors.

The tensor ``program`` is a map in msgpack::

    {"version": 1, "shapeless": bool, "kernels": [[op, definition], …], "functions": [{
        "name": text, "keywords": [text, …],            names of the last inputs
        "inputs": [[dtype, shape, strides or nil], …],
        "primitives": [[op, {parameter: argument, …}, results], …],
        "guards": [[primitives before it, size, test, size, answer], …],
        "outputs": [argument, …]}, …]}

Arguments are in the words of `hiprt.graphs.export.notation`. The constants are the tensors ``0``, ``1``, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.extras import missing
from hiprt.graphs.export.host_stream import host_values
from hiprt.graphs.export.notation import NUMBERS, Reader, Writer, check, is_index, is_shape
from hiprt.graphs.export.ops import is_portable, op_named
from hiprt.graphs.export.tensor_file import HostArray, read_tensors, write_tensors
from hiprt.graphs.trace.asked import TESTS
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.size import Guard, Size
from hiprt.graphs.trace.trace import Trace
from hiprt.op import CustomKernel, custom_ops

__all__ = ["Exported", "FileFunction", "ProgramFile", "Written", "read_programs", "write_programs"]

FORMAT, VERSION, PROGRAM = "hiprt.program", 1, "program"
# Builds the program of a function for arrays of some forms: the constants, and arrays like the inputs.
Build = Callable[[Sequence[Array], Sequence[Array]], Program]


@dataclass(frozen=True, eq=False)
class Exported:
    """A traced function with what its file says of it.

    Attributes
    ----------
    name : str
    keywords : tuple of str
        The names of the last inputs.
    program : Program
    """

    name: str
    keywords: tuple[str, ...]
    program: Program


@dataclass(frozen=True, eq=False)
class FileFunction:
    """A function that a file has.

    Attributes
    ----------
    name : str
    keywords : tuple of str
        The names of the last inputs.
    inputs : tuple of Array
        Arrays of the inputs' forms, without memory.
    build : callable
        Returns its program for constants, and for inputs of other forms.
    is_general : bool
        Whether one program is for inputs of all shapes that the function takes; else it is built for each.
    """

    name: str
    keywords: tuple[str, ...]
    inputs: tuple[Array, ...]
    build: Build
    is_general: bool


@dataclass(frozen=True, eq=False)
class ProgramFile:
    """What a file has: functions, the constants that they share, and a text of the exporter's."""

    functions: list[FileFunction]
    constants: list[HostArray]
    shapeless: bool
    metadata: str


class Written:
    """The constants and kernels of a file, each once, while its functions are written."""

    def __init__(self) -> None:
        self.constants: list[Array] = []
        self.kernels: list[Any] = []
        self.numbers: dict[int, int] = {}  # of constants and kernels, by identity
        self.kept: list[Any] = []  # so that no identity is used again

    def number(self, one: Any, found: list[Any], entry: Callable[[], Any]) -> int:
        """Return the number of a constant or a kernel; add ``entry()`` to those that were found, if it is a new one."""
        if id(one) not in self.numbers:
            made = entry()
            self.kept.append(one)
            self.numbers[id(one)] = len(found)
            found.append(made)
        return self.numbers[id(one)]

    def constant(self, array: Array) -> int:
        """Return the number of a captured array."""
        return self.number(array, self.constants, lambda: array)

    def kernel(self, kernel: CustomKernel) -> int:
        """Return the number of a kernel."""
        writer = Writer(self.constant, self.kernel)
        ops = [name for name, (_, kind) in custom_ops.items() if type(kernel) is kind]
        if not ops:
            raise TypeError(f"a {type(kernel).__name__}")
        return self.number(kernel, self.kernels, lambda: [ops[0], writer.write(kernel.definition())])

    def function(self, exported: Exported) -> dict[str, Any]:
        """Return a function as the file has it.

        Raises
        ------
        ValueError
            A primitive, or an argument of one, cannot be written.
        """
        program, writer = exported.program, Writer(self.constant, self.kernel)
        for value in program.inputs:
            writer.add(value.number)
        primitives = [self.primitive(primitive, writer) for primitive in program.primitives]
        return {
            "name": exported.name,
            "keywords": list(exported.keywords),
            "inputs": [form_of(value) for value in program.inputs],
            "primitives": primitives,
            "guards": [
                [each.at, writer.write(each.size), each.test, writer.write(each.other), each.answer]
                for each in program.guards
            ],
            "outputs": [writer.write(value) for value in program.outputs],
        }

    def primitive(self, primitive: Primitive, writer: Writer) -> list[Any]:
        """Return a primitive as the file has it."""
        op = primitive.op
        assert op is not None
        if not is_portable(op):
            raise ValueError(
                f"[export_function] Unable to serialize primitive {op.name}: it is no op of hiprt, so that no other "
                "process knows it. Call the ops that it is made of, or make it a metal_kernel or a hip_kernel."
            )
        arguments: dict[str, Any] = {}
        for name, value, default in zip(op.names, primitive.arguments, op.defaults):
            if value is default and default is not ...:
                continue
            try:
                arguments[name] = writer.write(value)
            except TypeError as error:
                raise ValueError(
                    f"[export_function] Unable to serialize primitive {op.name}: {name} is {error}, which a file "
                    "cannot hold."
                ) from None
        results = [i for i, (pattern, _, _) in enumerate(primitive.rule[1]) if pattern is not None]
        for i in results:
            writer.add(primitive.number + i)
        return [op.name, arguments, len(results)]


def form_of(value: Array) -> list[Any]:
    """Return an input as the file has it: dtype, shape, and strides where it is not contiguous."""
    form = value.form
    return [form.dtype.name, list(form.shape), None if form.strides is None else list(form.strides)]


def write_programs(path: Path, functions: Iterable[Exported], *, shapeless: bool, metadata: str) -> None:
    """Write functions to a file.

    Raises
    ------
    OSError
        The file cannot be written.
    ValueError
        A primitive cannot be written.
    """
    written = Written()
    content = {"version": VERSION, "shapeless": shapeless, "functions": [written.function(each) for each in functions]}
    content["kernels"] = written.kernels
    packed = np.frombuffer(msgpack().packb(content), np.uint8)
    tensors: dict[str, Callable[[], HostArray]] = {PROGRAM: lambda: packed}
    for i, array in enumerate(written.constants):
        tensors[str(i)] = partial(host_values, array)
    write_tensors(path, tensors, {"format": FORMAT, "version": str(VERSION), "metadata": metadata})


def msgpack() -> Any:
    """Return the package, which other work of a program needs not."""
    try:
        import msgpack as package
    except ImportError as error:
        raise missing(error, "export") from None
    return package


def read_programs(path: Path) -> ProgramFile:
    """Read a file, and check all of it but what its kernels do.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no such file, or it was damaged.
    """
    tensors, texts = read_tensors(path)
    if texts.get("format") != FORMAT or PROGRAM not in tensors:
        raise ValueError("it is a safetensors file without a program of hiprt")
    packed = tensors.pop(PROGRAM)
    check(set(tensors) == set(map(str, range(len(tensors)))), "its constants are not numbered")
    try:
        content = msgpack().unpackb(packed.tobytes(), strict_map_key=True)
    except (ValueError, TypeError, msgpack().UnpackException, RecursionError) as error:
        raise ValueError(f"its program is not msgpack ({error or type(error).__name__})") from None
    check(type(content) is dict, "its program is no map")
    version = content.get("version")
    if version != VERSION:
        raise ValueError(f"its program has version {version!r:.40}; this hiprt reads version {VERSION}")
    listed, defined, shapeless = content.get("functions"), content.get("kernels"), content.get("shapeless")
    check(type(listed) is list and listed and type(defined) is list, "it has no functions")
    check(type(shapeless) is bool, "it does not say whether it is for all shapes")
    kernels = kernels_of(defined)
    functions = [function_of(each, kernels, shapeless) for each in listed]
    constants = [tensors[str(i)] for i in range(len(tensors))]
    return ProgramFile(functions, constants, shapeless, texts.get("metadata", ""))


def kernels_of(defined: list[Any]) -> list[CustomKernel]:
    """Return the kernels of a file; nothing is compiled."""
    kernels: list[CustomKernel] = []
    shared: dict[str, Any] = {}
    for entry in defined:
        check(type(entry) is list and len(entry) == 2 and type(entry[0]) is str, "a kernel without its definition")
        check(entry[0] in custom_ops, f"a kernel of the kind {entry[0]!r:.40}, which this hiprt does not have")
        definition = Reader((), ()).read(entry[1])
        check(type(definition) is dict, "a kernel without its definition")
        try:
            kernels.append(custom_ops[entry[0]][1].defined(definition, shared))
        except Exception as error:  # a definition may be anything, and so may be what a constructor says of it
            raise ValueError(f"a {entry[0]} that cannot be made: {error!r:.200}") from None
    return kernels


def function_of(entry: Any, kernels: Sequence[CustomKernel], shapeless: bool) -> FileFunction:
    """Return a function of a file; its primitives are checked when it is built."""
    check(type(entry) is dict, "a function that is no map")
    name, keywords, forms = entry.get("name"), entry.get("keywords"), entry.get("inputs")
    check(type(name) is str, "a function without a name")
    check(type(keywords) is list and all(type(each) is str for each in keywords), "keywords that are no names")
    check(type(forms) is list and len(keywords) <= len(forms), "a function without its inputs")
    check(sorted(set(keywords)) == keywords, "keywords that are not sorted, or twice there")
    for part in ("primitives", "guards", "outputs"):
        check(type(entry.get(part)) is list, f"a function without its {part}")
    inputs = tuple(map(input_of, forms))
    return FileFunction(name, tuple(keywords), inputs, partial(build, entry, kernels, shapeless), shapeless)


def input_of(form: Any) -> Array:
    """Return an array of an input's form, at an address without memory."""
    check(type(form) is list and len(form) == 3, "an input without its form")
    dtype, shape, strides = form
    check(type(dtype) is str and dtype in NUMBERS, f"an input of the dtype {dtype!r:.40}")
    check(is_shape(shape), f"an input of the shape {shape!r:.60}")
    if strides is not None:
        is_list = type(strides) is list and len(strides) == len(shape)
        is_strides = is_list and all(type(n) is int and abs(n) < 2**62 for n in strides)
        check(is_strides, f"an input with the strides {strides!r:.60}")
    return without_memory(tuple(shape), NUMBERS[dtype], None if strides is None else tuple(strides))


def without_memory(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None) -> Array:
    """Return an array of a form, at an address without memory."""
    try:
        return Array(Buffer(0, 0, -1), shape, dtype, 1 << 60, strides)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"an array of the shape {shape!r:.60}: {error}") from None


def build(
    entry: dict[str, Any],
    kernels: Sequence[CustomKernel],
    shapeless: bool,
    constants: Sequence[Array],
    inputs: Sequence[Array],
) -> Program:
    """Return the program of a function in a file.

    Parameters
    ----------
    entry : dict
        The function as the file has it.
    kernels : sequence of CustomKernel
    shapeless : bool
    constants : sequence of Array
    inputs : sequence of Array
        Only their forms count.

    Raises
    ------
    ValueError
        A primitive is none, or does not fit its arguments.
    """
    trace, reader = Trace(shapeless=shapeless), Reader(constants, kernels)
    values = [trace.given(array) for array in inputs]
    reader.values += values
    with trace.recording():
        for at, primitive in enumerate(entry["primitives"]):
            try:
                reader.values += called(trace, reader, primitive)
            except Exception as error:  # ops say of wrong arguments what they will
                said = str(error) or type(error).__name__
                raise ValueError(f"primitive {at}, {name_in(primitive)}, cannot be made: {said:.300}") from None
        outputs = [reader.read(output) for output in entry["outputs"]]
        check(all(isinstance(output, Array) for output in outputs), "an output that is no array")
        guards = [guard_of(reader, guard, len(trace.primitives)) for guard in entry["guards"]]
    return Program(values, trace.primitives, outputs, sorted(guards, key=lambda guard: guard.at))


def name_in(primitive: Any) -> str:
    """Return the name of a primitive in a file, for messages."""
    return f"{primitive[0]!r:.40}" if type(primitive) is list and primitive else "which has no name"


def called(trace: Trace, reader: Reader, primitive: Any) -> list[Array]:
    """Call a primitive's op, and return the values that it makes."""
    check(type(primitive) is list and len(primitive) == 3, "no op with its arguments")
    name, given, count = primitive
    op = op_named(name) if type(name) is str else None
    if op is None:
        raise ValueError("this hiprt has no such op")
    check(type(given) is dict and all(each in op.names for each in given), "an argument that the op does not have")
    arguments = [reader.read(given[each]) if each in given else default for each, default in zip(op.names, op.defaults)]
    missing = [each for each, value in zip(op.names, arguments) if each not in given and value is ...]
    check(not missing, f"without {', '.join(missing)}")
    before = len(trace.primitives)
    result = op(*arguments[: op.positional], **dict(zip(op.names[op.positional :], arguments[op.positional :])))
    check(len(trace.primitives) == before + 1, "more than one call")
    rule = trace.primitives[-1].rule
    results = list(result) if rule[0] else [result]
    made = [each for each, (pattern, _, _) in zip(results, rule[1]) if pattern is not None]
    check(len(made) == count, f"{len(made)} results, where the file has {count!r:.40}")
    return made


def guard_of(reader: Reader, guard: Any, primitives: int) -> Guard:
    """Return a guard of a file."""
    check(type(guard) is list and len(guard) == 5, "a guard without its parts")
    at, size, test, other, answer = guard
    check(is_index(at, primitives + 1) and type(answer) is bool, "a guard without its place")
    check(type(test) is str and test in TESTS, f"a guard with the test {test!r:.40}")
    asked, than = reader.read(size), reader.read(other)
    check(type(asked) is Size and type(than) in (Size, int), "a guard of what is no size")
    return Guard(at, asked, test, than, answer)
