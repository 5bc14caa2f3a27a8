"""Calls of `norm_rope_attention` with random operands."""

import numpy as np

import hiprt
from hiprt import kernels

BASE, EPS = 1e4, 1e-6


def operands(dtype, heads, pairs, width, positions, capacity=70, extra=0, seed=0):
    """Return qkv, two norms, the positions and two caches, on the host."""
    random = np.random.default_rng(seed)
    rows = len(positions)
    qkv = random.normal(size=(rows, (heads + 2 * pairs) * width + extra)).astype(dtype)
    norms = random.normal(size=(2, width)).astype(dtype)
    caches = random.normal(size=(2, rows, pairs, capacity, width)).astype(dtype)
    return qkv, *norms, np.array(positions, np.int32), *caches


def run(hosts, heads, width, gate=None, **options):
    """Return the answers and the two caches."""
    given = [None if host is None else hiprt.array(host) for host in hosts]
    if gate is not None:
        options["gate"] = given[0][:, gate:]
    got = kernels.norm_rope_attention(*given, heads=heads, base=BASE, scale=width**-0.5, eps=EPS, **options)
    return got, given[4], given[5]
