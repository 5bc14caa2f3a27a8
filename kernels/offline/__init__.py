"""Offline compilation: kernels compiled for AMD GPUs without ROCm, the resources they use, and `hiprt compile`."""
