"""Functions of torch as graphs that are patched where torch would capture or copy."""

from hiprt.torch.function import Graphed, graphed

__all__ = ["Graphed", "graphed"]
