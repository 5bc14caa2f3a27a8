"""States of recurrent models: computed once a token, and left where the last ones lay."""

import numpy as np
import pytest

from hiprt.graphs.trace import lazy
from hiprt.metal_compat import mlx as mx

SIZE, LAYERS = 96, 3
BODY = "uint i = thread_position_in_grid.x; y[i] = x[i] + s[i]; t[i] = 0.5f * s[i] + x[i];"
layer = mx.fast.metal_kernel("states_of_a_test", ["x", "s"], ["y", "t"], BODY)


@pytest.fixture(autouse=True)
def forgotten():
    """Structures that other tests have left are not taken for those of this one."""
    for table in (lazy.known, lazy.seen):
        table.clear()


def token(x, states, other):
    """Like a layer of Mamba: the state is an output of the kernel that nothing else of the token reads."""
    for i, state in enumerate(states):
        x, states[i] = layer(
            inputs=[x, state],
            output_shapes=[(SIZE,)] * 2,
            output_dtypes=[mx.float32] * 2,
            grid=(SIZE, 1, 1),
            threadgroup=(32, 1, 1),
        )
        other[i] = mx.concatenate([other[i][1:], x[None]], axis=0)  # a window of a convolution
        x = x + mx.sum(other[i], axis=0)
    return x


def test_a_state_is_computed_with_its_token_and_replayed():
    states = [mx.full((SIZE,), float(i)) for i in range(LAYERS)]
    windows = [mx.full((3, SIZE), 0.25 * i) for i in range(LAYERS)]
    host = [np.full(SIZE, float(i), np.float32) for i in range(LAYERS)]
    rows = [np.full((3, SIZE), 0.25 * i, np.float32) for i in range(LAYERS)]
    places = mx.arange(SIZE, dtype=mx.float32)
    mx.eval(states, windows, places)
    for at in range(12):
        start = np.arange(SIZE, dtype=np.float32) + np.float32(at)
        x = token(places + mx.array(float(at)), states, windows)
        mx.eval(x)
        y = start
        for i in range(LAYERS):
            y, host[i] = y + host[i], np.float32(0.5) * host[i] + y
            rows[i] = np.concatenate([rows[i][1:], y[None]])
            y = y + rows[i].sum(axis=0, dtype=np.float32)
        np.testing.assert_allclose(np.array(x), y, rtol=1e-5)
    (lowered,) = lazy.known.values()
    kernels = [primitive for primitive in lowered.program.primitives if primitive.op.name == "metal_kernel"]
    assert len(kernels) == LAYERS
    assert lowered.step.rungs["replay"] >= 8
    for mine, its in zip([*states, *windows], [*host, *rows]):
        np.testing.assert_allclose(np.array(mine), its, rtol=1e-5)


def test_a_state_that_is_kept_is_not_written_over():
    """Whoever holds a state, as a prompt cache does, finds in it what it was."""
    state, windows, kept = mx.full((SIZE,), 1.0), [mx.zeros((3, SIZE))], []
    states = [state]
    for at in range(8):
        mx.eval(token(mx.full((SIZE,), float(at)), states, windows))
        kept.append(states[0])
    host = np.float32(1)
    for at, found in enumerate(kept):
        host = np.float32(0.5) * host + np.float32(at)
        np.testing.assert_array_equal(np.array(found), np.full(SIZE, host, np.float32))
