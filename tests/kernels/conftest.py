"""Fixtures for the dtypes, the two branches of a body, and the error that a result may have."""

from contextlib import nullcontext

import numpy as np
import pytest

import hiprt
from hiprt.kernels.tuning.target import force_generic

FLOATS = {"float16": np.dtype(np.float16), "bfloat16": hiprt.bfloat16, "float32": np.dtype(np.float32)}
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}  # of numbers in [1, 2)
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}  # spacing of the numbers next to zero


@pytest.fixture(params=list(FLOATS))
def dtype(request):
    """Give each dtype of the ops."""
    return FLOATS[request.param]


@pytest.fixture(params=["loops", "generic"])
def branch(request):
    """Take the CPU device's plain loops, then the GPU branch."""
    with force_generic() if request.param == "generic" else nullcontext():
        yield request.param


@pytest.fixture(autouse=True)
def on_stream(stream):
    """Every test launches on a stream of its own."""
    return stream


@pytest.fixture
def int32():
    """Put one int32 on the device, where ops read positions from."""
    return lambda value: hiprt.array(np.array([value], np.int32))


@pytest.fixture
def normal():
    """Return normal numbers of a shape and dtype, which are the same for the same seed."""
    return lambda shape, dtype, seed=0, scale=1.0: (np.random.default_rng(seed).normal(size=shape) * scale).astype(
        dtype
    )


@pytest.fixture
def close():
    """Compare a device array with the exact result.

    Allowed: one rounding to the dtype, plus `steps` float32 roundings of the sum of absolute terms (`magnitude`).
    """

    def check(result, exact, *, magnitude=None, steps=8):
        assert result.shape == exact.shape
        got, name = result.numpy().astype(np.float64), result.dtype.name
        size = np.abs(exact) if magnitude is None else magnitude
        float32 = steps * 2.0**-24 * size
        rounding = np.maximum((np.abs(exact) + float32) * ULP[name] / 2, SMALLEST[name] / 2)
        wrong = ~(np.abs(got - exact) <= float32 + rounding)
        assert not wrong.any(), f"{wrong.sum()} of {wrong.size}: {got[wrong][:4]} for {exact[wrong][:4]}"

    return check
