"""`hiprt bench alloc`: runs on the null provider and on the device in use, and says what it measured."""

import json
import subprocess
import sys

from hiprt.bench.alloc import measure, table


def test_json_on_the_null_provider():
    """``--json`` prints one object; on the null provider no driver takes part."""
    command = [sys.executable, "-m", "hiprt", "bench", "alloc", "--provider", "null", "--bytes", "1000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert (report["provider"], report["nbytes"], report["is_flat"]) == ("null", 1000, True)
    for name in ("allocate_us", "free_us", "core_us"):
        assert 0 < report[name]["median"] <= report[name]["p99"]


def test_table(stream):
    """The table has the same numbers; a warm pool takes no more memory from the device."""
    report = measure(700)
    lines = table(report).splitlines()
    assert report.is_flat
    assert lines[0].startswith("700 bytes from a warm pool")
    assert [line.split()[0] for line in lines[2:]] == ["allocate", "free", "C,"]
