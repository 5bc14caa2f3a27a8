"""Benchmarks, decode models and text generation on top of hiprt."""

__all__ = ["BENCHES"]

# `hiprt bench NAME`: each is a module here with `add_arguments` and `run`.
BENCHES = {
    "graph": "what recording, replaying and changing graphs costs the host",
    "alloc": "what allocations from a warm pool cost the host",
    "decode": "tokens a second of a preset, and where a token's time goes",
    "kernels": "the hot kernels at the shapes of models: time, GB/s, share of the device's bandwidth",
    "peers": "the same workloads through torch, CuPy, MLX and llama.cpp, where they are installed",
    "plot": "pictures of results",
}
