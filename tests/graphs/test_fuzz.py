"""Random programs give the same bits in numpy, eagerly, and as graphs; and what they have found, one test each.

The default run checks 350 programs, ``--all`` 2,000, a share its part of these behind the default's, and ``-m soak``
200,000. One program again, from tests/: ``python -m helpers.fuzz --seed N``.
"""

import os
import subprocess
import sys
import threading
import types
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from helpers import fuzz, machine, program
from helpers.kernels import accumulate, scale
from helpers.selection import form as form_of, numbers_of

import hiprt
from hiprt import allocator, graphs, kernels
from hiprt.errors import HipError, OutOfMemoryError
from hiprt.graphs.launch.execs import Execs

CHUNK, TOGETHER = 100, 3
ALONE = {"short": 200, "usual": 1700, "long": 170_000}
AT_ONCE = {"short": 150, "usual": 300, "long": 30_000}
OF_A_PROFILE = {"short": 20, "usual": 200, "long": 200}


def pytest_generate_tests(metafunc):
    """Cut the programs into tests of `CHUNK`; a share has those of the short form and its part of the others."""
    which, count = numbers_of(metafunc.config.getoption("--share") or "0/1")
    for name, forms, programs in (("alone", ALONE, 1), ("at_once", AT_ONCE, TOGETHER)):
        if name in metafunc.fixturenames:
            step = CHUNK if programs == 1 else CHUNK // 2
            always = range(0, forms["short"] // programs, step)
            others = range(always.stop, forms[form_of(metafunc.config)] // programs, step)
            metafunc.parametrize(name, [*always, *others[which::count]])


@pytest.mark.soak
def test_programs_give_the_same_bits(alone):
    """numpy, eager and graph agree on every buffer after every statement."""
    failure = fuzz.check_range(alone, CHUNK)
    assert failure is None, failure


@pytest.mark.soak
def test_programs_at_once_do_not_disturb_each_other(at_once):
    """Several at once, each with its own steps and buffers: on streams of one thread, or on a thread each."""
    failure = fuzz.check_range(at_once, CHUNK // 2, TOGETHER)
    assert failure is None, failure


@pytest.mark.parametrize("profile", fuzz.PROFILES, ids=lambda name: name or "none")
def test_programs_give_the_same_bits_under_every_profile(root, form, part, profile):
    """A few programs in a process of each profile."""
    environment = os.environ | ({"HIPRT_CPU_PROFILE": profile} if profile else {})
    seeds = part(range(OF_A_PROFILE[form]))
    first, count = str(1_000_000 + 1000 * seeds[0]), len(seeds)
    for arguments in (["--count", str(count)], ["--count", str(count // 2), "--together", "3"]):
        child = subprocess.run(
            [sys.executable, "-m", "helpers.fuzz", "--seed", first, *arguments],
            cwd=root / "tests",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stdout + child.stderr


@pytest.mark.parametrize("window", [1, 2, 5])
def test_plans_of_few_nodes_give_the_same_bits(monkeypatch, window):
    """Steps that are too long to be planned at once."""
    monkeypatch.setattr(allocator.arena, "WINDOW", window)
    failure = fuzz.check_range(0, CHUNK)
    assert failure is None, failure


def test_a_program_is_its_seed():
    """Seeds make programs, always the same ones, and different ones."""
    assert str(fuzz.generate(11)[0]) == str(fuzz.generate(11)[0])
    assert len({str(fuzz.generate(seed)[0]) for seed in range(20)}) == 20


def test_races_are_no_programs():
    """numpy refuses a kernel of which one thread writes what another reads."""
    op = program.Op("affine", program.View("p0", (("slice", 0, 1, None, None),)), (program.View("p0"),))
    racing = program.Program(0, {"p0": (8,)}, (), (program.Statement("ops", ops=(op,)),))
    with pytest.raises(program.Illegal, match="race"):
        fuzz.judge(racing)


def test_the_fuzz_finds_and_shrinks_a_planted_bug(monkeypatch):
    """Fills that write another byte are found, and what is left to read is short."""

    def fill(self, array, byte):
        array.fill_bytes(byte ^ 1)

    monkeypatch.setattr(machine.Device, "fill", fill)
    found = (fuzz.check(seed) for seed in range(100))
    failure = next(failure for failure in found if failure and failure.mode == "eager")
    small = fuzz.shrink(failure).program
    assert sum(len(body.ops) for body in small.bodies) + sum(len(s.ops) for s in small.statements) <= 3
    assert "fill" in str(small)


def test_the_fuzz_finds_a_graph_that_does_nothing(monkeypatch):
    """An exec that is not launched is found, and the report says how to run its program again."""
    monkeypatch.setattr(graphs.Exec, "launch", lambda self, stream: None)
    report = fuzz.check_range(0, 100)
    assert report.startswith("graph: after statement")
    assert "again, from tests/: python -m helpers.fuzz --seed" in report


def test_the_fuzz_finds_a_step_that_hides_a_failure(monkeypatch):
    """A graph call that fails costs no bits (G8), and is found all the same."""

    def fail(*args):
        raise HipError(1, "hipErrorInvalidValue", "hipGraphLaunch")

    monkeypatch.setattr(graphs.Exec, "launch", fail)
    report = fuzz.check_range(0, 100)
    assert report.startswith("graph: a graph call failed and the step ran eagerly: eager: hipGraphLaunch")


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(100, dtype=np.float32))


@contextmanager
def failing_once(owner, name, error):
    """Make the first call of a function fail."""
    original = getattr(owner, name)

    def fail(*args):
        setattr(owner, name, original)
        raise error

    setattr(owner, name, fail)
    try:
        yield
    finally:
        setattr(owner, name, original)


def execs(step):
    """Every executable graph a step holds."""
    return list(step.ladder.execs)


def test_results_survive_calls_of_other_signatures(stream, x):
    """What a call returned is overwritten by the next call of the same signature, not as intermediate of another."""

    def function(x, is_deep):
        return scale(scale(x, 2.0), 3.0) if is_deep else scale(x, 7.0)

    step = graphs.Step(function, stream=stream)
    step(x, True)
    result = step(x, False)
    step(x, True)
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 7)


def test_results_of_a_split_step_survive_replays(stream, x):
    """The same for a step that is split, and so keeps nothing."""

    def function(x, is_split):
        if is_split:
            y = scale(x, 7.0)
            stream.synchronize()
            return y
        return scale(scale(x, 2.0), 3.0)

    step = graphs.Step(function, stream=stream)
    step(x, False)
    result = step(x, True)
    step(x, False)
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 7)


def test_moving_one_signature_leaves_the_others(stream):
    """Two signatures that launch the same nodes do not share an exec that other addresses are patched into."""
    state, a, b = hiprt.zeros(100), hiprt.full(100, 1.0), hiprt.full(100, 10.0)

    def function(x, unused):
        accumulate(x, state)

    step = graphs.Step(function, stream=stream, moves=True)
    for array, unused in [(a, 1), (a, 2), (b, 1), (a, 2)]:
        step(array, unused)
    np.testing.assert_array_equal(state.numpy(), np.full(100, 13, np.float32))


def test_an_argument_may_have_another_name(stream):
    """Where moving is not asked for, the function may use the same memory by another name."""
    state, other, out = hiprt.full(100, 1.0), hiprt.full(100, 5.0), hiprt.zeros(100)

    def function(x):
        accumulate(x, out)
        accumulate(state, out)

    step = graphs.Step(function, stream=stream)
    step(state)
    step(other)
    np.testing.assert_array_equal(out.numpy(), np.full(100, 8, np.float32))


def test_a_part_of_an_argument_may_have_another_name(stream):
    """The same for a view that begins inside the argument."""
    state, other, out = hiprt.full(100, 1.0), hiprt.full(100, 5.0), hiprt.zeros(10)

    def function(x):
        accumulate(x[:10], out)
        accumulate(state[40:50], out)

    step = graphs.Step(function, stream=stream)
    step(state)
    step(other)
    np.testing.assert_array_equal(out.numpy(), np.full(10, 8, np.float32))


@pytest.mark.parametrize("moves", [False, True])
def test_arguments_in_any_structure_come_back(stream, moves):
    """A function may return its argument inside an object of any type."""
    a, b, out = hiprt.full(100, 1.0), hiprt.full(100, 2.0), hiprt.zeros(100)

    def function(x):
        accumulate(x, out)
        return types.SimpleNamespace(x=x)

    step = graphs.Step(function, stream=stream, moves=moves)
    step(a)
    np.testing.assert_array_equal(step(b).x.numpy(), np.full(100, 2, np.float32))


def test_negative_zero_is_another_value(stream, x):
    """Values that compare equal and have other bits make other arguments."""
    step = graphs.Step(scale, stream=stream)
    step(x, 0.0)
    assert np.signbit(step(x, -0.0).numpy()).all()


def test_types_inside_tuples_matter(stream, x):
    """2 and 2.0 are equal, and the function may tell them apart."""

    def function(x, by):
        return scale(x, float(isinstance(by[0], float)))

    step = graphs.Step(function, stream=stream)
    step(x, (2,))
    np.testing.assert_array_equal(step(x, (2.0,)).numpy(), x.numpy())


def test_moves_spend_the_update_budget(stream):
    """G7: arguments patched into a kept step count; a spent exec is replaced."""
    arrays = [hiprt.full(100, 1.0), hiprt.full(100, 2.0)]
    step = graphs.Step(lambda x: scale(x, 3.0), stream=stream, moves=True)
    with hiprt.flags.override(graph_update_budget=10):
        for i in range(50):
            np.testing.assert_array_equal(step(arrays[i % 2]).numpy(), np.full(100, (3, 6)[i % 2], np.float32))
            assert all(slot.updated_nodes <= 10 for slot in execs(step))


def test_patches_of_several_nodes_stay_within_the_budget(stream):
    """G7: a patch that would overspend goes to a fresh exec."""
    pairs = [(hiprt.full(100, float(i)), hiprt.empty(100)) for i in range(8)]
    factor = 0.0

    def function():
        for source, target in pairs:
            target.copy_from(scale(source, factor))

    step = graphs.Step(function, stream=stream, keep=False)
    with hiprt.flags.override(graph_update_budget=20, graph_rungs=("patch", "instantiate")):
        for i in range(20):
            factor = float(i)
            step()
            assert max(slot.updated_nodes for slot in execs(step)) <= 20


def test_a_failed_move_runs_eagerly(stream):
    """G8: an argument that cannot be patched in discards the exec, and the step runs eagerly."""
    a, b = hiprt.full(100, 1.0), hiprt.full(100, 2.0)
    step = graphs.Step(lambda x: scale(x, 3.0), stream=stream, moves=True)
    step(a)
    before = step.rungs["instantiate"]
    with failing_once(Execs, "move", HipError(1, "hipErrorInvalidValue", "hipGraphExecKernelNodeSetParams")):
        np.testing.assert_array_equal(step(b).numpy(), np.full(100, 6, np.float32))
    np.testing.assert_array_equal(step(b).numpy(), np.full(100, 6, np.float32))
    assert "eager: hipGraphExecKernelNodeSetParams: hipErrorInvalidValue (1)" in step.reasons
    assert step.rungs["instantiate"] == before + 1


def test_a_failed_move_launches_nothing_of_a_function_that_raises(stream):
    """G8: what runs eagerly was recorded before, as all work of a step is."""
    a, b, total, raises = hiprt.full(4, 1.0), hiprt.full(4, 2.0), hiprt.zeros(4), []

    def function(x):
        kernels.add(total, x, out=total)
        if raises:
            raise KeyError

    step = graphs.Step(function, stream=stream, moves=True)
    step(a)
    raises.append(True)
    failure = HipError(1, "hipErrorInvalidValue", "hipGraphExecKernelNodeSetParams")
    with failing_once(Execs, "move", failure), pytest.raises(KeyError):
        step(b)
    np.testing.assert_array_equal(total.numpy(), np.full(4, 1.0))
    raises.clear()
    with failing_once(Execs, "move", failure):
        step(a)
        step(b)
    np.testing.assert_array_equal(total.numpy(), np.full(4, 4.0))


def test_a_successor_that_cannot_be_patched_is_discarded(stream):
    """G8: what takes a spent exec's place carries older arguments until it is patched; no later call finds it so."""
    arrays = [hiprt.full(100, 1.0), hiprt.full(100, 2.0)]
    step = graphs.Step(lambda x: scale(x, 3.0), stream=stream, moves=True)
    failure = HipError(1, "hipErrorInvalidValue", "hipGraphExecKernelNodeSetParams")
    with hiprt.flags.override(graph_update_budget=10), failing_once(graphs.Exec, "patch", failure):
        for i in range(30):
            np.testing.assert_array_equal(step(arrays[i % 2]).numpy(), np.full(100, (3, 6)[i % 2], np.float32))
    assert "eager: hipGraphExecKernelNodeSetParams: hipErrorInvalidValue (1)" in step.reasons
    assert [exec_.holders for exec_ in execs(step)] == [1]


def test_kept_steps_take_only_the_rungs_that_are_named(stream, x):
    """HIPRT_GRAPH_RUNGS limits calls of a signature that was kept before, too."""
    step = graphs.Step(lambda x: scale(x, 3.0), stream=stream)
    step(x)
    with hiprt.flags.override(graph_rungs=("eager",)):
        step(x)
    assert step.rungs["eager"] == 1
    with hiprt.flags.override(graph_rungs=("instantiate", "eager")):
        step(x)
    assert (step.rungs["replay"], step.rungs["instantiate"]) == (0, 2)


def test_recording_a_signature_again_frees_its_exec(stream):
    """A signature that must be recorded again, because its arguments overlap, holds one exec."""
    memory = hiprt.zeros(800)

    def function(x):
        accumulate(x, memory[400:640])

    step = graphs.Step(function, stream=stream, moves=True)
    for start in range(180, 300, 4):  # of one alignment: others are other signatures
        step(memory[start : start + 240])
    assert len(step.kept) == 1
    assert len(execs(step)) <= hiprt.flags.graph_slots


def test_blocks_of_one_name_on_two_threads_launch_different_execs(stream, x, monkeypatch):
    """G12: between finding an exec for its arguments and launching it, a thread has it for itself."""
    both = threading.Barrier(2)
    launching, shared = set(), []
    original = graphs.Exec.launch

    def launch(self, on):
        shared.extend([self] if self in launching else [])
        launching.add(self)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)  # never met where the threads take turns
        launching.discard(self)
        original(self, on)

    def work(factor):
        with hiprt.Stream() as own, hiprt.use_stream(own), graphs.step("two threads", stream=own):
            scale(x, factor)

    with graphs.step("two threads", stream=stream):
        scale(x, 1.0)
    stream.synchronize()
    monkeypatch.setattr(graphs.Exec, "launch", launch)
    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shared


def test_copies_have_the_edges_of_what_they_copy(stream, x):
    """HIPRT_GRAPH_EDGES may change between a recording and the exec that is made of its copy."""
    with hiprt.flags.override(graph_edges="chain"):
        recording = graphs.Recording()
        with recording.record(stream):
            results = [scale(x, 2.0), scale(x, 3.0)]
    copy = recording.copy()
    assert copy.same_key(recording)
    assert copy.edges == recording.edges == 1
    assert len(results) == 2


@pytest.mark.parametrize("edges", ["data", "chain", "both"])
def test_copies_of_a_step_that_was_laid_out_have_its_edges(stream, x, edges):
    """Intermediates share memory by then, which must not add edges."""
    with hiprt.flags.override(graph_edges=edges):
        step = graphs.Step(lambda: scale(scale(scale(scale(x, 2.0), 2.0), 2.0), 2.0), stream=stream)
        step()
    (recording,) = step.recordings
    assert recording.copy().same_key(recording)


def test_memory_of_kept_steps_is_not_given_away_under_pressure(stream, x):
    """G1: on exhaustion a step gives back what none of its graphs uses, and only that."""
    step = graphs.Step(lambda x: scale(scale(x, 3.0), 2.0), stream=stream)
    step(x)
    big = hiprt.array(np.zeros(10_000, np.float32))
    error = OutOfMemoryError(2, "hipErrorOutOfMemory", "hipMalloc")
    with failing_once(step.ladder.memory, "source", error), suppress(OutOfMemoryError):
        step(big)
    others = [hiprt.zeros(100) for _ in range(4)]
    step(x)
    for other in others:
        np.testing.assert_array_equal(other.numpy(), np.zeros(100, np.float32))


def test_memory_of_closed_streams_is_used_again():
    """Streams may come and go; what was freed on one that is closed does not pile up."""

    def use():
        with hiprt.Stream() as own, hiprt.use_stream(own):
            hiprt.zeros(1 << 20)
            own.synchronize()

    use()
    before = allocator.default_pool.stats().reserved
    for _ in range(8):
        use()
    assert allocator.default_pool.stats().reserved - before <= 2 * 4 << 20


def test_a_fanout_of_one_is_refused_or_served(root):
    """HIPRT_GRAPH_FANOUT=1 leaves no tree of join nodes to build; in a process of its own, since it took it down."""
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "import hiprt\n"
        "from hiprt import graphs\n"
        "from helpers.kernels import scale\n"
        "try:\n"
        "    x = hiprt.zeros(8)\n"
        "except ValueError:\n"
        "    raise SystemExit(0)\n"
        "graphs.Step(lambda: [scale(x, 2.0) for _ in range(3)])()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root / "tests",
        env=os.environ | {"HIPRT_GRAPH_FANOUT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
