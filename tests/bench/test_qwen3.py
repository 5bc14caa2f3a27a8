"""Qwen3 on hiprt's ops: the numbers of an independent numpy forward pass, and the same bits as a graph and eagerly."""

import numpy as np
import pytest
from helpers import checkpoints

from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.engine.room import bucket
from hiprt.bench.story.reference import Model

PROMPT = [3, 141, 59, 26, 53, 58, 97]
TOLERANCE = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}


def relative(found, expected):
    """Return the length of the difference, relative to that of what was expected."""
    found = found.astype(np.float64).reshape(-1)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.fixture
def decoder(tmp_path, stream):
    """Return a function that makes decoders over one random model."""
    model = load(Checkpoint(checkpoints.write(tmp_path / "model", dtype="bfloat16")))

    def make(capacity=256):
        return Decoder(model, stream, capacity)

    return make


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_numpy(tmp_path, stream, dtype, tied):
    """Every step's logits agree with a float32 forward pass over the dequantised weights."""
    folder = checkpoints.write(tmp_path, dtype=dtype, tie_word_embeddings=tied, rope_theta=1e6)
    reference = Model(folder)
    made = Decoder(load(Checkpoint(folder)), stream, 256)
    made.start(PROMPT)
    for position in range(24):
        token = made.token()
        made.step()
        expected = reference.step(token, position)
        assert relative(made.logits.numpy(), expected) < TOLERANCE[dtype], position
        if position + 1 >= len(PROMPT):
            assert made.token() == int(made.logits.numpy().astype(np.float32).argmax())


@pytest.mark.parametrize("changes", [{"bits": 8, "group_size": 32}, {"bits": 4, "group_size": 64}])
def test_other_layouts(tmp_path, stream, changes):
    """The bits and the group size of the codes come from config.json."""
    folder = checkpoints.write(
        tmp_path, dtype="float32", quantization=changes, hidden_size=128, intermediate_size=192, head_dim=64
    )
    reference = Model(folder)
    made = Decoder(load(Checkpoint(folder)), stream, 256)
    made.start(PROMPT)
    for position, token in enumerate(PROMPT):
        made.step()
        assert relative(made.logits.numpy(), reference.step(token, position)) < TOLERANCE["float32"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_graph_and_eager_have_the_same_bits(decoder, temperature):
    """Launched as a graph or kernel by kernel, a text has the same tokens and the same bits of logits."""
    graph, eager = decoder(), decoder()
    for made in (graph, eager):
        made.start(PROMPT, temperature, seed=5)
    for _ in range(40):
        graph.step()
        eager.step_eager()
        assert graph.logits.numpy().tobytes() == eager.logits.numpy().tobytes()
        assert graph.token() == eager.token()
    assert eager.eager_steps == 40


def test_one_graph_serves_every_step(decoder, stream):
    """The first step instantiates, all others replay, in the prompt too: each is one launch, and nothing is written."""
    made = decoder()
    made.start(PROMPT)
    before = stream.launches
    for _ in range(30):
        made.step()
    assert made.graph.rungs == {"replay": 29, "patch": 0, "update": 0, "instantiate": 1, "eager": 0}
    assert stream.launches - before == 30
    assert made.graph.nodes == 2 * 5 + 4
    assert made.graph.edges >= made.graph.nodes - 1


def test_a_second_text_replays_too(decoder):
    """Starting again leaves nothing of the text before."""
    made, fresh = decoder(), decoder()
    for text in ([9, 8, 7], PROMPT):
        made.start(text)
        for _ in range(12):
            made.step()
    fresh.start(PROMPT)
    for _ in range(12):
        fresh.step()
    assert made.logits.numpy().tobytes() == fresh.logits.numpy().tobytes()
    assert made.graph.rungs["instantiate"] == 1


def test_capacity_changes_nothing_but_the_room(decoder):
    """A larger cache gives the same bits."""
    small, large = decoder(32), decoder(512)
    for made in (small, large):
        made.start(PROMPT)
        for _ in range(20):
            made.step()
    assert small.logits.numpy().tobytes() == large.logits.numpy().tobytes()


def test_draws_follow_the_seed(decoder):
    """Above temperature 0 the seed decides; at 0 it does not matter."""

    def text(temperature, seed):
        made = decoder()
        made.start(PROMPT, temperature, seed)
        tokens = []
        for _ in range(30):
            made.step()
            tokens.append(made.token())
        return tokens

    assert text(1.5, 1) == text(1.5, 1) != text(1.5, 2)
    assert text(0.0, 1) == text(0.0, 2)


def test_tokens_of_the_prompt_are_taken_as_they_are(decoder):
    """Until the last token of the prompt is taken, the next token is one of the prompt."""
    made = decoder()
    made.start(PROMPT, temperature=2.0)
    taken = [made.token()]
    while made.is_in_prompt:
        made.step()
        taken.append(made.token())
    assert taken == PROMPT


def test_a_text_ends_at_the_capacity(decoder):
    """The last token for which there is room is written; another step is refused."""
    made = decoder(len(PROMPT) + 3)
    made.start(PROMPT)
    for _ in range(len(PROMPT) + 2):
        made.step()
    assert 0 <= made.token() < 259
    with pytest.raises(ValueError, match="capacity of 10"):
        made.step()
    with pytest.raises(ValueError, match="capacity of 10"):
        made.step_eager()


def test_start_refuses_what_it_cannot_take(decoder):
    """An empty prompt, one that is too long, a token that the model lacks, and a step before any prompt are refused."""
    made = decoder(8)
    with pytest.raises(ValueError, match="call start first"):
        made.step()
    for prompt in ([], [259], [-1]):
        with pytest.raises(ValueError, match="tokens from 0 to 258"):
            made.start(prompt)
    with pytest.raises(ValueError, match="8 tokens is too long for a capacity of 8"):
        made.start([1] * 8)


def test_buckets_are_whole_steps_of_256():
    """Texts of similar length share a capacity."""
    assert [bucket(n) for n in (0, 1, 256, 257, 1000)] == [256, 256, 256, 512, 1024]
