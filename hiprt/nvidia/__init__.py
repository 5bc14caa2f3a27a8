"""HIP over NVIDIA's driver: a HIP library of our own that maps HIP onto libcuda and NVRTC (C sources)."""
