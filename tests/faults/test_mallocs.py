"""Memory requests of the C core that fail, its own and those through Python's API: a clear error, nothing lost, and
afterwards the same bits in one process."""

import pytest
from faults.sweep import PHASES, Worker, by_stack

from hiprt.provider import PACKAGE

pytestmark = pytest.mark.only("cpu", reason="the shim counts its objects")
PLACES = 16  # of each phase, in the short form


@pytest.fixture
def worker(tmp_path):
    """A process in which requests of the C core fail."""
    made = Worker(tmp_path, PACKAGE / "cpu" / "libhiprt_cpu.so", is_of_memory=True)
    yield made
    made.close()


@pytest.mark.timeout(900)
@pytest.mark.every(2)
@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "first"])
def test_a_request_fails(worker, phase, form, part):
    """Some places in the core, or with ``--all`` one of each and every call of malloc, once and from then on."""
    requests, wrong = worker.ask(phase), []
    assert {name for name, _ in requests} == {"malloc", "Python's"}
    every = [n for n, (name, _) in enumerate(requests, 1) if name == "malloc"]
    for n in part(
        sorted({*by_stack(requests, PLACES if form == "short" else 100), *(every if form != "short" else ())})
    ):
        for burst in (1, 0) if requests[n - 1][0] == "malloc" else (1,):
            wrong += [(n, burst, each) for each in worker.ask(phase, n, burst, 0)[1]]
    assert wrong == []


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_failure_that_a_program_swallows(worker, part):
    """Every request."""
    numbers = part(range(1, len(worker.ask("swallowing")) + 1))
    assert [(n, worker.ask("swallowing", n, 1, 0)[1]) for n in numbers] == [(n, []) for n in numbers]


def test_a_request_of_a_cut_whose_table_is_full_fails(worker):
    """What is looked up in it is there, and asks for no memory."""
    own = [n for n, (name, _) in enumerate(worker.ask("full"), 1) if name == "malloc"]
    assert len(own) > 5
    assert [each for n in own for each in worker.ask("full", n, 1, 0)[1]] == []


def test_mistakes_are_found(worker):
    """A piece that a failure loses."""
    requests = worker.ask("leaky")
    own = [n for n, (name, _) in enumerate(requests, 1) if name == "malloc"]
    wrong = [each for n in own for each in worker.ask("leaky", n, 1, 0)[1]]
    assert wrong == ["lost: {'pieces of the core': 1}"]
