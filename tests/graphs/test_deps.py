"""Edges: RAW, WAR and WAW by byte range, complete and without redundant ones."""

import pytest
from helpers.kernels import functions, launch
from helpers.recorder import Program
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt import core, graphs

READ, WRITE, BOTH = 1, 2, 3


def ancestors(dependencies):
    """The set of nodes each node is ordered after."""
    closed = []
    for deps in dependencies:
        own = set(deps)
        for d in deps:
            own |= closed[d]
        closed.append(own)
    return closed


def conflict(a, b):
    """Whether two nodes touch a common byte and one of them writes it."""
    return any(x[0] < y[1] and y[0] < x[1] and (x[2] != READ or y[2] != READ) for x in a for y in b)


def is_barrier(node):
    """Whether a node is ordered against everything: it declares nothing that it writes."""
    return node == "barrier" or all(access == READ for _, _, access in node)


ranges = st.builds(
    lambda start, size, access: (start, start + size, access),
    st.integers(0, 60),
    st.integers(1, 20),
    st.sampled_from([READ, WRITE, BOTH]),
)
nodes = st.lists(st.one_of(st.lists(ranges, min_size=1, max_size=4), st.just("barrier")), max_size=40)


@settings(max_examples=400, deadline=None)
@given(nodes)
def test_random_programs_order_every_conflict_and_nothing_else(program):
    """Conflicting nodes are ordered; an edge exists only between nodes that conflict."""
    p = Program()
    for node in program:
        p.barrier() if node == "barrier" else p.kernel(*node)
    dependencies = p.dependencies()
    before = ancestors(dependencies)
    for j, later in enumerate(program):
        for i, earlier in enumerate(program[:j]):
            if is_barrier(earlier) or is_barrier(later) or conflict(earlier, later):
                assert i in before[j], (i, j, program)
    for j, deps in enumerate(dependencies):
        for i in deps:
            assert is_barrier(program[i]) or is_barrier(program[j]) or conflict(program[i], program[j]), (i, j)


@settings(max_examples=200, deadline=None)
@given(nodes)
def test_random_programs_have_no_redundant_edge(program):
    """No edge is implied by the others, while the program is at most 16 nodes wide."""
    p = Program()
    for node in program:
        p.barrier() if node == "barrier" else p.kernel(*node)
    dependencies = p.dependencies()
    before = ancestors(dependencies)
    everyone = range(len(program))
    beside = [sum(i not in before[j] and j not in before[i] for i in everyone) for j in everyone]
    if max(beside, default=0) > 8:
        return
    for j, deps in enumerate(dependencies):
        for i in deps:
            assert not any(i in before[other] for other in deps if other != i), (i, j)


def test_read_after_write_waits():
    """RAW."""
    p = Program()
    p.kernel((0, 8, WRITE))
    p.kernel((4, 6, READ), (64, 72, WRITE))
    assert p.dependencies() == [[], [0]]


def test_write_after_reads_waits_for_each_reader():
    """WAR: all readers since the last writer are kept, not the last writer alone."""
    p = Program()
    p.kernel((0, 8, WRITE))
    p.kernel((0, 4, READ), (100, 108, WRITE))
    p.kernel((4, 8, READ), (200, 208, WRITE))
    p.kernel((0, 8, WRITE))
    assert p.dependencies() == [[], [0], [0], [1, 2]]


def test_kernel_without_a_declared_output_is_a_barrier():
    """What it writes is not known, so it waits for everything and everything waits for it."""
    p = Program()
    p.kernel((0, 8, WRITE))
    p.kernel((64, 72, READ))
    p.kernel()
    p.kernel((128, 136, WRITE))
    assert p.dependencies() == [[], [0], [1], [2]]


def test_neighbouring_ranges_do_not_wait():
    """Byte ranges decide, not whole buffers."""
    p = Program()
    p.kernel((0, 8, WRITE))
    p.kernel((8, 16, WRITE))
    assert p.dependencies() == [[], []]


def test_undeclared_work_is_a_barrier():
    """An op without a declaration is ordered against everything."""
    p = Program()
    p.kernel((0, 8, WRITE))
    p.kernel((8, 16, WRITE))
    p.barrier()
    p.kernel((16, 24, WRITE))
    assert p.dependencies() == [[], [], [0, 1], [2]]


@pytest.mark.parametrize("count", [100_000])
def test_many_nodes_stay_linear_in_edges(count):
    """A 100,000-node chain over a shared step block has about one edge a node."""
    p = Program()
    p.kernel((1 << 40, (1 << 40) + 16, WRITE))
    for i in range(count):
        at = i * 512
        p.kernel((1 << 40, (1 << 40) + 16, READ), (at, at + 512, READ), (at + 512, at + 1024, WRITE))
    p.kernel((1 << 40, (1 << 40) + 16, WRITE))
    assert core.lib.hiprt_recorder_edges(p.recorder) == count + 1


def test_key_compares_each_dimension():
    """G3: a product of dimensions decides nothing; 2097152x1x1 is not 1024x2048x1."""
    a, b, c = Program(), Program(), Program()
    a.kernel((0, 8, WRITE), grid=(2097152, 1, 1))
    b.kernel((0, 8, WRITE), grid=(1024, 2048, 1))
    c.kernel((64, 72, WRITE), grid=(1024, 2048, 1))
    assert not a.same_key(b)
    assert b.same_key(c)
    assert b.key == c.key


@pytest.mark.parametrize("change", [{"function": 0x2000}, {"block": (64, 1, 1)}, {"shared": 64}, {"grid": (1, 2, 1)}])
def test_key_tells_kernels_apart(change):
    """G3: function, block, grid and shared memory are all in the key."""
    a, b = Program(), Program()
    a.kernel((0, 8, WRITE))
    b.kernel((0, 8, WRITE), **change)
    assert not a.same_key(b)


def test_key_tells_wiring_apart():
    """G3: same kernels, other edges."""
    a, b = Program(), Program()
    for p, second in ((a, (0, 8, READ)), (b, (64, 72, READ))):
        p.kernel((0, 8, WRITE))
        p.kernel(second, (128, 136, WRITE))
    assert not a.same_key(b)


def test_changed_counts_argument_bytes_only():
    """Scalars and addresses count as changed arguments; declared ends alone do not reach the kernel."""
    a, b = Program(), Program()
    a.kernel((0, 8, WRITE), scalar=1)
    a.kernel((64, 72, WRITE), scalar=1)
    b.kernel((0, 8, WRITE), scalar=1)
    b.kernel((64, 80, WRITE), scalar=2)
    first, nbytes = core.ffi.new("uint32_t *"), core.ffi.new("uint64_t *")
    assert core.lib.hiprt_recorder_changed(a.recorder, b.recorder, first, nbytes) == 1
    assert first[0] == 1
    assert 0 < nbytes[0] < core.lib.hiprt_recorder_bytes(b.recorder)


def test_a_slice_may_begin_with_a_barrier(stream):
    """A node without a payload, first in a recording."""
    recording = graphs.Recording()
    with recording.record(stream):
        stream.barrier()
    assert len(recording.copy()) == 1


def test_a_recording_holds_a_kernel_once(stream):
    """However many nodes launch it; recordings that take turns hold it each, and the last that goes lets go of it."""
    kernel, x = functions()["accumulate"].core, hiprt.zeros(64)
    before = core.lib.hiprt_kernel_references(kernel)

    def record(recording, count):
        with recording.record(stream):
            for _ in range(count):
                launch("accumulate", x, x, size=64)

    recordings = [graphs.Recording() for _ in range(2)]
    record(recordings[0], 100)
    assert core.lib.hiprt_kernel_references(kernel) == before + 1
    record(recordings[1], 1)
    recordings.append(recordings[0].copy())
    assert core.lib.hiprt_kernel_references(kernel) == before + 3
    recordings[0].run(stream)
    del recordings[:]
    assert core.lib.hiprt_kernel_references(kernel) == before


def test_chain_mode_is_program_order():
    """HIPRT_GRAPH_EDGES=chain: each node waits for the one before and for nothing else."""
    p = Program(edges=2)
    for at in (0, 64, 128):
        p.kernel((at, at + 8, WRITE))
    p.kernel((0, 8, READ), (256, 264, WRITE))
    assert p.dependencies() == [[], [0], [1], [2]]


def test_both_mode_keeps_data_edges_beside_the_chain():
    """HIPRT_GRAPH_EDGES=both: nothing is reduced, so the drawing shows every hazard."""
    p = Program(edges=3)
    p.kernel((0, 8, WRITE))
    p.kernel((64, 72, WRITE))
    p.kernel((0, 8, READ), (256, 264, WRITE))
    assert p.dependencies() == [[], [0], [0, 1]]


def issue(program, work):
    """Record nodes: each a list of ranges with the scalar of its kernel, or a barrier."""
    for node in work:
        program.barrier() if node == "barrier" else program.kernel(*node[0], scalar=node[1], ahead=node[2])


followed = st.lists(
    st.one_of(
        st.tuples(st.lists(ranges, min_size=1, max_size=3), st.integers(0, 3), st.sampled_from([None, 0, 1])),
        st.just("barrier"),
    ),
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(followed, followed, st.integers(0, 20), st.integers(1, 60), st.integers(0, 4))
def test_a_recording_that_follows_another_is_the_one_that_would_have_been(earlier, other, same, by, scalar):
    """The first nodes come again with other numbers, one elsewhere, others behind them: all is as without it."""
    work = [node if node == "barrier" else (node[0], node[1] + scalar, node[2]) for node in earlier]
    if same < len(work) and work[same] != "barrier":
        (start, end, access), *rest = work[same][0]
        work[same] = [(start + by, end + by, access), *rest], *work[same][1:]
    work = work[: same + 3] + other
    fresh, before, found = Program(), Program(), Program()
    issue(fresh, work)
    # Only the very same kernels are taken for the same work.
    issue(before, earlier)
    core.lib.hiprt_recorder_end(before.recorder)
    found.kernels = before.kernels
    core.lib.hiprt_recorder_follow(found.recorder, before.recorder)
    issue(found, work)
    core.lib.hiprt_recorder_end(found.recorder)
    assert found.dependencies() == fresh.dependencies()
    assert found.overlapping() == fresh.overlapping()
    assert found.key == fresh.key
    lib = core.lib
    assert lib.hiprt_recorder_arguments(found.recorder) == lib.hiprt_recorder_arguments(fresh.recorder)
    assert found.same_key(fresh)
    assert fresh.same_key(found)
    assert before.same_key(found) == before.same_key(fresh)
    assert bool(lib.hiprt_recorder_same_arguments(found.recorder, fresh.recorder))


def pieces(starts):
    """Return a strategy of ranges that begin here."""
    return st.tuples(starts, st.integers(1, 20)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


# Half of what is read lies where nothing is written.
places = st.one_of(pieces(st.integers(0, 60)), pieces(st.integers(100, 160)))
kernels = st.tuples(pieces(st.integers(0, 60)), st.lists(places, min_size=4, max_size=4), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(kernels, min_size=2, max_size=12))
def test_reads_of_other_memory_have_the_edges_that_they_would_have_had(program):
    """Four recordings, each of which follows the one before; some nodes read elsewhere in each."""
    before = None
    for turn in range(4):
        work = [
            ([(*written, WRITE), (*reads[turn if moves else 0], READ)], 0, 2 if moves else None)
            for written, reads, moves in program
        ]
        fresh, found = Program(), Program()
        issue(fresh, work)
        if before is not None:
            found.kernels = before.kernels
            core.lib.hiprt_recorder_follow(found.recorder, before.recorder)
        issue(found, work)
        core.lib.hiprt_recorder_end(found.recorder)
        assert found.dependencies() == fresh.dependencies()
        assert found.overlapping() == fresh.overlapping()
        assert found.key == fresh.key
        assert found.same_key(fresh)
        if before is not None:
            assert before.same_key(found) == before.same_key(fresh)
        before = found


@pytest.mark.parametrize("reads", [[200, 300], [200, 200]], ids=["apart", "shared"])
def test_other_memory_that_is_read_counts_towards_the_bound(reads):
    """A recording is full at the same node whether or not it follows another one."""
    before, found, fresh = Program(), Program(), Program()
    for _ in range(2):
        before.kernel((0, 8, WRITE), (100, 108, READ))
    core.lib.hiprt_recorder_end(before.recorder)
    found.kernels = before.kernels
    full = []
    for program in (fresh, found):
        core.lib.hiprt_recorder_limit(program.recorder, 0, 24)
        if program is found:
            core.lib.hiprt_recorder_follow(program.recorder, before.recorder)
        for at in reads:
            program.kernel((0, 8, WRITE), (at, at + 8, READ))
            full.append(bool(core.lib.hiprt_recorder_is_full(program.recorder)))
    assert full == 2 * [False, reads[0] != reads[1]]
