"""Three families on hiprt's ops: the logits of an independent float32 forward pass, and the same bits as a graph."""

import numpy as np
import pytest
from helpers.families import Family
from helpers.reference_model import ReferenceModel

import hiprt
from hiprt.bench.checkpoint import Checkpoint
from hiprt.bench.models import load
from hiprt.bench.models.presets import MINIS

TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2}
PROMPT, STEPS = 9, 32
TOKENS = np.random.default_rng(1).integers(0, 256, PROMPT + STEPS).astype(np.int32)


def relative(found, expected):
    """Length of the difference, relative to that of what was expected."""
    found = found.astype(np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def text(model, sequence=0, batch=1, capacity=64):
    """Prefill one sequence of several and decode behind it; returns the logits of every step."""
    state = model.state(batch, capacity)
    positions = hiprt.array(np.arange(PROMPT, dtype=np.int32))
    logits = [model.prefill(hiprt.array(TOKENS[:PROMPT]), positions, state, sequence).numpy()[0]]
    for at in range(PROMPT, PROMPT + STEPS):
        tokens, position = np.zeros(batch, np.int32), np.zeros(batch, np.int32)
        tokens[sequence], position[sequence] = TOKENS[at], at
        logits.append(model.decode(hiprt.array(tokens), hiprt.array(position), state).numpy()[sequence])
    return logits


@pytest.fixture(params=[False, True], ids=["plain ops", "fused"])
def fused(request):
    return request.param


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MINIS)
def test_logits_are_those_of_numpy(tmp_path, stream, name, dtype, fused):
    """After the prompt and after each of 32 decode steps."""
    family = Family(name, dtype)
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS)[PROMPT - 1 :]
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    for found, row in zip(text(model), expected, strict=True):
        assert relative(found, row) < TOLERANCE[dtype]
