"""``hiprt check``: its exit status and what it prints."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys
import numpy as np
import hiprt
from hiprt.kernels import hip_kernel
kernel = hip_kernel(
    '''extern "C" __global__ void shift(float *x, int n) {
      int i = threadIdx.x;
      if (i + 1 < n) x[i] = x[i + 1];
    }''',
    "shift",
    {"x": "update float32", "n": "int32"},
)
x = hiprt.array(np.ones(64, np.float32))
if sys.argv[3:]:
    import os
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
kernel(x, int(sys.argv[1]), grid=1, block=64)
x.numpy()
print("done")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def check(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*options, arguments=("64", "0")):
        command = [sys.executable, "-m", "hiprt", "check", *options, str(tmp_path / "program.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run


def test_findings_decide_the_status(check):
    found = check()
    assert (found.returncode, found.stdout) == (3, "done\n")
    assert "shift.hip:3: 4 bytes are read by kernel 'shift'" in found.stderr
    assert "hiprt check: 1 finding" in found.stderr
    clean = check(arguments=("1", "0"))
    assert (clean.returncode, clean.stderr) == (0, "hiprt check: no findings\n")


def test_the_programs_own_status_wins(check):
    assert check(arguments=("64", "7")).returncode == 7


def test_json_is_one_object(check):
    done = check("--json", "--kinds", "race")
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr, report["status"], report["has_kernels"]) == (3, "done\n", 0, True)
    (finding,) = report["findings"]
    assert finding["kind"] == "race"
    assert {i["kernel"] for i in finding["involved"]} == {"shift"}
    assert {i["what"].split()[-1] for i in finding["involved"]} == {"read", "written"}
    assert all(len(i["thread"]) == len(i["block"]) == 3 and i["lane"] < 32 for i in finding["involved"])


def test_what_a_failing_program_says_is_shown_beside_json(check):
    done = check("--json", arguments=("many", "0"))
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, 1)
    assert "ValueError: invalid literal for int()" in done.stderr


def test_a_program_without_kernels_is_told_of(tmp_path):
    """Another library may have taken the device's place: "no findings" alone would say too much."""
    (tmp_path / "program.py").write_text("print(1)")
    command = [sys.executable, "-m", "hiprt", "check", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr == "hiprt check: no findings, since no kernel ran on the CPU device\n"


def test_wrong_options_are_errors(check, tmp_path):
    (tmp_path / "wrong").write_text("# remark\nraces:shift\n")
    for options, text in (
        (("--kinds", "races"), "--kinds names 'races'"),
        (("--suppress", str(tmp_path / "none")), "which is no file"),
        (("--suppress", str(tmp_path / "wrong")), "wrong:2: 'races:shift' is not kind:text"),
    ):
        done = check(*options)
        assert (done.returncode, text in done.stderr) == (1, True)


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    command = [sys.executable, "-m", "hiprt", "check", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("hiprt: ")
    assert "nothing" in line


def test_findings_that_the_program_keeps_from_its_output_are_told(check):
    """As pytest does, which keeps what is written to both descriptors while a test runs."""
    found = check(arguments=("64", "0", "quiet"))
    assert (found.returncode, found.stdout) == (3, "")
    assert "race: " in found.stderr


def test_processes_that_find_the_same_have_it_once(check, tmp_path):
    program = tmp_path / "program.py"
    twice = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, {str(program)!r}, '64', '0'])"
    (tmp_path / "twice.py").write_text(twice)
    command = [sys.executable, "-m", "hiprt", "check", "--json", str(tmp_path / "twice.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert len(json.loads(done.stdout)["findings"]) == 1


METAL = """
import numpy as np
import hiprt
from hiprt.metal_compat import metal_kernel
x = hiprt.array(np.ones(64, np.float32))
body = '''uint t = thread_position_in_threadgroup.x;

threadgroup float s[64];
s[t] = x[t];

y[t] = s[63 - t];
'''
for i in range(3):
    kernel = metal_kernel(f"k{i}", ["x"], ["y"], body)
    shape = {"grid": (64, 1, 1), "threadgroup": (64, 1, 1), "output_shapes": [(64,)]}
    kernel(inputs=[x], output_dtypes=[np.dtype(np.float32)], **shape)[0].numpy()
"""


def test_lines_are_those_of_the_body(tmp_path):
    """The text in front of it is read in the compiler's own form from the second kernel on."""
    (tmp_path / "program.py").write_text(METAL)
    command = [sys.executable, "-m", "hiprt", "check", "--json", "--kinds", "race", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = {i["line"] for finding in json.loads(done.stdout)["findings"] for i in finding["involved"]}
    assert lines == {f"k{i}.metal:{line}" for i in range(3) for line in (4, 6)}


@pytest.mark.parametrize("heed", ["ends", "goes on"])
def test_an_interrupt_ends_the_program(tmp_path, heed):
    """Findings so far are told, and nothing is left: neither the program nor files."""
    program = tmp_path / "program.py"
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" if heed == "goes on" else ""
    wait = "\nimport os, time\nprint(os.getpid(), flush=True)\ntime.sleep(300)"
    program.write_text(ignored + PROGRAM.partition('print("done")')[0].replace("sys.argv[1]", "64") + wait)
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [sys.executable, "-m", "hiprt", "check", str(program)]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    child = int(running.stdout.readline())
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "hiprt check: race: " in errors
    assert errors.endswith("hiprt check: 1 finding\n")
    assert not list(folder.iterdir())
    for _ in range(600):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the program goes on")
