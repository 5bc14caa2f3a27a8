"""Indexing: elements and parts of an array that are named by indices on the device."""

from hiprt.kernels.ops.indexing.assign import assign
from hiprt.kernels.ops.indexing.indexing import put_along_axis, scatter, scatter_add, take, take_along_axis
from hiprt.kernels.ops.indexing.slices import (
    slice,  # noqa: A004
    slice_update,
)

__all__ = [
    "assign",
    "put_along_axis",
    "scatter",
    "scatter_add",
    "slice",
    "slice_update",
    "take",
    "take_along_axis",
]
