"""Device memory: pools whose frees happen in stream order.

Importing the package makes `default_pool` the source of every buffer that hiprt allocates.
"""

from hiprt.allocator.pool import Pool, PoolStats, default_pool, stats
from hiprt.buffer import set_allocator

__all__ = ["Pool", "PoolStats", "default_pool", "stats"]

set_allocator(default_pool.allocate)
