"""Recipes for caches of other lengths, made from a recording without another one.

In a recording the rows of caches are integers, as positions are, so that its tests say for which sizes a function does
the same. Only forms differ then, and the rules of the calls that take a cache, which are found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiprt.array import Array, Form
from hiprt.graphs.trace import core
from hiprt.graphs.trace.asked import TESTS
from hiprt.graphs.trace.growth import is_longer
from hiprt.graphs.trace.prefixes import TRACE, called, position
from hiprt.graphs.trace.recipes.draft import Draft
from hiprt.graphs.trace.recipes.pattern import ARRAY
from hiprt.graphs.trace.recipes.record import TEST_NUMBERS
from hiprt.graphs.trace.recipes.template import A_DICT, A_LIST, CONSTANT, VALUE

__all__ = ["resized"]

TEST_OF = {number: TESTS[test] for test, number in TEST_NUMBERS.items()}


def resized(draft: Draft, given: Sequence[Array]) -> core.Recipe | None:
    """Return the recipe of a recording for other arrays; None where these are no caches of other lengths.

    Parameters
    ----------
    draft : Draft
    given : sequence of Array
        The values of the arrays that its pattern has, in order.
    """
    forms = [value.form for value in given]
    sizes = sizes_of(draft, forms)
    if sizes is None:
        return None
    nodes, sums, count, make, constants, where, calls, fresh, left, writes, result, roles, joint, outputs = draft.parts
    sums = draft.folded(sums, sizes)
    if not all(terms or TEST_OF[test](constant, 0) for constant, test, terms in sums[:count]):
        return None
    following = iter(forms)
    nodes = tuple([with_form(node, next(following)) if node[0] == ARRAY else node for node in nodes])
    others = {i for i, (now, before) in enumerate(zip(forms, draft.forms)) if now is not before}
    found = Calls([*given, *constants, *(position(0) for _ in where)], others)
    try:
        calls = found.again(calls)
    except (TypeError, ValueError, IndexError):
        return None
    if joint is not None:
        patterns = [(found.patterns.get(place, each[0]), *each[1:]) for place, each in zip(outputs, joint[1])]
        joint = joint[0], tuple(patterns), *joint[2:]
    return core.Recipe(
        nodes, sums, count, make, constants, where, calls, fresh, left, writes, result, roles, joint, outputs
    )


def sizes_of(draft: Draft, forms: Sequence[Form]) -> list[int] | None:
    """Return the sizes of the caches of a recording for arrays of some forms; None where other forms differ."""
    sizes: dict[int, int] = {}
    for i, (now, before) in enumerate(zip(forms, draft.forms)):
        size = draft.caches.get(i)
        is_right = now is before or (size is not None and (is_longer(now, before) or is_longer(before, now)))
        if not is_right or (size is not None and sizes.setdefault(size, now.shape[-2]) != now.shape[-2]):
            return None
    found = [sizes[size] for size in range(len(draft.sizes))]
    return None if found == draft.sizes else found


def with_form(node: tuple[Any, ...], form: Form) -> tuple[Any, ...]:
    """Return an array's node with another form, the node itself where it has that."""
    kind, before, *rest = node
    return node if form is before else (kind, form, *rest)


class Calls:
    """The calls of a recording, made again where what they take has another form.

    Parameters
    ----------
    values : list of Array
        What was there before the calls, by place. It receives their results: a value, or what has its form.
    others : set of int
        The places of values that have another form; it receives those of results that have.

    Attributes
    ----------
    patterns : dict
        What has the form of such a result, by place.
    """

    def __init__(self, values: list[Any], others: set[int]) -> None:
        self.values, self.others = values, others
        self.patterns: dict[int, Array] = {}

    def again(self, calls: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
        """Return the calls with the rules that they have now."""
        found = []
        with TRACE.recording():
            for call in calls:
                op, rule, number, arguments, inputs = call
                if self.others.isdisjoint(inputs):
                    self.values += [self.result(each, inputs) for each in rule[1]]
                    found.append(call)
                    continue
                now = self.rule(op, arguments)
                self.note(now, rule, inputs)
                found.append((op, now, number, arguments, inputs))
        return tuple(found)

    def rule(self, op: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the rule of a call."""
        made = called(op, tuple([self.argument(part) for part in arguments]))
        results = made if isinstance(made, (tuple, list)) else [made]
        rule: tuple[Any, ...] = results[0].primitive.rule
        return rule

    def note(self, now: tuple[Any, ...], before: tuple[Any, ...], inputs: tuple[int, ...]) -> None:
        """Note the results of a call whose rule was another one."""
        if len(now[1]) != len(before[1]):
            raise ValueError("the call has other results")
        for each, (earlier, *_) in zip(now[1], before[1]):
            pattern, operand, _ = each
            if (pattern is None) != (earlier is None):
                raise ValueError("the call has other results")
            if pattern is not None and pattern.form is not earlier.form:
                self.others.add(len(self.values))
                self.patterns[len(self.values)] = pattern
            elif pattern is None and operand >= 0 and inputs[operand] in self.others:
                raise ValueError("the call returns an operand")
            self.values.append(self.result(each, inputs))

    def result(self, described: tuple[Any, int, int], inputs: tuple[int, ...]) -> Any:
        """Return what has the form of a call's result; that is one of its operands where the rule says so."""
        pattern, operand, _ = described
        return self.values[inputs[operand]] if pattern is None and operand >= 0 else pattern

    def argument(self, template: tuple[Any, ...]) -> Any:
        """Return what a template stands for."""
        kind, part = template[:2]
        if kind == CONSTANT:
            return part
        if kind == VALUE:
            value = self.values[part]
            if value.primitive is None:
                value = self.values[part] = TRACE.given(value)
            return value
        items = [self.argument(each) for each in template[2 if kind == A_DICT else 1]]
        if kind == A_DICT:
            return dict(zip(part, items))
        return items if kind == A_LIST else tuple(items)
