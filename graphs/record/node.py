"""Nodes of recordings as Python shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hiprt import core, module

__all__ = ["Node", "launched", "node_of", "plain", "raw_launch"]

KINDS = {
    core.lib.HIPRT_NODE_KERNEL: "kernel",
    core.lib.HIPRT_NODE_COPY: "copy",
    core.lib.HIPRT_NODE_FILL: "fill",
    core.lib.HIPRT_NODE_EMPTY: "empty",
    core.lib.HIPRT_NODE_OPAQUE: "kernel",
}
# The types of the payloads that are plain structures.
PLAIN = {"copy": "hiprt_copy_args", "fill": "hiprt_fill_args"}


@dataclass(frozen=True)
class Node:
    """One node of a recording.

    Attributes
    ----------
    kind : str
        ``kernel``, ``copy``, ``fill`` or ``empty``.
    name : str
        The kernel's name; the kind of any other node.
    grid, block : tuple of 3 int
        The kernel's dimensions; zeros for any other node.
    shared : int
        Bytes of dynamic shared memory.
    dependencies : tuple of int
        The earlier nodes that this one waits for.
    arguments : dict
        Name to value; the value of a buffer is its address.
    function : Function or None
        What was launched, where that is a kernel that is still in use.
    is_foreign : bool
        Whether other code launched it.
    """

    kind: str
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    dependencies: tuple[int, ...]
    arguments: dict[str, Any]
    function: module.Function | None = None
    is_foreign: bool = False

    @property
    def launch(self) -> str:
        """What is launched, and over how many threads."""
        return launch_text(self.name, self.grid, self.block) if self.kind == "kernel" else self.name


def node_of(raw: Any) -> Node:
    """Return a node that the C core shows as a ``hiprt_node *``."""
    kind = KINDS[raw.kind]
    dependencies = tuple(raw.deps[k] for k in range(raw.n_deps))
    arguments: dict[str, Any] = {}
    if kind == "kernel":
        dims = core.ffi.cast("hiprt_dims *", raw.payload)
        handle = core.address(raw.kernel)
        grid, block = (dims.grid[0], dims.grid[1], dims.grid[2]), (dims.block[0], dims.block[1], dims.block[2])
        payload = bytes(core.ffi.buffer(raw.payload, raw.payload_size))
        block_of_arguments = payload[core.ffi.sizeof("hiprt_dims") :]
        name, function = core.ffi.string(raw.name).decode(), None
        if raw.source:
            arguments = foreign_arguments(raw.kernel, block_of_arguments) if raw.kernel else {}
        else:
            function, arguments = module.functions.get(handle), module.argument_values(handle, block_of_arguments)
        return Node(kind, name, grid, block, dims.shared, dependencies, arguments, function, bool(raw.source))
    if kind in PLAIN:
        fields = core.ffi.cast(f"{PLAIN[kind]} *", raw.payload)
        arguments = {name: getattr(fields, name) for name, _ in core.ffi.typeof(PLAIN[kind]).fields}
    return Node(kind, kind, (0, 0, 0), (0, 0, 0), 0, dependencies, arguments, is_foreign=bool(raw.source))


def launch_text(name: str, grid: Sequence[int], block: Sequence[int]) -> str:
    """Return what a kernel's launch is called in messages."""
    return f"{name} {'x'.join(map(str, grid))} of {'x'.join(map(str, block))}"


def raw_launch(raw: Any) -> str:
    """Return what a node launches, and over how many threads, without decoding its arguments."""
    if KINDS[raw.kind] != "kernel":
        return KINDS[raw.kind]
    dims = core.ffi.cast("hiprt_dims *", raw.payload)
    return launch_text(core.ffi.string(raw.name).decode(), list(dims.grid), list(dims.block))


def foreign_arguments(kernel: Any, block: bytes) -> dict[str, Any]:
    """Return the arguments of other code's kernel by number; those of 1, 2, 4 and 8 bytes as unsigned integers."""
    values: dict[str, Any] = {}
    for i in range(core.lib.hiprt_kernel_count(kernel)):
        start, size = core.lib.hiprt_kernel_offset(kernel, i), core.lib.hiprt_kernel_size(kernel, i)
        values[f"argument {i}"] = plain(block[start : start + size])
    return values


def plain(cell: bytes) -> Any:
    """Return an argument of which nothing is declared: 1, 2, 4 and 8 bytes as an unsigned integer."""
    return int.from_bytes(cell, "little") if len(cell) in (1, 2, 4, 8) else cell


def launched(raw: Any) -> tuple[int, int, bytes]:
    """Return what two nodes share that launch the same: the kind, the function, and its dimensions."""
    if not raw.function:
        return raw.kind, 0, b""
    return raw.kind, raw.function, bytes(core.ffi.buffer(raw.payload, core.ffi.sizeof("hiprt_dims")))
