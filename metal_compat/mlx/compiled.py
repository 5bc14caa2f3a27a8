"""`compile`: functions that are called once for each kind of arguments, and whose ops are added again afterwards."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import update_wrapper
from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace import core
from hiprt.graphs.trace.compile import disable_compile, enable_compile, is_active, state_lock
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.integer import current_recording
from hiprt.graphs.trace.masking_rules import ELEMENTWISE
from hiprt.graphs.trace.passes.simplify import simplify
from hiprt.graphs.trace.prefixes import TRACE
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.tree import fill, mapped, structure, swap
from hiprt.metal_compat.mlx.array import array, readers

__all__ = ["compile", "disable_compile", "enable_compile"]

MOST_PROGRAMS = 256  # of a function
REDUCTIONS = ("all", "any", "logsumexp", "max", "mean", "min", "prod", "softmax", "sum")
# The ops whose arguments beside the arrays mean the same for arrays of all sizes.
SIZELESS = {getattr(kernels, name) for name in (*ELEMENTWISE, *REDUCTIONS)}
Function = Callable[..., Any]


class Thread(threading.local):
    """Whether a thread calls a function to see what it computes."""

    is_tracing = False


thread = Thread()


def compile(  # noqa: A001
    fun: Function, inputs: Any = None, outputs: Any = None, shapeless: bool = False
) -> Compiled:
    """Return a function that calls `fun` once for each kind of arguments; later calls add the ops that it called.

    What it computes becomes part of the lazy graph, as all ops do: a graph that comes again is improved and launched as
    a whole, together with what surrounds the function.

    Parameters
    ----------
    fun : callable
        It takes trees (lists, tuples, dictionaries) of arrays and constants, and returns a tree. It is called for each
        set of constants, shapes and dtypes; what else it does, it does then only, and arrays that it has from elsewhere
        are those of then. A method is called each time.
    inputs : list or dict, optional
        Arrays in it are read at each call, as if they were arguments.
    outputs : list or dict, optional
        What the function leaves in it, is left there by each call.
    shapeless : bool
        Whether to use what was computed of arrays of other sizes, where it does not depend on the sizes: where the
        function reads a size, or calls another op than elementwise ones and reductions, it is called again.

    Returns
    -------
    Compiled
    """
    if not callable(fun):
        raise TypeError(f"compile(): {fun!r} is not callable")
    return Compiled(fun, inputs, outputs, shapeless)


class Traced:
    """What one call of a function computed.

    Parameters
    ----------
    program : Program
        Its inputs stand for the arrays that the function was given, and then for `captured`.
    captured : list of Array
        The values that it had from elsewhere.
    result, state : tree
        What it returned, and left in ``outputs``, with the program's outputs in the place of arrays.
    is_sizeless : bool
        Whether the program is right for arrays of other sizes.
    """

    def __init__(self, program: Program, captured: list[Array], result: Any, state: Any, is_sizeless: bool) -> None:
        self.program, self.captured, self.result, self.state = program, captured, result, state
        self.is_sizeless = is_sizeless
        self.numbers = [value.number for value in program.inputs]
        self.calls = [(each, range(each.number, each.number + len(each.rule[1]))) for each in program.primitives]

    def run(self, given: Sequence[array], outputs: Any) -> Any:
        """Add the ops for other arrays; return what the function returns, and leave what it leaves in `outputs`."""
        values = [each.value for each in given]
        found = dict(zip(self.numbers, values + self.captured))
        before = TRACE.enter()
        try:
            for primitive, numbers in self.calls:
                found.update(zip(numbers, TRACE.repeat(primitive, found, int, Size)))
        finally:
            TRACE.leave(before)

        def replaced(value: Array) -> array:
            return array.around(found[value.number])

        if self.state is not None:
            with state_lock:
                fill(outputs, mapped(self.state, replaced))
        return mapped(self.result, replaced)


class Compiled:
    """A function that was given to `compile`.

    Attributes
    ----------
    function : callable
    traces : int
        How often it was called to see what it computes.
    """

    def __init__(self, function: Function, inputs: Any, outputs: Any, shapeless: bool) -> None:
        self.function, self.inputs, self.outputs, self.shapeless = function, inputs, outputs, shapeless
        self.traces = 0
        self.known: OrderedDict[Hashable, Traced] = OrderedDict()  # by the arrays' forms
        self.sizeless: OrderedDict[Hashable, Traced] = OrderedDict()  # by what these have but sizes
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Within another function that is traced or recorded, its ops are seen anyway.
        if thread.is_tracing or current_recording() is not None or not is_active():
            return self.function(*args, **kwargs)
        tree: Hashable = len(args)
        given: list[array] = list(args)
        # Most functions are given arrays alone, which need no walk through a tree.
        if kwargs or self.inputs is not None or not all(type(each) is array for each in args):
            given = []
            with state_lock:
                tree = structure((args, kwargs), given, array), structure(self.inputs, given, array)
        forms = tree, *[each.value.form for each in given]
        traced = self.known.get(forms)
        if traced is None:
            traced = self.known[forms] = self.traced_for(tree, args, kwargs, given)
            while len(self.known) > MOST_PROGRAMS:
                self.known.popitem(last=False)
        return traced.run(given, self.outputs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        # The object is no constant by which calls could be told apart.
        return self if instance is None else self.function.__get__(instance, owner)

    def traced_for(
        self, tree: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any], given: Sequence[array]
    ) -> Traced:
        """Return what a call computes whose arrays have other forms than those of all calls before."""
        values = [each.value for each in given]
        kinds = tree, *[(value.ndim, value.dtype, value.is_contiguous) for value in values]
        if self.shapeless and kinds in self.sizeless:
            return self.sizeless[kinds]
        with nullcontext() if self.inputs is None and self.outputs is None else state_lock:
            traced = self.trace(args, kwargs, given)
        if traced.is_sizeless:
            self.sizeless[kinds] = traced
            while len(self.sizeless) > MOST_PROGRAMS:
                self.sizeless.popitem(last=False)
        return traced

    def trace(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Sequence[array]) -> Traced:
        """Call the function with values without contents in the place of arrays, and return what it computes."""
        places: list[Array] = []

        def placed(each: array) -> array:
            places.append(TRACE.given(each.value))
            return array.around(places[-1])

        placed_args, placed_kwargs = mapped((args, kwargs), placed, array)
        inputs, outputs = copied(self.inputs), copied(self.outputs)
        first = core.numbered()
        try:
            swap(self.inputs, placed, array)
            with tracing() as sizes:
                result = self.function(*placed_args, **placed_kwargs)
            state = copied(self.outputs)
        finally:
            fill(self.inputs, inputs)
            fill(self.outputs, outputs)
        made: list[Array] = []

        def noted(each: array) -> Array:
            made.append(each.value)
            return each.value

        result, state = mapped((result, state), noted, array)
        primitives, captured = calls_of(made, places, first, {id(each.value) for each in given})
        program = simplify(Program([*places, *captured], primitives, made))
        stands = {id(before): now for before, now in zip(made, program.outputs)}
        result, state = mapped((result, state), lambda value: stands[id(value)])
        self.traces += 1
        is_sizeless = not sizes and all(primitive.op in SIZELESS for primitive in primitives)
        return Traced(program, captured, result, state, is_sizeless)


@contextmanager
def tracing() -> Iterator[list[array]]:
    """Let this thread trace within the block, and a list receive arrays whose sizes are read meanwhile."""
    sizes: list[array] = []
    before, thread.is_tracing = thread.is_tracing, True
    readers.append(sizes)
    try:
        yield sizes
    finally:
        readers[:] = [each for each in readers if each is not sizes]
        thread.is_tracing = before


def calls_of(
    outputs: Sequence[Array], places: Sequence[Array], first: int, originals: set[int]
) -> tuple[list[Primitive], list[Array]]:
    """Return the calls of a function that make its outputs, in order, and the values that it had from elsewhere.

    Parameters
    ----------
    outputs : sequence of Array
    places : sequence of Array
        What stood for its arrays.
    first : int
        Values with smaller numbers were there before.
    originals : set of int
        The ids of the values that the places stand for.

    Raises
    ------
    ValueError
        The function has such a value from elsewhere too.
    """
    seen = {id(each) for each in places}
    found: dict[int, Primitive] = {}
    captured: list[Array] = []
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if id(value) in originals:
            raise ValueError("[compile] Attempting to compile a function with uncaptured inputs is not allowed.")
        if id(value) in seen:
            continue
        seen.add(id(value))
        maker: Any = value.primitive
        if maker is None:  # an array in memory that a primitive has: the constant of a file
            continue
        if maker.stamp:  # one call stands for those of a recipe
            maker.op.expand(maker)
            maker = value.primitive
        if maker.op is not None and maker.number >= first:
            found[maker.number] = maker
        else:
            captured.append(value)
        waiting += maker.inputs
    return [found[number] for number in sorted(found)], captured


def copied(tree: Any) -> Any:
    """Return a copy of a tree's lists and dictionaries."""
    return mapped(tree, lambda each: each, array)
