"""Steps of engines in C: the programs in the folder `steps`, each built with a sanitizer and without."""

import json
from pathlib import Path

import pytest
from helpers.native import SANITIZERS, build_with_library, run_sanitized

import hiprt
from hiprt.graphs import Recording
from hiprt.graphs.record.dump import as_dict

FOLDER = Path(__file__).parent / "steps"
PROGRAMS = sorted(file.stem for file in FOLDER.glob("*.c") if file.stem != "dump")
NOTICE_LOST_PATCHES = {"trust", "verification"}

pytestmark = [pytest.mark.timeout(900), pytest.mark.parametrize("sanitizer", SANITIZERS)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program(program, sanitizer, tmp_path, monkeypatch, root):
    """What it checks is so; some run once more where the device loses patches."""
    built = build_with_library(tmp_path, FOLDER / f"{program}.c", sanitizer, monkeypatch, root)
    assert run_sanitized(built) == "ok\n"
    if program in NOTICE_LOST_PATCHES:
        assert run_sanitized(built, "lost", HIPRT_CPU_QUIRKS="batch_stale") == "ok\n"


def test_a_dump(sanitizer, tmp_path, monkeypatch, root):
    """It has every node and edge, by the names of the files that Python writes."""
    dumped = json.loads(run_sanitized(build_with_library(tmp_path, FOLDER / "dump.c", sanitizer, monkeypatch, root)))
    nodes, edges = dumped["nodes"], dumped["edges"]
    assert dumped["name"] == 'a "name"'
    assert [node["kernel_name"] for node in nodes] == ["scale", "fill", "copy", "add"]
    assert [(edge["before"], edge["after"]) for edge in edges] == [(0, 2), (1, 3), (2, 3)]
    assert [node["dependencies"] for node in nodes] == [[], [], [0], [1, 2]]
    assert nodes[0]["arguments"][2] == "0xff"
    assert nodes[0]["block"] == [256, 1, 1]
    assert [access["access"] for access in nodes[3]["accesses"]] == ["read", "update"]
    assert nodes[3]["bytes_read"] == 2 * nodes[3]["bytes_written"] == 2048
    with hiprt.Stream() as stream:
        recording = Recording()
        with recording.record(stream):
            stream.fill(256, 0, 4, 9)
        assert set(nodes[0]) <= set(as_dict(recording)["nodes"][0])
