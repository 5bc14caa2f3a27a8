"""The Metal layer: kernels written as bodies of Metal functions, for every device; Metal text and its checker."""

from hiprt.metal_compat.checker import Problem, check_metal
from hiprt.metal_compat.emit import emit_metal
from hiprt.metal_compat.metal_kernel import MetalKernel, metal_kernel

__all__ = ["MetalKernel", "Problem", "check_metal", "emit_metal", "metal_kernel"]
