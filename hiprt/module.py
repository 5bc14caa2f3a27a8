"""Modules and functions: a loaded code object, and one kernel of it with declared arguments, ready to launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from hiprt import core, library
from hiprt.errors import check
from hiprt.stream import Stream

__all__ = ["READ", "READ_WRITE", "SCALAR", "WRITE", "Argument", "Function", "Module"]

SCALAR, READ, WRITE, READ_WRITE = 0, 1, 2, 3
FORMATS = {"int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f", "float64": "d"}
DIMENSIONS = struct.Struct("<8I")


class Module:
    """A code object loaded on the current device.

    Parameters
    ----------
    code : bytes
        What `hiprt.compiler.compile_source` returned.
    """

    def __init__(self, code: bytes) -> None:
        self.code = code
        self.hip_module = check(library.hip().hipModuleLoadData(code), "hipModuleLoadData")

    def function(self, name: str) -> int:
        """Return the ``hipFunction_t`` of a kernel."""
        return int(
            check(library.hip().hipModuleGetFunction(self.hip_module, name.encode()), f"hipModuleGetFunction({name})")
        )

    def close(self) -> None:
        """Unload; no kernel of it may be in use."""
        if self.hip_module is not None:
            check(library.hip().hipModuleUnload(self.hip_module), "hipModuleUnload")
            self.hip_module = None


class Argument:
    """One declared argument of a kernel.

    Parameters
    ----------
    name : str
    access : int
        `SCALAR`, `READ`, `WRITE` or `READ_WRITE`: what the kernel does with the buffer.
    dtype : str
        Of a scalar: int32, uint32, int64, uint64, float32 or float64.
    """

    __slots__ = ("access", "dtype", "name")

    def __init__(self, name: str, access: int, dtype: str = "") -> None:
        self.name, self.access, self.dtype = name, access, dtype

    @property
    def size(self) -> int:
        """Bytes in the argument block; also its alignment."""
        return 8 if self.access else struct.calcsize(FORMATS[self.dtype])


class Function:
    """A kernel that can be launched, eagerly or into a recording: the declaration gives edges, patches and checks.

    Parameters
    ----------
    module : Module
        Kept alive.
    symbol : str
        Name in the code object.
    arguments : sequence of Argument
        In the kernel's own order.
    name : str, optional
        For messages and drawings.
    """

    def __init__(self, module: Module, symbol: str, arguments: Sequence[Argument], name: str = "") -> None:
        self.module = module
        self.name = name or symbol
        self.arguments = tuple(arguments)
        self.buffers = [i for i, argument in enumerate(arguments) if argument.access]
        self.values = [i for i, argument in enumerate(arguments) if not argument.access]
        # Each value takes 8 bytes of a launch, whatever its size.
        self.pack = struct.Struct("<" + "".join(self.cell(arguments[i]) for i in self.values)).pack
        self.dimensions: dict[Any, bytes] = {}
        table = [(argument.size, argument.size, argument.access) for argument in arguments]
        made = core.lib.hiprt_kernel_create(module.function(symbol), self.name.encode(), len(table), table)
        self.core = core.ffi.gc(core.created(made), core.lib.hiprt_kernel_release)
        self.nbytes = core.lib.hiprt_kernel_launch_size(self.core)

    @staticmethod
    def cell(argument: Argument) -> str:
        """Return the struct format of a value, padded to 8 bytes."""
        return FORMATS[argument.dtype] + "x" * (8 - argument.size)

    def __call__(
        self, stream: Stream, grid: tuple[int, int, int], block: tuple[int, int, int], *values: Any, shared: int = 0
    ) -> None:
        """Launch on `stream`.

        Parameters
        ----------
        stream : Stream
            Executes it, or records it as a node.
        grid, block : tuple of 3 int
            Blocks, and threads a block. A grid with a zero launches nothing.
        *values
            One per argument: `Array` for buffers, numbers for scalars.
        shared : int
            Bytes of dynamic shared memory.
        """
        key = (grid, block, shared)
        head = self.dimensions.get(key)
        if head is None:
            head = self.check(grid, block, shared)
        if len(values) != len(self.arguments):
            raise TypeError(f"{self.name}: {len(values)} values for {len(self.arguments)} arguments")
        arrays = [values[i] for i in self.buffers]
        if not head:
            return
        launch = b"".join([head, *[a.cell for a in arrays], self.pack(*[values[i] for i in self.values])])
        status = core.lib.hiprt_launch(stream.core, self.core, launch, self.nbytes)
        if status:
            raise core.failure(status)
        if stream.recording:
            stream.retain(arrays)

    def check(self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int) -> bytes:
        """Return the dimensions as the C core reads them; nothing for an empty grid. Remembered."""
        if len(grid) != 3 or len(block) != 3 or min(grid) < 0 or min(block) < 1:
            raise ValueError(
                f"{self.name}: grid {grid}, block {block}: three sizes each, blocks of at least one thread"
            )
        head = b"" if 0 in grid else DIMENSIONS.pack(*grid, *block, shared, 0)
        self.dimensions[grid, block, shared] = head
        return head
