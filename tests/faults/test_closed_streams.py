"""Streams that were closed before anybody waited for their work: what they leave behind goes once the work is done."""

import pytest
from faults import child
from helpers.kernels import scale

import hiprt
from hiprt import hip

pytestmark = pytest.mark.only("cpu", reason="the shim counts its objects")


def readers(calls):
    """Read an array on one stream after another, each closed at once; return how many events there were after each."""
    x, counts = hiprt.full(64, 0.5), []
    for _ in range(40):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            scale(x, 1.0)
        hip.call(hip.lib.hipDeviceSynchronize())
        counts.append(calls.live()["event"])
    return counts


def test_an_array_forgets_closed_streams_that_have_read_it(tmp_path):
    """A server that makes a stream for each request reads the same weights on all of them."""
    counts = child.run(readers, tmp_path)
    assert len(set(counts[10:])) == 1, counts
