"""exec_overlap: launches of one exec on two streams overlap, and the later one takes the earlier one's state away.

Ours: an exec is launched on another stream only when it is drained (G6).
"""

from itertools import pairwise

import numpy as np
from helpers.child import child
from helpers.hip_calls import KIND, Gate, Ints, add_copy, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip

ROUNDS = 30


def overtakes():
    """Whether the second launch runs while the first is held back."""
    gate, x, y, graph, value = Gate(), Ints(1, 5), Ints(1), new_graph(), np.zeros(1, np.int32)
    add_copy(graph, [], y, x)
    executable = instantiate(graph)
    first, second = (ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2))
    gate.hold(first)
    ok(hip.hipGraphLaunch(executable, first))
    ok(hip.hipGraphLaunch(executable, second))
    ok(hip.hipStreamSynchronize(second))
    ok(hip.hipMemcpy(value, y.memory, 4, KIND.hipMemcpyDeviceToHost))
    gate.open()
    ok(hip.hipStreamSynchronize(first))
    return int(value[0])


def loses_nodes(rounds):
    """Whether a launch left nodes undone: a chain of copies carries a value along, different in each round."""
    cells, graph, last = [Ints(1) for _ in range(16)], new_graph(), []
    for source, target in pairwise(cells):
        last = [add_copy(graph, last, target, source)]
    executable, result, gate = instantiate(graph), Ints(1), Gate()
    streams = [ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2)]
    for value in range(1, rounds + 1):
        cells[0].write([value])
        for stream in streams:
            gate.hold(stream)
        ok(hip.hipGraphLaunch(executable, streams[0]))
        ok(hip.hipMemcpyDtoDAsync(result.memory, cells[-1].memory, 4, streams[0]))
        ok(hip.hipGraphLaunch(executable, streams[1]))
        gate.open()
        if int(result.read()[0]) != value:
            return True
    return False


def test_second_launch_overtakes():
    assert child(overtakes, quirks="exec_overlap") == 5


def test_first_launch_is_cut_off():
    assert child(loses_nodes, ROUNDS) is False
    # Launches overlap by chance, on a loaded machine in few of the rounds.
    assert child(loses_nodes, 100 * ROUNDS, quirks="exec_overlap") is True


def test_ours_keeps_to_one_stream():
    ours(quirks="exec_overlap")
