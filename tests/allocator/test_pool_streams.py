"""Pool: what other streams may have and when, limits, who holds memory, threads."""

import gc
import itertools
import threading

import pytest
from helpers.gate import Gate

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import Pool
from hiprt.buffer import Buffer
from hiprt.errors import HipError, OutOfMemoryError

addresses = itertools.count(1 << 20, 1 << 24)


def source(nbytes, stream):
    """Addresses that nobody touches."""
    return Buffer(next(addresses), nbytes, 0)


@pytest.fixture
def gates():
    """Two streams that can be held back."""
    made = [Gate(hiprt.Stream()) for _ in range(2)]
    yield made
    for gate in made:
        gate.open()
    for gate in made:
        gate.close()
        gate.stream.close()


def parts(pool, stream):
    """Return two buffers, of 1536 and 512 bytes, that share a chunk."""
    whole = pool.allocate(2048, stream)
    address = whole.address
    del whole
    low, high = pool.allocate(1536, stream), pool.allocate(512, stream)
    assert (low.address, high.address) == (address, address + 1536)
    return low, high


def test_larger_block_is_split_and_merged():
    """A request takes its part of a block less than twice its size; neighbours that are free become one again."""
    pool, stream = Pool(source), hiprt.Stream()
    first = pool.allocate(2048, stream)
    address = first.address
    del first
    part, rest = pool.allocate(1536, stream), pool.allocate(512, stream)
    assert (part.address, rest.address) == (address, address + 1536)
    assert pool.stats().reserved == 2048
    del part, rest
    assert [block.nbytes for block in pool.blocks()] == [2048]
    assert pool.allocate(512, stream).address != address, "a block of four times the size stays whole"


def test_other_stream_gets_a_block_behind_its_event(gates):
    """Not before what was launched ahead of the free is done; then without another allocation."""
    pool, (a, b) = Pool(source), gates
    first = pool.allocate(512, a.stream)
    address = first.address
    a.shut()
    del first
    others = [pool.allocate(512, b.stream) for _ in range(3)]
    assert address not in [buffer.address for buffer in others]
    a.open()
    assert pool.allocate(512, b.stream).address == address


def test_event_covers_only_what_was_freed_before_it(gates):
    """A block freed behind the event needs another one."""
    pool, (a, b) = Pool(source), gates
    first, second = pool.allocate(512, a.stream), pool.allocate(512, a.stream)
    addresses = first.address, second.address
    del first
    kept = [pool.allocate(512, b.stream)]
    a.open()
    a.shut()
    del second
    kept += [pool.allocate(512, b.stream) for _ in range(2)]
    assert [buffer.address for buffer in kept].count(addresses[0]) == 1
    assert addresses[1] not in [buffer.address for buffer in kept]


def test_merged_block_is_as_late_as_its_latest_part(gates):
    """A part whose event has happened does not vouch for its neighbour."""
    pool, (a, b) = Pool(source), gates
    low, high = parts(pool, a.stream)
    start = low.address
    del low
    pool.allocate(1536, b.stream)
    a.open()
    a.shut()
    del high
    assert pool.allocate(2048, b.stream).address != start
    assert pool.allocate(2048, a.stream).address == start


def test_parts_of_two_streams_do_not_merge(gates):
    """What another stream used last stays apart, so that its own stream does not get it unasked."""
    pool, (a, b) = Pool(source), gates
    low, high = parts(pool, a.stream)
    start = low.address
    del high
    kept = pool.allocate(512, b.stream)
    a.open()
    high = pool.allocate(512, b.stream)
    assert high.address == start + 1536 != kept.address
    b.shut()
    del high, low
    assert pool.allocate(2048, a.stream).address != start
    assert pool.trim() == 2 * 2048, "a chunk goes back whole, whoever used its parts"


def test_closed_stream_leaves_its_blocks_to_the_others(gates):
    """What was freed on it, before it was closed or after, does not pile up."""
    pool, stream = Pool(source), hiprt.Stream()
    first, second = pool.allocate(512, stream), pool.allocate(512, stream)
    addresses = {first.address, second.address}
    del first
    stream.close()
    del second
    pool.settle()
    assert {buffer.address for buffer in [pool.allocate(512, gates[0].stream) for _ in range(2)]} == addresses


@pytest.mark.parametrize("is_closed", [True, False])
def test_wrapper_that_goes_vouches_only_for_what_was_freed(gates, is_closed):
    """Somebody else's stream may still work with a buffer that is freed after its wrapper went."""
    owner = gates[0].stream
    pool, wrapper = Pool(source), hiprt.Stream.from_handle(owner.handle, owner=owner)
    first, second = pool.allocate(512, wrapper), pool.allocate(512, wrapper)
    addresses = first.address, second.address
    del first
    if is_closed:
        wrapper.close()
    del wrapper
    pool.settle()
    kept = [pool.allocate(512, gates[1].stream)]
    gates[0].shut()
    del second
    kept += [pool.allocate(512, gates[1].stream)]
    assert kept[0].address == addresses[0]
    assert kept[1].address != addresses[1]


def test_wrapper_that_just_goes_vouches_for_nothing(gates):
    """Its stream may have been destroyed before it, so nothing is asked of it: the memory waits for a trim."""
    pool, wrapper = Pool(source), hiprt.Stream.from_handle(gates[0].stream.handle)
    first = pool.allocate(512, wrapper)
    address = first.address
    del first, wrapper
    pool.settle()
    assert pool.allocate(512, gates[1].stream).address != address
    assert pool.stats().retiring >= 512
    assert pool.trim() == 1024


def test_lanes_of_closed_streams_do_not_pile_up():
    """A stream that has come and gone leaves nothing: its blocks go to the next, and with them its books."""
    pool = Pool(source)
    for _ in range(50):
        with hiprt.Stream() as stream:
            kept = pool.allocate(512, stream)
            del kept
        pool.settle()
    assert pool.stats().reserved == 512
    assert not pool.lanes


@pytest.mark.parametrize("way", ["in a cycle", "closed", "dropped"])
def test_streams_that_go_leave_their_blocks_however_they_go(gates, way):
    """Python's collector clears the weak references in a cycle of objects before it finalises any of them."""
    pool, stream = Pool(source), hiprt.Stream()
    first = pool.allocate(512, stream)
    address = first.address
    del first
    if way == "in a cycle":
        stream.itself = stream
    elif way == "closed":
        stream.close()
    del stream
    gc.collect()
    pool.settle()
    assert not pool.lanes
    assert pool.allocate(512, gates[0].stream).address == address


def test_work_on_a_closed_stream_is_an_error_that_says_so():
    """Its handle names nothing any more, and may be another stream's by now."""
    x, stream = hiprt.zeros(8), hiprt.Stream()
    step = graphs.Step(lambda: kernels.add(x, 1.0), stream=stream)
    step()
    step()
    stream.close()
    event = hiprt.Event()

    def block():
        with graphs.step("block", stream=stream):
            kernels.add(x, 1.0)

    def current():
        with hiprt.use_stream(stream):
            kernels.add(x, 1.0)

    arrays = lambda: x.numpy(stream), lambda: hiprt.zeros(8, stream=stream)
    events = lambda: event.record(stream), lambda: event.wait(stream)
    for work in (step, block, current, stream.synchronize, *arrays, *events):
        with pytest.raises(HipError, match=r"HIPRT_E_CLOSED.* stream is closed"):
            work()
    with hiprt.Stream() as other:
        step.stream = other
        assert (step().numpy(other) == 1).all()
    assert step.rungs["instantiate"] == 1


def test_a_step_needs_no_more_memory_for_more_streams():
    """A server may open a stream for each request: a step that is recorded at each call has one piece of memory."""
    x = hiprt.array([1.0] * 64)
    step = graphs.Step(lambda: kernels.add(kernels.add(x, 1.0), 1.0), keep=False)
    sizes = []
    for _ in range(8):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            assert (step().numpy() == 3).all()
            sizes.append(step.nbytes)
    assert len(set(sizes)) == 1
    assert step.rungs["replay"] == 7


def test_step_memory_is_one_piece_for_all_streams(gates):
    """Launches of a step wait for one another, so any stream gets its free blocks at once; it does not trim itself."""
    pool, (a, b) = Pool(source), gates
    step = Pool(pool.allocate)
    first = step.allocate(512, a.stream)
    address = first.address
    a.shut()
    del first
    again = step.allocate(512, b.stream)
    assert again.address == address
    del again
    a.open()
    with hiprt.flags.override(alloc_limit_mb=1), pytest.raises(OutOfMemoryError):
        step.allocate(1 << 20, a.stream)
    assert step.allocate(512, a.stream).address == address


def test_limit_trims_then_waits_then_raises(gates):
    """HIPRT_ALLOC_LIMIT_MB: free memory goes back first, then other streams are waited for, then the error says who."""
    pool, (a, b) = Pool(source, "device"), gates
    with hiprt.flags.override(alloc_limit_mb=1):
        free = pool.allocate(1 << 20, a.stream)
        del free
        low = pool.allocate(900 << 10, a.stream)
        assert pool.stats().reserved <= 1 << 20
        del low
        pool.trim()
        whole = pool.allocate(1 << 20, a.stream)
        start = whole.address
        del whole
        low, high = pool.allocate(768 << 10, a.stream), pool.allocate(256 << 10, a.stream)
        a.shut()
        del high
        found = []
        thread = threading.Thread(target=lambda: found.append(pool.allocate(256 << 10, b.stream)))
        thread.start()
        a.open()
        thread.join()
        assert found[0].address == start + low.nbytes
        with pytest.raises(OutOfMemoryError, match=r"HIPRT_E_LIMIT.*HIPRT_ALLOC_LIMIT_MB") as caught:
            pool.allocate(512, b.stream)
    assert f"arrays of stream {a.stream.number} 786432, arrays of stream {b.stream.number} 262144" in str(caught.value)
    assert pool.allocate(512, b.stream).nbytes == 512


@pytest.mark.parametrize("most", [0, 1, 4])
def test_too_much_that_retires_is_waited_for(gates, most):
    """HIPRT_ALLOC_DEFER_MAX_MB: beyond it a request waits for other streams, and takes what they are done with."""
    pool, (a, b) = Pool(source), gates
    first = pool.allocate(3 << 20, a.stream)
    address = first.address
    del first
    assert pool.stats().retiring == 3 << 20
    with hiprt.flags.override(alloc_defer_max_mb=most):
        small = pool.allocate(512, b.stream)
        stats = pool.stats()
        large = pool.allocate(3 << 20, b.stream)
    is_over = most == 1
    assert (stats.drains, stats.retiring) == ((1, 0) if is_over else (0, 3 << 20))
    assert not is_over or large.address == address
    assert small.nbytes == 512


def test_error_names_the_step_that_holds(gates):
    """Memory behind a step's own pool is the step's."""
    pool = Pool(source)
    step = Pool(pool.allocate, "decode")
    kept = step.allocate(700 << 10, gates[0].stream)
    with hiprt.flags.override(alloc_limit_mb=1), pytest.raises(OutOfMemoryError, match="held by decode 7"):
        pool.allocate(1 << 20, gates[0].stream)
    assert kept.nbytes == 700 << 10


def test_impossible_size_is_out_of_memory(gates):
    """No wrap-around."""
    pool = Pool(source)
    for nbytes in ((1 << 60) + 1, (1 << 64) - 1):
        with pytest.raises(OutOfMemoryError):
            pool.allocate(nbytes, gates[0].stream)
    assert pool.stats().reserved == 0


def test_failing_source_reserves_nothing(gates):
    """Another error than exhaustion passes through."""

    def broken(nbytes, stream):
        raise KeyError(nbytes)

    pool = Pool(broken)
    with pytest.raises(KeyError):
        pool.allocate(512, gates[0].stream)
    assert pool.stats().reserved == 0


def test_threads_and_the_collector():
    """Finalisers run anywhere, in cycles too, without a deadlock; all comes back."""
    pool = Pool(source)

    def work():
        stream, kept = hiprt.Stream(), []
        for i in range(1500):
            kept.append(pool.allocate(512 * (1 + i % 7), stream))
            cycle = [pool.allocate(4096, stream)]
            cycle.append(cycle)
            if i % 3 == 0:
                kept.pop(i % len(kept))
            if i % 200 == 0:
                gc.collect()
                pool.trim()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert pool.stats().allocated == 0
    pool.trim()
    assert pool.stats().reserved == 0
    assert not pool.chunks


def test_buffer_outlives_its_pool_in_a_cycle():
    """The collector may finalise the pool before its buffers."""
    for _ in range(20):
        pool = Pool(source)
        pool.cycle = [pool, pool.allocate(512, hiprt.Stream())]
        del pool
        gc.collect()
