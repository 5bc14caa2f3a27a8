"""``hiprt graph show`` and `graphs.show`: the figures behind the page and the text, and who may be shown."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from helpers.kernels import mix, scale
from helpers.runs import made_run
from hypothesis import given, strategies as st

import hiprt
from hiprt import graphs
from hiprt.__main__ import main
from hiprt.graphs.view.compare import compare, paired
from hiprt.graphs.view.figures import Figures, bands_of, figures
from hiprt.graphs.view.run import Run, of_program, of_step, read
from hiprt.graphs.view.schedule import schedule
from hiprt.graphs.view.view import View

PROGRAM = """
import sys
import numpy as np, hiprt
from hiprt import graphs, kernels
x = hiprt.array(np.ones(16, np.float32))
decode = graphs.Step(lambda: kernels.multiply(kernels.add(x, 1.0), 2.0), name="decode")
for _ in range(int(sys.argv[1])):
    decode()
with graphs.step("other"):
    kernels.add(x, 1.0, out=x)
print("the program's own output")
"""


@pytest.fixture
def program(tmp_path):
    """A program with two steps."""
    file = tmp_path / "engine.py"
    file.write_text(PROGRAM)
    return file


@st.composite
def programs(draw):
    """Dependencies of nodes, and how long each takes."""
    size = draw(st.integers(0, 24))
    before = [draw(st.sets(st.integers(0, i - 1), max_size=4)) if i else set() for i in range(size)]
    return [sorted(each) for each in before], draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))


@given(programs())
def test_schedules_keep_every_dependency(program):
    """A node begins when the last it waits for ends, rows do not overlap, and the critical path is as long as all."""
    dependencies, us = program
    plan = schedule(dependencies, us)
    ends = [start + duration for start, duration in zip(plan.start, us)]
    assert plan.start == [max((ends[k] for k in before), default=0) for before in dependencies]
    assert plan.length == max(ends, default=0)
    assert sum(us[i] for i in plan.critical) == plan.length
    for one, other in pairwise(plan.critical):
        assert one in dependencies[other]
        assert plan.start[other] == ends[one]
    for row in set(plan.row):
        spans = sorted((plan.start[i], ends[i]) for i in range(len(us)) if plan.row[i] == row)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_figures_of_a_run():
    """Sums, floors, shares, rungs and reasons are what the file says, worked out by hand."""
    (graph,) = figures(made_run(nodes=4, launches=("instantiate", "replay", "patch", "patch", "replay")))
    # Each node reads 2,000 bytes of its own and 1,000 that it shares with the one before, and takes 2 us; 1 GB/s.
    assert (graph.total_us, graph.distinct_bytes) == (8.0, 4 * 2000 + 5 * 1000)
    assert graph.floor_us == pytest.approx(13.0)
    assert graph.schedule.length == 8.0
    (kernel,) = graph.kernels
    assert (kernel.nodes, kernel.nbytes, kernel.us) == (4, 16000, 8.0)
    assert kernel.gb_s == pytest.approx(2.0)
    assert kernel.share == pytest.approx(2.0)
    assert graph.ladder.rungs == {"replay": 2, "patch": 2, "instantiate": 1}
    assert graph.ladder.device_us == 7.0
    assert graph.ladder.host_us["patch"] == 20.0
    # Differences of one argument count as one.
    assert graph.ladder.reasons == [
        ("patch", "arguments of 1 of 4 nodes changed", "node 0 (kernel 0) n: 2 -> 3", 2),
        ("instantiate", "first of this topology", "", 1),
    ]


def test_text_shows_what_the_page_shows():
    """Kernels, the path and who launched it, memory, rungs and why: within the width that is asked for."""
    text = View(made_run(nodes=12, launches=("instantiate", "replay", "eager"))).text(width=100)
    assert "decode [00000000000000aa] of made up on a device (cpu)" in text
    for wanted in (
        "kernel 0",
        "> 100%",
        "engine.py:11 in decode",
        "critical path, all 12 of 12",
        "first of this topology",
    ):
        assert wanted in text
    assert "12 intermediates in 1.0 KiB (no plan is below 512 B), 1 written in place" in text
    assert max(map(len, text.splitlines())) <= 100


def test_memory_is_drawn_as_lanes():
    """Offsets downwards, nodes to the right; what is written in place has the letter of what it continues."""
    text = View(made_run(nodes=12)).text(width=100)
    lanes = [line.split("B  ")[1] for line in text.splitlines() if "B  " in line and "KiB (no" not in line]
    lanes = [lane for lane in lanes if set(lane) <= set("abcdefghijklmnop ")]
    assert lanes[0].startswith("aaa")
    assert any(lane.endswith("l") for lane in lanes)


def test_a_step_shows_itself(stream):
    """`graphs.show`: nodes are timed now, memory is as before, and the step goes on as a replay."""
    x, total = hiprt.array(np.ones(100, np.float32)), hiprt.zeros(100)

    def function():
        y = mix(scale(x, 2.0), scale(x, 3.0))
        total.copy_from(y)

    step = graphs.Step(function, name="shown", stream=stream)
    with pytest.raises(ValueError, match="step shown has launched nothing yet: call it first"):
        graphs.show(step)
    step()
    before = total.numpy()
    view = graphs.show(step)
    np.testing.assert_array_equal(total.numpy(), before)
    (graph,) = view.graphs[0]
    assert len(graph.us) == len(graph.nodes) == 4
    assert graph.bandwidth > 0
    assert graph.ladder.rungs == {"instantiate": 1}
    assert "shown [" in str(view)
    assert "<iframe srcdoc=" in view._repr_html_()
    step()
    assert step.rungs["replay"] == 1


def test_a_program_is_run_and_shown(program, capsys, tmp_path):
    """A program with arguments; its own output does not mix with what is shown."""
    assert main(["graph", "show", "--step", "decode", "--json", str(program), "5"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (graph,) = run["graphs"]
    assert (graph["step"], graph["ladder"]["rungs"]) == ("decode", {"replay": 4, "instantiate": 1})
    assert run["read_gb_s"] > 0
    page = tmp_path / "page.html"
    assert main(["graph", "show", "--html", str(page), str(program), "2"]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<!doctype html>" in page.read_text()


def test_two_files_are_compared(program, tmp_path, capsys):
    """A trace before and one after a change."""
    files = []
    for turns in (3, 6):
        files.append(tmp_path / f"{turns}.json")
        environment = {"HIPRT_GRAPH_TRACE": str(files[-1])}
        run(program, str(turns), **environment)
    assert main(["graph", "show", *map(str, files)]) == 0
    text = capsys.readouterr().out
    assert "3.json -> 6.json: decode [" in text
    assert "the first node that differs: none, they have the same nodes" in text
    assert next(line for line in text.splitlines() if line.startswith("replay")).split() == ["replay", "2", "5"]


def run(program, *arguments, **environment):
    """Run a program in a process of its own."""
    subprocess.run(
        [sys.executable, str(program), *arguments], env={**os.environ, **environment}, check=True, capture_output=True
    )


def test_comparisons_name_what_differs():
    """The first node whose kernel or dimensions differ, kernels that only one has; graphs by topology, then name."""
    one, other = (Figures(made, made.graphs[0]) for made in (made_run(nodes=6), made_run(nodes=8, kernels=2)))
    found = compare(one, other)
    assert found.first_node == "node 1: kernel 0, 4x1x1 of 64x1x1 -> kernel 1, 4x1x1 of 64x1x1"
    assert [(name, a and a.nodes, b and b.nodes) for name, a, b in found.kernels] == [
        ("kernel 1", None, 4),
        ("kernel 0", 6, 4),
    ]
    assert compare(one, one).first_node == ""
    longer = Figures(made := made_run(nodes=7), made.graphs[0])
    assert compare(one, longer).first_node == "node 6: no such node -> kernel 0, 4x1x1 of 64x1x1"
    assert [(a.before, a.after) for a in paired([one], [longer])] == [(one, longer)]
    apart = made_run(nodes=3, step="prefill", key="bb")
    assert "[00000000000000aa] -> prefill [bb]" in View(made_run(nodes=3), apart).text()
    twice = Run("two", [*apart.graphs, *made_run(nodes=3).graphs])
    assert View(twice, Run("none", [])).text() == "the runs have no step in common"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not JSON", "is not JSON; a file of HIPRT_GRAPH_TRACE or a JSON file of HIPRT_GRAPH_DUMP is needed"),
        ("[1]", "tells of no graph"),
        ('{"traceEvents": []}', "tells of no graph"),
        ('{"nodes": [], "key": "0"}', "was dumped by an older hiprt; dump it again"),
        ('{"hiprt": {"format": "hiprt run 99"}}', "has the format 'hiprt run 99', and 'hiprt run 1' is read here"),
    ],
)
def test_files_that_cannot_be_shown_say_why(content, message, tmp_path, capsys):
    """One line, with what would do."""
    file = tmp_path / "file.json"
    file.write_text(content)
    assert main(["graph", "show", str(file)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_is_asked_for_wrongly_says_what_would_do(tmp_path, capsys, program):
    """Files that are missing, three of them, and steps that are not there."""
    file = tmp_path / "run.json"
    whole = vars(made_run(nodes=2))
    file.write_text(json.dumps({"format": "hiprt run 1", **{name: whole[name] for name in whole if name != "name"}}))
    quiet = tmp_path / "quiet.py"
    quiet.write_text("print(1)")
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    for arguments, message in (
        ([file, file, file], "one file is shown, or two are compared; 3 were given"),
        (["--step", "prefill", file], "run.json has no step 'prefill'; it has decode"),
        ([file, "--step", "prefill"], "run.json has no step 'prefill'; it has decode"),
        ([tmp_path / "missing.json"], "No such file"),
        ([tmp_path / "missing.py"], "there is no program"),
        ([quiet], "quiet.py launched no step, so there is nothing to show"),
        ([broken], "broken.py ended with status 3"),
    ):
        assert main(["graph", "show", *map(str, arguments)]) == 1
        assert message in capsys.readouterr().err


def test_options_stand_before_a_file_or_behind_it(tmp_path, capsys):
    """Those behind a program are the program's."""
    file, page = tmp_path / "run.json", tmp_path / "page.html"
    whole = vars(made_run(nodes=2))
    file.write_text(json.dumps({"format": "hiprt run 1", **{name: whole[name] for name in whole if name != "name"}}))
    shown = []
    for arguments in (
        ["--text", "--step", "decode", "--html", page, file],
        [file, "--html", page, "--text", "--step", "decode"],
        ["--text", file, "--html", page, "--step=decode"],
    ):
        page.unlink(missing_ok=True)
        assert main(["graph", "show", *map(str, arguments)]) == 0
        shown.append(capsys.readouterr().out)
        assert page.exists()
    assert shown[0] == shown[1] == shown[2] != ""
    assert main(["graph", "show", str(file), "--json", str(file)]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
    with pytest.raises(SystemExit):
        main(["graph", "show", str(file), "--htlm", "page.html"])
    assert "unrecognized arguments: --htlm" in capsys.readouterr().err


def test_a_dump_is_shown_without_times(stream, tmp_path):
    """Each node counts one, and what is not known is a dash."""
    x = hiprt.array(np.ones(10, np.float32))
    step = graphs.Step(lambda: mix(scale(x, 2.0), scale(x, 3.0)), name="dumped", stream=stream)
    with hiprt.flags.override(graph_dump=str(tmp_path)):
        step()
    (file,) = tmp_path.glob("*.json")
    view = View(read(file))
    (graph,) = view.graphs[0]
    assert (graph.unit, graph.schedule.length, graph.total_us) == ("nodes", 2.0, None)
    assert "not measured: a dump" in view.text()
    assert json.loads(json.dumps(view.values()))["runs"][0]["graphs"][0]["node_us"] is None


def test_a_split_step_shows_every_graph(stream):
    """A host read in the middle makes two graphs."""
    x = hiprt.array(np.ones(10, np.float32))

    def function():
        y = scale(x, 2.0)
        return scale(y, float(y.numpy(stream)[0]))

    step = graphs.Step(function, name="split", stream=stream)
    step()
    assert [len(graph["nodes"]) for graph in of_step(step).graphs] == [1, 1]


def test_programs_of_one_run_are_found_by_their_steps(program):
    """All steps of a program are shown, the most launched first."""
    found = of_program(program, ["3"])
    assert [each.name for each in figures(found)] == ["decode", "other"]
    assert [each["rung"] for each in found.only("other").launches] == ["instantiate"]


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 1 << 20)), max_size=12))
def test_bands_keep_the_order_of_offsets(values):
    """From 0 to 1, ascending, and every value begins and ends at one."""
    whole = max((offset + nbytes for offset, nbytes in values), default=0)
    memory = {"bytes": whole, "values": [{"offset": offset, "bytes": nbytes} for offset, nbytes in values]}
    bands = bands_of(memory)
    offsets, places = [offset for offset, _ in bands], [place for _, place in bands]
    assert offsets == sorted(set(offsets))
    assert places == sorted(places)
    assert places[0] == 0
    assert not whole or places[-1] == pytest.approx(1)
    assert {end for offset, nbytes in values for end in (offset, offset + nbytes)} <= set(offsets)
