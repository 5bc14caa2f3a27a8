"""A decode step of the shipped model gives the CPU device's bits through the Apple runner.

Never run on Apple hardware.
"""

import numpy as np
import pytest
from helpers.metal.framework import Metal

import hiprt
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.story import CHECKPOINT
from hiprt.kernels.tuning.target import force_generic
from hiprt.metal_compat.apple import MetalStream, open_device

pytestmark = pytest.mark.only("cpu", reason="what the fake records is run by the CPU device")

TOKENS = 4


@pytest.fixture(scope="module", params=[True, False], ids=["fused", "plain"])
def expected(request):
    """The logits and tokens of the CPU device, which launches eagerly and takes the branches of GPUs."""
    checkpoint = Checkpoint(CHECKPOINT)
    prompt = checkpoint.encode("One day")
    with force_generic(), hiprt.Stream() as stream, hiprt.use_stream(stream):
        decoder = Decoder(load(checkpoint, fused=request.param), stream, 256)
        decoder.start(prompt, temperature=0.7, seed=5)
        logits = []
        for _ in range(TOKENS):
            decoder.step_eager()
            logits.append(decoder.logits.numpy())
        return request.param, checkpoint, prompt, logits, decoder.state.tokens.numpy()


@pytest.mark.parametrize("seed", [pytest.param(None, marks=pytest.mark.wide), 1], ids=["last first", "seed 1"])
def test_replayed_tokens_have_the_same_bits(expected, stream, seed):
    """A fused step is a chain; in a plain one queries, keys and values may come in any order."""
    fused, checkpoint, prompt, logits, tokens = expected
    metal = Metal(stream, seed)
    apple = MetalStream(open_device(metal=metal))
    with hiprt.use_stream(apple):
        decoder = Decoder(load(checkpoint, fused=fused), apple, 256)
        decoder.start(prompt, temperature=0.7, seed=5)
        before = apple.launches
        for step in range(TOKENS):
            decoder.step()
            np.testing.assert_array_equal(decoder.logits.numpy(), logits[step])
        assert apple.launches == before + TOKENS
        np.testing.assert_array_equal(decoder.state.tokens.numpy(), tokens)
    assert (decoder.graph.rungs["instantiate"], decoder.graph.rungs["replay"]) == (1, TOKENS - 1)
    (recording,) = decoder.graph.recordings
    names = [work.program.name for work in metal.device.order[-len(recording) :]]
    recorded = [node.function.symbol for node in recording.nodes()]
    assert sorted(names) == sorted(recorded)
    is_chain = decoder.graph.edges == len(recording) - 1
    assert is_chain == fused
    assert (names == recorded) == is_chain, "the order is left open where the edges leave it open"
