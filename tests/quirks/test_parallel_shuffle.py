"""parallel_shuffle: other streams' work comes between the nodes of a launch, as on hardware.

Ours: every dependency is an edge, an event or the order of one stream.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip

LAUNCHES = 300


def raw():
    """What another stream sees while a graph writes 1, then 2."""
    x, seen, graph = Ints(1, 2), Ints(LAUNCHES), new_graph()
    add_fill(graph, [add_fill(graph, [], x, 1)], x, 2)
    executable = instantiate(graph)
    streams = [ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2)]
    for i in range(LAUNCHES):
        ok(hip.hipGraphLaunch(executable, streams[0]))
        ok(hip.hipMemcpyDtoDAsync(int(seen) + 4 * i, x.memory, 4, streams[1]))
    return sorted(set(seen.read().tolist()))


def test_launches_are_interleaved():
    assert child(raw) == [2]
    assert child(raw, quirks="parallel_shuffle") == [1, 2]


def test_ours_has_every_edge():
    ours(quirks="parallel_shuffle")
