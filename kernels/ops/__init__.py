"""The ops, one folder a family; `hiprt.kernels` offers what each family's ``__all__`` lists."""
