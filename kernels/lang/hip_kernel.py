"""`hip_kernel`: plain HIP source with declared arguments, launched like the ops."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hiprt import fork
from hiprt.array import bfloat16
from hiprt.code_folder import Source
from hiprt.device import Device, current_device
from hiprt.errors import CompileError, HipWarning
from hiprt.kernels.lang.hip_arguments import TRAITS, Declared, assertions
from hiprt.kernels.lang.hip_signature import parameters_of, points_to_const
from hiprt.loaded_modules import FunctionTable, modules
from hiprt.module import READ, READ_WRITE, WRITE, Function, laid_over
from hiprt.op import Op
from hiprt.provider import Provider
from hiprt.stream import Stream, current_stream

__all__ = ["HipKernel", "hip_kernel", "hip_kernels"]

NAME = re.compile(r"(\w+(?:::\w+)*)\s*(?:<([\w\s,]*)>)?")
# hiprtc declares this header's names by itself, and no other compiler has the header.
BOUNDS = re.compile(r"\b__launch_bounds__\s*\([^)]*\)")
KERNEL = re.compile(r"\b__global__\b[\w\s:]*?\b(\w+)\s*\(")
RUNTIME_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<hip/hip_runtime.h>", re.MULTILINE)
WORDS = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "__half",
    "bfloat16": "__hip_bfloat16",
    "float32": "float",
    "float64": "double",
}
Three = tuple[int, int, int]
Values = tuple[Any, ...]


def hip_kernel(
    source: str,
    name: str,
    args: Mapping[str, Any],
    *,
    constants: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    strided: bool = False,
) -> HipKernel:
    """Return a kernel of plain HIP source; nothing is compiled before its first call.

    Parameters
    ----------
    source : str
        HIP C++. ``extern "C"`` is not needed.
    name : str
        The name of the ``__global__`` function. A template's parameters follow in brackets, ``axpy<T, N>``; calls give
        their values.
    args : mapping
        Name and declaration of each argument, in the kernel's order. A buffer: ``"read float32"``,
        ``"write float32"`` or ``"update float32"`` (reads and writes); without a dtype any array is taken.
        ``"write float32 over x"``: it may be the memory of `x`, each element of which is read before that element is
        written; in a kept step it will be, where nobody else still reads `x`. A value:
        its dtype, ``"int32"``; for a structure a structured numpy dtype made with ``align=True``, whose fields have the
        names of the members. A dtype may be a template parameter, ``"read T"``. ``"address"``: a pointer that makes no
        edge, or a uint64 that points to memory; a member of a structure that does has the dtype
        `hiprt.module.ADDRESS`. Such an address stays right when a step's memory moves. From what is declared come the
        edges of graphs; the compiler checks that it fits the kernel's own parameters, sizes and offsets included.
    constants : mapping, optional
        Macros: names, and numbers, bools or text.
    options : sequence of str
        More options for hiprtc.
    strided : bool
        Whether arrays may have gaps; the kernel is given the address of the first element and no strides.

    Raises
    ------
    ValueError
        A name or a declaration is not valid.

    Warns
    -----
    HipWarning
        An argument is declared as read, and the source has it as a pointer through which the kernel may write; or no
        argument is declared as written, so that the kernel is a barrier in a graph.

    See Also
    --------
    hip_kernels : Several kernels of one source.
    """
    program = declare(source, {name: args}, constants, options, strided=strided)
    for doubt in program.doubts():
        warnings.warn(doubt, HipWarning, stacklevel=2)
    (made,) = program.kernels.values()
    return made


def hip_kernels(
    source: str,
    kernels: Mapping[str, Mapping[str, Any]],
    *,
    constants: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    strided: bool = False,
) -> dict[str, HipKernel]:
    """Return several kernels of one source, by name.

    Kernels with the same template parameters are one module per set of values, and share its ``__device__`` variables.

    Parameters
    ----------
    source : str
    kernels : mapping
        Each kernel's name and its ``args``.
    constants, options, strided
        The same as in `hip_kernel`.
    """
    program = declare(source, kernels, constants, options, strided=strided)
    for doubt in program.doubts():
        warnings.warn(doubt, HipWarning, stacklevel=2)
    return dict(program.kernels)


def declare(
    source: str,
    kernels: Mapping[str, Mapping[str, Any]],
    constants: Mapping[str, Any] | None,
    options: Sequence[str],
    *,
    strided: bool,
) -> Program:
    """Return a program with its kernels; see `hip_kernels`."""
    program = Program(source, constants or {}, options)
    for name, args in kernels.items():
        match = NAME.fullmatch(name.strip())
        if match is None:
            raise ValueError(f"{name!r} is not the name of a kernel: it is like axpy, or axpy<T, N> for a template")
        parameters = tuple(word.strip() for word in (match[2] or "").split(",") if word.strip())
        program.kernels[match[1]] = HipKernel(program, match[1], parameters, args, strided=strided)
    return program


class Program:
    """One source and its kernels.

    Parameters
    ----------
    source : str
    constants : mapping
    options : sequence of str

    Attributes
    ----------
    kernels : dict
    """

    def __init__(self, source: str, constants: Mapping[str, Any], options: Sequence[str]) -> None:
        self.source = RUNTIME_HEADER.sub("", source)
        self.options = tuple(options)
        self.definitions = "".join(f"#define {name} {constant(name, value)}\n" for name, value in constants.items())
        self.kernels: dict[str, HipKernel] = {}
        self.lock = fork.lock()

    def definition(self) -> dict[str, Any]:
        """Return all that the program is made from."""
        return {
            "source": self.source,
            "definitions": self.definitions,
            "options": list(self.options),
            "kernels": [
                {"name": each.name, "parameters": list(each.parameters), "args": each.args, "strided": each.strided}
                for each in self.kernels.values()
            ],
        }

    @classmethod
    def defined(cls, definition: dict[str, Any]) -> Program:
        """Return the program that has a definition.

        Raises
        ------
        TypeError, ValueError
            A part has another type, or is no declaration.
        """
        source, definitions, options = definition["source"], definition["definitions"], definition["options"]
        if not all(isinstance(text, str) for text in (source, definitions, *options)):
            raise TypeError("the source of a kernel and its options are texts")
        made = cls(source, {}, options)
        made.definitions = definitions
        for each in definition["kernels"]:
            name, parameters = each["name"], tuple(each["parameters"])
            if NAME.fullmatch(name) is None or not all(isinstance(parameter, str) for parameter in parameters):
                raise ValueError(f"{name!r} is not the name of a kernel")
            made.kernels[name] = HipKernel(made, name, parameters, each["args"], strided=bool(each["strided"]))
        return made

    @property
    def file(self) -> str:
        """The source's name in messages."""
        return f"{next(iter(self.kernels)).rpartition('::')[2]}.hip"

    def doubts(self) -> Iterator[str]:
        """Yield what is probably wrong with the declarations, as far as the source tells."""
        for kernel in self.kernels.values():
            declared = kernel.declared(tuple(np.dtype(np.float32) for _ in kernel.parameters))
            if not any(each.access & WRITE for each in declared):
                yield (
                    f"{kernel.name} declares nothing that it writes, so that in a graph it is a barrier: it waits for "
                    "everything before it, and everything after it waits for it. Declare what it writes as write or "
                    "update"
                )
            written = parameters_of(self.source, kernel.name) or []
            for each, parameter in zip(declared, written if len(written) == len(declared) else []):
                if each.access == READ and points_to_const(parameter) is False:
                    yield (
                        f"{kernel.name}: {each.name} is declared as read, but its parameter is {parameter!r}. If the "
                        "kernel writes there, declare it as update; else make the parameter a pointer to const"
                    )

    def text(self, declared: Mapping[str, tuple[Declared, ...]]) -> str:
        """Return the program: the source, and behind it the assertions about some of its kernels."""
        checks = "\n".join(line for expression, args in declared.items() for line in assertions(expression, args))
        return (
            f'#line 1 "hiprt declarations"\n{TRAITS}{self.definitions}#line 1 "{self.file}"\n{self.source}\n'
            f'#line 1 "declarations of {self.file}"\n{checks}\n'
        )

    def says(self, name: str) -> bool:
        """Whether a kernel's name, without its namespaces, is a word of the source."""
        return re.search(rf"\b{re.escape(name.rpartition('::')[2])}\b", self.definitions + self.source) is not None

    def group(self, parameters: tuple[str, ...]) -> list[HipKernel]:
        """Return the kernels of these template parameters, which are compiled together."""
        return [kernel for kernel in self.kernels.values() if kernel.parameters == parameters]

    def code(self, declared: Mapping[str, tuple[Declared, ...]]) -> Source:
        """Return what hiprtc compiles for some of its kernels."""
        return Source(self.text(declared), self.file, tuple(self.options), tuple(declared))

    def compile(self, parameters: tuple[str, ...], values: Values, device: Device) -> None:
        """Compile and load every kernel of these template parameters, and bind it."""
        group = self.group(parameters)
        declared = {kernel.expression(values): kernel.declared(values) for kernel in group}
        text, name, options, expressions = self.code(declared)
        try:
            module = modules.load(text, name, options=options, expressions=expressions, device=device)
        except CompileError:
            missing = [kernel.name for kernel in group if not self.says(kernel.name)]
            if not missing:
                raise
            known = ", ".join(dict.fromkeys(KERNEL.findall(BOUNDS.sub("", self.source)))) or "none"
            raise ValueError(f"the source has no kernel {missing[0]}; it has {known}") from None
        for kernel, (expression, args) in zip(group, declared.items()):
            arguments = [arg.argument for arg in args]
            function = Function(module, module.lowered[expression], arguments, kernel.name)
            kernel.functions[key_of(device, values)] = (function, args)


def key_of(device: Device, values: Values) -> tuple[Any, ...]:
    """Return the key of a device and a template's values, which tells 1 from True: Python takes them for equal."""
    return (device.index, values, tuple(map(type, values)))


class HipKernel:
    """A kernel that `hip_kernel` made.

    Attributes
    ----------
    name : str
    parameters : tuple of str
        The names of the template's parameters.
    """

    def __init__(
        self, program: Program, name: str, parameters: tuple[str, ...], args: Mapping[str, Any], *, strided: bool
    ) -> None:
        self.program, self.name, self.parameters, self.strided = program, name, parameters, strided
        self.args = dict(args)
        self.functions: FunctionTable[tuple[Function, tuple[Declared, ...]]] = FunctionTable()
        declared = self.declared(tuple(np.dtype(np.float32) for _ in parameters))
        if laid_over(name, [each.argument for each in declared]) and strided:
            raise ValueError(f"{name}: arrays of any strides do not lie over each other element by element")

    def declared(self, values: Values) -> tuple[Declared, ...]:
        """Return the arguments for a template's values."""
        types = dict(zip(self.parameters, values))
        try:
            return tuple(Declared.parse(name, text, types) for name, text in self.args.items())
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def expression(self, values: Values) -> str:
        """Return the kernel's name in C++, with the template's values."""
        return f"{self.name}<{', '.join(map(word, values))}>" if values else self.name

    def values(self, template: Mapping[str, Any] | None) -> Values:
        """Return the template's values in order.

        Raises
        ------
        ValueError
            A value is missing, unknown, or no dtype, number, bool or text.
        """
        if not template and not self.parameters:
            return ()
        given = dict(template or {})
        if given.keys() != set(self.parameters):
            raise ValueError(
                f"{self.name}: template values for {', '.join(given) or 'nothing'}; "
                f"its parameters are {', '.join(self.parameters) or 'none'}"
            )
        return tuple(
            value if isinstance(value, (bool, int, str)) else self.dtype(parameter, value)
            for parameter, value in ((p, given[p]) for p in self.parameters)
        )

    def dtype(self, parameter: str, value: Any) -> np.dtype[Any]:
        """Return a template's dtype."""
        try:
            made: np.dtype[Any] = np.dtype(value)
        except TypeError:
            made = np.dtype(object)
        if made.name not in WORDS:
            raise ValueError(f"{self.name}: {parameter}={value!r} is not a dtype, number, bool or C++ text")
        return made

    def bind(self, template: Mapping[str, Any] | None = None, device: Device | None = None) -> Function:
        """Compile for a device, once, and return the function. Its ``launch`` is the cheapest way to launch.

        Parameters
        ----------
        template : mapping, optional
            The template parameters and their values: dtypes, ints, bools, or C++ text.
        device : Device, optional
            The device; this thread's by default.

        Raises
        ------
        CompileError
            The source does not compile, or the kernel is not as it was declared; the log names the lines.
        """
        return self.bound(self.values(template), device or current_device())[0]

    def source(self, values: Values, _provider: Provider) -> Source:
        """Return what hiprtc compiles for a template's values."""
        group = self.program.group(self.parameters)
        return self.program.code({kernel.expression(values): kernel.declared(values) for kernel in group})

    def bound(self, values: Values, device: Device) -> tuple[Function, tuple[Declared, ...]]:
        """Return function and arguments for a template's values."""
        key = key_of(device, values)
        found = self.functions.get(key)
        if found is None:
            with self.program.lock:
                if key not in self.functions:
                    self.program.compile(self.parameters, values, device)
                found = self.functions[key]
        return found

    def __call__(
        self,
        *args: Any,
        grid: int | Sequence[int] | None = None,
        threads: int | Sequence[int] | None = None,
        block: int | Sequence[int] = 256,
        template: Mapping[str, Any] | None = None,
        shared: int = 0,
        stream: Stream | None = None,
        **named: Any,
    ) -> None:
        """Launch on a stream.

        Parameters
        ----------
        *args, **named
            The declared arguments, in order or by name: `hiprt.Array` for buffers; for structures a record of the
            dtype, a mapping or a tuple.
        grid : int or up to 3 of int
            The blocks. Either this or `threads` is given.
        threads : int or up to 3 of int
            The threads that are needed. They are rounded up to whole blocks, so the kernel compares its index.
        block : int or up to 3 of int
            The threads of a block.
        template : mapping, optional
            The values of the template's parameters.
        shared : int
            The bytes of dynamic shared memory.
        stream : Stream, optional
            This thread's by default.

        Raises
        ------
        TypeError
            An argument is missing, unknown or of a wrong type.
        ValueError
            A value or the template does not fit.
        CompileError
            The source does not compile, or the kernel is not as it was declared.
        """
        given = self.ordered(args, named)
        launch(self, given, grid=grid, threads=threads, block=block, template=template, shared=shared, stream=stream)

    def definition(self) -> dict[str, Any]:
        """Return the kernel's name, and its program with all kernels of that."""
        return {"name": self.name, "program": self.program.definition()}

    def portable(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name.

        Raises
        ------
        ValueError
            The kernel is passed addresses, which are those of this process.
        """
        for each in self.declared(self.values(arguments["template"])):
            argument = each.argument
            if argument.addresses or argument.dtype == "address":
                raise ValueError(
                    f"{self.name}: {each.name} has an address, which means nothing in another process. Declare a "
                    "buffer and pass the array."
                )
        return arguments

    @classmethod
    def defined(cls, definition: dict[str, Any], shared: dict[str, Any]) -> HipKernel:
        """Return the kernel that has a definition; kernels of equal programs are made one program."""
        name, program = definition["name"], definition["program"]
        key = repr(program)
        if key not in shared:
            shared[key] = Program.defined(program)
        made: HipKernel = shared[key].kernels[name]
        return made

    def checked(self, declared: Sequence[Declared], given: Sequence[Any]) -> list[Any]:
        """Return the values of a launch after checking them against their declarations."""
        try:
            return [d.value(value, strided=self.strided) for d, value in zip(declared, given)]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None

    def ordered(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Return a call's arguments in order."""
        names = list(self.args)
        listed = ", ".join(names) or "none"
        if len(args) > len(names):
            raise TypeError(f"{self.name}: {len(args)} arguments are given; declared are {listed}")
        for name in named:
            if name not in names:
                raise TypeError(f"{self.name}: no argument is named {name!r}; declared are {listed}")
            if name in names[: len(args)]:
                raise TypeError(f"{self.name}: {name} is given twice")
        missing = [name for name in names[len(args) :] if name not in named]
        if missing:
            raise TypeError(f"{self.name}: {', '.join(missing)} not given; declared are {listed}")
        return [*args, *(named[name] for name in names[len(args) :])]

    def blocks(self, grid: int | Sequence[int] | None, threads: int | Sequence[int] | None, block: Three) -> Three:
        """Return the grid in blocks."""
        if (grid is None) == (threads is None):
            raise TypeError(f"{self.name}: either grid, in blocks, or threads is given")
        if grid is not None:
            return sizes(self.name, "grid", grid)
        x, y, z = sizes(self.name, "threads", threads if threads is not None else 0)
        return (-(-x // block[0]), -(-y // block[1]), -(-z // block[2]))


def launch_on(
    kernel: HipKernel,
    given: Sequence[Any],
    *,
    grid: int | Sequence[int] | None = None,
    threads: int | Sequence[int] | None = None,
    block: int | Sequence[int] = 256,
    template: Mapping[str, Any] | None = None,
    shared: int = 0,
    stream: Stream | None = None,
) -> None:
    """Do what a call of a kernel does, with its arguments in order; traces record this."""
    stream = stream or current_stream()
    values, whole = kernel.values(template), sizes(kernel.name, "block", block)
    blocks = kernel.blocks(grid, threads, whole)
    if stream.written is not None:  # nothing runs on the stream, so that nothing is compiled
        declared = kernel.declared(values)
        kernel.checked(declared, given)
        rehearsal: Any = stream
        rehearsal.need(partial(kernel.source, values))
        stream.written += [value for d, value in zip(declared, given) if d.access in (WRITE, READ_WRITE)]
        return
    function, declared = kernel.bound(values, stream.device)
    function.launch(stream, blocks, whole, *kernel.checked(declared, given), shared=shared)


launch = Op(launch_on, "hip_kernel", HipKernel)


def sizes(kernel: str, name: str, given: int | Sequence[int]) -> Three:
    """Return three sizes; a size that is not given is 1."""
    if type(given) is int and given > 0:
        return (given, 1, 1)
    listed = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    least = 1 if name == "block" else 0
    if not 1 <= len(listed) <= 3 or not all(isinstance(n, (int, np.integer)) and n >= least for n in listed):
        raise ValueError(f"{kernel}: {name}={given!r} is not one to three sizes")
    x, y, z = (*map(int, listed), 1, 1)[:3]
    return (x, y, z)


def word(value: Any) -> str:
    """Return a template's value in C++."""
    if isinstance(value, np.dtype):
        return WORDS["bfloat16" if value == bfloat16 else value.name]
    return str(value).lower() if isinstance(value, bool) else str(value)


def constant(name: str, value: Any) -> str:
    """Return a macro's value in C++."""
    if not name.isidentifier():
        raise ValueError(f"constant {name!r} is not a name")
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, str) and "\n" not in value:
        return value
    if isinstance(value, (int, np.integer)):
        return f"({int(value)})" if value < 0 else str(int(value))
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return f"({float(value)!r}{'f' if isinstance(value, np.float32) else ''})"
    raise ValueError(f"constant {name}={value!r} is not a number, bool or text of one line")
