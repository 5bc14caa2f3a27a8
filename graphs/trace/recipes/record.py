"""The recording of a call: what it returned and left, and the calls of ops behind that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace import core
from hiprt.graphs.trace.integer import Integer, Recording
from hiprt.graphs.trace.prefixes import cache_of, position
from hiprt.graphs.trace.recipes.calls import Calls
from hiprt.graphs.trace.recipes.draft import Draft
from hiprt.graphs.trace.recipes.pattern import ATTRIBUTE, FUNCTIONS, ITEM, PLAIN, Holder, Pattern, RefusedError
from hiprt.graphs.trace.recipes.template import (
    A_DICT,
    A_LIST,
    A_TUPLE,
    CONSTANT,
    FOUND,
    GIVEN,
    NEW,
    SUM,
    moved,
)
from hiprt.graphs.trace.value import Value, VaryingValue

__all__ = ["TEST_NUMBERS", "record"]

TEST_NUMBERS = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
MISSING = object()


class Maker:
    """Makes the parts of a recipe from what a call left.

    Parameters
    ----------
    pattern : Pattern
        The objects as they were before.
    recording : Recording
        It is open yet.
    first : int
        The number of the first value that the call could make.
    """

    def __init__(self, pattern: Pattern, recording: Recording, first: int) -> None:
        self.pattern, self.recording, self.first = pattern, recording, first
        self.given = {id(array): i for i, array in enumerate(pattern.arrays)}
        self.symbols = {(id(each), name): symbol for each, name, _, symbol in pattern.integers}
        self.new: dict[int, int] = {}
        self.arrays: list[core.Lazy] = []  # those that are new
        self.asked: dict[tuple[int, Any], int] = {}  # sums of templates

    def template(self, part: Any) -> tuple[Any, ...]:
        """Return what makes an object that the call returned or left."""
        kind = type(part)
        if kind is Integer:
            return (SUM, self.asked.setdefault((part.constant, part.terms), len(self.asked)))
        if kind in PLAIN or isinstance(part, FUNCTIONS):
            return (CONSTANT, part)
        if isinstance(part, core.Lazy):
            if id(part) in self.given:
                return (GIVEN, self.given[id(part)])
            if id(part) not in self.new:
                self.new[id(part)] = len(self.arrays)
                self.arrays.append(part)
            return (NEW, self.new[id(part)])
        if id(part) in self.pattern.found:
            return (FOUND, self.pattern.found[id(part)])
        if kind is list or kind is tuple:
            return (A_LIST if kind is list else A_TUPLE, tuple([self.template(each) for each in part]))
        if kind is dict:
            return (A_DICT, tuple(part), tuple([self.template(each) for each in part.values()]))
        raise RefusedError(f"the call leaves an object of the class {kind.__qualname__}")

    def writes(self) -> list[tuple[Any, ...]]:
        """Return what the call left in objects that it was given."""
        found = []
        for holder in self.pattern.holders:
            after = holder.items()
            if holder.before.keys() - after.keys() or (holder.kind == ITEM and len(after) > len(holder.before)):
                raise RefusedError(f"a {type(holder.object).__qualname__} has other keys, or another length")
            for key, now in after.items():
                symbol = self.symbols.get((id(holder.object), key)) if holder.kind == ATTRIBUTE else None
                if symbol is None:
                    is_left = now is holder.before.get(key, MISSING)
                else:
                    is_left = type(now) is Integer and not now.constant and now.terms == ((symbol, 1),)
                if is_left:
                    continue
                if holder.is_fixed:
                    raise RefusedError(f"{key} of a {type(holder.object).__qualname__} is changed")
                found.append((holder.node, holder.kind, key, self.template(now)))
        return found

    def changed(self) -> list[tuple[int, Array]]:
        """Return the arrays that have another value, by number."""
        pairs = enumerate(zip(self.pattern.arrays, self.pattern.values))
        return [(i, array.value) for i, (array, before) in pairs if array.value is not before]

    def draft(self, result: Any) -> Draft:
        """Return the recording of a call that has returned something."""
        writes, made = self.writes(), self.template(result)
        changed = self.changed()
        if any(i in self.pattern.fixed for i, _ in changed):
            raise RefusedError("an array that is fixed is changed")
        wanted = [*(array.value for array in self.arrays), *(value for _, value in changed)]
        for value in wanted:
            if type(value) is VaryingValue:
                with self.recording.general():  # another size of a cache is another form of what is left of it
                    value.pin()
        ops = Calls(self.pattern.values, self.recording, self.first)
        ops.follow(wanted)
        constants, positions = ops.leaves_in_order(len(self.pattern.arrays))
        calls = ops.in_order()
        equal = [(0, 0, ((i, 1), (n, -1))) for i, (*_, n) in enumerate(self.pattern.integers) if n != i]
        tests = [(constant, TEST_NUMBERS[test], terms) for constant, terms, test in self.recording.tests]
        sums = [(constant, 0, terms) for constant, terms in self.asked]
        count = len(equal) + len(tests)
        fresh = tuple([ops.place_of(array.value) for array in self.arrays])
        left = tuple([(i, ops.place_of(value)) for i, value in changed])
        joint, outputs = ops.joint(wanted)
        where = [count + len(sums) + i for i in range(len(positions))]
        sums += [(constant, 0, terms) for constant, terms in positions]
        return Draft(
            self.pattern,
            tuple(self.pattern.nodes),
            (*equal, *tests, *sums),
            count,
            position,
            tuple(constants),
            tuple(where),
            tuple(calls),
            fresh,
            left,
            tuple([(node, kind, key, moved(part, count)) for node, kind, key, part in writes]),
            moved(made, count),
            ops.roles(self.pattern),
            joint,
            outputs,
        )


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    root: tuple[Any, ...],
    is_fixed: Callable[[Any], bool],
    skipped: frozenset[str],
) -> tuple[Any, Draft | str]:
    """Call a function, and return what it returns, and the recording of the call, or why it has none.

    Parameters
    ----------
    function : callable
    args, kwargs : tuple, dict
        What it is called with.
    root : tuple
        These, and what else it reads.
    is_fixed, skipped
        See `Pattern`.
    """
    try:
        pattern = Pattern(root, is_fixed, skipped)
    except RefusedError as refusal:
        return function(*args, **kwargs), str(refusal)
    recording = Recording()
    made: list[Any] = []
    first = core.numbered()
    for holder, name, number, symbol in pattern.integers:
        vars(holder)[name] = recording.read(symbol, number)
    for i, size in pattern.caches.items():
        value = pattern.values[i]
        rows = recording.read(len(pattern.integers) + size, pattern.sizes[size])
        cache_of(value, (*value.shape[:-2], rows, value.shape[-1]), recording)
    before = core.watch(made)
    try:
        with recording:
            result = function(*args, **kwargs)
            core.watch(before)
            found = drafted(Maker(pattern, recording, first), result, made)
    finally:
        core.watch(before)
        for each in pattern.holders:
            restore(each)
        for value in [*pattern.values, *(array.value for array in pattern.arrays)]:
            if value.number in recording.caches:
                value.__class__ = Value
    return numbers(result), found


def drafted(maker: Maker, result: Any, made: list[Callable[[], Any]]) -> Draft | str:
    """Return the recording of a call, or why it has none; `made` refers to the arrays that it has made."""
    try:
        found = maker.draft(result)
    except RefusedError as refusal:
        return str(refusal)
    known = maker.new.keys() | maker.given.keys()
    if any(id(array) not in known for reference in made if (array := reference()) is not None):
        return "an array is left where nothing leads to"
    return maker.recording.refusal or found


def restore(holder: Holder) -> None:
    """Put numbers in the place of integers."""
    if holder.is_fixed:
        return
    items = holder.items()
    for key, each in list(items.items()):
        now = numbers(each)
        if now is each:
            continue
        if holder.kind == ITEM:
            holder.object[key] = now
        else:
            items[key] = now


def numbers(tree: Any) -> Any:
    """Return a tree with numbers in the place of integers, the tree itself where there are none."""
    if type(tree) is Integer:
        return tree.value
    if type(tree) is list or type(tree) is tuple:
        items = [numbers(each) for each in tree]
        if all(now is before for now, before in zip(items, tree)):
            return tree
        return items if type(tree) is list else tuple(items)
    if type(tree) is dict:
        made = {key: numbers(each) for key, each in tree.items()}
        return tree if all(made[key] is each for key, each in tree.items()) else made
    return tree
