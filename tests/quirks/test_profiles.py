"""Under every profile, graphs give eager's bits: steps of all kinds, and the shipped model."""

import json
import os
import subprocess
import sys

import pytest
from quirks.workloads import WORKLOADS, ours

PROFILES = ("cuda", "clr-6.2", "clr-6.4", "clr-7.2", "clr-7.13", "clr-10", "paranoid")
TOKENS = 20


@pytest.mark.parametrize("profile", PROFILES)
def test_steps_give_the_same_bits(profile):
    result = ours(profile=profile)
    assert result["rungs"]["eager"] == 0
    assert min(result["rungs"][rung] for rung in ("replay", "patch", "instantiate")) > 0


@pytest.mark.singles
@pytest.mark.parametrize("rung", ["patch", "update", "instantiate"])
@pytest.mark.parametrize("profile", PROFILES)
def test_each_rung_alone_gives_the_same_bits(profile, rung):
    result = ours(*WORKLOADS, profile=profile, HIPRT_GRAPH_RUNGS=f"{rung},instantiate,eager")
    assert result["rungs"]["eager"] == 0
    assert result["rungs"][rung] > 0


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_shipped_model_writes_the_same_logits(profile):
    command = [sys.executable, "-m", "hiprt", "generate", "--tokens", str(TOKENS), "--verify", "--json"]
    environment = {**os.environ, "HIPRT_CPU_PROFILE": profile, "HIPRT_PROVIDER": "cpu"}
    environment.pop("HIPRT_CPU_QUIRKS", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verified"] is True
    assert result["tokens"] == TOKENS
    assert result["rungs"]["eager"] == 0
    assert result["launches_per_token"] == 1
