"""A torch program: one of its modules runs as a graph of hiprt's, on torch's own memory and stream.

You learn how weights and inputs of torch are used where they lie, how torch's stream becomes the step's, and how
results go back without a copy. Where torch is not installed, the example says so in one line.

Run it: ``python examples/torch_program.py`` (on the CPU device, or on a GPU where torch has one)
"""

import importlib.util
import os
import sys

if importlib.util.find_spec("torch") is None:
    print("skipped: torch is not installed")
    sys.exit()

import torch

if not torch.cuda.is_available():
    os.environ["HIPRT_PROVIDER"] = "cpu"

import hiprt
from hiprt import graphs, kernels

ROWS, WIDTH, INNER, CALLS = 2, 64, 256, 5


class SwiGlu(torch.nn.Module):
    """The feed-forward part of a transformer's layer, as torch has it."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(WIDTH, INNER, bias=False)
        self.up = torch.nn.Linear(WIDTH, INNER, bias=False)
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        """Return the sum of the input and what the layer makes of it."""
        return x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def graph_of(module, x):
    """Return a step that computes ``module(x)`` from the tensors' memory: what torch writes there is what it reads."""
    gate, up, down = (hiprt.from_dlpack(linear.weight.detach()) for linear in (module.gate, module.up, module.down))
    rows = hiprt.from_dlpack(x)

    def forward():
        gated = kernels.silu_mul(kernels.matmul(rows, gate.T), kernels.matmul(rows, up.T))
        return kernels.add(rows, kernels.matmul(gated, down.T))

    return graphs.Step(forward, name="SwiGlu")


def main():
    """Run the module by torch and by the graph, on the same memory, and compare."""
    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"  # torch for ROCm says cuda too
    torch.manual_seed(0)
    module, x = SwiGlu().to(device), torch.empty(ROWS, WIDTH, device=device)
    # On torch's own stream the work of both is ordered as it is written; the CPU device has its own, and is waited for.
    stream = hiprt.Stream.from_handle(torch.cuda.current_stream().cuda_stream) if on_gpu else hiprt.Stream()
    with hiprt.use_stream(stream), torch.no_grad():
        step = graph_of(module, x)
        for _ in range(CALLS):
            x.normal_()  # in place: the address stays, so the graph is replayed
            result = torch.from_dlpack(step())
            torch.testing.assert_close(result, module(x), rtol=1e-4, atol=1e-5)
        module.down.weight.mul_(2)  # as an optimiser would
        torch.testing.assert_close(torch.from_dlpack(step()), module(x), rtol=1e-4, atol=1e-5)
    print("torch   ", torch.__version__, "on", device)
    print("graph   ", step.nodes, "nodes;", step.rungs)
    print("results  are torch's, also after a change of the weights")


if __name__ == "__main__":
    main()
