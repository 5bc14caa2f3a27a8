"""`bucketed`: functions that are compiled for a few sizes of an axis; arrays of other sizes are padded to the next."""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from hiprt import fork, kernels
from hiprt.array import Array, empty, full
from hiprt.buffer import Buffer
from hiprt.graphs.trace import compile as compiling, core
from hiprt.graphs.trace.compile import Compiled, Function, Traced, array_names
from hiprt.graphs.trace.padding import Padded, masked
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.size import size_text
from hiprt.graphs.trace.tree import arrays_of, mapped
from hiprt.stream import current_stream, session_of_thread

__all__ = ["Bucketed", "bucketed"]


def bucketed(axis: int | Mapping[str, int], sizes: Iterable[int]) -> Callable[[Function], Bucketed]:
    """Return a decorator: the function is compiled for each of a few sizes of an axis.

    An array of another size is padded to the next one, and what the function returns is cut to the size again. What
    padding would change is hidden from it: a sum or a softmax over the axis, a product that sums over it, or ``x[-1]``.
    What cannot be hidden is an error that names the op, at the first call.

    Parameters
    ----------
    axis : int or mapping
        The axis of the function's first argument, an array. A mapping names several arguments, each with its axis; they
        have one size.
    sizes : iterable of int
        The buckets, at least 1. A graph is made for each at its first use.

    Returns
    -------
    callable
        It takes the function and returns a `Bucketed`.

    Raises
    ------
    TypeError
        `sizes` are no whole numbers, or `axis` is neither one nor a mapping to such.
    ValueError
        There are no sizes, or one is less than 1.

    Notes
    -----
    Results are those of the bucket's program: where kernels are chosen by the shape, and where elements are added up
    along the padded axis, floating results may be rounded otherwise than without padding. A call has the same bits
    whatever was called before.
    """
    try:
        buckets = sorted({index(size) for size in sizes})
    except TypeError:
        raise TypeError(f"bucketed: sizes={sizes!r} are no whole numbers, as (1, 8, 64) are") from None
    if not buckets or buckets[0] < 1:
        raise ValueError(f"bucketed: sizes={buckets}: one size at least is needed, and each must be at least 1")
    return lambda function: Bucketed(function, axis, buckets)


class Bucketed:
    """A function that `bucketed` made; it is called like the function.

    Within a traced function, and where `disable_compile` was called, it is the function as it is.

    Attributes
    ----------
    function : callable
    buckets : list of int
    calls : Counter
        How often each bucket was used.
    elements : Counter
        The sum of the sizes that each bucket was used for.
    compiled : Compiled
        What runs the buckets: a program, and a step of the name ``name[bucket]`` in statistics, for each.
    """

    def __init__(self, function: Function, axis: int | Mapping[str, int], buckets: Sequence[int]) -> None:
        if isinstance(function, Compiled):
            if function.inputs is not None or function.outputs is not None:
                raise ValueError("bucketed: a function with captured inputs or outputs; give the arrays as arguments")
            function = function.function
        self.function, self.buckets = function, list(buckets)
        self.signature = inspect.signature(function)
        self.axes = dict(axis) if isinstance(axis, Mapping) else {next(iter(self.signature.parameters), ""): axis}
        for name, each in self.axes.items():
            if not isinstance(each, int):
                raise TypeError(f"bucketed: axis={axis!r} is no whole number, nor a mapping of names to whole numbers")
            if name not in self.signature.parameters:
                raise ValueError(f"bucketed: the function has no parameter {name!r} with an axis to pad")
        self.compiled = PaddedCalls(function, self.signature, self.axes)
        self.calls: Counter[int] = Counter()
        self.elements: Counter[int] = Counter()
        self.places: dict[Any, tuple[Array, int]] = {}
        self.lock = fork.rlock()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the next bucket.

        Raises
        ------
        ValueError
            The size is larger than all buckets, arguments have different sizes, or the function does what padding
            changes.
        """
        if core.Trace.current() is not None or not compiling.is_active():
            return self.function(*args, **kwargs)
        bound = self.signature.bind(*args, **kwargs)
        size = self.size_of(bound.arguments)
        at = bisect_left(self.buckets, size)
        if at == len(self.buckets):
            raise ValueError(
                f"{self}: size {size} is larger than the largest bucket, {self.buckets[-1]}. "
                "Add a bucket; or call .function, which pads nothing."
            )
        bucket = self.buckets[at]
        # What is padded lies in the same memory at each call, so that a thread keeps it until the launch is queued.
        with self.lock:
            for name, axis in self.axes.items():
                if bucket != size or not bound.arguments[name].is_contiguous:
                    bound.arguments[name] = self.padded(name, bound.arguments[name], axis, bucket)
            given = (self.length(bucket, size), bound.args, bound.kwargs)
            traced, found = self.compiled.traced_for(given, {})
            assert isinstance(traced, PaddedTraced)
            traced.check(str(self), size, bucket)
            made = self.compiled.launch(traced, found)
            self.calls[bucket] += 1
            self.elements[bucket] += size
            result = made if traced.is_plain else traced.results(made, None)
            return traced.cut(result, size, [bound.arguments[name].buffer for name in self.axes])

    def __str__(self) -> str:
        return f"[bucketed] {self.compiled.name}"

    def size_of(self, arguments: Mapping[str, Any]) -> int:
        """Return the size of the axis that is padded, which all named arguments share."""
        sizes: dict[str, int] = {}
        for name, axis in self.axes.items():
            array = arguments.get(name)
            if not isinstance(array, Array):
                raise ValueError(f"{self}: {name} must be an array, not {type(array).__name__}")
            if not -array.ndim <= axis < array.ndim:
                raise ValueError(f"{self}: {name} has no axis {axis}, its shape is {array.shape}")
            sizes[name] = array.shape[axis]
        if len(set(sizes.values())) > 1:
            raise ValueError(f"{self}: the arguments have different sizes, {sizes}")
        size = next(iter(sizes.values()))
        if not size:
            raise ValueError(f"{self}: the axis is empty; call .function, which pads nothing")
        return size

    def padded(self, name: str, array: Array, axis: int, bucket: int) -> Array:
        """Return an array with zeros behind its elements along an axis."""
        axis %= array.ndim
        size = array.shape[axis]
        shape = (*array.shape[:axis], bucket, *array.shape[axis + 1 :])
        key = name, shape, array.dtype
        is_recorded = session_of_thread() is not None or current_stream().recording
        whole, before = (None, bucket) if is_recorded else self.places.get(key, (None, bucket))
        if whole is None:
            whole = empty(shape, array.dtype)
        ahead = (slice(None),) * axis
        kernels.copyto(whole[(*ahead, slice(0, size))], array)
        if before > size:
            kernels.copyto(whole[(*ahead, slice(size, before))], 0)
        if not is_recorded:
            self.places[key] = whole, size
        return whole

    def length(self, bucket: int, size: int) -> Array:
        """Return an array that holds the size."""
        if session_of_thread() is not None or current_stream().recording:
            return full((1,), size, np.int32)
        array, before = self.places.get(bucket, (None, -1))
        if array is None:
            array = empty((1,), np.int32)
        if before != size:
            current_stream().fill(array.address, size, 4, 1, to=array.buffer)
            self.places[bucket] = array, size
        return array

    def explain(self) -> str:
        """Return which buckets were used, what was traced, and how it ran, as text."""
        lines = []
        for bucket in self.buckets:
            calls, elements = self.calls[bucket], self.elements[bucket]
            share = f", {1 - elements / (calls * bucket):.0%} of the elements padding" if calls else ""
            lines.append(f"bucket {bucket}: {calls} calls{share}")
        return "\n".join([*lines, self.compiled.explain()])


class PaddedTraced(Traced):
    """A traced function with padding.

    Attributes
    ----------
    padding : Padded
    """

    padding: Padded

    def check(self, name: str, size: int, bucket: int) -> None:
        """Raise ValueError where the function would do something else without padding."""
        broken = self.padding.broken(size)
        if broken is not None:
            asked = f"{size_text(broken.size, '%{}'.format)} {broken.test} {size_text(broken.other, '%{}'.format)}"
            raise ValueError(
                f"{name}: the function depends on a size that padding changes: {asked} is "
                f"{str(broken.answer).lower()} for {bucket} elements and not for {size}. Use x.shape in shapes only; "
                "give numbers that change as arrays."
            )

    def cut(self, result: Any, size: int, buffers: Sequence[Buffer]) -> Any:
        """Return a result with the padding cut off; what shows the memory of padded arguments is copied."""
        units = dict(zip(map(id, self.outputs), self.padding.outputs))
        each = iter([units[id(value)] for value in arrays_of(self.result)])

        def valid(array: Array) -> Array:
            found = next(each)
            for axis, unit in found.items():
                array = array[(*(slice(None),) * axis, slice(0, unit * size))]
            return kernels.copy(array) if found and array.buffer in buffers else array

        return mapped(result, valid)


class PaddedCalls(Compiled):
    """A compiled function of a length, and the padded arguments of a function."""

    def __init__(self, function: Function, signature: inspect.Signature, axes: Mapping[str, int]) -> None:
        self.padded: dict[int, dict[int, int]] = {}
        self.bucket = 1

        def of_padded(length: Array, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            bound = signature.bind(*args, **kwargs).arguments
            self.padded = {bound[name].number: {axis % bound[name].ndim: 1} for name, axis in axes.items()}
            name, axis = next(iter(axes.items()))
            self.bucket = bound[name].form.shape[axis]
            return function(*args, **kwargs)

        super().__init__(of_padded, None, None, False)
        self.of_unpadded = function
        self.__name__ = str(getattr(function, "__name__", "bucketed"))

    @property
    def name(self) -> str:
        """The function's name, in messages and statistics."""
        return self.__name__

    def names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """Return what messages call the arrays of a call: the length, and what the function is given."""
        return ("length", *array_names(self.of_unpadded, *args[1:]))

    def trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        """Return the program of a bucket, in which padding is hidden."""
        program, outputs, result, state = self.record(args, kwargs, shapeless=True)
        needed = dead_code(program)
        # Passes give values other numbers, and inputs keep their places.
        places = {value.number: place for place, value in enumerate(program.inputs)}
        inputs = {needed.inputs[places[number]].number: units for number, units in self.padded.items()}
        padding = masked(needed, needed.inputs[0], inputs if self.bucket > 1 else {}, self.bucket)
        better, passes = improved(padding.program)
        name = f"{self.name}[{self.bucket}]"
        traced = PaddedTraced(name, better, outputs, result, state, passes, len(program), self.names(args, kwargs))
        traced.padding = padding
        return traced
