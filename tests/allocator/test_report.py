"""Reports: sizes by device, step and stream; the watch names what grows and nothing else."""

import gc
import json
import linecache

import pytest
from helpers.kernels import scale
from helpers.plans import check_plans

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import Pool, memory_report, stats, trim, watch
from hiprt.allocator.external import external
from hiprt.buffer import Buffer


class Source:
    """Addresses that nobody touches."""

    def __init__(self):
        self.at = 1 << 20

    def __call__(self, nbytes, stream):
        self.at += 1 << 24
        return Buffer(self.at, nbytes, 0)


@pytest.fixture
def pool():
    """A pool of its own."""
    return Pool(Source(), "device")


def test_report_adds_up(pool, stream):
    """The device's row is the sum over streams; a step's memory counts as allocated for the device."""
    other = hiprt.Stream()
    step = Pool(pool.allocate, "decode")
    kept = [pool.allocate(1024, stream), pool.allocate(2048, other), step.allocate(4096, stream)]
    gone = pool.allocate(512, other)
    del gone
    report = memory_report(pool)
    assert (report.device.allocated, report.device.reserved, report.device.peak) == (7168, 7680, 7680)
    rows = {row.name: (row.allocated, row.reserved) for row in report.streams}
    assert rows == {f"stream {stream.number}": (5120, 5120), f"stream {other.number}": (2048, 2560)}
    assert [(row.name, row.allocated, row.peak) for row in report.steps] == [("decode", 4096, 4096)]
    kept.pop()
    assert memory_report(pool).steps[0].allocated == 0


def test_fragmentation_is_what_the_largest_free_block_lacks(pool, stream):
    """Two free blocks of equal size: half of the free memory is elsewhere."""
    first, second = pool.allocate(1024, stream), pool.allocate(1024, stream)
    assert memory_report(pool).device.fragmentation == 0
    del first, second
    assert memory_report(pool).device.fragmentation == 0.5


def test_table_and_json_say_the_same(pool, stream):
    """Both carry every row."""
    kept = pool.allocate(1 << 20, stream)
    report = memory_report(pool)
    assert json.loads(report.json())["device"]["allocated"] == kept.nbytes
    lines = str(report).splitlines()
    assert lines[0].split() == ["allocated", "reserved", "peak", "retiring", "fragmented"]
    assert lines[1].split() == ["device", "1,048,576", "1,048,576", "1,048,576", "0", "0%"]
    assert lines[2].split() == ["stream", str(stream.number), "1,048,576", "1,048,576"]


def test_steps_of_the_default_pool_are_listed(stream):
    """A step's intermediates are in the report as long as the step is."""
    x = hiprt.zeros(256)
    steps = [
        graphs.Step(lambda: scale(scale(x, 2.0), 3.0), name="listed", stream=stream, keep=keep)
        for keep in (True, False)
    ]
    for step in steps:
        step()
    report = memory_report()
    (row,) = [row for row in report.steps if row.name == "listed"]
    assert row.memories == 2
    assert row.reserved >= 2 * 2048
    assert "listed x 2 " in str(report)
    del step, steps
    gc.collect()
    assert not any(row.name == "listed" for row in memory_report().steps)
    assert report.device.allocated <= report.device.reserved


def test_stats_are_plain_values(pool, stream):
    """All of the report, and nothing that is not JSON."""
    kept = pool.allocate(1024, stream), pool.allocate(4096, stream)
    gone = pool.allocate(512, stream)
    del gone
    found = stats(pool)
    assert json.loads(json.dumps(found)) == found
    assert {name: found[name] for name in ("allocated", "reserved", "peak", "fragmentation", "retiring", "drains")} == {
        "allocated": 5120, "reserved": 5632, "peak": 5632, "fragmentation": 0.0, "retiring": 512,
        "drains": external.drains,  # of the process
    }  # fmt: skip
    assert found["steps"] == []
    assert [row["reserved"] for row in found["streams"]] == [5632]
    assert len(kept) == 2


def test_a_kept_step_shows_its_plans(stream):
    """One slot for each graph; each size of the argument has a graph of its own, and the step one row."""
    step = graphs.Step(kernels.exp, name="two sizes", stream=stream)
    for size in (256, 512):
        step(hiprt.zeros(size))
    (row,) = [row for row in stats()["steps"] if row["name"] == "two sizes"]
    slots = sorted(row["slots"], key=lambda each: each["planned"])
    assert slots == [{"planned": n, "lower_bound": n} for n in (1024, 2048)]
    assert (row["memories"], row["reserved"]) == (2, 3072)
    assert [(plan.nbytes, plan.lower_bound) for plan in step.plans] == [(1024, 1024), (2048, 2048)]
    assert row["overflows"] == 0
    assert "two sizes: a graph in 2,048 bytes, of which 2,048 may be live at once" in str(memory_report())
    check_plans(step)


def test_many_graphs_of_a_step_are_some_lines(stream):
    """Graphs of one size are one line, and of many sizes the largest have lines."""
    sizes = [*[8] * 3, *range(1, 8)]
    steps = [graphs.Step(kernels.exp, name="many sizes", stream=stream) for _ in sizes]
    for step, size in zip(steps, sizes):
        step(hiprt.zeros(256 * size))
    lines = [line for line in str(memory_report()).splitlines() if line.startswith("many sizes")]
    assert lines[0].split()[:3] == ["many", "sizes", "x"]
    assert lines[1] == "many sizes: 3 graphs, each in 8,192 bytes, of which 8,192 may be live at once"
    assert lines[2:] == [
        *(f"many sizes: a graph in {n * 1024:,} bytes, of which {n * 1024:,} may be live at once" for n in (7, 6, 5)),
        "many sizes: 4 more graphs in less",
    ]


def test_a_step_that_asks_for_more_than_before(stream):
    """Recorded at each call it has what it had, and the rest from the device's pool; that is counted and named."""
    x = hiprt.full(256, 1.0)

    def function(count):
        return [scale(x, float(i)) for i in range(count)]

    step = graphs.Step(function, name="grows", stream=stream, keep=False)
    for count in (2, 2, 2, 5, 5, 1, 9):
        assert [float(y.numpy()[7]) for y in step(count)] == list(range(count))
    (row,) = (row for row in stats()["steps"] if row["name"] == "grows")
    assert (row["overflows"], row["slots"]) == (2, [])
    assert step.reasons["overflow: the step asked for more memory than before"] == 2
    assert "grows: 2 times a call asked for more than those before" in str(memory_report())


def test_a_kept_step_cannot_overflow(stream):
    """Its block is asked for when all is known: whatever it asks for is in its plan."""
    x = hiprt.full(256, 1.0)
    step = graphs.Step(lambda count: [scale(x, float(i)) for i in range(count)], name="known", stream=stream)
    for count in (1, 40, 3, 40):
        assert [float(y.numpy()[7]) for y in step(count)] == list(range(count))
    (row,) = [row for row in stats()["steps"] if row["name"] == "known"]
    assert sorted(slot["planned"] for slot in row["slots"]) == [1024, 3072, 40 * 1024]
    assert (row["overflows"], row["memories"], row["allocated"]) == (0, 3, 44 * 1024)


def test_watch_names_what_grows(pool, stream):
    """A leak of 2048 bytes a step, among memory that comes and goes and memory that stays."""
    kept, leaked = pool.allocate(4096, stream), []
    leaks = watch(pool)
    for i in range(12):
        temporary = [pool.allocate(512 * (1 + i % 3), stream) for _ in range(1 + i % 2)]
        leaked.append(pool.allocate(2048, stream))
        leaks.mark()
        del temporary
    assert leaks.growing() == {f"arrays of stream {stream.number}, blocks of 2048 bytes": 2048.0}
    assert str(leaks) == f"arrays of stream {stream.number}, blocks of 2048 bytes: 2,048 bytes a step"
    assert kept.nbytes == 4096


def test_watch_is_silent_about_warm_up(pool, stream):
    """What grows at first and then stays is no leak."""
    leaks, kept = watch(pool), []
    for i in range(12):
        if i < 3:
            kept.append(pool.allocate(1024, stream))
        leaks.mark()
    assert leaks.growing() == {}
    assert str(leaks) == "nothing grows"


def test_watch_names_the_line_that_leaks(stream):
    """With sites, the place in the program is named; what it makes and drops is not."""
    leaked = []

    def leak():
        leaked.append(hiprt.empty(256, stream=stream))

    leaks = watch(sites=True)
    for _ in range(12):
        kept = hiprt.empty(500, stream=stream)
        leak()
        leaks.mark()
    leaks.close()
    hiprt.empty(256, stream=stream)
    named = {name.split(" in ")[-1]: nbytes for name, nbytes in leaks.growing().items() if "test_report.py" in name}
    assert named == {"leak": 1024.0}
    assert kept.buffer not in leaks.sites or len(leaks.sites) == 13


def test_watch_names_the_line_of_an_operator_that_leaks(stream):
    """The line of the program, not that of the library which calls the op."""
    x, leaked = hiprt.zeros(256, stream=stream), []

    def token():
        y = x * 2
        leaked.append(y + 1)

    leaks = watch(sites=True)
    for _ in range(12):
        token()
        leaks.mark()
    leaks.close()
    (line,) = [name for name in leaks.growing() if ".py:" in name]
    assert line.endswith("in token")
    file, number = line.removesuffix(" in token").rsplit(":", 1)
    assert linecache.getline(file, int(number)).strip() == "leaked.append(y + 1)"


@pytest.mark.parametrize("way", ["step", "block"])
def test_watch_names_the_line_of_a_leak_within_a_step(stream, way):
    """What is allocated while a step records comes from the step's own memory, and has lines too."""
    x, leaked = hiprt.zeros(256, stream=stream), []

    def token():
        y = x * 2
        leaked.append(y + 1)
        return y

    def block():
        with graphs.step("leaky block", stream=stream):
            token()

    call = graphs.Step(token, name="leaky", keep=False, stream=stream) if way == "step" else block
    leaks = watch(sites=True)
    for _ in range(12):
        call()
        leaks.mark()
    leaks.close()
    lines = {name: nbytes for name, nbytes in leaks.growing().items() if ".py:" in name}
    ((line, nbytes),) = lines.items()
    file, number = line.removesuffix(" in token").rsplit(":", 1)
    assert linecache.getline(file, int(number)).strip() == "leaked.append(y + 1)"
    assert nbytes == 1024


def test_watches_end_in_any_order(stream):
    """Each notes what is made while it is there."""
    first, second = watch(sites=True), watch(sites=True)
    first.close()
    kept = hiprt.empty(256, stream=stream)
    assert kept.buffer in second.sites
    assert kept.buffer not in first.sites
    second.close()
    second.close()
    assert hiprt.empty(256, stream=stream).buffer not in second.sites


def test_external_and_retiring_memory_are_shown(stream):
    """What others own has a row of its own, and so has what only its stream may have yet."""
    from helpers.gate import Gate

    gate, x = Gate(stream), hiprt.array([1.0] * 256)
    wrapped = hiprt.wrap(x.address, 256, owner=x)
    before = memory_report()
    gate.shut()
    del wrapped
    y = hiprt.empty(1 << 16, stream=stream)
    del y
    report = memory_report()
    assert (before.external.allocated, report.external.retiring) == (1024, 1024)
    assert report.device.retiring >= 1 << 16
    assert "external" in str(report)
    gate.open()
    gate.close()


def test_a_model_that_is_dropped_is_given_back(stream):
    """A model and the step made of its method hold each other; trim lets go of both."""

    class Model:
        def __init__(self):
            self.weight = hiprt.zeros((256, 1024))
            self.step = graphs.Step(self.forward, stream=stream, name="unloaded")

        def forward(self):
            return kernels.exp(self.weight)

    model = Model()
    model.step()
    stream.synchronize()
    held = stats()["reserved"]
    del model
    assert trim() >= 2 << 20
    assert stats()["reserved"] <= held - (2 << 20)
    assert not any(row["name"] == "unloaded" for row in stats()["steps"])
