"""Benchmarks, and the reference engine in `hiprt.bench.engine`."""

from __future__ import annotations

import argparse

from hiprt.command import add_commands

__all__ = ["BENCHES", "add_arguments"]

BENCHES = {
    "graph": "what recording, replaying and changing graphs costs the host",
    "compile": "what a compiled function costs the host, beside torch, MLX and jax",
    "alloc": "what allocations from a warm pool cost the host",
    "arguments": "what a call of a step costs by how a number reaches it",
    "graphed": "what a function of torch costs as a graph whose weights' addresses are patched",
    "upload": "how fast weights get from files to the device",
    "collectives": "what the sum of an array over several devices costs",
    "decode": "tokens a second of a preset, and where a token's time goes",
    "models": "the tables of all presets: one text, several, long contexts, prompts",
    "kv": "what keys and values in 8 bits change in the logits, and the memory that they take",
    "roofline": "a model of decode on AMD GPUs that are not here, from instruction counts and bytes",
    "isa": "every kernel as machine code of AMD GPUs in an emulator, beside its reference",
    "kernels": "the hot kernels at the shapes of models: time, GB/s, share of the device's bandwidth",
    "rings": "the vector rings with which a step of several texts takes the least time: how NVIDIA's table is made",
    "checks": "how much slower kernels run on the CPU device while they are checked",
    "peers": "the same workloads through torch, CuPy, MLX and llama.cpp, where they are installed",
    "plot": "pictures of results",
}
MODULES = {"isa": "isa.kernels"}  # of those that are not named as the benchmark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks, each a module here, as subcommands of ``hiprt bench``."""
    modules = {name: f"{__name__}.{MODULES.get(name, name)}" for name in BENCHES}
    add_commands(parser, {name: (modules[name], text) for name, text in BENCHES.items()}, "WHAT")
