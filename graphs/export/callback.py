"""The callback form of exports: a program told piece by piece, in the dictionaries that MLX's callbacks get."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from string import ascii_uppercase
from typing import Any

from hiprt.array import Array
from hiprt.graphs.export.program_file import Exported

__all__ = ["Callback", "Names", "call_back"]

Callback = Callable[[dict[str, Any]], Any]


class Names:
    """Names of a program's arrays: A to Z, AA and so on, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.new = ("".join(letters) for n in count(1) for letters in product(ascii_uppercase, repeat=n))

    def numbered(self, number: int) -> str:
        """Return the name of the value of a number."""
        if number not in self.names:
            self.names[number] = next(self.new)
        return self.names[number]

    def __call__(self, array: Array) -> str:
        """Return the name of a value, or of an array that a program captured."""
        return self.numbered(-id(array) if array.primitive is None else array.number)


def call_back(callback: Callback, exported: Exported) -> None:
    """Tell a program: its inputs, their keywords, its outputs, its constants, and its primitives in order.

    A primitive's ``arguments`` are those of its op that are given and are no arrays, ``parameters`` their names. Arrays
    in lists are None there.
    """
    program, names = exported.program, Names()

    def told(name: str, array: Array) -> tuple[str, tuple[int, ...], Any]:
        return name, array.form.shape, array.dtype

    callback({"type": "inputs", "inputs": [told(names(value), value) for value in program.inputs]})
    by_name = program.inputs[len(program.inputs) - len(exported.keywords) :]
    keywords = [(keyword, names(value)) for keyword, value in zip(exported.keywords, by_name)]
    callback({"type": "keyword_inputs", "keywords": keywords})
    callback({"type": "outputs", "outputs": [told(names(value), value) for value in program.outputs]})
    callback({"type": "constants", "constants": [(names(array), array) for array in program.captured]})
    for primitive in program.primitives:
        op = primitive.op
        assert op is not None
        made = [(primitive.number + i, pattern) for i, (pattern, _, _) in enumerate(primitive.rule[1])]
        parts = zip(op.names, primitive.arguments, op.defaults)
        given = [(name, value) for name, value, default in parts if value is not default or default is ...]
        given = [(name, value) for name, value in given if not isinstance(value, Array)]
        callback(
            {
                "type": "primitive",
                "name": op.name,
                "inputs": [told(names(value), value) for value in primitive.inputs],
                "outputs": [told(names.numbered(number), like) for number, like in made if like is not None],
                "parameters": [name for name, _ in given],
                "arguments": [without_arrays(value) for _, value in given],
            }
        )


def without_arrays(argument: Any) -> Any:
    """Return an argument with None in the place of each array."""
    if isinstance(argument, (list, tuple)):
        return [without_arrays(each) for each in argument]
    if isinstance(argument, dict):
        return {name: without_arrays(each) for name, each in argument.items()}
    return None if isinstance(argument, Array) else argument
