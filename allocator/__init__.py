"""Device memory: pools whose frees happen in stream order.

Importing the package makes `default_pool` the source of every buffer that hiprt allocates.
"""

from hiprt.allocator.arena import Arena
from hiprt.allocator.external import adopt, external
from hiprt.allocator.holder import PoolStats
from hiprt.allocator.pages import UseAfterFreeError
from hiprt.allocator.planner import InPlace, Outline, Plan, Request, plan, requests_of
from hiprt.allocator.poison import RedZoneError, check_steps
from hiprt.allocator.pool import Pool, default_pool, trim
from hiprt.allocator.report import MemoryReport, Watch, memory_report, stats, watch
from hiprt.buffer import set_adopter, set_allocator

__all__ = [
    "Arena",
    "InPlace",
    "MemoryReport",
    "Outline",
    "Plan",
    "Pool",
    "PoolStats",
    "RedZoneError",
    "Request",
    "UseAfterFreeError",
    "Watch",
    "adopt",
    "check_steps",
    "default_pool",
    "external",
    "memory_report",
    "plan",
    "requests_of",
    "stats",
    "trim",
    "watch",
]

set_allocator(default_pool.allocate)
set_adopter(adopt)
