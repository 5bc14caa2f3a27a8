"""Weights without values: every matrix of a shape is the same memory, so that steps of large models can be recorded."""

from functools import cache

import numpy as np

from hiprt import empty
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.shard import WHOLE


class Hollow:
    """Arrays of the right shapes.

    Parameters
    ----------
    dtype : numpy.dtype
    form : (int, int)
        Group size and bits.
    """

    def __init__(self, dtype, form=(64, 4)):
        self.dtype = dtype
        self.group_size, self.bits = form
        self.identity, self.shard = "hollow", WHOLE
        self.empty = cache(empty)

    def has(self, module):
        return not module.endswith("in_proj_qkvz")

    def wait(self):
        pass

    def norm(self, name, size):
        return self.empty((size,), self.dtype)

    def vector(self, name, size, dtype=None):
        return self.empty((size,), dtype or self.dtype)

    def conv(self, name, channels, taps):
        return self.empty((channels, taps), self.dtype)

    def matrix(self, parts, columns, bits=None):
        return self.linear((sum(part.taken for part in parts), columns), bits or self.bits)

    def experts(self, at, names, count, rows, columns, is_shared):
        return self.linear((count + is_shared, len(names) * rows, columns), self.bits)

    def linear(self, shape, bits):
        *rows, columns = shape
        weight = self.empty((*rows, columns * bits // 32), np.uint32)
        scales, biases = (self.empty((*rows, columns // self.group_size), self.dtype) for _ in range(2))
        return Linear(weight, scales, biases, self.group_size, bits)
