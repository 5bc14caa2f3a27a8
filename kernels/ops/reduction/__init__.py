"""Reductions over axes, running sums, sorting, and the places of extreme values."""

from hiprt.kernels.ops.reduction.argmax import argmax, argmin
from hiprt.kernels.ops.reduction.cumsum import cumsum
from hiprt.kernels.ops.reduction.reduction import (
    all,  # noqa: A004
    any,  # noqa: A004
    logsumexp,
    max,  # noqa: A004
    mean,
    min,  # noqa: A004
    prod,
    sum,  # noqa: A004
)
from hiprt.kernels.ops.reduction.sort import argpartition, argsort, partition, sort, topk

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "partition",
    "prod",
    "sort",
    "sum",
    "topk",
]
