"""The check for machines that nobody here has: each part by itself, a file after each, and what is done is kept."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hiprt.bench import check
from hiprt.bench.check import MACHINE, PARTS, Part, parts_of
from hiprt.bench.check.ops import name_of, turns
from hiprt.bench.isa.cases import cases


@pytest.fixture
def part(tmp_path, monkeypatch):
    """Make a part that runs some Python."""
    monkeypatch.setattr(check, "own_path", lambda: [str(tmp_path), *sys.path])

    def make(name, code, seconds=60.0, **environment):
        (tmp_path / f"{name}.py").write_text(code)
        return Part(name, f"part {name}", name, ("argument",), seconds, environment)

    return make


def test_a_part_that_fails_costs_the_others_nothing(part, tmp_path, capsys):
    """A crash, a wrong result, a time limit, no result, and an argument and a variable that arrive."""
    parts = [
        part("crash", "import json, os\nprint(json.dumps({'running': 'x'}), flush=True)\nos.abort()"),
        part("wrong", "print('{\"wrong\": [1, 2]}')"),
        part("slow", "import time\nprint('[1]', flush=True)\ntime.sleep(60)", seconds=3.0),
        part("silent", "import sys\nprint('no news', file=sys.stderr)"),
        part("status", "import sys\nprint('why', file=sys.stderr)\nsys.exit(3)"),
        part("good", "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['GIVEN']]))", GIVEN="seen"),
    ]
    found = check.check(tmp_path / "file.json", parts)
    assert {name: each["ok"] for name, each in found["parts"].items()} == {
        **dict.fromkeys(("crash", "wrong", "slow", "silent", "status"), False),
        "good": True,
    }
    errors = {name: each["error"] for name, each in found["parts"].items()}
    assert errors["crash"] == "ended by SIGABRT"
    assert found["parts"]["crash"]["result"] == {"running": "x"}
    assert errors["wrong"] == "2 results are wrong"
    assert errors["slow"] == "it took more than 3 s"
    assert found["parts"]["slow"]["result"] == [1]
    assert errors["silent"] == "it printed no JSON"
    assert found["parts"]["silent"]["last_lines"] == ["no news"]
    assert errors["status"] == "ended with status 3"
    assert found["parts"]["good"]["result"] == [["argument"], "seen"]
    assert json.loads((tmp_path / "file.json").read_text()) == found
    assert "6 of 6  part good ..." in capsys.readouterr().err


def test_what_is_done_is_kept_when_somebody_interrupts(tmp_path):
    """Ctrl-C in the command: the file has the parts before it, and nothing runs on."""
    code = (
        "import signal, sys\nfrom pathlib import Path\n"
        "from hiprt.bench import check\nfrom hiprt.bench.check import Part\n"
        # What a shell runs in the background ignores Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "check.own_path = lambda: [sys.argv[1], *sys.path]\n"
        "parts = [Part('first', '1', 'first', ()), Part('second', '2', 'second', ())]\n"
        "print(check.check(Path(sys.argv[1], 'file.json'), parts)['interrupted'])\n"
    )
    (tmp_path / "first.py").write_text("print('[1]')")
    (tmp_path / "second.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "True\n"
    report = json.loads((tmp_path / "file.json").read_text())
    assert report["interrupted"]
    assert report["parts"].keys() == {"first"}
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_the_parts_fit_the_machine():
    """Real models on GPUs that have the memory; without a library nothing but the machine is asked."""
    assert parts_of({"provider": "cpu", "devices": [{"memory": 1 << 40}]}) == PARTS
    for memory, model in ((20 << 30, "qwen3-4b"), (8 << 30, "qwen3-0.6b")):
        parts = parts_of({"provider": "rocm", "devices": [{"memory": memory}]})
        assert [part.name for part in parts] == [part.name for part in PARTS]
        assert model in parts[-1].arguments
    assert PARTS[0] is MACHINE


def test_every_part_takes_its_arguments():
    """The commands' own parsers accept them."""
    from hiprt.__main__ import parser

    for part in (*PARTS, *parts_of({"provider": "rocm", "devices": [{"memory": 1 << 40}]})):
        if part.module == "hiprt":
            assert isinstance(parser().parse_args(part.arguments), argparse.Namespace)


def test_ops_take_turns():
    """So that the time that there is goes to all of them."""
    every = list(cases())
    ordered = list(turns(every))
    names = [name_of(case) for case in ordered]
    count = len(set(names))
    assert len(set(names[:count])) == count
    assert len(ordered) == len(every)


def test_the_command_writes_a_file(tmp_path):
    """With the parts that are quick: the machine, and ops for a moment, at least one."""
    parts = [MACHINE, Part("ops", "ops", "hiprt.bench.check.ops", ("--seconds", "0"))]
    found = check.check(tmp_path / "out.json", parts)
    assert found["parts"]["machine"]["result"]["usable"] is True
    ops = found["parts"]["ops"]["result"]
    assert ops["cases"] + ops["left_out"] == len(list(cases()))
    assert ops["cases"] > 0
    assert ops["wrong"] == []
    assert found["parts"]["ops"]["ok"]
