"""Padding: what becomes of a program whose inputs have more elements along an axis than there are values.

Of a padded axis the first elements are valid and the others are anything. Every primitive that is given such a value is
one of three kinds: it treats the elements along the axis apart, so that its result has the same valid ones; it joins
them, as a sum does, and is given a value that changes nothing in the place of the others; or it is refused by name.
Nothing else is let through, custom kernels included, so that no result is silently another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.masking import Masking, Replaced, Units, Use
from hiprt.graphs.trace.masking_rules import RULES
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Call, rebuild
from hiprt.graphs.trace.size import Guard

__all__ = ["Padded", "Units", "masked"]


@dataclass(frozen=True)
class Padded:
    """A program of padded inputs, with what holds of its outputs.

    Attributes
    ----------
    program : Program
        It has no sizes that depend on shapes.
    outputs : list of Units
        Which axes of each output are padded.
    guards : list of Guard
        What sizes must be for the program to do what the function would do without padding.
    units, shapes : dict
        Of the values that the guards name, by number.
    """

    program: Program
    outputs: list[Units]
    guards: list[Guard]
    units: dict[int, Units]
    shapes: dict[int, tuple[int, ...]]

    def broken(self, count: int) -> Guard | None:
        """Return the first guard that does not hold where `count` elements are valid."""

        def axis(number: int, axis: int) -> int:
            unit = self.units.get(number, {}).get(axis)
            return self.shapes[number][axis] if unit is None else unit * count

        return next((guard for guard in self.guards if not guard.holds(axis)), None)


def masked(program: Program, length: Array, inputs: dict[int, Units], bucket: int) -> Padded:
    """Return a program that gives the same for padded inputs as it would without the padding.

    Parameters
    ----------
    program : Program
        Its sizes know which axis they are.
    length : Value
        The input that holds the number of valid elements, int32.
    inputs : dict
        The units of the padded inputs, by number.
    bucket : int
        The size of the padded axis, at least 2.

    Raises
    ------
    ValueError
        A primitive does what padding would change; the message names it and the remedy.
    """
    masking = Masking(program, length, inputs, bucket)
    made = rebuild(program, partial(change, masking), fixed=True)
    outputs = [masking.units_of(each) for each in program.outputs]
    return Padded(made, outputs, masking.guards, masking.units, masking.shapes)


def change(masking: Masking, primitive: Primitive, call: Call, replaced: Replaced) -> list[Any]:
    """Return the results of a primitive in the masked program, and note their padded axes."""
    patterns = [pattern for pattern, _, _ in primitive.rule[1]]
    for i, pattern in enumerate(patterns):
        if pattern is not None:
            masking.shapes[primitive.number + i] = pattern.shape
    use = Use(masking, primitive, call, replaced)
    if not use.is_padded:
        return call()
    rule = RULES.get(use.op)
    if rule is None:
        use.refuse(
            "is not known to treat the elements along an axis apart. Call it outside of the bucketed function, or "
            "compile the function with shapeless=True, which pads nothing"
        )
    made, units = rule(use)
    use.check_writes(units)
    for i, (pattern, found) in enumerate(zip(patterns, units)):
        if pattern is not None and found:
            masking.units[primitive.number + i] = found
    use.expect_sizes()
    return made
