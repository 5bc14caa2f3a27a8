"""What is known of padded values while a program is rebuilt, and a primitive that is given such values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from hiprt import kernels
from hiprt.array import Array, full
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program, call_text
from hiprt.graphs.trace.rebuild import Call
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.graphs.trace.size import Guard, Size
from hiprt.op import Op

__all__ = ["Masking", "Replaced", "Units", "Use"]

# Of a value: how many elements each padded axis has for each element of the axis that was padded.
Units = dict[int, int]
Replaced = Callable[[Any], Any]


class Masking:
    """What is known of a program's values while it is rebuilt.

    Attributes
    ----------
    units : dict
        The padded axes of each value, by number; values without any are not there.
    shapes : dict
        By number.
    guards : list of Guard
    """

    def __init__(self, program: Program, length: Array, inputs: dict[int, Units], bucket: int) -> None:
        self.length, self.bucket = length, bucket
        self.units = {number: units for number, units in inputs.items() if units}
        self.shapes: dict[int, tuple[int, ...]] = {each.number: each.form.shape for each in program.inputs}
        self.guards = list(program.guards)
        self.memory = Memory(program)

    def units_of(self, value: Array) -> Units:
        """Return the padded axes of a value."""
        return {} if value.primitive is None else self.units.get(value.number, {})

    def depends(self, size: Any) -> bool:
        """Whether a size is another one without padding."""
        if type(size) is not Size:
            return False
        text, a, b = size.terms
        return b in self.units.get(a, {}) if text == "axis" else self.depends(a) or self.depends(b)


class Use:
    """A primitive that is given padded values or sizes.

    Attributes
    ----------
    given : dict
        Its arguments by name, as the traced program has them.
    expected : dict
        What sizes among its arguments are without padding, by their ids; the number that they are now for all others.
    """

    def __init__(self, masking: Masking, primitive: Primitive, call: Call, replaced: Replaced) -> None:
        assert primitive.op is not None
        self.masking, self.primitive, self.call, self.replaced = masking, primitive, call, replaced
        self.op: Op = primitive.op
        self.given = dict(zip(self.op.names, primitive.arguments))
        self.sizes: list[Size] = []
        substitute(primitive.arguments, self.note)
        self.expected: dict[int, Size | int] = {}
        self.is_padded = bool(self.sizes) or any(masking.units_of(each) for each in primitive.inputs)

    def note(self, part: Any) -> Any:
        """Remember a size that depends on the padded axis."""
        if self.masking.depends(part):
            self.sizes.append(part)
        return part

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result; that of the operand where it is one itself."""
        pattern, operand, _ = self.primitive.rule[1][0]
        return self.shape_of(self.primitive.inputs[operand]) if pattern is None else pattern.shape

    def units_of(self, value: Any) -> Units:
        """Return the padded axes of an argument."""
        return self.masking.units_of(value) if isinstance(value, Array) else {}

    def shape_of(self, value: Array) -> tuple[int, ...]:
        """Return the shape of an operand."""
        shape: tuple[int, ...] = value.form.shape
        return shape

    def axis_of(self, axis: Any, ndim: int) -> int:
        """Return an axis counted from the front."""
        return int(axis) % ndim

    def refuse(self, why: str) -> NoReturn:
        """Raise the error of a call that padding would change."""
        names: dict[int, str] = {}

        def numbered(number: int) -> str:
            return names.setdefault(number, f"%{len(names)}")

        def name(value: Array) -> str:
            return "@" if value.primitive is None else numbered(value.number)

        text = call_text(self.primitive, name, numbered)
        padded = sorted({axis for value in self.primitive.inputs for axis in self.units_of(value)})
        which = f" of values that are padded along axis {', '.join(map(str, padded))}" if padded else ""
        raise ValueError(f"[bucketed] {self.op.name}: {text}{which} {why}.")

    def valid(self, unit: int, ndim: int, axis: int) -> Array:
        """Return a mask that is true for the valid elements along one of `ndim` axes."""
        count = self.masking.bucket * unit
        length = self.replaced(self.masking.length)
        if unit != 1:
            length = kernels.multiply(length, unit)
        mask: Array = kernels.less(kernels.arange(count), length)
        return mask.reshape([count if each == axis else 1 for each in range(ndim)])

    def hidden(self, value: Array, axes: Iterable[int], identity: str) -> Array:
        """Return a value in which elements that are not valid along the axes change nothing."""
        found: Array = self.replaced(value)
        fill = None
        for axis in axes:
            if fill is None:
                fill = self.neutral(value.dtype, identity)
            mask = self.valid(self.units_of(value)[axis], value.ndim, axis)
            found = kernels.where(mask, found, fill)
        return found

    def neutral(self, dtype: np.dtype[Any], identity: str) -> Array:
        """Return the element that changes nothing: 0, 1, the least, the most, or the one whose exponential is 0."""
        number: Any = int(identity) if identity in "01" else math.inf if identity == "most" else -math.inf
        if dtype.kind in "iub" and isinstance(number, float):
            if dtype.itemsize > 4 or dtype.kind == "b" or identity == "exp":
                self.refuse(f"joins {dtype} elements, of which padding cannot be hidden; convert them to float32")
            info = np.iinfo(dtype)
            number = info.max if identity == "most" else info.min
        if dtype.itemsize > 4:
            return kernels.astype(full((1,), number, np.int32 if dtype.kind in "iu" else np.float32), dtype)
        return full((1,), number, dtype)

    def check_writes(self, units: Sequence[Units]) -> None:
        """Refuse a write that would go beyond the valid elements of memory that others see."""
        memory = self.masking.memory
        for i in self.primitive.rule[2]:
            value = self.primitive.inputs[i]
            if memory.is_outside(value):
                self.refuse(
                    "writes memory that the function did not make, also behind the valid elements. Return the array "
                    "and write it outside of the bucketed function"
                )
            if self.units_of(value) != units[0]:
                self.refuse("writes padded elements into an array that is not padded")

    def expect(self, size: Any, expected: Size | int) -> None:
        """Say what a size among the arguments must be without padding."""
        self.expected[id(size)] = expected

    def expect_sizes(self) -> None:
        """Add a guard for each size: it is either a padded axis of the result, or the number that it is now."""
        at = 0  # guards of padded programs are all looked at before the program runs
        for size in self.sizes:
            other = self.expected.get(id(size), size.value)
            self.masking.guards.append(Guard(at, size, "==", other, True))

    def sized(self, shape: Sequence[Any]) -> Units:
        """Return the padded axes of a shape among the arguments, and expect its sizes to be theirs."""
        found: Units = {}
        for axis, size in enumerate(shape):
            if self.masking.depends(size) and size.value % self.masking.bucket == 0 and size.value:
                found[axis] = size.value // self.masking.bucket
                self.expect(size, self.axis_size(found[axis]))
        return found

    def axis_size(self, unit: int) -> Size:
        """Return a size that is `unit` times the number of valid elements."""
        number, units = next((number, units) for number, units in self.masking.units.items() if units)
        axis, own = next(iter(units.items()))
        whole = Size.axis(number, axis, self.masking.bucket * own)
        return Size(self.masking.bucket * unit, ("//", Size(whole.value * unit, ("*", whole, unit)), own))
