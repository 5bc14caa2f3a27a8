"""Models split over ranks: their parts make up the whole, and the ranks write what one process writes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from distributed.kills import kill
from helpers import checkpoints

from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.matrix import cut
from hiprt.bench.engine.models import FORM, load, read, upload
from hiprt.bench.engine.models.presets import HYBRID, MINI, MINI_MIXTURE, MINIS, MOE, PRESETS, preset
from hiprt.bench.engine.models.shard import Shard, check
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.settings import Settings
from hiprt.distributed import Communicator

pytestmark = pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests")
PROGRAMS = Path(__file__).parent / "programs"
GENERATE = [sys.executable, "-m", "hiprt", "generate"]


class Alone:
    """A place among ranks that do not exist, for what a rank has."""

    part = Communicator.part

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks

    def all_reduce(self, x, residual=None):
        raise AssertionError("nothing is computed here")


def generated(*options):
    """Return the report of ``hiprt generate``."""
    ended = subprocess.run([*GENERATE, "--json", *options], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.timeout(700)
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_ranks_write_what_one_process_writes(ranks, form_in_turn):
    """The shipped model, greedy; keys of 2 heads are on two of 4 ranks each."""
    if form_in_turn == "short" and ranks == 4:
        pytest.skip("4 ranks: pytest --all")
    options = ("--tokens", "16" if form_in_turn == "short" else "256")
    report, alone = generated(*options, "--tp", str(ranks)), generated(*options)
    assert report["tp"] == ranks
    for each in ("token_ids", "launches_per_token"):
        assert report[each] == alone[each]


@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    ("ranks", "models"),
    [
        (2, ["dense,bfloat16,fused", "moe,float32,fused", "hybrid,float32,fused"]),
        (4, ["dense,float32,fused"]),
        pytest.param(
            4, ["dense,bfloat16,plain", "moe,bfloat16,plain", "hybrid,bfloat16,fused"], marks=pytest.mark.wide
        ),
    ],
)
def test_logits_are_those_of_the_whole_model(ranks, models):
    """The bounds stand in the program: 1e-5 of the largest logit in float32, 0.02 in bfloat16."""
    command = [sys.executable, "-m", "hiprt", "launch", "--ranks", str(ranks), PROGRAMS / "parts.py", *models]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == len(models)


def values(linear):
    """Return the parts of a matrix on the host."""
    return [part.numpy() for part in (linear.weight, linear.scales, linear.biases) if part is not None]


def assert_part(own, whole, shard, modules):
    """A rank's matrix has, of each module's rows, those that are its, bit by bit."""
    for part, all_of_it in zip(values(own), values(whole), strict=True):
        first, wanted = 0, []
        for module, rows in modules:
            each = all_of_it[..., first : first + rows, :]
            place = shard.place(module, rows, each.shape[-1])
            wanted.append(each if place is None else cut(each, *place))
            first += rows
        assert first == all_of_it.shape[-2]
        np.testing.assert_array_equal(part, np.concatenate(wanted, axis=-2))


def assert_parts(make, rows):
    """What each rank makes is its part of the whole, and all parts together are the whole."""
    whole, parts = make(None), [make(Alone(rank, 2)) for rank in range(2)]
    for rank, own in enumerate(parts):
        shard = Shard(Alone(rank, 2), whole.config.num_key_value_heads)
        for one, all_of_it in zip(own.layers, whole.layers):
            for module, matrices in rows.items():
                part, name = module.split(".")
                if hasattr(getattr(all_of_it, part), name):
                    assert_part(*(getattr(getattr(each, part), name) for each in (one, all_of_it)), shard, matrices)
        np.testing.assert_array_equal(own.embedding.weight.numpy(), whole.embedding.weight.numpy())
    heads = np.concatenate([own.head.weight.numpy() for own in parts])
    size = len(whole.head.weight)
    middle = -(-size // 2)  # the last part begins a row earlier where the vocabulary is odd
    heads = np.delete(heads, range(middle, 3 * middle - size), axis=0)
    np.testing.assert_array_equal(heads, whole.head.weight.numpy())
    assert len({own.identity for own in (*parts, whole)}) == 3


ATTENTION = {
    "mixer.output": [("o_proj", 128)],
    "feed.gate_up": [("gate_proj", 256), ("up_proj", 256)],
    "feed.down": [("down_proj", 128)],
}
SIZES = {**MINI, "num_hidden_layers": 2, "intermediate_size": 256}
MIXTURE = {**SIZES, **MINI_MIXTURE, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256}


@pytest.mark.parametrize("name", ["dense", "moe", "hybrid"])
def test_a_rank_draws_its_part_of_a_preset(name, monkeypatch):
    """Of attention with and without gates, of experts and of a shared one among them."""
    made = {
        "dense": {**MINIS["qwen3-mini"], **SIZES},
        "moe": {**MOE, **MIXTURE, "shared_expert_intermediate_size": 0},
        "hybrid": {**HYBRID, **MIXTURE, "full_attention_interval": 2, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32},
    }  # fmt: skip
    monkeypatch.setitem(PRESETS, name, made[name])
    gate = [("q_proj", 256)] if name == "hybrid" else []
    projection = [("q_proj", 256), ("k_proj", 128), ("v_proj", 128), *gate]
    rows = {**ATTENTION, "mixer.projection": projection}
    if name == "hybrid":
        # The gated-delta layer has both under the same names, and all of each.
        rows = {"feed.gate_up": ATTENTION["feed.gate_up"], "feed.down": ATTENTION["feed.down"]}
    assert_parts(lambda ranks: preset(name, dtype=np.float32, ranks=ranks), rows)


def test_a_rank_reads_its_part_of_a_checkpoint(tmp_path):
    """Of a quantised one, and of a plain one that is quantised while it is loaded."""
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"head_dim": 64, "tie_word_embeddings": False, "num_hidden_layers": 1}
    sizes["quantization"] = {"group_size": 64, "bits": 4}
    folder = checkpoints.write(tmp_path / "made", dtype="bfloat16", **sizes)
    rows = {**ATTENTION, "mixer.projection": [("q_proj", 256), ("k_proj", 128), ("v_proj", 128)]}
    assert_parts(lambda ranks: load(Checkpoint(folder), form=FORM, ranks=ranks), rows)


def test_a_tied_head_is_cut_when_the_embedding_has_come(tmp_path, monkeypatch):
    """However slow the threads are that read it."""
    folder = checkpoints.write(tmp_path / "made", num_hidden_layers=1, intermediate_size=128)
    copy = upload.Part.copy
    monkeypatch.setattr(upload.Part, "copy", lambda part, piece: (time.sleep(0.02), copy(part, piece)))
    model = load(Checkpoint(folder), ranks=Alone(1, 2))
    for own, whole in zip(values(model.head), values(model.embedding)):
        np.testing.assert_array_equal(own, whole[129:])


@pytest.mark.parametrize(
    ("changes", "ranks", "message"),
    [
        ({}, 3, "m cannot be split over 3 ranks: 4 attention heads are no multiple of 3"),
        (
            {"num_attention_heads": 6, "num_key_value_heads": 3},
            2,
            "of 3 key heads and 2 ranks neither is",
        ),
        ({"intermediate_size": 192}, 2, "intermediate_size, 192, is no multiple of 2 times groups of 64"),
        ({"num_attention_heads": 2, "head_dim": 32}, 2, "the width of all heads, 64, is no multiple"),
    ],
)
def test_what_cannot_be_split_is_said(changes, ranks, message):
    """In one sentence, of sizes alone."""
    config = read(Settings({**MINIS["qwen3-mini"], **SIZES, **changes}, "m"))
    check(config, 1, 64, "m")
    with pytest.raises(ValueError, match=message):
        check(config, ranks, 64, "m")


def test_experts_that_cannot_be_split_are_named():
    config = read(Settings({**MOE, **MIXTURE, "moe_intermediate_size": 64}, "m"))
    with pytest.raises(ValueError, match="moe_intermediate_size, 64, is no multiple of 2 times groups of 64"):
        check(config, 2, 64, "m")


def test_the_command_refuses_before_ranks_are_started():
    cause = "cannot be split over 3 ranks: 4 attention heads are no multiple of 3"
    ended = subprocess.run([*GENERATE, "--tp", "3"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert re.fullmatch(rf"hiprt: \S+ {cause}\n", ended.stderr)
    with pytest.raises(ValueError, match="tp=0: must be at least 1"):
        Request(tp=0)
    with pytest.raises(ValueError, match="a prompt cache is of a whole model: it does not go with tp=2"):
        Request(tp=2, load_cache="x")


@pytest.fixture
def writing():
    """``hiprt generate`` over two ranks that has begun to write, in a session of its own, and the ranks' processes."""
    command = [*GENERATE, "--tp", "2", "--tokens", "900"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, bufsize=1,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        assert process.stdout.read(1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield process, [int(pid) for pid in children.split()]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.timeout(700)
@pytest.mark.parametrize(("ranks", "victim"), [(2, 0), (4, 3)])
def test_a_rank_that_is_killed_ends_the_others_which_name_it(ranks, victim):
    found = kill("engine", ranks, victim, 5)
    assert (found["status"], found["named"]) == (128 + 9, ranks - 1)
    assert f"\nhiprt launch: rank {victim} ended with status -9\n" in found["said"]
    assert "Traceback" not in found["said"]


@pytest.mark.timeout(700)
def test_ctrl_c_ends_all(writing):
    process, children = writing
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert said == "\nhiprt: interrupted\n"
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
