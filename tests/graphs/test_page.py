"""The page of ``hiprt graph show``: one file with all that it needs, and what a browser makes of it."""

import html
import json
import re
import shutil
import subprocess

import pytest
from helpers.browser import browser, result, shown
from helpers.runs import made_run

from hiprt.graphs.view.page import page_data
from hiprt.graphs.view.run import Run
from hiprt.graphs.view.view import View

LADDER = ("instantiate", *["replay"] * 20, "patch", "eager", *["replay"] * 5)


def data_of(page):
    """The data in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_a_page_needs_nothing_else():
    """No file, no server, nothing from elsewhere: a browser is told to refuse that."""
    page = View(made_run(nodes=5)).html()
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(|https?://|fetch\(|import\(""", page)
    assert "default-src 'none'" in page
    assert "{{" not in page


def test_data_is_in_columns_and_says_each_text_once():
    """What the program reads is what was computed; places of columns belong together."""
    view = View(made_run(nodes=50, launches=LADDER, kernels=3))
    data = data_of(view.html())
    assert data == json.loads(json.dumps(page_data(view.runs, view.graphs, view.comparisons)))
    (graph,) = data["runs"][0]["graphs"]
    assert {len(column) for column in graph["nodes"].values()} == {50}
    assert {len(column) for column in graph["edges"].values()} == {49}
    assert {len(column) for column in graph["launches"].values()} == {len(LADDER)}
    assert len(graph["strings"]) == len(set(graph["strings"]))
    assert graph["strings"][graph["nodes"]["name"][4]] == "kernel 1"
    assert graph["strings"][graph["edges"]["why"][0]] == "RAW out → x, 1,000 bytes"
    assert graph["strings"][graph["nodes"]["accesses"][1][0]] == "read x, 0x3e8 + 1,000"
    assert [rung for rung, _, _ in graph["rungs"]] == ["replay", "patch", "instantiate", "eager"]


def test_pages_of_many_nodes_stay_small():
    """20,000 nodes are some megabytes, of which each node is a few numbers."""
    page = View(made_run(nodes=20_000, kernels=12)).html()
    assert len(page) < 8e6


def test_names_do_not_become_part_of_the_page():
    """Whatever a kernel, a step or a file is called."""
    evil = "</script><script>document.title='taken'</script><b>{}"
    run = made_run(nodes=3, names=evil, step=evil)
    run.name = evil
    page = View(run).html()
    assert page.count("<script") == 2
    assert data_of(page)["runs"][0]["graphs"][0]["step"] == evil
    assert f"<title>{html.escape(evil)}" in page


def test_the_program_is_valid_javascript(root):
    """Where node is."""
    if shutil.which("node") is None:
        pytest.skip("no node here")
    program = root / "graphs" / "view" / "page.js"
    subprocess.run(["node", "--check", str(program)], check=True, capture_output=True)


@pytest.fixture
def chrome():
    """A browser, without which these tests say nothing; what the page is given is tested above."""
    if browser() is None:
        pytest.skip("no browser here")


def title(document):
    """The title of a document, where errors end up."""
    return re.search(r"<title>(.*?)</title>", document, re.S)[1]


def test_a_browser_shows_all_parts(chrome):
    """Sums, plots, reasons, kernels and the rows in sight, without an error."""
    page = View(made_run(nodes=40, launches=LADDER, kernels=3)).html()
    document = shown(page)
    assert title(document) == "made up · hiprt graph"
    assert document.count("<canvas") == 3
    assert re.search(r"<b>80\.0 us</b><span>all nodes, one behind the other", document)
    assert re.search(r"<b>7\.00 us</b><span>a launch on the device", document)
    assert "node 0 (kernel 0) n: 21 -&gt; 22" in document
    assert "hipGraphLaunch: hipErrorUnknown (999)" in document
    assert 10 <= document.count('class="row"') <= 30  # of 40 nodes those in sight
    assert "replay 25, median 3.00 us" in document


def test_nodes_are_selected_searched_and_sorted(chrome):
    """A click in the timeline, a search, the order of the list, and the other colours."""
    page = View(made_run(nodes=40, launches=LADDER, kernels=3)).html()
    program = """
      const box = timeline.canvas.getBoundingClientRect();
      const at = (node) => timeline.x(graph.nodes.start[node] + 1);
      const place = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1 });
      const fire = (type, x, y) => timeline.canvas.dispatchEvent(new PointerEvent(type, place(x, y)));
      timeline.canvas.setPointerCapture = () => {};
      fire("pointermove", at(7), 26);
      const tip = document.getElementById("tip").textContent;
      fire("pointerdown", at(7), 26);
      fire("pointerup", at(7), 26);
      const detail = document.getElementById("detail").innerText;
      const field = document.getElementById("search");
      field.value = "Kernel 2";
      field.dispatchEvent(new Event("input"));
      const found = [document.getElementById("matches").textContent, list.order.length];
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
      const next = chosen;
      search("");
      document.querySelectorAll(".list .head button")[0].click();
      const first = document.querySelector(".list .row span").textContent;
      const before = document.documentElement.dataset.theme;
      document.getElementById("theme").click();
      timeline.zoom(0.1, at(7));
      const span = (timeline.high - timeline.low) / timeline.max;
      return { tip, detail, found, next, first, themes: [before, document.documentElement.dataset.theme], span };
    """
    document = shown(page, program)
    assert "failed" not in title(document)
    told = json.loads(result(document))
    assert told["tip"].startswith("7 kernel 1\n2.00 us by itself")
    assert "7 kernel 1" in told["detail"]
    assert "RAW out → x, 1,000 bytes" in told["detail"]
    assert "engine.py:10 in decode" in told["detail"]
    assert told["found"] == ["13 found", 13]
    assert told["next"] == 8
    assert told["first"] == "39"
    assert sorted(told["themes"]) == ["dark", "light"]
    assert told["span"] == pytest.approx(0.1)


def test_many_nodes_are_few_elements(chrome):
    """20,000 nodes are drawn, not made elements of; each pixel of them is painted a few times at most."""
    page = View(made_run(nodes=20_000, launches=("replay",) * 3000, kernels=12)).html()
    program = """
      const context = timeline.canvas.getContext("2d"), paint = context.fillRect.bind(context);
      let painted = 0;
      context.fillRect = (...box) => { painted++; paint(...box); };
      timeline.draw(context, timeline);
      return { elements: document.querySelectorAll("*").length, painted, pixels: timeline.width };
    """
    told = json.loads(result(shown(page, program)))
    assert told["elements"] < 700
    assert told["painted"] < 4 * told["pixels"]


@pytest.mark.parametrize("case", ["no launches", "no memory", "no nodes", "no graphs", "no times"])
def test_what_is_missing_is_said(chrome, case):
    """A page of a run that lacks something says so in its place."""
    run = made_run(nodes=0 if case == "no nodes" else 3, launches=() if case == "no launches" else ("replay",))
    graph = run.graphs[0]
    if case == "no memory":
        graph["memory"] = None
    elif case == "no graphs":
        run = Run("made up", [])
    elif case == "no times":
        graph.update(node_us=None, node_times="not measured: a dump")
        run.read_gb_s = None
    document = shown(View(run).html())
    assert "failed" not in title(document)
    wanted = {
        "no launches": "No launches are known",
        "no memory": "no intermediates with a plan of their own",
        "no nodes": "The graph has no nodes.",
        "no graphs": "The run has no graph.",
        "no times": "node times not measured: a dump.",
    }
    assert wanted[case] in document


def test_two_runs_are_shown_side_by_side(chrome):
    """What each has, the change, and the first node that differs."""
    one, other = made_run(nodes=6, launches=LADDER), made_run(nodes=8, launches=LADDER, kernels=2)
    one.name, other.name = "before", "after"
    document = shown(View(one, other).html())
    assert "failed" not in title(document)
    assert "The first node that differs: node 1: kernel 0" in document
    assert re.search(r"all nodes, one by one</td><td[^>]*>12\.0 us</td><td[^>]*>16\.0 us", document)
    assert "+4.00 us (+33.3 %)" in document
    assert document.count("<option") == 2
