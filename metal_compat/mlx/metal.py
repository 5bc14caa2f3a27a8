"""``mx.metal``: kernels written in Metal run on every device, so it is available everywhere."""

from __future__ import annotations

from hiprt.metal_compat.mlx.memory import (
    clear_cache,
    get_active_memory,
    get_cache_memory,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)
from hiprt.metal_compat.mlx.streams import device_info

__all__ = [
    "clear_cache",
    "device_info",
    "get_active_memory",
    "get_cache_memory",
    "get_peak_memory",
    "is_available",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
    "start_capture",
    "stop_capture",
]


def is_available() -> bool:
    """Whether custom Metal kernels run."""
    return True


def start_capture(path: str) -> None:
    """Refuse: a capture of Metal's needs Apple's tools.

    Raises
    ------
    RuntimeError
    """
    raise RuntimeError(
        "[metal::start_capture] This needs Apple's Metal; hiprt graph show traces a run on every device."
    )


def stop_capture() -> None:
    """Refuse, as `start_capture` does."""
    raise RuntimeError("[metal::stop_capture] No capture was started.")
