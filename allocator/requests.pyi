from hiprt.buffer import Buffer
from hiprt.stream import Stream

class Requests:
    """Buffers at provisional addresses, and which of them are still alive.

    Attributes
    ----------
    unsettled : (int, int)
        The addresses of the requests: the first, and one past the last; zeros without any.
    """

    @property
    def unsettled(self) -> tuple[int, int]: ...
    def open(self, kind: type[Buffer], uses: int, address: int, spacing: int, /) -> None: ...
    def allocate(self, nbytes: int, stream: Stream, /) -> Buffer: ...
    def found(self) -> tuple[list[tuple[int, int]], list[Buffer | None]]: ...
    def clear(self) -> None: ...
