"""The kernels of a decoded token run under the CPU device's checks, and nothing is found."""

import sys

import pytest

from hiprt.check import check

PRESETS = ("qwen3-mini", "qwen3-moe-mini")


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_decoding_is_clean(form):
    for preset in PRESETS if form == "long" else PRESETS[:1]:
        command = ["-m", "hiprt", "bench", "decode", "--model", preset, "--mode", "graph", "--tokens", "2", "--json"]
        assert check([sys.executable, *command], quiet=True) == (0, []), preset
