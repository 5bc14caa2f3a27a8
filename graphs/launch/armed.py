"""Armed steps: the base of `Step` in C, which does its last call again; see ``graphs/native/armed.c``."""

from hiprt import objects

__all__ = ["Armed"]

Armed = objects.load("hiprt.graphs.native.armed").Armed
