"""`import_function`: a function from a file, which is called like the one that was exported and runs as a graph."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiprt import fork
from hiprt.array import Array, array
from hiprt.flags import flags
from hiprt.graphs.export.host_stream import host_array
from hiprt.graphs.export.inputs import fits, given, listed
from hiprt.graphs.export.mlxfn.tape import is_mlxfn, read_mlxfn
from hiprt.graphs.export.program_file import FileFunction, ProgramFile, read_programs
from hiprt.graphs.launch.preparation import Preparation, arguments_of
from hiprt.graphs.step import Step
from hiprt.graphs.trace import compile as compiling, core
from hiprt.graphs.trace.compile import Traced
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.program import GuardError, Program
from hiprt.graphs.trace.rehearsal import NO_DEVICE
from hiprt.graphs.trace.size import size_text
from hiprt.graphs.trace.trace import Pause
from hiprt.stream import Stream, current_stream

__all__ = ["Imported", "import_function"]

PREFIX = "[import_function::call]"
MOST_SIGNATURES = 256


def import_function(file: str | os.PathLike[str], return_metadata: bool = False) -> Any:
    """Return the function that a file has: one of `export_function`, or one of MLX 0.30 to 0.32 (``.mlxfn``).

    The file is checked; nothing is compiled and no device is opened before the first call. To call the function is to
    run the kernels that the file has: they are code.

    Parameters
    ----------
    file : path
    return_metadata : bool
        Whether the text that was kept in the file is returned as well.

    Returns
    -------
    Imported, or tuple of Imported and str

    Raises
    ------
    RuntimeError
        The file cannot be opened.
    ValueError
        The file is damaged or of another kind, or has something that this library lacks; the message says what.
    """
    path = Path(file)
    try:
        content = read_mlxfn(path) if is_mlxfn(path) else read_programs(path)
        made = Imported(path, content)
    except OSError as error:
        raise RuntimeError(f"[import_function] Failed to open {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"[import_function] {path}: {error}") from error
    return (made, content.metadata) if return_metadata else made


class Loaded(Traced):
    """A program whose constants lie on a device.

    Attributes
    ----------
    device : int
        The index of the device.
    """

    def __init__(self, device: int, name: str, program: Program) -> None:
        outputs = list({id(each): each for each in program.outputs}.values())
        given = Program(program.inputs, program.primitives, outputs, program.guards)
        better, passes = improved(given)
        super().__init__(name, better, outputs, tuple(program.outputs), None, passes, len(given))
        self.device = device


class Imported(core.Compiled):
    """A function from a file. It takes arrays as the exported one did, and returns a tuple of arrays.

    It runs as a compiled function does: one graph, which is launched again. Called within a traced function it becomes
    part of that one's program. Constants lie on each device once, and writes to them are kept between calls.

    Attributes
    ----------
    path : Path
    metadata : str
        The text that was kept in the file.
    shapeless : bool
    """

    def __init__(self, path: Path, content: ProgramFile) -> None:
        self.path, self.metadata, self.shapeless = path, content.metadata, content.shapeless
        self.functions, self.host = content.functions, content.constants
        self.constants: dict[int, list[Array]] = {NO_DEVICE.index: [host_array(each) for each in self.host]}
        self.known: OrderedDict[Hashable, Loaded] = OrderedDict()
        self.loaded: OrderedDict[Hashable, Loaded] = OrderedDict()
        self.lock = fork.rlock()
        # Every program is built once, which checks it.
        self.programs = [each.build(self.constants[NO_DEVICE.index], each.inputs) for each in self.functions]
        self.__name__ = self.functions[0].name
        self.attach(self.known, vars(flags))

    def __repr__(self) -> str:
        return f"<imported function {self.__name__} of {self.path}>"

    @property
    def program(self) -> str:
        """The text of the programs."""
        return "\n\n".join(program.text() for program in self.programs)

    @property
    def steps(self) -> list[Step[..., Any]]:
        """The steps that run the programs, whose ``rungs`` and ``reasons`` tell how."""
        return [step for traced in self.loaded.values() for step in traced.steps.values()]

    if TYPE_CHECKING:

        def __call__(self, /, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
            """Run the program of such inputs; the C base does this, or calls `call`."""

    def call(self, /, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Run the program of such inputs: arrays by position or by name; one list or tuple, one dictionary, or both.

        Calling the function does this, unless the last call with such inputs was on the same stream.

        Raises
        ------
        ValueError
            The file has no function for such inputs, or an input is no array.
        """
        stream = current_stream()
        if core.Trace.current() is not None or not (compiling.is_enabled and flags.compile):
            return self.called(stream, args, kwargs)
        self.version, self.device = flags.version, flags.device
        loaded, arrays = self.loaded_for(stream, args, kwargs)
        step = loaded.step(stream)
        loaded.use(stream, step)
        made: tuple[Array, ...] = step(*arrays)
        return made if loaded.is_plain else loaded.results(made, None)

    def prepare(self, calls: Iterable[Sequence[Any]]) -> int:
        """Make the graphs of calls ahead: the words of `graphs.trace.compile.Compiled.prepare` hold here too."""
        if core.Trace.current() is not None or not (compiling.is_enabled and flags.compile):
            return 0
        stream = current_stream()
        with Preparation() as preparation:
            for args in arguments_of(calls):
                loaded, arrays = self.loaded_for(stream, args, {})
                preparation.add(loaded.step(stream), arrays)
        return preparation.made

    def loaded_for(
        self, stream: Stream, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Loaded, Sequence[Array]]:
        """Return what a call runs, and the arrays that it is given."""
        key, arrays = core.Trace.signature((args, kwargs))
        try:
            loaded = self.known.get(key)
        except TypeError:  # something without a hash, which `find` refuses
            loaded = None
        if loaded is None or loaded.device != stream.device.index:
            with self.lock:
                loaded = self.known[key] = self.find(stream, arrays, args, kwargs)
                while len(self.known) > MOST_SIGNATURES:
                    self.known.popitem(last=False)
        return loaded, arrays

    def called(self, stream: Stream, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Array, ...]:
        """Call the ops of the program, which a trace records."""
        in_order, by_name = given(PREFIX, args, kwargs, is_array)
        function = self.matching(in_order, by_name)
        arrays = [*in_order, *(by_name[name] for name in function.keywords)]
        program = self.program_for(stream, function, arrays)
        if function.is_general:
            with Pause():
                check_guards(self.__name__, program, arrays)
        return program.run(*arrays)

    def matching(self, args: Sequence[Array], kwargs: Mapping[str, Array]) -> FileFunction:
        """Return the function for inputs.

        Raises
        ------
        ValueError
            There is none; the message has those that there are.
        """
        for function in self.functions:
            if fits(function.keywords, function.inputs, args, kwargs, self.shapeless):
                return function
        said = [f"{PREFIX} No imported function found which matches the given positional and keyword arguments. "]
        said.append("Possible functions include:\n")
        for i, function in enumerate(self.functions, 1):
            count = len(function.inputs) - len(function.keywords)
            by_name = dict(zip(function.keywords, function.inputs[count:]))
            said.append(f" {i}. {counted('Function with', count, len(by_name))}")
            said.append(listed(function.inputs[:count], by_name, "   "))
        said.append(f"\n{counted('Called with', len(args), len(kwargs))}{listed(args, kwargs, '  ')}")
        if self.shapeless:
            said.append("Shapes may differ, numbers of axes and dtypes may not.\n")
        raise ValueError("".join(said))

    def program_for(self, stream: Stream, function: FileFunction, arrays: Sequence[Array]) -> Program:
        """Return a function's program for inputs of these strides, with its constants on the stream's device."""
        index = stream.device.index
        if index not in self.constants:
            self.constants[index] = [array(each) for each in self.host]
        return function.build(self.constants[index], function.inputs if function.is_general else arrays)

    def find(self, stream: Stream, arrays: Sequence[Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Loaded:
        """Return what runs the program of such inputs, in the order of the call."""
        in_order, by_name = given(PREFIX, args, kwargs, is_array)
        function = self.matching(in_order, by_name)
        forms = () if function.is_general else tuple((each.form.shape, each.form.strides) for each in arrays)
        key = (stream.device.index, self.functions.index(function), tuple(by_name), forms)
        ordered = [*in_order, *(by_name[name] for name in function.keywords)]
        loaded = self.loaded.get(key)
        if loaded is None:
            program = self.program_for(stream, function, ordered)
            first = len(in_order)
            named = dict(zip(function.keywords, program.inputs[first:]))
            inputs = [*program.inputs[:first], *(named[name] for name in by_name)]
            in_this_order = Program(inputs, program.primitives, program.outputs, program.guards)
            loaded = self.loaded[key] = Loaded(stream.device.index, self.__name__, in_this_order)
            while len(self.loaded) > MOST_SIGNATURES:
                self.loaded.popitem(last=False)
        if function.is_general and loaded.program.guards:
            check_guards(self.__name__, loaded.program, arrays)
        return loaded


def is_array(value: Any) -> bool:
    """Whether a call's input is an array."""
    return isinstance(value, Array)


def counted(what: str, positional: int, by_name: int) -> str:
    """Return how many inputs a function has."""
    return f"{what} {positional} positional inputs and {by_name} keyword inputs:\n"


def check_guards(name: str, program: Program, arrays: Sequence[Array]) -> None:
    """Refuse shapes that a program is not for.

    Raises
    ------
    ValueError
        A size answers a question of the traced function otherwise, or a primitive cannot take the shapes.
    """
    try:
        program.forms(arrays)
    except GuardError:
        shapes = ", ".join(str(each.form.shape) for each in arrays)
        raise ValueError(
            f"{PREFIX} The program of {name} does not hold for the shapes {shapes}: the function has compared a size, "
            f"or used it as a number, when it was exported ({guards_text(program)})."
        ) from None


def guards_text(program: Program) -> str:
    """Return what a program asks of sizes, in terms of its inputs where it can."""
    names = {value.number: f"input {i}" for i, value in enumerate(program.inputs, 1)}

    def named(number: int) -> str:
        return names.get(number, "a result")

    asked = [
        f"{'' if guard.answer else 'not '}{size_text(guard.size, named)} {guard.test} {size_text(guard.other, named)}"
        for guard in program.guards
    ]
    return "; ".join(asked[:5])
