"""Kernels of one's own: one in Metal's words and one in HIP, as two nodes of one graph.

You learn the two ways to write a kernel, what is declared of its arguments, how their launches become nodes with an
edge between them, and what is said when a declaration is not what the kernel does.

Run it, with no GPU needed: ``python examples/custom_kernels.py``
"""

import re

import numpy as np

import hiprt
from hiprt import graphs
from hiprt.kernels import hip_kernel
from hiprt.metal_compat import metal_kernel

ROWS, WIDTH, CALLS = 4, 96, 10

# The body of a Metal function, as for MLX's mx.fast.metal_kernel. It runs on every device: simdgroups are 32 lanes also
# where the hardware's are 64. Inputs are read and outputs are written, so nothing more needs to be declared.
softmax = metal_kernel(
    name="rows_softmax",
    input_names=["x"],
    output_names=["out"],
    source="""
        uint row = threadgroup_position_in_grid.x, lane = thread_index_in_simdgroup;
        uint width = x_shape[1];
        float largest = -INFINITY, sum = 0;
        for (uint i = lane; i < width; i += 32) largest = max(largest, x[row * width + i]);
        largest = simd_max(largest);
        for (uint i = lane; i < width; i += 32) sum += exp(x[row * width + i] - largest);
        sum = simd_sum(sum);
        for (uint i = lane; i < width; i += 32) out[row * width + i] = exp(x[row * width + i] - largest) / sum;
    """,
)

# Plain HIP, a template. Each argument is declared by name: buffers are read, written or updated (both), values have a
# dtype, a structure has numpy's layout of it. The edges of graphs come from this, and the compiler checks it.
SOURCE = """
struct Blend { float keep, take; };
template <class T> __global__ void average(const T* x, T* mean, Blend blend, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) mean[i] = blend.keep * mean[i] + blend.take * x[i];
}
"""
BLEND = np.dtype([("keep", "f4"), ("take", "f4")], align=True)
average = hip_kernel(SOURCE, "average<T>", {"x": "read T", "mean": "update T", "blend": BLEND, "n": "int32"})


def step_of(x, mean):
    """The step: what it launches becomes a graph of two nodes and one edge."""
    (shares,) = softmax(
        inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(32 * ROWS, 1, 1), threadgroup=(32, 1, 1)
    )
    average(shares, mean, {"keep": 0.75, "take": 0.25}, mean.size, threads=mean.size, template={"T": mean.dtype})
    return shares


def main():
    """Run the step, compare it with numpy, and show what a wrong declaration does."""
    host = np.random.default_rng(0).normal(0, 2, (ROWS, WIDTH)).astype(np.float32)
    x, mean = hiprt.array(host), hiprt.zeros((ROWS, WIDTH))
    step = graphs.Step(step_of)
    for _ in range(CALLS):
        shares = step(x, mean).numpy()

    exact = np.exp(host - host.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, exact, rtol=1e-5)
    np.testing.assert_allclose(mean.numpy(), exact * (1 - 0.75**CALLS), rtol=1e-5)
    print("graph   ", step.nodes, "nodes,", step.edges, "edge;", step.rungs)
    print("numpy    has the same shares and the same running mean")

    wrong = hip_kernel(SOURCE, "average<T>", {"x": "write T", "mean": "update T", "blend": BLEND, "n": "int32"})
    try:
        wrong(x, mean, (0.75, 0.25), mean.size, threads=mean.size, template={"T": mean.dtype})
    except hiprt.CompileError as error:
        print("refused ", re.search("x of average.* written", error.log)[0], "(but it is const)")


if __name__ == "__main__":
    main()
