"""Graphs that are made ahead: nothing runs, later calls only launch, and what cannot be prepared is told."""

import numpy as np
import pytest
from faults import child

import hiprt
from hiprt import graphs, kernels
from hiprt.flags import flags


@pytest.fixture
def y():
    """An array that prepared calls would write if they ran."""
    return hiprt.zeros(4)


def ramp(rows):
    return hiprt.array(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4))


def softened(x):
    return kernels.softmax(kernels.multiply(x, 0.5))


def exact(rows):
    """What `softened` gives for `ramp`, op by op."""
    return softened(ramp(rows)).numpy()


def check_launches(function, sizes):
    """Calls with arrays elsewhere launch the graphs that are there."""
    (step,) = function.steps
    before = dict(step.rungs)
    assert before["instantiate"] == len(sizes)
    assert not sum(before.values()) - before["instantiate"]
    for rows in sizes:
        made = function(ramp(rows))
        np.testing.assert_array_equal((made[0] if isinstance(made, tuple) else made).numpy(), exact(rows))
    assert step.rungs["instantiate"] == before["instantiate"]
    assert not step.rungs["eager"]


def test_sizes_of_a_compiled_function():
    sizes = range(1, 12)
    compiled = hiprt.compile(softened, shapeless=True)
    assert compiled.prepare((hiprt.empty((rows, 4)),) for rows in sizes) == 11
    assert compiled.traces == 1
    check_launches(compiled, sizes)
    assert compiled.prepare([(ramp(3),), (ramp(20),)]) == 1


def test_sizes_of_an_imported_function(tmp_path):
    hiprt.export_function(tmp_path / "soft.hiprt", softened, ramp(2), shapeless=True)
    imported = hiprt.import_function(tmp_path / "soft.hiprt")
    assert imported.prepare((hiprt.empty((rows, 4)),) for rows in (2, 3, 7)) == 3
    check_launches(imported, (2, 3, 7))


def test_programs_of_their_own():
    """Without `shapeless` each shape has a program and a step."""
    compiled = hiprt.compile(softened)
    assert compiled.prepare([(ramp(2),), (ramp(3),)]) == 2
    for rows in (2, 3):
        np.testing.assert_array_equal(compiled(ramp(rows)).numpy(), exact(rows))
    assert [step.rungs["instantiate"] for step in compiled.steps] == [1, 1]


def test_nothing_runs(stream, y):
    """What a call would write is as it was; the first call writes it once."""
    step = graphs.Step(lambda x: kernels.add(x, 1.0, out=x), stream=stream)
    assert step.prepare([(y,), (y,)]) == 1
    assert not y.numpy().any()
    step(y)
    np.testing.assert_array_equal(y.numpy(), np.ones(4))
    assert step.rungs["replay"] == 1


def test_state(y):
    """What a function leaves in its outputs is left there by calls only."""
    state = {"sum": y}

    def accumulate(x):
        state["sum"] = kernels.add(state["sum"], x)

    compiled = hiprt.compile(accumulate, inputs=state, outputs=state)
    assert compiled.prepare([(hiprt.full((4,), 2.0),)]) == 1
    assert state["sum"] is y
    for _ in range(2):
        compiled(hiprt.full((4,), 2.0))
    np.testing.assert_array_equal(state["sum"].numpy(), np.full(4, 4.0))


def test_numbers_that_vary(stream, y):
    step = graphs.Step(lambda x, n: kernels.multiply(x, n), stream=stream, varying={"n": np.float32})
    assert step.prepare([(y, 1.0)]) == 1
    for n in (2.0, 3.0):
        np.testing.assert_array_equal(step(hiprt.full((4,), 1.0), n).numpy(), np.full(4, n))
    assert step.rungs["instantiate"] == 1 or not step.moves


def test_a_read_on_the_host_is_refused(stream, y):
    """The call is told from, nothing of it has run, and called it runs."""

    def reading(x):
        kernels.add(x, 1.0, out=x)
        return float(x.numpy()[0])

    step = graphs.Step(reading, stream=stream)
    with pytest.raises(RuntimeError, match=r"step reading cannot be prepared: .* Call it instead"):
        step.prepare([(y,)])
    assert not y.numpy().any()
    assert step(y) == 1.0


def test_an_error_leaves_those_before(stream):
    """A call that fails while it is recorded raises; those that were recorded before it run as they would have."""
    compiled = hiprt.compile(softened, shapeless=True)
    with pytest.raises(TypeError, match="is a str"):
        compiled.prepare([(ramp(2),), ("no array",)])
    np.testing.assert_array_equal(compiled(ramp(2)).numpy(), exact(2))


def test_an_array_is_no_list_of_arguments(tmp_path, stream, y):
    hiprt.export_function(tmp_path / "f.hiprt", softened, ramp(2))
    ways = hiprt.compile(softened), graphs.Step(softened, stream=stream), hiprt.import_function(tmp_path / "f.hiprt")
    for each in ways:
        with pytest.raises(TypeError, match="arguments of each call are a tuple or a list, not Array"):
            each.prepare([y])


@pytest.mark.parametrize("off", [{"graph": False}, {"compile": False}, {"graph_rungs": frozenset({"eager"})}])
def test_without_graphs(off):
    """Nothing is prepared, and calls run as they would have."""
    compiled = hiprt.compile(softened, shapeless=True)
    with flags.override(**off):
        assert compiled.prepare([(ramp(2),)]) == 0
        np.testing.assert_array_equal(compiled(ramp(2)).numpy(), exact(2))


def test_within_others(y):
    """A thread that traces or records prepares nothing."""
    compiled, made = hiprt.compile(softened, shapeless=True), []

    def outer(x):
        made.append(compiled.prepare([(x,)]))
        return compiled(x)

    hiprt.compile(outer)(ramp(2))
    graphs.Step(outer)(ramp(2))
    assert made == [0, 0]


def prepare_with_a_failure(calls):
    """Prepare two calls, of which the first graph cannot be made; return what is told and what differs."""
    compiled = hiprt.compile(softened, shapeless=True)
    compiled(ramp(5))  # the device is asked what it can
    calls.arm(1, 1, 2, "hipGraphInstantiate")
    made = compiled.prepare([(ramp(2),), (ramp(3),)])
    failed = calls.disarm()
    (step,) = compiled.steps
    told = [reason for reason in step.reasons if reason.startswith("not prepared: ")]
    wrong = [rows for rows in (2, 3) if (compiled(ramp(rows)).numpy() != exact(rows)).any()]
    return made, failed, len(told), wrong


@pytest.mark.only("cpu", reason="the shim stands before it")
def test_a_graph_that_cannot_be_made(tmp_path):
    """It is counted and left out, and the call makes it again."""
    assert child.run(prepare_with_a_failure, tmp_path) == [1, "hipGraphInstantiate", 1, []]
