"""Functions for tests of compile, and arrays for their calls."""

import numpy as np

import hiprt
from hiprt import kernels


def ramp(*shape, dtype=np.float32):
    """Return an array of numbers from -2 to 4, over and over."""
    return hiprt.array((np.arange(np.prod(shape, dtype=int)) % 7 - 2).reshape(shape).astype(dtype))


def counted(function):
    """Return the function and a list that grows with each call of it."""
    calls = []

    def counting(*args, **kwargs):
        calls.append(1)
        return function(*args, **kwargs)

    return counting, calls


def double(x, *_args, **_kwargs):
    """x + x, whatever else is given."""
    return kernels.add(x, x)
