"""Lazy graphs: values that are computed when they are asked for, as a program that runs as one graph.

Ops that are called within `recording` make values and nothing else. `evaluate` cuts the program of what is asked for
out of the graph of values and runs it. Each value that something still needs then holds its array. A structure that
comes again runs as a `hiprt.graphs.Step`, with the passes of `compile`, and without Python for each primitive. What
its leaves hold each time, such as the weights of a model, becomes part of the program.
"""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from hiprt import collector, fork, kernels
from hiprt.array import Array, empty
from hiprt.flags import flags
from hiprt.graphs.step import Step
from hiprt.graphs.trace.core import Primitive, cut, hold, is_pinned
from hiprt.graphs.trace.growth import Outline, regrown
from hiprt.graphs.trace.integer import current_recording
from hiprt.graphs.trace.mark import Mark, mark
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.passes.decode.matrices import moves
from hiprt.graphs.trace.passes.in_place import in_place
from hiprt.graphs.trace.passes.states import states
from hiprt.graphs.trace.prefixes import TRACE
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.stream import Stream, current_stream, leaving

__all__ = ["check", "checks", "evaluate", "forget_gone", "held", "read", "recording", "value_of", "wait", "whole_cut"]

MOST_PROGRAMS = 512  # that are kept
SMALL = 64  # bytes of an input that is copied rather than patched

trace = TRACE
recording = trace.recording
lock = fork.rlock()
known: OrderedDict[tuple[bytes, Stream], Lowered] = OrderedDict()
shortcuts: OrderedDict[tuple[bytes, Stream], Shortcut] = OrderedDict()
seen: OrderedDict[bytes, list[int]] = OrderedDict()  # the addresses of what the leaves held
gone: list[tuple[bytes, Stream]] = []
left: weakref.WeakSet[Stream] = weakref.WeakSet()  # streams that were closed
checks: list[Callable[[], None]] = []  # what is called behind each wait for the device, and may raise
address_of = attrgetter("address")


class Lowered:
    """The program of a structure, and the step that runs it.

    Parameters
    ----------
    outline : Outline
        Of the structure.
    program : Program
        What the passes made of it; its inputs are the leaves that are not constants, in order.
    name : tuple
        Its key, and the stream.
    leaves : list of Array
        Those of the cut.
    arrays : list of Array
        What they hold.
    constants : list of int
        The leaves that are taken to hold the same array each time, by place: the program captured what they hold.

    Attributes
    ----------
    cells : dict
        The small inputs that were another array at some call, by place: the step reads them from memory of its own,
        into which they are copied, so that it is replayed whatever they are.
    state : int
        The place of a large input that is written in place, such as a cache; -1 where there is none.
    state_address : int
        Where it was at the last call.
    """

    def __init__(
        self,
        outline: Outline,
        program: Program,
        name: tuple[bytes, Stream],
        leaves: list[Array],
        arrays: list[Array],
        constants: list[int],
    ) -> None:
        key, self.stream = name
        self.outline, self.program, self.constants = outline, program, constants
        self.kept = kept_of(leaves, constants)
        self.pick = picker(constants)
        self.addresses = list(map(address_of, self.pick(arrays)))

        def note_gone(_: object) -> None:
            gone.append(name)

        self.alive = [weakref.ref(leaves[i], note_gone) for i in constants]
        numbers = [value.number for value in self.program.inputs]
        roots = Memory(self.program)
        # An output that is an input, written in place, is returned as it is given.
        self.given = [
            numbers.index(roots.root_of(value)) if roots.root_of(value) in roots.outside else -1
            for value in self.program.outputs
        ]
        self.is_plain = all(
            at < 0 or value.number == numbers[at] for at, value in zip(self.given, self.program.outputs)
        )
        self.cells: dict[int, Array] = {}
        # What an output shows stays where it is: a cell is written again by the next call.
        staying = roots.written | {roots.root_of(value) for value in self.program.outputs}
        self.small = [
            i
            for i, value in enumerate(self.program.inputs)
            if value.nbytes <= SMALL and value.number not in staying and value.is_contiguous
        ]
        before = seen[key]
        self.latest = {i: before[self.kept[i]] for i in self.small}  # their addresses
        self.state = next((at for at in self.given if at >= 0 and self.program.inputs[at].nbytes > SMALL), -1)
        self.state_address = 0
        returned = [i for i, at in enumerate(self.given) if at < 0 or not self.is_plain]
        made = partial(run, self.program, returned)  # which does not hold the Lowered, so that both go at once
        captured = self.program.captured
        self.step: Step[..., tuple[Array, ...]] = Step(
            made, name="mlx.eval", stream=self.stream, moves=self.is_plain, captured=captured
        )

    def grown(self, outline: Outline, arrays: list[Array], constants: list[int]) -> Program | None:
        """Return the program of a structure that differs in the lengths of caches alone; None for another one."""
        if constants != self.constants or not self.fits(arrays) or not outline.is_grown(self.outline):
            return None
        if not outline.suits(self.program, self.kept):
            return None
        return regrown(self.program, [arrays[i] for i in self.kept])

    def fits(self, arrays: list[Array]) -> bool:
        """Whether the leaves hold the arrays that the program captured; what is captured is not freed meanwhile."""
        return list(map(address_of, self.pick(arrays))) == self.addresses

    def still(self, arrays: list[Array]) -> list[int]:
        """Return the constants of which that is true."""
        return [i for i, address in zip(self.constants, self.addresses) if arrays[i].address == address]

    def let_go(self) -> None:
        """Hold the memory of earlier calls no longer; the program is kept, and the next call makes a graph of it."""
        self.step.forget()
        self.step.ladder.execs.clear()
        self.step.recordings = []

    def run(self, arrays: list[Array]) -> list[Array]:
        """Return the outputs for what the leaves hold that are kept."""
        placed = list(arrays)
        if self.state >= 0:
            self.state_address = arrays[self.state].address
        for i in self.small:
            address = arrays[i].address
            if i not in self.cells and self.latest[i] != address:
                form = arrays[i].form
                self.cells[i] = empty(form.shape, form.dtype, self.stream)
            if i in self.cells:
                self.cells[i].copy_from(arrays[i], self.stream)
                placed[i] = self.cells[i]
            self.latest[i] = address
        rest = iter(self.step(*placed))
        return [arrays[at] if at >= 0 and self.is_plain else next(rest) for at in self.given]


class Short:
    """A cut in which calls stand for those of recipes; it holds nothing of it.

    Attributes
    ----------
    name : tuple
        Its key, and the stream.
    rules : list
        Those of the primitives, whose addresses are in the key.
    leaves : dict
        The places of the leaves, by id.
    dead : bytes
    results : list of int
        The ids of the results.
    is_apart : bool
        Whether none of the leaves is also a fixed array of such a call, so that it is another one each time.
    """

    def __init__(
        self,
        name: tuple[bytes, Stream],
        primitives: list[Primitive],
        leaves: list[Array],
        dead: bytes,
        results: list[Array],
    ) -> None:
        self.name, self.dead = name, dead
        self.rules = [primitive.rule for primitive in primitives]
        self.leaves = {id(leaf): i for i, leaf in enumerate(leaves)}
        joint = [primitive for primitive in primitives if primitive.stamp]
        # One value may be both a fixed array and an input.
        fixed = Counter(id(part) for primitive in joint for part in primitive.arguments)
        fixed.subtract(id(part) for primitive in joint for part in primitive.inputs)
        self.is_apart = not any(fixed[leaf] for leaf in self.leaves)
        self.results = list(map(id, results))


class Shortcut:
    """The program of a structure in which calls stand for those of recipes, which need not be put there to run it.

    Parameters
    ----------
    name : tuple
        That of the program in `known`.
    short : Short
    leaves, dead, results
        Those of the cut of the same values in which no call stands for others.

    Attributes
    ----------
    is_right : bool
        Whether both cuts need and may overwrite the same.
    """

    def __init__(
        self, name: tuple[bytes, Stream], short: Short, leaves: list[Array], dead: bytes, results: list[Array]
    ) -> None:
        lowered = known[name]
        self.name, self.lowered, self.moves = name, weakref.ref(lowered), moves.count
        self.rules = short.rules
        places = [short.leaves.get(id(leaf), -1) for leaf in leaves]
        self.places = [(i, places[i]) for i in lowered.kept]
        # What is not among the short cut's leaves is fixed: a recipe's constants, and the fixed arrays of the key.
        self.fixed = {i: leaves[i].primitive.arguments[0] for i in lowered.kept if places[i] < 0}
        self.constants = [(places[i], n) for i, n in zip(lowered.constants, lowered.addresses) if places[i] >= 0]
        self.captured = {id(leaves[i].primitive.arguments[0]) for i, place in enumerate(places) if place < 0}
        made = {id(value): i for i, value in enumerate(results)}
        self.order = [made.get(each, -1) for each in short.results]
        is_alike = all(bool(now) == bool(place >= 0 and short.dead[place]) for place, now in zip(places, dead))
        self.is_right = short.is_apart and is_alike and made.keys() == set(short.results)

    def run(self, leaves: list[Array]) -> tuple[Array, ...] | None:
        """Return what is computed of the leaves of a short cut; None where the program is not the one for them."""
        lowered = self.lowered()
        if lowered is None or known.get(self.name) is not lowered or moves.count != self.moves:
            return None
        arrays = [leaf.primitive.arguments[0] for leaf in leaves]
        # An input that is also a fixed array makes another structure.
        if not self.captured.isdisjoint(map(id, arrays)):
            return None
        if any(arrays[place].address != address for place, address in self.constants):
            return None
        made = lowered.run([self.fixed[i] if place < 0 else arrays[place] for i, place in self.places])
        return tuple([made[i] for i in self.order])


def passed(program: Program, dead: bytes, arrays: list[Array], constants: list[int]) -> Program:
    """Return what the passes make of a cut's program, with constants in the place of leaves."""
    leaves = program.inputs
    names = set(flags.mlx_passes)
    simple, _ = improved(program, names & {"simplify"})
    fixed = {simple.inputs[i].number: arrays[i] for i in constants}
    copied = rebuild(simple, lambda _, call, __: call(), constants=fixed)
    written = {value.number for value, i in zip(copied.inputs, kept_of(leaves, constants)) if dead[i]}
    holders = {id(arrays[i]): leaves[i] for i in constants if not is_pinned(arrays[i])}
    placed = in_place(copied, written)
    numbered = {old.number: new.number for old, new in zip(copied.inputs, placed.inputs)}
    large = {numbered[value.number] for value in copied.inputs if value.number in written and value.nbytes > SMALL}
    made, _ = improved(states(placed, large), names - {"simplify"}, holders)
    return made


def kept_of(leaves: Sequence[Array], constants: list[int]) -> list[int]:
    """Return the places of the leaves that are no constants."""
    return sorted(set(range(len(leaves))) - set(constants))


def run(program: Program, returned: list[int], *arrays: Array) -> tuple[Array, ...]:
    """Run a program, and return some of its outputs."""
    found = program.run(*arrays)
    return tuple([found[i] for i in returned])


def picker(places: list[int]) -> Callable[[list[Array]], Sequence[Array]]:
    """Return what gives the items of a list at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: [items[i] for i in places]


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
        found = None if shortcut is None else shortcut.run(leaves)
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
                shorten(short, Shortcut(name, short, leaves, dead, results))
        hold(results, made, mark(stream))


def lower(
    name: tuple[bytes, Stream],
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
    made = known[name] = Lowered(outline, better, name, leaves, arrays, constants)
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
