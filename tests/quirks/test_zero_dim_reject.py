"""zero_dim_reject: an eager launch of an empty grid passes, the same of a module, or as a node, is refused.

Ours: an empty launch never becomes a node.
"""

import numpy as np
from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, error, functions, new_graph
from helpers.kernels import launch, scale
from rocm.bindings import hip

import hiprt
from hiprt import graphs


def raw():
    call = KernelCall("scale_add", Ints(8), Ints(8), 3, 1, 8, grid=0)
    function, (empty, block) = functions()["scale_add"], (hip.dim3(), hip.dim3())
    empty.x, empty.y, empty.z, block.x, block.y, block.z = 0, 1, 1, 64, 1, 1
    of_program = hip.hipLaunchKernel(function, empty, block, call.pointers, 0, None)
    of_module = hip.hipModuleLaunchKernel(function, 0, 1, 1, 64, 1, 1, 0, None, call.pointers, None)
    node = hip.hipGraphAddKernelNode(new_graph(), None, 0, call.params)
    return [int(error(result)) for result in (of_program, of_module, node)]


def ours():
    x, empty = hiprt.array(np.ones(4, np.float32)), hiprt.empty(0)

    def function():
        y = scale(x, 2.0)
        launch("scale", empty, empty, 1.0, size=0)
        return scale(y, 2.0)

    step = graphs.Step(function)
    return step().numpy().tolist(), step.nodes, step.rungs["eager"]


def test_one_path_lets_it_pass():
    assert child(raw) == [1, 1, 1]
    assert child(raw, quirks="zero_dim_reject") == [0, 1, 1]


def test_ours_leaves_empty_launches_out():
    assert child(ours, quirks="zero_dim_reject") == [[4.0] * 4, 2, 0]
