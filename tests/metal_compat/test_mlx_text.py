"""MLX itself writes the Metal text of the same calls: names and texts are equal, byte for byte.

MLX is not a dependency: ``pip install "mlx[cpu]"`` runs this file. Its export hands out the text without a Mac.
"""

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.metal_body import FEW, Body, Form, Operand

mx = pytest.importorskip("mlx.core")

DTYPES = {
    "bool_": np.bool_,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "bfloat16": hiprt.bfloat16,
    "float32": np.float32,
    "complex64": np.complex64,
}
SHAPES = [(), (1,), (7,), (8,), (0,), (3, 4), (2, 3), (2, 2, 2), (2, 0, 3), (1, 2, 1, 5)]


class Case:
    """One random call, described for both libraries."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        names = list(DTYPES)
        self.name = f"k{seed}"
        self.inputs = {f"in{i}": (names[random.integers(13)], SHAPES[random.integers(10)]) for i in range(seed % 4)}
        self.outputs = {f"out{i}": names[random.integers(13)] for i in range(1 + seed % 3)}
        self.atomic = bool(seed % 5 == 3)
        self.header = ["", "inline float f(float x) { return x; }\n", "// no newline"][seed % 3]
        self.template = []
        if seed % 2:
            values = [names[random.integers(13)], int(random.integers(-5, 100)), bool(random.integers(2))]
            order = random.permutation(3)[: 1 + seed % 3]
            self.template = [(f"P{i}", values[i]) for i in order]
        words = [a for a in ATTRIBUTES if random.random() < [0.15, 0.0, 0.5][seed % 3]]
        words += [f"{n}_{d}" for n in self.inputs for d in ("ndim", "shape", "strides") if random.random() < 0.4]
        self.source = "// " + " ".join(random.permutation(words)) + "\nuint i = 0; out0[i] = 1;\n" * int(seed % 2)

    @property
    def is_broken_by_mlx(self):
        """Whether the case has several outputs, shapes and no attributes, where MLX's signature ends too early."""
        detailed = any(
            f"{name}_{d}" in self.source
            for name, (_, shape) in self.inputs.items()
            for d in ("ndim", "shape", "strides")
            if shape != ()
        )
        return len(self.outputs) > 1 and detailed and not any(a in self.source for a in ATTRIBUTES)

    def ours(self):
        """Return hiprt's name and text."""
        body = Body(self.name, tuple(self.inputs), tuple(self.outputs), self.source, self.header, self.atomic)
        operands = tuple(
            Operand(np.dtype(DTYPES[d]), len(shape), int(np.prod(shape)) < FEW) for d, shape in self.inputs.values()
        )
        template = tuple((n, np.dtype(DTYPES[v]) if isinstance(v, str) else v) for n, v in self.template)
        form = Form(operands, tuple(np.dtype(DTYPES[d]) for d in self.outputs.values()), template)
        return body.symbol(form), body.metal(form)

    def theirs(self):
        """Return MLX's name and text."""
        kernel = mx.fast.metal_kernel(
            name=self.name,
            input_names=list(self.inputs),
            output_names=list(self.outputs),
            source=self.source,
            header=self.header,
            atomic_outputs=self.atomic,
        )
        found = []

        def call(*arrays):
            return kernel(
                inputs=list(arrays),
                output_shapes=[(4,)] * len(self.outputs),
                output_dtypes=[getattr(mx, d) for d in self.outputs.values()],
                grid=(4, 1, 1),
                threadgroup=(4, 1, 1),
                template=[(n, getattr(mx, v) if isinstance(v, str) else v) for n, v in self.template],
            )

        def note(part):
            if part.get("type") == "primitive" and part["name"] == "CustomKernel":
                found.append(part["arguments"][:2])

        arrays = [mx.zeros(shape, getattr(mx, d)) for d, shape in self.inputs.values()]
        mx.export_function(note, call, *arrays)
        return tuple(found[0])


@pytest.mark.parametrize("seed", range(60))
def test_name_and_text(seed):
    case = Case(seed)
    (name, text), (mlx_name, mlx_text) = case.ours(), case.theirs()
    assert name == mlx_name
    if case.is_broken_by_mlx:
        assert mlx_text.count(") {\n  device") == 1
        mlx_text = mlx_text.replace(") {\n  device", ",\n  device")
    assert text == mlx_text


def test_the_cases_cover_the_signature():
    """Among the random calls are all the parts that a signature can have, and the defect."""
    texts = [Case(seed).ours()[1] for seed in range(60)]
    for part in ["constant", "device atomic<", "_shape [[", "_strides [[", "_ndim [[", "&", "template <", "host_name"]:
        assert any(part in text for text in texts), part
    assert any(Case(seed).is_broken_by_mlx for seed in range(60))
    assert all(any(f"[[{name}]]" in text for text in texts) for name in ATTRIBUTES)
