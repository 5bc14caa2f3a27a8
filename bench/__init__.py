"""Benchmarks, and the models they decode."""
