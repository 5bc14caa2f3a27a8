"""Modules and functions: a loaded code object, and one of its kernels with declared arguments, ready to launch."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from hiprt import core, fork, library, objects
from hiprt.array import Array
from hiprt.device import current_device
from hiprt.hip import call, handle, lib
from hiprt.stream import Stream

__all__ = ["ADDRESS", "READ", "READ_WRITE", "SCALAR", "WRITE", "Argument", "Function", "Module", "kind_of", "laid_over"]

# What a kernel does with an argument: takes it by value, or reads or writes the memory that it points to.
SCALAR: int = lib.HIPRT_BY_VALUE
READ: int = lib.HIPRT_READ
WRITE: int = lib.HIPRT_WRITE
READ_WRITE: int = lib.HIPRT_READ_WRITE
# The dtype of a structure's member that is an address: a uint64 that moves with the memory it points to.
ADDRESS = np.dtype(np.uint64, metadata={"hiprt": "address"})
FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "address": "Q",
}

WHOLE = frozenset(name for name, format_ in FORMATS.items() if format_ in "bBhHiIqQ")  # of integers

lock = fork.lock()
# Functions by the address of the core's kernel, so that recorded nodes can be shown with their arguments' names.
functions: weakref.WeakValueDictionary[int, Function] = weakref.WeakValueDictionary()


def argument_values(handle: int, block: bytes) -> dict[str, Any]:
    """Return the arguments of a recorded kernel by name; a buffer's value is its address.

    Parameters
    ----------
    handle : int
        Address of the core's kernel.
    block : bytes
        The arguments, laid out as the kernel reads them.
    """
    function = functions.get(handle)
    values: dict[str, Any] = {}
    if function is not None:
        for i, argument in enumerate(function.arguments):
            at = lib.hiprt_kernel_offset(function.core, i)
            values[argument.name] = argument.value(block[at : at + argument.size])
    return values


def kind_of(given: Any) -> str:
    """Return the description of a value that messages use."""
    if isinstance(given, (Array, np.ndarray)):
        return f"{'an array' if isinstance(given, Array) else 'a numpy array'} of {given.dtype}"
    return f"{given!r} ({type(given).__name__})"


def is_used(kernel: Any) -> bool:
    """Whether a function, a recording or a graph holds a kernel of the core, besides its module."""
    return int(lib.hiprt_kernel_references(kernel)) > 1


class Module:
    """A code object loaded on the current device.

    Parameters
    ----------
    code : bytes
        What `hiprt.compiler.compile_source` returned.
    lowered : mapping, optional
        Name expressions and the kernels they stand for.

    Attributes
    ----------
    handle : int
        The ``hipModule_t``; 0 once the module is closed.
    kernels : list
        The core's kernels that belong to the module. Graphs hold references to those, not to functions.
    """

    def __init__(self, code: bytes, lowered: Mapping[str, str] | None = None) -> None:
        self.code = code
        self.lowered = dict(lowered or {})
        self.kernels: list[Any] = []
        library.current()
        self.handle = handle(lib.hipModuleLoadData, code, detail=current_device().shortfall)

    @property
    def hip_module(self) -> Any:
        """The module as hip-python has it."""
        return library.hip().ihipModule_t.fromObj(self.handle)

    def function(self, name: str) -> int:
        """Return the ``hipFunction_t`` of a kernel."""
        return handle(lib.hipModuleGetFunction, self.handle, name.encode(), detail=name)

    def keep(self, kernel: Any) -> None:
        """Take a reference to a kernel of the core, to see whether anything else has one."""
        lib.hiprt_kernel_retain(kernel)
        held = core.ffi.gc(core.ffi.cast("hiprt_kernel *", kernel), lib.hiprt_kernel_release)
        with lock:
            self.kernels[:] = [*(known for known in self.kernels if is_used(known)), held]

    def close(self) -> None:
        """Unload the module; a second time does nothing.

        Raises
        ------
        RuntimeError
            A function, a recording or a graph has one of its kernels. Nothing has changed.
        """
        with lock:
            used = [known for known in self.kernels if is_used(known)]
        if used and self.handle:
            live = [functions[at].name for at in map(core.address, used) if at in functions]
            names = ", ".join(live) or "of functions that are gone"
            raise RuntimeError(
                f"the module is in use: functions or graphs have {len(used)} of its kernels ({names}). "
                "Let go of its hiprt.Function objects, and of the steps that launched them, or call their let_go()"
            )
        module, self.handle = self.handle, 0
        if module:
            call(lib.hipModuleUnload(module))


class Argument:
    """One declared argument of a kernel.

    Parameters
    ----------
    name : str
    access : int
        What the kernel does with the buffer: `READ`, `WRITE` or `READ_WRITE`; `SCALAR` for a value.
    dtype : str
        The type of a value: a key of `FORMATS`, or ``bytes`` for a structure. ``address`` is a number that points to
        memory; it says nothing about what the kernel does there.
    size, alignment : int
        Bytes of a structure.
    addresses : sequence of int
        Where a structure holds addresses, in bytes from its start. When memory moves, as that of a kept step does when
        its recording ends, these move with it; nothing else in a value is ever changed.
    over : sequence of str
        Names of buffers that the kernel only reads, and that may be the very same memory as this one, which it only
        writes: it reads each element before it writes that element, whatever views are passed. The plans of kept steps
        make use of this.

    Raises
    ------
    ValueError
        The dtype is none of a value, or given for a buffer; an address does not lie inside the value.
    """

    __slots__ = ("access", "addresses", "alignment", "dtype", "name", "over", "size")

    def __init__(
        self,
        name: str,
        access: int,
        dtype: str = "",
        *,
        size: int = 0,
        alignment: int = 0,
        addresses: Sequence[int] = (),
        over: Sequence[str] = (),
    ) -> None:
        self.name, self.access, self.dtype = name, access, dtype
        self.over = tuple(over)
        if access and dtype:
            raise ValueError(f"{name}: a buffer is declared without a dtype; hip_kernel checks those of arrays")
        if not access and dtype not in FORMATS and dtype != "bytes":
            raise ValueError(f"{name}: {dtype!r} is no dtype of a value; it is one of {', '.join(FORMATS)}, bytes")
        self.size = size if dtype == "bytes" else 8 if access else struct.calcsize(FORMATS[dtype])
        self.alignment = alignment or self.size
        self.addresses = (0,) if dtype == "address" else tuple(addresses)
        for at in self.addresses:
            if not 0 <= at <= self.size - ADDRESS.itemsize:
                raise ValueError(f"{name}: {ADDRESS.itemsize} bytes at {at} are not inside a value of {self.size}")

    @property
    def format(self) -> str:
        """The value's struct format."""
        return "Q" if self.access else f"{self.size}s" if self.dtype == "bytes" else FORMATS[self.dtype]

    def value(self, cell: bytes) -> Any:
        """Return what a kernel reads from these bytes; a buffer's value is its address."""
        return struct.unpack(f"<{self.format}", cell)[0]


def laid_over(kernel: str, arguments: Sequence[Argument]) -> list[tuple[int, tuple[int, ...]]]:
    """Return which buffers may be the same memory, by their places among the buffers.

    Returns
    -------
    list of (int, tuple of int)
        A buffer that is written, and those that are read and may be the same.

    Raises
    ------
    ValueError
        A buffer that is over others is not only written, or one of the others is not only read.
    """
    buffers = [argument for argument in arguments if argument.access]
    access = {argument.name: argument.access for argument in buffers}
    for argument in arguments:
        if argument.over and (argument.access != WRITE or any(access.get(name) != READ for name in argument.over)):
            raise ValueError(f"{kernel}: {argument.name} is over {', '.join(argument.over)}; write over read is needed")
    place = {argument.name: i for i, argument in enumerate(buffers)}
    return [(i, tuple(place[name] for name in each.over)) for i, each in enumerate(buffers) if each.over]


class Function(objects.Launcher):
    """A kernel that can be launched, eagerly or into a recording. Its declaration gives edges, patches and checks.

    Parameters
    ----------
    module : Module
        The module, which is kept alive.
    symbol : str
        The kernel's name in the code object.
    arguments : sequence of Argument
        Its arguments, in the kernel's own order.
    name : str, optional
        The name in messages and drawings.
    ahead : sequence of str, optional
        If given, the kernel waits for earlier ones by itself, in every thread, and before that reads only the buffers
        of these names (``wait_for_inputs``, ``begin_next``).
    shared : int
        Bytes of dynamic shared memory, where a launch does not say.

    Attributes
    ----------
    in_place : list of (int, tuple of int)
        What `laid_over` returns for the arguments.
    launch : callable
        ``launch(stream, grid, block, *values, shared=…)`` launches on a stream, which runs the launch or records it as
        a node. ``grid`` counts blocks and ``block`` counts the threads of each, three sizes each; a grid with a zero
        launches nothing. There is one value for each argument: an `Array` for a buffer, a number, or the bytes of a
        structure. It is one call into C, which lays out the payload of the launch.
    """

    def __init__(
        self,
        module: Module,
        symbol: str,
        arguments: Sequence[Argument],
        name: str = "",
        *,
        ahead: Sequence[str] | None = None,
        shared: int = 0,
    ) -> None:
        self.module = module
        self.symbol = symbol
        self.name = name or symbol
        self.arguments = tuple(arguments)
        self.in_place = laid_over(self.name, self.arguments)
        table = [(argument.size, argument.alignment, argument.access) for argument in arguments]
        declared = (module.function(symbol), self.name.encode(), len(table), table)
        self.core = core.create("hiprt_kernel", lib.hiprt_kernel_release, lib.hiprt_kernel_create, *declared)
        if ahead is not None:
            buffers = [argument.name for argument in arguments if argument.access]
            lib.hiprt_kernel_wait_itself(self.core, sum(1 << buffers.index(name) for name in ahead))
        for i, argument in enumerate(arguments):
            for offset in argument.addresses:
                core.call(lib.hiprt_kernel_hold_address(self.core, i, offset))
        for buffer, sources in self.in_place:
            core.call(lib.hiprt_kernel_lie_over(self.core, buffer, sum(1 << source for source in sources)))
        module.keep(self.core)
        functions[core.address(self.core)] = self
        formats = ("P" if a.access else "s" if a.dtype == "bytes" else FORMATS[a.dtype] for a in arguments)
        self.open(core.address(self.core), "".join(formats), shared)

    def make_room(self, stream: Stream, status: int, payload: bytes) -> bytes:
        """Make room for a launch that could not be recorded, and return its payload for the addresses from then on.

        Raises
        ------
        HipError
            The launch failed for another reason.
        """
        moves, moved = stream.make_room(status), bytearray(payload)
        lib.hiprt_kernel_move(self.core, core.ffi.from_buffer(moved), len(moves), moves)
        return bytes(moved)

    def packed(self, index: int, value: Any) -> bytes:
        """Return the bytes of a value that the C core did not read, such as a numpy integer.

        Raises
        ------
        TypeError
            The value is of another kind than the argument.
        ValueError
            The argument cannot hold it.
        """
        argument = self.arguments[index]
        said = f"{self.name}: {argument.name}"
        if isinstance(value, Array):
            raise TypeError(f"{said} is {value}; a number is needed, or a kernel that reads it from memory")
        try:
            return struct.pack(f"<{argument.format}", value)
        except (struct.error, OverflowError, TypeError) as error:
            if isinstance(error, OverflowError) or (argument.dtype in WHOLE and hasattr(value, "__index__")):
                raise ValueError(f"{said}={value!r} does not fit {argument.dtype}") from None
            kind = f"{argument.size} bytes are" if argument.dtype == "bytes" else f"a {argument.dtype} is"
            raise TypeError(f"{said} is {kind_of(value)}; {kind} passed by value") from None

    def refuse(self, index: int, value: Any, why: str | None) -> NoReturn:
        """Raise for the value of a buffer, which is no array unless something else is wrong with it."""
        said = f"{self.name}: {self.arguments[index].name}"
        if why is None:
            raise TypeError(f"{said} is {kind_of(value)}; a hiprt.Array is needed")
        raise ValueError(f"{said} {why}")

    def __call__(
        self, stream: Stream, grid: tuple[int, int, int], block: tuple[int, int, int], *values: Any, **named: int
    ) -> None:
        """Launch; see the attribute ``launch``, which is the same without the extra call."""
        self.launch(stream, grid, block, *values, **named)
