"""params_by_pointer: nodes keep the caller's pointers until they are launched (HIP up to 5.2, before 5549c8cd1).

Ours: the probes "kernel nodes" and "arguments copied" find it, and no graph is used.
"""

from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip

POISON = -0x04040405  # 0xFB in every byte


def raw():
    x, y, graph = Ints(8, 2), Ints(8), new_graph()
    call = KernelCall("scale_add", y, x, 3, 1, 8)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, call.params))
    executable, seen = instantiate(graph), []
    for factor in (3, 5):
        call.cells[2].fill(factor)
        run(executable)
        seen.append(sorted(set(y.read().tolist())))
    return seen


def test_caller_s_storage_is_read_at_the_launch():
    assert child(raw) == [[7], [7]]
    assert child(raw, quirks="params_by_pointer") == [[7], [POISON]]


def test_ours_uses_no_graph():
    result = ours(quirks="params_by_pointer")
    assert result["probes"]["arguments copied"] != "ok"
    assert result["rungs"]["instantiate"] == 0
    assert result["rungs"]["eager"] > 0
