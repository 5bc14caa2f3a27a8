"""Outlines: what the C core says the nodes of a recording do with memory, beside what their declarations say."""

import numpy as np
import pytest
from helpers.kernels import scale
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import core, kernels
from hiprt.allocator import requests_of
from hiprt.graphs.record.declarations import declared, outline_of, outlined
from hiprt.graphs.record.recording import Recording

N = 64
LINES = {
    "add": lambda x, y: kernels.add(x, y),
    "norm": lambda x, y: kernels.add_rms_norm(x, y, x, 1e-5)[1],
    "part": lambda x, y: kernels.concatenate([x[: N // 2], y[N // 2 :]]),
    "reversed": lambda x, y: kernels.multiply(x[::-1], y),
    "write": lambda x, y: kernels.add(x, 1.0, out=y),
    "copy": lambda x, y: hiprt.zeros(N).copy_from(x) or x,
}


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(sorted(LINES)), st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_random_recordings(stream, lines):
    """Extents are halves of arrays, whole ones, such of which nobody knows, and one of no bytes."""
    known = [hiprt.array(np.ones(N, np.float32)) for _ in range(3)]
    recording = Recording()
    with recording.record(stream), hiprt.use_stream(stream):
        for name, first, second in lines:
            known.append(LINES[name](known[first % len(known)], known[second % len(known)]))
    whole = sorted({array.buffer.address: array.extent for array in known}.values())
    halves = [half for start, end in whole for half in ((start, start + N), (start + N, end))]
    for extents in (whole, halves, [(1, 1), *whole[1:]], [(5, 9)], []):
        key, read = outlined(recording, extents)
        outline = read()
        touched = (declared(recording, node) for node in range(len(recording)))
        assert [each.users for each in requests_of(extents, touched)] == outline.users
        assert recording.dependencies() == outline.dependencies
        for node, source, target in outline.in_place:
            pieces = declared(recording, node)
            assert {extents[source], extents[target]} <= {(start, end) for start, end, _ in pieces}
        assert outline_of(key, len(extents)) == outline


def test_room_is_made_for_all_that_is_told(stream):
    """A node that touches more extents than there is room for at first."""
    x = hiprt.zeros(N)
    recording = Recording()
    with recording.record(stream), hiprt.use_stream(stream):
        scale(x, 2.0)
    extents = [(x.extent[0] + i, x.extent[0] + i + 1) for i in range(4 * N)]
    _, read = outlined(recording, extents)
    assert read().users == [(0,)] * 4 * N


def test_buffers_that_are_not_there(stream):
    """The core refuses a declaration of them."""
    x = hiprt.zeros(N)
    recording = Recording()
    with recording.record(stream), hiprt.use_stream(stream):
        kernels.add(x, x)
    kernel = recording.raw(0).kernel
    for buffer, sources in ((3, 1), (0, 1 << 3), (64, 0)):
        with pytest.raises(hiprt.HipError, match="no such buffer"):
            core.call(core.lib.hiprt_kernel_lie_over(kernel, buffer, sources))
