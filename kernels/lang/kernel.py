"""Kernels written once: a body in the Metal dialect, its declaration, and a signature generated for each target."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hiprt import fork
from hiprt.array import bfloat16
from hiprt.code_folder import Source
from hiprt.device import Device, current_device
from hiprt.kernels.lang.dialect import DIALECTS, OPS, Parameter
from hiprt.kernels.lang.launch import Launch, Three
from hiprt.kernels.tuning.target import Target, describe, target_of
from hiprt.loaded_modules import FunctionTable, modules
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE, Argument, Function, Module
from hiprt.provider import Provider
from hiprt.stream import Stream

__all__ = ["KERNELS", "Kernel"]

WORDS = {
    np.dtype(np.float16): "half",
    bfloat16: "bfloat16_t",
    np.dtype(np.float32): "float",
    np.dtype(np.int32): "int",
    np.dtype(np.uint32): "uint",
    np.dtype(np.uint64): "ulong",
}
# A template's values, either by name or all of them in order.
Template = Mapping[str, Any] | Sequence[Any]
SCALARS = {"int": "int32", "uint": "uint32", "float": "float32"}
GENERIC_OPTION = "-DHIPRT_CPU_GENERIC=1"
COMPLEX = "complex64_t"

# The project's kernels that have instances, by name. The offline compilers build these.
KERNELS: dict[str, Kernel] = {}


def file_text(name: str) -> str:
    """Return a file below ``ops``; messages name it so."""
    return f'#line 1 "{name}"\n{(OPS / name).read_text()}'


class Kernel:
    """A kernel: its body, in ``ops/<path>.metal``, and the declaration of what it takes.

    Parameters
    ----------
    path : str
        The body's file below ``ops``, without its ending: ``norm/rms_norm``. The last part is the kernel's name; with
        the template's values it names the function.
    inputs, updates, outputs : mapping of str to str
        The buffers that the kernel reads, reads and writes, and writes: name and element type, which is the name of a
        dtype parameter of the template or one of int, uint, ulong, half, bfloat16_t, float.
    scalars : mapping of str to str
        The values that it takes: name, and int, uint or float.
    template : mapping of str to str
        The parameters that are fixed when it is compiled: name, and dtype, int or bool.
    headers : sequence of str
        Files below ``ops`` with functions that the body calls.
    parts : sequence of str
        Files below ``ops`` that are parts of a long body: their functions see the template's parameters.
    constants : sequence of str
        Lines that define the other constants that the parts see.
    threads : int or callable
        The threads of a threadgroup, or a function that returns them for the template by name.
    is_varied : bool, optional
        Whether launches have threadgroups of other sizes, with fewer threads or some along y and z. Otherwise all have
        so many along x, or one for a plain loop: AMD's text has the number, and needs no implicit arguments for it.
    aliasing : mapping of str to sequence of str
        The outputs that may be inputs in a call, and these inputs. The kernel reads each of their elements before it
        writes it.
    ahead : sequence of str, optional
        The inputs that the body reads before it calls ``wait_for_inputs()``. If this is given, the body calls
        ``begin_next()`` and ``wait_for_inputs()`` in every thread, and its node may start while the one before it
        still runs.
    resident : int or callable, optional
        The threadgroups that a processor should hold at a time, which some compilers take as a hint; or a function
        that returns them for the template by name.
    cluster : callable, optional
        Takes the template by name; returns how many neighbouring threadgroups see each other's threadgroup memory, 1 on
        targets other than NVIDIA's.
    waves : int, optional
        The waves that each SIMD of AMD's GPUs of 64 lanes shall hold, which bounds the registers of a thread.
    shared : callable, optional
        A function that returns, for the template by name and the target, the bytes of the memory that the body
        declares ``extern __shared__``.
    source : str, optional
        The body in HIP, for a kernel that is not written in the dialect. Metal has none.
    instances : callable, optional
        A function that returns, for `takes_loops` (whether kernels take their branch of plain loops), the templates
        that the op launches the kernel with. A kernel with instances is registered in `KERNELS`, from where the offline
        compilers and their tests take it.
    part_of : str, optional
        The op that launches the kernel, if the op has another name than the kernel.

    Attributes
    ----------
    names : tuple of str
        All arguments, in the order of the function's: inputs, updates, outputs, scalars.
    written : frozenset of str
        The names of the buffers that the kernel writes.
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
        parts: Sequence[str] = (),
        constants: Sequence[str] = (),
        threads: int | Callable[[Mapping[str, Any]], int] = 256,
        is_varied: bool = False,
        aliasing: Mapping[str, Sequence[str]] | None = None,
        ahead: Sequence[str] | None = None,
        resident: int | Callable[[Mapping[str, Any]], int] = 1,
        cluster: Callable[[Mapping[str, Any]], int] | None = None,
        waves: int = 1,
        shared: Callable[[Mapping[str, Any], Target], int] | None = None,
        source: str | None = None,
        instances: Callable[[bool], Iterable[Mapping[str, Any]]] | None = None,
        part_of: str | None = None,
    ) -> None:
        self.path = path
        self.family, _, self.name = path.rpartition("/")
        self.source = source
        self.template = dict(template or {})
        self.headers = tuple(headers)
        self.parts = tuple(parts)
        self.constants = tuple(constants)
        self.threads = threads
        self.is_varied = is_varied
        self.aliasing = dict(aliasing or {})
        self.resident = resident
        self.cluster = cluster
        self.waves = waves
        self.shared = shared
        self.ahead = None if ahead is None else tuple(ahead)
        self.instances = instances
        self.part_of = part_of
        groups = ((inputs, READ), (updates, READ_WRITE), (outputs, WRITE), (scalars, SCALAR))
        self.declaration = [(name, word, access) for group, access in groups for name, word in (group or {}).items()]
        self.names = tuple(name for name, _, _ in self.declaration)
        self.written = frozenset(name for name, _, access in self.declaration if access in (READ_WRITE, WRITE))
        self.functions: FunctionTable[Function] = FunctionTable()
        self.lock = fork.lock()
        if instances is not None:
            KERNELS[self.name] = self

    @cached_property
    def body(self) -> str:
        """The body's text."""
        return (OPS / f"{self.path}.metal").read_text() if self.source is None else self.source

    @cached_property
    def reference(self) -> Callable[..., Any] | None:
        """The function of the op's name in the family's ``reference.py``, which is numpy; None for a part of an op."""
        if not self.family or self.part_of:
            return None
        module = importlib.import_module(f"hiprt.kernels.ops.{self.family}.reference")
        found: Callable[..., Any] = getattr(module, self.name)
        return found

    def values_of(self, template: Template) -> tuple[Any, ...]:
        """Return a template's values in the order of the declaration.

        Parameters
        ----------
        template : mapping of str to value, or sequence
            The values by name, or all of them in order.

        Raises
        ------
        ValueError
            A value is missing, or has a name that is not declared.
        """
        # The first question whether a class is a Mapping takes a search.
        if isinstance(template, tuple) or not isinstance(template, (dict, Mapping)):
            values = tuple(template)
        elif template.keys() == self.template.keys():
            values = tuple(template[name] for name in self.template)
        else:
            raise ValueError(f"{self.name}: template values {list(template)} for {list(self.template)}")
        if len(values) != len(self.template):
            raise ValueError(f"{self.name}: {len(values)} template values for {list(self.template)}")
        return values

    def symbol(self, template: Template) -> str:
        """Return the function's name, which is made of the kernel's name and the template's values."""
        values = zip(self.values_of(template), self.template.values())
        words = [str(value) if kind == "dtype" else str(int(value)) for value, kind in values]
        return "_".join([self.name, *(word.replace("-", "m") for word in words)])

    def text(self, target: str, template: Template) -> str:
        """Return the program for one target.

        Parameters
        ----------
        target : str
            A key of `hiprt.kernels.lang.dialect.DIALECTS`: ``hip`` or ``metal``.
        template : mapping of str to value, or sequence
            The template's values.

        Raises
        ------
        ValueError
            The target is unknown, the template's values do not fit its parameters, or the target is Metal and an
            argument is complex.
        """
        if target not in DIALECTS:
            raise ValueError(f"target {target!r} is not one of {', '.join(DIALECTS)}")
        dialect = DIALECTS[target]
        if dialect.is_metal and (COMPLEX in self.body or any(word == COMPLEX for _, word, _ in self.declaration)):
            raise ValueError(f"{self.name}: Metal's text has no complex numbers; the platforms of HIP run the kernel")
        words, definitions = self.instantiate(template)
        parameters = [
            Parameter(name, words.get(word, word), access != SCALAR, access == READ)
            for name, word, access in self.declaration
        ]
        named = self.by_name(template)
        before = list(map(file_text, self.headers))
        if self.parts:
            lines = [f'#line 1 "template of {self.name}"', "namespace metal {", *definitions, *self.constants, "}", ""]
            before += ["\n".join(lines), *map(file_text, self.parts)]
            definitions = []
        kernel = dialect.kernel(
            self.symbol(template),
            parameters,
            definitions,
            self.body,
            file=f"{self.name}.metal",
            threads=self.threads_of(template),
            is_varied=self.is_varied,
            resident=self.resident(named) if callable(self.resident) else self.resident,
            cluster=self.cluster(named) if self.cluster else 1,
            waves=self.waves,
            restrict=not self.aliasing,
        )
        return "".join([dialect.prelude, *before, kernel])

    def threads_of(self, template: Template) -> int:
        """Return the threads of a threadgroup for a template's values; where these vary, the most."""
        return self.threads(self.by_name(template)) if callable(self.threads) else self.threads

    def by_name(self, template: Template) -> dict[str, Any]:
        """Return a template's values by name."""
        return dict(zip(self.template, self.values_of(template)))

    def instantiate(self, template: Template) -> tuple[dict[str, str], list[str]]:
        """Return the types that the dtype parameters stand for, and every parameter's definition inside the body."""
        words: dict[str, str] = {}
        definitions: list[str] = []
        for (name, kind), value in zip(self.template.items(), self.values_of(template)):
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

    def bind(self, template: Template = (), device: Device | None = None) -> Function:
        """Compile for a device, once, and return the function.

        Parameters
        ----------
        template : mapping of str to value, or sequence
            The template's values.
        device : Device, optional
            The thread's device by default.

        Raises
        ------
        CompileError
            The body does not compile.
        """
        device = device or current_device()
        return self.find(self.values_of(template), device, describe(device))

    def function(self, values: tuple[Any, ...], stream: Stream) -> Function:
        """Return the function for a template's values, in order, and the device of a stream."""
        target = target_of(stream)
        return self.functions.get((target, values)) or self.find(values, stream.device, target)

    def find(self, values: tuple[Any, ...], device: Device, target: Target) -> Function:
        """Return the function for a template's values and a device; it is compiled at the first call."""
        with self.lock:
            key = (target, values)
            if key not in self.functions:
                self.functions[key] = self.compile(values, device, target)
            return self.functions[key]

    def compile(self, values: tuple[Any, ...], device: Device, target: Target) -> Function:
        """Compile and load on `device`."""
        arguments = [
            Argument(name, access, "" if access else SCALARS[word], over=self.aliasing.get(name, ()))
            for name, word, access in self.declaration
        ]
        load = device.provider.load_kernel
        module = load(self, values, device) if load else self.load(values, device, target)
        shared = self.shared(self.by_name(values), target) if self.shared else 0
        return Function(module, self.symbol(values), arguments, self.name, ahead=self.ahead, shared=shared)

    def load(self, values: tuple[Any, ...], device: Device, target: Target) -> Module:
        """Compile with hiprtc."""
        text, name, options, _ = self.program(values, device.provider)
        options += (GENERIC_OPTION,) if target.is_generic else ()
        return modules.load(text, name, options=options, device=device)

    def program(self, values: tuple[Any, ...], provider: Provider) -> Source:
        """Return what hiprtc compiles."""
        return Source(self.text("hip", values), f"{self.name}.hip", provider.math_modes["safe"], ())

    def __call__(
        self, stream: Stream, grid: Three, threads: Three, template: Template = (), /, **arguments: Any
    ) -> None:
        """Launch on a stream; a `Launch` that is kept costs less.

        Parameters
        ----------
        stream : Stream
        grid : tuple of 3 int
            Threadgroups along x, y and z; a zero launches nothing.
        threads : tuple of 3 int
            The threads of a threadgroup.
        template : mapping of str to value, or sequence
            The template's values.
        **arguments
            `hiprt.Array` for buffers, numbers for scalars, by their declared names.
        """
        Launch(self, grid, threads, template)(stream, **arguments)
