"""The ops, with one folder for each family. `hiprt.kernels` offers the names in each family's ``__all__``."""
