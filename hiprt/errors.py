"""Exceptions, and the one function that turns a HIP status into one.

After a failure, a call that creates something has created nothing. After a failed graph call the executable graph is
discarded and the step has run eagerly (G8), unless it may have run already: that is an `UndefinedOutputsError`. Arrays
stay valid unless the error says that the device is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "CompileError",
    "HipError",
    "HipWarning",
    "OutOfMemoryError",
    "ProviderError",
    "RankError",
    "UndefinedOutputsError",
    "check",
]

SUCCESS = 0
OUT_OF_MEMORY = 2


class HipError(RuntimeError):
    """A HIP or hiprtc call failed.

    Attributes
    ----------
    code : int
        The ``hipError_t`` (or ``hiprtcResult``) value; negative for a status of hiprt's own C core.
    name : str
        The status's name, for example ``hipErrorInvalidValue``.
    call : str
        The function that returned it.
    is_last : bool
        Whether the error explains why the device runs nothing more.
    """

    is_last = False

    def __init__(self, code: int, name: str, call: str, detail: str = "") -> None:
        super().__init__(code, name, call, detail)
        self.code = code
        self.name = name
        self.call = call
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.call}: {self.name} ({self.code})" + (f": {self.detail}" if self.detail else "")


class OutOfMemoryError(HipError, MemoryError):
    """The device has no memory left; nothing was allocated."""


class UndefinedOutputsError(HipError):
    """A step failed when some of its work had been launched, or may have been; what it writes is undefined.

    Nothing was run a second time. Before the step is called again, what it changes in place (a cache, a position, a
    state) must be set anew, because nobody can know how far it came.
    """

    @classmethod
    def of(cls, error: HipError | MemoryError, why: str) -> HipError:
        """Return the exception for a step that failed with `error`; `why` says what may have run.

        An error that explains why the device runs nothing more is told as it is: the step cannot be called again.
        """
        if not isinstance(error, HipError):
            error = OutOfMemoryError(OUT_OF_MEMORY, type(error).__name__, "memory of the host", str(error))
        if isinstance(error, cls) or error.is_last:
            return error
        text = f"{why}; what the step writes is undefined, and nothing was run again"
        return cls(error.code, error.name, error.call, f"{error.detail}: {text}" if error.detail else text)


class CompileError(HipError):
    """Kernel source did not compile.

    Attributes
    ----------
    log : str
        The compiler's output, which names lines of the user's source.
    """

    def __init__(self, code: int, name: str, call: str, detail: str = "", log: str = "") -> None:
        super().__init__(code, name, call, detail)
        self.log = log

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, self.name, self.call, self.detail, self.log))

    def __str__(self) -> str:
        return super().__str__() + (f"\n{self.log}" if self.log else "")


class ProviderError(RuntimeError):
    """No HIP library can be used.

    Attributes
    ----------
    tried : list of (str, str)
        Each library that was considered, and why it was refused.
    """

    def __init__(self, message: str, tried: list[tuple[str, str]]) -> None:
        super().__init__(message, tried)
        self.tried = tried

    def __str__(self) -> str:
        lines = [f"  {name}: {reason}" for name, reason in self.tried]
        return "\n".join([str(self.args[0]), *lines])


class HipWarning(RuntimeWarning):
    """A problem of which no exception can tell a caller, for example in a destructor."""


# Functions by status: each finds out more about a failure of the call that it is given, or returns None.
explain: dict[int, Callable[[str], HipError | None]] = {}


def error_of(code: int, name: str, call: str, detail: str = "") -> HipError:
    """Return the exception that stands for a status."""
    explained = explain[code](call) if code in explain else None
    if explained is not None:
        return explained
    kind = OutOfMemoryError if code == OUT_OF_MEMORY else HipError
    return kind(code, name, call, detail)


def check(result: Any, call: str) -> Any:
    """Turn what a function of hip-python returned into a value, or raise.

    It is for programs that hold hip-python's handles; hiprt calls HIP through `hiprt.hip`.

    Parameters
    ----------
    result : tuple or status
        ``(status, value, …)`` or a bare status, as hip-python returns them.
    call : str
        The function's name, for the message.

    Returns
    -------
    Any
        None, the value, or the tuple of values behind the status.

    Raises
    ------
    HipError
        The status is not success (`OutOfMemoryError` for ``hipErrorOutOfMemory``).
    """
    status, values = (result[0], result[1:]) if isinstance(result, tuple) else (result, ())
    if int(status) != SUCCESS:
        raise error_of(int(status), getattr(status, "name", str(status)), call)
    return None if not values else values[0] if len(values) == 1 else values


class RankError(RuntimeError):
    """A rank is missing, has ended, or is of another version.

    Attributes
    ----------
    rank : int or None
        Which one, where that is known.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank
