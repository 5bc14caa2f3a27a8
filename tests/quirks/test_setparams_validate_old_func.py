"""setparams_validate_old_func: a change of function is checked against the old one (hip_graph_internal.hpp:1282-1309).

Ours: the function is part of the key, so a node never changes it (G3).
"""

from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, error, instantiate, new_graph, run
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    x, y, graph = Ints(128, 2), Ints(128), new_graph()
    node = KernelCall("scale_add", y, x, 1, 1, 128, block=128).add(graph)
    executable = instantiate(graph)
    wide = KernelCall("small_block", y, grid=1, block=128)  # __launch_bounds__(64)
    status = error(hip.hipGraphExecKernelNodeSetParams(executable, node, wide.params))
    run(executable)
    return int(status), y.read()[:2].tolist()


def test_bad_launch_is_accepted_and_silent():
    assert child(raw) == [719, [3, 3]]
    assert child(raw, quirks="setparams_validate_old_func") == [0, [0, 0]]


def test_ours_never_changes_a_function():
    result = ours("functions", quirks="setparams_validate_old_func")
    assert result["rungs"]["instantiate"] == 2
