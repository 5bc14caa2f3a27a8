"""``mx.distributed``: what one process makes of it, and what several do, each with the CPU device."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hiprt.bench.story import CHECKPOINT
from hiprt.metal_compat import mlx as mx

pytestmark = [
    pytest.mark.timeout(700),
    pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests"),
]
PROGRAMS = Path(__file__).parent / "programs"


def run(ranks, program, *words):
    """Run a program under ``hiprt run`` as several ranks; return its end and what it printed."""
    command = [sys.executable, "-m", "hiprt", "launch", "--ranks", str(ranks), "-m", "hiprt", "run", program]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    return subprocess.run([*map(str, (*command, *words))], capture_output=True, text=True, timeout=600, env=environment)


def test_one_process():
    alone = mx.distributed.init()
    assert (alone.rank(), alone.size(), mx.distributed.is_available()) == (0, 1, True)
    x = mx.array([1.0, 2.0])
    for collective in ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter"):
        assert getattr(mx.distributed, collective)(x) is x
    assert mx.distributed.all_sum(3, group=alone).item() == 3
    assert mx.depends(x, x) is x


@pytest.mark.parametrize(
    ("error", "message", "act"),
    [
        (ValueError, "Cannot send to a singleton group", lambda: mx.distributed.send(mx.zeros(3), 0)),
        (ValueError, "Cannot recv from a singleton group", lambda: mx.distributed.recv((3,), mx.float32, 0)),
        (ValueError, "Cannot recv from a singleton group", lambda: mx.distributed.recv_like(mx.zeros(3), 0)),
        (RuntimeError, "Cannot split the distributed group further", lambda: mx.distributed.init().split(0)),
        (
            ValueError,
            r"\[sum_scatter\] Invalid shape=\(\) for a group of size 1",
            lambda: mx.distributed.sum_scatter(3),
        ),
        (ValueError, "Invalid type list received in array initialization", lambda: mx.distributed.all_sum([1, 2])),
        (
            ValueError,
            "The only valid values for backend are .* but 'gloo' was",
            lambda: mx.distributed.init(False, "gloo"),
        ),
        (
            RuntimeError,
            r"\[distributed\] Couldn't initialize any backend: no launcher has started several processes",
            lambda: mx.distributed.init(strict=True),
        ),
    ],
)
def test_what_one_process_cannot_do(error, message, act):
    with pytest.raises(error, match=message):
        act()


def test_a_launcher_that_says_no_place(monkeypatch):
    """A process is alone that a batch system's shell starts, and says so."""
    monkeypatch.setenv("SLURM_NTASKS", "4")
    with pytest.warns(match="this process is alone: SLURM_PROCID is not set"):
        assert mx.distributed.init().size() == 1
    with pytest.raises(RuntimeError, match="Couldn't initialize any backend: SLURM_PROCID is not set"):
        mx.distributed.init(strict=True)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.wide)])
def test_collectives_and_messages(ranks, form, part):
    """Of each dtype, of a part of the ranks, and of random programs, in whatever graphs the ranks compute them.

    The short form takes a dtype of each size.
    """
    seeds = part(range(3 if form == "short" else 40))
    steps = (6, "bfloat16", "bool_", "float32", "complex64") if form == "short" else (10,)
    ended = run(ranks, PROGRAMS / "collectives.py", 1000 * seeds[0], len(seeds), *steps)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == [f"rank {rank}: right" for rank in range(ranks)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A function that has mlx-lm make a small model, with the shipped model's tokenizer, and returns its folder."""
    pytest.importorskip("mlx_lm")
    made = {}

    def make(family, form):
        if (family, form) not in made:
            folder = made[family, form] = tmp_path_factory.mktemp("models") / family
            done = subprocess.run(
                [sys.executable, "-m", "hiprt", "run", PROGRAMS / "makes.py", folder, family, form],
                capture_output=True, text=True,
            )  # fmt: skip
            assert not done.returncode, done.stderr
        return made[family, form]

    return make


def generated(out, ranks, folder, how, tokens):
    """Return what each rank reports, in their order."""
    (out := out / str(ranks)).mkdir()
    ended = run(ranks, PROGRAMS / "models.py", folder, how, tokens, out)
    assert ended.returncode == 0, ended.stderr
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize(
    ("family", "form", "ranks", "how"),
    [
        ("llama", "plain", 2, "tensor"),
        ("qwen3", "quantized", 4, "tensor"),
        pytest.param("llama", "quantized", 2, "tensor", marks=pytest.mark.wide),
        pytest.param("qwen2", "plain", 2, "pipeline", marks=pytest.mark.wide),
    ],
)
def test_models_of_mlx_lm(family, form, ranks, how, model, tmp_path):
    """Split by ``sharded_load``: tokens are one process's, and the sums are nodes of the graph that is replayed."""
    folder = model(family, form)
    (alone,) = generated(tmp_path, 1, folder, "tensor", 24)
    reports = generated(tmp_path, ranks, folder, how, 24)
    wanted = np.array(alone["likelihoods"])
    for each in reports:
        assert each["tokens"] == alone["tokens"]
        apart = np.abs(np.array(each["likelihoods"]) - wanted).max()
        assert apart < 1e-4 * np.abs(wanted).max()
        assert each["rungs"]["replay"] >= 16
        if how == "tensor":
            assert each["ops"].count("all_reduce") == 4
            assert each["likelihoods"] == reports[0]["likelihoods"]


@pytest.mark.wide
def test_the_shipped_model(tmp_path):
    """Two ranks write what one process does."""
    pytest.importorskip("mlx_lm")
    (alone,) = generated(tmp_path, 1, CHECKPOINT, "tensor", 200)
    for each in generated(tmp_path, 2, CHECKPOINT, "tensor", 200):
        assert each["tokens"] == alone["tokens"]


DIES = """
import os, signal, sys
import mlx.core as mx
group = mx.distributed.init(strict=True)
x = mx.ones((100,))
try:
    for turn in range(1000):
        if turn == 5 and group.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        x = mx.distributed.all_sum(x) / group.size()
        mx.eval(x)
except RuntimeError as error:
    sys.stdout.write(f"rank {group.rank()}: {error}\\n")
    sys.stdout.flush()
    raise
"""


def test_a_rank_that_is_killed_is_named(tmp_path):
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    ended = run(3, program)
    assert ended.returncode == 128 + signal.SIGKILL
    assert sorted(ended.stdout.splitlines()) == [
        f"rank {rank}: rank 1 of 3 has ended without a word" for rank in (0, 2)
    ]


def test_ranks_that_end_at_different_times(tmp_path):
    """Nobody is lost by it: each waits at its end for the others."""
    program = tmp_path / "ends.py"
    program.write_text(
        "import time\nimport mlx.core as mx\ngroup = mx.distributed.init()\ntotal = mx.distributed.all_sum(1)\n"
        "if group.rank():\n    mx.eval(total)\nelse:\n    time.sleep(1)\n    print(total.item(), (total + 1).item())\n"
    )
    ended = run(2, program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2 3\n", "")
