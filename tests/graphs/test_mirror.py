"""The mirror: what it copies, what it puts back, and what it never takes for what is held."""

import numpy as np
import pytest

import hiprt
from hiprt.graphs.launch import mirror as mirrors
from hiprt.graphs.launch.mirror import DEVICE_TO_HOST, HOST_TO_DEVICE, Mirror
from hiprt.graphs.launch.pieces import LARGEST, LARGEST_WRITTEN, Pieces

SIZE = 3 * LARGEST + 1000


@pytest.fixture
def memory():
    """Three arrays of several pieces each."""
    rng = np.random.default_rng(1)
    return [hiprt.array(rng.integers(0, 256, SIZE, np.uint8)) for _ in range(3)]


@pytest.fixture
def copies(monkeypatch):
    """The copies from and to the host: the kind, the address on the device and the size of each."""
    made, copy = [], hiprt.Stream.copy

    def noted(self, target, source, nbytes, kind, **named):
        made.append((kind, source if kind == DEVICE_TO_HOST else target, nbytes))
        copy(self, target, source, nbytes, kind, **named)

    monkeypatch.setattr(hiprt.Stream, "copy", noted)
    return made


def pieces_of(arrays, stream, written=()):
    """The pieces of some arrays, of which some are written."""
    cuts = [address for x in (*arrays, *written) for address in x.extent]
    return Pieces(sorted(x.extent for x in arrays), cuts, stream, [x.extent for x in written])


def hold(mirror, pieces, needed=False):
    """Hold pieces as they are, and return their fingerprints."""
    sums = pieces.fingerprints()
    mirror.hold(pieces, sums, np.full(len(pieces), needed))
    return sums


def poke(x, rng):
    """Change some bytes of an array."""
    at, value = int(rng.integers(0, x.size)), rng.integers(1, 256, 1, np.uint8)
    x[at : at + 1].set(x.numpy()[at : at + 1] + value)


def test_steps_in_turn_get_back_what_each_had(stream, memory):
    """Layouts share arrays, in whole or in part: what was copied last for one is never put back for another."""
    x, y, z = memory
    rng, mirror = np.random.default_rng(2), Mirror()
    parts = [((x[LARGEST : 2 * LARGEST],), ()), ((x, y), ()), ((x, z), (x,)), ((z, y), ())]
    layouts = [(arrays, pieces_of(arrays, stream, written)) for arrays, written in parts]
    for turn in range(40):
        arrays, pieces = layouts[0 if not turn else int(rng.integers(len(layouts)))]
        for _ in range(3):
            poke(memory[int(rng.integers(3))], rng)
        sums = hold(mirror, pieces, turn % 2 == 0)
        expected = [each.numpy() for each in arrays]
        for each in arrays:
            poke(each, rng)
        (changed,) = np.flatnonzero(pieces.fingerprints() != sums).reshape(1, -1)
        assert not len(mirror.restore(pieces, sums, changed))
        for each, was in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(each.numpy(), was)


def test_pieces_that_two_layouts_have_are_copied_once(stream, memory, copies):
    """Pieces made anew for the same memory have the copies too."""
    x, y, z = memory
    mirror = Mirror()
    hold(mirror, pieces_of((x[LARGEST : 2 * LARGEST],), stream))
    hold(mirror, pieces_of((x, y), stream))
    hold(mirror, pieces_of((x, z), stream))
    assert mirror.nbytes == 3 * SIZE
    del copies[:]
    for arrays in ((x, y), (y, x), (x, z)):
        pieces = pieces_of(arrays, stream)
        hold(mirror, pieces)
    assert max(nbytes for _, _, nbytes in copies) <= 16 * len(pieces)  # where they are, and fingerprints


def test_content_of_another_time_is_not_put_back(stream, memory):
    """A step finds what it held written over by what another step held, and says so."""
    x = memory[0]
    mirror, rng = Mirror(), np.random.default_rng(3)
    one, other = pieces_of((x,), stream), pieces_of((x,), stream)
    before = hold(mirror, one)
    poke(x, rng)
    now = hold(mirror, other)
    (changed,) = np.flatnonzero(before != now)
    assert mirror.restore(one, before, np.arange(len(one))).tolist() == [changed]


def test_only_written_pieces_that_changed_are_copied(stream, memory, copies):
    """A row of a cache takes a piece of 16 KiB to the host and back; neighbours go in one copy."""
    x, cache = memory[:2]
    mirror, pieces = Mirror(), pieces_of((x, cache), stream, (cache,))
    sums = hold(mirror, pieces)
    start = cache.address + 5 * LARGEST_WRITTEN
    for first, last in ((5, 5), (5, 7)):
        low, high = first * LARGEST_WRITTEN + 100, last * LARGEST_WRITTEN + 200
        before, now = cache.numpy(), cache.numpy()
        now[low:high] += 1
        cache.set(now)
        del copies[:]
        (changed,) = np.flatnonzero(pieces.fingerprints() != sums).reshape(1, -1)
        assert not len(mirror.restore(pieces, sums, changed))
        nbytes = (last - first + 1) * LARGEST_WRITTEN
        assert [each for each in copies if each[0] == HOST_TO_DEVICE] == [(HOST_TO_DEVICE, start, nbytes)]
        np.testing.assert_array_equal(cache.numpy(), before)
        cache.set(now)
        del copies[:]
        sums = hold(mirror, pieces)
        assert [each[1:] for each in copies if each[2] != sums.nbytes] == [(start, nbytes)]
    assert mirror.nbytes == 2 * SIZE


def test_copies_end_where_memory_or_their_size_does(stream, memory, copies, monkeypatch):
    """Neighbours of two allocations are not copied together, nor more than a copy takes."""
    x = memory[0]
    monkeypatch.setattr(mirrors, "LARGEST", LARGEST)
    middle = x.address + LARGEST + 500
    pieces = Pieces([(x.address, middle), (middle, x.address + SIZE)], [], stream)
    mirror = Mirror()
    del copies[:]
    sums = hold(mirror, pieces)
    mirror.restore(pieces, sums, np.arange(len(pieces)))
    for kind in (DEVICE_TO_HOST, HOST_TO_DEVICE):
        found = [(start, start + nbytes) for of, start, nbytes in copies if of == kind and nbytes != sums.nbytes]
        assert max(end - start for start, end in found) < 2 * LARGEST
        assert not any(start < middle < end for start, end in found)
        assert sum(end - start for start, end in found) == SIZE


def test_what_other_steps_reach_goes_first(stream, memory):
    """Beyond the limit a step drops the copies of others, and keeps those that it shares with them."""
    x, y, z = memory
    mirror = Mirror()
    mirror.limit = 2 * SIZE
    one, other = pieces_of((x, y), stream), pieces_of((x, z), stream)
    for pieces in (one, other, one):
        sums = hold(mirror, pieces)
        assert mirror.nbytes == 2 * SIZE
        assert len(mirror.table) == len(pieces)
        assert not len(mirror.restore(pieces, sums, np.arange(len(pieces))))
    assert len(mirror.restore(other, other.fingerprints(), np.arange(len(other)))) == len(other) // 2


def test_beyond_the_limit_only_what_is_needed_is_held(stream, memory):
    """What must be held counts first, then the first pieces, as far as the limit goes; nothing is looked up again."""
    x, y = memory[:2]
    mirror, pieces = Mirror(), pieces_of((x, y), stream)
    mirror.limit = 2 * LARGEST + SIZE % LARGEST
    needed = np.zeros(len(pieces), np.bool_)
    needed[[0, -1]] = True
    known = []
    for _ in range(3):
        sums = pieces.fingerprints()
        mirror.hold(pieces, sums, needed)
        known.append((mirror.table, mirror.rows[pieces]))
        lost = mirror.restore(pieces, sums, np.arange(len(pieces)))
        assert lost.tolist() == list(range(2, len(pieces) - 1))
        assert mirror.nbytes == mirror.limit
        poke(x, np.random.default_rng(4))
        poke(y[SIZE - 1 :], np.random.default_rng(4))
    assert all(table is known[0][0] and rows is known[0][1] for table, rows in known)


def test_stale_copies_make_room_for_what_is_needed(stream, memory):
    """A copy that is only good to have, of what has changed, goes where the limit is passed otherwise."""
    x, y = memory[:2]
    mirror, pieces = Mirror(), pieces_of((x, y), stream)
    mirror.limit = SIZE
    first = pieces.starts < (x if x.address < y.address else y).extent[1]
    hold(mirror, pieces)
    for each in (x, y):
        each.set(~each.numpy())
    sums = pieces.fingerprints()
    mirror.hold(pieces, sums, ~first)
    assert mirror.restore(pieces, sums, np.arange(len(pieces))).tolist() == np.flatnonzero(first).tolist()
    assert mirror.nbytes == SIZE


def test_a_copy_that_failed_is_not_put_back(stream, memory, monkeypatch):
    """The memory of the copy holds something, and nobody knows what."""
    x = memory[0]
    mirror, pieces = Mirror(), pieces_of((x,), stream)
    before = hold(mirror, pieces)
    x.set(~x.numpy())
    sums = pieces.fingerprints()

    def fail(*args, **named):
        raise hiprt.HipError(719, "hipErrorLaunchFailure", "hipMemcpyAsync", "")

    with monkeypatch.context() as patched:
        patched.setattr(hiprt.Stream, "copy", fail)
        with pytest.raises(hiprt.HipError):
            mirror.hold(pieces, sums, np.ones(len(pieces), np.bool_))
    for known in (before, sums):
        assert len(mirror.restore(pieces, known, np.arange(len(pieces)))) == len(pieces)
    hold(mirror, pieces)
    assert not len(mirror.restore(pieces, sums, np.arange(len(pieces))))
