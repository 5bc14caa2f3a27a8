"""Freed memory of pools and graphs is filled with 0xFB when the free runs in its stream."""

from helpers.child import child
from helpers.hip_calls import Gate, Ints, add_copy, add_fill, handles, instantiate, new_graph, ok, run
from helpers.kernels import scale
from quirks.decode import decode_on_driver, driver_memory, expected
from quirks.graph_memory import allocation
from quirks.pool_calls import MB, allocate, allow_reuse_of_finished, free, new_pool, new_stream, words
from rocm.bindings import hip

import hiprt
from hiprt import graphs
from hiprt.allocator import default_pool

QUIRK = "poison_on_free"


def pool_memory():
    """What work before the free reads, the block while the free waits, and the block's next owner."""
    pool, stream, gate, out = new_pool(), new_stream(), Gate(), Ints(4)
    memory = allocate(pool, stream)
    ok(hip.hipMemsetD32Async(memory, 7, MB // 4, stream))
    ok(hip.hipStreamSynchronize(stream))
    gate.hold(stream)
    ok(hip.hipMemcpyDtoDAsync(out.memory, memory, 16, stream))
    free(memory, stream)
    waiting = words(memory)
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    return [out.read().tolist(), waiting, words(allocate(pool, stream))]


def freed_at_once():
    """The next owner of a block that hipFree gave back."""
    pool, stream = new_pool(), new_stream()
    memory = allocate(pool, stream)
    ok(hip.hipMemsetD32Async(memory, 7, MB // 4, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipFree(memory))
    allow_reuse_of_finished(pool)
    return words(allocate(pool, stream))


def graph_memory():
    """What two launches of a graph find in the memory that it allocates, fills and frees."""
    graph, out, found = new_graph(), Ints(4), []
    node, address = allocation(graph)
    seen = add_copy(graph, [node], out, address, 4)
    filled = add_fill(graph, [seen], address, 5, n=4)
    ok(hip.hipGraphAddMemFreeNode(graph, *handles([filled]), address))
    executable = instantiate(graph)
    run(executable)
    for _ in range(2):
        run(executable)
        found.append(hex(out.read().view("uint32")[0]))
    return found


def replay_after_drop(is_kept):
    """Whether a step is right that is launched again after its input was dropped; without guard G1, if so asked."""
    default_pool.source = driver_memory
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        inputs = [hiprt.full(1000, 3.0)]
        step = graphs.Step(lambda: scale(inputs[0], 2.0), name="replayed")
        step()
        inputs.clear()
        if not is_kept:
            step.recordings[0].keep.clear()
        default_pool.trim()
        return bool((step().numpy() == 6.0).all())


def test_pool_memory_is_overwritten_in_stream_order():
    assert child(pool_memory, quirks=QUIRK) == [[7] * 4, ["0x7"] * 4, ["0xfbfbfbfb"] * 4]
    assert child(pool_memory) == [[7] * 4, ["0x7"] * 4, ["0x7"] * 4]


def test_hip_free_overwrites_too():
    assert child(freed_at_once, quirks=QUIRK) == ["0xfbfbfbfb"] * 4


def test_graph_memory_is_overwritten():
    assert child(graph_memory, quirks=QUIRK) == ["0xfbfbfbfb"] * 2
    assert child(graph_memory) == ["0x5"] * 2


def test_graphs_keep_what_they_read():
    assert child(replay_after_drop, True, quirks=QUIRK)
    assert not child(replay_after_drop, False, quirks=QUIRK)


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
