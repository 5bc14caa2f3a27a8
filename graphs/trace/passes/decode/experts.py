"""Experts: gathered products of a mixture, with the gate between them and the weighted sum behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.formats import MATRIX, format_options
from hiprt.graphs.trace.passes.decode.joins import Wanted, have_one_input, is_alike
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.matrices import Joined, joined
from hiprt.graphs.trace.passes.decode.part import Part, part_of
from hiprt.graphs.trace.passes.decode.products import gated, options_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument, is_plain
from hiprt.kernels.ops.experts.experts import MOST_ITEMS, STAGED_BYTES
from hiprt.kernels.ops.quantized.product import product

__all__ = ["experts", "wanted_by_routes"]


class Gathered(NamedTuple):
    """What the chosen experts of a mixture compute of each token, up to their weighted sum.

    Attributes
    ----------
    x : Array, [n, K]
    chosen : Array of int, [n, k]
    gate_up : list of dict
        One stack, whose matrices have gates and then ups, or a stack of gates and one of ups, each with its format.
    down : dict
        The stack and its format, as keywords of `kernels.moe_down`.
    inside : list of Primitive
    """

    x: Array
    chosen: Array
    gate_up: list[dict[str, Any]]
    down: dict[str, Any]
    inside: list[Primitive]


def experts(told: Joined) -> Callable[[Uses], list[Match]]:
    """Return what finds weighted sums of experts' answers, each of which computes ``down(silu(gate(x)) * up(x))``.

    Parameters
    ----------
    told : Joined
        What is told of stacks that a shared expert joins.
    """

    def find(uses: Uses) -> list[Match]:
        halves = {call.number: (gate, up, between) for call, gate, up, between in gated(uses)}
        matches = [match_of(uses, call, halves, told) for call in uses.calls(kernels.moe_combine)]
        return [match for match in matches if match is not None]

    return find


def wanted_by_routes(uses: Uses) -> list[Wanted]:
    """Return the logits of routers, and the gates of shared experts, that are wanted as columns of one product."""
    found: list[Wanted] = []
    for call in uses.calls(kernels.moe_combine):
        gate, weights = argument(call, "gate"), part_of(uses, argument(call, "weights"))
        route = None if weights is None else uses.maker(weights.source, kernels.moe_route)
        logits = None if route is None or gate is None else part_of(uses, argument(route, "logits"))
        opening = None if logits is None else part_of(uses, gate)
        if logits is not None and opening is not None:
            found.append((logits, opening))
    return found


def match_of(uses: Uses, call: Primitive, halves: dict[int, Any], told: Joined) -> Match | None:
    """Return the match of a weighted sum; None where it is of something else."""
    shares, shared = argument(call, "weights"), argument(call, "shared")
    found = gathered(uses, argument(call, "y"), halves)
    if found is None or argument(call, "out") is not None:
        return None
    route, order = route_of(uses, found.chosen, shares)
    if route is None:
        return None
    inside = [*found.inside, *order]
    if shared is None:
        if not uses.is_inside(inside, [*inside, call]):
            return None
        indices, weights = (part.source for part in parts_of(uses, found.chosen, shares))
        stacks = found.gate_up[0] if len(found.gate_up) == 1 else apart(found.gate_up, told)
        if stacks is None:
            return None

        def make(replaced: Replaced) -> list[Array]:
            return [call_of(found, stacks, found.down, replaced, replaced(indices), replaced(weights))]

        unique = tuple({each.number: each for each in inside}.values())
        return Match((call,), unique, reads_of(found, stacks, found.down, indices, weights), (), make)
    routes = routes_of(uses, route, argument(call, "gate"))
    own = shared_expert(uses, shared, found)
    if routes is None or own is None or argument(route, "shared") or argument(route, "out") is not None:
        return None
    (source, between), (own_inside, above, below) = routes, own
    inside += [route, *between, *own_inside]
    if not uses.is_inside(inside, [*inside, call]):
        return None
    if len(found.gate_up) == 1:
        gate_up = with_member(found.gate_up[0], above, told)
    else:
        gate_up = apart(found.gate_up, told, halves_of(above))
    down = with_member(found.down, below, told)
    if gate_up is None or down is None or len(down["w"]) != logits_of(route) + 1:
        return None
    if len(gate_up["w"]) != len(down["w"]) * len(found.gate_up):
        return None
    options = {"normalize": argument(route, "normalize"), "shared": True}
    k = argument(route, "k")

    def make_with_shared(replaced: Replaced) -> list[Array]:
        chosen, weights = kernels.moe_route(replaced(source), k, **options)
        return [call_of(found, gate_up, down, replaced, chosen, weights)]

    unique = tuple({each.number: each for each in inside}.values())
    return Match((call,), unique, reads_of(found, gate_up, down, source), (), make_with_shared)


def parts_of(uses: Uses, *values: Array) -> list[Part]:
    """Return of what values are parts, of those that are parts of something small."""
    return [part for value in values if (part := part_of(uses, value)) is not None]


def route_of(uses: Uses, chosen: Array, shares: Array) -> tuple[Primitive | None, list[Primitive]]:
    """Return the call that chooses experts and gives their shares, in one order; and the calls that order them."""
    parts = parts_of(uses, chosen, shares)
    route = uses.maker(parts[0].source, kernels.moe_route) if len(parts) == 2 else None
    if route is None or [part.source.number for part in parts] != [route.number, route.number + 1]:
        return None, []
    first, second = (part.columns for part in parts)
    is_right = (
        first is not None
        and second is not None
        and np.array_equal(first, second)
        and np.array_equal(np.sort(first), np.arange(parts[0].width))
        and all(part.places.shape == (part.source.form.shape[0], part.width) for part in parts)
    )
    return (route, [*parts[0].inside, *parts[1].inside]) if is_right else (None, [])


def call_of(
    found: Gathered,
    gate_up: dict[str, Any],
    down: dict[str, Any],
    replaced: Replaced,
    chosen: Array,
    shares: Array,
) -> Array:
    """Call the kernels of the experts."""
    above, below = ({name: replaced(value) for name, value in each.items()} for each in (gate_up, down))
    inner = kernels.moe_gate_up(replaced(found.x), chosen, **above)
    return kernels.moe_down(inner, chosen, shares, **below)


def reads_of(found: Gathered, gate_up: dict[str, Any], down: dict[str, Any], *others: Array) -> tuple[Array, ...]:
    """Return what the kernels of the experts read."""
    return (found.x, *others, *(each[name] for each in (gate_up, down) for name in MATRIX))


def gathered(uses: Uses, y: Array, halves: dict[int, Any]) -> Gathered | None:
    """Return how the answers of experts are computed; None where it is not as the kernels do it.

    Parameters
    ----------
    y : Array, [n, k, H]
    halves : dict
        What `gated` finds, by number.
    """
    answers = part_of(uses, y)
    down = None if answers is None else uses.maker(answers.source, kernels.gather_qmm)
    if answers is None or down is None or not answers.is_whole or y.form.ndim != 3:
        return None
    inner = part_of(uses, argument(down, "x"))
    call = None if inner is None else uses.maker(inner.source)
    if inner is None or call is None or call.number not in halves or not inner.is_whole:
        return None
    gate, up, between = halves[call.number]
    first, second = part_of(uses, gate), part_of(uses, up)
    if first is None or second is None:
        return None
    makers = [uses.maker(part.source, kernels.gather_qmm) for part in (first, second)]
    both, other = makers
    x = None if both is None else part_of(uses, argument(both, "x"))
    if both is None or other is None or x is None:
        return None
    gate_up, up_form, down_form = (format_options(each) for each in (both, other, down))
    chosen, is_one = argument(both, "rhs_indices"), both is other
    width = first.width // 2 if is_one else first.width
    if gate_up is None or up_form is None or down_form is None or not isinstance(chosen, Array):
        return None
    n, k, _ = y.form.shape
    calls = [both] if is_one else [both, other]
    inside = [*answers.inside, down, *inner.inside, call, *between, *first.inside, *second.inside, *calls, *x.inside]
    if is_one:
        are_halves = first.width == 2 * width and first.is_columns(0, width) and second.is_columns(width, 2 * width)
    else:
        are_halves = first.is_whole and second.is_whole and have_one_input(both, other) and is_alike(gate_up, up_form)
    is_right = (
        are_halves
        and first.width == second.width
        and x.is_whole
        and x.source.form.ndim == 2
        and x.source.form.shape[0] == n
        and chosen is argument(down, "rhs_indices")
        and chosen.form.shape == (n, k)
        and argument(both, "lhs_indices") is argument(down, "lhs_indices") is None
        and argument(both, "x").form.shape == (n, 1, 1, x.width)
        and argument(down, "x").form.shape == (n, k, 1, width)
        and gate_up["w"].form.ndim == down_form["w"].form.ndim == 3
        and is_plain(x.source, answers.source.dtype)
        and max(x.width, k * width) * x.source.dtype.itemsize <= STAGED_BYTES
        and n * k <= MOST_ITEMS
    )
    stacks = [gate_up] if is_one else [gate_up, up_form]
    return Gathered(x.source, chosen, stacks, down_form, inside) if is_right else None


def routes_of(uses: Uses, route: Primitive, gate: Array) -> tuple[Array, list[Primitive]] | None:
    """Return the logits with the gate of the shared expert behind them, and the calls that cut them apart."""
    logits, opening = part_of(uses, argument(route, "logits")), part_of(uses, gate)
    if logits is None or opening is None or logits.source is not opening.source:
        return None
    count = logits.width - 1
    is_right = (
        logits.source.form.ndim == 2
        and is_plain(logits.source, argument(route, "logits").dtype)
        and logits.is_columns(0, count)
        and opening.is_columns(count, count + 1)
        and argument(route, "logits").form.shape == (logits.source.form.shape[0], count)
    )
    return (logits.source, [*logits.inside, *opening.inside]) if is_right else None


def logits_of(route: Primitive) -> int:
    """Return among how many experts a call chooses."""
    return int(argument(route, "logits").form.shape[-1])


def shared_expert(
    uses: Uses, shared: Array, found: Gathered
) -> tuple[list[Primitive], dict[str, Any], dict[str, Any]] | None:
    """Return the calls that compute a shared expert of the vectors that the others take, and its two products."""
    down = uses.maker(shared)
    below = None if down is None else options_of(down)
    if down is None or below is None or any(below.get(name) is not None for name in ("norm", "residual")):
        return None
    both = uses.maker(below["x"], product)
    above = None if both is None else options_of(both)
    if both is None or above is None or any(above.get(name) is not None for name in ("norm", "residual")):
        return None
    is_right = not below.get("swiglu") and above.get("swiglu") and above["x"] is found.x
    return ([down, both], above, below) if is_right else None


def with_member(stack: dict[str, Any], one: dict[str, Any], told: Joined) -> dict[str, Any] | None:
    """Return a stack whose last member is a matrix, which may be it already; None where it cannot be."""
    if any(stack[name] != one[name] for name in ("group_size", "bits")):
        return None
    parts = {name: [stack[name], one[name]] for name in MATRIX}
    if not all(told.are_constants(each) and each[0].shape[1:] == each[1].shape for each in parts.values()):
        return None
    if any(each[0].dtype != each[1].dtype for each in parts.values()):
        return None
    if all(is_last(*each) for each in parts.values()):
        return stack
    found: dict[str, Any] = dict(stack)
    for name, (whole, member) in parts.items():
        made = joined([whole, member[None]], -3, None, told)
        if made is None:
            return None
        found[name] = made
    return found


def halves_of(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a gate and of its up, each as a stack of one matrix."""
    count = one["w"].shape[0] // 2
    rows = slice(0, count), slice(count, 2 * count)
    return [{**one, **{name: one[name][each][None] for name in MATRIX}} for each in rows]


def apart(stacks: list[dict[str, Any]], told: Joined, members: Sequence[dict[str, Any]] = ()) -> dict[str, Any] | None:
    """Return a stack of gates with one of ups behind it, each with a member at its end where there are some.

    None is returned where the arrays do not fit or cannot be joined.
    """
    first = stacks[0]
    order = [each for pair in zip(stacks, members) for each in pair] if members else stacks
    if any(each[name] != first[name] for each in order for name in ("group_size", "bits")):
        return None
    parts = {name: [each[name] for each in order] for name in MATRIX}
    for each in parts.values():
        are_alike = all(part.shape[1:] == each[0].shape[1:] and part.dtype == each[0].dtype for part in each)
        if not told.are_constants(each) or not are_alike:
            return None
    found: dict[str, Any] = {**first, "apart": True}
    for name, each in parts.items():
        made = joined(each, -3, None, told)
        if made is None:
            return None
        found[name] = made
    return found


def is_last(whole: Array, member: Array) -> bool:
    """Whether an array is the last member of another one, in memory."""
    end = whole.address + whole.nbytes
    return whole.buffer is member.buffer and member.address + member.nbytes == end
