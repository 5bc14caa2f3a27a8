"""The ops in numpy, exact to float64: what the kernels are tested against."""
