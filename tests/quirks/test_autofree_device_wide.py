"""A launch with AutoFreeOnLaunch frees the memory of every graph of the device (CLR hip_graph_internal.cpp:832)."""

from helpers.child import child
from helpers.hip_calls import Ints, instantiate, ok, run
from quirks.decode import decode, expected
from quirks.graph_memory import allocating_graph, used_high
from quirks.pool_calls import words
from rocm.bindings import hip

QUIRK = "autofree_device_wide"
AUTO_FREE = 1


def auto_free_beside():
    """What another graph's memory holds afterwards, how its user's free and its next launch go."""
    (mine, address), (theirs, _) = allocating_graph(5), allocating_graph(6)
    executable = instantiate(mine)
    run(executable)
    run(instantiate(theirs, AUTO_FREE))
    held = words(address)
    freed = hip.hipFreeAsync(address, None)[0].name
    ok(hip.hipStreamSynchronize(None))
    return [held, freed, hip.hipGraphLaunch(executable, None)[0].name]


def used_after_destruction():
    """Memory that was freed behind its user's back can be written: it is nobody else's."""
    mine, address = allocating_graph(5)
    executable = instantiate(mine)
    run(executable)
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(mine))
    run(instantiate(allocating_graph(6)[0], AUTO_FREE))
    out = Ints(4)
    ok(hip.hipMemcpyDtoDAsync(address, out.memory, 16, None))
    ok(hip.hipStreamSynchronize(None))
    return True


def decode_without_memory_nodes():
    return [decode(), used_high()]


def test_other_graphs_lose_their_memory():
    lost = [["0xfbfbfbfb"] * 4, "hipErrorInvalidValue", "hipSuccess"]
    assert child(auto_free_beside, quirks=f"{QUIRK},poison_on_free") == lost
    assert child(auto_free_beside) == [["0x5"] * 4, "hipSuccess", "hipSuccess"]


def test_lost_memory_can_be_used():
    assert child(used_after_destruction, quirks=QUIRK)


def test_steps_hold_no_graph_memory():
    assert child(decode_without_memory_nodes, quirks=QUIRK) == [expected(), 0]
