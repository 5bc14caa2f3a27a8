"""Processes that compile ahead say what does not compile, and end with the one that started them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hiprt.bench.compile_pool import CompilePool
from hiprt.code_folder import Source


def test_a_pool_says_what_does_not_compile():
    """A program that compiles has no reason; behind the block no process is left."""
    good = Source('extern "C" __global__ void fill(float* x) { *x = 1; }', "good.hip", (), ())
    with CompilePool(2) as pool:
        waits = [pool.begin([good]), pool.begin([good, good._replace(text="what?", name="bad.hip")])]
        assert waits[0](60.0) == ""
        assert "bad.hip" in waits[1](60.0)
        processes = list(pool.pool._pool)
        with pytest.raises(TimeoutError):
            pool.begin([good] * 10000)(0.0)
    assert not any(process.is_alive() for process in processes)


def test_processes_of_a_pool_do_not_hear_an_interrupt():
    """The signal is blocked in them from their start, and not in the thread that starts them."""
    with CompilePool(2) as pool:
        masks = [Path(f"/proc/{each.pid}/status").read_text() for each in pool.pool._pool]
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    blocked = [int(re.search(r"^SigBlk:\s*(\w+)", mask, re.M)[1], 16) for mask in masks]
    assert all(mask >> (signal.SIGINT - 1) & 1 for mask in blocked)


def test_an_interrupt_ends_a_pool(tmp_path):
    """Ctrl-C is for the process that searches, which ends the others; they say nothing."""
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, sys, time\n"
        "from hiprt.bench.compile_pool import CompilePool\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n"
        "        with CompilePool(3):\n"
        "            print('ready', flush=True)\n"
        "            time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    child = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout.readline() == "ready\n"
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    with pytest.raises(ProcessLookupError):  # noqa: PT012
        while True:
            os.killpg(child.pid, 0)
            time.sleep(0.01)
