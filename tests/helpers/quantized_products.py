"""Products with quantised matrices for tests: operands, calls, and what results are compared with."""

from functools import partial

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.target import make_target
from hiprt.provider import NVIDIA


def target(arch, provider=NVIDIA):
    """A target of 132 processors."""
    return make_target(arch, 132, 32, provider)


H200 = target("sm_90")
FORMATS = [(group, bits) for group in (32, 64, 128) for bits in (4, 8)]
ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}


def operands(batch, rows, width, dtype, group, bits, *, norm=False, residual=False, swiglu=False, seed=0):
    """Return the arguments of a call, on the host."""
    random = np.random.default_rng(seed)
    stored = quantize(random.normal(size=(rows, width)).astype(dtype) * dtype.type(width**-0.5), group, bits)
    x = random.normal(size=(batch, width)).astype(dtype)
    options = {"swiglu": swiglu}
    if norm:
        options["norm"] = random.normal(size=width).astype(dtype)
    if residual:
        options["residual"] = random.normal(size=(batch, rows // 2 if swiglu else rows)).astype(dtype)
    return x, stored, options


def call(x, stored, options, group, bits, **more):
    on_device = {k: hiprt.array(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    return kernels.qmv(*map(hiprt.array, (x, *stored)), group_size=group, bits=bits, **on_device, **more)


def check(batch, rows, width, dtype, group, bits, *, tiling=None, seed=0, **parts):
    """Compare: x * norm rounds to the dtype, the sums to float32 with the offset of the codes, the result once."""
    x, stored, options = operands(batch, rows, width, dtype, group, bits, seed=seed, **parts)
    got = call(x, stored, options, group, bits, tiling=tiling)
    exact = reference.qmv(x, stored, group, bits, **options)
    assert got.shape == exact.shape
    assert got.dtype == dtype
    norm = options.get("norm")
    values = np.abs(reference.double(x) if norm is None else reference.rms_norm(x, norm, 1e-6))
    packed, scales, biases = stored
    size = (values @ reference.weights(packed, np.abs(scales), np.abs(biases), group, bits).T).max()
    unit, offset = ULP[dtype.name], 1024 if tiling else 16
    # A gate multiplies the other half, error and all.
    factor = 2 * (1 + np.abs(exact).max()) if options["swiglu"] else 1
    allowed = size * factor * (offset * 2.0**-24 + (unit if norm is not None else 0)) + 2 * unit * np.abs(exact).max()
    error = np.abs(got.numpy().astype(np.float64) - exact).max()
    assert error <= allowed, (error, allowed)


def check_rows(batch, rows, width, dtype, group, bits, tiling, alone, **parts):
    """Compare each row of a product of several vectors with the product of this vector alone, bit by bit."""
    x, stored, options = operands(batch, rows, width, dtype, group, bits, **parts)
    got = call(x, stored, options, group, bits, tiling=tiling).numpy()
    for i in range(batch):
        one = {name: each[i : i + 1] if name == "residual" else each for name, each in options.items()}
        assert got[i].tobytes() == call(x[i : i + 1], stored, one, group, bits, tiling=alone).numpy().tobytes()


wide = partial(pytest.param, marks=pytest.mark.wide)
