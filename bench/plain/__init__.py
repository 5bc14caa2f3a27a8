"""Models in plain ops, written as mlx-lm writes them: a matrix for each projection, an op for each step.

They are what `hiprt.compile` is given, to be measured beside the engine's own models, which call the kernels of decode
steps by hand.
"""

from hiprt.bench.plain.model import Plain

__all__ = ["Plain"]
