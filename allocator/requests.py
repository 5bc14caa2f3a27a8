"""The requests of an arena, each a buffer that is made in one call into C; see ``allocator/native/requests.c``."""

from hiprt import objects

__all__ = ["Requests"]

Requests = objects.load("hiprt.allocator.native.requests").Requests
