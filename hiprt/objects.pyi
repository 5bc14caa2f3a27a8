from collections.abc import Callable
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from hiprt.array import Array as AnyArray
from hiprt.buffer import Buffer as AnyBuffer

P = ParamSpec("P")
T = TypeVar("T")

def load(name: str) -> ModuleType: ...
def lend(
    owner: Any,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: tuple[int, int],
    dtype: tuple[int, int],
    flags: int,
    is_versioned: bool,
    /,
) -> Any: ...

exchange_api: Any

class Buffer:
    address: int
    nbytes: int
    device: int
    free: Callable[[], None] | None
    owner: Any
    pool: Any
    views: list[Any] | None
    is_readonly: bool
    def __init__(
        self,
        address: int,
        nbytes: int,
        device: int,
        free: Callable[[], None] | None = None,
        owner: Any = None,
        pool: Any = None,
    ) -> None: ...
    @property
    def uses(self) -> int: ...
    def share(self, uses: int, /) -> None: ...
    def belong(self, stream: Stream, /) -> None: ...

class Array:
    def __init__(
        self,
        buffer: AnyBuffer,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        address: int,
        strides: tuple[int, ...] | None = None,
    ) -> None: ...
    @property
    def buffer(self) -> AnyBuffer: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def form(self) -> Any: ...
    @property
    def address(self) -> int: ...
    @property
    def extent(self) -> tuple[int, int]: ...
    @property
    def size(self) -> int: ...
    @property
    def is_contiguous(self) -> bool: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def primitive(self) -> Any: ...
    @property
    def number(self) -> int: ...
    def rebase(self, delta: int) -> None: ...

class Stream:
    address: int
    memory: Any
    keep: list[Any]
    default_of: int
    written: list[Any] | None
    @property
    def recording(self) -> bool: ...
    @staticmethod
    def choose(stream: Any, /) -> Any: ...
    @staticmethod
    def chosen() -> Any: ...
    @staticmethod
    def choose_device(index: int, /) -> None: ...
    def queue_copy(self, target: int, source: int, nbytes: int, kind: int, to: Any, of: Any, /) -> int: ...
    def queue_fill(self, target: int, value: int, width: int, count: int, to: Any, /) -> int: ...
    def order(self, buffer: Any, access: int, /) -> int: ...

class Launcher:
    def open(self, kernel: int, formats: str, shared: int, /) -> None: ...
    def launch(
        self, stream: Any, grid: tuple[int, ...], block: tuple[int, ...], /, *values: Any, shared: int = ...
    ) -> None: ...

class Launch:
    def prepare(
        self, grid: tuple[int, ...], threads: tuple[int, ...], names: tuple[str, ...], scalars: dict[str, Any], /
    ) -> None: ...
    def __call__(self, stream: Any, /, **given: Any) -> None: ...
    @staticmethod
    def watch(watcher: Callable[[Any, tuple[Any, ...]], object] | None, /) -> Any: ...

class Plan:
    op: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    launch: Any
    def prepare(
        self, op: str, shape: tuple[int, ...], dtype: np.dtype[Any], launch: Launch | None, make: Callable[..., Any], /
    ) -> None: ...
    def run(self, stream: Any, out: AnyArray | None, /, **operands: Any) -> AnyArray: ...

class Op:
    function: Callable[..., Any]
    name: str
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    rules: dict[Any, Any]
    positional: int
    def declare(
        self,
        function: Callable[..., Any],
        name: str,
        names: tuple[str, ...],
        defaults: tuple[Any, ...],
        positional: int,
        /,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Planned(Generic[P, T]):
    function: Callable[P, T]
    def __init__(self, function: Callable[P, T]) -> None: ...
    def __call__(self, *args: Any) -> T: ...
