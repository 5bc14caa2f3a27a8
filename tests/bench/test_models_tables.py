"""`hiprt bench models`: its file and its tables, what goes on behind a failure, an end in time, and runs that go on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest

from hiprt.__main__ import main
from hiprt.bench import check, models
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.models import process, session
from hiprt.bench.models.plan import Measurement, Settings, expected, needed, planned, weights
from hiprt.bench.models.process import PresetProcess, PresetProcessError
from hiprt.bench.models.report import Report, key
from hiprt.bench.models.session import Session
from hiprt.bench.models.tables import compared, markdown, text

MINIS = "qwen3-mini", "qwen3-moe-mini", "qwen3.5-mini"
SETTINGS = Settings(MINIS, (1, 4), (16, 64), (16,), ("graph", "eager"), 8, 1, False)
MACHINE = {"hiprt": "1", "commit": "abc", "device": "a card", "provider": "p", "library": "7", "host": "h", "date": "d"}
LARGE = 1 << 40
STEP = {"share_of_bandwidth": 0.5, "host_us_per_step": 2.0, "rungs": {"replay": 8, "patch": 0}}


def figures(measurement, faster=1.0):
    """What a process would say: a step of B texts takes 1 ms and a tenth more for each."""
    if measurement.mode == "prompt":
        rate = faster * 1e3 * measurement.context
        return {"first_token_ms": 1 / faster, "prompt_tok_s": rate, "rungs": {"replay": 2}}
    us = (900 + 100 * measurement.batch) / faster
    return {**STEP, "tok_s": 1e6 * measurement.batch / us, "us_per_step": us}


class Process:
    """A process that does what a test says: by preset what is raised when it starts, by measurement what is done."""

    alive: ClassVar = set()

    def __init__(self, preset, settings, does=()):
        self.preset, self.does = preset, dict(does)
        self.alive.add(preset)

    def facts(self, seconds):
        """Say what is alike for all measurements."""
        self.do(self.preset)
        return {"read_gb_s": 100.0}

    def measure(self, measurement, seconds):
        """Say the figures."""
        self.do((measurement.preset, measurement.mode, measurement.batch, measurement.context))
        return figures(measurement)

    def do(self, what):
        """Raise or call what a test says."""
        does = self.does.get(what, self.does.get("all"))
        if isinstance(does, BaseException):
            raise does
        if does is not None:
            does()

    def close(self):
        """End."""
        self.alive.discard(self.preset)


@pytest.fixture
def take(tmp_path):
    """Run a session whose processes do what a test says; return its report as the file has it."""
    path = tmp_path / "file.json"

    def run(does=None, report=None, memory=LARGE, budget=None):
        made = report or Report(MACHINE, SETTINGS)
        Session(made, path, memory, budget, lambda *given: Process(*given, does or {})).run()
        assert not Process.alive
        return Report.read(path)

    return run


def of(report):
    """The measurements that a run has."""
    return {key(result) for result in report.measurements}


def everything(*presets):
    """All measurements of presets."""
    return {key(vars(each)) for each in planned(SETTINGS, is_by_worth=False) if each.preset in presets}


def test_the_file_of_the_small_presets(tmp_path, capsys, monkeypatch):
    """Figures of every kind and preset; a run that has all is shown without measuring, beside itself and another."""
    path, old = tmp_path / "new.json", tmp_path / "old.json"
    sizes = [
        "--models",
        "qwen3-mini,qwen3.5-mini",
        "--batches",
        "1,2",
        "--contexts",
        "5,9",
        "--prompts",
        "9",
        "--tokens",
        "4",
    ]
    options = [*sizes, "--modes", "graph,eager", "--repeat", "1", "--kernels", "--json", "--out", str(path)]
    assert main(["bench", "models", *options]) == 0
    report, file = json.loads(capsys.readouterr().out), json.loads(path.read_text())
    assert report == file
    assert {"date", "hiprt", "commit", "host", "device", "arch", "settings"} <= set(report)
    assert not report["failed"]
    assert not report["left_out"]
    assert not report["is_interrupted"]
    assert [key(each) for each in report["measurements"]] == [
        (preset, *kind)
        for preset in ("qwen3-mini", "qwen3.5-mini")
        for kind in (("graph", 1, 5), ("prompt", 1, 9), ("graph", 2, 5), ("graph", 1, 9), ("eager", 1, 5))
    ]
    for each in report["measurements"]:
        steps = 2 if each["mode"] == "prompt" else 4
        rung = "eager" if each["mode"] == "eager" else "replay"
        assert each["rungs"] == {**dict.fromkeys(each["rungs"], 0), rung: steps}
        assert bool(each.get("kernels")) == (each["mode"] != "eager")
        assert ("step_over_one" in each) == (each["batch"] == 2)
        if each["mode"] != "prompt":
            assert each["tok_s"] * each["us_per_step"] == pytest.approx(1e6 * each["batch"], rel=0.01)
            assert (each["launches_per_step"] == 1) == (each["mode"] == "graph")

    for each in file["measurements"]:
        if "tok_s" in each and each["preset"] == "qwen3-mini":
            each["tok_s"] /= 2
    old.write_text(json.dumps(file))
    monkeypatch.setattr(models, "Session", None)
    assert main(["bench", "models", "--resume", str(path), "--compare", str(old)]) == 0
    shown = capsys.readouterr().out
    assert "10 measurements, 4 of which differ by more than 2%" in shown
    assert shown.count("+100.0%") == 4
    assert "Kernels of a prompt of 9, qwen3.5-mini" in shown
    assert main(["bench", "models", "--resume", str(path), "--compare", str(path), "--json"]) == 0
    assert {each["faster"] for each in json.loads(capsys.readouterr().out)["compared"]} == {0.0}


def test_a_preset_that_fails_costs_the_others_nothing(take):
    """One that cannot be made, one whose process dies in the middle, and a measurement that cannot be made."""
    died = PresetProcessError("ended by SIGSEGV")
    found = take(
        {
            "qwen3-mini": ValueError("no"),
            ("qwen3-moe-mini", "graph", 4, 16): died,
            ("qwen3.5-mini", "graph", 1, 64): ValueError("out of memory"),
        }
    )
    assert found.failed == {"qwen3-mini": "no", "qwen3-moe-mini": "ended by SIGSEGV"}
    first = {("qwen3-moe-mini", "graph", 1, 16), ("qwen3-moe-mini", "prompt", 1, 16)}
    assert of(found) == everything("qwen3.5-mini") - {("qwen3.5-mini", "graph", 1, 64)} | first
    (left,) = found.left_out
    assert left == {"preset": "qwen3.5-mini", "mode": "graph", "batch": 1, "context": 64, "reason": "out of memory"}
    shown = text(found)
    assert "qwen3-mini failed: no" in shown
    assert "left out: qwen3.5-mini, one text behind 64, graph: out of memory" in shown


def test_memory_that_the_device_does_not_have(take):
    """A preset that is too large is given up without a process; long contexts that are too large are left out."""
    settings = replace(SETTINGS, models=("qwen3-mini", "qwen3-4b"), contexts=(16, 60000))
    found = take(report=Report(MACHINE, settings), memory=60_000_000)
    assert found.failed == {"qwen3-4b": "it needs 2.3 GB, the device has 0.1"}
    assert [each["context"] for each in found.left_out] == [60000]


def test_processes_end_where_memory_is_short(take):
    """With a budget every preset's process lives on, as long as their weights fit the device."""
    alive = []
    does = {"all": lambda: alive.append(len(Process.alive))}
    take(does, budget=1000)
    assert max(alive) == len(MINIS)
    alive.clear()
    alone = replace(SETTINGS, batches=(1,))
    largest = max(needed(each) for each in planned(alone, is_by_worth=True))
    take(does, report=Report(MACHINE, alone), budget=1000, memory=1.5 * largest)
    assert max(alive) == 1


@pytest.mark.parametrize(("preset", "gigabytes"), [("qwen3-32b", 18.4), ("qwen3-30b-a3b", 17.2), ("qwen3-4b", 2.26)])
def test_the_bytes_of_a_preset(preset, gigabytes):
    """They are those of published models in 4 bits."""
    assert weights(preset) / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_what_was_done_is_kept_and_goes_on(take, tmp_path):
    """Ctrl-C in the middle, then a run that goes on: what was measured is not measured again."""
    asked = []
    does = {("qwen3-moe-mini", "eager", 1, 16): KeyboardInterrupt()}
    found = take(does)
    assert found.is_interrupted
    assert of(found) == everything("qwen3-mini", "qwen3-moe-mini") - {("qwen3-moe-mini", "eager", 1, 16)}
    assert "interrupted" in text(found)
    found = take({"all": lambda: asked.append(1)}, report=found)
    assert not found.is_interrupted
    assert of(found) == everything(*MINIS)
    assert len(asked) == 1 + len(everything("qwen3.5-mini")) + 2  # measurements, and the starts of two processes


def test_the_budget_is_spent_on_what_is_worth_most(take, monkeypatch):
    """One text of every preset comes first; what does not fit is left out, and nothing is begun behind the end."""
    clock = [0.0]
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def work():
        clock[0] += 2.0

    found = take({"all": work}, budget=17)
    assert {result["mode"] for result in found.measurements[:3]} == {"graph"}
    assert {result["preset"] for result in found.measurements[:3]} == set(MINIS)
    assert 3 <= len(found.measurements) < 15
    assert clock[0] <= 17
    assert len(found.measurements) + len(found.left_out) == 15
    assert {each["reason"] for each in found.left_out} == {"the budget of 17 s"}
    assert f"and {len(found.left_out) - 6} more: the budget of 17 s" in text(found)


def test_a_process_that_takes_too_long_or_dies(tmp_path, monkeypatch):
    """Both are told with what the process wrote last; a sentence that it answers is no death."""
    monkeypatch.setattr(process, "own_path", lambda: [str(tmp_path), *sys.path])
    codes = {
        "dies": "import os, sys\nprint('why', file=sys.stderr, flush=True)\nos.abort()",
        "sleeps": "import time\ntime.sleep(100)",
        "answers": "import sys\nprint('{\"result\": {}}', flush=True)\nprint('{\"error\": \"no\"}', input() and '')\n",
    }
    for name, code in codes.items():
        (tmp_path / f"{name}.py").write_text(code)
    asked = Measurement("qwen3-mini", "graph", 1, 16)
    died = PresetProcess("qwen3-mini", SETTINGS, "dies")
    with pytest.raises(PresetProcessError, match=r"ended by SIGABRT \(why\)"):
        died.facts(60)
    slow = PresetProcess("qwen3-mini", SETTINGS, "sleeps")
    with pytest.raises(PresetProcessError, match="more than 0 s"):
        slow.facts(0.1)
    answering = PresetProcess("qwen3-mini", SETTINGS, "answers")
    assert answering.facts(60) == {}
    with pytest.raises(ValueError, match=r"^no$"):
        answering.measure(asked, 60)
    answering.close()


@pytest.mark.only("cpu", reason="the interrupt comes while a long text is taken, which a GPU does at once")
def test_an_interrupt_of_the_command(tmp_path):
    """The status is that of Ctrl-C, the file and the tables have what was done, and no process is left."""
    path = tmp_path / "file.json"
    sizes = ["--models", "qwen3-mini", "--batches", "1", "--contexts", "5,60000", "--prompts", "9", "--modes", "graph"]
    command = [sys.executable, "-m", "hiprt", "bench", "models", *sizes, "--tokens", "4", "--out", str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, **pipes, env={**os.environ, "HIPRT_PROVIDER": "cpu"}, start_new_session=True)
    while not path.exists() or len(json.loads(path.read_text())["measurements"]) < 2:
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    out, err = running.communicate(timeout=60)
    assert running.returncode == check.INTERRUPTED
    assert "one graph a token" in out
    assert "interrupted; what was done is kept" in err
    report = json.loads(path.read_text())
    assert report["is_interrupted"]
    assert len(report["measurements"]) == 2
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_steps_that_were_not_replayed_show(take, tmp_path):
    """In the tables and the progress."""
    found = take()
    found.measurements[0]["rungs"] = {"replay": 7, "instantiate": 1}
    assert "1,000*" in text(found)
    assert "* not all steps were replays" in text(found)
    assert "1,000*" not in text(take())


def test_markdown_tables(take):
    """As pages have them: a column for each preset, called by its size where all have one."""
    found = take(report=Report(MACHINE, replace(SETTINGS, models=("qwen3-4b", "qwen3-30b-a3b"))))
    lines = markdown(found).splitlines()
    assert "| tok/s | 4B | 30B-A3B |" in lines
    assert "| one graph a token | 1,000 | 1,000 |" in lines
    assert "| a step of 4 over one of 1 | 1.30 | 1.30 |" in lines
    assert "| 16 tokens: tok/s | 16,000 | 16,000 |" in lines
    assert "| tok/s | qwen3-mini | qwen3-moe-mini | qwen3.5-mini |" in markdown(take()).splitlines()


def test_what_differs_from_a_run_of_before(take):
    """What became slower comes first; what differs by less than 2 % is not told."""
    old, new = take(), take()
    new.measurements[0]["tok_s"] *= 1.5
    new.measurements[1]["prompt_tok_s"] *= 0.5
    new.measurements[2]["tok_s"] *= 0.985
    told = compared(old, new)
    assert "15 measurements, 2 of which" in told
    assert told.index("-50.0%") < told.index("+50.0%")
    assert "Beside a card, d, abc" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--models", "qwen9"], "'qwen9': take some of qwen3-0.6b"),
        (["--modes", "graph,fast"], "'fast': take some of graph"),
        (["--batches", "1,9"], "expected 1 to 8 texts"),
        (["--contexts", "0"], "expected an integer of at least 1"),
        (["--json", "--markdown"], "take one"),
        (["--resume", "other.json", "--tokens", "4", "--kernels"], "leave out --tokens, --kernels"),
        ([], "--resume hiprt-models.json goes on with it"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, capsys, options, message):
    """Before anything is measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / models.OUT).write_text("{}")
    with pytest.raises(SystemExit):
        main(["bench", "models", *options])
    assert message in capsys.readouterr().err


def test_runs_that_do_not_go_on(take, tmp_path, capsys):
    """A file of something else, and a run of another machine."""
    other = tmp_path / "other.json"
    other.write_text('{"what": "hiprt doctor --check"}')
    assert main(["bench", "models", "--resume", str(other)]) == 1
    assert "is no file of hiprt bench models" in capsys.readouterr().err
    Report({**MACHINE, "device": "another card"}, SETTINGS).write(other)
    assert main(["bench", "models", "--resume", str(other)]) == 1
    assert "a run is of one machine" in capsys.readouterr().err


def test_the_run_without_options():
    """It has every preset of the size of a published model, and takes minutes on an H200."""
    assert {*models.DEFAULTS.models} == {name for name in PRESETS if not name.endswith("-mini")}
    assert 1 < models.minutes(models.DEFAULTS) < 6
    assert all(expected(each, SETTINGS) < 10 for each in planned(SETTINGS, is_by_worth=True))
