"""The Apple runner over a fake of PyObjC's Metal: never run on Apple hardware."""

import numpy as np
import pytest
from helpers.metal.framework import Metal

import hiprt
from hiprt.kernels import add
from hiprt.metal_compat.apple import MetalStream, Replay, open_device

ORDERS = [None, 1, 2]


@pytest.fixture(params=ORDERS, ids=["last first", "seed 1", "seed 2"])
def apple(request, stream):
    """A stream of a fake Metal device."""
    return MetalStream(open_device(metal=Metal(stream, request.param)))


def test_an_add_replayed(apple):
    with hiprt.use_stream(apple):
        a, b = hiprt.array(np.arange(1000, dtype=np.float32)), hiprt.array(np.full(1000, 0.5, np.float32))
        with apple.record() as recording:
            c = add(add(a, b), b)
        replay = Replay(recording, apple)
        replay.launch()
        np.testing.assert_array_equal(c.numpy(), np.arange(1000, dtype=np.float32) + 1)
