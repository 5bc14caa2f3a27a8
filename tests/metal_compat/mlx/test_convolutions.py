"""Convolutions beside sums over windows in numpy, and beside MLX where it is installed."""

import numpy as np
import pytest

from hiprt.metal_compat import mlx as mx

RANDOM = np.random.default_rng(2)
CASES = {
    "line": ("conv1d", (2, 9, 4), (6, 3, 4), {"stride": 2, "padding": 1}),
    "depthwise": ("conv1d", (2, 9, 4), (4, 3, 1), {"padding": 2, "dilation": 2, "groups": 4}),
    "plane": (
        "conv2d", (2, 9, 8, 4), (6, 3, 2, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
    ),
    "space": ("conv3d", (1, 5, 5, 5, 2), (3, 2, 2, 2, 2), {}),
    "back": ("conv_transpose1d", (2, 9, 4), (6, 3, 4), {"stride": 3, "dilation": 2, "output_padding": 1}),
    "back in a plane": ("conv_transpose2d", (1, 5, 6, 4), (6, 3, 3, 4), {"stride": (2, 1), "padding": 1}),
    "reversed": (
        "conv_general", (2, 9, 8, 4), (6, 3, 2, 4), {"padding": ([1, 0], [2, 1]), "input_dilation": 2, "flip": True}
    ),
    "cut": ("conv_general", (2, 9, 4), (6, 3, 4), {"padding": ([-1], [2])}),
    "full": ("convolve", (9,), (4,), {"mode": "full"}),
    "same": ("convolve", (3,), (8,), {"mode": "same"}),
    "valid": ("convolve", (8,), (3,), {"mode": "valid"}),
}  # fmt: skip


def operands(name):
    _, left, right, _ = CASES[name]
    return [RANDOM.normal(size=shape).astype(np.float32) for shape in (left, right)]


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_those_of_mlx(name):
    theirs = pytest.importorskip("mlx.core")
    op, _, _, options = CASES[name]
    hosts = operands(name)
    expected = np.array(getattr(theirs, op)(*map(theirs.array, hosts), **options))
    found = np.array(getattr(mx, op)(*map(mx.array, hosts), **options))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_plane_is_summed_over_windows(groups):
    x, w = RANDOM.normal(size=(2, 7, 6, 4)), RANDOM.normal(size=(6, 3, 2, 4 // groups))
    exact = np.zeros((2, 3, 6, 6))
    wide = np.pad(x, [(0, 0), (1, 0), (1, 1), (0, 0)])
    for i, j, o in np.ndindex(3, 6, 6):
        depth = 4 // groups
        first = o // (6 // groups) * depth
        window = wide[:, 2 * i : 2 * i + 3, j : j + 2, first : first + depth]
        exact[:, i, j, o] = (window * w[o]).sum((1, 2, 3))
    hosts = (mx.array(each.astype(np.float32)) for each in (x, w))
    found = mx.conv_general(*hosts, stride=(2, 1), padding=([1, 1], [0, 1]), groups=groups)
    np.testing.assert_allclose(np.array(found)[:, :, :6], exact, atol=1e-4)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_vectors_are_convolved_as_numpy_does(mode):
    a, v = RANDOM.normal(size=9).astype(np.float32), RANDOM.normal(size=4).astype(np.float32)
    np.testing.assert_allclose(
        np.array(mx.convolve(mx.array(a), mx.array(v), mode)), np.convolve(a, v, mode), atol=1e-5
    )


def test_mistakes_are_named():
    x, w = mx.zeros((1, 5, 4)), mx.zeros((6, 3, 4))
    for message, wrong in [
        ("does not fit a weight of shape", lambda: mx.conv1d(x, mx.zeros((6, 3, 3)))),
        ("does not have 2 axes between", lambda: mx.conv2d(x, w)),
        ("stride has 2 numbers for 1 axes", lambda: mx.conv1d(x, w, (1, 1))),
        ("a window of", lambda: mx.conv1d(x[:, :2], w)),
        ("must be vectors", lambda: mx.convolve(x, w)),
        ("mode must be", lambda: mx.convolve(mx.ones(3), mx.ones(2), "half")),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
