"""A graph that allocates can be instantiated once ever (CLR hip_graph.cpp:1302)."""

from helpers.child import child
from helpers.hip_calls import instantiate, ok
from quirks.decode import decode, expected
from quirks.graph_memory import allocating_graph, used_high
from quirks.workloads import report
from rocm.bindings import hip

QUIRK = "alloc_node_once"


def instantiate_again():
    graph, _ = allocating_graph(5)
    ok(hip.hipGraphExecDestroy(instantiate(graph)))
    return hip.hipGraphInstantiateWithFlags(graph, 0)[0].name


def spend():
    """Steps whose execs are replaced again and again."""
    return [report(("spent", "in_flight")), used_high()]


def test_the_second_time_fails():
    assert child(instantiate_again, quirks=QUIRK) == "hipErrorNotSupported"
    assert child(instantiate_again) == "hipSuccess"


def test_execs_are_made_again():
    got, high = child(spend, quirks=QUIRK)
    assert got["wrong"] == []
    assert got["rungs"]["eager"] == 0
    assert got["rungs"]["instantiate"] > 2
    assert high == 0


def test_steps():
    assert child(decode, quirks=QUIRK) == expected()
