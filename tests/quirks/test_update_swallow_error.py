"""update_swallow_error: where kernel-argument memory ends, an update reports success and the old arguments stay
(rocm-systems#10714).

Ours: execs are replaced when their update budget is spent, long before (G7).
"""

import pytest
from helpers.child import child
from helpers.hip_calls import Ints, add_fill, fill_params, instantiate, library, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip


def raw(updates):
    target, graph = Ints(1), new_graph()
    node = add_fill(graph, [], target, 1)
    executable = instantiate(graph)
    for value in range(2, 2 + updates):
        ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, value)))
    run(executable)
    return int(target.read()[0]), library().hiprtCpuKernargBytes(int(executable))


def test_old_arguments_stay_at_the_limit():
    quirks = "update_swallow_error,kernarg_limit=1024"
    assert child(raw, 15, quirks=quirks) == [16, 1024]
    assert child(raw, 20, quirks=quirks) == [16, 1024]


@pytest.mark.parametrize("workload", ["spent", "moved_often"])
def test_ours_stays_below_the_limit(workload):
    result = ours(workload, quirks="update_swallow_error,kernarg_limit=8192")
    assert result["reasons"]["replaced: update budget spent"] > 0
