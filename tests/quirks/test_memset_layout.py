"""memset_layout: hipMemsetParams as the changelog of HIP 7.0 has it, which the headers contradict.

Ours: a fill node that is refused makes the step run eagerly (G8).
"""

import ctypes
import struct

import pytest
from helpers.child import child
from helpers.hip_calls import Ints, fill_params, instantiate, new_graph, raw, run
from quirks.workloads import ours

CHANGELOG = struct.Struct("<QQIIQQ")  # dst, pitch, value, elementSize, width, height


def fill(by_changelog):
    target, graph, out = Ints(4), new_graph(), ctypes.c_void_p()
    params = CHANGELOG.pack(int(target), 0, 7, 4, 4, 1) if by_changelog else fill_params(target, 7)
    status = raw("hipGraphAddMemsetNode", ctypes.byref(out), graph, None, 0, params)
    run(instantiate(graph))
    return int(status), target.read().tolist()


@pytest.mark.parametrize(
    ("quirks", "by_changelog"), [("", False), ("memset_layout=header", False), ("memset_layout=docs", True)]
)
def test_layout(quirks, by_changelog):
    assert child(fill, by_changelog, quirks=quirks) == [0, [7] * 4]


def test_headers_are_refused():
    assert child(fill, False, quirks="memset_layout") == [1, [0] * 4]


def test_ours_is_right():
    assert ours(quirks="memset_layout")["rungs"]["instantiate"] > 0
