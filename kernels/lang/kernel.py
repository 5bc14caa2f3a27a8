"""Kernels written once: a body in the Metal dialect, a declaration here, and a generated signature for each target."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from hiprt.array import bfloat16
from hiprt.device import Device, current_device
from hiprt.kernels.lang.dialect import DIALECTS, OPS, Parameter
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE, Argument, Function, Module
from hiprt.module_cache import FunctionTable, modules
from hiprt.stream import Stream

__all__ = ["Kernel", "force_generic", "uses_loops"]

WORDS = {
    np.dtype(np.float16): "half",
    bfloat16: "bfloat16_t",
    np.dtype(np.float32): "float",
    np.dtype(np.int32): "int",
    np.dtype(np.uint32): "uint",
    np.dtype(np.uint64): "ulong",
}
SCALARS = {"int": "int32", "uint": "uint32", "float": "float32"}
GENERIC_OPTION = "-DHIPRT_CPU_GENERIC=1"

generic = False


def uses_loops(stream: Stream) -> bool:
    """Whether kernels on this stream take their branch of plain loops: on the CPU device, unless `force_generic`."""
    return stream.device.provider.takes_loops and not generic


@contextmanager
def force_generic() -> Iterator[None]:
    """Run the GPU branches on the CPU device too, in the whole process, within the block: for tests."""
    global generic
    before, generic = generic, True
    try:
        yield
    finally:
        generic = before


class Kernel:
    """One kernel: its body, in ``ops/<path>.metal``, and the declaration of what it takes.

    Parameters
    ----------
    path : str
        The body's file below ``ops``, without its ending: ``norm/rms_norm``. Its last part, with the template's values,
        is the function's name.
    inputs, updates, outputs : mapping of str to str
        Buffers that the kernel reads, reads and writes, and writes: name and element type, which is the name of a
        dtype parameter of the template or one of int, uint, ulong, half, bfloat16_t, float.
    scalars : mapping of str to str
        Values: name, and int, uint or float.
    template : mapping of str to str
        Parameters fixed when compiling: name, and dtype, int or bool.
    headers : sequence of str
        Files below ``ops`` with functions that the body calls.
    threads : int or callable
        Most threads of a threadgroup; or a function of the template's values to that.
    aliasing : mapping of str to sequence of str
        Outputs that a call may let be inputs, and those inputs of which any call may: each of their elements is read
        before it is written.
    ahead : sequence of str, optional
        Given, the body calls ``begin_next()`` and ``wait_for_inputs()`` in every thread, and before the latter reads
        only these inputs: its node may start while the one before it still runs.
    resident : int or callable, optional
        Threadgroups of which a processor is to hold that many at a time, where a compiler takes that wish; or a
        function of the template's values to that.
    shared : callable, optional
        From the template's values and the device to the bytes of what the body declares ``extern __shared__``.
    source : str, optional
        The body, for a kernel without a file.

    Notes
    -----
    Arguments are ordered inputs, updates, outputs, scalars.
    """

    def __init__(
        self,
        path: str,
        *,
        inputs: Mapping[str, str] | None = None,
        updates: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        scalars: Mapping[str, str] | None = None,
        template: Mapping[str, str] | None = None,
        headers: Sequence[str] = (),
        threads: int | Callable[[tuple[Any, ...]], int] = 256,
        aliasing: Mapping[str, Sequence[str]] | None = None,
        ahead: Sequence[str] | None = None,
        resident: int | Callable[[tuple[Any, ...]], int] = 1,
        shared: Callable[[tuple[Any, ...], Device], int] | None = None,
        source: str | None = None,
    ) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.source = source
        self.template = dict(template or {})
        self.headers = tuple(headers)
        self.threads = threads
        self.aliasing = dict(aliasing or {})
        self.resident = resident
        self.shared = shared
        self.ahead = None if ahead is None else tuple(ahead)
        groups = ((inputs, READ), (updates, READ_WRITE), (outputs, WRITE), (scalars, SCALAR))
        self.declaration = [(name, word, access) for group, access in groups for name, word in (group or {}).items()]
        self.functions: FunctionTable[Function] = FunctionTable()
        self.lock = threading.Lock()

    @cached_property
    def body(self) -> str:
        """The body's text."""
        return (OPS / f"{self.path}.metal").read_text() if self.source is None else self.source

    def symbol(self, template: tuple[Any, ...]) -> str:
        """Return the function's name: the kernel's and the template's values."""
        values = [str(v) if kind == "dtype" else str(int(v)) for v, kind in zip(template, self.template.values())]
        return "_".join([self.name, *(value.replace("-", "m") for value in values)])

    def text(self, target: str, template: tuple[Any, ...]) -> str:
        """Return the program for one target.

        Parameters
        ----------
        target : str
            A key of `hiprt.kernels.lang.dialect.DIALECTS`: ``hip`` or ``metal``.
        template : tuple
            One value per template parameter.

        Raises
        ------
        ValueError
            The target is unknown or the template's values do not fit its parameters.
        """
        if target not in DIALECTS:
            raise ValueError(f"target {target!r} is not one of {', '.join(DIALECTS)}")
        dialect = DIALECTS[target]
        words, definitions = self.instantiate(template)
        parameters = [
            Parameter(name, words.get(word, word), access != SCALAR, access == READ)
            for name, word, access in self.declaration
        ]
        headers = [f'#line 1 "{name}"\n{(OPS / name).read_text()}' for name in self.headers]
        kernel = dialect.kernel(
            self.symbol(template),
            parameters,
            definitions,
            self.body,
            file=f"{self.name}.metal",
            threads=self.threads(template) if callable(self.threads) else self.threads,
            resident=self.resident(template) if callable(self.resident) else self.resident,
            restrict=not self.aliasing,
        )
        return "".join([dialect.prelude, *headers, kernel])

    def instantiate(self, template: tuple[Any, ...]) -> tuple[dict[str, str], list[str]]:
        """Return the words of the dtype parameters, and every parameter's definition inside the body."""
        if len(template) != len(self.template):
            raise ValueError(f"{self.name}: {len(template)} template values for {list(self.template)}")
        words: dict[str, str] = {}
        definitions: list[str] = []
        for (name, kind), value in zip(self.template.items(), template):
            if kind == "dtype":
                if value not in WORDS:
                    raise ValueError(f"{self.name}: {name}={value!r} is not a dtype of the dialect")
                words[name] = WORDS[value]
                definitions.append(f"typedef {words[name]} {name};")
            elif kind == "bool":
                definitions.append(f"constexpr bool {name} = {str(bool(value)).lower()};")
            else:
                definitions.append(f"constexpr int {name} = {int(value)};")
        return words, definitions

    def bind(self, template: tuple[Any, ...], device: Device | None = None) -> Function:
        """Compile for a device, once, and return the function.

        Parameters
        ----------
        template : tuple
            One value per template parameter.
        device : Device, optional
            This thread's by default.

        Raises
        ------
        CompileError
            The body does not compile.
        """
        device = device or current_device()
        key = (device.index, generic, template)
        function = self.functions.get(key)
        if function is None:
            with self.lock:
                function = self.functions.get(key)
                if function is None:
                    function = self.functions[key] = self.compile(template, device)
        return function

    def compile(self, template: tuple[Any, ...], device: Device) -> Function:
        """Compile and load on `device`."""
        arguments = [
            Argument(name, access, SCALARS.get(word, ""), over=self.aliasing.get(name, ()))
            for name, word, access in self.declaration
        ]
        load: Callable[..., Module] = device.provider.load_kernel or Kernel.load
        module = load(self, template, device)
        shared = self.shared(template, device) if self.shared else 0
        return Function(module, self.symbol(template), arguments, self.name, ahead=self.ahead, shared=shared)

    def load(self, template: tuple[Any, ...], device: Device) -> Module:
        """Compile with hiprtc."""
        options = device.provider.math_modes["safe"]
        if generic and device.provider.takes_loops:
            options = (*options, GENERIC_OPTION)
        return modules.load(self.text("hip", template), f"{self.name}.hip", options=options, device=device)

    def __call__(
        self,
        stream: Stream,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: tuple[Any, ...],
        *values: Any,
    ) -> None:
        """Launch on a stream.

        Parameters
        ----------
        stream : Stream
        grid : tuple of 3 int
            Threadgroups; a zero launches nothing.
        threadgroup : tuple of 3 int
            Threads of each.
        template : tuple
            One value per template parameter.
        *values
            `hiprt.Array` for buffers, numbers for scalars, in declaration order.
        """
        function = self.functions.get((stream.device.index, generic, template))
        if function is None:
            function = self.bind(template, stream.device)
        function.launch(stream, grid, threadgroup, *values)
