"""Descriptions of a call's tensors, whose class here stands in for torch's."""

import os
import subprocess
import sys

NESTED = """
from collections import namedtuple

from hiprt import objects

Form = namedtuple("Form", "shape strides dtype device alignment is_conjugated is_negated")


class Tensor:
    shape, dtype, device, inner = (1,), "float32", "cpu", 0

    def data_ptr(self):
        return 4096

    def stride(self):
        read([Tensor() for _ in range(self.inner)])
        return (1,)

    def is_conj(self):
        return False

    is_neg = is_conj


reader = objects.load("hiprt.graphs.native.tensors").Reader(Tensor, Form, type, 256, [], [], {})


def read(tensors):
    return reader.read((tensors,), {}, None, None, [], bytearray())[0][1]


outer = Tensor()
outer.inner = 1000
tensors = [Tensor(), outer, Tensor()]
for _ in range(2):
    described = read(tensors)
    assert described == (list, *[Form((1,), (1,), "float32", "cpu", 0, False, False)] * 3), described
    outer.inner *= 10
"""


def test_methods_of_a_tensor_may_lead_to_another_call():
    """What the last calls had lies elsewhere then; Python's debug allocator overwrites where it was."""
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    subprocess.run([sys.executable, "-c", NESTED], env=environment, check=True)
