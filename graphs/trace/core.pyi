from collections.abc import Callable
from typing import Any

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.op import Op
from hiprt.stream import Stream

class Primitive:
    op: Op | None
    arguments: tuple[Any, ...]
    inputs: tuple[Array, ...]
    rule: tuple[int, tuple[tuple[Array | None, int, int], ...], tuple[int, ...]]
    trace: int
    number: int
    hash: int
    prefix: int
    mark: Any
    stamp: int
    def replaced(
        self, op: Op, arguments: tuple[Any, ...], inputs: tuple[Array, ...], rule: tuple[Any, ...], /
    ) -> Primitive: ...

class Trace:
    primitives: list[Primitive]
    def prepare(self, buffer: Buffer, value: type, size: type | None, keeps: bool, /) -> None: ...
    def see_prefixes(self, view: Any, grown: Any, /) -> None: ...
    def see_integers(self, integer: type, varying: type, /) -> None: ...
    def given(self, array: Array, /) -> Any: ...
    def add(self, op: Any, arguments: tuple[Any, ...], rule: tuple[Any, ...], /) -> Any: ...
    def repeat(
        self, primitive: Primitive, found: dict[int, Array], moved: Callable[[Any], Any], size: type, /
    ) -> list[Any]: ...
    def enter(self) -> Trace | None: ...
    def leave(self, before: Trace | None, /) -> None: ...
    @staticmethod
    def fill_in(
        arguments: tuple[Any, ...], found: dict[int, Array], moved: Callable[[Any], Any], size: type, /
    ) -> tuple[Any, ...]: ...
    @staticmethod
    def current() -> Trace | None: ...
    @staticmethod
    def signature(tree: Any, /) -> tuple[tuple[Any, ...], tuple[Array, ...]]: ...

ITSELF: int

class Issue:
    def __new__(
        cls,
        array: type[Array],
        operands: int,
        nbytes: tuple[int, ...],
        arrays: tuple[tuple[Array, int, int], ...],
        launches: tuple[tuple[Any, bytes, tuple[int | None, ...]], ...],
        results: tuple[int | None, ...],
        /,
    ) -> Issue: ...

class Compiled:
    inputs: Any
    outputs: Any
    version: Any
    device: int
    def attach(self, known: dict[Any, Any], flags: dict[str, Any], /) -> None: ...

class Traced:
    is_plain: bool
    def use(self, stream: Stream, step: Any, /) -> None: ...

def cut(values: list[Array], /) -> tuple[bytes, list[Primitive], list[Array], bytes, list[Array]]: ...
def hold(values: list[Array], arrays: tuple[Array, ...], mark: Any = None, /) -> None: ...
def move(leaf: Array, array: Array, /) -> bool: ...
def pin(array: Array, /) -> None: ...
def is_pinned(array: Array, /) -> bool: ...
def note(launches: list[Any] | None, /) -> list[Any] | None: ...
def run(
    primitives: tuple[Primitive, ...],
    lasts: list[list[int]],
    found: dict[int, Array],
    known: dict[Any, Any] | None,
    moved: Callable[[Any], int],
    size: type,
    stream: Stream | None,
    source: Callable[[Stream], Callable[[int, Stream], Buffer]],
    perform: Callable[[int, Primitive, tuple[Any, ...], Any, Any], tuple[Any, ...]],
    /,
) -> None: ...

class HostView:
    """A base for objects with the buffer protocol; their method ``host_view`` copies to the host.

    It returns the copy, its address, an element's size, the protocol's format, the shape, and the strides in bytes. A
    view keeps the object and the copy alive.
    """

class Lazy:
    value: Array

def apply(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function of hiprt's ops with the values of arrays, and return arrays; nothing runs.

    Parameters
    ----------
    function : callable
        An op, or a function that calls ops. It sees shapes, strides and dtypes, and no contents.
    *args, **kwargs
        Arrays, also in lists, tuples and dictionaries, and what else the function takes, which is hashable.

    Returns
    -------
    Lazy, or a tuple or list of them
    """

def declare(trace: Trace, kind: type[Lazy], value_of: Callable[[Array], Array], /) -> None:
    """Let `apply` record with a trace, return arrays of a class, and make values of arrays in memory by a function."""

def watch(made: list[Any] | None, /) -> list[Any] | None:
    """Let a list receive a weak reference to each array that `apply` makes in this thread; return the list before."""

def alike(a: Any, b: Any, is_alike: Callable[[Any, Any], bool], /) -> bool: ...
def numbered() -> int:
    """Return a number that is larger than those of all values."""

class Recipe:
    def __new__(
        cls,
        nodes: tuple[Any, ...],
        sums: tuple[Any, ...],
        tests: int,
        position: Callable[[int], Array],
        constants: tuple[Array, ...],
        positions: tuple[int, ...],
        calls: tuple[Any, ...],
        fresh: tuple[int, ...],
        changed: tuple[tuple[int, int], ...],
        writes: tuple[Any, ...],
        result: tuple[Any, ...],
        roles: tuple[int, ...],
        joint: tuple[Any, ...] | None,
        outputs: tuple[int, ...],
        /,
    ) -> Recipe: ...
    def values(self, root: tuple[Any, ...], /) -> list[Array] | None:
        """Return the values of the pattern's arrays, where the root fits but for their forms; None elsewhere."""

    def take(self, root: tuple[Any, ...], /) -> Any: ...
    def expand(self, primitive: Primitive, /) -> None: ...
