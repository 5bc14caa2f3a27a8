"""The products of a decode step that vector rings share out: they are seen while the step is launched once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hiprt import objects
from hiprt.bench.engine.models.linear import Linear
from hiprt.code_folder import Source
from hiprt.kernels.lang.kernel import GENERIC_OPTION
from hiprt.kernels.ops.quantized.product_argmax import SEVERAL_PLACED, kernel_of
from hiprt.kernels.ops.quantized.qmv_kernels import VECTOR_RING
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_configuration
from hiprt.provider import Provider
from hiprt.stream import Stream

__all__ = ["RingProduct", "names_of", "ring_products"]

# Other matrices are called as the field that holds them.
NAMES = {
    "Attention.projection": "qkv",
    "Attention.output": "o",
    "GatedDelta.projection": "delta_qkv",
    "GatedDelta.output": "delta_o",
}
HEAD = "head"
OTHERS = {"ADDED": False, "GATED": False}  # what the kernel that finds places does without


@dataclass(frozen=True)
class RingProduct:
    """The products of a step that have one place in the table.

    Attributes
    ----------
    names : tuple of str
        Those of their matrices, for example ``qkv``.
    product : Product
    ring : VectorRing
        How they are shared out now.
    launches : int
        How many of them a step has.
    forms : tuple of mapping of str to value
        The parameters of their kernels that do not depend on the ring, of each kind once.
    """

    names: tuple[str, ...]
    product: Product
    ring: VectorRing
    launches: int
    forms: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """What they are called together."""
        return "+".join(self.names)

    @property
    def key(self) -> tuple[int, int, int]:
        """Their place in `Table.vector_rings`."""
        return self.product.rows, self.product.width, self.product.batch

    def sources(self, ring: VectorRing, target: Target, provider: Provider) -> list[Source]:
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
            kernel, configuration = placed or (VECTOR_RING, vector_ring_configuration(self.product, ring))
            values = {**form, **configuration.template}
            source = kernel.program(kernel.values_of({name: values[name] for name in kernel.template}), provider)
            found.append(source._replace(options=source.options + (GENERIC_OPTION,) * target.is_generic))
        return found


def ring_products(issue: Callable[[], Any], model: Any, stream: Stream) -> list[RingProduct]:
    """Return the products of a step that vector rings share out and a table can have, in the order of the step.

    Parameters
    ----------
    issue : callable
        Launches the step on the stream, kernel by kernel.
    model : Transformer
        Its matrices have the names.
    stream : Stream
    """
    names, target = names_of(model), target_of(stream)
    found: dict[tuple[int, int, int], RingProduct] = {}
    for launch, given in launches(issue):
        if launch.kernel not in (VECTOR_RING, SEVERAL_PLACED):
            continue
        x, weight = given["x"], given["weight"]
        form = {**OTHERS, "S": x.dtype, **launch.kernel.by_name(launch.template)}
        product = Product(weight.shape[0], form["WIDTH"], x.shape[0], form["GROUP"], form["BITS"], form["GATED"])
        ring = chosen(target, x.dtype, product, form["NORMED"])
        if not isinstance(ring, VectorRing) or (product.bits, product.group) != (4, 64):  # the table's format
            continue
        form = {name: form[name] for name in (*OTHERS, "T", "S", "GROUP", "BITS", "WIDTH", "NORMED")}
        name = names.get(weight.extent[0], f"{product.rows}x{product.width}")
        one = RingProduct((name,), product, ring, 1, (form,))
        found[one.key] = joined(found[one.key], one) if one.key in found else one
    return list(found.values())


def joined(first: RingProduct, other: RingProduct) -> RingProduct:
    """Return products of one place together."""
    return RingProduct(
        tuple(dict.fromkeys(first.names + other.names)),
        first.product,
        first.ring,
        first.launches + other.launches,
        first.forms if other.forms[0] in first.forms else first.forms + other.forms,
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
