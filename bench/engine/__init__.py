"""The reference engine: checkpoints, decode models and generation of text on top of hiprt."""
