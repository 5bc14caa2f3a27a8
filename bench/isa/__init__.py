"""Kernels executed as AMD machine code in an emulator of the instruction set."""

from hiprt.extras import need

need("offline")
