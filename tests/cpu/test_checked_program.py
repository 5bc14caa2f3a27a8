"""Programs that ``hiprt hipcc`` compiled are checked as others are: the checks know which thread runs."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
#include <hip/hip_runtime.h>
__global__ void shift(int *x) {
  const int i = threadIdx.x;
  x[i] = x[i + 1];
}
__global__ void correct(int *x) {
  __shared__ int s[64];
  const int i = threadIdx.x;
  s[i] = x[i];
  __syncthreads();
  x[i] = s[63 - i];
}
void launch_turn(int *x);
int main() {
  int *x;
  if (hipMalloc(&x, 65 * sizeof(int)) || hipMemset(x, 0, 65 * sizeof(int))) return 1;
  shift<<<1, 64>>>(x);
  launch_turn(x);
  correct<<<1, 64>>>(x);
  return hipDeviceSynchronize();
}
"""


OTHER = """
#include <hip/hip_runtime.h>
__global__ void turn(int *x) {
  __shared__ int s[64];
  const int i = threadIdx.x;
  s[i] = x[i];
  x[i] = s[63 - i];
  __syncthreads();
}
void launch_turn(int *x) { turn<<<1, 64>>>(x); }
"""


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_threads_are_told_apart(tmp_path):
    """Kernels of both files are, by their lines."""
    (tmp_path / "program.hip").write_text(PROGRAM)
    (tmp_path / "other.hip").write_text(OTHER)
    hiprt = [sys.executable, "-m", "hiprt"]
    subprocess.run([*hiprt, "hipcc", "program.hip", "other.hip", "-o", "program"], cwd=tmp_path, check=True)
    done = subprocess.run([*hiprt, "check", "--json", "./program"], cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["findings"]
    races = {i["kernel"].split("(")[0] for f in found if f["kind"] == "race" for i in f["involved"]}
    assert races == {"shift", "turn"}
    lines = {i["line"].rpartition("/")[2] for f in found if f["kind"] == "race" for i in f["involved"]}
    assert lines == {"program.hip:5", "other.hip:6", "other.hip:7"}
    assert {f["involved"][0]["kernel"].split("(")[0] for f in found} == races
    assert all(len({tuple(i["thread"]) for i in f["involved"]}) == 2 for f in found if f["kind"] == "race")
