"""What programs have in front of their own text is kept in the compiler's form, and changes nothing else."""

import json

import pytest

# Like the kernels of the project: a part of ours, which uses the prelude and a template, and a kernel.
OURS = """#line 1 "hiprt/first.h"
namespace ours {{
template <typename T> __device__ inline T twice(T x) {{ return x + x + T({ours}); }}
}}
#line 1 "hiprt/second.h"
#define HIPRT_TEST_SHARED __shared__
"""
OWN = """#line 1 "own.hip"
{first}
#ifndef N
#define N 1
#endif
extern "C" __global__ void own(const float* x, float* y) {{
  HIPRT_TEST_SHARED float held[64];
  held[threadIdx.x] = ours::twice(x[threadIdx.x]) * {own} + N;
  __syncthreads();
  y[threadIdx.x] = held[63 - threadIdx.x] + __shfl_xor(x[threadIdx.x], 1);
}}
"""
BUILD = """
import json
from helpers.rtc import Program, build
out = []
for source, options in json.loads({programs!r}):
    made = build(source, options=options, name="k.hip")
    text = made.log
    if not made.status.value:
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        Program(source, options=options, name="k.hip").run("own", 1, 64, x, y)
        text = (text, y.tolist())
    out.append(text)
print(json.dumps(out))
"""


def program(own, *options, ours=0, first=""):
    """Return a program and its options."""
    return OURS.format(ours=ours) + OWN.format(own=own, first=first), options


def wanted(own, n=1, ours=0):
    """Return the log and the values of such a program."""
    values = [(2 * x + ours) * own + n for x in range(64)]
    return ["", [float(values[63 - x] + (x ^ 1)) for x in range(64)]]


BODIES = """
import json
import hiprt
from hiprt.metal_compat import metal_kernel
x = hiprt.array(np.arange(8, dtype=np.float32))
out = []
for factor in (2, 3, 4):
    source = f"uint i = thread_position_in_grid.x; y[i] = x[i] * {factor};"
    kernel = metal_kernel("times", ["x"], ["y"], source)
    (y,) = kernel(inputs=[x], grid=(8, 1, 1), threadgroup=(8, 1, 1), output_shapes=[(8,)], output_dtypes=[np.float32])
    out.append(y.numpy().tolist())
print(json.dumps(out))
"""


@pytest.fixture
def built(python, counted, tmp_path):
    """Build and run programs in a process; return the logs and values, and how the compiler was run."""
    script, log = counted

    def run(*programs, cache=None):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        code = BUILD.format(programs=json.dumps(programs))
        folder = str(tmp_path / "cache" if cache is None else cache)
        out = json.loads(python(code, HIPRT_CPU_COMPILER=str(script), HIPRT_CACHE_DIR=folder))
        return out, log.read_text().splitlines()[before:]

    return run


def made(runs):
    """How many openings were made."""
    return sum("c++-header" in run for run in runs)


def read(runs):
    """How many runs read one instead of the text."""
    return sum("-include-pch" in run for run in runs)


def entries(folder):
    return [path for path in (folder / "cpu-opening").rglob("*") if path.is_file()]


def test_the_second_program_makes_it_and_every_later_one_reads_it(built, tmp_path):
    out, runs = built(program(1), program(2), program(3))
    assert out == [wanted(1), wanted(2), wanted(3)]
    assert (made(runs), read(runs)) == (1, 2)
    out, runs = built(program(4))
    assert (out, made(runs), read(runs)) == ([wanted(4)], 0, 1)
    assert len(runs) == 3  # preprocessed from the text, compiled and linked
    assert len(entries(tmp_path / "cache")) == 1


def test_metal_bodies_share_one(python, counted, tmp_path):
    script, log = counted
    out = python(BODIES, HIPRT_CPU_COMPILER=str(script), HIPRT_CACHE_DIR=str(tmp_path / "cache"))
    assert json.loads(out) == [[x * factor for x in range(8)] for factor in (2, 3, 4)]
    runs = log.read_text().splitlines()
    assert (made(runs), read(runs), len(entries(tmp_path / "cache"))) == (1, 2, 1)


def test_a_damaged_one_is_not_read(built, tmp_path):
    built(program(1), program(2))
    (entry,) = entries(tmp_path / "cache")
    good = entry.read_bytes()
    entry.write_bytes(good[:2000] + bytes([good[2000] ^ 1]) + good[2001:])
    out, runs = built(program(3), program(4))
    assert (out, made(runs)) == ([wanted(3), wanted(4)], 1)


def test_one_that_the_compiler_refuses_is_passed_over(built, counted):
    """The programs are compiled from the text as before, and nobody is told."""
    script, _ = counted
    text = script.read_text()
    script.write_text(text.replace("exec", 'case "$*" in *-include-pch*) echo no; exit 1;; esac; exec'))
    out, runs = built(program(1), program(2), program(3))
    assert out == [wanted(1), wanted(2), wanted(3)]
    script.write_text(text.replace("exec", 'case "$*" in *c++-header*) echo no; exit 1;; esac; exec'))
    out, runs = built(program(1), program(2), program(3))
    assert (out, made(runs), read(runs)) == ([wanted(1), wanted(2), wanted(3)], 1, 0)


def test_what_the_compiler_began_is_gone(built, counted, tmp_path, monkeypatch):
    """On a full disk it would take the room that the program's own files need."""
    script, _ = counted
    left = tmp_path / "left"
    begin = 'case "$*" in *c++-header*) for last; do :; done; echo part > "$last"; exit 1;; esac'
    look = f"ls {tmp_path}/hiprt-*/*.pch >> {left} 2> /dev/null"
    script.write_text(script.read_text().replace("exec", f"{begin}\n{look}\nexec"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out, runs = built(program(1), program(2), program(3))
    assert (out, made(runs)) == ([wanted(1), wanted(2), wanted(3)], 1)
    assert left.read_text() == ""


def test_it_is_another_for_other_macros_options_and_texts(built):
    others = [program(1, "-DN=2"), program(1, "-ffp-contract=off"), program(1, ours=5)]
    out, runs = built(program(1), program(2), *others, *[program(2, *each[1]) for each in others[:2]])
    assert out == [wanted(1), wanted(2), wanted(1, 2), wanted(1), wanted(1, ours=5), wanted(2, 2), wanted(2)]
    assert made(runs) == 3


@pytest.mark.parametrize(
    "first", ["#warning of mine", "int f() { int g; return 1; }", "mistake", "__shared__ int a = twice(1);"]
)
def test_messages_are_those_of_the_text(built, tmp_path, first):
    """Lines, names and words of warnings and errors, with an opening that was read and without one."""
    asked = program(3, "-Wall", first=first)
    (alone,), _ = built(asked, cache=tmp_path / "other")
    (_, _, after), runs = built(program(1, "-Wall"), program(2, "-Wall"), asked)
    assert read(runs) > 1
    assert after == alone
    assert alone
    assert "own.hip:1" in str(alone)
