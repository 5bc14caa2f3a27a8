"""Prompt caches: a text that goes on from one is the text without it, and a file that does not fit is refused."""

import json
import os

import numpy as np
import pytest
from helpers import checkpoints
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from safetensors.numpy import load_file, save_file

from hiprt import __main__
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.prompt_cache import PromptCache
from hiprt.bench.engine.request import Request

PROMPT = [*range(20, 61)]


@pytest.fixture(scope="module", params=list(MINIS))
def family(request):
    """A small model of each family, in float32 so that only the order of sums differs."""
    return preset(request.param, dtype=np.float32)


def fill(decoder, prompts, kept=0, **options):
    """Take prompts; return how many tokens were taken after each chunk."""
    decoder.start(prompts, kept=kept, **options)
    return list(decoder.prefill())


def write(decoder, steps):
    """Return the tokens of each text, and the last logits."""
    tokens = [[decoder.token(i) for i in range(decoder.batch)]]
    for _ in range(steps):
        decoder.step()
        tokens.append([decoder.token(i) for i in range(decoder.batch)])
    return np.array(tokens).T.tolist(), decoder.logits.numpy().astype(np.float64)


def same(found, expected):
    assert found[0] == expected[0]
    assert np.linalg.norm(found[1] - expected[1]) / np.linalg.norm(expected[1]) < 1e-5


def test_a_cache_that_is_read_is_written_again(tmp_path, family, stream):
    """What was read up to the last token but one is saved there, so that the same prompt finds it once more."""
    made = Decoder(family, stream, 64)
    kept = 0
    for round_ in range(3):
        fill(made, PROMPT, kept, save_at=len(PROMPT) - 1)
        made.write_cache(tmp_path / "cache")
        made = Decoder(family, stream, 64)
        kept = made.read_cache(tmp_path / "cache", PROMPT)
        assert kept == len(PROMPT) - 1, round_


@pytest.mark.parametrize(
    ("behind", "batch", "capacity"), [([], 1, 64), ([7], 1, 16), ([9, 8, 7, 6, 5], 1, 64), ([1, 2], 3, 16)]
)
def test_a_text_goes_on_from_a_cache(tmp_path, family, stream, behind, batch, capacity):
    """Only what is behind the cache is taken, whatever the capacity was; every text of several begins from it."""
    made, fresh = Decoder(family, stream, 64), Decoder(family, stream, 256, batch=batch)
    fill(made, PROMPT, save_at=len(PROMPT) - 1)
    write(made, 3)
    made.write_cache(tmp_path / "cache")
    loaded = Decoder(family, stream, capacity, limit=256, batch=batch)
    prompts = [[*PROMPT, *behind, *range(index)] for index in range(batch)]
    kept = loaded.read_cache(tmp_path / "cache", prompts)
    assert kept == len(PROMPT) - (made.saved is not None or not behind)
    taken = fill(loaded, prompts, kept)
    assert taken[-1] == sum(map(len, prompts))
    assert len(taken) <= sum(len(prompt) - kept for prompt in prompts)
    fill(fresh, prompts)
    same(write(loaded, 8), write(fresh, 8))


def test_a_prompt_that_differs(tmp_path, family, stream):
    """Attention goes on from where the prompts part; recurrent layers begin anew, whatever the decoder held before."""
    made, fresh = (Decoder(family, stream, 64) for _ in range(2))
    fill(made, PROMPT)
    made.write_cache(tmp_path / "cache")
    for prompt, common in (([*PROMPT[:12], 3, 1, 4, 1], 12), ([5, *PROMPT], 0), (PROMPT[:20], 19)):
        kept = made.read_cache(tmp_path / "cache", prompt)
        assert kept == (common if made.state.is_rewindable else 0)
        fill(made, prompt, kept)
        fill(fresh, prompt)
        same(write(made, 6), write(fresh, 6))


def test_another_model_is_refused(tmp_path, stream):
    """A cache belongs to one config, one dtype and one set of weights."""
    made = Decoder(preset("qwen3-mini"), stream, 64)
    fill(made, PROMPT)
    made.write_cache(tmp_path / "cache")
    assert made.read_cache(tmp_path / "cache", PROMPT) == len(PROMPT) - 1
    again = Decoder(preset("qwen3-mini"), stream, 64)
    assert again.read_cache(tmp_path / "cache", PROMPT) == len(PROMPT) - 1
    for other in (preset("qwen3-mini", seed=1), preset("qwen3-mini", dtype=np.float32), preset("qwen3-moe-mini")):
        with pytest.raises(CheckpointError, match="of another model"):
            Decoder(other, stream, 64).read_cache(tmp_path / "cache", PROMPT)


def test_weights_that_differ_in_a_bit_of_a_norm_are_another_model(tmp_path):
    """Two checkpoints of one config and other weights have other fingerprints, wherever they lie."""
    first, second = (checkpoints.write(tmp_path / name, eos_token_id=None) for name in "ab")
    cache = tmp_path / "cache"
    report = generate(Request(model=first, prompt="Once upon", tokens=4, save_cache=cache))
    again = generate(Request(model=second, prompt="Once upon", tokens=4, load_cache=cache))
    assert (again.token_ids, again.cached_tokens) == (report.token_ids, 8)
    weights = load_file(second / "model.safetensors")
    weights["model.norm.weight"].view(np.uint16)[0] ^= 1
    save_file(weights, second / "model.safetensors")
    with pytest.raises(CheckpointError, match="of another model"):
        generate(Request(model=second, prompt="Once upon", tokens=4, load_cache=cache))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A prompt cache of a hybrid, and its model."""
    from hiprt import Stream

    path, stream = tmp_path_factory.mktemp("caches") / "cache", Stream()
    model = preset("qwen3.5-mini", dtype=np.float32)
    made = Decoder(model, stream, 64)
    fill(made, PROMPT)
    made.write_cache(path)
    return path, made


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_noticed(tmp_path, written, data):
    """A changed byte anywhere, or another length, is an error in one line with a remedy."""
    path, decoder = written
    raw = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(raw[:8], "little")
    at = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(raw) - 1)))
    kind = data.draw(st.sampled_from(["byte", "cut", "more"]))
    if kind == "byte":
        assume(raw[at] != ord(" "))  # spaces behind the header may become other spaces
        raw[at] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del raw[at:]
    else:
        raw[at:at] = b"\0" * data.draw(st.integers(1, 9))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(raw)
    with pytest.raises(CheckpointError) as caught:
        decoder.read_cache(damaged, PROMPT)
    assert caught.value.remedy == "write it again with --save-cache"
    assert "\n" not in str(caught.value)


def test_files_that_are_no_caches(tmp_path, written):
    """A missing file, a folder, weights, and a cache without one of its layers."""
    path, decoder = written
    (tmp_path / "text").write_text("hello")
    save_file({"tokens": np.arange(4, dtype=np.int32)}, tmp_path / "weights")
    PromptCache.write(tmp_path / "hollow", decoder.model.identity, PROMPT, len(PROMPT), {})
    for name, word in (
        ("none", "is missing"),
        ("", "is no file"),
        ("text", "corrupt|truncated"),
        ("weights", "no prompt cache"),
        ("hollow", "is not what the model keeps"),
    ):
        with pytest.raises(CheckpointError, match=word):
            decoder.read_cache(tmp_path / name, PROMPT)
    assert decoder.read_cache(path, [*PROMPT, 1]) == len(PROMPT)


def test_a_file_that_cannot_be_written(tmp_path, written, monkeypatch):
    """The one that was there stays, and no part of a new one."""
    _, decoder = written
    (tmp_path / "cache").write_text("before")

    def fail(arrays, path, metadata):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hiprt.bench.engine.prompt_cache.save_file", fail)
    with pytest.raises(OSError, match="No space left"):
        decoder.write_cache(tmp_path / "cache")
    assert [each.name for each in tmp_path.iterdir()] == ["cache"]
    assert (tmp_path / "cache").read_text() == "before"


def test_what_is_no_file_is_not_replaced(tmp_path, written):
    """A pipe, or a device such as /dev/null, would be gone."""
    _, decoder = written
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(FileExistsError, match="is no file: give the name of one"):
            decoder.write_cache(path)
        with pytest.raises(ValueError, match="it is no file, give the name of one"):
            Request(save_cache=path)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_the_command(tmp_path, capsys):
    """A prompt is written to a file and gone on from, by itself or as the beginning of another one."""
    folder, cache = checkpoints.write(tmp_path / "model", dtype="float32", eos_token_id=None), str(tmp_path / "cache")

    def report(*given, status=0):
        arguments = ["generate", "--model", str(folder), "--tokens", "6", "--json", *given]
        assert __main__.main(arguments) == status
        printed = capsys.readouterr()
        return json.loads(printed.out) if status == 0 else printed.err

    first = report("--prompt", "Once upon", "--save-cache", cache, "--verify")
    assert first["cached_tokens"] is None
    again = report("--load-cache", cache, "--verify")
    assert (again["prompt"], again["cached_tokens"], again["verified"]) == ("Once upon", 8, True)
    assert again["token_ids"] == first["token_ids"]
    longer = report("--prompt", "Once upon a time", "--prompt", "Once upon", "--load-cache", cache)
    assert longer["cached_tokens"] == 2 * 8
    assert longer["choices"][1]["token_ids"] == first["token_ids"]
    assert longer["token_ids"] == report("--prompt", "Once upon a time")["token_ids"]
    (tmp_path / "cache").write_bytes(b"no cache")
    assert "write it again with --save-cache" in report("--load-cache", cache, status=1)
    for wrong in (["--save-cache", cache, "--batch", "2"], ["--save-cache", str(tmp_path / "none" / "cache")]):
        with pytest.raises(SystemExit):
            report(*wrong)
        assert "cache" in capsys.readouterr().err
