"""Reach: kept for an exec as long as its nodes reach the same memory."""

import gc

import numpy as np
from helpers.kernels import accumulate, functions, launch, scale

import hiprt
from hiprt import graphs
from hiprt.graphs.launch import verify as verification
from hiprt.graphs.launch.pieces import LARGEST, LARGEST_WRITTEN
from hiprt.graphs.launch.reach import addresses_of, reach_of
from hiprt.graphs.launch.verify import launch_verified


def recorded(function, stream):
    """The recording of a function."""
    recording = graphs.Recording()
    with hiprt.use_stream(stream), recording.record(stream):
        function()
    return recording


def test_launches_of_the_same_share_it(stream):
    """Also where the exec carries another recording of the same memory."""
    x, y = hiprt.zeros(100), hiprt.zeros(100)
    first, second = (recorded(lambda: accumulate(x, y), stream) for _ in range(2))
    exec_ = graphs.Exec(first, stream.device.index)
    reach = reach_of(exec_, stream)
    assert reach_of(exec_, stream) is reach
    exec_.patch(second)
    assert reach_of(exec_, stream) is reach


def test_another_stream_has_its_own(stream):
    """Fingerprints are in the order of a stream."""
    x, y = hiprt.zeros(100), hiprt.zeros(100)
    exec_ = graphs.Exec(recorded(lambda: accumulate(x, y), stream), stream.device.index)
    reach_of(exec_, stream)
    with hiprt.Stream() as other:
        assert reach_of(exec_, other).pieces.stream is other


def test_a_patch_to_other_memory_makes_it_anew(stream):
    x, y, z = (hiprt.full(100, float(i)) for i in range(3))
    exec_ = graphs.Exec(recorded(lambda: accumulate(x, y), stream), stream.device.index)
    reach_of(exec_, stream)
    exec_.patch(recorded(lambda: accumulate(x, z), stream))
    reach = reach_of(exec_, stream)
    assert reach.writes(0) == [z.extent]
    assert reach.reads(0) == [x.extent, z.extent]
    assert launch_verified(exec_, stream) is None
    np.testing.assert_array_equal(z.numpy(), np.full(100, 2, np.float32))
    np.testing.assert_array_equal(y.numpy(), np.full(100, 1, np.float32))


def test_a_patch_that_exchanges_two_arrays_makes_it_anew(stream):
    """The same memory, of which another part is written."""
    x, y = hiprt.zeros(100), hiprt.zeros(100)
    exec_ = graphs.Exec(recorded(lambda: accumulate(x, y), stream), stream.device.index)
    assert reach_of(exec_, stream).writes(0) == [y.extent]
    exec_.patch(recorded(lambda: accumulate(y, x), stream))
    assert reach_of(exec_, stream).writes(0) == [x.extent]


def test_another_access_to_the_same_memory_is_told_apart(stream):
    x, y = hiprt.zeros(100), hiprt.zeros(100)
    calls = [lambda: accumulate(x, y), lambda: launch("scale", x, y, 1.0, size=100), lambda: accumulate(x, y)]
    first, other, second = (addresses_of(recorded(each, stream)) for each in calls)
    assert first == second != other


def test_other_buffers_make_it_anew(stream):
    """The rest of a buffer is compared as well."""
    x, y, other = (hiprt.zeros(100) for _ in range(3))
    first, second = (recorded(lambda: accumulate(x, y), stream) for _ in range(2))
    exec_ = graphs.Exec(first, stream.device.index)
    before = len(reach_of(exec_, stream).pieces)
    second.keep.append(other.buffer)
    exec_.patch(second)
    assert len(reach_of(exec_, stream).pieces) > before


def test_what_is_written_is_cut_finer(stream):
    x, y = (hiprt.zeros(LARGEST // 2) for _ in range(2))
    exec_ = graphs.Exec(recorded(lambda: accumulate(x, y), stream), stream.device.index)
    reach = reach_of(exec_, stream)
    sizes = reach.pieces.ends - reach.pieces.starts
    assert set(sizes[reach.is_written].tolist()) == {LARGEST_WRITTEN}
    assert set(sizes[reach.is_declared & ~reach.is_written].tolist()) == {LARGEST}


def test_arguments_that_move_are_verified_where_they_are(stream):
    """A recording is patched in place: its nodes declare other memory from then on."""
    xs, outs = [hiprt.full(5000, float(i + 1)) for i in range(2)], [hiprt.zeros(5000) for _ in range(2)]
    step = graphs.Step(lambda x, out: accumulate(scale(x, 2.0), out), stream=stream, moves=True)
    with hiprt.flags.override(graph_verify=True, graph_slots=1, graph_rungs=("patch", "instantiate")):
        for i in range(6):
            step(xs[i % 2], outs[i % 2])
    for i, out in enumerate(outs):
        np.testing.assert_array_equal(out.numpy(), np.full(5000, 6.0 * (i + 1), np.float32))
    assert (step.rungs["instantiate"], step.rungs["patch"]) == (1, 5)


def test_nodes_are_decoded_until_they_are_known(stream, monkeypatch):
    """Not at each launch: a model has hundreds."""
    asked, known = [], verification.Memory.is_honest

    def is_honest(self, index, **named):
        asked.append(index)
        return known(self, index, **named)

    monkeypatch.setattr(verification.Memory, "is_honest", is_honest)
    x, y = hiprt.zeros(100), hiprt.full(100, 1.0)
    step = graphs.Step(lambda: accumulate(y, x), stream=stream)
    with hiprt.flags.override(graph_verify=True):
        step()
        assert asked
        del asked[:]
        step()
    assert not asked
    np.testing.assert_array_equal(x.numpy(), np.full(100, 2, np.float32))


def test_a_kernel_that_nobody_names_is_never_known(stream):
    """Its function is gone, and with it what was seen of it: it is watched at each launch."""
    known = functions()["accumulate"]
    x, y = hiprt.zeros(64), hiprt.zeros(64)

    def once():
        hiprt.Function(known.module, "accumulate", known.arguments)(stream, (1, 1, 1), (64, 1, 1), x, y, 64)

    exec_ = graphs.Exec(recorded(once, stream), stream.device.index)
    gc.collect()
    assert launch_verified(exec_, stream) is None
    assert not reach_of(exec_, stream).is_honest
