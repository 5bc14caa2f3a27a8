"""Decoder: prompts in chunks, texts side by side, caches that grow, tokens read while the next step runs."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from helpers.gate import Gate
from hypothesis import given, strategies as st

from hiprt import Stream
from hiprt.allocator import default_pool
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.prompts import Chunk, chunks
from hiprt.bench.engine.sampling import Sampling

PROMPTS = [[3, 141, 59, 26, 53, 58, 97], list(range(20, 61)), [7], [9, 8, 7, 6, 5, 4, 3, 2]]


@pytest.fixture(scope="module", params=list(MINIS))
def family(request):
    """A small model of each family, in float32 so that only the order of sums differs."""
    return preset(request.param, dtype=np.float32)


@pytest.fixture(scope="module")
def model():
    return preset("qwen3-mini")


def relative(found, expected):
    found, expected = (value.astype(np.float64) for value in (found, expected))
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def fill(decoder, prompt, **options):
    """Take a prompt in chunks; return how many tokens were taken after each."""
    decoder.start(prompt, **options)
    return list(decoder.prefill())


def write(decoder, steps):
    """Return the tokens of each text, and the bits of the last logits."""
    tokens = [[decoder.token(i) for i in range(decoder.batch)]]
    for _ in range(steps):
        decoder.step()
        tokens.append([decoder.token(i) for i in range(decoder.batch)])
    return np.array(tokens).T.tolist(), decoder.logits.numpy()


@given(length=st.integers(0, 5000), most=st.sampled_from([1, 2, 64, 512]), may_repeat=st.booleans())
def test_chunks_are_powers_of_two(length, most, may_repeat):
    """Chunks that repeat tokens are fewer, and only the last one does, tokens of the chunk before it."""
    found = chunks(length, most, may_repeat=may_repeat)
    assert sum(size - repeated for size, repeated in found) == length
    assert all(size & (size - 1) == 0 and 0 < size <= most for size, _ in found)
    exact = chunks(length, most)
    assert sum(size < most for size, _ in exact) == (length % most).bit_count()
    assert len(found) <= len(exact)
    assert not any(repeated for _, repeated in exact + found[:-1])
    for (before, _), (size, repeated) in pairwise(found):
        assert repeated <= min(before, 16 + (size - repeated) // 2)


def test_a_short_rest_is_one_chunk():
    assert chunks(14, may_repeat=True) == [Chunk(8), Chunk(8, 2)]
    assert chunks(500, may_repeat=True) == [Chunk(256), Chunk(256, 12)]
    assert chunks(129, may_repeat=True) == [Chunk(128), Chunk(1)]
    assert chunks(25, may_repeat=True) == [Chunk(16), Chunk(8), Chunk(1)]
    assert chunks(527, may_repeat=True) == [Chunk(512), Chunk(16, 1)]
    assert chunks(14) == [Chunk(8), Chunk(4), Chunk(2)]


def test_few_tokens_are_taken_twice_where_each_takes_its_time():
    """For each step that this saves as many as the device's table has: 5 on the CPU device."""
    assert chunks(527, may_repeat=True, step_tokens=5) == [Chunk(512), Chunk(16, 1)]
    assert chunks(560, may_repeat=True, step_tokens=5) == [Chunk(512), Chunk(32), Chunk(16)]
    assert chunks(560, may_repeat=True) == [Chunk(512), Chunk(64, 16)]
    assert chunks(500, may_repeat=True, step_tokens=5) == [Chunk(256), Chunk(256, 12)]


@pytest.mark.only("cpu", reason="the number is that of its table")
def test_the_device_says_how_many_tokens_are_taken_twice(model, stream):
    made = Decoder(model, stream, 64, chunk=32)
    assert made.chunks(59) == [Chunk(32), Chunk(32, 5)]
    assert made.chunks(56) == [Chunk(32), Chunk(16), Chunk(8)]


@pytest.mark.parametrize("chunk", [1, 16, 512])
def test_a_prompt_in_chunks_is_the_prompt_token_by_token(family, stream, chunk):
    chunked, single = Decoder(family, stream, 64, chunk=chunk), Decoder(family, stream, 64)
    for prompt in PROMPTS[:2]:
        sizes = chunks(len(prompt), chunk, may_repeat=chunked.state.is_rewindable)
        assert fill(chunked, prompt) == np.cumsum([size - repeated for size, repeated in sizes]).tolist()
        single.start(prompt)
        for _ in prompt:
            single.step()
        assert chunked.positions == single.positions == [len(prompt)]
        assert relative(chunked.logits.numpy(), single.logits.numpy()) < 1e-5
        for _ in range(4):
            assert chunked.token() == single.token()
            chunked.step()
            single.step()
            assert relative(chunked.logits.numpy(), single.logits.numpy()) < 1e-5


def test_chunks_as_graphs_have_the_bits_of_eager(family, stream):
    graph, eager = Decoder(family, stream, 64), Decoder(family, stream, 64)
    for made in (graph, eager):
        made.start(PROMPTS[1], temperature=1.0, seed=4)
    for _ in zip(graph.prefill(), eager.prefill(eager=True), strict=True):
        assert graph.logits.numpy().tobytes() == eager.logits.numpy().tobytes()
    assert graph.token() == eager.token()
    assert graph.eager_steps == 0
    assert eager.eager_steps == 3


def test_few_graphs_serve_every_prompt(model, stream):
    made = Decoder(model, stream, 300, chunk=64)
    fill(made, [5] * 205)
    assert made.filling.rungs == {"replay": 2, "patch": 0, "update": 0, "instantiate": 2, "eager": 0}
    fill(made, [6] * 255)
    assert made.filling.rungs["replay"] == 2 + 4
    assert made.drawing.rungs["replay"] == 1


def test_a_longer_prompt_takes_no_more_memory(family, stream):
    """The chunks' steps keep little memory beside the cache, whose size is fixed before."""
    made = Decoder(family, stream, 1600)
    fill(made, [5] * 512)
    before = default_pool.stats().allocated
    fill(made, [6] * 1536)
    assert default_pool.stats().allocated <= before


@pytest.mark.parametrize("batch", [2, 8])
def test_texts_side_by_side_are_those_that_are_written_alone(family, stream, batch):
    prompts = (PROMPTS * batch)[:batch]
    together = Decoder(family, stream, 64, batch=batch)
    fill(together, prompts, temperature=0.7, seed=11)
    tokens, logits = write(together, 12)
    alone = Decoder(family, stream, 64)
    for index, prompt in enumerate(prompts):
        fill(alone, prompt, temperature=0.7, seed=11 + index)
        expected, last = write(alone, 12)
        assert tokens[index] == expected[0]
        assert relative(logits[index], last[0]) < 1e-5


def test_prompts_of_several_lengths_token_by_token(model, stream):
    """When prompts are taken token by token, one text is written while another is in its prompt."""
    chunked, stepped = (Decoder(model, stream, 64, batch=2) for _ in range(2))
    fill(chunked, PROMPTS[:2])
    stepped.start(PROMPTS[:2])
    while stepped.is_in_prompt:
        stepped.step()
    stepped.step()
    expected = [write(chunked, 3)[0][1], stepped.state.tokens.numpy()[0, :7].tolist()]
    assert expected == [write(stepped, 3)[0][1], PROMPTS[0]]


@pytest.mark.parametrize("batch", [1, 3])
def test_growth_changes_no_bit_and_breaks_replay_once(family, stream, batch):
    """On GPUs attention is split by the capacity, and sums of other splits round differently."""
    small, large = Decoder(family, stream, 16, batch=batch, limit=600), Decoder(family, stream, 600, batch=batch)
    for made in (small, large):
        fill(made, PROMPTS[0], temperature=1.0, seed=2)
    for steps, capacity in ((8, 16), (8, 256), (250, 512)):
        tokens, logits = write(small, steps)
        expected, exact = write(large, steps)
        assert small.capacity == capacity
        if stream.device.provider.name == "cpu":
            assert tokens == expected
            assert logits.tobytes() == exact.tobytes()
        elif tokens == expected:
            np.testing.assert_allclose(logits.astype(np.float32), exact.astype(np.float32), atol=0.05)
    assert small.graph.rungs["replay"] == 8 + 8 + 250 - 3
    assert small.graph.rungs["eager"] == 0
    taken = slice(None), slice(small.position)
    if stream.device.provider.name == "cpu":
        np.testing.assert_array_equal(small.state.tokens.numpy()[taken], large.state.tokens.numpy()[taken])


@pytest.mark.parametrize("options", [{}, {"logprobs": 2}, {"kv_bits": 8}])
def test_memory_that_runs_out_while_caches_grow(stream, monkeypatch, options):
    """Whichever array there is no memory for, the step can be made again, and the text goes on as it would have."""
    module, model = sys.modules["hiprt.array"], preset("qwen3-mini", dtype=np.float32)
    allocate, left = module.allocate, -1

    def scarce(*arguments):
        nonlocal left
        left -= 1
        if left == -1:
            raise MemoryError("none left")
        return allocate(*arguments)

    plain = Decoder(model, stream, 256, **options)
    fill(plain, PROMPTS[0])
    expected = write(plain, 12)
    monkeypatch.setattr(module, "allocate", scarce)
    failures = 0
    for at in range(16):
        made = Decoder(model, stream, 10, limit=256, **options)
        fill(made, PROMPTS[0])
        write(made, 2)
        left = at
        try:
            made.step()
        except MemoryError:
            failures += 1
            made.step()
        left = -1
        write(made, 9)
        assert made.state.tokens.numpy()[0, len(PROMPTS[0]) : 20].tolist() == expected[0][0]
        np.testing.assert_array_equal(made.logits.numpy(), expected[1])
    assert failures >= 5


def test_a_long_prompt_grows_the_caches(model, stream):
    small, large = Decoder(model, stream, 16, limit=2000), Decoder(model, stream, 512)
    prompt = [index % 259 for index in range(300)]
    for made in (small, large):
        fill(made, prompt)
    assert small.capacity == 512
    assert small.logits.numpy().tobytes() == large.logits.numpy().tobytes()
    with pytest.raises(ValueError, match="2000 tokens is too long for a capacity of 2000"):
        small.start([1] * 2000)


def test_the_limit_ends_a_text(model, stream):
    made = Decoder(model, stream, 8, limit=12)
    fill(made, [1, 2, 3])
    write(made, 8)
    with pytest.raises(ValueError, match=r"text 0 has 12 tokens, .* the capacity of 12: release it, or make"):
        made.step()


@pytest.mark.parametrize("common", [0, 1, 30, 41, 44, 46])
def test_a_text_goes_on_from_what_another_has_in_common(family, stream, common):
    """What the caches hold is not taken again; recurrent layers go back to where they were saved."""
    made, fresh = Decoder(family, stream, 16, limit=256), Decoder(family, stream, 256)
    is_recurrent = not made.state.is_rewindable
    chunked = [16, 24, 28, 30, 38, 40, 41] if is_recurrent else [32, 40, 41]
    assert fill(made, PROMPTS[1], save_at=30) == chunked
    text = [*PROMPTS[1], *write(made, 5)[0][0]]
    assert made.position == len(text) - 1 == 46
    other = [*text[:common], *PROMPTS[3]]
    kept = made.rewind(common)
    assert kept == ({46: 46, 0: 0, 1: 0}.get(common, 30) if is_recurrent else common)
    made.start(other, kept=kept)
    assert list(made.prefill())[-1] == len(other)
    fill(fresh, other)
    assert relative(made.logits.numpy(), fresh.logits.numpy()) < 1e-5
    assert write(made, 4)[0] == write(fresh, 4)[0]
    assert made.rewind(len(other)) == (len(other) if not is_recurrent else 30 if kept >= 30 else 0)


def test_tokens_are_read_while_the_next_step_runs(model, stream):
    made, reader = Decoder(model, stream, 64, batch=2), Stream()
    fill(made, PROMPTS[:2])
    made.step()
    stream.synchronize()
    expected, mark = [made.token(0), made.token(1)], made.mark()
    gate = Gate(stream)
    gate.shut()
    made.step()
    later = made.mark()
    assert made.read(mark, reader) == expected
    assert gate.is_closed
    gate.open()
    assert made.read(later, reader) == [made.token(0), made.token(1)]
    gate.close()


def test_a_token_is_read_where_the_next_step_grows_the_caches(model, stream):
    """What had been drawn at a mark lies where it lay: larger arrays have it only when the step's stream is there."""
    made, reader = Decoder(model, stream, 16, limit=256), Stream()
    fill(made, PROMPTS[0])
    write(made, 8)
    stream.synchronize()
    expected, mark = made.token(), made.mark()
    gate = Gate(stream)
    gate.shut()
    made.step()
    assert made.capacity == 256
    assert made.read(mark, reader) == [expected]
    assert gate.is_closed
    gate.open()
    gate.close()


@pytest.mark.parametrize("chunks", range(4))
def test_a_text_that_is_released_amid_its_prompt(family, stream, chunks):
    """The other one goes on as if it were alone, and the place is free for another text."""
    made, alone = Decoder(family, stream, 64, batch=2), Decoder(family, stream, 64)
    released, other = (1, 0) if chunks == 3 else (0, 1)
    prompts = [PROMPTS[3], PROMPTS[0]] if released else [PROMPTS[0], PROMPTS[1]]
    made.start(prompts)
    filling = made.prefill()
    for _ in range(chunks):
        next(filling)
    made.release(released)
    for _ in filling:
        pass
    fill(alone, prompts[other])
    expected, logits = write(alone, 4)
    found, both = write(made, 4)
    assert found[other] == expected[0]
    assert relative(both[other], logits[0]) < 1e-5
    assert made.positions[released] == 0
    made.begin(released, [2, 4, 6])
    fill(alone, [2, 4, 6])
    made.step()
    assert made.token(released) == alone.token()


def test_prompts_are_taken_to_their_end_and_once(model, stream):
    """Otherwise steps would go on from positions that nothing was computed for."""
    made = Decoder(model, stream, 64, batch=2)
    with pytest.raises(ValueError, match="takes the prompts behind start"):
        next(made.prefill())
    made.start(PROMPTS[:2])
    filling = made.prefill()
    next(filling)
    for wrong in (made.step, made.step_eager, lambda: made.begin(0, [1])):
        with pytest.raises(ValueError, match="go on with prefill, or call start again"):
            wrong()
    for _ in filling:
        pass
    made.step()
    made.begin(0, PROMPTS[2])
    with pytest.raises(ValueError, match="a text that begin has begun needs none"):
        next(made.prefill())
    made.step()
    made.start(PROMPTS[:2])
    next(made.prefill())
    made.start(PROMPTS[:2])
    made.step()


def test_what_was_saved_ends_with_its_text(stream):
    """The text in its place does not go back to it."""
    model = preset("qwen3-next-mini", dtype=np.float32)
    made, fresh = Decoder(model, stream, 128), Decoder(model, stream, 128)
    fill(made, PROMPTS[1], save_at=30)
    made.begin(0, [*range(100, 140)])
    made.step()
    text = [*range(100, 135)]
    kept = made.rewind(len(text))
    made.start([*text, 3, 4], kept=kept)
    for _ in made.prefill():
        pass
    fill(fresh, [*text, 3, 4])
    assert relative(made.logits.numpy(), fresh.logits.numpy()) < 1e-5


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=9), Sampling(top_k=1)])
def test_a_text_has_draws_of_its_own(stream, sampling):
    """It is drawn as if it were alone, beside one with another temperature."""
    model = preset("qwen3-mini", dtype=np.float32)
    beside, alone = (Decoder(model, stream, 64, batch=batch, sampling=sampling) for batch in (2, 1))
    beside.start([PROMPTS[0], PROMPTS[1]], 0.0, 3)
    for _ in beside.prefill():
        pass
    expected = write(beside, 8)[0][0]
    beside.start([PROMPTS[0], PROMPTS[1]], 0.0, 3)
    for _ in beside.prefill():
        pass
    first = write(beside, 2)[0][0][:2]
    beside.begin(1, PROMPTS[3], 11, temperature=5.0)
    texts = write(beside, 6)[0]
    alone.start(PROMPTS[3], 5.0, 11)
    for _ in alone.prefill():
        pass
    assert texts[1][1:] == write(alone, 5)[0][0]
    assert [*first, *texts[0]] == expected


def test_prompts_may_be_arrays(model, stream):
    made, listed = (Decoder(model, stream, 64, batch=2) for _ in range(2))
    fill(listed, [[1, 2, 3], [4, 5, 6]])
    for prompts in (np.array([[1, 2, 3], [4, 5, 6]]), [np.array([1, 2, 3], np.int32), (4, 5, 6)]):
        fill(made, prompts)
        assert made.state.tokens.numpy().tolist() == listed.state.tokens.numpy().tolist()
    made.begin(0, np.array([7, 8]))
    fill(made, np.array([9, 10]))
    assert made.state.tokens.numpy()[:, :2].tolist() == [[9, 10], [9, 10]]
    for wrong in ([1.5, 2], "ab"):
        with pytest.raises((TypeError, ValueError), match="cannot be interpreted as an integer"):
            made.start(wrong)


def test_chunks_of_many_sizes_are_no_mistake(model, stream, caplog):
    """Nobody who writes text can do anything about the graphs that they take."""
    fill(Decoder(model, stream, 1100), [1] * 1023)
    assert not caplog.records


def test_mistakes_are_named(model, stream):
    made = Decoder(model, stream, 16, batch=2)
    for message, wrong in [
        ("power of two", lambda: Decoder(model, stream, 16, chunk=48)),
        ("3 prompts for 2 texts", lambda: made.start([[1], [2], [3]])),
        ("needs tokens from 0 to 258", lambda: made.start([[1], []])),
        ("needs tokens from 0 to 258", lambda: made.start([[1], [259]])),
        ("too long", lambda: made.start([[1], [2] * 16])),
        ("3 tokens are kept of a prompt of 3", lambda: made.start([1, 2, 3], kept=3)),
        ("no prompt", lambda: made.step()),
        ("batch=0: must be at least 1", lambda: Decoder(model, stream, 16, batch=0)),
        ("temperature=nan: must be 0 or more", lambda: made.start([1], float("nan"))),
        ("seed=-1: must be from 0", lambda: made.start([1], 1.0, -1)),
        ("text 2: there are those from 0 to 1", lambda: made.release(2)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
    made.start([1, 2])
    for message, wrong in [
        ("text -1: there are those from 0 to 1", lambda: made.begin(-1, [1])),
        (r"seed=4294967296: must be from 0 to 2\*\*32 - 1", lambda: made.begin(0, [1], 2**32)),
        ("temperature=-1.0: must be 0 or more", lambda: made.begin(0, [1], temperature=-1.0)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
