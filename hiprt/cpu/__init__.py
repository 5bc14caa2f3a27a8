"""The CPU device: a libamdhip64 of our own that executes kernels on the host's cores (C++ sources and headers)."""
