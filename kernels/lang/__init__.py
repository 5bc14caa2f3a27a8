"""The kernel language: `Kernel`, the Metal dialect and its preludes, users' bodies, plain HIP kernels."""
