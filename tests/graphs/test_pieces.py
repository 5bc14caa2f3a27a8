"""Pieces: where memory is cut, and what a fingerprint is of."""

import numpy as np

import hiprt
from hiprt.graphs.launch.pieces import LARGEST, LARGEST_WRITTEN, SOURCE, Pieces
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program


def sizes(pieces):
    """The sizes of pieces that follow each other without a gap."""
    np.testing.assert_array_equal(pieces.starts[1:], pieces.ends[:-1])
    return (pieces.ends - pieces.starts).tolist()


def test_memory_that_is_written_is_cut_finer(stream):
    """What lies around it, and is only read, is not; a bounded size counts from where the extent begins."""
    x = hiprt.zeros(2 * LARGEST + 1000, np.uint8)
    start, low, high = x.address, x.address + LARGEST + 100, x.address + LARGEST + 3 * LARGEST_WRITTEN + 50
    pieces = Pieces([x.extent], [low, high], stream, [(low, high)])
    written = [LARGEST_WRITTEN - 100, LARGEST_WRITTEN, LARGEST_WRITTEN, 50]
    assert sizes(pieces) == [LARGEST, 100, *written, LARGEST - 3 * LARGEST_WRITTEN - 50, 1000]
    assert np.flatnonzero(pieces.within([(low, high)])).tolist() == [2, 3, 4, 5]
    assert int(pieces.starts[0]) == start
    assert set(pieces.owners.tolist()) == {0}


def test_other_cuts_leave_the_pieces_behind_them_alike(stream):
    """Steps that use one buffer in several ways share copies of most of it."""
    x = hiprt.zeros(4 * LARGEST, np.uint8)
    layouts = [Pieces([x.extent], [x.address + at], stream) for at in (100, LARGEST + 7)]
    one, other = (set(zip(each.starts.tolist(), each.ends.tolist(), strict=True)) for each in layouts)
    assert len(one & other) == 2


def test_extents_that_touch_have_pieces_of_their_own(stream):
    """They may be two allocations."""
    x = hiprt.zeros(1000, np.uint8)
    middle = x.address + 300
    pieces = Pieces([(x.address, middle), (middle, x.address + 1000)], [x.address + 600, x.address + 5000], stream)
    assert sizes(pieces) == [300, 300, 400]
    assert pieces.owners.tolist() == [0, 1, 1]


def test_a_gap_between_extents_is_no_piece(stream):
    x = hiprt.zeros(1000, np.uint8)
    pieces = Pieces([(x.address, x.address + 10), (x.address + 20, x.address + 30)], [], stream)
    assert (pieces.ends - pieces.starts).tolist() == [10, 10]
    assert len(Pieces([], [x.address], stream)) == 0


def test_a_fingerprint_is_of_its_piece_alone(stream):
    """Whatever its size and alignment: what lies beside it may change."""
    rng = np.random.default_rng(1)
    content = rng.integers(0, 256, 400_000, np.uint8)
    x = hiprt.array(content)
    cuts = sorted(x.address + int(n) for n in rng.integers(0, x.size, 300))
    pieces = Pieces([x.extent], cuts, stream)
    before = pieces.fingerprints()
    for other in range(2):
        changed = content.copy()
        for i in range(other, len(pieces), 2):
            changed[int(pieces.starts[i]) - x.address : int(pieces.ends[i]) - x.address] ^= 0x55
        x.set(changed)
        np.testing.assert_array_equal((pieces.fingerprints() != before)[other::2], True)
        np.testing.assert_array_equal((pieces.fingerprints() != before)[1 - other :: 2], False)


def test_a_thread_has_several_loads_of_16_bytes_on_their_way_on_amd_gpus():
    """The compiler waits for none of the first four before it has asked for all."""
    assembly = Compiler().assembly(hip_program(SOURCE, "fingerprint.hip"), "fingerprint", "gfx942")
    loads = assembly.split("flat_load_dwordx4")
    assert len(loads) > 4
    assert not any("s_waitcnt" in between for between in loads[1:4])
