"""update_no_flush: the first launch after a change may still see the old arguments.

Ours: the probes patch and update many times; rungs that fail now and then are not used.
"""

import pytest
from helpers.child import child
from helpers.hip_calls import Ints, add_fill, fill_params, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip


def raw(changes):
    target, graph = Ints(1), new_graph()
    node = add_fill(graph, [], target, 0)
    executable, seen = instantiate(graph), []
    for value in range(1, changes + 1):
        ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, value)))
        for _ in range(2):
            run(executable)
            seen.append(int(target.read()[0]))
    return seen


def test_first_launch_is_stale():
    assert child(raw, 3, quirks="update_no_flush,probability=1") == [0, 1, 1, 2, 2, 3]


def test_it_does_not_show_every_time():
    seen = child(raw, 200, quirks="update_no_flush,probability=0.5")
    assert seen[1::2] == list(range(1, 201))
    assert 0 < sum(first != value for first, value in zip(seen[::2], range(1, 201), strict=True)) < 200


@pytest.mark.parametrize("probability", [1, 0.5, 0.2])
def test_ours_uses_neither_patch_nor_update(probability, tmp_path):
    # A cache of its own: what the probes find here is a matter of chance.
    quirks = f"update_no_flush,probability={probability}"
    result = ours("kernels", "issued", "spent", "moved", quirks=quirks, HIPRT_CACHE_DIR=str(tmp_path))
    assert result["probes"]["patch takes effect"] != "ok"
    assert result["probes"]["update takes effect"] != "ok"
    assert result["rungs"]["patch"] == result["rungs"]["update"] == 0
