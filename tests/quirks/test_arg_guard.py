"""arg_guard: arguments that cannot be read, or too few of them, are refused (the CPU device only).

Ours: passes every argument of the declaration, of the declared size.
"""

import numpy as np
from helpers.child import child
from helpers.hip_calls import E, Ints, KernelCall, error, new_graph
from quirks.workloads import ours
from rocm.bindings import hip

UNMAPPED = 16


def raw():
    call = KernelCall("scale_add", Ints(8), Ints(8), 3, 1, 8)
    good = error(hip.hipGraphAddKernelNode(new_graph(), None, 0, call.params))
    call.pointers[2] = np.uint64(UNMAPPED)
    bad = error(hip.hipGraphAddKernelNode(new_graph(), None, 0, call.params))
    return good == E.hipSuccess, int(bad)


def test_unreadable_arguments_are_refused():
    assert child(raw, quirks="arg_guard") == [True, 1]


def test_ours_passes_whole_arguments():
    assert ours(quirks="arg_guard")["rungs"]["eager"] == 0
