"""RandomWeights: arrays drawn on the device, of a spread that keeps activations near 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from hiprt import Array, array, full, kernels
from hiprt.bench.engine.models.linear import Linear, joined
from hiprt.bench.engine.models.shard import WHOLE, Shard
from hiprt.bench.engine.models.weights import Part, group_of
from hiprt.kernels.ops.broadcasting import broadcast_to

__all__ = ["RandomWeights"]

THREADS = 256


@cache
def random_words() -> Any:
    """Return the kernel that draws 32-bit words; it is made at first use, so that checkpoints load without it.

    It is the integer finalizer of MurmurHash3 (public domain, A. Appleby): each bit of the index moves every bit of the
    word.
    """
    from hiprt.metal_compat import metal_kernel

    return metal_kernel(
        name="random_words",
        input_names=["seed"],
        output_names=["out"],
        source="""
            uint i = thread_position_in_grid.x;
            uint h = i * 0x9e3779b9u + seed[0];
            h = (h ^ (h >> 16)) * 0x85ebca6bu;
            h = (h ^ (h >> 13)) * 0xc2b2ae35u;
            out[i] = h ^ (h >> 16);
        """,
    )


class RandomWeights:
    """Quantised matrices of random codes, and the vectors of a fresh model.

    Parameters
    ----------
    dtype : numpy.dtype
    form : (int, int)
        The group size and bits of the matrices.
    seed : int
    shard : Shard, optional
        Which part of the matrices a rank has: each draws them whole, so that any number of ranks has the same model.
    """

    def __init__(self, dtype: np.dtype[Any], form: tuple[int, int], seed: int, shard: Shard = WHOLE) -> None:
        self.dtype = dtype
        self.group_size, self.bits = form
        self.shard = shard
        self.identity = f"random, seed {seed}, {form}{shard.name}"
        self.host = np.random.default_rng(seed)

    def has(self, module: str) -> bool:
        """Whether there is a module of this name: all but those of the older layout of gated-delta layers."""
        return not module.endswith("in_proj_qkvz")

    def norm(self, name: str, size: int) -> Array:
        """Return the weight of a root-mean-square norm."""
        return self.vector(name, size)

    def vector(self, name: str, size: int, dtype: np.dtype[Any] | None = None) -> Array:
        """Return a vector near 1."""
        return array(self.host.uniform(0.8, 1.2, size).astype(dtype or self.dtype))

    def conv(self, name: str, channels: int, taps: int) -> Array:
        """Return the weight of a depthwise convolution: shape (channels, taps)."""
        return array(self.host.uniform(-1, 1, (channels, taps)).astype(self.dtype))

    def matrix(self, parts: Sequence[Part], columns: int, bits: int | None = None) -> Linear:
        """Return one matrix of the rows of several parts."""
        # A row of the embedding is as large as what a layer adds to it.
        spread = 1.0 if parts[0].module == "embed_tokens" else columns**-0.5
        made = self.draw((sum(part.taken for part in parts), columns), bits or self.bits, spread)
        return self.own(made, [(part.module, part.taken) for part in parts], columns)

    def experts(self, at: str, names: Sequence[str], count: int, rows: int, columns: int, is_shared: bool) -> Linear:
        """Return a stack of the experts' matrices, with the shared one last."""
        made = self.draw((count + is_shared, len(names) * rows, columns), self.bits, columns**-0.5)
        return self.own(made, [(name, rows) for name in names], columns)

    def own(self, made: Linear, modules: Sequence[tuple[str, int]], columns: int) -> Linear:
        """Return a rank's part of matrices whose rows are those of some modules."""
        parts, first = [], 0
        for module, rows in modules:
            place = self.shard.place(module, rows, columns)
            if place is not None:
                parts.append(made.cut(slice(first + place[0].start, first + place[0].stop), place[1]))
            first += rows
        return replace(joined(parts), ranks=self.shard.sums(modules[0][0])) if parts else made

    def draw(self, shape: tuple[int, ...], bits: int, spread: float) -> Linear:
        """Return matrices whose elements are evenly distributed, with mean 0 and the standard deviation `spread`."""
        *rows, columns = shape
        group_size = group_of(columns, self.group_size)
        weight = self.words((*rows, columns * bits // 32))
        scale = spread / np.sqrt((4.0**bits - 1) / 12)
        groups = (*rows, columns // group_size)
        scales, biases = (
            kernels.contiguous(broadcast_to(full((1,), value, self.dtype), groups))
            for value in (scale, -scale * (2**bits - 1) / 2)
        )
        return Linear(weight, scales, biases, group_size, bits)

    def wait(self) -> None:
        """Do nothing: what draws is in the stream."""

    def words(self, shape: tuple[int, ...]) -> Array:
        """Return random bits."""
        seed = array(self.host.integers(0, 2**32, 1, np.uint32))
        size = int(np.prod(shape))
        made: Array = random_words()(
            inputs=[seed],
            output_shapes=[shape],
            output_dtypes=[np.uint32],
            grid=(size, 1, 1),
            threadgroup=(THREADS, 1, 1),
        )[0]
        return made
