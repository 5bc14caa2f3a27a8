"""Decode: what a decode step computes in single ops becomes the kernels that do several of them.

These kernels do not round in between, and sum in another order, so that this pass changes results by rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Call, rebuild
from hiprt.graphs.trace.value import GETITEM, RESHAPE
from hiprt.kernels.lang.operands import FLOATS
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.product import product

__all__ = ["decode"]

Replaced = Callable[[Any], Any]


@dataclass(frozen=True)
class Match:
    """Primitives that one kernel replaces.

    Attributes
    ----------
    last : Primitive
        The one whose result the kernel's result stands for; the kernel is called in its place.
    others : tuple of Primitive
        Those that nothing else uses.
    reads : tuple of Array
        What the kernel reads.
    writes : tuple of Array
        What it writes.
    make : callable
        Calls the kernel, given a function that returns what stands for a value.
    copies : tuple of Primitive
        Those whose work the kernel does as well; they stay for other users, or go as dead code.
    """

    last: Primitive
    others: tuple[Primitive, ...]
    reads: tuple[Array, ...]
    writes: tuple[Array, ...]
    make: Callable[[Replaced], Any]
    copies: tuple[Primitive, ...] = ()


def decode(program: Program) -> Program:
    """Return the program with the kernels of decode steps in the place of single ops.

    - ``rms_norm``, ``quantized_matmul``, ``silu_mul`` of its halves, or ``silu`` and ``multiply``, and ``add`` of a
      residual become ``product``;
    - the norms and rotations of queries and keys and the writes to both caches become ``norm_rope_write``.
    """
    if not any(primitive.op in (kernels.quantized_matmul, kernels.kv_write) for primitive in program.primitives):
        return program
    for find in (gates, residuals, norms, caches):
        uses = Uses(program)
        program = replaced_by(program, find(uses), uses)
    return program


class Uses:
    """Which primitives of a program use which values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.users: defaultdict[int, list[Primitive]] = defaultdict(list)
        self.makers: dict[int, Primitive] = {}
        self.places = {primitive.number: i for i, primitive in enumerate(program.primitives)}
        for primitive in program.primitives:
            for i in range(len(primitive.rule[1])):
                self.makers[primitive.number + i] = primitive
            for number in {value.number for value in primitive.inputs if value.primitive is not None}:
                self.users[number].append(primitive)
        self.returned = {value.number for value in program.outputs if value.primitive is not None}

    def maker(self, value: Any, op: Any) -> Primitive | None:
        """Return the primitive that makes a value, if it is a call of `op`."""
        if not isinstance(value, Array) or value.primitive is None:
            return None
        found = self.makers.get(value.number)
        return found if found is not None and found.op is op else None

    def only_user(self, primitive: Primitive, op: Any) -> Primitive | None:
        """Return the only primitive that uses the result of another, if it is a call of `op`."""
        users = self.users[primitive.number]
        if len(users) != 1 or primitive.number in self.returned or users[0].op is not op:
            return None
        return users[0]

    def calls(self, op: Any) -> list[Primitive]:
        """Return the calls of `op`."""
        return [primitive for primitive in self.program.primitives if primitive.op is op]


def argument(primitive: Primitive, name: str) -> Any:
    """Return an argument of a primitive by its parameter's name."""
    assert primitive.op is not None
    return primitive.arguments[primitive.op.names.index(name)]


def replaced_by(program: Program, matches: Sequence[Match], uses: Uses) -> Program:
    """Return the program with kernels in the place of the primitives that they stand for."""
    memory = Memory(program) if matches else None
    chosen: dict[int, Match] = {}
    gone: set[int] = set()
    for match in matches:
        inside = {match.last.number, *(each.number for each in match.others)}
        assert memory is not None
        if not inside & (gone | chosen.keys()) and can_move(program, memory, uses, match, inside):
            chosen[match.last.number] = match
            gone |= inside - {match.last.number}
    if not chosen:
        return program

    def change(primitive: Primitive, call: Call, replaced: Replaced) -> list[Any]:
        match = chosen.get(primitive.number)
        if match is not None:
            return [match.make(replaced)]
        return [] if primitive.number in gone else call()

    return rebuild(program, change)


def can_move(program: Program, memory: Memory, uses: Uses, match: Match, inside: set[int]) -> bool:
    """Whether nothing between the primitives of a match writes what they read, or touches what they write."""
    first = min(uses.places[number] for number in (*inside, *(each.number for each in match.copies)))
    for primitive in program.primitives[first : uses.places[match.last.number]]:
        if primitive.number in inside:
            continue
        written = [primitive.inputs[i] for i in primitive.rule[2]]
        if any(memory.may_share(a, b) for a in written for b in (*match.reads, *match.writes)):
            return False
        if any(memory.may_share(a, b) for a in primitive.inputs for b in match.writes):
            return False
    return True


# Products


def options_of(primitive: Primitive) -> dict[str, Any] | None:
    """Return the arguments of `product` that do what a product does; None for one that it does not take."""
    if primitive.op is product:
        assert primitive.op is not None
        return dict(zip(primitive.op.names, primitive.arguments))
    names = ("x", "w", "scales", "biases")
    operands = [argument(primitive, name) for name in names]
    bits, group = argument(primitive, "bits") or 4, argument(primitive, "group_size") or 64
    x, w, scales, biases = operands
    is_right = (
        argument(primitive, "mode") == "affine"
        and argument(primitive, "transpose") is True
        and argument(primitive, "out") is None
        and bits in BITS
        and group in GROUP_SIZES
        and biases is not None
        and x.form.ndim == w.form.ndim == 2
        and all(each.form.is_contiguous and each.form.is_aligned for each in operands)
        and {x.dtype, scales.dtype, biases.dtype} in ({dtype} for dtype in FLOATS)
    )
    return {**dict(zip(names, operands)), "group_size": group, "bits": bits} if is_right else None


def products(uses: Uses) -> list[tuple[Primitive, dict[str, Any]]]:
    """Return the products that `product` can do, with its arguments."""
    found = [each for each in uses.program.primitives if each.op in (product, kernels.quantized_matmul)]
    return [(each, options) for each in found if (options := options_of(each)) is not None]


def product_in_place_of(
    last: Primitive, others: Sequence[Primitive], options: dict[str, Any], copies: Sequence[Primitive] = ()
) -> Match:
    """Return the match of a call of `product` with these arguments."""
    reads = tuple(value for value in options.values() if isinstance(value, Array))

    def make(replaced: Replaced) -> Array:
        return product(**{name: replaced(value) for name, value in options.items()})

    return Match(last, tuple(others), reads, (), make, tuple(copies))


def gates(uses: Uses) -> list[Match]:
    """Find products whose halves are a gate and what it gates."""
    found = []
    for call, gate, up, between in gated(uses):
        first, second = parts_of(uses, gate), parts_of(uses, up)
        if first is None or second is None or first[0] is not second[0]:
            continue
        source, half = first[0], gate.form.shape[-1]
        whole = uses.maker(source, kernels.quantized_matmul)
        options = None if whole is None else options_of(whole)
        if whole is None or options is None or (first[1], second[1]) != ((0, half), (half, 2 * half)):
            continue
        inside = [*between, *first[2], *second[2]]
        if source.form.shape[-1] == 2 * half and is_inside(uses, [whole, *inside], [*inside, call]):
            found.append(product_in_place_of(call, [whole, *inside], {**options, "swiglu": True}))
    return found


def gated(uses: Uses) -> Iterator[tuple[Primitive, Array, Array, list[Primitive]]]:
    """Yield what is ``silu(gate) * up``: the call, the gate, up, and the calls in between."""
    for call in uses.calls(kernels.silu_mul):
        if argument(call, "out") is None:
            yield call, argument(call, "gate"), argument(call, "up"), []
    for call in uses.calls(kernels.multiply):
        a, b = argument(call, "a"), argument(call, "b")
        for first, up in ((a, b), (b, a)):
            silu = uses.maker(first, kernels.silu)
            if silu is not None and isinstance(up, Array) and argument(call, "out") is argument(silu, "out") is None:
                yield call, argument(silu, "a"), up, [silu]


def residuals(uses: Uses) -> list[Match]:
    """Find products to which something of their shape is added."""
    found = []
    for whole, options in products(uses):
        call = uses.only_user(whole, kernels.add)
        if call is None or options.get("residual") is not None or argument(call, "out") is not None:
            continue
        a, b = argument(call, "a"), argument(call, "b")
        other = b if isinstance(a, Array) and a.primitive is not None and a.number == whole.number else a
        made = call.rule[1][0][0]
        assert made is not None
        if isinstance(other, Array) and other.form.shape == made.form.shape and is_plain(other, made.dtype):
            found.append(product_in_place_of(call, [whole], {**options, "residual": other}))
    return found


def norms(uses: Uses) -> list[Match]:
    """Find products of what a root-mean-square norm returns, where products alone use that."""
    found = []
    for norm in uses.calls(kernels.rms_norm):
        x, weight, eps = (argument(norm, name) for name in ("x", "weight", "eps"))
        users = uses.users[norm.number]
        options = [options_of(user) if user.op in (product, kernels.quantized_matmul) else None for user in users]
        if weight is None or norm.number in uses.returned or argument(norm, "out") is not None or not users:
            continue
        for user, given in zip(users, options):
            is_normed = given is not None and given.get("norm") is None and given["x"].number == norm.number
            if None in options or not is_normed or not (is_plain(x, x.dtype) and is_plain(weight, x.dtype)):
                break
            assert given is not None
            found.append(product_in_place_of(user, [], {**given, "x": x, "norm": weight, "eps": eps}, [norm]))
    return found


def is_plain(value: Array, dtype: Any) -> bool:
    """Whether an operand is as the kernels of decode steps take it."""
    return bool(value.form.is_contiguous and value.form.is_aligned and value.dtype == dtype)


def is_inside(uses: Uses, made: Sequence[Primitive], users: Sequence[Primitive]) -> bool:
    """Whether nothing but some primitives uses what others make."""
    known = {primitive.number for primitive in users}
    return all(
        each.number not in uses.returned and all(user.number in known for user in uses.users[each.number])
        for each in made
    )


def parts_of(uses: Uses, value: Any) -> tuple[Array, tuple[int, int], list[Primitive]] | None:
    """Return of which array a value is some columns, which, and the primitives that cut them out and copy them."""
    inside: list[Primitive] = []
    for op in (RESHAPE, kernels.contiguous):
        maker = uses.maker(value, op)
        if maker is not None:
            inside.append(maker)
            value = maker.inputs[0]
    maker = uses.maker(value, GETITEM)
    if maker is None:
        return None
    source, index = maker.arguments
    last = index[-1] if isinstance(index, tuple) and len(index) in (2, source.form.ndim) else None
    if not isinstance(last, slice) or last.step not in (None, 1):
        return None
    if not all(each in (..., slice(None)) for each in index[:-1]):
        return None
    start, stop, _ = last.indices(source.form.shape[-1])
    return source, (start, stop), [*inside, maker]


# Queries, keys and values


def caches(uses: Uses) -> list[Match]:
    """Find queries, keys and values that are cut out of one product, normed, turned and written to caches."""
    found = []
    writes = uses.calls(kernels.kv_write)
    for first, second in pairwise(writes):
        match = cache_match(uses, first, second)
        if match is not None:
            found.append(match)
    return found


def cache_match(uses: Uses, first: Primitive, second: Primitive) -> Match | None:
    """Return the match for the writes of keys and of values; None where they are not made as the kernel makes them."""
    turned = uses.maker(argument(first, "x"), kernels.rope)
    value = parts_of(uses, argument(second, "x"))
    position = argument(first, "position")
    if turned is None or value is None or argument(second, "position") is not position:
        return None
    key = normed_part(uses, turned)
    source = value[0]
    if key is None or key[0][0] is not source:
        return None
    for query_turned in uses.calls(kernels.rope):
        query = normed_part(uses, query_turned)
        if query is None or query[0][0] is not source or query_turned.number == turned.number:
            continue
        (_, columns, query_inside), q_norm, eps = query
        (_, key_columns, key_inside), k_norm, key_eps = key
        keys, values = argument(first, "cache"), argument(second, "cache")
        heads, width = query_turned.inputs[0].form.shape[-2:]
        same = ("position", "base", "dims")
        edges = [0, heads * width, (heads + keys.form.shape[-3]) * width]
        edges.append(edges[-1] + keys.form.shape[-3] * width)
        inside = [*query_inside, *key_inside, *value[2], turned, first, second]
        is_right = (
            all(argument(query_turned, name) == argument(turned, name) for name in same[1:])
            and argument(query_turned, "position") is argument(turned, "position") is position
            and not argument(turned, "traditional")
            and not argument(query_turned, "traditional")
            and (q_norm is None or k_norm is None or eps == key_eps)
            and keys.form.ndim == source.form.ndim + 2 == 4
            and [columns, key_columns, value[1]] == [(edges[i], edges[i + 1]) for i in range(3)]
            and width <= 256
            and is_plain(source, keys.dtype)
            and is_inside(uses, [*query_inside, *key_inside, *value[2], turned], [*inside, query_turned])
            and uses.places[query_turned.number] > max(uses.places[each.number] for each in inside)
        )
        if is_right:
            options = {"heads": heads, "base": argument(turned, "base"), "dims": argument(turned, "dims")}
            options["eps"] = eps if q_norm is not None else key_eps
            operands = (source, q_norm, k_norm, position, keys, values)

            def make(replaced: Replaced, operands: Any = operands, options: Any = options) -> Array:
                return kernels.norm_rope_write(*map(replaced, operands), **options)

            reads = tuple(each for each in operands[:4] if each is not None)
            return Match(query_turned, tuple(inside), reads, (keys, values), make)
    return None


def normed_part(uses: Uses, turned: Primitive) -> tuple[Any, Array | None, float] | None:
    """Return the columns that are normed and turned, the weight of the norm, and its epsilon."""
    x = argument(turned, "x")
    norm = uses.maker(x, kernels.rms_norm)
    part = parts_of(uses, x if norm is None else argument(norm, "x"))
    if part is None or argument(turned, "out") is not None:
        return None
    if norm is None:
        return part, None, 1e-6
    source, columns, inside = part
    weight = argument(norm, "weight")
    if weight is None or argument(norm, "out") is not None:
        return None
    return (source, columns, [*inside, norm]), weight, argument(norm, "eps")
