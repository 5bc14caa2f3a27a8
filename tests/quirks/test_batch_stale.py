"""batch_stale: setters of single nodes change the node's packet, not the batch of packets that is launched
(rocm-systems#1099, #1262).

Ours: the probe "patch takes effect" finds it, and updates are used instead.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, fill_params, instantiate, new_graph, ok, run, update
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    target, graph, newer = Ints(1), new_graph(), new_graph()
    node = add_fill(graph, [], target, 1)
    add_fill(newer, [], target, 3)
    executable = instantiate(graph)
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, 2)))
    run(executable)
    seen = [int(target.read()[0])]
    update(executable, newer)
    run(executable)
    return [*seen, int(target.read()[0])]


def test_setter_changes_nothing_that_is_launched():
    assert child(raw) == [2, 3]
    assert child(raw, quirks="batch_stale") == [1, 3]


def test_ours_updates_instead():
    result = ours(quirks="batch_stale")
    assert result["probes"]["patch takes effect"] != "ok"
    assert result["rungs"]["patch"] == 0
    assert result["rungs"]["update"] > 0
