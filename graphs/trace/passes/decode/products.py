"""Products: quantised products, with the norm before them and the gate or the sum behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.formats import format_options
from hiprt.graphs.trace.passes.decode.joins import Wanted
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.part import part_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument, is_plain
from hiprt.kernels.ops.quantized.product import product

__all__ = ["gated", "gates", "norms", "options_of", "residuals", "wanted_by_gates"]


def options_of(primitive: Primitive) -> dict[str, Any] | None:
    """Return the arguments of `product` that do what a product does; None for one that it does not take."""
    if primitive.op is product:
        return dict(zip(primitive.op.names, primitive.arguments))
    if primitive.op is not kernels.quantized_matmul:
        return None
    form, x, w = format_options(primitive), argument(primitive, "x"), argument(primitive, "w")
    if form is None or not x.form.ndim == w.form.ndim == 2 or not x.form.is_contiguous or not x.form.is_aligned:
        return None
    return {"x": x, **form}


def call_in_place_of(
    op: Any, last: Primitive, others: Sequence[Primitive], options: dict[str, Any], copies: Sequence[Primitive] = ()
) -> Match:
    """Return the match of a call of an op with these arguments."""
    reads = tuple(value for value in options.values() if isinstance(value, Array))

    def make(replaced: Replaced) -> list[Any]:
        return [op(**{name: replaced(value) for name, value in options.items()})]

    return Match((last,), tuple(others), reads, (), make, tuple(copies))


def gates(uses: Uses) -> list[Match]:
    """Find products whose halves are a gate and what it gates."""
    found = []
    for call, gate, up, between in gated(uses):
        first, second = part_of(uses, gate), part_of(uses, up)
        if first is None or second is None or first.source is not second.source:
            continue
        whole, half = uses.maker(first.source, kernels.quantized_matmul), first.width // 2
        options = None if whole is None else options_of(whole)
        if whole is None or options is None or first.width != 2 * half or first.source.form.ndim != 2:
            continue
        inside = [*between, *first.inside, *second.inside]
        made = call.rule[1][0][0]
        is_right = (
            first.is_columns(0, half)
            and second.is_columns(half, 2 * half)
            and made is not None
            and made.form.shape == (first.source.form.shape[0], half)
            and uses.is_inside([whole, *inside], [*inside, call])
        )
        if is_right:
            found.append(call_in_place_of(product, call, [whole, *inside], {**options, "swiglu": True}))
    return found


def wanted_by_gates(uses: Uses) -> list[Wanted]:
    """Return the gates, and what they gate, that are wanted as columns of one product; experts take stacks apart."""
    pairs = [(part_of(uses, gate), part_of(uses, up)) for _, gate, up, _ in gated(uses)]
    return [
        (gate, up)
        for gate, up in pairs
        if gate is not None
        and up is not None
        and gate.source is not up.source
        and gate.is_whole
        and up.is_whole
        and uses.maker(gate.source, kernels.quantized_matmul) is not None
    ]


def gated(uses: Uses) -> Iterator[tuple[Primitive, Array, Array, list[Primitive]]]:
    """Yield what is ``silu(gate) * up``: the call, the gate, up, and the calls in between."""
    for call in uses.calls(kernels.silu_mul):
        if argument(call, "out") is None:
            yield call, argument(call, "gate"), argument(call, "up"), []
    for call in uses.calls(kernels.multiply):
        a, b = argument(call, "a"), argument(call, "b")
        for first, up in ((a, b), (b, a)):
            found = silu_of(uses, first)
            if found is not None and isinstance(up, Array) and argument(call, "out") is None:
                yield call, found[0], up, found[1]


def silu_of(uses: Uses, value: Any) -> tuple[Array, list[Primitive]] | None:
    """Return x and the calls where a value is ``silu(x)``, or ``x * sigmoid(x)``; None for other values."""
    silu, maker = uses.maker(value, kernels.silu), uses.maker(value, kernels.multiply)
    if silu is not None:
        return (argument(silu, "a"), [silu]) if argument(silu, "out") is None else None
    if maker is None or argument(maker, "out") is not None:
        return None
    a, b = argument(maker, "a"), argument(maker, "b")
    for x, factor in ((a, b), (b, a)):
        sigmoid = uses.maker(factor, kernels.sigmoid)
        if sigmoid is not None and argument(sigmoid, "out") is None and argument(sigmoid, "a") is x:
            return x, [maker, sigmoid]
    return None


def residuals(uses: Uses) -> list[Match]:
    """Find products, and sums of experts, to which something of their shape is added."""
    found = []
    for whole in uses.calls(product, kernels.quantized_matmul, kernels.moe_down):
        options = fused_options(whole)
        call = uses.only_user(whole, kernels.add)
        if options is None or call is None or options.get("residual") is not None or argument(call, "out") is not None:
            continue
        a, b = argument(call, "a"), argument(call, "b")
        other = b if isinstance(a, Array) and a.primitive is not None and a.number == whole.number else a
        made = call.rule[1][0][0]
        assert made is not None
        if isinstance(other, Array) and other.form.shape == made.form.shape and is_plain(other, made.dtype):
            found.append(call_in_place_of(op_of(whole), call, [whole], {**options, "residual": other}))
    return found


def norms(uses: Uses) -> list[Match]:
    """Find products of what a root-mean-square norm returns, where products alone use that."""
    found = []
    for norm in uses.calls(kernels.rms_norm):
        x, weight, eps = (argument(norm, name) for name in ("x", "weight", "eps"))
        users = uses.users[norm.number]
        options = [fused_options(user) if user.op is not kernels.moe_down else None for user in users]
        if weight is None or norm.number in uses.returned or argument(norm, "out") is not None or not users:
            continue
        for user, given in zip(users, options):
            is_normed = given is not None and given.get("norm") is None and given["x"].number == norm.number
            if None in options or not is_normed or not (is_plain(x, x.dtype) and is_plain(weight, x.dtype)):
                break
            assert given is not None
            found.append(call_in_place_of(op_of(user), user, [], {**given, "x": x, "norm": weight, "eps": eps}, [norm]))
    return found


def fused_options(primitive: Primitive) -> dict[str, Any] | None:
    """Return the arguments of a call as a kernel of decode steps that does more takes them; None for other calls."""
    if primitive.op is kernels.moe_gate_up or primitive.op is kernels.moe_down:
        options = dict(zip(primitive.op.names, primitive.arguments))
        return None if options.pop("out") is not None else options
    return options_of(primitive)


def op_of(primitive: Primitive) -> Any:
    """Return the op that takes the `fused_options` of a call."""
    return primitive.op if primitive.op in (kernels.moe_gate_up, kernels.moe_down) else product
