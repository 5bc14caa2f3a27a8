"""Gated-delta layers: the causal convolution, the recurrence, and a decode step of both in one kernel or two."""

from hiprt.kernels.ops.recurrent.conv_step import conv_step
from hiprt.kernels.ops.recurrent.gated_delta import gated_delta
from hiprt.kernels.ops.recurrent.gated_delta_gates import gated_delta_gates
from hiprt.kernels.ops.recurrent.gdn_inputs import gdn_inputs
from hiprt.kernels.ops.recurrent.gdn_step import gdn_step

__all__ = [
    "conv_step",
    "gated_delta",
    "gated_delta_gates",
    "gdn_inputs",
    "gdn_step",
]
