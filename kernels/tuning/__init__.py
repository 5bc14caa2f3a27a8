"""Tuning: what a plan may know of the device it plans for, and how hot kernels share out their work."""
