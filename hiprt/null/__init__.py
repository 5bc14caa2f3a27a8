"""The null provider: a libamdhip64 whose calls do nothing (C source)."""
