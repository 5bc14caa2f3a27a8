"""`hiprt bench upload`: the link's rate, those of uploads, and what share of it the best one has."""

import json
import subprocess
import sys

from hiprt.bench.upload import Report, measure, table


def test_json():
    """``--json`` prints one object."""
    command = [sys.executable, "-m", "hiprt", "bench", "upload", "--mib", "4", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert report["nbytes"] == 4 << 20
    assert len(report["upload_gb_s"]) == 4
    assert report["link_gb_s"] > 0


def test_table(stream):
    """The share is that of the best round."""
    report = measure(1 << 20)
    assert report.share == max(report.upload_gb_s) / report.link_gb_s
    text = table(Report(5 << 20, "cpu", "a device", 50.0, [20.0, 40.0], 0.8))
    assert "5 MiB on cpu (a device)" in text
    assert text.endswith("the best upload has 80% of the link's rate")
