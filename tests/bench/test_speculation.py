"""Speculation: the text of single steps, token by token, in fewer of them; and what is refused."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers import checkpoints
from helpers.mixture_rings import both_rings
from safetensors.numpy import save_file

import hiprt
from hiprt import __main__, bfloat16, kernels
from hiprt.array import dtype_of
from hiprt.bench import decode
from hiprt.bench.decode_run import Run
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import moe, preset
from hiprt.bench.engine.models.alone import alone
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.story import CHECKPOINT
from hiprt.kernels.reference.quantize import dequantize
from hiprt.kernels.tuning import rings as rings_module, target as target_module, vector_rings as vector_rings_module
from hiprt.kernels.tuning.rings import Ring
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
def untied(monkeypatch):
    """A preset that does not repeat its input, as random models with tied embeddings do."""
    monkeypatch.setitem(PRESETS, "untied", {**PRESETS["qwen3-mini"], "tie_word_embeddings": False})
    return "untied"


@pytest.fixture
def reader(stream):
    return hiprt.Stream(stream.device)


def write_plain(folder, dtype):
    """Write the shipped model with the numbers of this dtype that its codes stand for; return the folder."""
    config = json.loads((CHECKPOINT / "config.json").read_text())
    for name in ("quantization", "quantization_config"):
        config.pop(name)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((CHECKPOINT / name).read_bytes())
    stored = SafetensorsFile(CHECKPOINT / "model.safetensors")
    names = json.loads((CHECKPOINT / "model.safetensors.index.json").read_text())["weight_map"]
    made = {}
    for name in names:
        base = name.removesuffix(".weight")
        if f"{base}.scales" in names:
            made[f"{base}.weight"] = dequantize(*(stored[f"{base}.{part}"] for part in ("weight", "scales", "biases")))
        elif name.endswith(".weight"):
            made[name] = stored[name]
    save_file({name: value.astype(dtype) for name, value in made.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module", params=["4 bits", wide("float16"), wide("bfloat16")])
def shipped(request, tmp_path_factory):
    """The shipped model in 4 bits, and with plain weights, each with the reports of single steps."""
    if request.param == "4 bits":
        model = hiprt.load()
    else:
        folder = write_plain(tmp_path_factory.mktemp("plain") / "model", dtype_of(request.param))
        model = hiprt.load(folder, plain=True)
    return model, [model.generate(prompt, tokens=200) for prompt in PROMPTS]


@pytest.mark.parametrize(("drafts", "tokens"), [(3, 60), *(wide(each, 200) for each in range(1, 8))])
def test_the_shipped_model_writes_the_same_text(shipped, drafts, tokens):
    """Each step is one launch, and behind the first few nothing is patched, unless caches grow, as with longer prompts.

    The first few make graphs, or patch those of an earlier text whose memory was elsewhere.
    """
    model, singles = shipped
    for prompt, single in zip(PROMPTS, singles, strict=True):
        report = model.generate(prompt, tokens=tokens, speculate=drafts)
        assert report.token_ids == single.token_ids[:tokens]
        assert single.text.startswith(report.text)
        if prompt is None:
            assert report.launches_per_token == 1
            assert report.rungs["update"] == report.rungs["eager"] == 0
            assert report.rungs["patch"] + report.rungs["instantiate"] <= 8
        assert report.speculate == drafts
        assert report.acceptance == pytest.approx((report.tokens_per_step - 1) / drafts, abs=1e-3)
    assert report.tokens_per_step > 1


@pytest.mark.parametrize(
    ("name", "dtype", "fused"),
    [
        ("untied", bfloat16, True),
        ("untied", np.float16, False),
        ("qwen3-moe-mini", np.float16, True),
        wide("untied", np.float16, True),
        wide("untied", np.float32, True),
        wide("untied", bfloat16, False),
        wide("qwen3-moe-mini", bfloat16, True),
        wide("qwen3-moe-mini", np.float16, False),
    ],
)
def test_random_models_write_the_same_tokens(stream, reader, untied, name, dtype, fused):
    """Their texts repeat parts of themselves, so that some steps take several tokens."""
    model = preset(name, dtype=dtype, fused=fused, seed=1)
    single = write(Decoder(model, stream, 512), PROMPT, 100, reader)[0]
    for drafts in (1, 5):
        decoder = Decoder(model, stream, 512, drafts=drafts)
        written, taken = write(decoder, PROMPT, 100, reader)
        assert written == single
        assert taken[0] == 1
        assert max(taken) > 1
        assert decoder.graph.rungs["patch"] == decoder.graph.rungs["update"] == 0


@pytest.mark.parametrize("kv_bits", [None, 8])
def test_a_model_that_guesses_for_itself_is_always_right(stream, reader, untied, kv_bits):
    """So its caches have what they must behind every step, and when they have grown."""
    model = preset(untied, dtype=np.float16)
    single = write(Decoder(model, stream, 512, kv_bits=kv_bits), PROMPT, 90, reader)[0]
    decoder = Decoder(model, stream, 64, limit=512, drafts=3, draft=model, kv_bits=kv_bits)
    written, taken = write(decoder, PROMPT, 90, reader)
    assert written == single
    assert decoder.capacity > 64
    assert taken == [1, *[4] * (len(taken) - 1)]
    assert decoder.graph.rungs["patch"] <= 1  # behind the growth, where the step's own memory may lie elsewhere


def test_a_model_that_guesses_wrong_changes_nothing(stream, reader, untied):
    model, draft = (preset(untied, dtype=np.float16, seed=seed) for seed in (0, 1))
    single = write(Decoder(model, stream, 512), PROMPT, 120, reader)[0]
    written, taken = write(Decoder(model, stream, 512, drafts=4, draft=draft), PROMPT, 120, reader)
    assert written == single
    assert 1 <= np.mean(taken[1:]) < 2


@pytest.mark.filterwarnings("ignore:.*that the model does not use")
def test_a_draft_of_the_command(tmp_path):
    """The first four layers of the shipped model guess for all six, in the command and in Python."""
    draft = tmp_path / "draft"
    shutil.copytree(CHECKPOINT, draft)
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 4}))
    single = generate(Request(tokens=60))
    report = generate(Request(tokens=60, speculate=3, draft=draft, verify=True))
    assert report.token_ids == single.token_ids
    assert report.verified
    assert report.draft == str(draft)
    assert 0.2 < report.acceptance < 0.8
    model = hiprt.load()
    for speculate in (3, 3, 2):
        again = model.generate(tokens=60, speculate=speculate, draft=draft)
        assert again.token_ids == single.token_ids
        assert again.launches_per_token == 1
        assert again.rungs["patch"] == again.rungs["update"] == 0


def test_drafts_that_are_refused(stream, tmp_path):
    model = preset("qwen3-mini")
    with pytest.raises(ValueError, match="draft: it has recurrent layers"):
        Decoder(model, stream, 64, drafts=2, draft=preset("qwen3.5-mini"))
    checkpoints.write(tmp_path)
    with pytest.raises(ValueError, match="draft: it knows"):
        generate(Request(speculate=2, draft=tmp_path))
    for options, message in (({}, "how many tokens"), ({"speculate": 2, "load_cache": "file"}, "leave load_cache out")):
        with pytest.raises(ValueError, match=message):
            Request(draft=CHECKPOINT, **options)


@pytest.mark.parametrize(
    ("count", "most", "sizes"), [(5, 6, [5]), (8, 6, [4, 4]), (7, 3, [2, 2, 3]), (3, 1, [1, 1, 1])]
)
def test_calls_take_the_rows_that_are_alike(stream, count, most, sizes):
    """On a GPU; the kernels of plain loops take all."""
    rows, taken = hiprt.array(np.arange(4.0 * count, dtype=np.float32).reshape(count, 4)), []

    def call(first, second):
        taken.append(len(first))
        return kernels.add(first, second)

    for branch in (force_generic(), nullcontext()):
        taken.clear()
        with branch, hiprt.use_stream(stream):
            made = alone(call, rows, rows, most=most).numpy(stream)
            takes_loops = target_module.target_of(stream).takes_loops
        np.testing.assert_array_equal(made, 2 * rows.numpy(stream))
        assert taken == ([count] if takes_loops else sizes)


@pytest.mark.wide(turn=3)
def test_rings_check_rows_side_by_side(stream, monkeypatch):
    """Where rings multiply one vector, a call takes several rows, with the bits of single steps."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "tie_word_embeddings": False}
    monkeypatch.setitem(PRESETS, "rings", {**PRESETS["qwen3-mini"], **sizes})
    with force_generic(), hiprt.use_stream(stream):
        here = target_module.target_of(stream)
        rings = replace(here, features=here.features | {"bulk_copies", "matrix"}, compute_units=8)
        monkeypatch.setitem(target_module.generic, stream.device.index, rings)
        for module in (rings_module, vector_rings_module):
            monkeypatch.setattr(module, "ALONE", 0)  # the CPU device has less threadgroup memory
        model = preset("rings", dtype=np.float16, fused=True)
        assert model.layers[0].feed.rows_alike(model.dtype, True) == 8
        assert model.head.rows_alike(model.dtype, fused=True) == 1  # its rows are no whole tiles
        single, run = (model.state(1, 32) for _ in range(2))
        tokens, places = np.arange(30, 35, dtype=np.int32), np.arange(5, dtype=np.int32)
        logits = [model.decode(*(hiprt.array(each[i : i + 1]) for each in (tokens, places)), single) for i in range(5)]
        rows = model.verify(hiprt.array(tokens), hiprt.array(places), run).numpy(stream)
        assert rows.tobytes() == b"".join(each.numpy(stream).tobytes() for each in logits)


def test_a_mixture_checks_rows_by_the_kernels_of_a_step(stream, monkeypatch):
    """Where the product in front of a mixture leaves the router's logits, it does so for each row that is checked."""
    sizes = {"hidden_size": 512, "moe_intermediate_size": 64, "num_hidden_layers": 2}
    monkeypatch.setitem(PRESETS, "mixture", {**PRESETS["qwen3-moe-mini"], **sizes})
    monkeypatch.setattr(moe, "reads_folded", lambda target: True)
    both_rings(monkeypatch, Ring(2, 1, 1, 1, 0, 16), Ring(2, 2, 1, 1, 0, 7))
    with force_generic(), hiprt.use_stream(stream):
        model = preset("mixture", fused=True)
        single, run = (model.state(1, 32) for _ in range(2))
        tokens, places = np.arange(30, 33, dtype=np.int32), np.arange(3, dtype=np.int32)
        given = [[hiprt.array(each[i : i + 1]) for each in (tokens, places)] for i in range(3)]
        logits = [model.decode(*each, single).numpy(stream) for each in given]
        rows = model.verify(hiprt.array(tokens), hiprt.array(places), run).numpy(stream)
    assert rows.tobytes() == b"".join(each.tobytes() for each in logits)


@pytest.mark.parametrize("branch", ["loops", "generic"])
@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("fused", [True, False])
def test_rows_have_the_bits_of_single_steps(stream, untied, branch, kv_bits, fused):
    """Each token of a run has the logits that it has after the one before it, also in the kernels of GPUs."""
    with force_generic() if branch == "generic" else nullcontext(), hiprt.use_stream(stream):
        model = preset(untied, dtype=np.float16, fused=fused)
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


def test_caches_grow_while_steps_are_not_read(stream, reader, untied):
    """A step counts as if all guesses were right until it is read; the text is the same, and ends at the capacity."""
    model = preset(untied, seed=1)
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


@pytest.mark.parametrize(("draft", "acceptance"), [(None, None), ("qwen3-moe-mini", 1.0)])
def test_what_bench_decode_says(draft, acceptance):
    """A preset that guesses for itself is always right; the tokens are compared with those of single steps."""
    report = decode.measure("qwen3-moe-mini", 5, 12, modes=("graph", "eager"), drafts=2, draft=draft, seed=1)
    assert report.equal == report.compared > 12
    assert acceptance is None or report.acceptance == acceptance
    mode = report.modes["graph"]
    assert 1 <= mode.tokens_per_step <= 3
    assert (mode.launches_per_token, mode.rungs["replay"]) == (1, 12)
    assert f"2 guesses a step from {draft or 'the text'}" in decode.table(report)


def test_tokens_that_differ_are_told(monkeypatch):
    monkeypatch.setattr(Run, "single", lambda run, tokens: [-1] * tokens)
    report = decode.measure("qwen3-mini", 5, 4, modes=("eager",), drafts=2)
    assert (report.compared > 0, report.equal) == (True, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--draft", "qwen3-mini"], "how many tokens"),
        (["--speculate", "9"], "speculate=9: must be from 1 to 7"),
        (["--speculate", "2", "--batch", "2"], "one sequence"),
        (["--speculate", "2", "--mode", "compiled"], "not compiled"),
        (["--speculate", "2", "--model", "qwen3.5-mini"], "recurrent layers"),
        (["--speculate", "2", "--draft", "qwen3-0.6b"], "the same tokenizer"),
    ],
)
def test_what_bench_decode_refuses(capsys, options, message):
    with pytest.raises(SystemExit):
        __main__.main(["bench", "decode", *options])
    assert message in capsys.readouterr().err
