"""The Metal layer: kernels as bodies of Metal functions on every device, and a writer and a checker of Metal text."""

from hiprt.metal_compat.checker import Problem, check_metal
from hiprt.metal_compat.emit import emit_metal
from hiprt.metal_compat.metal_kernel import MetalKernel, metal_kernel

__all__ = ["MetalKernel", "Problem", "check_metal", "emit_metal", "metal_kernel"]
