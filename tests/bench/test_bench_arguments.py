"""`hiprt bench arguments`: each way gives the number, takes the rungs that it should, and says what it cost."""

import json
import subprocess
import sys

from hiprt.bench.arguments import measure, table


def test_json_on_the_null_provider():
    """``--json`` prints one object; on the null provider no driver takes part."""
    command = [sys.executable, "-m", "hiprt", "bench", "arguments", "--provider", "null", "--calls", "5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert (report["provider"], report["nodes"], report["calls"]) == ("null", 40, 5)
    assert all(way["us"] > 0 for way in report["ways"].values())


def test_ways_take_their_rungs(stream):
    """A number in device memory needs no other graph; one that a kernel takes needs no more than three (G3)."""
    report = measure(nodes=3, calls=20)
    assert report.patched_to_recorded > 0
    assert report.written_to_replay > 0
    for name, way in report.ways.items():
        changed = name in ("kept", "recorded again")
        assert sum(way.rungs.values()) == 210
        assert way.rungs["eager"] == 0
        assert way.rungs["instantiate"] <= (4 if changed else 1)
        assert (way.rungs["replay"] > 200) is not changed
    assert report.ways["kept"].rungs["instantiate"] <= 3
    assert len(table(report).splitlines()) == 8
