"""`hiprt bench collectives`: it starts the ranks itself, and rank 0 prints what a sum costs."""

import json
import subprocess
import sys

import pytest

from hiprt.bench.collectives import Report, table

pytestmark = pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests")


def test_json():
    """``--json`` prints one object, however many ranks there are."""
    command = [sys.executable, "-m", "hiprt", "bench", "collectives", "--kib", "1", "--nodes", "2", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (report["ranks"], report["nodes"], report["nbytes"]) == (2, 2, 1024)
    assert min(report["graph_us"], report["eager_us"]) > 0


def test_another_number_of_ranks_was_started():
    """A launcher's number is not changed."""
    command = [sys.executable, "-m", "hiprt", "launch", "--ranks", "2", "-m", "hiprt", "bench", "collectives"]
    ended = subprocess.run([*command, "--ranks", "3"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "hiprt: 3 ranks are asked for, and a launcher has started 2" in ended.stderr


def test_table():
    """A line for each way."""
    text = table(Report(2, 128, 10240, "cpu", "a device", 4.5, 9.25))
    assert "sum of 10 KiB over 2 ranks on cpu (a device)" in text
    assert "in a graph of 128" in text
    assert "9.25" in text
