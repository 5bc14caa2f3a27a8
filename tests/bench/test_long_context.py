"""Long texts: what is decoded behind a long cache is what the whole text gives when it is computed again.

A short form runs by default; 32,768 tokens: ``pytest -m soak tests/bench/test_long_context.py``.
"""

import numpy as np
import pytest

from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import preset

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
STEPS = 8


@pytest.fixture
def length(form):
    """How many tokens the prompt has."""
    return 32768 if form == "long" else 1500


@pytest.mark.parametrize("name", ["qwen3-mini", "qwen3-moe-mini", "qwen3.5-mini"])
def test_a_long_cache_gives_what_recomputation_gives(stream, name, length):
    """Chunks of 512, growing caches and steps give what chunks of 64 in a cache of one size give."""
    model = preset(name, dtype=np.float32)
    prompt = np.random.default_rng(7).integers(0, 259, length).tolist()
    cached = Decoder(model, stream, 256, limit=length + STEPS + 2)
    cached.start(prompt, temperature=1.0, seed=5)
    assert list(cached.prefill())[-1] == length
    drawn = [cached.token()]
    for _ in range(STEPS):
        cached.step()
        drawn.append(cached.token())
    again = Decoder(model, stream, length + STEPS + 2, chunk=64)
    again.start(prompt + drawn[:-1], temperature=1.0, seed=5)
    assert list(again.prefill())[-1] == length + STEPS
    found, expected = (made.logits.numpy().astype(np.float64) for made in (cached, again))
    assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)
    assert again.token() == drawn[-1]
