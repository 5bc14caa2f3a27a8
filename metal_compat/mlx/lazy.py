"""How ops are applied to arrays; see `apply`."""

from hiprt.metal_compat.mlx.array import apply

__all__ = ["apply"]
