"""HIP calls that fail: a clear error or a lower rung, nothing lost, and afterwards the same bits in one process."""

from itertools import pairwise

import pytest
from faults.sweep import BURSTS, PHASES, Worker, by_stack, ways

from hiprt.provider import PACKAGE

pytestmark = pytest.mark.only("cpu", reason="the shim counts its objects")
INVALID_VALUE = 1
FAULTS = 16  # of each phase in the short form, so that each of the ways() comes once


@pytest.fixture
def worker(tmp_path, request):
    """A process whose calls fail."""
    made = Worker(tmp_path, PACKAGE / "cpu" / "libhiprt_cpu.so", **getattr(request, "param", {}))
    yield made
    made.close()


def faults(worker, phase, count, part=list):
    """Let calls from many places of a program fail, or a part of them; return what was wrong."""
    wrong = []
    for i, n in part([*enumerate(by_stack(worker.ask(phase), count))]):
        burst, status = ways(i)
        name, found = worker.ask(phase, n, burst, status)
        wrong += [(n, name, burst, status, each) for each in found]
    return wrong


@pytest.mark.timeout(900)
@pytest.mark.every(2)
@pytest.mark.parametrize("phase", PHASES[::-1])  # the short form of test_mallocs.py takes the others
def test_a_call_fails(worker, phase, form, part):
    assert faults(worker, phase, FAULTS if form == "short" else 10_000, part) == []


def test_the_second_of_two_graphs_cannot_be_made(worker):
    """One line makes both, so that by place the first stands for the second too, which would lose the first."""
    calls = worker.ask("first")
    pairs = enumerate(pairwise(calls), 2)
    seconds = [n for n, (before, call) in pairs if before == call and call[0] == "hipGraphCreate"]
    assert seconds
    assert [worker.ask("first", n, 1, 2)[1] for n in seconds] == [[] for _ in seconds]


@pytest.mark.parametrize("nth", [0, -1])
def test_work_of_other_code_fails_from_then_on(worker, nth):
    """Its launch fails in a capture, which cannot be ended: the stream goes, and with it the capture."""
    # The collector's own calls move the others from run to run: the launches have numbers of their own.
    launches = [name for name, _ in worker.ask("foreign")].count("hipModuleLaunchKernel")
    name, wrong = worker.ask("foreign", range(1, launches + 1)[nth], 0, 2, "hipModuleLaunchKernel")
    assert name == "hipModuleLaunchKernel"
    assert not wrong


@pytest.mark.timeout(900)
def test_how_many_arguments_a_kernel_has_is_not_learned_from_a_failure(worker):
    """A kernel of other code whose arguments are not told is taken as it is: with too few of them it would crash."""
    calls = [n for n, (name, _) in enumerate(worker.ask("foreign"), 1) if name == "hipKernelGetParamInfo"]
    wrong = [(n, found) for n in calls for name, found in [worker.ask("foreign", n, 1, 719)] if found]
    assert len(calls) > 20
    assert not wrong


@pytest.mark.timeout(900)
def test_an_invalid_value_that_is_a_failure_is_not_the_end_of_the_arguments(worker):
    """It has the status that a question behind the last argument has."""
    calls = [n for n, (name, _) in enumerate(worker.ask("foreign"), 1) if name == "hipKernelGetParamInfo"]
    wrong = [(n, burst, *worker.ask("foreign", n, burst, INVALID_VALUE)) for n in calls[:25] for burst in BURSTS]
    assert [each for each in wrong if each[-1]] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phase", [pytest.param(phase, marks=pytest.mark.wide) for phase in ("kept", "recorded")])
@pytest.mark.parametrize("worker", [{"HIPRT_GRAPH_VERIFY": "1"}], indirect=True)
def test_a_call_fails_while_launches_are_verified(worker, phase):
    assert faults(worker, phase, 60) == []


def test_mistakes_are_found(worker):
    """An event that a failure loses, and a failure that is swallowed."""
    names = [name for name, _ in worker.ask("leaky")]
    lost = worker.ask("leaky", names.index("hipEventSynchronize") + 1, 1, 999)
    assert lost == ["hipEventSynchronize", ["lost: {'event': 1}"]]
    _, swallowed = worker.ask("leaky", names.index("hipEventRecord") + 1, 1, 999)
    assert "other results, and no error" in swallowed
