"""Checkpoints: what is read from a model directory, and every way it can be refused."""

import json
import os
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers import checkpoints
from helpers.families import Family
from safetensors.numpy import load_file

from hiprt.array import dtype_of
from hiprt.bench.engine.checkpoint import Checkpoint, CheckpointWarning
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.models import load, read
from hiprt.kernels.ops.quantized.formats import MODES
from hiprt.kernels.reference.quantize import dequantize, dequantize_floating, pack

MODULE = "model.layers.1.mlp.up_proj"
HALF = dtype_of("float16")


def edit(folder, **changes):
    """Change config.json; None removes a value."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


def refused(folder, *words):
    """Open and load a directory; it must be refused with these words and a remedy."""
    with pytest.raises(CheckpointError) as caught:
        load(Checkpoint(folder))
    for word in words:
        assert word in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.fixture
def folder(tmp_path):
    """A sound checkpoint."""
    return checkpoints.write(tmp_path / "model")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shards", [1, 3])
def test_tensors_come_out_as_they_were_written(tmp_path, dtype, shards):
    """Every tensor equals what the safetensors library reads, from one file or several."""
    made = checkpoints.write(tmp_path, dtype=dtype, shards=shards)
    checkpoint = Checkpoint(made)
    written = {name: value for file in made.glob("*.safetensors") for name, value in load_file(file).items()}
    assert set(checkpoint.places) == set(written)
    for name, value in written.items():
        found = checkpoint.tensor(name, value.shape, value.dtype)
        assert found.tobytes() == value.tobytes()
        assert not found.flags.writeable
    assert checkpoint.dtype_of("model.embed_tokens", "model.norm.weight") == dtype_of(dtype)


def test_weights_are_views_of_the_mapped_file(folder):
    """Reading a tensor copies nothing."""
    checkpoint = Checkpoint(folder)
    file = checkpoint.files["model.safetensors"]
    assert np.shares_memory(checkpoint.matrix(MODULE, (160, 96), HALF).weight, file.bytes)


def test_a_module_may_have_its_own_bits(tmp_path):
    """config.json's entry for a module wins over the section's values."""
    quantization = {"group_size": 32, "bits": 4, MODULE: {"group_size": 32, "bits": 8}}
    checkpoint = Checkpoint(checkpoints.write(tmp_path, quantization=quantization))
    matrix = checkpoint.matrix(MODULE, (160, 96), HALF)
    assert (matrix.bits, matrix.weight.shape) == (8, (160, 24))
    assert checkpoint.quantization("model.embed_tokens") == ("affine", 32, 4)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"bits": 6}, ("affine", 64, 6)),
        ({"group_size": None, "bits": None}, ("affine", 64, 4)),
        ({"mode": "mxfp4", "group_size": None}, ("mxfp4", 32, 4)),
        ({"mode": "mxfp8"}, ("mxfp8", 32, 8)),
        ({"mode": "nvfp4", "group_size": 16, "bits": 4}, ("nvfp4", 16, 4)),
    ],
)
def test_null_means_what_a_mode_has_by_default(folder, section, expected):
    """mlx-lm writes null for a group size or bits that are the mode's own."""
    edit(folder, quantization={"group_size": 32, "bits": 4, MODULE: section} | {"group_size": None})
    assert Checkpoint(folder).quantization(MODULE) == expected


def test_stop_tokens_come_from_either_config(folder):
    """generation_config.json wins; a number and a list are both understood."""
    assert Checkpoint(folder).stops == {256}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [256, 257]}))
    assert Checkpoint(folder).stops == {256, 257}
    (folder / "generation_config.json").unlink()
    edit(folder, eos_token_id=None)
    assert Checkpoint(folder).stops == set()
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|a|>"}))
    assert Checkpoint(folder).stops == {257}
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|b|>"}}))
    assert Checkpoint(folder).stops == {258}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": "end"}))
    refused(folder, "eos_token_id", "'end'")


def test_an_empty_prompt_begins_with_the_first_token(folder):
    """Without a token in the prompt the text begins with bos_token_id."""
    assert Checkpoint(folder).encode("") == [256]
    assert len(Checkpoint(folder).encode("ab")) == 2
    edit(folder, bos_token_id=None)
    with pytest.raises(CheckpointError, match="bos_token_id"):
        Checkpoint(folder).encode("")


def test_missing_directory(tmp_path):
    """A directory that is missing, or is a file, is refused."""
    refused(tmp_path / "none", "none does not exist")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "is not a directory")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_missing_or_broken_json(folder, name):
    """config.json and tokenizer.json must be there and must be JSON."""
    (folder / name).write_text("{")
    refused(folder, name, "cannot be read")
    (folder / name).write_bytes(b"\xff\xfe")
    refused(folder, name, "cannot be read")
    (folder / name).unlink()
    refused(folder, f"{name} is missing")


def test_config_that_is_no_object(folder):
    """JSON of another kind than an object is no config."""
    (folder / "config.json").write_text("[]")
    refused(folder, "config.json", "no JSON object")


def test_missing_weights(folder):
    """A directory without weights and without an index is refused."""
    (folder / "model.safetensors").unlink()
    refused(folder, "neither model.safetensors nor model.safetensors.index.json")


@pytest.mark.parametrize("missing", ["model.norm.weight", f"{MODULE}.weight", f"{MODULE}.biases"])
def test_missing_tensor(tmp_path, missing):
    """A tensor the model needs is named when it is not there."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    del weights[missing]
    refused(checkpoints.write(tmp_path, weights=weights), f"holds no tensor {missing}")


@pytest.mark.parametrize("module", ["model.embed_tokens", MODULE])
def test_unquantised_weight(tmp_path, module):
    """The message for a weight without scales is not the one for a missing tensor."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    del weights[f"{module}.scales"], weights[f"{module}.biases"]
    refused(checkpoints.write(tmp_path, weights=weights), f"{module} has no scales", "mlx_lm.convert")


def test_wrong_shape(tmp_path):
    """The message names the shape that is there and the one that is needed."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    weights[f"{MODULE}.scales"] = weights[f"{MODULE}.scales"][:-1].copy()
    refused(checkpoints.write(tmp_path, weights=weights), f"{MODULE}.scales", "[159, 3]", "[160, 3]")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(f"{MODULE}.scales", "float32"), ("model.norm.weight", "float64"), (f"{MODULE}.weight", "int32")],
)
def test_wrong_dtype(tmp_path, name, dtype):
    """Codes are uint32, scales have the dtype of the embedding's scales, and norms are floats that kernels read."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    weights[name] = weights[name].astype(dtype)
    refused(checkpoints.write(tmp_path, weights=weights), name, f"dtype {dtype}")


def test_scales_that_are_no_floats(tmp_path):
    """The dtype of the whole model is float16, bfloat16 or float32."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    weights["model.embed_tokens.scales"] = weights["model.embed_tokens.scales"].astype(np.float64)
    refused(checkpoints.write(tmp_path, weights=weights), "float64", "bfloat16")


@pytest.mark.parametrize("kind", ["llama", "qwen2_moe"])
def test_unknown_architecture(folder, kind):
    """model_type decides, and the message says what would do."""
    edit(folder, model_type=kind)
    refused(folder, kind, "not supported", "qwen3")
    edit(folder, model_type=None)
    refused(folder, "has no model_type")


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (None, ["no quantization section"]),
        ({"group_size": 32, "bits": 7}, ["7 bits", "groups of 32"]),
        ({"group_size": 16, "bits": 4}, ["4 bits", "groups of 16"]),
        ({"bits": 4}, ["96 columns", "groups of 64"]),
        ({"mode": "mxfp4", "bits": 4, "group_size": 64}, ["mxfp4", "groups of 64", "groups 32"]),
        ({"mode": ["affine"], "bits": 4, "group_size": 32}, ["['affine']"]),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, ["gptq"]),
        ({"mode": "mxfp4", "bits": 4, "group_size": 32}, ["scales has dtype float16, expected uint8"]),
        ({"group_size": 64, "bits": 4}, ["96 columns", "groups of 64"]),
    ],
)
def test_unsupported_quantization(folder, section, words):
    """Only codes of known kinds, widths and groups are read."""
    edit(folder, quantization=section)
    refused(folder, *words)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": "96"}, "hidden_size is '96', expected int"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_key_value_heads": 4}, "num_attention_heads 6, no multiple of num_key_value_heads 4"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rotary"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rotary"),
        ({"rope_theta": None}, "has no rope_theta"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, not from 1 to"),
        ({"num_hidden_layers": 2**64}, "num_hidden_layers is 18446744073709551616"),
        ({"num_hidden_layers": 3}, "num_hidden_layers is 3, but the weights have 2 layers"),
        ({"num_attention_heads": 0}, "num_attention_heads 0"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps -1e-06"),
        ({"rope_theta": float("inf")}, "rope_theta is inf"),
        ({"rope_theta": 0}, "rope_theta 0"),
        ({"partial_rotary_factor": float("inf")}, "partial_rotary_factor is inf"),
        ({"partial_rotary_factor": 1e300}, "partial_rotary_factor is 1e+300"),
        ({"partial_rotary_factor": 2}, "partial_rotary_factor is 2.0, not above 0"),
        ({"rope_parameters": {"partial_rotary_factor": []}}, "partial_rotary_factor is [], expected float"),
        ({"rope_scaling": {"rope_type": []}}, "rope_type is [], expected str"),
        ({"rope_scaling": [1]}, "rope_scaling is [1], expected dict"),
        ({"hidden_size": [0] * 10**6}, "hidden_size is [0, 0, 0, 0, 0, 0, ...], expected int"),
    ],
)
def test_unsupported_config(folder, changes, word):
    """What the model would compute wrongly is refused by name."""
    edit(folder, **changes)
    refused(folder, word)


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("qwen3-moe-mini", {"num_experts": None}, "has no num_experts"),
        ("qwen3-moe-mini", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9, not from 1 to 8"),
        ("qwen3-moe-mini", {"norm_topk_prob": 1}, "norm_topk_prob is 1"),
        ("qwen3.5-mini", {"linear_num_value_heads": 3}, "linear_num_value_heads 3"),
        ("qwen3.5-mini", {"linear_conv_kernel_dim": 9}, "linear_conv_kernel_dim is 9"),
        ("qwen3.5-mini", {"linear_key_head_dim": None}, "has no linear_key_head_dim"),
        ("qwen3.5-mini", {"layer_types": ["full_attention"]}, "1 entries for 4 layers"),
        ("qwen3.5-mini", {"layer_types": ["sliding_attention"] * 4}, "sliding_attention"),
        ("qwen3.5-mini", {"layer_types": [[]] * 4}, "layer_types with []"),
        ("qwen3-moe-mini", {"num_experts": 10**9}, "num_experts is 1000000000, not from 1 to"),
        ("qwen3-moe-mini", {"moe_intermediate_size": 0}, "moe_intermediate_size is 0"),
        ("qwen3.5-mini", {"partial_rotary_factor": 0.02}, "partial_rotary_factor for 1 of 64"),
        ("qwen3.5-mini", {"attn_output_gate": False}, "output gate"),
        ("qwen3.5-mini", {"hidden_size": 64}, "config.json asks for"),
    ],
)
def test_unsupported_config_of_other_families(tmp_path, name, changes, word):
    """What mixtures and hybrids would compute wrongly is refused by name as well."""
    folder = Family(name, "float32").write_mlx(tmp_path)
    edit(folder, **changes)
    refused(folder, word)


def test_config_values_have_other_places(folder):
    """head_dim follows from the hidden size; rope_theta may stand in rope_parameters."""
    edit(folder, head_dim=None, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    config = read(Checkpoint(folder).settings)
    assert (config.head_dim, config.rope_theta) == (16, 5e5)


def test_the_experts_of_transformers_5(tmp_path):
    """The number of experts has another name there."""
    folder = Family("qwen3-moe-mini", "float32").write_mlx(tmp_path)
    edit(folder, num_experts=None, num_local_experts=8)
    assert load(Checkpoint(folder)).config.mixture.experts == 8


def test_an_unknown_architecture_is_told_first(folder):
    """Whoever has a model of another kind is not sent for files that would not help."""
    edit(folder, model_type="llama")
    (folder / "tokenizer.json").unlink()
    refused(folder, "'llama' is not supported")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_is_no_file(folder, name):
    """A pipe, which would be waited for, is refused at once."""
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, f"{name} is no file")


def test_json_without_end(folder):
    """Deep nesting and large files are errors of the file."""
    (folder / "config.json").write_text("[" * 200_000 + "]" * 200_000)
    refused(folder, "config.json cannot be read")
    with (folder / "config.json").open("w") as file:
        file.truncate(65 << 20)
    refused(folder, "config.json is larger than 64 MiB")


@pytest.mark.parametrize("kept", [0, 7, 8, 100, -1])
def test_truncated_weights(folder, kept):
    """A file that ends early is refused wherever it ends."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, "model.safetensors", "truncated", "download")


def test_weights_with_bytes_too_many(folder):
    """A file with bytes that no tensor owns is refused."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"\0")
    refused(folder, "corrupt")


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b'{"a": 1}',
        b'{"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [1]}}',
    ],
)
def test_corrupt_header(folder, header):
    """A header that is not in the format is refused."""
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    refused(folder, "header", "corrupt")


@pytest.mark.parametrize(
    ("dtype", "shape", "words"),
    [
        ("F8_E4M3", [8, 8], "model.norm.weight has dtype float8_e4m3fn"),
        ("F4", [8, 16], "model.norm.weight has dtype F4"),
    ],
)
def test_dtypes_of_other_kinds_of_quantisation(folder, dtype, shape, words):
    """A tensor in a dtype that the format has and no kernel reads is named."""
    described = {"model.norm.weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, 64]}}
    header = json.dumps(described | {f"{MODULE}.weight": {"dtype": "F16", "shape": [2], "data_offsets": [64, 68]}})
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(68))
    with pytest.raises(CheckpointError, match=words):
        Checkpoint(folder).tensor("model.norm.weight", (8, 8), HALF)
    if dtype != "F4":
        assert Checkpoint(folder).files["model.safetensors"].entries[f"{MODULE}.weight"].start == 8 + len(header) + 64


def test_weights_of_another_format(folder):
    """A web page under the name of the weights is refused."""
    (folder / "model.safetensors").write_bytes(b"<!doctype html>" * 99)
    refused(folder, "no safetensors file")


def test_missing_shard(tmp_path):
    """An index that names a missing file is refused."""
    folder = checkpoints.write(tmp_path, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    refused(folder, "names model-00002-of-00003.safetensors, which is missing")


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/dev/stdin", "a/../../b.safetensors", "", ".", "a\0b"])
def test_shards_outside_of_the_folder(tmp_path, name):
    """An index names files of its folder only."""
    folder = checkpoints.write(tmp_path / "model", shards=2)
    shutil.copy(folder / "model-00001-of-00002.safetensors", tmp_path / "elsewhere.safetensors")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    path.write_text(json.dumps({"weight_map": dict.fromkeys(index["weight_map"], name)}))
    refused(folder, "index.json names")


def test_shards_may_be_links(tmp_path):
    """The hub's cache keeps files elsewhere and links to them."""
    folder = checkpoints.write(tmp_path / "model", shards=2)
    for shard in list(folder.glob("*.safetensors")):
        shard.rename(tmp_path / shard.name)
        shard.symlink_to(tmp_path / shard.name)
    assert load(Checkpoint(folder)).config.num_hidden_layers == 2


def test_shards_without_an_index(tmp_path):
    """Shards say themselves what they hold; one that is missing or holds what another has is told."""
    folder = checkpoints.write(tmp_path, shards=3)
    whole = set(Checkpoint(folder).places)
    (folder / "model.safetensors.index.json").unlink()
    assert set(Checkpoint(folder).places) == whole
    first, second, last = sorted(folder.glob("*.safetensors"))
    shutil.copy(first, second)
    refused(folder, f"in {first.name} and in {second.name}")
    last.unlink()
    refused(folder, "2 of 3 shards")


def test_a_tensor_that_is_named_twice(folder):
    """Which of the two is meant cannot be known."""
    described = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    header = f"{{{described}, {described}}}".encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    refused(folder, "names 'a' twice")


def test_index_that_contradicts_its_shards(tmp_path):
    """An index that places a tensor in a shard without it, or has no map, is refused."""
    folder = checkpoints.write(tmp_path, shards=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    path.write_text(json.dumps(index))
    refused(folder, "places ghost in model-00001-of-00002.safetensors, which does not hold it")
    path.write_text("{}")
    refused(folder, "no weight_map")


def test_unused_tensors_are_named(tmp_path):
    """A tensor that nothing asks for is a warning, not an error."""
    weights = checkpoints.tensors(checkpoints.CONFIG) | {"model.rotary.inv_freq": np.ones(3, np.float32)}
    checkpoint = Checkpoint(checkpoints.write(tmp_path, weights=weights))
    for name in set(checkpoint.places) - {"model.rotary.inv_freq"}:
        entry = checkpoint.places[name].entries[name]
        checkpoint.tensor(name, entry.shape, entry.dtype)
    with pytest.warns(CheckpointWarning, match=r"1 tensors .* model\.rotary\.inv_freq"):
        assert checkpoint.warn_unused() == ["model.rotary.inv_freq"]


@pytest.mark.parametrize("tied", [True, False])
def test_a_sound_checkpoint_loads_whole(tmp_path, tied):
    """Every tensor of a sound checkpoint is used, whether the embeddings are tied or not."""
    checkpoint = Checkpoint(checkpoints.write(tmp_path, tie_word_embeddings=tied))
    model = load(checkpoint)
    assert (model.head is model.embedding) == tied
    assert checkpoint.used == set(checkpoint.places)
    stored = checkpoint.matrix(MODULE, (160, 96), HALF).weight
    assert model.layers[1].feed.gate_up.weight.numpy()[160:].tobytes() == stored.tobytes()


def plain(weights):
    """Return weights with every quantised matrix replaced by what its codes stand for."""
    found = {name: value for name, value in weights.items() if not name.endswith((".scales", ".biases"))}
    for name in [name[:-7] for name in weights if name.endswith(".scales")]:
        parts = (weights[f"{name}.{part}"] for part in ("weight", "scales", "biases"))
        found[f"{name}.weight"] = dequantize(*parts, 32, 4)
    return found


def test_plain_rows_that_are_no_whole_groups_stay_plain(tmp_path):
    """As with mlx-lm: columns that are no multiple of 64 are not quantised in smaller groups."""
    weights = plain(checkpoints.tensors(checkpoints.CONFIG, "float32"))
    model = load(Checkpoint(checkpoints.write(tmp_path, dtype="float32", weights=weights, quantization=None)))
    assert model.embedding.scales is None  # 96 columns
    stored = weights["model.embed_tokens.weight"]
    assert model.embedding.weight.numpy().tobytes() == stored.tobytes()


def test_norms_of_float32_beside_other_weights(tmp_path):
    """They become the dtype that the model computes in."""
    weights = checkpoints.tensors(checkpoints.CONFIG, "bfloat16")
    norms = {name: value.astype(np.float32) for name, value in weights.items() if "norm" in name}
    assert norms
    model = load(Checkpoint(checkpoints.write(tmp_path, dtype="bfloat16", weights=weights | norms)))
    assert model.dtype == dtype_of("bfloat16")
    assert model.norm.numpy().tobytes() == weights["model.norm.weight"].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [f"{MODULE}.scales", "model.embed_tokens.biases", "model.norm.weight"])
def test_values_that_are_no_numbers(tmp_path, name, value):
    """A scale, bias or norm that is NaN or infinite is named."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    weights[name].reshape(-1)[-1] = value
    refused(checkpoints.write(tmp_path, weights=weights), f"{name} holds NaN or infinity")


def test_values_that_the_dtype_cannot_hold(tmp_path):
    """A norm of float32 that is infinite as float16 is not taken for a damaged one."""
    weights = checkpoints.tensors(checkpoints.CONFIG)
    weights["model.norm.weight"] = np.full(96, 1e6, np.float32)
    refused(checkpoints.write(tmp_path, weights=weights), "model.norm has values that float16 cannot hold")


def floating(rng, mode, rows, columns):
    """Return random codes and scales of a mode of floating codes, with values of about 1 / sqrt(columns)."""
    bits, group = (8 if mode == "mxfp8" else 4), (16 if mode == "nvfp4" else 32)
    codes = rng.integers(0, 16, (rows, columns)) if bits == 4 else rng.integers(0, 120, (rows, columns))
    codes = codes if bits == 4 else codes % 64 + 128 * rng.integers(0, 2, codes.shape)  # at most 2 in size, no NaN
    scales = (
        rng.integers(122, 124, (rows, columns // group))
        if mode != "nvfp4"
        else rng.integers(16, 24, (rows, columns // group))
    )
    return pack(codes.astype(np.uint8), bits), scales.astype(np.uint8)


@pytest.mark.parametrize("mode", ["mxfp4", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("mixed", [False, True])
def test_floating_codes(tmp_path, stream, mode, mixed):
    """A model of floating codes computes what the same model with plain weights does; some modules may be affine."""
    rng = np.random.default_rng(0)
    bits, group = MODES[mode].default[1], MODES[mode].default[0]
    stored = checkpoints.tensors(checkpoints.CONFIG, "float32")
    whole = plain(stored)
    section = {"mode": mode, "group_size": group, "bits": bits}
    coded = {name: value for name, value in whole.items() if "norm" in name}
    for name, value in whole.items():
        module = name[:-7]
        if "norm" in name:
            continue
        if mixed and module.endswith(("k_proj", "down_proj")):
            section[module] = {"mode": "affine", "group_size": 32, "bits": 4}
            coded |= {f"{module}.{part}": stored[f"{module}.{part}"] for part in ("weight", "scales", "biases")}
            continue
        packed, scales = floating(rng, mode, *value.shape)
        coded |= {f"{module}.weight": packed, f"{module}.scales": scales}
        whole[name] = dequantize_floating(packed, scales, mode).astype(np.float32)
    found = checkpoints.write(tmp_path / "coded", dtype="float32", weights=coded, quantization=section)
    expected = checkpoints.write(tmp_path / "plain", dtype="float32", weights=whole, quantization=None)
    texts = []
    for folder in (found, expected):
        decoder = Decoder(load(Checkpoint(folder), form=None), stream, 64)
        decoder.start([3, 141, 59, 26])
        logits = []
        for _ in range(12):
            decoder.step()
            logits.append(decoder.logits.numpy(stream)[0])
        texts.append(np.array(logits))
    assert np.isfinite(texts[1]).all()
    np.testing.assert_allclose(texts[0], texts[1], rtol=2e-4, atol=2e-4 * np.abs(texts[1]).max())


def resident(path):
    """Return the bytes of a mapped file that are in this process's memory."""
    maps = Path("/proc/self/smaps").read_text().split(str(path))[1:]
    return sum(int(re.search(r"Rss: +(\d+) kB", each)[1]) << 10 for each in maps)


def test_a_loaded_model_leaves_no_pages_of_its_file(tmp_path):
    """Where the device is the host, weights and mapped file would take memory twice."""
    folder = checkpoints.write(tmp_path, vocab_size=20000)
    checkpoint = Checkpoint(folder)
    file = checkpoint.files["model.safetensors"]
    assert int(np.sum(file.bytes, dtype=np.uint64)) > 0
    assert resident(file.path) > 1 << 20
    load(checkpoint)
    assert resident(file.path) < 64 << 10
