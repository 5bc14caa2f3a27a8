"""The Metal kernels of the installed mlx-lm beside float64: losses, and RWKV's recurrence.

The four kernels of the losses write sums to shared memory while other simdgroups still read the maxima from there. The
CPU device's check finds that, and with the barriers that are missing the results are those of float64.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("mlx_lm")
pytest.importorskip("mlx.nn")

LOSSES = """
import sys
import numpy as np
import mlx.core as mx

if "mended" in sys.argv:
    make = mx.fast.metal_kernel

    def mended(*args, source, **options):
        barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
        place = "// Share the sum_exp across"
        source = source.replace(place, barrier + place).replace("mem_none", "mem_threadgroup")
        return make(*args, source=source, **options)

    mx.fast.metal_kernel = mended

from mlx_lm.tuner import losses

def normal(x):
    x = x.astype(np.float64)
    high = x.max(-1, keepdims=True)
    return x - high - np.log(np.exp(x - high).sum(-1, keepdims=True))

rows = int(sys.argv[2])
for size in map(int, sys.argv[3:]):
    random = np.random.default_rng(size)
    q, p = random.normal(size=(2, rows, 2, size)).astype(np.float32)
    c = random.normal(size=(rows, 2)).astype(np.float32)
    logq, logp = normal(q), normal(p)
    middle = np.logaddexp(logp, logq) - np.log(2)
    kl_q = (np.exp(logq) * (logq - middle)).sum(-1)
    expected = {
        "kl": (np.exp(logp) * (logp - logq)).sum(-1),
        "js": 0.5 * ((np.exp(logp) * (logp - middle)).sum(-1) + kl_q),
        "kl back": c[..., None] * (np.exp(logq) - np.exp(logp)),
        "js back": c[..., None] * 0.5 * np.exp(logq) * (logq - middle - kl_q[..., None]),
    }
    back = dict(output_shapes=[q.shape], output_dtypes=[mx.float32], template=[("T", mx.float32), ("V", size)],
                grid=(1024, 2 * rows, 1), threadgroup=(1024, 1, 1))
    q, p, c = map(mx.array, (q, p, c))
    got = {
        "kl": losses.kl_div_loss(q, p),
        "js": losses.js_div_loss(q, p),
        "kl back": losses._kl_backward_kernel(inputs=[q, p, c], **back)[0],
        "js back": losses._js_backward_kernel(inputs=[q, p, c, mx.array(kl_q.astype(np.float32))], **back)[0],
    }
    for name, value in got.items():
        print(name, size, np.abs(np.array(value) - expected[name]).max() / np.abs(expected[name]).max())
"""
RECURRENCE = """
import numpy as np
import mlx.core as mx
from mlx_lm.models import rwkv7

for steps, heads, width in ((1, 2, 64), (5, 3, 32), (4, 1, 128)):
    random = np.random.default_rng(steps)
    r, k, v = random.normal(size=(3, 2, steps, heads, width)).astype(np.float32)
    w = random.uniform(0.5, 1, (2, steps, heads, width)).astype(np.float32)
    a, b = random.normal(size=(2, 2, steps, heads, width)).astype(np.float32) / width
    state = random.normal(size=(2, heads, width, width)).astype(np.float32)
    y, end = rwkv7.wkv7_kernel(*map(mx.array, (r, w, k, v, a, b, state)))
    s, rows = state.astype(np.float64), []
    for t in range(steps):
        sa = np.einsum("bhij,bhj->bhi", s, a[:, t])
        s = s * w[:, t, :, None] + v[:, t, ..., None] * k[:, t, :, None] + sa[..., None] * b[:, t, :, None]
        rows.append(np.einsum("bhij,bhj->bhi", s, r[:, t]))
    expected = np.stack(rows, 1)
    print("y", steps, np.abs(np.array(y) - expected).max() / np.abs(expected).max())
    print("state", steps, np.abs(np.array(end) - s).max() / np.abs(s).max())
"""


def errors(folder, text, *words, **flags):
    """Run a program with hiprt as mlx.core; return the largest error of each result, relative to the largest value."""
    (folder / "program.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "hiprt", "run", "program.py", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | flags,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    return {name: float(error) for name, error in lines}


def test_losses_with_their_barriers(tmp_path):
    found = errors(tmp_path, LOSSES, "mended", "3", "33", "4000", "4096", "9001")
    assert len(found) == 16
    assert max(found.values()) < 1e-5, found


def test_losses_of_one_simdgroup(tmp_path):
    """Where all values are in the first simdgroup, the others hold what changes no maximum and no sum."""
    assert max(errors(tmp_path, LOSSES, "plain", "3", "33").values()) < 1e-5


@pytest.mark.only("cpu", reason="the check is the CPU device's")
@pytest.mark.parametrize("form", ["plain", "mended"])
def test_the_check_finds_what_is_missing(tmp_path, form):
    report = tmp_path / "report"
    report.touch()
    errors(tmp_path, LOSSES, form, "1", "33", HIPRT_CPU_CHECK="race", HIPRT_CPU_CHECK_REPORT=str(report))
    found = [json.loads(line) for line in report.read_text().splitlines()]
    lines = {each["line"].partition(".")[0] for race in found for each in race["involved"]}
    assert lines == ({"kl_forward", "kl_backward", "js_forward", "js_backward"} if form == "plain" else set())


def test_recurrence_of_rwkv7(tmp_path):
    found = errors(tmp_path, RECURRENCE)
    assert len(found) == 6
    assert max(found.values()) < 1e-5, found
