"""MLX's own files of functions (``.mlxfn``).

`layout` has the bytes, `tape` the functions in a file, `from_mlx` what each primitive of MLX's is in ops of ours, and
`metal_text` the text of kernels.
"""
