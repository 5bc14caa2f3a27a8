"""kernarg_bump_leak: every update takes new kernel-argument memory that only the exec's end returns
(rocm-systems#10713).

Ours: updates are counted, and a spent exec is replaced (G7).
"""

import numpy as np
import pytest
from helpers.child import child
from helpers.hip_calls import Ints, add_fill, error, fill_params, instantiate, library, new_graph, run, update
from helpers.kernels import scale
from quirks.workloads import CHANGES, N, ours
from rocm.bindings import hip

import hiprt
from hiprt import graphs


def raw(updates):
    """Bytes after setters and after updates of the whole, and the last status and result."""
    target, graph = Ints(1), new_graph()
    node = add_fill(graph, [], target, 0)
    executable, status = instantiate(graph), 0
    for value in range(1, updates + 1):
        status = error(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, value)))
    after_setters = library().hiprtCpuKernargBytes(int(executable))
    for _ in range(updates):
        update(executable, graph)
    run(executable)
    return after_setters, library().hiprtCpuKernargBytes(int(executable)), int(status)


def moves():
    """How many calls with other arrays were wrong, and how many changes, when the budget is too large to help."""
    arrays = [hiprt.array(np.full(N, i, np.float32)) for i in range(CHANGES)]
    step = graphs.Step(lambda a: scale(a, 2.0), moves=True)
    wrong = sum(float(step(array).numpy()[0]) != 2 * i for i, array in enumerate(arrays))
    return wrong, step.rungs["patch"]


def test_arguments_pile_up():
    assert child(raw, 10) == [64, 64, 0]
    assert child(raw, 10, quirks="kernarg_bump_leak") == [64 + 640, 64 + 1280, 0]


def test_a_failure_at_the_limit_is_reported():
    assert child(raw, 10, quirks="kernarg_bump_leak,kernarg_limit=512") == [512, 512, 2]


@pytest.mark.parametrize("workload", ["spent", "moved_often"])
def test_ours_replaces_spent_execs(workload):
    result = ours(workload, quirks="kernarg_bump_leak,kernarg_limit=8192")
    assert result["reasons"]["replaced: update budget spent"] > 0
    assert result["rungs"]["eager"] == 0


def test_ours_discards_an_exec_that_cannot_be_moved():
    wrong, patched = child(moves, quirks="kernarg_bump_leak,kernarg_limit=8192")
    assert wrong == 0
    assert patched > CHANGES // 2
