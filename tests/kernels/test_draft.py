"""draft_ngram and accept_draft: guesses from the text itself, and those of them that are right."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference

CAPACITY = 40


def block(position, capacity=CAPACITY):
    return np.array([0, position, 1, capacity], np.int32)


@pytest.mark.parametrize("drafts", [1, 3, 7])
@pytest.mark.parametrize("longest", [1, 2, 16])
def test_guesses_are_those_of_the_reference(branch, drafts, longest):
    """On texts of few letters, in which many places agree; the whole text may be one token."""
    random = np.random.default_rng(drafts * 100 + longest)
    for position in (0, 1, 2, 5, 17, CAPACITY - 1):
        tokens = random.integers(0, 3, CAPACITY).astype(np.int32)
        found = kernels.draft_ngram(hiprt.array(block(position)), hiprt.array(tokens), drafts, longest=longest)
        np.testing.assert_array_equal(found.numpy(), reference.draft_ngram(block(position), tokens, drafts, longest))


@pytest.mark.parametrize(
    ("text", "guesses"),
    [
        ([5, 6, 7, 8, 5, 6], [7, 8, 5, 6]),  # behind the end the text's period goes on
        ([1, 2, 9, 3, 2, 8, 1, 2], [9, 3, 2, 8]),  # the longer agreement counts, not the later place
        ([2, 9, 4, 2, 8, 4, 2], [8, 4, 2, 8]),  # of two as long the later one
        ([1, 2, 3], [3, 3, 3, 3]),  # nothing agrees
        ([4], [4, 4, 4, 4]),
    ],
)
def test_guesses_follow_the_last_place_that_agrees_longest(branch, text, guesses):
    tokens = np.array([*text, *[1] * (CAPACITY - len(text))], np.int32)
    found = kernels.draft_ngram(hiprt.array(block(len(text) - 1)), hiprt.array(tokens), 4).numpy()
    assert found[0].tolist() == [text[-1], *guesses]
    assert found[1].tolist() == [*range(len(text) - 1, len(text) + 4)]


def test_a_long_text(branch):
    """The place that agrees may be anywhere, whichever thread looks there."""
    tokens = np.random.default_rng(1).permutation(5000).astype(np.int32)
    tokens[4990:4996] = tokens[70:76]
    found = kernels.draft_ngram(hiprt.array(block(4995, 5000)), hiprt.array(tokens), 3)
    assert found.numpy()[0].tolist() == [tokens[4995], *tokens[76:79]]


@pytest.mark.parametrize("position", [-(2**31), -1, CAPACITY, 2**31 - 9])
def test_a_position_outside_reads_nothing_outside(branch, position):
    tokens = hiprt.array(np.arange(CAPACITY, dtype=np.int32))
    found = kernels.draft_ngram(hiprt.array(block(position)), tokens, 2).numpy()
    assert found[1].tolist() == [position, position + 1, position + 2]
    assert ((found[0] >= 0) & (found[0] < CAPACITY)).all()


@pytest.mark.parametrize("right", range(4))
@pytest.mark.parametrize("position", [3, CAPACITY - 4, CAPACITY - 3, CAPACITY - 2, CAPACITY - 1])
def test_right_guesses_are_taken_and_the_token_behind_them(branch, right, position):
    """And nothing behind the capacity; what follows a wrong guess is not looked at."""
    step, tokens = block(position), np.arange(100, 100 + CAPACITY, dtype=np.int32)
    draft = np.array([[0, 1, 2, 3], range(position, position + 4)], np.int32)
    chosen = np.array([1, 2, 3, 4], np.int32)
    chosen[right] = 50
    taken = np.full((2, 5), -1, np.int32)
    on_device = [hiprt.array(each) for each in (step, tokens, draft, chosen, taken, np.array([5], np.int32))]
    assert kernels.accept_draft(*on_device) is on_device[0]
    expected = reference.accept_draft(step, tokens, draft, chosen)
    assert len(expected) == min(right + 1, CAPACITY - 1 - position)
    found_step, found_tokens, _, _, found, steps = (each.numpy() for each in on_device)
    np.testing.assert_array_equal(found_step, step)
    np.testing.assert_array_equal(found_tokens, tokens)
    assert found[1].tolist()[: 1 + len(expected)] == [len(expected), *expected]
    np.testing.assert_array_equal(found[0], taken[0])
    assert steps.tolist() == [6]


@pytest.mark.parametrize("position", [-(2**31), -1, CAPACITY, 2**31 - 1])
def test_nothing_is_taken_outside(branch, position):
    around = np.arange(CAPACITY + 16, dtype=np.int32)
    on_device, step = hiprt.array(around), hiprt.array(block(position))
    draft, chosen = np.array([[0, 1], [0, 0]], np.int32), np.array([1, 2], np.int32)
    taken = hiprt.array(np.full((1, 3), -1, np.int32))
    given = step, on_device[8:-8], hiprt.array(draft), hiprt.array(chosen), taken, hiprt.array(np.zeros(1, np.int32))
    kernels.accept_draft(*given)
    np.testing.assert_array_equal(step.numpy(), block(position))
    np.testing.assert_array_equal(on_device.numpy(), around)
    assert taken.numpy().tolist() == [[0, -1, -1]]


def test_mistakes_are_named():
    step, tokens, draft = hiprt.zeros(4, np.int32), hiprt.zeros(8, np.int32), hiprt.zeros((2, 3), np.int32)
    chosen, taken, steps = hiprt.zeros(3, np.int32), hiprt.zeros((2, 4), np.int32), hiprt.zeros(1, np.int32)
    for error, message, wrong in [
        (ValueError, "step has shape", lambda: kernels.draft_ngram(tokens, tokens, 2)),
        (ValueError, "tokens has shape", lambda: kernels.draft_ngram(step, draft, 2)),
        (ValueError, "drafts=0", lambda: kernels.draft_ngram(step, tokens, 0)),
        (ValueError, "longest=0", lambda: kernels.draft_ngram(step, tokens, 2, longest=0)),
        (TypeError, "tokens is", lambda: kernels.draft_ngram(step, hiprt.zeros(8, np.int64), 2)),
        (ValueError, "draft", lambda: kernels.accept_draft(step, tokens, tokens, chosen, taken, steps)),
        (ValueError, "chosen has shape", lambda: kernels.accept_draft(step, tokens, draft, steps, taken, steps)),
        (ValueError, "taken has shape", lambda: kernels.accept_draft(step, tokens, draft, chosen, draft, steps)),
        (ValueError, "overlap", lambda: kernels.accept_draft(tokens[:4], tokens, draft, chosen, taken, steps)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
