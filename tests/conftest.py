"""How tests are spread over processes, which of them run, and the fixtures of all folders.

``pytest`` and ``pytest tests/graphs`` run in three processes for two cores, since tests wait for others; with files or
tests named, or ``-n 0``, in this one.
``pytest --all`` runs every parametrisation and the soaks' usual forms; ``pytest --share K/N`` the same, but only one of
N shares of the parametrisations that ``pytest`` leaves out and of the cases of some long tests; others are long in one
share. ``pytest -m soak`` runs the soaks' long forms.
"""

import gc
import os
from pathlib import Path

import pytest
from helpers.selection import form as form_of, is_in_turn, left_out, numbers_of, of_other_shares
from hypothesis import settings

# On NVIDIA a stream that waits for a value holds up all streams of its connection, of which there are eight by default.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
MOST_WORKERS = 16
CORES = len(os.sched_getaffinity(0))
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if IS_WORKER:
    # The workers share the cores. Two threads at least, so that blocks of a kernel run at once in every worker.
    threads = str(max(2, CORES // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])))
    for name in ("HIPRT_CPU_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, threads)

LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser):
    """Take ``--all`` and ``--share``."""
    parser.addoption("--all", action="store_true", help="run every parametrisation, and the soaks' usual forms")
    help_of_share = "as --all, but of the parametrisations that are left out otherwise the share K, from 0, of N"
    parser.addoption("--share", metavar="K/N", help=help_of_share)


def pytest_configure(config):
    """Draw the same examples each time: a red run is due to the change that it tests, and their kernels are cached.

    The soaks' long forms and ``--hypothesis-seed=random`` draw new ones. No example has a deadline: a sanitizer or a
    loaded machine is not a failure.
    """
    is_new = form_of(config) == "long" or config.getoption("--hypothesis-seed") is not None
    settings.register_profile("hiprt", derandomize=not is_new, deadline=None)
    settings.load_profile("hiprt")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Use every core for folders on the CPU device, unless ``-n`` says otherwise.

    Half of the cores have another worker: tests wait for programs, threads and timers. Workers, which come here too,
    start no others. A GPU has one process at a time.
    """
    option = config.option
    if IS_WORKER or not config.pluginmanager.hasplugin("xdist"):
        return
    if option.numprocesses is None and not option.usepdb and all(Path(arg).is_dir() for arg in config.args):
        from hiprt import library

        if library.current().provider.is_host:
            option.numprocesses = min(CORES + CORES // 2, MOST_WORKERS)
    if option.numprocesses and option.dist == "no":
        # Each worker begins with a stretch of its own, so that of tests that compile one kernel only the first does.
        option.dist = "worksteal"


def pytest_collection_modifyitems(config, items):
    """Leave out what only ``--all``, other shares and soaks run."""
    share = config.getoption("--share")
    if share or form_of(config) == "short":
        out = left_out(items)
        if share:
            try:
                out = of_other_shares(out, share)
            except ValueError as error:
                raise pytest.UsageError(str(error)) from None
        out = set(out)
        config.stash[LEFT_OUT] = len(out)
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=list(out))


def pytest_collection_finish():
    """Take the thousands of tests from what the garbage collector walks through: tests ask it to collect."""
    gc.freeze()


def pytest_sessionfinish(session):
    """Tell the process that reports how many were left out here."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take what a worker says; all collect the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter, config):
    """Say what was left out."""
    if count := config.stash.get(LEFT_OUT, 0):
        which = f"of other shares than {share}" if (share := config.getoption("--share")) else "that are like others"
        terminalreporter.write_line(
            f"left out, to be run with --all: {count} parametrisations {which}; long forms of soaks"
        )


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def form(request):
    """How long long tests are: short, usual or long."""
    return form_of(request.config)


@pytest.fixture
def form_in_turn(request, form):
    """As `form`, for long tests that have no cases to be shared out: usual in one share, and short in the others."""
    return form if is_in_turn(request.node.nodeid, request.config.getoption("--share")) else "short"


@pytest.fixture(scope="session")
def part(request):
    """Return a function that takes of a list of like cases those of the run's share; all without ``--share``."""
    which, count = numbers_of(request.config.getoption("--share") or "0/1")
    return lambda cases: cases[which::count]


@pytest.fixture(autouse=True)
def only(request):
    """Skip tests that need what another provider than the one in use has."""
    marker = request.node.get_closest_marker("only")
    if marker is not None:
        from hiprt import library

        if library.current().provider.name != marker.args[0]:
            pytest.skip(f"only on {marker.args[0]}: {marker.kwargs['reason']}")


@pytest.fixture
def stream():
    """A stream of the device in use, closed afterwards."""
    import hiprt

    with hiprt.Stream() as made, hiprt.use_stream(made):
        yield made
