"""All collectives of ranks that are processes, by our kernels and by a library with NCCL's functions."""

import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hiprt.array import zeros
from hiprt.device import current_device
from hiprt.distributed import Communicator, Place, RankError
from hiprt.distributed.collective_library import CollectiveLibrary, LibraryRanks
from hiprt.distributed.communicator import refuse_shared
from hiprt.distributed.launcher import free_port
from hiprt.distributed.peers import bus_of
from hiprt.flags import flags

pytestmark = pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests")
PROGRAMS = Path(__file__).parent / "programs"
LAUNCH = [sys.executable, "-m", "hiprt", "launch", "--ranks"]


@pytest.fixture(scope="module")
def nccl(tmp_path_factory):
    """The file of a library with NCCL's functions over the CPU device."""
    if not shutil.which("c++"):
        pytest.skip("libraries are linked by the system's C++ compiler")
    file = tmp_path_factory.mktemp("nccl") / "libnccl.so"
    command = [sys.executable, "-m", "hiprt", "hipcc", "-O1", "-shared", "-fPIC", PROGRAMS / "collectives.hip"]
    made = subprocess.run([*command, "-o", file], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return file


def run(ranks, *words, **flags):
    """Run a program as several ranks; return its end and what it printed."""
    environment = os.environ | {f"HIPRT_{name.upper()}": str(value) for name, value in flags.items()}
    command = [*LAUNCH, str(ranks), *([PROGRAMS / words[0]] if words[0] != "-m" else words[:1]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.timeout(700)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.wide)])
def test_by_our_kernels(ranks, form):
    ended = run(ranks, "moves.py", "own", form)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"rank {rank}: right" for rank in range(ranks)]


@pytest.mark.timeout(700)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.wide)])
def test_by_a_library(ranks, nccl, form):
    """Its kernels are nodes of the step, captured and flattened, and its failures are found."""
    ended = run(ranks, "moves.py", "library", form, collectives="library", nccl_lib=nccl)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == [f"rank {rank}: right" for rank in range(ranks)]


@pytest.mark.wide
@pytest.mark.timeout(700)
def test_programs_of_mlx_by_a_library(nccl, root):
    """What it launches in the middle of a lazy graph's program is captured between the program's own nodes."""
    program = root / "tests" / "metal_compat" / "mlx" / "programs" / "collectives.py"
    words = ("0", "8", "10", "float32", "int32")  # where seeds begin, how many, steps, and dtypes
    ended = run(2, "-m", "hiprt", "run", program, *words, collectives="library", nccl_lib=nccl)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == ["rank 0: right", "rank 1: right"]


def test_ranks_that_nobody_closes_go_in_order_at_the_end(nccl):
    """The library's own checks speak: graphs go first, then the ranks, and nothing is called behind that."""
    ended = run(2, "dies.py", "-1", collectives="library", nccl_lib=nccl)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.timeout(700)
@pytest.mark.parametrize("victim", ["1", pytest.param("0", marks=pytest.mark.wide)])
def test_a_rank_that_is_killed_is_named(victim, nccl):
    """The library's kernels that wait for it end by ncclCommAbort."""
    ended = run(2, "dies.py", victim, collectives="library", nccl_lib=nccl)
    assert ended.returncode == 128 + 9
    assert ended.stdout == f"rank {1 - int(victim)}: rank {victim} of 2 has ended without a word\n"


@pytest.mark.parametrize("has_library", [True, False])
def test_memory_of_others_that_cannot_be_mapped(has_library, nccl):
    """The library connects the ranks then, and where there is none all of them say why."""
    ended = run(2, "apart.py", **({"nccl_lib": nccl} if has_library else {}))
    cause = "the device of rank 1 cannot see the memory of rank 0's: hipIpcOpenMemHandle: hipErrorInvalidValue"
    lacks = "and no library of collectives (RCCL or NCCL) was found by rank 0"
    said = "library [3. 3. 3.]" if has_library else f"{cause} (1); {lacks}"
    assert (ended.returncode, ended.stdout) == (0, f"{said}\n{said}\n")


def test_no_library(monkeypatch):
    monkeypatch.setenv("HIPRT_COLLECTIVES", "library")
    monkeypatch.delenv("HIPRT_NCCL_LIB", raising=False)
    flags.reload()
    try:
        port = free_port()
        with ThreadPoolExecutor(2) as threads:
            come = [threads.submit(Communicator, Place(rank, 2, rank, "127.0.0.1", port)) for rank in range(2)]
            for each in come:
                with pytest.raises(
                    RankError, match=r"^no library of collectives \(RCCL or NCCL\) was found by rank 0$"
                ):
                    each.result()
    finally:
        monkeypatch.undo()
        flags.reload()


def test_a_file_that_is_no_library_of_collectives():
    with pytest.raises(OSError, match=r"is no library of collectives: .*ncclGetVersion"):
        CollectiveLibrary(Path(sys.modules["_ctypes"].__file__))


def test_other_versions_and_late_ranks_are_named(nccl):
    """One rank waits for another one, which has another version, or does not come."""
    library, device, turns = CollectiveLibrary(nccl), current_device(), zeros(1, np.uint32)
    assert library.version == "2.28.9"
    met = SimpleNamespace(
        place=Place(0, 2, 0, "", 0), seconds=0.2, check=lambda: None, all_gather=lambda value: [value, "2.27.3"]
    )
    with pytest.raises(RankError, match=r"rank 1 has NCCL 2\.27\.3, and rank 0 NCCL 2\.28\.9") as raised:
        LibraryRanks(library, met, device, turns)
    assert raised.value.rank == 1
    met.all_gather = lambda value: [value, value]
    library.functions["CommInitRank"] = lambda *_: threading.Event().wait(1)
    with pytest.raises(RankError, match=r"NCCL 2\.28\.9 did not connect all ranks within 0\.2 s"):
        LibraryRanks(library, met, device, turns)


def test_two_ranks_of_one_gpu_are_refused():
    gpu = SimpleNamespace(index=0, provider=SimpleNamespace(is_host=False))
    assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}", bus_of(gpu))
    assert bus_of(current_device()) == ""
    refuse_shared([["a", "0000:01:00", "GPU"], ["b", "0000:01:00", "GPU"], ["a", "", "CPU"], ["a", "", "CPU"]])
    with pytest.raises(RankError, match="ranks 0 and 2 have one device, GPU at 0000:01:00") as raised:
        refuse_shared([["a", "0000:01:00", "GPU"], ["a", "0000:02:00", "GPU"], ["a", "0000:01:00", "GPU"]])
    assert raised.value.rank == 2


def test_the_launcher_says_why_a_rank_ended(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text("import os\nif os.environ['RANK'] == '1':\n    raise MemoryError('of 3 GB')\n")
    ended = subprocess.run([*LAUNCH, "2", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.endswith(
        "hiprt launch: rank 1 ended with status 1\nhiprt launch: rank 1 said last: MemoryError: of 3 GB\n"
    )


@pytest.mark.parametrize(
    ("last", "status"), [("os.kill(os.getpid(), 9)", -9), ("exit(3)", 0)], ids=["by a signal", "by itself"]
)
def test_the_rank_that_failed_first_is_named(last, status, tmp_path):
    """Connections of one that a signal ends are closed before its end can be waited for: others may end before it."""
    program = tmp_path / "ends.py"
    program.write_text(f"import os, time\nif os.environ['RANK'] == '1':\n    exit(3)\ntime.sleep(0.5)\n{last}")
    ended = subprocess.run([*LAUNCH, "2", program], capture_output=True, text=True)
    assert ended.returncode == (128 - status if status else 3)
    named = f"rank 0 ended with status {status}" if status else "rank 1 ended with status 3"
    assert ended.stderr.startswith(f"hiprt launch: {named}\n")


def test_sigterm_ends_all_ranks(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text("import os, time\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)\n")
    process = subprocess.Popen([*LAUNCH, "2", program], stdout=subprocess.PIPE, text=True)
    ranks = [int(process.stdout.readline()) for _ in range(2)]
    process.terminate()
    assert process.wait(60) == 128 + 15
    process.stdout.close()
    for rank in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(rank, 0)
