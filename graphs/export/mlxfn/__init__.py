"""MLX's own files of functions (``.mlxfn``).

`layout` has the bytes; `tape` reads the functions in a file, `from_mlx` has what each primitive of MLX's is in ops of
ours, and `metal_text` the text of kernels; `writer` writes functions with a `TapeWriter`, and `to_mlx` has what our
ops are in primitives.
"""
