"""Presets: what their decode steps are made of, and small ones that run."""

import re

import numpy as np
import pytest
from helpers.hollow import Hollow

import hiprt
from hiprt.allocator import default_pool
from hiprt.allocator.planner import plan, requests_of
from hiprt.bench.models import PRESETS, Transformer, bucket, preset, read
from hiprt.bench.models.decoder import State, advance
from hiprt.bench.models.presets import MINIS, settings_of
from hiprt.graphs.recording import Recording

CAPACITY = bucket(300)
SMALL = {"vocab_size": 64}


class Fresh:
    """Memory that is never used twice, with the buffers in the order of the requests."""

    def __init__(self):
        self.buffers = []

    def allocate(self, nbytes, stream):
        self.buffers.append(default_pool.allocate(nbytes, stream))
        return self.buffers[-1]


def recorded(model, stream):
    """Record a decode step; returns the recording, its memory and the logits."""
    state = State.empty(model, CAPACITY)
    memory = Fresh()
    recording = Recording(memory)
    with recording.record(stream):
        logits = advance(model, state)
    return recording, memory, logits


def hollow(name, fused=True):
    """Return a preset without values in its weights."""
    return Transformer.build(read(settings_of(name)), Hollow(hiprt.bfloat16), fused)


@pytest.mark.parametrize("name", PRESETS)
def test_decode_steps_reach_the_planners_bound(name, stream):
    """What a step's intermediates take is at most 1.05 of what is live at once, at the sizes of the real models."""
    recording, memory, logits = recorded(hollow(name), stream)
    extents = [(buffer.address, buffer.address + buffer.nbytes) for buffer in memory.buffers]
    touched = [recording.touched(index) for index in range(len(recording))]
    dependencies = [node.dependencies for node in recording.nodes()]
    made = plan(requests_of(extents, touched, [memory.buffers.index(logits.buffer)]), dependencies)
    assert made.nbytes <= 1.05 * made.lower_bound


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
