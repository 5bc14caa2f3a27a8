"""kernarg_null_crash: a failed allocation of kernel arguments is written through (rocm-systems#10021).

Ours: execs are replaced when their update budget is spent, long before (G7).
"""

import pytest
from helpers.child import crash
from helpers.hip_calls import Ints, add_fill, fill_params, instantiate, new_graph
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    target, graph = Ints(1), new_graph()
    node = add_fill(graph, [], target, 0)
    executable = instantiate(graph)
    for value in range(100):
        hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, value))


def test_process_dies_at_the_limit():
    assert "kernarg_null_crash: arguments written" in crash(raw, quirks="kernarg_null_crash,kernarg_limit=1024")


@pytest.mark.parametrize("workload", ["spent", "moved_often"])
def test_ours_lives(workload):
    result = ours(workload, quirks="kernarg_null_crash,kernarg_limit=8192")
    assert result["reasons"]["replaced: update budget spent"] > 0
