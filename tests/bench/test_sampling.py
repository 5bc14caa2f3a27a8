"""Draws: penalties and filters against numpy, inside the step's graph, and what a model's directory says of them."""

import json

import numpy as np
import pytest
from helpers import checkpoints

import hiprt
from hiprt import kernels
from hiprt.array import dtype_of
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.sampling import Sampler, Sampling
from hiprt.bench.engine.text import Writer

RULES = [
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"repetition_penalty": 1.3},
    {"presence_penalty": 0.75},
    {"repetition_penalty": 0.8, "presence_penalty": -0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "window": 3},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that never ends a text by itself."""
    return checkpoints.write(tmp_path_factory.mktemp("models") / "tiny", eos_token_id=None)


def expected(logits, tokens, sampling):
    """Return the logits after penalties and filters, in float64; -inf for those that cannot be drawn."""
    values = logits.astype(np.float64)
    last = np.unique(tokens[-sampling.window :])
    penalty = sampling.repetition_penalty
    values[last] = np.where(values[last] > 0, values[last] / penalty, values[last] * penalty)
    values[last] -= sampling.presence_penalty
    shares = np.exp(values - values.max())
    shares /= shares.sum()
    order = np.argsort(-values)
    stay = np.ones(len(values), bool)
    stay[order[sampling.top_k or len(values) :]] = False
    before = np.cumsum(shares[order]) - shares[order]
    if sampling.top_p < 1:
        stay[order[before >= sampling.top_p]] = False
    stay &= shares >= sampling.min_p * shares.max()
    return np.where(stay, values, -np.inf)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("batch", [1, 3])
def test_rules_are_those_of_numpy(stream, rules, batch):
    """Each text has its own tokens and place, and logits change as the rules say."""
    sampling = Sampling(**rules)
    rng = np.random.default_rng(len(str(rules)))
    logits = (3 * rng.standard_normal((batch, 300))).astype(np.float32)
    texts = rng.integers(0, 300, (batch, 64)).astype(np.int32)
    places = rng.integers(5, 60, batch).astype(np.int32)
    with hiprt.use_stream(stream):
        sampler = Sampler(sampling, batch, 300, dtype_of("float32"))
        device = [hiprt.array(values) for values in (logits, texts, places)]
        for row in range(batch):
            one = sampler.penalised(device[0][row : row + 1], device[1][row], device[2][row : row + 1])
            filters = {name: values[row : row + 1] for name, values in sampler.filters.items()}
            one = kernels.filter_logits(one, **filters).numpy(stream)[0]
            wanted = expected(logits[row], texts[row, : places[row] + 1], sampling)
            np.testing.assert_array_equal(np.isfinite(one), np.isfinite(wanted))
            np.testing.assert_allclose(one[np.isfinite(one)], wanted[np.isfinite(wanted)], rtol=1e-5, atol=1e-5)
        sampler.set(1.0, 7)
        drawn = sampler.draw(*device).numpy(stream)
        for row in range(batch):
            assert np.isfinite(expected(logits[row], texts[row, : places[row] + 1], sampling)[drawn[row]])


@pytest.mark.parametrize("rules", RULES)
def test_a_token_stays_one_launch(folder, rules):
    """The rules are part of the graph, which replays and gives the bits of the eager step."""
    report = generate(
        Request(model=folder, prompt="ab", tokens=24, temperature=0.9, seed=3, verify=True, **rules_of(rules))
    )
    assert report.verified
    assert report.launches_per_token == 1
    assert report.rungs["replay"] >= 20
    assert report.sampling == {**rules_of(rules), "temperature": 0.9, "seed": 3}


def rules_of(rules):
    """Return rules as a request takes them."""
    return {name: value for name, value in rules.items() if name != "window"}


def test_top_k_of_one_is_the_likeliest(folder):
    """Whatever the temperature, one token is left."""
    greedy, one = (generate(Request(model=folder, prompt="ab", tokens=16, **values)) for values in (
        {}, {"temperature": 1.5, "top_k": 1}
    ))  # fmt: skip
    assert one.token_ids == greedy.token_ids


def test_a_presence_penalty_ends_repetition(folder):
    """A large penalty keeps tokens of the window from coming again."""
    report = generate(Request(model=folder, prompt="ab", tokens=20, presence_penalty=1e4))
    assert len(set(report.token_ids)) == 20


def test_the_models_own_rules(folder, tmp_path):
    """generation_config.json says what a request leaves out, if it samples at all."""
    made = checkpoints.write(tmp_path / "model", eos_token_id=None)
    own = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "transformers_version": "5.0"}
    (made / "generation_config.json").write_text(json.dumps(own))
    report = generate(Request(model=made, prompt="ab", tokens=4))
    assert report.sampling == {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    report = generate(Request(model=made, prompt="ab", tokens=4, temperature=0.0, top_k=7))
    assert report.sampling == {"top_p": 0.95, "top_k": 7}
    (made / "generation_config.json").write_text(json.dumps({**own, "do_sample": False}))
    assert generate(Request(model=made, prompt="ab", tokens=4)).sampling == {}
    (made / "generation_config.json").write_text(json.dumps({**own, "top_p": 0}))
    with pytest.raises(ValueError, match=r"generation_config.json: top_p=0.0: must be .*: give another one"):
        generate(Request(model=made, tokens=1))
    assert generate(Request(model=made, tokens=1, top_p=0.5)).sampling["top_p"] == 0.5
    (made / "generation_config.json").write_text(json.dumps({**own, "top_p": "high"}))
    with pytest.raises(CheckpointError, match="top_p is 'high'"):
        generate(Request(model=made, prompt="ab", tokens=4))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"top_k": -1}, "top_k=-1"),
        ({"min_p": float("nan")}, "min_p=nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0"),
        ({"presence_penalty": float("inf")}, "presence_penalty=inf"),
        ({"seed": 2**32}, "seed=4294967296"),
        ({"stops": ("a", "")}, "stop"),
    ],
)
def test_rules_are_checked(values, word):
    """A rule that is out of range is refused before anything is loaded."""
    with pytest.raises(ValueError, match=word):
        Request(**values)


def written(folder, pieces, stops):
    """Return what is shown of a text that comes in pieces, piece by piece, and why it ended."""
    shown = []
    tokenizer = Checkpoint(folder).tokenizer
    writer = Writer(tokenizer, [], shown.append, stops)
    for piece in pieces:
        for token in tokenizer.encode(piece).ids:
            writer.push(token, ())
    writer.finish()
    assert "".join(shown) == writer.text
    return writer.text, writer.end


def test_a_text_ends_before_a_stop(folder):
    """Nothing of the stop is shown, and what only began like one is."""
    assert written(folder, ["one two three"], ["two"]) == ("one ", "stop")
    assert written(folder, ["one tw"], ["two"]) == ("one tw", "")
    assert written(folder, ["aaab"], ["aab"]) == ("a", "stop")
    assert written(folder, ["x\n\ny"], ["\n\n", "y"]) == ("x", "stop")
    assert written(folder, ["abc"], ["bcd", "c"]) == ("ab", "stop")


def test_stops_of_a_request(folder):
    """Generation ends at the stop, and says so for each text."""
    whole = generate(Request(model=folder, prompt="ab", tokens=30))
    stop = whole.text[10:12]
    report = generate(Request(model=folder, prompt="ab", tokens=30, stops=(stop,)))
    assert report.text == whole.text[: whole.text.index(stop)]
    assert (report.stop, report.choices[0].finish_reason) == ("stop", "stop string")
    assert report.tokens < 30
    assert [choice.token_ids for choice in report.choices] == [report.token_ids]
