"""Lazy graphs: values that are computed when they are asked for, as a program that runs as one graph.

Ops that are called within `recording` make values and nothing else. `evaluate` cuts the program of what is asked for
out of the graph of values and runs it. Each value that something still needs then holds its array. A structure that
comes again runs as a `hiprt.graphs.Step`, with the passes of `compile`, and without Python for each primitive. What
its leaves hold each time, such as the weights of a model, becomes part of the program.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hiprt import collector, fork, kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive, cut, hold, is_pinned
from hiprt.graphs.trace.growth import Outline
from hiprt.graphs.trace.integer import current_recording
from hiprt.graphs.trace.lowered import SMALL, Lowered, Name, passed
from hiprt.graphs.trace.mark import Mark, mark
from hiprt.graphs.trace.prefixes import TRACE
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.shortcut import Short, Shortcut
from hiprt.stream import Stream, current_stream, leaving

__all__ = ["check", "checks", "evaluate", "forget_gone", "held", "read", "recording", "value_of", "wait", "whole_cut"]

MOST_PROGRAMS = 512  # that are kept

trace = TRACE
recording = trace.recording
lock = fork.rlock()
known: OrderedDict[Name, Lowered] = OrderedDict()
shortcuts: OrderedDict[Name, Shortcut] = OrderedDict()
seen: OrderedDict[bytes, list[int]] = OrderedDict()  # the addresses of what the leaves held
gone: list[Name] = []
left: weakref.WeakSet[Stream] = weakref.WeakSet()  # streams that were closed
checks: list[Callable[[], None]] = []  # what is called behind each wait for the device, and may raise


def value_of(array: Array) -> Array:
    """Return a value that holds an array in memory."""
    value: Array = trace.given(array)
    hold([value], (array,))
    return value


def held(value: Array) -> Array | None:
    """Return the array that a value holds; None for one that is not computed yet, or stands for an argument."""
    maker = value.primitive
    if maker is None:
        return value
    return maker.arguments[0] if maker.op is None and maker.arguments else None


def mark_of(value: Array) -> Mark | None:
    """Return the point behind what computed a value that holds an array; None where that is not known."""
    maker = value.primitive
    found: Mark | None = None if maker is None else maker.mark
    return found


def wait(values: Sequence[Array]) -> None:
    """Wait on the host until values that were evaluated are there; this waits for no later evaluation."""
    marks = {id(found): found for found in map(mark_of, values)}
    for found in marks.values():
        if found is None:
            current_stream().synchronize()
        else:
            found.wait()
    check()


def check() -> None:
    """Raise what is known to be wrong with the results that were waited for."""
    for each in checks:
        each()


def read(value: Array) -> np.ndarray[Any, Any]:
    """Return the contents of a value on the host, which is computed if need be; this waits for no later evaluation."""
    evaluate([value])
    memory, found = held(value), mark_of(value)
    assert memory is not None
    # Others may write what they see too.
    host = memory.numpy() if found is None or is_pinned(memory) else found.read(memory)
    check()
    return host


def evaluate(values: Sequence[Array]) -> None:
    """Let each value hold its array.

    What is launched runs on this thread's stream, and the call does not wait for it.

    Raises
    ------
    ValueError, TypeError
        An op refuses its arguments when it runs.
    """
    recording = current_recording()
    if recording is not None:
        recording.refuse("it computes an array")
    with lock:
        forget_gone()
        wanted = [value for value in values if held(value) is None]
        if not wanted:
            return
        stream = current_stream()
        key, primitives, leaves, dead, results = cut(wanted)
        name = key, stream
        shortcut = shortcuts.get(name)
        found = None if shortcut is None else shortcut.run(leaves, known.get(shortcut.name))
        if found is not None:
            hold(results, found, mark(stream))
            return
        short = None
        if name not in known and any(primitive.stamp for primitive in primitives):
            short = Short(name, primitives, leaves, dead, results)
            expand(primitives)
            del primitives, leaves, results  # what they hold is no more dead for it
            key, primitives, leaves, dead, results = cut(wanted)
            name = key, stream
        earlier = None
        if name not in known and key not in seen:
            earlier = writer_of(leaves, dead, stream)
            if earlier is not None:
                earlier.let_go()
                grown = concatenated(primitives)
                del primitives, leaves, results
                if grown:
                    short = None  # what it knows by its id may be gone
                else:
                    earlier = None
                while grown:  # nothing else holds a value meanwhile, so that it is dead for the rest
                    run_once(grown.pop(), stream)
                key, primitives, leaves, dead, results = cut(wanted)
                name = key, stream
        arrays = [leaf.primitive.arguments[0] for leaf in leaves]
        lowered = known.get(name)
        if earlier is not None and name not in known:
            # The next tokens have this structure, and the weights are those of the program before.
            same = set(earlier.addresses)
            seen[key] = [array.address if array.address in same else 0 for array in arrays]
        if lowered is None and key not in seen:
            # Most structures come once: their ops are launched one by one.
            seen[key] = [array.address for array in arrays]
            while len(seen) > MOST_PROGRAMS:
                seen.popitem(last=False)
            made = Program(leaves, primitives, results).run(*arrays)
        else:
            if lowered is None or not lowered.fits(arrays):
                with collector.paused():
                    program = Program(leaves, primitives, results)
                    lowered = lower(name, program, arrays, dead, lowered, earlier)
            made = tuple(lowered.run([arrays[i] for i in lowered.kept]))
            if short is not None:
                shorten(short, Shortcut(lowered, short, leaves, dead, results))
        hold(results, made, mark(stream))


def lower(
    name: Name,
    program: Program,
    arrays: list[Array],
    dead: bytes,
    before: Lowered | None,
    earlier: Lowered | None,
) -> Lowered:
    """Make a cut's program ready to run, and know it by its name.

    Parameters
    ----------
    name : tuple
    program : Program
        Its inputs are the leaves.
    arrays : list of Array
        What they hold.
    dead : bytes
        Which of them the program may write over.
    before : Lowered, optional
        What this structure had, which captured other arrays.
    earlier : Lowered, optional
        What wrote the caches that are longer now.
    """
    leaves = list(program.inputs)
    if before is not None:
        constants = before.still(arrays)
    else:
        constants = [i for i, each in enumerate(zip(arrays, seen[name[0]], dead)) if is_constant(*each)]
    outline = Outline(name[0], program, dead_numbers(leaves, dead))
    better = None if earlier is None else earlier.grown(outline, arrays, constants)
    if better is None:
        better = passed(program, dead, arrays, constants)
    made = known[name] = Lowered(outline, better, name, leaves, arrays, constants, seen[name[0]], gone.append)
    if len(known) > MOST_PROGRAMS:
        known.popitem(last=False)
        forget_shortcuts()
    return made


def dead_numbers(values: list[Array], dead: bytes) -> set[int]:
    """Return the numbers of the large values, such as caches, that may be written over."""
    return {value.number for value, is_dead in zip(values, dead) if is_dead and value.nbytes > SMALL}


def writer_of(leaves: list[Array], dead: bytes, stream: Stream) -> Lowered | None:
    """Return the program that wrote leaves in place that nobody reads any more behind a cut; None where none did."""
    pairs = zip(leaves, dead)
    addresses = {leaf.primitive.arguments[0].address for leaf, is_dead in pairs if is_dead and leaf.nbytes > SMALL}
    every = (each for (_, its), each in reversed(known.items()) if its == stream and each.state >= 0)
    return next((each for each in every if each.state_address in addresses), None)


def concatenated(primitives: list[Primitive]) -> list[Array]:
    """Return the values that are made longer before parts of them are written: caches that grow."""
    updates = [primitive.inputs[0] for primitive in primitives if primitive.op is kernels.slice_update]
    makers: list[Any] = [value.primitive for value in updates]
    return [value for value, maker in zip(updates, makers) if maker and maker.op is kernels.concatenate]


def run_once(value: Array, stream: Stream) -> None:
    """Compute a value op by op, after which what only it was made of is freed."""
    if held(value) is not None:
        return
    _, primitives, leaves, _, results = cut([value])
    arrays = [leaf.primitive.arguments[0] for leaf in leaves]
    hold(results, Program(leaves, primitives, results).run(*arrays), mark(stream))


def expand(primitives: list[Any]) -> None:
    """Put the calls of recipes in the place of those that stand for them."""
    for primitive in primitives:
        if primitive.stamp:
            primitive.op.expand(primitive)


def whole_cut(values: list[Array]) -> tuple[bytes, list[Primitive], list[Array], bytes, list[Array]]:
    """Return the cut of what values need, in which no call stands for others."""
    expand(cut(values)[1])
    return cut(values)


def shorten(short: Short, shortcut: Shortcut) -> None:
    """Keep a shortcut, if it is right."""
    if shortcut.is_right:
        shortcuts[short.name] = shortcut
        while len(shortcuts) > MOST_PROGRAMS:
            shortcuts.popitem(last=False)


def is_constant(array: Array, before: int, is_dead: int) -> bool:
    """Whether what a leaf holds is taken to come again: it is as before, and no position, which programs are given."""
    return not is_dead and array.address == before and (array.nbytes > SMALL or array.dtype.kind not in "iub")


def forget_gone() -> None:
    """Let go of programs that captured what their leaves do not hold any more, and of those of closed streams."""
    with lock:
        if not left and not gone:
            return
        if left:
            for name in [name for name in known if name[1] in left]:
                del known[name]
            left.clear()
        while gone:
            name = gone.pop()
            known.pop(name, None)
            seen.pop(name[0], None)
        forget_shortcuts()


def forget_shortcuts() -> None:
    """Let go of shortcuts to programs that are not known any more."""
    for name in [name for name, each in shortcuts.items() if each.name not in known]:
        del shortcuts[name]


def leave(stream: Stream, can_fence: bool) -> None:
    """Note that a stream was closed, where any thread may do so, with any lock."""
    left.add(stream)


leaving.append(leave)
