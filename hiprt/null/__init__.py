"""The null provider: a HIP library whose calls do nothing (C source)."""
