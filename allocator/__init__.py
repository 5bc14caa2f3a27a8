"""Device memory: pools whose frees happen in stream order.

Importing the package makes `default_pool` the source of every buffer that hiprt allocates, guarded under
``HIPRT_ALLOC_POISON``.
"""

from hiprt.allocator.arena import Arena
from hiprt.allocator.planner import Plan, Request, plan, requests_of
from hiprt.allocator.poison import Poison, RedZoneError
from hiprt.allocator.pool import Pool, PoolStats, default_pool, stats
from hiprt.allocator.report import MemoryReport, Watch, memory_report, watch
from hiprt.buffer import set_allocator
from hiprt.flags import flags

__all__ = [
    "Arena",
    "MemoryReport",
    "Plan",
    "Pool",
    "PoolStats",
    "RedZoneError",
    "Request",
    "Watch",
    "default_pool",
    "memory_report",
    "plan",
    "requests_of",
    "stats",
    "watch",
]

set_allocator(Poison(default_pool).allocate if flags.alloc_poison else default_pool.allocate)
