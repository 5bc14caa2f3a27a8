"""`export_function` and `exporter`: functions that are traced and written to files, without running anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hiprt.array import Array, dtype_of
from hiprt.graphs.export.callback import Callback, call_back
from hiprt.graphs.export.host_stream import HostStream
from hiprt.graphs.export.inputs import given, same_inputs
from hiprt.graphs.export.mlxfn.tape import is_mlxfn
from hiprt.graphs.export.mlxfn.writer import write_mlxfn
from hiprt.graphs.export.program_file import Exported, without_memory, write_programs
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.simplify import simplify
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.graphs.trace.trace import Trace
from hiprt.op import custom_ops
from hiprt.stream import use_stream

__all__ = ["Exporter", "export_function", "exporter", "traced"]

Function = Callable[..., Any]
PREFIX = "[export_function]"


def export_function(
    file_or_callback: str | os.PathLike[str] | Callback,
    function: Function,
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    **kwargs: Any,
) -> None:
    """Trace a function, and write its program to a file, or tell it to a callback.

    No device and no compiler are needed, also where the function calls custom kernels.

    Parameters
    ----------
    file_or_callback : path or callable
        The file that is written; one that ends in ``.mlxfn`` is for MLX. A callable is called with a dictionary for
        each part of the program, as MLX's is: see ``docs/export.md``.
    function : callable
        It takes arrays, by position or by name, and returns an array, or a tuple or list of arrays.
    *args, **kwargs : Array, numpy array, or anything with ``shape`` and ``dtype``
        Examples of the inputs, of which the forms count. Also one list or tuple, one dictionary, or both.
    shapeless : bool
        Whether inputs of other shapes are taken, with as many axes. The shapes of all results are then inferred anew.
    metadata : str, optional
        A text that is kept in the file.

    Raises
    ------
    ValueError
        An input or an output is no array, or the program has something that a file cannot hold; the message names it.
    RuntimeError
        The file cannot be written.
    """
    if callable(file_or_callback) and not isinstance(file_or_callback, os.PathLike):
        if metadata:
            raise ValueError(
                f"{PREFIX} The metadata argument is only supported when exporting to a file, not when using a callback."
            )
        call_back(file_or_callback, traced(function, args, kwargs, shapeless))
        return
    with exporter(file_or_callback, function, shapeless=shapeless, metadata=metadata) as export:
        export(*args, **kwargs)


def exporter(
    file: str | os.PathLike[str], function: Function, *, shapeless: bool = False, metadata: str | None = None
) -> Exporter:
    """Return what traces a function for several sets of inputs, and writes all to one file, constants once.

    Parameters
    ----------
    file : path
    function : callable
    shapeless : bool
    metadata : str, optional
        The same as in `export_function`.
    """
    return Exporter(Path(file), function, shapeless, metadata or "")


class Exporter:
    """A file that is being written; a context, in which it is called with inputs. `close` writes the file.

    Parameters
    ----------
    path : Path
    function : callable
    shapeless : bool
    metadata : str

    Raises
    ------
    RuntimeError
        The file's folder cannot be written to.
    """

    def __init__(self, path: Path, function: Function, shapeless: bool, metadata: str) -> None:
        if type(metadata) is not str:
            raise TypeError(f"{PREFIX} metadata is a {type(metadata).__name__}; a text is needed")
        if not os.access(path.parent, os.W_OK) or path.is_dir():
            raise RuntimeError(f"{PREFIX} Failed to open {path}")
        self.path, self.function, self.shapeless, self.metadata = path, function, shapeless, metadata
        self.functions: list[Exported] = []
        self.is_open = True

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Trace the function for inputs like these.

        Raises
        ------
        RuntimeError
            It was traced for such inputs before, or the file is closed.
        ValueError
            The same as in `export_function`.
        """
        if not self.is_open:
            raise RuntimeError(f"{PREFIX} Attempting to write after exporting is closed.")
        exported = traced(self.function, args, kwargs, self.shapeless)
        if any(self.is_same(exported, each) for each in self.functions):
            raise RuntimeError(
                f"{PREFIX} Attempting to export a function twice with the same signature is not allowed."
            )
        self.functions.append(exported)

    def is_same(self, a: Exported, b: Exported) -> bool:
        """Whether two functions take the same inputs."""
        inputs, others = a.program.inputs, b.program.inputs
        if a.keywords != b.keywords or len(inputs) != len(others):
            return False
        return all(same_inputs(x, y, self.shapeless) for x, y in zip(inputs, others))

    def close(self) -> None:
        """Write the file.

        Raises
        ------
        RuntimeError
            It cannot be written.
        """
        if not self.is_open:
            return
        self.is_open = False
        write = write_mlxfn if is_mlxfn(self.path) else write_programs
        try:
            write(self.path, self.functions, shapeless=self.shapeless, metadata=self.metadata)
        except OSError as error:
            raise RuntimeError(f"{PREFIX} Failed to open {self.path}: {error.strerror}") from error

    def __enter__(self) -> Exporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the file, unless an error ends the block."""
        if error is None:
            self.close()
        self.is_open = False


def traced(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], shapeless: bool) -> Exported:
    """Return the program of a function for inputs like these.

    Raises
    ------
    ValueError
        An input or an output is no array, or the function reads contents of an array.
    """
    in_order, by_name = given(PREFIX, args, kwargs, is_example)
    keywords = sorted(by_name)
    trace = Trace(shapeless=shapeless)
    values = [trace.given(example_of(each)) for each in (*in_order, *(by_name[name] for name in keywords))]
    named = dict(zip(keywords, values[len(in_order) :]))
    with use_stream(HostStream()), trace.recording():
        result = function(*values[: len(in_order)], **{name: named[name] for name in by_name})
    outputs = [result] if isinstance(result, Array) else result
    if not isinstance(outputs, (list, tuple)) or not all(isinstance(each, Array) for each in outputs):
        raise ValueError(f"{PREFIX} Outputs can be either a single array, a tuple, or a list of arrays.")
    program = dead_code(simplify(resolved(Program(values, trace.primitives, outputs, trace.guards))))
    check_state(program)
    return Exported(str(getattr(function, "__name__", "function")), tuple(keywords), program)


def is_example(value: Any) -> bool:
    """Whether a value stands for an array: it has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def example_of(value: Any) -> Array:
    """Return an array of the form of an example."""
    if isinstance(value, Array):
        return value
    dtype = dtype_of(value.dtype)
    return without_memory(tuple(map(int, value.shape)), np.dtype(np.float32) if dtype == np.float64 else dtype)


def resolved(program: Program) -> Program:
    """Return the program with the arguments of custom kernels as a file can have them."""
    ops = {op for op, _ in custom_ops.values()}
    if not any(primitive.op in ops for primitive in program.primitives):
        return program

    def change(primitive: Primitive, call: Callable[[], list[Any]], replaced: Callable[[Any], Any]) -> list[Any]:
        op = primitive.op
        if op is None or op not in ops:
            return call()
        kernel = primitive.arguments[0]
        arguments = kernel.portable(dict(zip(op.names[1:], substitute(primitive.arguments[1:], replaced))))
        result = op(kernel, *[arguments.pop(name) for name in op.names[1 : op.positional]], **arguments)
        return list(result) if primitive.rule[0] else [result]

    return rebuild(program, change)


def check_state(program: Program) -> None:
    """Refuse a program that writes memory which it has captured under several arrays: a file keeps them apart.

    Raises
    ------
    ValueError
        There is such memory.
    """
    if -1 not in Memory(program).written:
        return
    extents = sorted(array.extent for array in program.captured if array.size)
    if any(end > begin for (_, end), (begin, _) in pairwise(extents)):
        raise ValueError(
            f"{PREFIX} The function writes memory of an array that it does not take as an argument, and uses other "
            "views of it as well. Use one array, and make its views within the function."
        )
