"""advance: through the prompt, past it, to the end of the buffer."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


def test_a_whole_sequence(branch, int32):
    tokens = np.array([11, 12, 13, 0, 0, 0], np.int32)
    step = np.array([11, 0, 3, 6], np.int32)
    on_device = hiprt.array(step), hiprt.array(tokens)
    for proposed in range(100, 108):
        assert kernels.advance(*on_device, int32(proposed)) is on_device[0]
        reference.advance(step, tokens, proposed)
        np.testing.assert_array_equal(on_device[0].numpy(), step)
        np.testing.assert_array_equal(on_device[1].numpy(), tokens)
    assert tokens.tolist() == [11, 12, 13, 102, 103, 104]
    assert step.tolist() == [104, 5, 3, 6]


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_texts_move_by_themselves(branch, rows):
    random = np.random.default_rng(rows)
    tokens = random.integers(0, 99, (rows, 6)).astype(np.int32)
    step = np.stack([tokens[:, 0], *random.integers([[-1], [1]], [[6], [6]], (2, rows)), np.full(rows, 6)])
    step = step.astype(np.int32)
    on_device = hiprt.array(step), hiprt.array(tokens)
    sampled = np.arange(100, 100 + rows, dtype=np.int32)
    kernels.advance(*on_device, hiprt.array(sampled))
    for row in range(rows):
        column = step[:, row].copy()
        reference.advance(column, tokens[row], int(sampled[row]))
        step[:, row] = column
    np.testing.assert_array_equal(on_device[0].numpy(), step)
    np.testing.assert_array_equal(on_device[1].numpy(), tokens)


@pytest.mark.parametrize("position", [5, 6, 2**31 - 2, -2, -(2**31)])
def test_nothing_is_written_outside(branch, position, int32):
    step = np.array([1, position, 2, 6], np.int32)
    around = hiprt.array(np.arange(18, dtype=np.int32))
    on_device = hiprt.array(step)
    kernels.advance(on_device, around[6:12], int32(99))
    np.testing.assert_array_equal(on_device.numpy(), step)
    np.testing.assert_array_equal(around.numpy(), np.arange(18))


def test_the_first_token_of_a_prompt(branch, int32):
    step, tokens = hiprt.array(np.array([0, -1, 2, 4], np.int32)), hiprt.array(np.array([7, 8, 0, 0], np.int32))
    kernels.advance(step, tokens, int32(99))
    assert step.numpy().tolist() == [7, 0, 2, 4]


def test_mistakes_are_named(int32):
    step, tokens = hiprt.zeros(4, np.int32), hiprt.zeros(8, np.int32)
    for error, message, wrong in [
        (ValueError, "step has shape", lambda: kernels.advance(tokens, tokens, int32(0))),
        (ValueError, "tokens has shape", lambda: kernels.advance(step, tokens.reshape(2, 4), int32(0))),
        (ValueError, "tokens has shape", lambda: kernels.advance(step.reshape(4, 1), tokens, int32(0))),
        (ValueError, "sampled has shape", lambda: kernels.advance(step, tokens, tokens)),
        (TypeError, "tokens is", lambda: kernels.advance(step, hiprt.zeros(8, np.int64), int32(0))),
        (ValueError, "overlap", lambda: kernels.advance(tokens[:4], tokens, int32(0))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
