"""Ops along the last axis: root-mean-square and layer norms, softmax."""

from hiprt.kernels.ops.norm.add_rms_norm import add_rms_norm
from hiprt.kernels.ops.norm.gated_rms_norm import gated_rms_norm
from hiprt.kernels.ops.norm.layer_norm import layer_norm
from hiprt.kernels.ops.norm.rms_norm import rms_norm
from hiprt.kernels.ops.norm.softmax import softmax

__all__ = [
    "add_rms_norm",
    "gated_rms_norm",
    "layer_norm",
    "rms_norm",
    "softmax",
]
