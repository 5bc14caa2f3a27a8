"""Routing: the choice of experts by a softmax and the places of its largest elements, and the weighted sum."""

from __future__ import annotations

from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.part import part_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument, is_plain
from hiprt.kernels.lang.operands import FLOATS
from hiprt.kernels.ops.experts.routing import MOST_EXPERTS

__all__ = ["routes", "shared_sums", "sums"]


def routes(uses: Uses) -> list[Match]:
    """Find the places of the largest elements of a softmax, with their shares of it or of their sum."""
    matches = [route_of(uses, call) for call in uses.calls(kernels.softmax)]
    return [match for match in matches if match is not None]


def route_of(uses: Uses, softmax: Primitive) -> Match | None:
    """Return the match of a softmax; None where it does not choose experts."""
    logits = argument(softmax, "x")
    users = uses.users[softmax.number]
    order, taken = (uses.first_user(softmax, op) for op in (kernels.argpartition, kernels.take_along_axis))
    if len(users) != 2 or order is None or taken is None or logits.form.ndim != 2 or logits.dtype not in FLOATS:
        return None
    if not all(is_last_axis(each, "axis", 2) and is_new(each) for each in (softmax, order, taken)):
        return None
    chosen = argument(taken, "indices")
    part, count = part_of(uses, chosen), logits.form.shape[-1]
    k = chosen.form.shape[-1]
    if part is None or uses.maker(part.source) is not order or count > MOST_EXPERTS:
        return None
    is_largest = argument(order, "kth") in (-k, count - k) and part.is_columns(count - k, count)
    cut = uses.maker(chosen)
    if not is_largest or cut is None or chosen.form.shape != (logits.form.shape[0], k):
        return None
    if argument(taken, "a").number != softmax.number or cut.number == order.number:
        return None
    is_asked = not all(user is taken or is_choice(user, chosen) for user in uses.users[cut.number])
    if is_asked or cut.number in uses.returned:
        return None  # for the places themselves, whose dtype would be another one
    shares, between = taken, list[Primitive]()
    total, share = (uses.first_user(taken, op) for op in (kernels.sum, kernels.divide))
    if total is not None or share is not None:
        if total is None or share is None or not is_normalised(uses, taken, total, share):
            return None
        shares, between = share, [taken, total]
    inside = [softmax, order, *(each for each in part.inside if each.number != cut.number), *between]
    if not uses.is_inside(inside, [*inside, cut, shares, taken]):
        return None
    is_normal, is_row_by_row = shares is not taken, logits.form.is_contiguous

    def make(replaced: Replaced) -> list[Any]:
        rows = replaced(logits)
        made = kernels.moe_route(rows if is_row_by_row else kernels.contiguous(rows), k, normalize=is_normal)
        indices, weights = (each[..., ::-1] for each in made)  # the largest comes last
        return [indices, kernels.contiguous(weights)]

    return Match((cut, shares), tuple(inside), (logits,), (), make)


def is_choice(user: Primitive, chosen: Array) -> bool:
    """Whether a user takes the experts' indices for a gathered product alone, or no more than their number."""
    count = sum(each is chosen for each in user.inputs)
    return not count or (count == 1 and user.op is kernels.gather_qmm and argument(user, "rhs_indices") is chosen)


def is_normalised(uses: Uses, taken: Primitive, total: Primitive, share: Primitive) -> bool:
    """Whether `share` is what was taken over its sum, and nothing else uses either."""
    a, b = argument(share, "a"), argument(share, "b")
    return (
        len(uses.users[taken.number]) == 2
        and isinstance(a, Array)
        and isinstance(b, Array)
        and uses.maker(a) is taken
        and uses.maker(b) is total
        and argument(total, "keepdims") is True
        and is_last_axis(total, "axis", 2)
        and is_new(total)
        and is_new(share)
    )


def is_last_axis(primitive: Primitive, name: str, ndim: int, place: int = -1) -> bool:
    """Whether a call names the last axis, or another one counted from the end."""
    axis = argument(primitive, name)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return axes in ((place,), (ndim + place,))


def is_new(primitive: Primitive) -> bool:
    """Whether a call returns a new array, and is given none to write to."""
    return argument(primitive, "out") is None


def sums(uses: Uses) -> list[Match]:
    """Find sums over experts of their answers, each multiplied by a share that `moe_route` gives."""
    found = []
    for call in uses.calls(kernels.sum):
        product = uses.maker(argument(call, "x"), kernels.multiply)
        if product is None or argument(call, "keepdims") or not (is_new(call) and is_new(product)):
            continue
        a, b = argument(product, "a"), argument(product, "b")
        for answers, factor in ((a, b), (b, a)):
            if not isinstance(answers, Array) or not isinstance(factor, Array) or answers.form.ndim != 3:
                continue
            n, k, _ = answers.form.shape
            shares = part_of(uses, factor)
            route = None if shares is None else uses.maker(shares.source, kernels.moe_route)
            is_right = (
                route is not None
                and shares is not None
                and shares.source.number == route.number + 1
                and shares.source.form.shape == (n, k)
                and factor.form.shape == (n, k, 1)
                and is_last_axis(call, "axis", 3, -2)
                and is_plain(answers, factor.dtype)
                and uses.is_inside([product], [call])
            )
            if is_right:
                found.append(weighted(call, product, answers, factor))
                break
    return found


def shared_sums(uses: Uses) -> list[Match]:
    """Find weighted sums to which ``sigmoid(gate) * shared`` of a shared expert is added."""
    found = []
    for whole in uses.calls(kernels.moe_combine):
        call = uses.only_user(whole, kernels.add)
        if call is None or argument(whole, "shared") is not None or not (is_new(call) and is_new(whole)):
            continue
        a, b = argument(call, "a"), argument(call, "b")
        product = uses.maker(b if uses.maker(a) is whole else a, kernels.multiply)
        if product is None or not is_new(product):
            continue
        y, weights = argument(whole, "y"), argument(whole, "weights")
        a, b = argument(product, "a"), argument(product, "b")
        for opened, shared in ((a, b), (b, a)):
            sigmoid = uses.maker(opened, kernels.sigmoid)
            if sigmoid is None or not isinstance(shared, Array) or not is_new(sigmoid):
                continue
            gate, (n, _, width) = argument(sigmoid, "a"), y.form.shape
            is_right = (
                shared.form.shape == (n, width)
                and gate.form.shape == (n, 1)
                and is_plain(shared, y.dtype)
                and gate.dtype == y.dtype
                and gate.form.is_contiguous
                and uses.is_inside([whole, product, sigmoid], [product, call, sigmoid])
            )
            if is_right:
                found.append(combined(call, [whole, product, sigmoid], [y, weights, shared, gate]))
                break
    return found


def weighted(call: Primitive, product: Primitive, answers: Array, factor: Array) -> Match:
    """Return the match of a weighted sum of answers, of shape (n, k, H), with factors of shape (n, k, 1)."""
    k = factor.form.shape[1]

    def make(replaced: Replaced) -> list[Any]:
        return [kernels.moe_combine(replaced(answers), kernels.contiguous(replaced(factor)).reshape(-1, k))]

    return Match((call,), (product,), (answers, factor), (), make)


def combined(call: Primitive, inside: list[Primitive], operands: list[Array]) -> Match:
    """Return the match of `moe_combine` of some operands."""

    def make(replaced: Replaced) -> list[Any]:
        return [kernels.moe_combine(*map(replaced, operands))]

    return Match((call,), tuple(inside), tuple(operands), (), make)
