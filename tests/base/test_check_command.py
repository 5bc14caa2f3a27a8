"""``hiprt check``: its exit status and what it prints."""

import json
import subprocess
import sys

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
    assert (done.returncode, done.stderr, report["status"]) == (3, "", 0)
    (finding,) = report["findings"]
    assert finding["kind"] == "race"
    assert {i["kernel"] for i in finding["involved"]} == {"shift"}
    assert {i["what"].split()[-1] for i in finding["involved"]} == {"read", "written"}
    assert all(len(i["thread"]) == len(i["block"]) == 3 and i["lane"] < 32 for i in finding["involved"])


def test_wrong_options_are_errors(check, tmp_path):
    for options, text in (
        (("--kinds", "races"), "--kinds names 'races'"),
        (("--suppress", str(tmp_path / "none")), "which is no file"),
    ):
        done = check(*options)
        assert (done.returncode, text in done.stderr) == (1, True)
