"""Processes that are forked from one that uses a device: errors instead of hangs, and a clean end."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest
from helpers.child import child

SECONDS = 20


def forked(function, *args):
    """Run a function in a fork of this process; what it returned, or how the fork ended."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(function(*args)).encode())
        except BaseException:
            os.write(writer, json.dumps(traceback.format_exc()).encode())
        os.close(writer)
        sys.exit(0)  # with all that Python and C do at the end
    os.close(writer)
    begin = time.monotonic()
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() - begin > SECONDS:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hangs"
        time.sleep(0.01)
    with open(reader, "rb") as file:
        return json.loads(file.read() or "null")


class Used:
    """A process that has used the device in every way."""

    def __init__(self):
        from helpers.kernels import accumulate, scale

        import hiprt
        from hiprt import graphs

        self.x, self.total = hiprt.array(np.arange(100, dtype=np.float32)), hiprt.zeros(100)
        self.event, self.stream = hiprt.Event(), hiprt.Stream()
        self.step = graphs.Step(lambda: accumulate(scale(self.x, 2.0), self.total))
        for _ in range(3):
            self.step()
        self.moving, self.others = (
            graphs.Step(lambda a: scale(a, 2.0), moves=True),
            [hiprt.zeros(100) for _ in range(2)],
        )
        for i in range(5):
            self.moving(self.others[i % 2])
        self.event.record(self.stream)
        self.host = self.total.numpy()


def error_of(call):
    """Return the error of a call as text; None if there is none."""
    from hiprt import HipError

    try:
        call()
    except HipError as error:
        return str(error)
    return None


def uses(used):
    """Every kind of device call, each with its error."""
    from helpers.kernels import scale

    import hiprt
    from hiprt import allocator, graphs
    from hiprt.kernels import hip_kernel

    fresh = 'extern "C" __global__ void k(float* y) { y[0] = 2.0f; }'
    calls = {
        "read": used.total.numpy,
        "array": lambda: hiprt.array(np.ones(5000, np.float32)),
        "kernel": lambda: scale(used.x, 3.0),
        "replay": used.step,
        "move": lambda: used.moving(used.others[1]),
        "step": lambda: graphs.Step(lambda: scale(used.x, 3.0))(),
        "stream": hiprt.Stream,
        "event": hiprt.Event,
        "record": lambda: used.event.record(used.stream),
        "synchronize": used.stream.synchronize,
        "compile": lambda: hip_kernel(fresh, "k", {"y": "update float32"})(used.x, threads=1, block=1),
        "device": hiprt.current_device().synchronize,
        "trim": allocator.default_pool.trim,
        "count": hiprt.device_count,
    }
    return {name: error_of(call) for name, call in calls.items()}


def drops(used):
    """What is on the host is readable; everything of the device's is dropped."""
    total = float(used.host.sum())
    used.__dict__.clear()
    gc.collect()
    return total


def in_forks():
    """What forks of a process that has used the device say."""
    used = Used()
    found = {
        "ends": forked(lambda: "ended"),
        "uses": forked(uses, used),
        "drops": forked(drops, used),
        "drops after uses": forked(lambda: uses(used) and drops(used)),
    }
    used.step()
    return {**found, "parent": float(used.total.numpy().sum())}


def test_a_fork_of_a_process_that_used_a_device():
    """Each device call is an error with the remedy; drops and the end are silent; the parent goes on."""
    found = child(in_forks)
    assert found["ends"] == "ended"
    assert isinstance(found["uses"], dict), found["uses"]
    for name, error in found["uses"].items():
        if name == "trim":  # it had nothing to ask the device
            continue
        assert error is not None, name
        assert "HIPRT_E_FORKED" in error, (name, error)
        assert "spawn or forkserver" in error, (name, error)
    assert found["drops"] == found["drops after uses"] == 3 * 2 * 4950
    assert found["parent"] == 4 * 2 * 4950


def in_the_midst():
    """Fork again and again while other threads launch, allocate and drop."""
    from helpers.kernels import scale

    import hiprt
    from hiprt import graphs

    used, over = Used(), threading.Event()

    def work():
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            x = hiprt.array(np.ones(1000, np.float32))
            step = graphs.Step(lambda factor: scale(scale(x, factor), 2.0), stream=stream)
            n = 0
            while not over.is_set():
                n += 1
                step(float(n % 7))
                scale(x, 1.0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    ends = [forked(lambda: (uses(used)["replay"] or "")[-40:] and drops(used)) for _ in range(15)]
    over.set()
    for thread in threads:
        thread.join()
    return ends


@pytest.mark.only("cpu", reason="its threads and locks are what a fork meets")
def test_forks_while_other_threads_use_the_device():
    """No lock that a thread of the parent held is waited for."""
    assert child(in_the_midst) == [3 * 2 * 4950] * 15


def test_a_fork_before_the_first_use_has_the_device():
    code = (
        "import os, hiprt, numpy as np\n"
        "if os.fork() == 0:\n"
        "    print(hiprt.full(10, 2.0, np.float32).numpy().sum(), flush=True)\n"
        "else:\n"
        "    os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=SECONDS * 5)
    assert done.stdout == "20.0\n", done.stderr


def reports():
    """Fork a process whose statistics go to a file."""
    used = Used()
    forked(lambda: used.__dict__.clear())
    return os.path.exists(os.environ["HIPRT_GRAPH_STATS"])


def test_a_fork_reports_nothing(tmp_path):
    """At its end it would write over the parent's statistics."""
    assert child(reports, HIPRT_GRAPH_STATS=str(tmp_path / "stats.json")) is False
