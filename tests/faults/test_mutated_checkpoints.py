"""Damaged checkpoints: an error that names what is wrong, or a text; nothing else, whatever was damaged.

Each file is damaged 50 times by default, 200 times with ``--all``, and 10,000 times with
``pytest -m soak tests/faults/test_mutated_checkpoints.py``. One try alone is
``python tests/faults/mutated_checkpoints.py config 1234 1``.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.selection import form

TRIES = {"short": 50, "usual": 200, "long": 10_000}
KINDS = ("config", "header", "index", "tokenizer")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.only("cpu", reason="what is read from files does not depend on the device"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_damage(kind, request):
    """Every try ends in an error of the checkpoint or a text, and takes little time and memory."""
    count = TRIES[form(request.config)]
    program = Path(__file__).with_name("mutated_checkpoints.py")
    made = subprocess.run(
        [sys.executable, str(program), kind, "0", str(count)], capture_output=True, text=True, timeout=60 + count
    )
    assert made.returncode == 0, made.stderr[-2000:]
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert len(lines) == count
    assert [line for line in lines if line["outcome"] == "wrong"] == []
    # Damage that nothing notices is rare: a test whose damage did nothing would pass.
    assert Counter(line["outcome"] for line in lines)["refused"] > count // 2
