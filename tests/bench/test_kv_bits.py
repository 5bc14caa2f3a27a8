"""Keys and values in 8 bits: generation, growth, prompt caches, families, and what is refused."""

import json

import numpy as np
import pytest
from helpers import checkpoints

import hiprt
from hiprt import __main__
from hiprt.bench import kv
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import QuantizedKeyValue, preset
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.request import Request

PROMPT = [*range(20, 61)]


def write(decoder, prompts, steps, kept=0):
    """Take prompts and some steps; return the tokens of each text, and the last logits."""
    decoder.start(prompts, kept=kept)
    for _ in decoder.prefill():
        pass
    tokens = [[decoder.token(i) for i in range(decoder.batch)]]
    for _ in range(steps):
        decoder.step()
        tokens.append([decoder.token(i) for i in range(decoder.batch)])
    return np.array(tokens).T.tolist(), decoder.logits.numpy().astype(np.float64)


def test_every_step_has_the_bits_of_an_eager_one():
    report = generate(Request(tokens=24, kv_bits=8, verify=True))
    assert report.verified
    assert report.kv_bits == 8
    assert report.tokens == 24
    assert report.rungs["replay"] >= 22


@pytest.mark.parametrize("name", MINIS)
def test_logits_are_near_those_of_the_dtype(name, stream):
    """In every family, with several texts; recurrent layers keep what they kept."""
    model = preset(name, dtype=np.float32)
    wide, coded = (Decoder(model, stream, 256, batch=2, kv_bits=bits) for bits in (None, 8))
    prompts = [PROMPT, PROMPT[:9]]
    expected, found = write(wide, prompts, 12)[1], write(coded, prompts, 12)[1]
    kinds = [isinstance(layer, QuantizedKeyValue) for layer in coded.state.layers]
    assert kinds == [mixer == "attention" for mixer, _ in model.config.layers]
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 1e-6 < error < 3e-2


def test_caches_grow(stream):
    model = preset("qwen3-mini", dtype=np.float32)
    grown = Decoder(model, stream, 44, limit=512, kv_bits=8)
    found = write(grown, PROMPT, 12)
    assert grown.capacity > 44
    expected = write(Decoder(model, stream, 512, kv_bits=8), PROMPT, 12)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_prompt_cache_goes_on_in_8_bits(tmp_path, stream):
    """What a file has is what the layers keep, bit by bit; so the text behind it is the same."""
    model = preset("qwen3-mini", dtype=np.float32)
    made = Decoder(model, stream, 256, kv_bits=8)
    expected = write(made, [*PROMPT, 7], 8)
    made.write_cache(tmp_path / "cache")
    loaded = Decoder(model, stream, 256, kv_bits=8)
    kept = loaded.read_cache(tmp_path / "cache", [*PROMPT, 7])
    assert kept == len(PROMPT)
    for own, other in zip(loaded.state.kept(kept).values(), made.state.kept(kept).values(), strict=True):
        np.testing.assert_array_equal(hiprt.kernels.contiguous(own).numpy(), hiprt.kernels.contiguous(other).numpy())
    assert write(loaded, [*PROMPT, 7], 8, kept)[0] == expected[0]


@pytest.mark.parametrize(("written", "read", "message"), [(8, None, "has keys and"), (None, 8, "has no keys and")])
def test_a_prompt_cache_of_other_bits_is_refused(tmp_path, stream, written, read, message):
    model = preset("qwen3-mini")
    made = Decoder(model, stream, 256, kv_bits=written)
    write(made, PROMPT, 1)
    made.write_cache(tmp_path / "cache")
    with pytest.raises(CheckpointError, match=message) as found:
        Decoder(model, stream, 256, kv_bits=read).read_cache(tmp_path / "cache", PROMPT)
    assert "--kv-bits" in found.value.remedy


def test_a_loaded_model_writes_in_either(capsys):
    """The decoder of a text in 8 bits is not taken for one in the model's dtype."""
    model = hiprt.load()
    first = model.generate("Once", tokens=4, kv_bits=8)
    second = model.generate("Once", tokens=4)
    assert (first.kv_bits, second.kv_bits) == (8, None)
    assert second.nodes_per_token == model.generate("Once", tokens=4).nodes_per_token
    assert first.nodes_per_token == model.generate("Once", tokens=4, kv_bits=8).nodes_per_token
    assert first.nodes_per_token != second.nodes_per_token


@pytest.mark.parametrize("bits", ["4", "16", "0"])
def test_other_bits_are_refused(capsys, bits):
    with pytest.raises(SystemExit):
        __main__.main(["generate", "--kv-bits", bits])
    assert f"kv_bits={bits}: must be 8" in capsys.readouterr().err


def test_the_error_on_the_shipped_model(capsys):
    """`hiprt bench kv` finds one, which is small beside the spread of the logits, and half of the memory taken."""
    assert __main__.main(["bench", "kv", "--tokens", "40", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    heads, layers, width = 2, 6, 64
    assert report["bytes_per_token"] == 2 * heads * layers * width * 2
    assert report["bytes_per_token_8"] == 2 * heads * layers * (width + 4)
    assert report["tokens"] > 40
    assert 0 < report["rms_error"] < 0.03 * report["rms_logits"]
    assert 0 <= report["divergence"] < 1e-3
    assert report["perplexity_8"] == pytest.approx(report["perplexity"], rel=0.02)
    assert report["same_likeliest"] >= report["tokens"] - 1
    assert report["kv_bytes"] == report["bytes_per_token"] * 4 * 2048
    assert report["kv_bytes_in_blocks"] == report["bytes_per_token"] * (64 + 128 + 256 + 2048)


def test_logits_that_differ_are_told(monkeypatch):
    """A cache that is far off is seen in each figure."""

    def wrong(model, text, kv_bits):
        logits, nbytes = found(model, text, None)
        return (logits if kv_bits is None else -logits), nbytes

    found = kv.logits_of
    monkeypatch.setattr(kv, "logits_of", wrong)
    report = kv.measure(tokens=8)
    assert report.same_likeliest == 0
    assert report.largest_margin > 1
    assert report.largest_error > report.rms_error > report.rms_logits
    assert report.divergence > 1
    assert report.perplexity_8 > 10 * report.perplexity
    assert "its lead elsewhere" in kv.table(report)


@pytest.mark.parametrize(
    ("options", "message"), [(["--kv-bits", "4"], "kv_bits=4: must be 8"), (["--kv-bits", "8", "--plain"], "plain ops")]
)
def test_what_bench_decode_refuses(capsys, options, message):
    with pytest.raises(SystemExit):
        __main__.main(["bench", "decode", *options])
    assert message in capsys.readouterr().err


def test_heads_that_are_no_whole_groups_are_refused(tmp_path):
    checkpoints.write(tmp_path)
    with pytest.raises(ValueError, match="heads of 32 elements; caches in 8 bits take those of 64, 128 or 256"):
        generate(Request(tmp_path, prompt_ids=((1, 2),), tokens=2, kv_bits=8))
