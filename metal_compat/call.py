"""One call of a kernel: its arguments, checked in MLX's order and with MLX's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from hiprt.device import Device, current_device, set_device
from hiprt.kernels.lang.metal_body import FEW, Form, Operand
from hiprt.metal_compat.argument_values import (
    call_error,
    dtype_of,
    input_value,
    is_list,
    shape_of,
    template_value,
    three_sizes,
)
from hiprt.stream import Stream, current_stream

__all__ = ["FUNCTIONS", "MISSING", "Call", "Names", "ordered"]

MISSING: Any = object()
FLOAT64 = np.dtype(np.float64)
Names = tuple[tuple[str, ...], tuple[str, ...]]


def read_each(read: Callable[[Any], Any], name: str, value: Any) -> Any:
    """Read every element of a list or dictionary."""
    if isinstance(value, Mapping):
        return {key: read(element) for key, element in value.items()}
    if not is_list(value):
        raise call_error(f"`{name}` must be a list, not {value!r}.")
    return [read(element) for element in value]


def read_template(value: Any) -> list[tuple[str, Any]]:
    """Read a template's names and values; the values are not checked yet."""
    if isinstance(value, Mapping):
        value = sorted(value.items())
    elements = [] if value is None else value
    if not is_list(elements) or not all(is_list(p) and len(p) == 2 and isinstance(p[0], str) for p in elements):
        raise call_error(f"`template` must be a list of names and values, not {value!r}.")
    return [(name, element) for name, element in elements]


def read_init_value(value: Any) -> Any:
    """Read ``init_value``."""
    if value is not None and not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        raise call_error(f"`init_value` must be a number, not {value!r}.")
    return value


def read_verbose(value: Any) -> bool:
    """Read ``verbose``."""
    if not isinstance(value, (bool, np.bool_)):
        raise call_error(f"`verbose` must be a bool, not {value!r}.")
    return bool(value)


def read_stream(value: Any) -> Any:
    """Read ``stream`` without finding the stream that it means."""
    if value is not None and not isinstance(value, (Stream, Device)) and value not in ("cpu", "gpu"):
        raise call_error(f"`stream` must be a stream or a device, not {value!r}.")
    return value


READERS: dict[str, Callable[[Any], Any]] = {
    "output_shapes": partial(read_each, shape_of, "output_shapes"),
    "output_dtypes": partial(read_each, dtype_of, "output_dtypes"),
    "grid": partial(three_sizes, "grid"),
    "threadgroup": partial(three_sizes, "threadgroup"),
    "template": read_template,
    "init_value": read_init_value,
    "verbose": read_verbose,
    "stream": read_stream,
}
# The arguments that may be functions of the inputs' shapes.
FUNCTIONS = ("output_shapes", "grid", "threadgroup", "template")


class Call:
    """The arguments of one call.

    Parameters
    ----------
    names : pair of tuple of str, or None
        The names of the kernel's inputs and outputs. None takes the dictionaries' names in alphabetical order.
    given : dict
        The keyword arguments by name; `MISSING` for one that was not given.

    Attributes
    ----------
    names : pair of tuple of str
    by_name : bool
        Whether the inputs were given by name, and the outputs are returned so.
    inputs : list of Array or numpy array
    template : tuple of (str, dtype or int or bool)
    output_shapes, output_dtypes : list
    grid, threadgroup : tuple of 3 int

    Raises
    ------
    TypeError, ValueError
        An argument does not fit.
    """

    def __init__(self, names: Names | None, given: Mapping[str, Any]) -> None:
        missing = [name for name, value in given.items() if value is MISSING]
        if missing:
            raise call_error(f"Missing: {', '.join(missing)}.")
        inputs = given["inputs"]
        self.by_name = isinstance(inputs, Mapping)
        if not self.by_name and (names is None or not is_list(inputs)):
            raise call_error(f"`inputs` must be a {'list' if names else 'dictionary'}, not {inputs!r}.")
        late = [name for name in FUNCTIONS if callable(given[name])]
        values = {name: read(given[name]) for name, read in READERS.items() if name not in late}
        input_names, inputs = ordered("inputs", names and names[0], inputs)
        self.inputs = [input_value(x) for x in inputs]
        shapes = [x.shape for x in self.inputs]
        values.update((name, READERS[name](given[name](*shapes))) for name in late)
        self.template = tuple((name, template_value(value)) for name, value in values["template"])
        check_count("inputs", input_names, self.inputs)
        output_names, self.output_shapes = ordered("output_shapes", names and names[1], values["output_shapes"])
        check_count("output_shapes", output_names, self.output_shapes)
        _, self.output_dtypes = ordered("output_dtypes", output_names, values["output_dtypes"])
        check_count("output_dtypes", output_names, self.output_dtypes)
        self.names = (input_names, output_names)
        self.grid, self.threadgroup = values["grid"], values["threadgroup"]
        self.given_stream = values["stream"]
        if isinstance(self.given_stream, str) and self.given_stream == "cpu":
            raise ValueError("[metal_kernel] Only supports the GPU.")

    @cached_property
    def stream(self) -> Stream:
        """The stream that ``stream`` means. It is looked up only when something is launched."""
        if isinstance(self.given_stream, Stream):
            return self.given_stream
        if not isinstance(self.given_stream, Device):
            return current_stream()
        before = current_device()
        set_device(self.given_stream.index)
        try:
            return current_stream()
        finally:
            set_device(before.index)

    def form(self) -> Form:
        """Return the form of the call, which the program's text depends on."""
        operands = tuple(Operand(x.dtype, x.ndim, x.size < FEW) for x in self.inputs)
        return Form(operands, tuple(self.output_dtypes), self.template)

    def check_limits(self, most: int) -> None:
        """Refuse arguments that no kernel can be launched with.

        Raises
        ------
        ValueError
            An array is float64, a size is negative, or a threadgroup has more than `most` threads.
        """
        if FLOAT64 in (*(x.dtype for x in self.inputs), *self.output_dtypes):
            raise ValueError("float64 is not supported on the GPU")
        if min(self.grid) < 0 or min(self.threadgroup) < 1:
            raise ValueError(
                f"[metal_kernel] A grid of {self.grid} threads in threadgroups of {self.threadgroup}: sizes must not "
                "be negative, and a threadgroup has at least one thread."
            )
        threads = self.threadgroup[0] * self.threadgroup[1] * self.threadgroup[2]
        if threads > most:
            raise ValueError(
                f"Thread group size ({threads}) is greater than  the maximum allowed threads per threadgroup ({most})."
            )


def ordered(what: str, names: tuple[str, ...] | None, values: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names, and the values in the order of the names.

    Raises
    ------
    TypeError
        The values are a list, and there are no names.
    ValueError
        The values are a dictionary with other names.
    """
    if not isinstance(values, Mapping):
        if names is None:
            raise call_error(f"`{what}` must be a dictionary: the kernel has no `output_names`.")
        return names, list(values)
    names = tuple(sorted(values)) if names is None else names
    if sorted(names) != sorted(values):
        raise ValueError(f"[metal_kernel] Expected `{what}` to have the names {list(names)} but got {list(values)}.")
    return names, [values[name] for name in names]


def check_count(what: str, names: tuple[str, ...], values: list[Any]) -> None:
    """Refuse a list that has not one value for each name."""
    if len(names) != len(values):
        raise ValueError(f"[metal_kernel] Expected `{what}` to have size {len(names)} but got size {len(values)}.\n")
