"""Mixtures of experts: their routing, the products of the experts, and the weighted sum."""

from hiprt.kernels.ops.experts.moe_down import moe_down
from hiprt.kernels.ops.experts.moe_gate_up import moe_gate_up
from hiprt.kernels.ops.experts.routing import moe_combine, moe_route

__all__ = [
    "moe_combine",
    "moe_down",
    "moe_gate_up",
    "moe_route",
]
