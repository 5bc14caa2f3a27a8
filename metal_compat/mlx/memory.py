"""What MLX programs ask of device memory, answered by hiprt's pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hiprt.allocator import default_pool
from hiprt.device import current_device
from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.trees import arrays_in

__all__ = [
    "clear_cache",
    "get_active_memory",
    "get_array_buffer_size",
    "get_cache_memory",
    "get_memory_limit",
    "get_peak_memory",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
]


@dataclass
class Limits:
    """The limits that a program has set, in bytes; None is the device's memory.

    That of the cache is kept to by `eval`, and when somebody asks how large the cache is. The others are kept to be
    read back: the pool has limits of its own (``HIPRT_ALLOC_LIMIT_MB``), and memory of a GPU is always wired.
    """

    memory: int | None = None
    cache: int | None = None
    wired: int = 0


limits = Limits()


def device_memory() -> int:
    """Return the bytes of the device."""
    return current_device().memory


def get_array_buffer_size(*args: Any) -> int:
    """Return the bytes of device memory that arrays in trees hold; what several show counts once, lazy ones nothing."""
    found: dict[int, int] = {}
    for each in arrays_in(args, []):
        memory = lazy.held(each.value)
        if memory is not None:
            found[memory.buffer.address] = memory.buffer.nbytes
    return sum(found.values())


def checked(limit: int) -> int:
    """Return a limit that is a number of bytes."""
    if not isinstance(limit, int) or limit < 0:
        raise TypeError(f"a limit is a number of bytes, not {limit!r}")
    return limit


def get_active_memory() -> int:
    """Return the bytes that arrays and kept programs hold."""
    return default_pool.stats().allocated


def get_peak_memory() -> int:
    """Return the most bytes that have been held at a time, since the process started or `reset_peak_memory`."""
    return default_pool.peak


def reset_peak_memory() -> None:
    """Count `get_peak_memory` from 0."""
    default_pool.reset_peak()


def get_cache_memory() -> int:
    """Return the bytes that the pool keeps and nobody holds."""
    keep_to_limit()
    return cached()


def cached() -> int:
    """Return the bytes that the pool keeps and nobody holds, as it is."""
    stats = default_pool.stats()
    return stats.reserved - stats.allocated


def keep_to_limit() -> None:
    """Give back what nobody holds, if it is more than `set_cache_limit` allows."""
    if limits.cache is not None and cached() > limits.cache:
        clear_cache()


def set_memory_limit(limit: int) -> int:
    """Set a limit that is kept to be read back; return the one before."""
    before, limits.memory = get_memory_limit(), checked(limit)
    return before


def get_memory_limit() -> int:
    """Return the limit that was set, or the device's memory."""
    return device_memory() if limits.memory is None else limits.memory


def set_cache_limit(limit: int) -> int:
    """Set a limit of the memory that is kept and held by nobody; return the one before."""
    before = device_memory() if limits.cache is None else limits.cache
    limits.cache = checked(limit)
    keep_to_limit()
    return before


def set_wired_limit(limit: int) -> int:
    """Set a limit that is kept to be read back, as memory of a GPU is always wired; return the one before.

    Raises
    ------
    ValueError
        The device has less memory.
    """
    if checked(limit) > device_memory():
        raise ValueError(f"[metal::set_wired_limit] {limit} bytes are more than the device's {device_memory()}.")
    before, limits.wired = limits.wired, limit
    return before


def clear_cache() -> None:
    """Give memory that nobody holds back to the device, that of programs of a model that is gone included."""
    lazy.forget_gone()
    default_pool.trim()
