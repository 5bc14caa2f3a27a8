"""Programs of longer caches, inferred from those of shorter ones."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs.trace import lazy
from hiprt.graphs.trace.core import cut
from hiprt.graphs.trace.growth import Outline
from hiprt.graphs.trace.program import Program

pytestmark = pytest.mark.only("cpu", reason="what it shows is above the device")


def outline(keys=16, values=16, *, heads=2, scale=0.5, others=(), width=32):
    """Return the outline of a token's attention to caches, and the program."""
    shapes = {"k": (heads, keys, width), "v": (heads, values, width), "x": (heads, 1, width), "q": (4, width)}
    given = {name: lazy.value_of(hiprt.zeros(shape, np.float32)) for name, shape in shapes.items()}
    at = lazy.value_of(hiprt.zeros(1, np.int32))
    with lazy.recording():
        k, v = (kernels.slice_update(given[name], given["x"], at, (1,)) for name in "kv")
        made = [kernels.attention(given["q"], k, k, at, scale=scale), k, v, *(other(given["k"], k) for other in others)]
    key, primitives, leaves, _, results = cut(made)
    program = Program(leaves, primitives, results)
    return Outline(key, program, {given["k"].number, given["v"].number}), program


def test_longer_caches():
    before, program = outline()
    after, _ = outline(32, 32)
    assert after.is_grown(before)
    assert not before.is_grown(after)
    assert after.suits(program, range(len(program.inputs)))


@pytest.mark.parametrize(
    "other",
    [{"values": 16}, {"heads": 4}, {"scale": 0.25}, {"others": [lambda k, _: k + 1]}, {"width": 64}],
    ids=["one cache", "heads", "scale", "another result", "width"],
)
def test_another_structure(other):
    before, _ = outline()
    after, _ = outline(**{"keys": 32, "values": 32, **other})
    assert not after.is_grown(before)


@pytest.mark.parametrize("read", [lambda k, _: k.reshape(-1), lambda _, k: kernels.sum(k)], ids=["before", "after"])
def test_a_cache_that_another_op_reads(read):
    (before, program), (after, _) = outline(others=[read]), outline(32, 32, others=[read])
    assert not after.is_grown(before)
    assert sum(before.caches) == 1  # the other one
    assert not outline()[0].suits(program, range(len(program.inputs)))
