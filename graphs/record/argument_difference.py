"""The first argument in which two kernel nodes differ."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt import core, module
from hiprt.graphs.record.node import plain

__all__ = ["ArgumentDifference"]


class ArgumentDifference(NamedTuple):
    """The first argument in which two kernel nodes differ, whose text is made when somebody asks for it.

    It holds nothing of the kernel: the last 256 of these outlive the graphs that they tell of.

    Attributes
    ----------
    node : int
        The node's number.
    name : bytes
        The kernel's name.
    argument : int
        The argument's number.
    was, now : bytes
        The argument in one node and in the other; empty where no argument differs.
    declared : Argument or None
        What the kernel declares of it.
    """

    node: int
    name: bytes
    argument: int
    was: bytes
    now: bytes
    declared: Any = None

    def __str__(self) -> str:
        text = f"node {self.node} ({self.name.decode()})"
        if not self.was:
            return text
        cells = self.was, self.now
        if self.declared is None:
            what, shown = f"argument {self.argument}", map(plain, cells)
        else:
            what, shown = self.declared.name, map(self.declared.value, cells)
        # A buffer, which is declared with what a kernel does to it, is an address.
        form = hex if self.declared is not None and self.declared.access else repr
        return f"{text} {what}: {' -> '.join(map(form, shown))}"

    @classmethod
    def of(cls, node: int, found: Any) -> ArgumentDifference:
        """Return what is kept of a node's ``hiprt_difference *``, which names a kernel."""
        name, argument, size = core.ffi.string(found.name), int(found.argument), found.size
        if not size:
            return cls(node, name, argument, b"", b"")
        function = module.functions.get(core.address(found.kernel)) if found.kernel else None
        declared = None if function is None else function.arguments[argument]
        return cls(node, name, argument, core.ffi.unpack(found.was, size), core.ffi.unpack(found.now, size), declared)
