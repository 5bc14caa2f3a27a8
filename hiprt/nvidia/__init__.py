"""HIP over NVIDIA's driver: a libamdhip64 of our own that maps HIP onto libcuda and NVRTC (C sources)."""
