"""Our own kernels run under the CPU device's checks, and nothing is found."""

import sys

import pytest

from hiprt.check import check

PRESETS = ("qwen3-mini", "qwen3-moe-mini", "qwen3.5-mini")


@pytest.mark.wide(turn=4)
@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_decoding_is_clean(form):
    for preset in PRESETS if form == "long" else PRESETS[:1]:
        command = ["-m", "hiprt", "bench", "decode", "--model", preset, "--mode", "graph", "--tokens", "2", "--json"]
        assert check([sys.executable, *command], quiet=True) == (0, []), preset


TEXTS = """
import hiprt
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import preset

decoder = Decoder(preset("qwen3-mini"), hiprt.Stream(), 64, batch=3, kv_blocks=16, kv_pool=5)
decoder.start([[1, 2], [3] * 20, [7]])
filling = decoder.prefill()
next(filling)
decoder.release(1)
for _ in filling:
    pass
decoder.step()
decoder.begin(1, [4] * 17)
decoder.release(0)
decoder.step()
print(decoder.token(1))
"""


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_texts_that_end_and_begin_are_clean(tmp_path):
    (tmp_path / "texts.py").write_text(TEXTS)
    assert check([sys.executable, str(tmp_path / "texts.py")], quiet=True) == (0, [])


ROWS = """
import numpy as np
import hiprt
from hiprt import kernels

take = kernels.hip_kernel(
    'extern "C" __global__ void take(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }',
    "take",
    {"x": "read float32", "y": "write float32"},
)
rows = kernels.rms_norm(hiprt.array(np.ones((4, 32), np.float32)), hiprt.array(np.ones(32, np.float32)), 1e-6)
out = hiprt.empty(128)
take(rows, out, grid=1, block=128)
print(out.numpy().sum())
large = hiprt.full(1 << 16, 2.0)
for op in (kernels.exp, kernels.log2, kernels.sin):
    large = op(large)
large.numpy()
"""


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_values_that_are_written_eight_at_a_time_are_known(tmp_path):
    """Ours store vectors of 32 bytes, and ops of large arrays load 16 bytes that are aligned to 4."""
    (tmp_path / "rows.py").write_text(ROWS)
    assert check([sys.executable, str(tmp_path / "rows.py")], quiet=True) == (0, [])
