"""Recipes: what a call of a Python function computed, made from the lazy graph that it left, to be used without it.

A model's Python makes the same few thousand values for each token. `record` runs a function once with the integers of
its state as `Integer`, and finds what it did by looking: at the objects that it was given before and after, and at the
graph behind the arrays that it left in them and returned. A `core.Recipe` then does the same in C for arguments that
its pattern fits. What a recording cannot show, such as a print, is lost where a recipe is used.

A function has no recipe if it

- reads the contents of an array,
- is given an object of a kind that is not known (`Pattern`), or leaves one,
- reads an array that was there before and is in none of these objects,
- changes what is fixed, or an attribute is not there any more, or a list has another length,
- leaves an array where nothing that it was given leads to.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import is_
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from hiprt.array import Array, Form
from hiprt.graphs.trace import core
from hiprt.graphs.trace.integer import Integer, Recording
from hiprt.graphs.trace.prefixes import cache_of, position, positions
from hiprt.graphs.trace.value import Value, VaryingValue
from hiprt.kernels import slice_update

__all__ = ["Draft", "RefusedError", "record"]

Sum = tuple[int, int, tuple[tuple[int, int], ...]]  # a constant, how it compares with 0, slots and their factors
SAME, ARRAY, INTEGER, LIST, TUPLE, DICT, OBJECT, AGAIN, ANY = range(9)
CONSTANT, VALUE, A_LIST, A_TUPLE, A_DICT, NEW, GIVEN, FOUND, SUM = range(9)
ITEM, ENTRY, ATTRIBUTE = range(3)
INPUT, FIXED, UNUSED = range(3)
TEST_NUMBERS = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
MOST_NODES, DEEPEST = 50_000, 60
MOST_INTEGER = 1 << 40
SMALL = 4096  # bytes of a constant that is compared by its contents
# Objects that are themselves, whatever their attributes.
FUNCTIONS = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, partial, enum.Enum)
PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), slice)
HEAP_TYPE = 1 << 9  # of a type's flags: it is no type of an extension module
MISSING = object()


class RefusedError(Exception):
    """A call has no recipe; the message says why."""


class Holder:
    """An object of a pattern in which a function may leave something.

    Attributes
    ----------
    node : int
    object : object
    kind : int
        ITEM of a list, ENTRY of a dictionary, or ATTRIBUTE.
    is_fixed : bool
        Whether the function must leave it as it is.
    before : dict
        What it held, by place or key.
    """

    def __init__(self, node: int, holder: Any, kind: int, is_fixed: bool) -> None:
        self.node, self.object, self.kind, self.is_fixed = node, holder, kind, is_fixed
        self.before = dict(self.items())

    def items(self) -> dict[Any, Any]:
        """Return what it holds now."""
        found: dict[Any, Any] = vars(self.object) if self.kind == ATTRIBUTE else self.object
        return dict(enumerate(found)) if self.kind == ITEM else found


class Pattern:
    """The objects that a function reads: its arguments, and what they lead to.

    Lists, tuples, dictionaries and objects with attributes are known by what they hold; arrays by their forms. What is
    behind an object that `is_fixed` names is fixed: its numbers are constants, and what is of no kind known is itself.
    Elsewhere integers that are attributes are slots, and an object of a kind not known is refused.

    Parameters
    ----------
    root : tuple
    is_fixed : callable
        Whether an object, and what is behind it, is fixed.
    skipped : set of str
        The names of attributes that mean nothing.

    Attributes
    ----------
    nodes : list of tuple
        As `core.Recipe` takes them.
    arrays : list of Lazy
    values : list of Array
        The arrays' values.
    fixed : set of int
        Which of the arrays are fixed.
    integers : list of tuple
        The attributes that are integers: the object, the name, the number, and the first integer of that name and
        number, for which they all are taken.
    sizes : list of int
        How many rows caches have: arrays that are not fixed, which may come with another number of rows.
    caches : dict
        Which of the sizes an array has, by the array's number. Arrays of one form have one size.
    """

    def __init__(self, root: tuple[Any, ...], is_fixed: Callable[[Any], bool], skipped: frozenset[str]) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.arrays: list[core.Lazy] = []
        self.values: list[Array] = []
        self.fixed: set[int] = set()
        self.integers: list[tuple[Any, str, int, int]] = []
        self.holders: list[Holder] = []
        self.found: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no other object has their addresses
        self.symbols: dict[tuple[str, int], int] = {}
        self.is_fixed, self.skipped = is_fixed, skipped
        self.visit(root, False, 0)
        if len({id(value) for value in self.values}) < len(self.values):
            raise RefusedError("two arrays are one value")
        forms: dict[Form, int] = {}
        self.caches: dict[int, int] = {}
        for i, value in enumerate(self.values):
            if i not in self.fixed and type(value) is Value and value.ndim > 2 and value.is_contiguous:
                self.caches[i] = forms.setdefault(value.form, len(forms))
        self.sizes = [form.shape[-2] for form in forms]

    def add(self, kind: int, what: Any = None, first: Any = None, second: Any = None) -> None:
        """Add a node."""
        if len(self.nodes) >= MOST_NODES:
            raise RefusedError("too many objects are reached")
        self.nodes.append((kind, what, first, second))

    def visit(self, part: Any, is_fixed: bool, depth: int) -> None:
        """Add the nodes of an object, and of what is in it."""
        kind = type(part)
        if kind in PLAIN or isinstance(part, FUNCTIONS):
            self.add(SAME, part)
        elif id(part) in self.found:
            self.add(AGAIN, None, self.found[id(part)])
        elif depth > DEEPEST:
            raise RefusedError("objects are too deep")
        else:
            is_fixed = is_fixed or self.is_fixed(part)
            self.found[id(part)] = len(self.nodes)
            self.kept.append(part)
            self.visit_new(part, kind, is_fixed, depth + 1)

    def visit_new(self, part: Any, kind: type, is_fixed: bool, depth: int) -> None:
        """Add the nodes of an object that may hold others."""
        node = len(self.nodes)
        if isinstance(part, core.Lazy):
            self.add(ARRAY, part.value.form, part.value.primitive.prefix, is_grown(part.value))
            if is_fixed:
                self.fixed.add(len(self.arrays))
            self.arrays.append(part)
            self.values.append(part.value)
        elif kind is list or kind is tuple:
            self.add(LIST if kind is list else TUPLE, None, len(part))
            if kind is list:
                self.holders.append(Holder(node, part, ITEM, is_fixed))
            for each in part:
                self.visit(each, is_fixed, depth)
        elif kind is dict:
            self.add(DICT, None, tuple(part))
            self.holders.append(Holder(node, part, ENTRY, is_fixed))
            for each in part.values():
                self.visit(each, is_fixed, depth)
        elif has_attributes(part, kind):
            own = tuple(part) if isinstance(part, dict) else None
            self.add(OBJECT, kind, own, tuple(vars(part)))
            if own is not None:
                self.holders.append(Holder(node, part, ENTRY, is_fixed))
                for each in dict.values(part):
                    self.visit(each, is_fixed, depth)
            self.holders.append(Holder(node, part, ATTRIBUTE, is_fixed))
            for name, each in vars(part).items():
                if name in self.skipped:
                    self.add(ANY)
                elif type(each) is int and not is_fixed and abs(each) < MOST_INTEGER:
                    symbol = self.symbols.setdefault((name, each), len(self.integers))
                    self.integers.append((part, name, each, symbol))
                    self.add(INTEGER)
                else:
                    self.visit(each, is_fixed, depth)
        elif is_fixed or kind.__module__.startswith("hiprt."):
            self.add(SAME, part)
        else:
            raise RefusedError(f"an object of the class {kind.__qualname__} is reached")


def is_grown(value: Array) -> bool:
    """Whether a value is a cache of which a part was written."""
    maker: Any = value.primitive
    return bool(maker.rule[3][value.number - maker.number]) if maker.stamp else maker.op is slice_update


def has_attributes(part: Any, kind: type) -> bool:
    """Whether an object is known by its attributes, and by its items if it is a dictionary."""
    if not kind.__flags__ & HEAP_TYPE or not kind.__dictoffset__ or kind.__module__.startswith("hiprt."):
        return False
    return isinstance(part, dict) or not isinstance(part, (list, tuple, set, frozenset, str, bytes, int, float))


class Draft:
    """A recording of one call.

    Parameters
    ----------
    pattern : Pattern
    *parts : object
        What a `core.Recipe` is made of, where the sums have numbers of sizes behind those of integers.

    Attributes
    ----------
    integers : int
        How many integers there are.
    sizes, caches
        See `Pattern`.
    """

    def __init__(self, pattern: Pattern, *parts: Any) -> None:
        self.parts = parts
        self.integers, self.sizes, self.caches = len(pattern.integers), pattern.sizes, pattern.caches
        # Calls for caches of other lengths differ in little else, and far behind.
        self.forms = [node[1] for node in parts[0] if node[0] == ARRAY]

    def equals(self, other: Draft) -> bool:
        """Whether another call gave the same recording."""
        return (
            len(self.forms) == len(other.forms)
            and all(map(is_, self.forms, other.forms))
            and core.alike(self.parts, other.parts, same)
        )

    def recipe(self) -> core.Recipe:
        """Return the recipe."""
        nodes, sums, *rest = self.parts
        return core.Recipe(nodes, self.folded(sums, self.sizes), *rest)

    def folded(self, sums: Sequence[Sum], sizes: Sequence[int]) -> tuple[Sum, ...]:
        """Return sums with numbers in the place of sizes."""
        return tuple([self.with_sizes(each, sizes) for each in sums])

    def with_sizes(self, found: Sum, sizes: Sequence[int]) -> Sum:
        """Return a sum with numbers in the place of sizes."""
        constant, test, terms = found
        if all(slot < self.integers for slot, _ in terms):
            return found
        constant += sum(times * sizes[slot - self.integers] for slot, times in terms if slot >= self.integers)
        return constant, test, tuple([term for term in terms if term[0] < self.integers])


def same(a: Any, b: Any) -> bool:
    """Whether constants of two recordings, of one type and no tuples, mean the same."""
    if type(a) is float:
        return bool(a.hex() == b.hex())
    if isinstance(a, Array):
        return same_contents(a, b)
    return isinstance(a, PLAIN) and bool(a == b)


def same_contents(a: Array, b: Array) -> bool:
    """Whether two values hold small arrays of the same bytes."""
    first, second = (each.primitive for each in (a, b))
    if first is None or second is None or first.op is not None or second.op is not None or a.form is not b.form:
        return False
    if a.nbytes > SMALL:
        return False
    here, there = (each.arguments[0].numpy().tobytes() for each in (first, second))
    return bool(here == there)


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
        graph = Graph(self.pattern.values, self.recording, self.first)
        graph.follow(wanted)
        constants, positions = graph.leaves_in_order(len(self.pattern.arrays))
        calls = graph.calls()
        equal = [(0, 0, ((i, 1), (n, -1))) for i, (*_, n) in enumerate(self.pattern.integers) if n != i]
        tests = [(constant, TEST_NUMBERS[test], terms) for constant, terms, test in self.recording.tests]
        sums = [(constant, 0, terms) for constant, terms in self.asked]
        count = len(equal) + len(tests)
        fresh = tuple([graph.place_of(array.value) for array in self.arrays])
        left = tuple([(i, graph.place_of(value)) for i, value in changed])
        joint, outputs = graph.joint(wanted)
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
            graph.roles(self.pattern),
            joint,
            outputs,
        )


def moved(template: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    """Return a template whose sums stand behind so many tests."""
    kind = template[0]
    if kind == SUM:
        return (SUM, template[1] + by)
    if kind in (A_LIST, A_TUPLE):
        return (kind, tuple([moved(each, by) for each in template[1]]))
    return (kind, template[1], tuple([moved(each, by) for each in template[2]])) if kind == A_DICT else template


class Graph:
    """The calls of ops that made some values.

    Parameters
    ----------
    values : list of Array
        Those that were given.
    recording : Recording
    first : int
        Values with smaller numbers were there before.

    Attributes
    ----------
    place : dict
        The places of values, by number.
    """

    def __init__(self, values: list[Array], recording: Recording, first: int) -> None:
        self.place, self.first = {value.number: i for i, value in enumerate(values)}, first
        self.positions = {id(value): key for key, value in recording.positions.items()}
        self.primitives: dict[int, core.Primitive] = {}
        self.leaves: dict[int, Array] = {}

    def follow(self, values: list[Array]) -> None:
        """Find the calls that make values, and what these depend on."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            maker: Any = value.primitive
            if value.number in self.place or id(value) in self.leaves:
                continue
            if maker is None or maker.number < self.first:
                if positions.get(id(value)) is not value:
                    raise RefusedError("an array is read that nothing leads to")
                self.leaves[id(value)] = value
            elif maker.op is None:
                self.leaves[id(value)] = value
            elif id(maker) not in self.primitives:
                self.primitives[id(maker)] = maker
                waiting += maker.inputs

    def leaves_in_order(self, given: int) -> tuple[list[Array], list[Any]]:
        """Give places to the leaves behind the values that were given; return the constants, and what positions are."""
        constants = [value for key, value in self.leaves.items() if key not in self.positions]
        counted = [value for key, value in self.leaves.items() if key in self.positions]
        for i, value in enumerate([*constants, *counted], given):
            self.place[value.number] = i
        return constants, [self.positions[id(value)] for value in counted]

    def calls(self) -> list[tuple[Any, ...]]:
        """Give places to the results of all calls, and return these in order."""
        at, found = len(self.place), []
        hashes: dict[int, int] = {}
        for maker in sorted(self.primitives.values(), key=lambda each: each.number):
            inputs = tuple([self.place[value.number] for value in maker.inputs])
            following = iter(inputs)  # the arrays in the arguments, in order
            arguments = tuple([argument(part, following) for part in maker.arguments])
            # Calls that make the same values have one number.
            found.append((maker.op, maker.rule, hashes.setdefault(maker.hash, len(hashes)), arguments, inputs))
            for i in range(len(maker.rule[1])):
                self.place[maker.number + i] = at
                at += 1
        return found

    def roles(self, pattern: Pattern) -> tuple[int, ...]:
        """Return what each array that was given is to the calls."""
        used = {id(value) for maker in self.primitives.values() for value in maker.inputs}
        places = enumerate(pattern.values)
        return tuple([UNUSED if id(each) not in used else FIXED if i in pattern.fixed else INPUT for i, each in places])

    def joint(self, values: list[Array]) -> tuple[tuple[Any, ...] | None, tuple[int, ...]]:
        """Return the rule of one call that makes values as all calls do, None where there is none, and their places."""
        made = {self.place_of(value): value for value in values if id(value.primitive) in self.primitives}
        makers: list[Any] = [value.primitive for value in made.values()]
        if not makers or any(maker.prefix for maker in makers):
            return None, ()
        forms = [maker.rule[1][value.number - maker.number][0] for maker, value in zip(makers, made.values())]
        rule = 1, tuple([(form, -1, 0) for form in forms]), (), tuple(map(is_grown, made.values()))
        return rule, tuple(made)

    def place_of(self, value: Array) -> int:
        """Return the place of a value."""
        return self.place[value.number]


def argument(part: Any, places: Iterator[int]) -> tuple[Any, ...]:
    """Return the template of an argument of an op; `places` gives those of the arrays in it, in order."""
    kind = type(part)
    if kind in PLAIN:
        return (CONSTANT, part)
    if isinstance(part, Array):
        return (VALUE, next(places))
    if not isinstance(part, (list, tuple, dict)):
        return (CONSTANT, part)
    items = tuple([argument(each, places) for each in (part.values() if isinstance(part, dict) else part)])
    if all(each[0] == CONSTANT for each in items):
        return (CONSTANT, part)
    if isinstance(part, dict):
        return (A_DICT, tuple(part), items)
    return (A_LIST if isinstance(part, list) else A_TUPLE, items)


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
