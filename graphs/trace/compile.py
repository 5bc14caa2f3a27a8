"""`compile`: functions that are traced once, and afterwards run as one graph."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, overload

from hiprt import collector, fork
from hiprt.array import Array, Form
from hiprt.errors import HipWarning
from hiprt.flags import flags
from hiprt.graphs.arguments import names_of
from hiprt.graphs.launch.preparation import Preparation, arguments_of
from hiprt.graphs.launch.results import arrays_in
from hiprt.graphs.step import Step
from hiprt.graphs.trace import core
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.trace import Trace
from hiprt.graphs.trace.tree import arrays_of, fill, mapped, paths, structure, swap
from hiprt.stream import Stream, current_stream

__all__ = ["Compiled", "array_names", "compile", "disable_compile", "enable_compile", "state_lock"]

MOST_PROGRAMS = 256  # of a function, and sets of shapes that lead to them
MANY_TRACES = 32  # that make a warning, once

Function = Callable[..., Any]
is_enabled = True
# Held where captured state is read or written: while one thread traces, no other finds the values that are in it then.
state_lock = fork.rlock()


def disable_compile() -> None:
    """Let compiled functions be called as they are, until `enable_compile`; ``HIPRT_COMPILE=0`` does so as well."""
    global is_enabled
    is_enabled = False
    flags.version += 1


def enable_compile() -> None:
    """Let compiled functions run their programs again; what was traced before is still there."""
    global is_enabled
    is_enabled = True
    flags.version += 1


def is_active() -> bool:
    """Whether compiled functions run their programs."""
    return is_enabled and flags.compile


@overload
def compile(  # noqa: A001
    function: Function, inputs: Any = ..., outputs: Any = ..., shapeless: bool = ...
) -> Compiled: ...
@overload
def compile(  # noqa: A001
    function: None = ..., inputs: Any = ..., outputs: Any = ..., shapeless: bool = ...
) -> Callable[[Function], Compiled]: ...
def compile(function: Any = None, inputs: Any = None, outputs: Any = None, shapeless: bool = False) -> Any:  # noqa: A001
    """Return a function that is traced at its first call, and afterwards runs as one graph.

    It can be used as a decorator, with or without arguments.

    Parameters
    ----------
    function : callable
        It takes trees (lists, tuples, dictionaries) of arrays and constants, calls ops, and returns a tree. It runs
        once for each set of constants, shapes, strides and dtypes that it is called with; what else it does, it does
        then only.
    inputs : list or dict, optional
        Arrays in it are read at each call, as if they were arguments; the function finds them in the same place. Other
        arrays that the function uses without being given them are those that it found when it was traced.
    outputs : list or dict, optional
        What the function leaves in it, is left there by each call.
    shapeless : bool
        True traces again for other numbers of axes, dtypes and constants only; arrays of other shapes go through the
        program that was traced, with the shapes of all its results inferred anew. Where the function has compared a
        size or used it as a number, and the answer is another one, it is traced again as well.

    Returns
    -------
    Compiled

    Raises
    ------
    TypeError
        `function` cannot be called.
    """
    if function is None:
        return partial(compile, inputs=inputs, outputs=outputs, shapeless=shapeless)
    if not callable(function):
        raise TypeError(f"compile: {function!r} is not callable")
    return Compiled(function, inputs, outputs, shapeless)


class Traced(core.Traced):
    """What one trace of a function gave.

    Parameters
    ----------
    program : Program
    outputs : list of Array
        What stands for its outputs in `result` and `state`.
    result : tree
        What the function returned, with values in it.
    state : tree
        What it left in the captured ``outputs``.
    passes : list
        What passes did to the program, a line each, as text when it is read.
    primitives : int
        How many the function had before that.
    names : tuple of str
        What messages call the arrays that the program takes; numbers by default.

    Attributes
    ----------
    steps : dict
        The step that runs the program, by stream.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        outputs: list[Array],
        result: Any,
        state: Any,
        passes: list[object],
        primitives: int,
        names: tuple[str, ...] = (),
    ) -> None:
        self.names = names
        self.name, self.program, self.outputs, self.result, self.state = name, program, outputs, result, state
        self.passes = passes
        self.primitives = primitives
        self.is_plain = state is None and arrays_in(result) is not None
        self.steps: dict[Stream, Step[..., Any]] = {}

    def step(self, stream: Stream) -> Step[..., Any]:
        """Return the step that runs the program on a stream."""
        step = self.steps.get(stream)
        if step is None:
            # Streams may come and go, and a step has memory and graphs.
            for gone in [each for each in list(self.steps) if not each.is_open]:
                self.steps.pop(gone, None)
            made = Step(self.run, name=self.name, stream=stream, moves=True, captured=self.program.captured)
            made.names[len(self.names)] = self.names
            step = self.steps.setdefault(stream, made)
        return step

    def run(self, *arrays: Array) -> Any:
        """Run the program; return what the function returns if that `is_plain`, else the outputs."""
        made = self.program.run(*arrays)
        return self.results(made, None) if self.is_plain else made

    def results(self, made: tuple[Array, ...], outputs: Any) -> Any:
        """Return what the function returns, of a run's outputs; give the captured `outputs` what it leaves there."""
        found = dict(zip(map(id, self.outputs), made))

        def replaced(value: Array) -> Any:
            return found[id(value)]

        if self.state is not None:
            with state_lock:
                fill(outputs, mapped(self.state, replaced))
        return mapped(self.result, replaced)


class Compiled(core.Compiled):
    """A function that `compile` made; it is called like the function.

    Attributes
    ----------
    function : callable
    traces : int
        How often the function was traced.
    programs : list of Program
        What was traced and is still kept, the last one last.
    """

    def __init__(self, function: Function, inputs: Any, outputs: Any, shapeless: bool) -> None:
        self.function, self.shapeless = function, shapeless
        self.inputs, self.outputs = inputs, outputs
        self.traces = 0
        self.known: OrderedDict[Hashable, Traced] = OrderedDict()
        self.kinds: OrderedDict[Hashable, list[Traced]] = OrderedDict()
        self.lock = fork.rlock() if inputs is None and outputs is None else state_lock
        self.attach(self.known, vars(flags))
        update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The function's name, in messages and statistics."""
        return str(getattr(self.function, "__name__", "compiled"))

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept, the last one traced last."""
        return [traced.program for group in self.kinds.values() for traced in group]

    @property
    def program(self) -> str:
        """The text of the program that was traced last; empty before the first call."""
        return self.programs[-1].text() if self.kinds else ""

    @property
    def steps(self) -> list[Step[..., Any]]:
        """The steps that run the programs, whose ``rungs`` and ``reasons`` tell how."""
        return [step for group in self.kinds.values() for traced in group for step in traced.steps.values()]

    if TYPE_CHECKING:

        def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
            """Run the program of such arguments; the C base does this, or calls `call`."""

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program of such arguments; trace the function where there is none yet.

        Calling the compiled function does this, unless the last call with such arguments was on the same stream.

        Raises
        ------
        ValueError
            An argument is no tree of arrays and constants, the function needs the contents of an array while it is
            traced, or a program cannot take the shapes.
        """
        if core.Trace.current() is not None or not is_active():
            return self.function(*args, **kwargs)
        self.version, self.device = flags.version, flags.device
        traced, arrays = self.traced_for(args, kwargs)
        made = self.launch(traced, arrays)
        return made if traced.is_plain else traced.results(made, self.outputs)

    def prepare(self, calls: Iterable[Sequence[Any]]) -> int:
        """Make the graphs of calls ahead, without running them, so that the first such call only launches.

        The function is traced where no program serves a call yet. The graphs are those of this thread's stream.

        Parameters
        ----------
        calls : iterable of sequence
            The arguments of each call, by position. Contents of arrays do not matter, nor where they lie.

        Returns
        -------
        int
            How many graphs were made: less than there are calls where some have graphs already, 0 where graphs are off.

        Raises
        ------
        ValueError
            As for a call.
        HipError
            A call failed while it was recorded.
        """
        if core.Trace.current() is not None or not is_active():
            return 0
        stream = current_stream()
        with Preparation() as preparation:
            for args in arguments_of(calls):
                traced, arrays = self.traced_for(args, {})
                preparation.add(traced.step(stream), arrays)
        return preparation.made

    def traced_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Traced, Sequence[Array]]:
        """Return what a call runs, and the arrays that it is given; trace the function where there is nothing yet."""
        if self.inputs is None:
            key, arrays = core.Trace.signature((args, kwargs))
        else:
            with state_lock:
                key, arrays = core.Trace.signature((args, kwargs, self.inputs))
        try:
            traced = self.known.get(key)
        except TypeError:  # something without a hash, which `find` refuses
            traced = None
        if traced is None:
            with self.lock:
                traced = self.find(key, arrays, args, kwargs)
        return traced, arrays

    def launch(self, traced: Traced, arrays: Sequence[Array]) -> Any:
        """Run a program on this thread's stream, and return what `Traced.run` does."""
        stream = current_stream()
        step = traced.step(stream)
        traced.use(stream, step)
        return step(*arrays)

    def find(self, key: Hashable, arrays: Sequence[Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        """Return the program for arrays of these forms, and remember it; the function is traced if there is none."""
        shape: Hashable = (structure((args, kwargs), []), structure(self.inputs, []))
        alike = (alike_without_shapes if self.shapeless else alike_with_shapes)([array.form for array in arrays])
        group = self.kinds.setdefault((shape, alike), [])
        traced = None if not group else self.fitting(group, arrays)
        if traced is None:
            try:
                traced = self.trace(args, kwargs)
            except BaseException:
                if not group:
                    del self.kinds[shape, alike]
                raise
            group.append(traced)
            self.kinds.move_to_end((shape, alike))
        self.known[key] = traced
        while len(self.known) > MOST_PROGRAMS:
            self.known.popitem(last=False)
        while len(self.kinds) > MOST_PROGRAMS:
            gone = self.kinds.popitem(last=False)[1]
            for old in [old for old, each in self.known.items() if each in gone]:
                del self.known[old]
        return traced

    def fitting(self, group: list[Traced], arrays: Sequence[Array]) -> Traced | None:
        """Return the program of a group whose guards hold for these arrays; None if there is none."""
        if not self.shapeless:
            return group[0]
        return next((traced for traced in group if traced.program.holds_for(arrays)), None)

    def trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        """Call the function with values in the place of the arrays, and return its program."""
        with collector.paused():
            names = self.names(args, kwargs)
            return self.improved(*self.record(args, kwargs, shapeless=self.shapeless), names)

    def names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """Return what messages call the arrays of a call: parameters, and places in them."""
        return (*array_names(self.function, args, kwargs), *paths(self.inputs, "inputs"))

    def improved(
        self, program: Program, outputs: list[Array], result: Any, state: Any, names: tuple[str, ...]
    ) -> Traced:
        """Return a trace after all passes; it keeps the outputs of the better program, and nothing of the first one."""
        better, passes = improved(program)
        better_of = dict(zip(map(id, outputs), better.outputs))
        result, state = mapped((result, state), lambda value: better_of[id(value)])
        return Traced(self.name, better, list(better.outputs), result, state, passes, len(program), names)

    def record(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, shapeless: bool
    ) -> tuple[Program, list[Array], Any, Any]:
        """Return the program of a call as it is traced, its outputs, what the function returned, and what it left."""
        trace = Trace(shapeless=shapeless)
        values: list[Array] = []

        def given(array: Array) -> Array:
            values.append(trace.given(array))
            return values[-1]

        placed_args, placed_kwargs = mapped((args, kwargs), given)
        inputs, outputs = keep(self.inputs), keep(self.outputs)
        try:
            swap(self.inputs, given)
            with trace.recording():
                # A size among the results is a number, which holds for the sizes that answer the same.
                result = mapped(self.function(*placed_args, **placed_kwargs), int, Size)
                state = mapped(self.outputs, int, Size)
        finally:
            fill(self.inputs, inputs)
            fill(self.outputs, outputs)
        made = [*arrays_of(result), *arrays_of(state)]
        outputs_of = list({id(each): each for each in made}.values())
        self.traces += 1
        if self.traces == MANY_TRACES:
            warnings.warn(
                f"compile: {self.name} was traced {self.traces} times. A constant among its arguments, a shape or the "
                "tree changes from call to call: give numbers that change as arrays, or shapes with shapeless=True.",
                HipWarning,
                stacklevel=5,
            )
        return Program(values, trace.primitives, outputs_of, trace.guards), outputs_of, result, state

    def explain(self) -> str:
        """Return what was traced, and how it ran, as text."""
        lines = [f"{self.name}: traced {self.traces} times, {len(self.programs)} programs kept"]
        for traced in [traced for group in self.kinds.values() for traced in group]:
            lines += ["", *map(str, traced.passes), traced.program.text()]
        for step in self.steps:
            rungs = ", ".join(f"{rung} {n}" for rung, n in step.rungs.items() if n)
            lines += ["", f"nodes {step.nodes}, edges {step.edges}; {rungs or 'not run'}"]
            lines += [f"  {reason}: {n}" for reason, n in step.reasons.items()]
        return "\n".join(lines)


def keep(tree: Any) -> Any:
    """Return a copy of a tree's lists and dictionaries."""
    return mapped(tree, lambda array: array)


def alike_with_shapes(forms: list[Form]) -> Hashable:
    """Return what arrays must share for one program to serve both."""
    return tuple([(form.shape, form.strides, form.dtype) for form in forms])


def alike_without_shapes(forms: list[Form]) -> Hashable:
    """Return what arrays must share for one program to serve both, whatever their shapes."""
    return tuple([(form.ndim, form.dtype) for form in forms])


def array_names(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[str]:
    """Yield a name for each array among the arguments of a function: that of the parameter, and its place in it."""
    for name, tree in (*zip(names_of(function, len(args)), args), *kwargs.items()):
        yield from paths(tree, name)
