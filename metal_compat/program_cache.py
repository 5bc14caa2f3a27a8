"""Program cache: bodies compiled for a device, once for each form of their calls."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hiprt import fork
from hiprt.array import Array
from hiprt.code_folder import Source
from hiprt.device import Device
from hiprt.errors import CompileError, HipWarning
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ
from hiprt.kernels.lang.metal_body import Body, Form
from hiprt.loaded_modules import FunctionTable, modules
from hiprt.metal_compat.signature_rules import SLOTS
from hiprt.module import Function, Module
from hiprt.provider import Provider
from hiprt.stream import Stream

__all__ = ["MOST_THREADS", "BuildError", "ProgramCache"]

# A kernel compiled for at most this many threads may use more registers than one for the largest threadgroups.
FEW_THREADS = 256
MOST_THREADS = 1024
Size3 = tuple[int, int, int]
EXTENT = struct.Struct("<6I")
PACKED = {
    "shape": lambda x: struct.pack(f"<{x.ndim}i", *x.shape),
    "strides": lambda x: struct.pack(f"<{x.ndim}q", *x.strides),
}


class BuildError(CompileError):
    """A body does not compile; the log names its lines."""

    def __str__(self) -> str:
        return f"[metal::Device] Unable to build metal library from source\n{self.log}"


class ProgramCache:
    """The compiled functions of one body.

    Parameters
    ----------
    body : Body
    mode : str
        The math mode: safe, relaxed or fast.
    """

    def __init__(self, body: Body, mode: str) -> None:
        self.body = body
        self.mode = mode
        self.functions: FunctionTable[Function] = FunctionTable()
        self.lock = fork.lock()

    def function(
        self,
        device: Device,
        form: Form,
        threadgroup: tuple[int, int, int],
        *,
        reads_outputs: bool,
        is_folded: bool = False,
    ) -> Function:
        """Return the function for one form of call, compiled at the first one.

        Raises
        ------
        BuildError
            The body does not compile.
        ValueError
            A kernel cannot have a name that the body has.
        """
        line, threads = variant(threadgroup)
        key = (device.index, form, line, threads, reads_outputs, is_folded)
        found = self.functions.get(key)
        if found is None:
            with self.lock:
                found = self.functions.get(key)
                if found is None:
                    self.check(form)
                    arguments = self.body.arguments(form, reads_outputs=reads_outputs)
                    load: Callable[..., Module] | None = device.provider.load_body
                    if load:
                        module = load(self, form, device)
                    else:
                        text = self.body.hip(form, line=line, threads=threads, is_folded=is_folded)
                        module = self.compiled(device, text)
                    found = self.functions[key] = Function(module, self.body.symbol(form), arguments, self.body.name)
        return found

    def source(self, form: Form, grid: Size3, threadgroup: Size3, provider: Provider) -> Source:
        """Return what hiprtc compiles for a launch."""
        whole, _, is_folded = laid_out(grid, threadgroup)
        line, threads = variant(whole)
        self.check(form)
        text = self.body.hip(form, line=line, threads=threads, is_folded=is_folded)
        return Source(text, f"{self.body.name}.hip", provider.math_modes[self.mode], ())

    def check(self, form: Form) -> None:
        """Refuse names that no compiler takes, and warn of more buffers than Metal takes."""
        self.body.check_names(form)
        count = sum(1 for _ in self.body.parameters(form))
        if count > SLOTS:
            warnings.warn(
                f"kernel {self.body.name!r} has {count} buffers, shapes included; Metal has {SLOTS}: it will not run "
                "on Apple hardware",
                HipWarning,
                stacklevel=5,
            )

    def launch(
        self,
        stream: Stream,
        form: Form,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        *,
        reads_outputs: bool = False,
    ) -> None:
        """Run exactly the grid's threads on a stream.

        Parameters
        ----------
        stream : Stream
        form : Form
            The form of these arrays.
        grid : tuple of 3 int
            The threads; nothing runs if one of the sizes is zero.
        threadgroup : tuple of 3 int
            The threads of a whole threadgroup; threadgroups at the grid's edges are smaller.
        inputs, outputs : sequence of Array
        reads_outputs : bool
            Whether the outputs hold values that the body may read.

        Raises
        ------
        BuildError
            The body does not compile.
        """
        if 0 in grid:
            return
        whole, (columns, rows, layers), is_folded = laid_out(grid, threadgroup)
        function = self.function(stream.device, form, whole, reads_outputs=reads_outputs, is_folded=is_folded)
        values: list[Any] = []
        for name, x in zip(self.body.inputs, inputs):
            values.append(x)
            for detail in self.body.details[name] if x.ndim else ():
                if detail != "ndim":
                    values.append(PACKED[detail](x))
        groups = (columns, rows, layers)
        if is_folded:
            groups = (columns, LARGEST_GRID_YZ, -(-(rows * layers) // LARGEST_GRID_YZ))
        block = (whole[0] * whole[1] * whole[2], 1, 1)
        function.launch(stream, groups, block, *values, *outputs, EXTENT.pack(*grid, *whole))

    def compiled(self, device: Device, text: str) -> Module:
        """Compile the program's text and load it on a device."""
        options = device.provider.math_modes[self.mode]
        try:
            return modules.load(text, f"{self.body.name}.hip", options=options, device=device)
        except CompileError as error:
            raise BuildError(error.code, error.name, error.call, error.detail, error.log) from None


def laid_out(grid: Size3, threadgroup: Size3) -> tuple[Size3, Size3, bool]:
    """Return the threads of a whole threadgroup, the threadgroups, and whether these are launched as rows.

    A grid that the runtime would not take is launched as rows, of which the program makes the grid again.
    """
    whole = (min(threadgroup[0], grid[0]), min(threadgroup[1], grid[1]), min(threadgroup[2], grid[2]))
    groups = (-(-grid[0] // whole[0]), -(-grid[1] // whole[1]), -(-grid[2] // whole[2]))
    return whole, groups, max(groups[1:]) > LARGEST_GRID_YZ


def variant(threadgroup: Size3) -> tuple[bool, int]:
    """Return what programs differ by: whether the threadgroup is a line, and the most threads that it may have."""
    threads = threadgroup[0] * threadgroup[1] * threadgroup[2]
    return threadgroup[1] == threadgroup[2] == 1, FEW_THREADS if threads <= FEW_THREADS else MOST_THREADS
