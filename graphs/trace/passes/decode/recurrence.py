"""Recurrence: a step of a gated-delta layer by one kernel, or by those before and behind a rule of the caller's own."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.joins import Wanted, are_columns
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.part import Part, part_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument, is_plain
from hiprt.kernels.lang.operands import FLOAT32, FLOATS
from hiprt.kernels.ops.recurrent.gated_delta import WIDEST_KEY
from hiprt.kernels.ops.recurrent.gdn_step import STAGED_BYTES

__all__ = ["gated_norms", "inputs_of_rules", "recurrences", "wanted_by_recurrences", "wanted_by_rules"]


class GatedNorm(NamedTuple):
    """A norm of rows that is multiplied by ``silu`` of a gate.

    Attributes
    ----------
    last, norm : Primitive
        What makes the result, and what norms; one primitive where that is `kernels.gated_rms_norm`.
    gate : Array
        The gate, in the dtype of the result.
    inside : list of Primitive
        The primitives in between.
    """

    last: Primitive
    norm: Primitive
    gate: Array
    inside: list[Primitive]


class Inputs(NamedTuple):
    """What the gated delta rule takes, made as `kernels.gdn_inputs` makes it.

    Attributes
    ----------
    parts : tuple of 3 Part
        What the convolution takes, how much is corrected, and how much is kept.
    vectors : dict
        The other operands of the kernel by name, in its order; `conv` is written.
    options : dict
        Its sizes and constant.
    inside : list of Primitive
        The primitives that make it.
    """

    parts: tuple[Part, Part, Part]
    vectors: dict[str, Array]
    options: dict[str, Any]
    inside: list[Primitive]


class Recurrence(NamedTuple):
    """A step of a gated-delta layer.

    Attributes
    ----------
    last : Primitive
        What makes the result.
    inside : list of Primitive
    parts : tuple of 4 Part
        What the convolution takes, the gate of the norm, how much is corrected, and how much is kept.
    vectors : dict
        The other operands of `kernels.gdn_step` by name; `conv` and `state` are written.
    options : dict
        Its sizes and constants.
    """

    last: Primitive
    inside: list[Primitive]
    parts: tuple[Part, Part, Part, Part]
    vectors: dict[str, Array]
    options: dict[str, Any]


def recurrences(uses: Uses) -> list[Match]:
    """Find steps of gated-delta layers whose input is one product."""
    found = []
    for each in steps_of(uses):
        source = each.parts[0].source
        columns = [part.columns for part in each.parts]
        total = sum(len(part) for part in columns if part is not None)
        is_right = (
            are_columns(each.parts)
            and source.form.ndim == 2
            and source.form.shape[-1] == total
            and is_plain(source, each.vectors["conv"].dtype)
            and uses.is_inside(each.inside, [*each.inside, each.last])
        )
        if is_right:
            found.append(match_of(each, source))
    return found


def match_of(found: Recurrence, source: Array) -> Match:
    """Return the match of a step."""
    vectors, options = found.vectors, found.options

    def make(replaced: Replaced) -> list[Any]:
        made = kernels.gdn_step(replaced(source), **{name: replaced(v) for name, v in vectors.items()}, **options)
        pattern = found.last.rule[1][0][0]
        assert pattern is not None
        return [made.reshape(-1, *pattern.form.shape[1:])]

    writes = vectors["conv"], vectors["state"]
    reads = (source, *(value for name, value in vectors.items() if name not in ("conv", "state")))
    return Match((found.last,), tuple(found.inside), reads, writes, make)


def wanted_by_recurrences(uses: Uses) -> list[Wanted]:
    """Return what steps of gated-delta layers take as columns of one product."""
    return [each.parts for each in steps_of(uses)]


def steps_of(uses: Uses) -> list[Recurrence]:
    """Return the steps of gated-delta layers in a program."""
    found = [step_of(uses, each) for each in gated_norms_of(uses)]
    return [each for each in found if each is not None]


def gated_norms_of(uses: Uses) -> list[GatedNorm]:
    """Return the gated norms in a program."""
    found = []
    for norm in uses.calls(kernels.gated_rms_norm):
        if argument(norm, "out") is None:
            found.append(GatedNorm(norm, norm, argument(norm, "gate"), []))
    for call in uses.calls(kernels.astype):
        product = uses.maker(argument(call, "x"), kernels.multiply)
        if product is None or argument(product, "out") is not None or argument(call, "out") is not None:
            continue
        a, b = argument(product, "a"), argument(product, "b")
        for opened, scaled in ((a, b), (b, a)):
            silu = uses.maker(opened, kernels.silu)
            wide = None if silu is None else uses.maker(argument(silu, "a"), kernels.astype)
            norm_wide = uses.maker(scaled, kernels.astype)
            norm_of = None if norm_wide is None else uses.maker(argument(norm_wide, "x"), kernels.rms_norm)
            if silu is None or wide is None or norm_wide is None or norm_of is None:
                continue
            made = call.rule[1][0][0]
            calls = [product, silu, wide, norm_wide, norm_of]
            is_right = (
                made is not None
                and made.dtype == argument(norm_of, "x").dtype
                and all(argument(each, "out") is None for each in (silu, wide, norm_wide, norm_of))
                and argument(wide, "dtype") == argument(norm_wide, "dtype") == FLOAT32
            )
            if is_right:
                found.append(GatedNorm(call, norm_of, argument(wide, "x"), calls))
    return found


def gated_norms(uses: Uses) -> list[Match]:
    """Find gated norms that are written in single ops."""
    found = []
    for each in gated_norms_of(uses):
        x, weight, eps = (argument(each.norm, name) for name in ("x", "weight", "eps"))
        is_right = (
            each.inside
            and weight is not None
            and x.form.shape == each.gate.form.shape
            and is_plain(x, each.gate.dtype)
            and is_plain(each.gate, x.dtype)
            and is_plain(weight, x.dtype)
            and x.dtype in FLOATS
            and uses.is_inside(each.inside, [*each.inside, each.last])
        )
        if is_right:
            found.append(gated_norm_of(each, x, weight, eps))
    return found


def gated_norm_of(found: GatedNorm, x: Array, weight: Array, eps: float) -> Match:
    """Return the match of a gated norm."""

    def make(replaced: Replaced) -> list[Any]:
        return [kernels.gated_rms_norm(replaced(x), replaced(found.gate), replaced(weight), eps)]

    return Match((found.last,), tuple(found.inside), (x, found.gate, weight), (), make)


def inputs_of_rules(uses: Uses) -> list[Match]:
    """Find what kernels of the caller's own take as q, k, v, g and beta, if it is computed of one product."""
    found = []
    for rule, inputs in rules_of(uses):
        source = inputs.parts[0].source
        values = rule.inputs[:5]
        results = tuple([primitive for value in values if (primitive := uses.maker(value)) is not None])
        numbers = {primitive.number for primitive in results}
        others = [each for each in inputs.inside if each.number not in numbers]
        is_right = (
            are_columns(inputs.parts)
            and source.form.ndim == 2
            and is_plain(source, inputs.vectors["conv"].dtype)
            and numbers == {value.number for value in values}
            and uses.is_inside(others, [*others, *results])
        )
        if is_right:
            found.append(inputs_of(results, others, source, inputs))
    return found


def inputs_of(results: tuple[Primitive, ...], others: list[Primitive], source: Array, found: Inputs) -> Match:
    """Return the match of what a rule takes."""
    vectors, options = found.vectors, found.options

    def make(replaced: Replaced) -> list[Any]:
        given = {name: replaced(value) for name, value in vectors.items()}
        return list(kernels.gdn_inputs(replaced(source), **given, **options))

    reads = (source, *(value for name, value in vectors.items() if name != "conv"))
    return Match(results, tuple(others), reads, (vectors["conv"],), make)


def wanted_by_rules(uses: Uses) -> list[Wanted]:
    """Return what kernels of the caller's own, and the gated norms behind them, take as columns of one product.

    What a kernel takes is wanted alone after that, for where the gate cannot be a column of it.
    """
    gates = {}
    for each in gated_norms_of(uses):
        answer = narrow_part(uses, argument(each.norm, "x"))
        rule = None if answer is None else uses.maker(answer[0].source)
        gate = part_of(uses, each.gate)
        if rule is not None and gate is not None:
            gates[rule.number] = gate
    found: list[Wanted] = []
    for rule, inputs in rules_of(uses):
        gate = gates.get(rule.number)
        found += [inputs.parts] if gate is None else [(*inputs.parts, gate), inputs.parts]
    return found


def rules_of(uses: Uses) -> list[tuple[Primitive, Inputs]]:
    """Return what takes q, k, v, g and beta of one token first, but for `gated_delta`, and how those are made."""
    found = []
    for primitive in uses.program.primitives:
        values = primitive.inputs[:5] if primitive.op is not kernels.gated_delta else ()
        if [value.form.ndim for value in values] == [4, 4, 4, 3, 3] and all(v.form.shape[1] == 1 for v in values):
            inputs = rule_inputs(uses, *values)
            types = [values[3].dtype, values[4].dtype, *(value.dtype for value in values[:3])]
            if inputs is not None and types == [FLOAT32] * 2 + [inputs.vectors["conv"].dtype] * 3:
                found.append((primitive, inputs))
    return found


def rule_inputs(uses: Uses, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Inputs | None:
    """Return how the rule's operands are made; None where that is not as the kernels do it."""
    n, _, key_heads, key_width = q.form.shape
    value_heads, value_width = v.form.shape[2:]
    query, key, value = scaled_part(uses, q), scaled_part(uses, k), narrow_part(uses, v)
    kept, corrected = decay_of(uses, g), correction_of(uses, beta)
    if query is None or key is None or value is None or kept is None or corrected is None:
        return None
    conv = uses.maker(value[0].source, kernels.conv_step)
    if conv is None or argument(conv, "out") is not None:
        return None
    given = part_of(uses, argument(conv, "x"))
    a, a_log, dt_bias, kept_inside = kept
    b, corrected_inside = corrected
    if given is None:
        return None
    dtype, keys = argument(conv, "x").dtype, key_heads * key_width
    channels = 2 * keys + value_heads * value_width
    parts = given, b, a
    is_right = (
        query[0].source is key[0].source is value[0].source
        and query[0].is_columns(0, keys)
        and key[0].is_columns(keys, 2 * keys)
        and value[0].is_columns(2 * keys, channels)
        and math.isclose(query[1], 1 / key_width, rel_tol=1e-6)
        and math.isclose(key[1], key_width**-0.5, rel_tol=1e-6)
        and query[2] == key[2]
        and argument(conv, "bias") is None
        and argument(conv, "silu") is True
        and [count_of(part, n) for part in parts] == [channels, value_heads, value_heads]
        and all(is_plain(each, dtype) for each in (argument(conv, "weight"), argument(conv, "state"), dt_bias))
        and is_plain(a_log, FLOAT32)
        and dtype in FLOATS
        and a.source.dtype == b.source.dtype == dtype
        and key_width <= WIDEST_KEY
    )
    if not is_right:
        return None
    inside = [*query[3], *key[3], *value[1], conv, *given.inside, *kept_inside, *corrected_inside]
    vectors = {
        "conv_weight": argument(conv, "weight"),
        "conv": argument(conv, "state"),
        "a_log": a_log,
        "dt_bias": dt_bias,
    }
    options = {"key_heads": key_heads, "value_heads": value_heads, "key_width": key_width, "value_width": value_width}
    unique = list({each.number: each for each in inside}.values())
    return Inputs(parts, vectors, {**options, "qk_eps": query[2]}, unique)


def step_of(uses: Uses, found: GatedNorm) -> Recurrence | None:
    """Return the step whose answer a norm takes; None where it is not computed as the kernel does it."""
    norm, z = found.norm, found.gate
    weight, eps = argument(norm, "weight"), argument(norm, "eps")
    answer = narrow_part(uses, argument(norm, "x"))
    delta = None if answer is None else uses.maker(answer[0].source, kernels.gated_delta)
    opening = part_of(uses, z)
    if answer is None or delta is None or opening is None or weight is None or not answer[0].is_whole:
        return None
    q, k, v, g, beta, state = (argument(delta, name) for name in ("q", "k", "v", "g", "beta", "state"))
    inputs = rule_inputs(uses, q, k, v, g, beta)
    if inputs is None or argument(delta, "out") is not None:
        return None
    options, dtype = inputs.options, inputs.vectors["conv"].dtype
    key_width, value_width = options["key_width"], options["value_width"]
    heads = options["value_heads"]
    is_right = (
        q.form.shape[1] == 1
        and count_of(opening, q.form.shape[0]) == heads * value_width
        and is_plain(weight, dtype)
        and is_plain(state, FLOAT32)
        and argument(norm, "x").dtype == z.dtype == dtype
        and argument(norm, "x").form.shape[-1] == value_width
        and key_width % 8 == value_width % 8 == 0
        and 9 * (heads // options["key_heads"]) * value_width + 8 * key_width <= STAGED_BYTES
    )
    if not is_right:
        return None
    inside = [*found.inside, *([norm] if norm is not found.last else []), *answer[1], delta, *opening.inside]
    unique = list({each.number: each for each in [*inside, *inputs.inside]}.values())
    given, b, a = inputs.parts
    vectors = {**inputs.vectors, "state": state, "norm": weight}
    return Recurrence(found.last, unique, (given, opening, b, a), vectors, {**options, "eps": eps})


def count_of(part: Part, rows: int) -> int:
    """Return how many columns a part of an array of so many rows is; -1 where it is not that."""
    columns = part.columns
    is_right = columns is not None and part.places.size == rows * len(columns)
    return len(columns) if columns is not None and is_right else -1


def narrow_part(uses: Uses, value: Any) -> tuple[Part, list[Primitive]] | None:
    """Return of which array a value is a part, through one conversion of floating numbers; and the calls between."""
    part = part_of(uses, value)
    cast = None if part is None else uses.maker(part.source, kernels.astype)
    if part is None or cast is None or argument(cast, "out") is not None:
        return None if part is None else (part, part.inside)
    if argument(cast, "x").dtype not in FLOATS or part.source.dtype not in FLOATS or not part.source.form.is_contiguous:
        return None
    inner = part_of(uses, argument(cast, "x"))
    if inner is None or not inner.is_whole:
        return None
    moved = Part(inner.source, part.places, [*part.inside, cast, *inner.inside])
    return moved, moved.inside


def scaled_part(uses: Uses, value: Any) -> tuple[Part, float, float, list[Primitive]] | None:
    """Return what is normed without a weight and multiplied by a number: the part, number, epsilon and calls."""
    call = uses.maker(value, kernels.multiply)
    if call is None or argument(call, "out") is not None:
        return None
    a, b = argument(call, "a"), argument(call, "b")
    x, factor = (a, b) if isinstance(a, Array) else (b, a)
    norm = uses.maker(x, kernels.rms_norm)
    if norm is None or not isinstance(factor, float) or argument(norm, "weight") is not None:
        return None
    part = narrow_part(uses, argument(norm, "x"))
    if part is None or argument(norm, "out") is not None:
        return None
    return part[0], factor, float(argument(norm, "eps")), [call, norm, *part[1]]


def decay_of(uses: Uses, value: Array) -> tuple[Part, Array, Array, list[Primitive]] | None:
    """Return what ``exp(-exp(a_log) * softplus(a + dt_bias))`` is computed of: `a`, `a_log`, `dt_bias`, the calls."""
    gates = uses.maker(value, kernels.gated_delta_gates)
    if gates is not None:
        a = part_of(uses, argument(gates, "a"))
        if a is None or value.number != gates.number or argument(gates, "out") is not None:
            return None
        return a, argument(gates, "a_log"), argument(gates, "dt_bias"), [gates, *a.inside]
    whole = part_of(uses, value)
    last = None if whole is None else uses.maker(whole.source, kernels.exp)
    product = None if last is None else uses.maker(argument(last, "a"), kernels.multiply)
    if whole is None or last is None or product is None or not whole.is_whole:
        return None
    first, second = argument(product, "a"), argument(product, "b")
    for rate, soft in ((first, second), (second, first)):
        minus, plus = uses.maker(rate, kernels.negative), uses.maker(soft, kernels.softplus)
        log = None if minus is None else uses.maker(argument(minus, "a"), kernels.exp)
        total = None if plus is None else uses.maker(argument(plus, "a"), kernels.add)
        if minus is None or plus is None or log is None or total is None:
            continue
        calls = [last, product, minus, plus, log, total]
        a_log, (x, y) = argument(log, "a"), (argument(total, "a"), argument(total, "b"))
        if not all(isinstance(each, Array) for each in (x, y)) or any(argument(c, "out") is not None for c in calls):
            return None
        given, dt_bias = (x, y) if y.form.ndim == 1 else (y, x)
        a = part_of(uses, given)
        heads = given.form.shape[-1]
        if a is None or dt_bias.form.shape != (heads,) or a_log.form.shape != (heads,):
            return None
        return a, a_log, dt_bias, [*whole.inside, *calls, *a.inside]
    return None


def correction_of(uses: Uses, value: Array) -> tuple[Part, list[Primitive]] | None:
    """Return what ``sigmoid(b)``, converted to float32, is computed of: `b` and the calls."""
    gates = uses.maker(value, kernels.gated_delta_gates)
    if gates is not None:
        b = part_of(uses, argument(gates, "b"))
        return None if b is None or value.number != gates.number + 1 else (b, [gates, *b.inside])
    part = narrow_part(uses, value)
    sigmoid = None if part is None else uses.maker(part[0].source, kernels.sigmoid)
    if part is None or sigmoid is None or not part[0].is_whole or argument(sigmoid, "out") is not None:
        return None
    b = part_of(uses, argument(sigmoid, "a"))
    return None if b is None else (b, [*part[1], sigmoid, *b.inside])
