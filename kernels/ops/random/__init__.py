"""Random numbers by counter, as MLX and JAX make them: a key and a place give the bits, and no state is kept."""

from hiprt.kernels.ops.random.random_bits import random_bits

__all__ = ["random_bits"]
