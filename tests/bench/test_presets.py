"""Presets: what their decode steps are made of, and small ones that run."""

import re

import numpy as np
import pytest
from helpers.hollow import Hollow
from helpers.plans import plan_of

import hiprt
from hiprt.bench.models import PRESETS, Transformer, bucket, preset, read
from hiprt.bench.models.decoder import State, advance
from hiprt.bench.models.presets import MINIS, settings_of

CAPACITY = bucket(300)
SMALL = {"vocab_size": 64}


def hollow(name, fused=True):
    """Return a preset without values in its weights."""
    return Transformer.build(read(settings_of(name)), Hollow(hiprt.bfloat16), fused)


@pytest.mark.parametrize("name", PRESETS)
def test_decode_steps_reach_the_planners_bound(name, stream):
    """What a step's intermediates take is at most 1.05 of what is live at once, at the sizes of the real models."""
    model = hollow(name)
    state = State.empty(model, CAPACITY)
    plan_of(lambda: advance(model, state), stream)


@pytest.mark.parametrize("name", MINIS)
def test_a_seed_draws_the_same_model(name, stream):
    """Logits are the same bits for one seed, others for another, and of a size that floats hold."""

    def logits(seed):
        model = preset(name, seed=seed)
        tokens, position = hiprt.array(np.array([5, 7], np.int32)), hiprt.array(np.zeros(2, np.int32))
        return model.decode(tokens, position, model.state(2, 32)).numpy()

    first = logits(1)
    assert first.tobytes() == logits(1).tobytes() != logits(2).tobytes()
    assert 0.1 < first.astype(np.float32).std() < 100
    assert not np.array_equal(first[0], first[1])


def test_unknown_presets_are_refused():
    """By name, with the names there are."""
    with pytest.raises(ValueError, match=re.escape("no preset 'qwen3-9b'") + ".*qwen3-8b"):
        preset("qwen3-9b")
