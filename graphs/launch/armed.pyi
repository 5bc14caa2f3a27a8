from typing import Any

class Armed:
    given: Any
    keep: bool
    def attach(self, counter: Any, address: int, flags: dict[str, Any], /) -> None: ...
    def arm(
        self,
        kept: Any,
        holder: Any,
        address: int,
        stream: Any,
        args: tuple[Any, ...],
        names: tuple[str, ...],
        device: int,
        moves: tuple[Any, ...] | None,
        /,
    ) -> None: ...
    def vary(self, cells: list[tuple[int, int, str]], /) -> None: ...
    def disarm(self) -> None: ...
    def launches_here(self) -> bool: ...
