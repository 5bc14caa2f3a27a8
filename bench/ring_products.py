"""The products of a decode step that rings share out: they are seen while the step is launched once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

from hiprt import objects
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.ring_neighbours import AnyRing, configuration_of
from hiprt.code_folder import Source
from hiprt.kernels.lang.kernel import GENERIC_OPTION, Kernel
from hiprt.kernels.ops.experts.experts import expert_ring_of
from hiprt.kernels.ops.experts.moe_down import RINGS as DOWN
from hiprt.kernels.ops.experts.moe_gate_up import RINGS as GATE_UP
from hiprt.kernels.ops.experts.projected import PROJECTED
from hiprt.kernels.ops.experts.routed import CHOOSING, ROUTED
from hiprt.kernels.ops.quantized.product_argmax import PLACED, SEVERAL_PLACED, kernel_of
from hiprt.kernels.ops.quantized.qmv_kernels import INTEGER, VECTOR_RING
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning.rings import TEMPLATE as RING_TEMPLATE, Ring, routed_ring_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import TEMPLATE as VECTOR_RING_TEMPLATE, VectorRing
from hiprt.provider import Provider
from hiprt.stream import Stream

__all__ = ["Place", "RingProduct", "names_of", "ring_products"]

# Other matrices are called as the field that holds them.
NAMES = {
    "Attention.projection": "qkv",
    "Attention.output": "o",
    "GatedDelta.projection": "delta_qkv",
    "GatedDelta.output": "delta_o",
}
HEAD, GATES, DOWNS = "head", "experts_gate_up", "experts_down"
# The kernels that rings share out, and those that do the same without finding the places of the largest results.
KERNELS = {VECTOR_RING: VECTOR_RING, SEVERAL_PLACED: VECTOR_RING, INTEGER: INTEGER, PLACED: INTEGER}
KERNELS |= {each: each for each in (PROJECTED, ROUTED, CHOOSING, GATE_UP, DOWN)}
CHOOSE = ROUTED, CHOOSING  # before the choice no codes can be asked for
OTHERS = {"ADDED": False, "GATED": False}  # what the kernels that find places do without
GROUPS = "GROUPS"  # the threadgroups, which one of the kernels has as a parameter


class Place(NamedTuple):
    """A place of a ring in the table.

    Attributes
    ----------
    table : str
        The field of `Table`.
    key : tuple of int
        Rows and width, and for several vectors or tokens how many.
    """

    table: str
    key: tuple[int, ...]


class Form(NamedTuple):
    """A kernel, and its parameters that do not depend on the ring."""

    kernel: Kernel
    values: Mapping[str, Any]


@dataclass(frozen=True)
class RingProduct:
    """The products of a step that have one place in the table.

    Attributes
    ----------
    names : tuple of str
        Those of their matrices, for example ``qkv``.
    product : Product
    place : Place
    ring : Ring or VectorRing
        How they are shared out now.
    launches : int
        How many of them a step has.
    forms : tuple of Form
        Their kernels, of each kind once.
    tokens : int
        How many tokens have experts of their own.
    """

    names: tuple[str, ...]
    product: Product
    place: Place
    ring: AnyRing
    launches: int
    forms: tuple[Form, ...]
    tokens: int = 1

    @property
    def name(self) -> str:
        """What they are called together."""
        return "+".join(self.names)

    @property
    def may_be_early(self) -> bool:
        """Whether codes can be asked for before the inputs are there, which are not chosen by them then."""
        return not any(form.kernel in CHOOSE for form in self.forms)

    def sources(self, ring: AnyRing, target: Target, provider: Provider) -> list[Source]:
        """Return the programs that the products need with a ring.

        Raises
        ------
        ValueError
            The ring does not fit.
        """
        found = []
        for form in self.forms:
            # The head's kernel finds the likeliest token as well where the ring lets it.
            placed = kernel_of(self.product, ring, target) if HEAD in self.names else None
            kernel, configuration = placed or (
                form.kernel,
                configuration_of(ring, self.product, target, self.tokens),
            )
            values = {**form.values, **configuration.template, GROUPS: configuration.grid[0]}
            source = kernel.program(kernel.values_of({name: values[name] for name in kernel.template}), provider)
            found.append(source._replace(options=source.options + (GENERIC_OPTION,) * target.is_generic))
        return found


def ring_products(issue: Callable[[], Any], model: Any, stream: Stream) -> list[RingProduct]:
    """Return the products of a step that rings share out and a table can have, in the order of the step.

    Parameters
    ----------
    issue : callable
        Launches the step on the stream, kernel by kernel.
    model : Transformer
        Its matrices have the names.
    stream : Stream
    """
    names, target = names_of(model), target_of(stream)
    found: dict[Place, RingProduct] = {}
    for launch, given in launches(issue):
        if launch.kernel not in KERNELS:
            continue
        form = form_of(launch, given)
        if (form.values["BITS"], form.values["GROUP"]) != (4, 64):  # the table's format
            continue
        if form.kernel is ROUTED:
            one = gates(form, target)
        elif form.kernel in (CHOOSING, GATE_UP, DOWN):
            one = experts(form, given, target)
        else:
            one = plain(names.get(given["weight"].extent[0], ""), form, given, target)
        if one is not None:
            found[one.place] = joined(found[one.place], one) if one.place in found else one
    return list(found.values())


def form_of(launch: Any, given: Mapping[str, Any]) -> Form:
    """Return the kernel of a launch, the head's without finding places, and what does not depend on the ring."""
    values = {**OTHERS, "S": given["x"].dtype, **launch.kernel.by_name(launch.template)}
    of_ring = {*RING_TEMPLATE, *VECTOR_RING_TEMPLATE, GROUPS}
    return Form(KERNELS[launch.kernel], {name: value for name, value in values.items() if name not in of_ring})


def plain(name: str, form: Form, given: Mapping[str, Any], target: Target) -> RingProduct | None:
    """Return the product with a matrix; None where no ring shares it out."""
    values, x, (rows, _) = form.values, given["x"], given["weight"].shape
    size, is_normed = (rows, values["WIDTH"]), bool(values.get("NORMED"))
    product = Product(*size, x.shape[0], values["GROUP"], values["BITS"], values["GATED"])
    ring = chosen(target, x.dtype, product, is_normed)
    if isinstance(ring, VectorRing):
        place = Place("vector_rings", (*size, product.batch))
    elif isinstance(ring, Ring):
        place = Place("plain_rings" if not is_normed and size in target.table.plain_rings else "rings", size)
    else:
        return None
    return RingProduct((name or f"{rows}x{size[1]}",), product, place, ring, 1, (form,))


def gates(form: Form, target: Target) -> RingProduct | None:
    """Return the product with the gates and ups of one token's experts; None where the kernel has routers too."""
    values = form.values
    size = values["CHOSEN"] * 2 * values["COLUMNS"], values["WIDTH"]
    product = Product(*size, 1, values["GROUP"], values["BITS"], True)
    found = None if values["ROUTERS"] else routed_ring_of(product, target, has_logits=True)
    return found and RingProduct((GATES,), product, Place("routed_rings", size), found[0], 1, (form,))


def experts(form: Form, given: Mapping[str, Any], target: Target) -> RingProduct | None:
    """Return the product with the downs, or gates and ups, of experts that are given, or that it chooses by logits.

    None where no ring serves it.
    """
    values, tokens, is_down = form.values, given["x"].shape[0], form.kernel is DOWN
    size = values["CHOSEN"] * 2 * values.get("COLUMNS", 0), values["WIDTH"]
    if is_down:
        size = given["weight"].shape[1], values["CHOSEN"] * values["WIDTH"]
    product = Product(*size, 1, values["GROUP"], values["BITS"], not is_down)
    ring = expert_ring_of(product, target, tokens)
    if ring and form.kernel in CHOOSE:
        ring = ring._replace(early=0)
    place = Place("expert_rings", size) if tokens == 1 else Place("many_expert_rings", (*size, tokens))
    name = DOWNS if is_down else GATES
    return ring and RingProduct((name,), product, place, ring, 1, (form,), tokens)


def joined(first: RingProduct, other: RingProduct) -> RingProduct:
    """Return products of one place together."""
    return RingProduct(
        tuple(dict.fromkeys(first.names + other.names)),
        first.product,
        first.place,
        first.ring,
        first.launches + other.launches,
        first.forms if other.forms[0] in first.forms else first.forms + other.forms,
        first.tokens,
    )


def launches(issue: Callable[[], Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Return each launch with what it is given by name."""
    seen: list[tuple[Any, dict[str, Any]]] = []
    before = objects.Launch.watch(lambda launch, values: seen.append((launch, dict(zip(launch.kernel.names, values)))))
    try:
        issue()
    finally:
        objects.Launch.watch(before)
    return seen


def names_of(part: Any, name: str = "") -> dict[int, str]:
    """Return the names of a model's matrices by the addresses of their codes."""
    return dict(named(part, name))


def named(part: Any, name: str) -> Iterator[tuple[int, str]]:
    """Yield the address and the name of each matrix."""
    if isinstance(part, Linear):
        yield part.weight.extent[0], name
    elif isinstance(part, (tuple, list)):
        for item in part:
            yield from named(item, name)
    elif is_dataclass(part):
        for each in (each.name for each in fields(part)):
            if each not in ("embedding", "config"):
                yield from named(getattr(part, each), NAMES.get(f"{type(part).__name__}.{each}", each))
