"""What an evaluation computes, keeps and launches."""

import threading

import numpy as np
import pytest
from helpers.gate import Gate

from hiprt import Stream, use_stream
from hiprt.allocator import default_pool
from hiprt.graphs.trace import core, lazy, prefixes
from hiprt.metal_compat import mlx as mx


def test_nothing_runs_before_it_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(lazy, "cut", lambda values: asked.append(values) or cut(values))
    cut = core.cut
    x = mx.add(mx.array([1.0, 2.0]), 1)
    y = mx.multiply(x, 3)
    assert not asked
    assert lazy.held(y.value) is None
    assert y.tolist() == [6, 9]
    assert x.tolist() == [2, 3]
    assert len(asked) == 1  # x was held by its name: its value was kept


def test_a_structure_that_comes_again_is_replayed():
    x = mx.array(np.arange(4, dtype=np.float32))
    known = set(lazy.known)
    factors = [mx.array(float(i)) for i in range(6)]
    for i, factor in enumerate(factors):
        y = mx.add(mx.multiply(x, factor), 2)
        mx.eval(y)
        assert y.tolist() == [2 + i * j for j in range(4)]
    (key,) = set(lazy.known) - known
    rungs = lazy.known[key].step.rungs
    # The factor was at another address the second time already, so that the graph has a place for it at once.
    assert (rungs["instantiate"], rungs["replay"]) == (1, 4)
    assert sum(rungs.values()) == 5


@pytest.mark.parametrize("read", [mx.array.item, mx.array.numpy, lambda y: mx.eval(y)], ids=["item", "numpy", "eval"])
def test_a_read_waits_for_no_later_evaluation(read):
    with use_stream(Stream()) as stream:
        gate = Gate(stream)
        y = mx.add(mx.array([1.0]), 1)
        mx.async_eval(y)
        gate.shut()
        z = mx.add(y, 1)
        mx.async_eval(z)
        reader = threading.Thread(target=within, args=(stream, read, y))
        reader.start()
        reader.join(60)
        is_read = not reader.is_alive()
        gate.open()
        reader.join()
        assert is_read
        assert (y.item(), z.item()) == (2, 3)
        gate.close()


def within(stream, call, *args):
    """Call a function in a thread that launches on a stream."""
    with use_stream(stream):
        call(*args)


def test_positions_share_an_upload():
    """Each upload waits for the device."""
    first, second = (prefixes.position(n) for n in (7001, 7002))
    assert [lazy.held(each).numpy().tolist() for each in (first, second)] == [[7001], [7002]]
    assert lazy.held(first).buffer is lazy.held(second).buffer
    with pytest.raises(OverflowError):
        prefixes.position(2**31)


def test_results_of_one_op_are_not_computed_from_what_was_freed():
    x = mx.array(np.arange(6, dtype=np.float32))
    first, rest = mx.lazy.apply(lambda v: (v[:2], v[2:]), mx.add(x, 1))
    del x
    assert first.tolist() == [1, 2]
    assert rest.tolist() == [3, 4, 5, 6]


def test_a_file_of_mlx_without_metadata(tmp_path):
    """MLX writes null where it is given no metadata."""
    header = b'{"__metadata__":null,"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    file = tmp_path / "x.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + np.float32(3).tobytes())
    (name, found), metadata = *mx.load(str(file)).items(), mx.load(str(file), return_metadata=True)[1]
    assert (name, found.tolist(), metadata) == ("x", [3], {})


def test_the_limit_of_the_cache_is_kept():
    before = mx.set_cache_limit(0)
    try:
        a = mx.zeros((4096,)) + 1
        mx.eval(a)
        del a
        mx.eval(mx.zeros((4,)) + 1)
        reserved = default_pool.stats().reserved
        b = mx.zeros((1 << 22,)) + 2
        mx.eval(b)
        del b
        mx.get_cache_memory()
        assert default_pool.stats().reserved <= reserved  # free blocks may share a chunk with others
        assert mx.set_cache_limit(1 << 30) == 0
        mx.eval(mx.zeros((1 << 22,)) + 3)
        assert mx.get_cache_memory() >= 1 << 24
    finally:
        mx.set_cache_limit(before)


def test_views_of_small_arrays_are_their_own():
    """A program that comes again with another small array takes it from a cell, which no result may show."""
    for view in (lambda a: a.reshape(2, 2), lambda a: a.T[1:], lambda a: mx.broadcast_to(a, (2, 4))):
        arrays = [view(mx.array([10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3])) for i in range(6)]
        seen = [each.tolist() for each in arrays]
        assert len({str(each) for each in seen}) == 6
        assert [each.tolist() for each in arrays] == seen


def test_views_and_results_of_small_arrays_in_one_evaluation():
    made = []
    for i in range(6):
        x = mx.array([1.0 * i, 2.0 * i, 3.0 * i, 4.0 * i])
        view, total = x.reshape(2, 2), mx.sum(x * 2)
        mx.eval(view, total)
        made.append((view, total))
    for i, (view, total) in enumerate(made):
        assert view.tolist() == [[i, 2 * i], [3 * i, 4 * i]]
        assert total.item() == 20 * i
