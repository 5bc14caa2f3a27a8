"""Fixtures that run a body on the device in use."""

import numpy as np
import pytest

from hiprt.metal_compat import metal_kernel


@pytest.fixture(autouse=True)
def on_stream(stream):
    """Every test launches on a stream of its own."""
    return stream


@pytest.fixture
def run():
    """A function that runs a body over a grid. The inputs are named a, b and c, the output out."""

    def call(
        source, inputs=(), *, shape, dtype=np.float32, grid=None, threadgroup=None, header="", template=None, **how
    ):
        options = {name: how.pop(name) for name in ("atomic_outputs", "ensure_row_contiguous") if name in how}
        math = how.pop("math_mode", None)
        if math:
            options["compile_options"] = {"math_mode": math}
        kernel = metal_kernel("probe", list("abc"[: len(inputs)]), ["out"], source, header, **options)
        size = int(np.prod(shape))
        made = kernel(
            inputs=list(inputs),
            output_shapes=[shape],
            output_dtypes=[np.dtype(dtype)],
            grid=grid or (size, 1, 1),
            threadgroup=threadgroup or (max(1, min(size, 256)), 1, 1),
            template=template,
            **how,
        )
        return made[0].numpy()

    return call
