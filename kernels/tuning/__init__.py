"""Tuning: what a plan may know of its device, and how the kernels of a decode step share out their work."""
