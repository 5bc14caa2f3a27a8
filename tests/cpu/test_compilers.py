"""Every compiler gives the same results, and the log says why when there is none."""

import os
import shutil
import subprocess

import pytest

CODE = """
from helpers.rtc import Program
source = '''
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
extern "C" __global__ void mix(const unsigned* in, unsigned* out, int n) {
  __shared__ unsigned tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = i < n ? in[i] : 0u;
  tile[threadIdx.x] = v;
  __syncthreads();
  unsigned r = tile[255 - threadIdx.x] * 2654435761u ^ __shfl_xor(v, 5);
  r ^= unsigned(__ballot(v & 1)) ^ __brev(v) ^ __popc(v);
  for (int d = 16; d; d /= 2) r += __shfl_down(r, d);
  r ^= unsigned(__float2int_rn(float(v) * 0.37f)) + __umulhi(v, 12345u);
  r ^= __half_as_ushort(__float2half(float(v & 1023) * 0.1f));
  r ^= unsigned(__bfloat16_as_ushort(__float2bfloat16(float(v) / 7.0f))) << 7;
  r += __float_as_uint(expf((float(v % 200) - 100.0f) * 0.1f)) ^ __float_as_uint(sinf(float(v % 1000)));
  r += __float_as_uint(tanhf(v % 999 * 1e-4f)) ^ __float_as_uint(powf(1.0f + v % 5, 0.7f));
  r += __float_as_uint(logf(1.0f + v % 77)) ^ __float_as_uint(erff(v % 4 * 0.5f));
  if (i < n) out[i] = r;
}
extern "C" __global__ void plain(const unsigned* in, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 3u + (in[n - 1 - i] >> 3) + i;
}
extern "C" __global__ void dot(const signed char* a, const signed char* b, int* out, int n) {
  if (threadIdx.x % 32 != 0) return;
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sum = 0;
  for (int i = 0; i < n; ++i) sum += int(a[row * n + i]) * int(b[i]);
  out[row] = sum;
}
'''
program = Program(source)
rng = np.random.default_rng(3)
n = 5000
values, out, out2 = rng.integers(0, 2**32, n).astype(np.uint32), np.zeros(n, np.uint32), np.zeros(n, np.uint32)
program.run("mix", 20, 256, values, out, np.int32(n))
program.run("plain", 20, 256, values, out2, np.int32(n))
assert (out2 == values * np.uint32(3) + (values[::-1] >> 3) + np.arange(n, dtype=np.uint32)).all()
a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((64, 300), 300))
dots = np.zeros(64, np.int32)
program.run("dot", 8, 256, a, b, dots, np.int32(300))
assert (dots == a.astype(np.int32) @ b).all()
import hashlib
print(hashlib.sha256(out.tobytes() + out2.tobytes() + dots.tobytes()).hexdigest())
"""


def has_half(path):
    """Whether a compiler has `_Float16` on this processor, which clang has from 15 on."""
    done = subprocess.run([path, "-fsyntax-only", "-xc++", "-"], input="_Float16 x;", text=True, capture_output=True)
    return done.returncode == 0


def found():
    """Return the paths of the compilers on this machine that the CPU device takes."""
    names = ["clang++", *(f"clang++-{version}" for version in range(15, 25)), "g++"]
    return [os.environ.get("HIPRT_CPU_ZIG", ""), *filter(has_half, filter(None, map(shutil.which, names)))]


def test_all_compilers_agree(python, tmp_path):
    """Integers, conversions and our own float functions give the same bits with each compiler, optimised or not."""
    compilers = [path for path in found() if path]
    assert compilers
    cache = str(tmp_path)
    results = {path: python(CODE, HIPRT_CPU_COMPILER=path, HIPRT_CACHE_DIR=cache) for path in compilers}
    unoptimised = CODE.replace("Program(source)", 'Program(source, options=["-O0"])')
    results["-O0"] = python(unoptimised, HIPRT_CPU_COMPILER=compilers[0], HIPRT_CACHE_DIR=cache)
    assert len(set(results.values())) == 1, results


FAILS = """
from helpers.rtc import build
made = build('extern "C" __global__ void k() {}')
assert made.status == 6
print(made.log, end="")
"""


@pytest.fixture
def bare(tmp_path):
    """An environment in which no compiler is found, with a library that lies away from the ziglang package."""
    return {
        "HIPRT_CPU_COMPILER": "",
        "HIPRT_CPU_ZIG": "",
        "PATH": str(tmp_path),
        "HIPRT_CACHE_DIR": str(tmp_path / "cache"),
    }


def test_no_compiler_is_one_clear_sentence(python, bare):
    log = python(FAILS, **bare)
    assert log.count("\n") == 1
    assert 'pip install "hiprt[cpu]"' in log


def test_a_compiler_that_does_not_exist_is_named(python, bare):
    log = python(FAILS, **bare | {"HIPRT_CPU_COMPILER": "/no/such/g++"})
    assert log.count("\n") == 1
    assert "/no/such/g++" in log
    assert "HIPRT_CPU_COMPILER" in log


def test_why_the_only_compiler_does_not_work_is_in_the_sentence(python, bare, tmp_path):
    """The log quotes the compiler, found on PATH or named, also at the second program of a process."""
    broken = tmp_path / "clang++"
    broken.write_text('#!/bin/sh\necho "error: no such luck"\nexit 1\n')
    broken.chmod(0o755)
    twice = FAILS + FAILS.replace("print(made.log", "print('second', made.log")
    for name in ("", str(broken)):
        lines = python(twice, **bare | {"HIPRT_CPU_COMPILER": name}).splitlines()
        assert len(lines) == 2
        for line in lines:
            assert f"{broken} cannot compile a program of one _Float16: error: no such luck" in line
        assert ('pip install "hiprt[cpu]"' in lines[0]) == (not name)


def test_what_drivers_of_older_clang_refuse_goes_past_them(python, tmp_path):
    """clang 15 and 16 know the mode in which products and sums are fused, but their drivers do not."""
    zig = os.environ.get("HIPRT_CPU_ZIG")
    if not zig:
        pytest.skip("no clang here that is newer")
    older = tmp_path / "clang++-15"
    older.write_text(f"""#!/bin/sh
for word; do
  [ "$before $word" != "-Xclang $word" ] && [ "$word" = -ffp-contract=fast-honor-pragmas ] && echo refused && exit 1
  before=$word
done
exec {zig} c++ "$@"
""")
    older.chmod(0o755)
    python(FAILS.replace("== 6", "== 0"), HIPRT_CPU_COMPILER=str(older), HIPRT_CACHE_DIR=str(tmp_path / "cache"))


def test_a_broken_compiler_is_passed_over(python, bare, tmp_path):
    """If the first compiler fails at everything, the next one is used, and the first is not asked again."""
    log = tmp_path / "runs"
    broken = tmp_path / "zig"
    broken.write_text(f"#!/bin/sh\necho run >> {log}\necho no such luck\nexit 1\n")
    broken.chmod(0o755)
    good = next(path for path in found()[::-1] if path)
    name = "g++" if "g++" in good else "clang++"
    os.symlink(good, tmp_path / name)
    code = """
from helpers.rtc import Program
for n in (1, 2):
    out = np.zeros(1, np.int32)
    program = Program(f'extern "C" __global__ void k(int* p) {{ p[0] = {n}; }}')
    program.run("k", 1, 1, out)
    print(out[0], "zig cannot compile a program of one _Float16: no such luck" in program.built.log)
"""
    path = f"{tmp_path}:/usr/bin:/bin"
    assert python(code, **bare | {"HIPRT_CPU_ZIG": str(broken), "PATH": path}).split() == ["1", "True", "2", "False"]
    assert log.read_text().count("run") == 2  # the program, then the trial


NO_SPACE = """
import resource
from helpers.rtc import build
source = 'extern "C" __global__ void k() {}'
def limit(nbytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))
for how in ("folder", "space"):
    if how == "folder":
        os.environ["TMPDIR"] = "/no/such/folder"
    else:
        limit(1024)
    made = build(source)
    assert made.status == 6
    print(made.log.splitlines()[0])
    os.environ["TMPDIR"] = sys.argv[2]
    limit(resource.RLIM_INFINITY)
    assert build(source).status == 0, build(source).log
"""


def test_temporary_files_that_cannot_be_written_are_not_the_compilers_fault(python, tmp_path):
    """The log says what is wrong, and once it is mended the compiler is used."""
    code = NO_SPACE.replace("sys.argv[2]", repr(str(tmp_path)))
    folder, space = python(code, HIPRT_CACHE_DIR="/dev/null/none").splitlines()
    assert folder == (
        "hiprt: temporary files cannot be written in /no/such/folder: No such file or directory; "
        "set TMPDIR to a folder with space"
    )
    assert space.startswith(f"hiprt: temporary files cannot be written in {tmp_path}: File too large")


def test_fewer_threads_than_wanted_do_the_work(library, python, tmp_path, sanitized):
    """Where the process may not have as many as HIPRT_CPU_THREADS says; address space stands for that here."""
    if sanitized:
        pytest.skip("the sanitizer itself ends where address space ends")
    code = """
from helpers.rtc import Program
import resource
out = np.zeros(100_000, np.int32)
program = Program('''extern "C" __global__ void k(int* p) {
  int i = blockIdx.x * 100 + threadIdx.x;
  for (int n = 0; n < i % 99; n++) p[i] += n;
}''')
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
program.run("k", 1000, 100, out)
i = np.arange(100_000) % 99
assert (out == i * (i - 1) // 2).all()
print("done")
"""
    assert python(code, HIPRT_CPU_THREADS="1024") == "done\n"


def test_the_compiler_of_the_environment_wins(python, tmp_path):
    script = tmp_path / "g++"
    marker = tmp_path / "used"
    real = shutil.which("g++")
    if not real:
        pytest.skip("no g++ here")
    script.write_text(f'#!/bin/sh\ntouch {marker}\nexec {real} "$@"\n')
    script.chmod(0o755)
    python(FAILS.replace("== 6", "== 0"), HIPRT_CPU_COMPILER=str(script), HIPRT_CACHE_DIR=str(tmp_path / "cache"))
    assert marker.exists()
