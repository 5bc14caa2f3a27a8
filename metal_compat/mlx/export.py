"""Functions written to files: `export_function` and `exporter`."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from hiprt.array import Array
from hiprt.graphs.export import exporter as exporting
from hiprt.graphs.export.program_file import without_memory
from hiprt.graphs.trace import lazy
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.trace import Pause
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.compiled import calls_of, tracing
from hiprt.metal_compat.mlx.transforms import on_device
from hiprt.stream import current_stream, use_stream

__all__ = ["FunctionExporter", "export_function", "exporter"]

Function = Callable[..., Any]
LEAKED = "[export_function] The function uses an array that was left behind while another function was traced."
WRONG = "[export_function] Outputs can be either a single array, a tuple, or a list of arrays."


def export_function(
    file_or_callback: Any,
    fun: Function,
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    **kwargs: Any,
) -> None:
    """Write what a function computes to a file, or tell it to a callback, as `hiprt.export_function` does.

    Parameters
    ----------
    file_or_callback : str or callable
        The file, which MLX reads if it ends in ``.mlxfn``.
    fun : callable
        It takes arrays by position and name, and returns an array, or a tuple or list of arrays. It is called once;
        arrays that it has from elsewhere become part of the file.
    *args, **kwargs
        Examples of the inputs; also one list or tuple, one dictionary, or both.
    shapeless : bool
        Taken as MLX takes it. The sizes of the examples are part of what is cut out of the lazy graph, so that the
        function of the file refuses inputs of other sizes.
    metadata : str, optional
        A text that is kept in the file.

    Raises
    ------
    ValueError
        An input or an output is no array, or the function has something that such a file cannot hold.
    RuntimeError
        The file cannot be written.
    """
    named = {name: on_device(each) for name, each in kwargs.items()}
    given = [on_device(each) for each in args]
    exporting.export_function(file_or_callback, traceable(fun), *given, shapeless=shapeless, metadata=metadata, **named)


def exporter(
    file: str | os.PathLike[str], fun: Function, *, shapeless: bool = False, metadata: str | None = None
) -> FunctionExporter:
    """Return what writes a function for several sets of inputs to one file; see `export_function`."""
    return FunctionExporter(exporting.exporter(file, traceable(fun), shapeless=shapeless, metadata=metadata))


class FunctionExporter:
    """A file that is being written; a context, in which it is called with inputs.

    Parameters
    ----------
    to : hiprt.graphs.export.Exporter
    """

    def __init__(self, to: exporting.Exporter) -> None:
        self.to = to

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Take in what the function computes of inputs like these."""
        self.to(*(on_device(each) for each in args), **{name: on_device(each) for name, each in kwargs.items()})

    def close(self) -> None:
        """Write the file."""
        self.to.close()

    def __enter__(self) -> FunctionExporter:
        self.to.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.to.__exit__(kind, error, trace)


def traceable(fun: Function) -> Function:
    """Return a function of hiprt's arrays that another trace can record.

    The function is called with arrays without contents. What it computes of them lies in the lazy graph, from which it
    is taken, and called again with the arrays that are given.
    """
    stream = current_stream()

    def traced(*values: Array, **named: Array) -> list[Array]:
        given = [*values, *named.values()]
        places = [lazy.trace.given(without_memory(tuple(map(int, each.shape)), each.dtype)) for each in given]
        arrays = [array.around(place) for place in places]
        # What it evaluates of arrays that it had before is computed, and no part of the file.
        with Pause(), use_stream(stream), tracing():
            made = fun(*arrays[: len(values)], **dict(zip(named, arrays[len(values) :])))
        outputs = [made] if isinstance(made, array) else made
        if not isinstance(outputs, (list, tuple)) or not all(isinstance(each, array) for each in outputs):
            raise ValueError(WRONG)
        wanted = [each.value for each in outputs]
        primitives, captured = calls_of(wanted, places, 0, set())
        constants = [each for each in map(lazy.held, captured) if each is not None]
        if len(constants) < len(captured):
            raise ValueError(LEAKED)
        return list(Program([*places, *captured], primitives, wanted).run(*given, *constants))

    traced.__name__ = getattr(fun, "__name__", "function")
    return traced
