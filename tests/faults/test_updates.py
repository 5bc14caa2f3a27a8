"""Updates: all nodes of an executable graph get other arguments by one call of HIP's."""

import numpy as np
import pytest
from faults import child
from helpers.kernels import launch

import hiprt
from hiprt import graphs
from hiprt.hip import lib

N, ROUNDS = 64, 6


def updated(shim):
    """How many calls of a step with nodes of each kind were wrong, its rungs, and the HIP calls of the last update."""
    sources = [hiprt.array(np.full(N, 3.0 + i, np.float32)) for i in range(2)]
    scaled, copied, filled = (hiprt.zeros(N) for _ in range(3))
    factor, wrong, calls = 0, 0, []

    def work():
        stream, source = hiprt.current_stream(), sources[factor % 2]
        launch("scale", source, scaled, float(factor), size=N)
        stream.copy(
            copied.address, source.address, 4 * N, lib.hipMemcpyDeviceToDevice, to=copied.buffer, of=source.buffer
        )
        stream.fill(filled.address, factor, 4, N - factor, to=filled.buffer)

    step = graphs.Step(work, keep=False)
    for factor in range(ROUNDS):
        calls = [name for name, _ in shim.watch(step)]
        found = [array.numpy() for array in (scaled, copied, filled.view("int32"))]
        value = 3.0 + factor % 2
        wrong += not ((found[0] == value * factor).all() and (found[1] == value).all())
        wrong += not (found[2][: N - factor] == factor).all()
    return wrong, step.rungs["update"], calls


@pytest.mark.only("cpu", reason="the shim stands before the CPU device")
@pytest.mark.parametrize("canary", ["0", "1"])
def test_the_graph_that_was_instantiated_is_set_and_taken_again(tmp_path, canary):
    """No graph is built for an update: that would cost as much as the update itself."""
    rules = {"HIPRT_GRAPH_RUNGS": "update,instantiate", "HIPRT_GRAPH_SLOTS": "1", "HIPRT_GRAPH_CANARY": canary}
    wrong, updates, calls = child.run(updated, tmp_path, **rules)
    assert not wrong
    assert updates == ROUNDS - 1
    assert "hipGraphExecUpdate" in calls
    assert not [name for name in calls if name.startswith("hipGraphAdd") or name == "hipGraphCreate"]
