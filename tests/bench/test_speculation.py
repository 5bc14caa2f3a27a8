"""Speculation: the text of single steps, token by token, in fewer of them; and what is refused."""

import json
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

import hiprt
from hiprt import __main__, bfloat16
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.sampling import Sampling
from hiprt.kernels.tuning.target import force_generic

STORY = "Once upon a time there was a clever fox named Mia. She had a hut made of stone."
PROMPTS = (None, f"{STORY} {STORY} Once upon", "In the mill she met an honest goose, an honest goose, an honest")
PROMPT = [*range(20, 61)]
wide = partial(pytest.param, marks=pytest.mark.wide)


def write(decoder, prompt, tokens, reader):
    """Take a prompt and write so many tokens; return them, and how many each step took."""
    decoder.start(prompt)
    for _ in decoder.prefill():
        pass
    written, taken = [], []
    while len(written) < tokens:
        places = decoder.read_step(decoder.mark(), reader)
        written += [token for (token,) in places]
        taken.append(len(places))
        decoder.step()
    return written[:tokens], taken


@pytest.fixture
def reader(stream):
    return hiprt.Stream(stream.device)


@pytest.fixture(scope="module", params=[False, True], ids=["4 bits", "float16"])
def shipped(request):
    """The shipped model in 4 bits, and as it is, each with the reports of single steps."""
    model = hiprt.load(plain=request.param)
    return model, [model.generate(prompt, tokens=200) for prompt in PROMPTS]


@pytest.mark.parametrize(("drafts", "tokens"), [(3, 60), *(wide(each, 200) for each in range(1, 8))])
def test_the_shipped_model_writes_the_same_text(shipped, drafts, tokens):
    """Each step is one launch, and nothing is patched, unless caches grow, as behind the prompts but the first."""
    model, singles = shipped
    for prompt, single in zip(PROMPTS, singles, strict=True):
        report = model.generate(prompt, tokens=tokens, speculate=drafts)
        assert report.token_ids == single.token_ids[:tokens]
        assert single.text.startswith(report.text)
        if prompt is None:
            assert report.launches_per_token == 1
            assert report.rungs["patch"] == report.rungs["update"] == report.rungs["eager"] == 0
        assert report.speculate == drafts
        assert report.acceptance == pytest.approx((report.tokens_per_step - 1) / drafts, abs=1e-3)
    assert report.tokens_per_step > 1


@pytest.mark.parametrize(
    ("name", "dtype", "fused"),
    [
        ("qwen3-mini", bfloat16, True),
        ("qwen3-mini", np.float16, False),
        ("qwen3-moe-mini", np.float16, True),
        wide("qwen3-mini", np.float16, True),
        wide("qwen3-mini", np.float32, True),
        wide("qwen3-mini", bfloat16, False),
        wide("qwen3-moe-mini", bfloat16, True),
        wide("qwen3-moe-mini", np.float16, False),
    ],
)
def test_random_models_write_the_same_tokens(stream, reader, name, dtype, fused):
    """Their texts repeat soon, so that steps take several tokens."""
    model = preset(name, dtype=dtype, fused=fused)
    single = write(Decoder(model, stream, 512), PROMPT, 100, reader)[0]
    for drafts in (1, 5):
        decoder = Decoder(model, stream, 512, drafts=drafts)
        written, taken = write(decoder, PROMPT, 100, reader)
        assert written == single
        assert taken[0] == 1
        assert max(taken) > 1
        assert decoder.graph.rungs["patch"] == decoder.graph.rungs["update"] == 0


@pytest.mark.parametrize("branch", ["loops", "generic"])
@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("fused", [True, False])
def test_rows_have_the_bits_of_single_steps(stream, branch, kv_bits, fused):
    """Each token of a run has the logits that it has after the one before it, also in the kernels of GPUs."""
    with force_generic() if branch == "generic" else nullcontext(), hiprt.use_stream(stream):
        model = preset("qwen3-mini", dtype=np.float16, fused=fused)
        single, run = (model.state(1, 320, kv_bits) for _ in range(2))
        tokens, places = np.arange(30, 39, dtype=np.int32), np.arange(9, dtype=np.int32)
        # A cache longer than a threadgroup takes, so that positions are shared out.
        for each in range(9):
            given = hiprt.array(tokens[each : each + 1]), hiprt.array(places[each : each + 1])
            logits = model.decode(*given, single).numpy(stream)
            if each < 4:
                model.decode(*given, run)
            if each == 4:
                rows = model.verify(hiprt.array(tokens[4:]), hiprt.array(places[4:]), run).numpy(stream)
            if each >= 4:
                assert logits.tobytes() == rows[each - 4].tobytes()
        for one, other in zip(single, run, strict=True):
            for part, same in zip(one.parts(9).values(), other.parts(9).values(), strict=True):
                left, right = (hiprt.kernels.contiguous(x).numpy(stream) for x in (part, same))
                assert left.tobytes() == right.tobytes()


def test_every_step_has_the_bits_of_an_eager_one():
    report = generate(Request(prompt=PROMPTS[1], tokens=60, speculate=4, verify=True))
    assert report.verified
    assert report.tokens == 60
    assert report.tokens_per_step > 1


def test_graphs_are_verified(monkeypatch):
    monkeypatch.setenv("HIPRT_GRAPH_VERIFY", "1")
    report = generate(Request(prompt=PROMPTS[1], tokens=40, speculate=3))
    monkeypatch.delenv("HIPRT_GRAPH_VERIFY")
    assert report.token_ids == generate(Request(prompt=PROMPTS[1], tokens=40)).token_ids


def test_no_token_more_than_asked_for():
    """Also where the last step takes more of them; the decoder is kept from text to text."""
    model = hiprt.load()
    single = model.generate(PROMPTS[1], tokens=12).token_ids
    for tokens in range(1, 13):
        report = model.generate(PROMPTS[1], tokens=tokens, speculate=7)
        assert report.token_ids == single[:tokens]
        assert (report.tokens, report.stop) == (tokens, "length")


def test_texts_follow_each_other():
    """Each of several texts is that which it is alone, with any rules that leave the likeliest token, and 8 bits."""
    options = {"tokens": 30, "kv_bits": 8, "temperature": 0.7, "top_k": 1}
    report = generate(Request(prompt=PROMPTS[1:], speculate=4, **options))
    assert [each.token_ids for each in report.choices] == [
        generate(Request(prompt=prompt, **options)).token_ids for prompt in PROMPTS[1:]
    ]


def test_caches_grow_while_steps_are_not_read(stream, reader):
    """A step counts as if all guesses were right until it is read; the text is the same, and ends at the capacity."""
    model = preset("qwen3-mini")
    single = write(Decoder(model, stream, 512), PROMPT, 100, reader)[0]
    decoder = Decoder(model, stream, 44, limit=512, drafts=5)
    written, taken = write(decoder, PROMPT, 100, reader)
    assert written == single
    assert decoder.capacity > 44
    assert decoder.position == len(PROMPT) + sum(taken) - 1 + 6  # the last step is not read


def test_a_conversation_goes_on():
    """What the caches hold behind an answer is known, although the step behind its last token was not read."""
    model = hiprt.load()
    one, other = model.conversation(tokens=30), model.conversation(tokens=30, speculate=4)
    for question in (STORY, " Once upon", " Then"):
        assert list(one.ask(question)) == list(other.ask(question))
        assert one.held == other.held[: len(one.held)]
        assert one.report.token_ids == other.report.token_ids
        assert (other.kept > 0) == (one.kept > 0) == (question != STORY)


def test_a_prompt_cache_goes_on(tmp_path):
    plain = generate(Request(prompt=PROMPTS[1], tokens=20))
    saved = generate(Request(prompt=PROMPTS[1], tokens=20, speculate=4, save_cache=tmp_path / "cache"))
    loaded = generate(Request(tokens=20, speculate=4, load_cache=tmp_path / "cache"))
    assert plain.token_ids == saved.token_ids == loaded.token_ids
    assert loaded.cached_tokens > 0


def test_the_command_says_how_many_guesses_were_right(capsys):
    assert __main__.main(["generate", "--prompt", PROMPTS[1], "--tokens", "24", "--speculate", "4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["speculate"] == 4
    assert 0 < report["acceptance"] < 1
    assert 1 < report["tokens_per_step"] < 5
    assert __main__.main(["generate", "--prompt", PROMPTS[1], "--tokens", "24", "--speculate", "4"]) == 0
    assert "4 guesses a step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--speculate", "0"], "speculate=0: must be from 1 to 7"),
        (["--speculate", "8"], "speculate=8: must be from 1 to 7"),
        (["--speculate", "2", "--tp", "2"], "not checked over ranks, tp=2"),
        (["--speculate", "2", "--logprobs", "1"], "leave logprobs out"),
    ],
)
def test_what_the_command_refuses(capsys, options, message):
    with pytest.raises(SystemExit):
        __main__.main(["generate", *options])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "named"),
    [({"temperature": 0.5}, "temperature=0.5"), ({"repetition_penalty": 1.2}, "repetition_penalty=1.2")],
)
def test_draws_are_refused(options, named):
    with pytest.raises(ValueError, match=f"likeliest token of all, it does not go with {named}"):
        generate(Request(tokens=2, speculate=2, **options))


def test_recurrent_models_are_refused(stream):
    with pytest.raises(ValueError, match="recurrent layers, whose state cannot go back behind a wrong guess"):
        Decoder(preset("qwen3.5-mini"), stream, 64, drafts=2)


def test_other_decoders_are_refused(stream):
    for options in ({"batch": 2}, {"logprobs": 1}, {"sampling": Sampling(temperature=1.0)}):
        with pytest.raises(ValueError, match=r"guesses|likeliest"):
            Decoder(preset("qwen3-mini"), stream, 64, drafts=2, **options)
