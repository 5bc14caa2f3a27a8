"""Targets that are not here: kernels compiled for AMD GPUs without ROCm, what they use, and `hiprt compile`."""
