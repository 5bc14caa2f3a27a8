"""Log probabilities: against numpy, inside the step's graph, and as they are printed."""

import json
import re

import numpy as np
import pytest
from helpers import checkpoints
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt import __main__, bfloat16
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.logprobs import Logprobs
from hiprt.bench.engine.models import load
from hiprt.bench.engine.request import Request


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that never ends a text by itself."""
    return checkpoints.write(tmp_path_factory.mktemp("models") / "tiny", dtype="float32", eos_token_id=None)


def expected(logits):
    """Return log probabilities in float64."""
    values = logits.astype(np.float64)
    values = values - values.max()
    return values - np.log(np.exp(values).sum())


@settings(deadline=None, max_examples=40)
@given(
    width=st.sampled_from([1, 3, 31, 259, 2047, 2048, 2049, 7000]),
    count=st.integers(0, 20),
    batch=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.float16, bfloat16]),
    seed=st.integers(0, 2**32 - 1),
    ties=st.booleans(),
)
def test_log_probabilities_are_those_of_numpy(width, count, batch, dtype, seed, ties):
    """Of any width and dtype; of equal logits the lower token comes first; other places are left as they are."""
    rng = np.random.default_rng(seed)
    logits = (rng.integers(-3, 3, (batch, width)) if ties else 5 * rng.standard_normal((batch, width))).astype(dtype)
    if seed % 3 == 0:
        logits[0, rng.integers(0, width, width // 2)] = -np.inf
        logits[0, rng.integers(width)] = 1
    chosen, places = rng.integers(0, width, batch), rng.integers(0, 9, batch)
    found = Logprobs(count, batch, 9)
    block = hiprt.array(np.array([chosen, places, [0] * batch, [9] * batch], np.int32))
    found.record(hiprt.array(logits), block)
    for row in range(batch):
        exact = expected(logits[row])
        order = np.lexsort((np.arange(width), -exact))[:count]
        (one,) = found.read(row, int(places[row]), [int(chosen[row])], hiprt.current_stream())
        assert one.token == chosen[row]
        assert [token for token, _ in one.best] == order.tolist()
        got = np.array([one.logprob, *(value for _, value in one.best)])
        np.testing.assert_allclose(got, exact[[chosen[row], *order]], rtol=1e-5, atol=2e-5)
        others = np.delete(found.values.numpy()[row], places[row], axis=0)
        assert not others.any()


def test_logits_that_are_no_numbers_end():
    """Where every logit is -inf or NaN there is no probability, and the search ends."""
    for value in (-np.inf, np.nan):
        found = Logprobs(3, 1, 4)
        found.record(hiprt.array(np.full((1, 5000), value, np.float32)), hiprt.array(np.zeros((4, 1), np.int32)))
        assert not np.isfinite(found.values.numpy()[0, 0]).any()


def test_a_token_stays_one_launch(folder):
    """They are found in the step's graph, the text stays the same, and they are those of the model's own logits."""
    plain = generate(Request(model=folder, prompt="ab", tokens=24, temperature=0.9, seed=3, top_k=5))
    report = generate(
        Request(model=folder, prompt="ab", tokens=24, temperature=0.9, seed=3, top_k=5, logprobs=4, verify=True)
    )
    assert report.verified
    assert report.launches_per_token == 1
    assert report.rungs["replay"] >= 20
    (choice,) = report.choices
    assert choice.token_ids == plain.token_ids
    assert plain.choices[0].logprobs is None
    assert [each["id"] for each in choice.logprobs] == choice.token_ids
    checkpoint = Checkpoint(folder)
    decoder = Decoder(load(checkpoint), hiprt.current_stream(), 64)
    for size, each in enumerate(choice.logprobs):
        decoder.start([*checkpoint.encode("ab"), *choice.token_ids[:size]])
        for _ in decoder.prefill():
            pass
        exact = expected(decoder.logits.numpy()[0])
        assert abs(each["logprob"] - exact[each["id"]]) < 1e-3
        for best in each["top_logprobs"]:
            assert abs(best["logprob"] - exact[best["id"]]) < 1e-3
            assert best["token"] == checkpoint.tokenizer.decode([best["id"]], skip_special_tokens=False)
        values = [best["logprob"] for best in each["top_logprobs"]]
        assert len(values) == 4
        assert values == sorted(values, reverse=True)


def test_caches_that_grow_keep_them(folder):
    """What was found before the caches grew is there afterwards, for each of several texts."""
    made = [
        Decoder(load(Checkpoint(folder)), hiprt.current_stream(), capacity, limit=300, batch=2, logprobs=2)
        for capacity in (8, 300)
    ]
    told = []
    for decoder in made:
        decoder.start([[1, 2, 3], [4, 5]])
        for _ in decoder.prefill():
            pass
        for _ in range(20):
            decoder.step()
        ids = decoder.state.tokens.numpy()[1, 2:22].tolist()
        told.append(decoder.likely(1, 2, ids))
    assert [each.token for each in told[0]] == [each.token for each in told[1]]
    for small, large in zip(
        *told
    ):  # on GPUs attention is split by the capacity, and sums of other splits round differently
        assert small.logprob == pytest.approx(large.logprob, abs=1e-4)
        assert dict(small.best) == pytest.approx(dict(large.best), abs=1e-4)


def test_the_command_prints_them(folder, capsys):
    """A line for each token, with as many of the likeliest as are asked for; JSON has numbers only."""
    arguments = ["generate", "--model", str(folder), "--prompt", "ab", "--tokens", "3", "--logprobs"]
    assert __main__.main([*arguments, "2"]) == 0
    out = capsys.readouterr().out
    head, *rows = re.search(r"^token .*\n(?:\".*\n){3}", out, re.MULTILINE)[0].splitlines()
    assert re.split(r"  +", head) == ["token", "id", "logprob", "likeliest 1", "likeliest 2"]
    assert all(len(re.findall(r"-?\d+\.\d{4}(?!\d)", row)) == 3 for row in rows)
    assert __main__.main([*arguments, "0", "--json"]) == 0
    (choice,) = json.loads(capsys.readouterr().out)["choices"]
    assert [each["top_logprobs"] for each in choice["logprobs"]] == [[]] * 3
    assert all(each["logprob"] <= 0 for each in choice["logprobs"])
