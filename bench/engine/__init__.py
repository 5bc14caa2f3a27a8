"""The reference engine: checkpoints, decode models and generation of text on top of hiprt."""

from hiprt.extras import need

need("engine")
