"""`hiprt compile`: what it writes and says, for AMD targets and for the device in use, and how it fails."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from hiprt.code_cache import CodeCache
from hiprt.errors import CompileError
from hiprt.kernels import Kernel
from hiprt.kernels.offline import command
from hiprt.kernels.offline.builder import Unit, backend_of, build, units
from hiprt.kernels.offline.catalogue import Instance, instances
from hiprt.kernels.offline.code_object import CodeObject
from hiprt.kernels.offline.report import Report
from hiprt.metal_compat.compile import EVERY_BACKEND, add_arguments

SOURCE = """
extern "C" __global__ void axpy(const float4* x, float4* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""


@pytest.fixture
def source(tmp_path):
    """A file of HIP source."""
    path = tmp_path / "axpy.hip"
    path.write_text(SOURCE)
    return path


def run(*arguments, status=0, **environment):
    """Run ``hiprt compile``; returns (stdout, stderr)."""
    command = [sys.executable, "-m", "hiprt", "compile", *map(str, arguments)]
    child = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, env={**os.environ, **environment}
    )
    assert child.returncode == status, child.stdout + child.stderr
    return child.stdout, child.stderr


def test_a_file_for_several_targets(source, tmp_path):
    out, _ = run("--target", "gfx1201,gfx942", source, "--out", tmp_path / "out")
    assert out.startswith("2 programs for gfx1201, gfx942 in ")
    assert "no spills" in out
    for target in ("gfx1201", "gfx942"):
        code = CodeObject((tmp_path / "out" / target / "axpy.co").read_bytes())
        assert code.target == target
        assert [kernel.name for kernel in code.kernels] == ["axpy"]
    written = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert written == ["axpy.co", "axpy.co"]


def test_report_as_text_and_as_json(source):
    report = Report.parse(run("--target", "gfx1201,gfx90a", "--report", source)[0])
    assert [(row.kernel, row.target, row.wide_loads) for row in report.rows] == [
        ("axpy", "gfx1201", 2),
        ("axpy", "gfx90a", 2),
    ]
    read = json.loads(run("--target", "gfx1201", "--json", source)[0])
    assert read["programs"] == 1
    assert read["kernels"][0]["kernel"] == "axpy"
    assert read["kernels"][0]["vgpr"] == report.rows[0].vgpr
    assert read["worse"] == []


def test_compare_fails_where_it_is_worse(source, tmp_path):
    before = tmp_path / "before.txt"
    text = run("--target", "gfx1201", "--report", source)[0]
    before.write_text(text)
    run("--target", "gfx1201", "--compare", before, source)
    report = Report.parse(text)
    row = report.rows[0]
    before.write_text(text.replace(str(report).splitlines()[2], "axpy gfx1201 1 1 0 0 0 0 16 9 0 0"))
    _, err = run("--target", "gfx1201", "--compare", before, source, status=1)
    assert err == f"hiprt: axpy on gfx1201 has {row.wide_loads} 128-bit loads; before it had 9\n"


def test_options_reach_the_compiler(source):
    source.write_text("#ifndef WIDTH\n#error no width\n#endif\n" + SOURCE)
    _, err = run("--target", "gfx1201", source, status=1)
    assert "axpy.hip:2:2: error: no width" in err
    run("--target", "gfx1201", "--option=-DWIDTH=4", source)


def test_includes_beside_the_file(source):
    (source.parent / "mine.h").write_text("#define STEP 4\n")
    source.write_text('#include "mine.h"\n' + SOURCE.replace("a * x", "STEP * x"))
    run("--target", "gfx1100", source)


BODY = """// inputs: x float16 2, scale float32 0
// outputs: out float32
// template: T float16, STEP 4
uint i = thread_position_in_grid.x;
threadgroup float shared[256];
shared[thread_index_in_threadgroup] = simd_sum(float(T(x[i * STEP])) * scale + float(x_shape[0]));
threadgroup_barrier(mem_flags::mem_threadgroup);
out[i] = shared[thread_index_in_threadgroup ^ 1];
"""


def test_a_metal_body(tmp_path):
    path = tmp_path / "halves.metal"
    path.write_text(BODY)
    out = json.loads(run("--target", "gfx942,gfx1201", "--json", path)[0])
    assert [row["target"] for row in out["kernels"]] == ["gfx1201", "gfx942"]
    assert all(row["lds"] == 1024 and "halves" in row["kernel"] for row in out["kernels"])
    assert json.loads(run("--json", path)[0])["programs"] == 1
    assert "[[kernel]] void custom_kernel_halves" in units([path])[0].text("metal")
    path.write_text(BODY + "out[i] = missing;\n")
    _, err = run("--target", "gfx1201", path, status=1)
    assert "halves.metal:9:10: error: use of undeclared identifier 'missing'" in err


@pytest.mark.parametrize(
    "wrong", ["// outputs: out", "// outputs: out float99", "// outputs: o float32\n// inputs: x int8 y"]
)
def test_a_metal_body_that_says_nothing_useful(tmp_path, wrong):
    path = tmp_path / "body.metal"
    path.write_text(wrong + "\n")
    with pytest.raises(ValueError, match="its first comments are not names and dtypes"):
        units([path])


def test_errors_are_one_sentence(source, tmp_path):
    body = tmp_path / "body.metal"
    body.write_text("out[0] = 1;")
    cases = [
        (("--target", "gfx12"), {}, "'gfx12' is not a target; known are cpu, gfx1030"),
        (("--target", "gfx1201", tmp_path / "no.hip"), {}, "No such file"),
        (("--target", "gfx1201", body), {}, "a Metal body has no signature of its own"),
        (("--report",), {}, "--report has nothing for the target device: use AMD targets"),
        (("--out", tmp_path, "--target", "cpu"), {}, "--out has nothing for the target cpu"),
        (("--emit", "--target", "gfx1201"), {}, "--emit has nothing for the target gfx1201: use --target metal"),
        (("--report", "--target", "metal"), {}, "--report has nothing for the target metal: use AMD targets"),
        (("--option=-DN", "--target", "metal"), {}, "--option has nothing for the target metal"),
        (("--target", "metal", source), {}, "axpy.hip is HIP source; a kernel for every target is written as a Metal"),
        (
            ("--target", "gfx1201", source),
            {"HIPRT_CPU_ZIG": "/no/zig"},
            "no compiler for AMD targets: /no/zig: not found",
        ),
        (("--target", "gfx1201", "--compare", source, source), {}, "not a report of kernels"),
    ]
    for arguments, environment, message in cases:
        out, err = run(*arguments, status=1, **environment)
        assert out == ""
        assert len(err.splitlines()) == 1
        assert message in err
    (tmp_path / "two").mkdir()
    other = tmp_path / "two" / "axpy.hip"
    other.write_text(SOURCE)
    _, err = run("--target", "gfx1201", source, other, status=1)
    assert "have one name" in err


def test_the_user_s_line_is_named_and_nothing_is_written(source, tmp_path):
    source.write_text(SOURCE.replace("y[i] +=", "y[j] +="))
    _, err = run("--target", "gfx1201", source, "--out", tmp_path / "out", status=1)
    assert "axpy.hip:4:16: error: use of undeclared identifier 'j'" in err
    assert not (tmp_path / "out").exists()


def test_wrong_usage_is_refused_by_the_parser():
    assert "no target is named" in run("--target", ",", status=2)[1]
    assert "'x' is not a number of MiB" in run("--cache-limit", "x", status=2)[1]


def test_interrupt_ends_it_and_leaves_nothing_half_written(tmp_path):
    """Ctrl-C as a terminal sends it: to the whole group."""
    folder, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "hiprt", "compile", "--target", "gfx942,gfx1201,gfx1100", "--out", str(folder)]
    child = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
        # A shell's background jobs, which a test run may be, ignore it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 120
    while not list(folder.rglob("*.co")):
        assert child.poll() is None
        assert time.monotonic() < until
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err.endswith("hiprt: interrupted\n")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) < 3 * len(instances())
    for path in files:
        assert CodeObject(path.read_bytes()).kernels
    assert list(scratch.iterdir()) == []


def test_a_failure_drops_what_has_not_begun(tmp_path):
    wrong = tmp_path / "wrong.hip"
    wrong.write_text("int x")
    work = [(Unit("wrong", path=wrong), "gfx1201")] + [(unit, "gfx1201") for unit in units([])]
    backend_of("gfx1201").open("gfx1201")
    done = []
    with pytest.raises(CompileError, match=r"wrong\.hip:1:6: error"):
        done.extend(build(work))
    assert len(done) < len(work) - 1


@pytest.mark.only("cpu", reason="other libraries keep compiled kernels by themselves")
def test_the_device_s_cache_is_filled(source, tmp_path):
    """One entry for the program; a failed build leaves none."""
    cache = {"HIPRT_CACHE_DIR": str(tmp_path / "cache")}
    out, _ = run(source, **cache)
    assert out.startswith("1 program for cpu, ")
    held = CodeCache(tmp_path / "cache").size()
    assert held[0] == 1
    source.write_text("int x")
    _, err = run("--target", "cpu", source, status=1, **cache)
    assert "error" in err
    assert CodeCache(tmp_path / "cache").size() == held


def test_metal_text_of_a_body(tmp_path):
    """Checked, printed, written; problems have the lines of the user's file."""
    path, folder = tmp_path / "halves.metal", tmp_path / "out"
    path.write_text(BODY)
    said, _ = run("--target", "metal", "--out", folder, path)
    assert said.startswith("1 program for metal, as checked text in ")
    assert said.endswith(f" s, in {folder}\n")
    text = (folder / "metal" / "halves.metal").read_text()
    assert text == units([path])[0].text("metal")
    assert run("--target", "metal", "--emit", path)[0] == f"// halves.metal\n{text}"
    read = json.loads(run("--target", "metal", "--emit", "--json", path)[0])
    assert read["texts"] == {"halves.metal": text}
    assert (read["programs"], read["kernels"], read["files"]) == (1, [], [])
    path.write_text(BODY + "double d = 1;\ndevice float* p = &shared[0];\n")
    _, err = run("--target", "metal", path, status=1)
    assert err.endswith("halves.metal:9: error: Metal does not have 'double'\n")
    with pytest.raises(CompileError) as caught:
        list(build([(units([path])[0], "metal")], backends=EVERY_BACKEND))
    assert "\nhalves.metal:10: error: cannot initialize" in caught.value.log


@pytest.mark.wide
def test_every_instance_is_metal_that_passes_the_checker(part, monkeypatch, capsys):
    monkeypatch.setattr(command, "units", lambda *given, **kinds: part(units(*given, **kinds)))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args(["--target", "metal", "--emit", "--json"])
    assert options.run(options) == 0
    read = json.loads(capsys.readouterr().out)
    symbols = part([instance.symbol for instance in instances(dialect="metal")])
    assert read["programs"] == len(read["texts"]) == len(symbols)
    assert sorted(read["texts"]) == sorted(f"{symbol}.metal" for symbol in symbols)


def test_a_kernel_that_is_no_metal_is_refused():
    backend_of("metal", EVERY_BACKEND).open("metal")
    kernel = Kernel("wrong", inputs={"x": "float"}, outputs={"y": "float"}, source="device float* p = x;\ny[0] = p[0];")
    with pytest.raises(CompileError, match=r"wrong\.metal:1: error: .*const device float"):
        list(build([(Unit("wrong", Instance(kernel, ())), "metal")], backends=EVERY_BACKEND))


def test_cache_info_and_limit(tmp_path):
    cache = tmp_path / "cache"
    (cache / "cpu" / "ab").mkdir(parents=True)
    for i in range(4):
        path = cache / "cpu" / "ab" / str(i)
        path.write_bytes(bytes(1 << 20))
        os.utime(path, (1000 + i, 1000 + i))
    environment = {"HIPRT_CACHE_DIR": str(cache)}
    assert run("--cache-info", **environment)[0] == f"{cache}: 4 files, 4.0 MiB\n"
    out = json.loads(run("--cache-limit", "2", "--json", **environment)[0])
    assert (out["files"], out["removed"], out["freed"]) == (2, 2, 2 << 20)
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == ["2", "3"]
    assert "removed 2 files" in run("--cache-limit", "0", **environment)[0]
    assert CodeCache(cache).size() == (0, 0)
    assert CodeCache(tmp_path / "none").trim(0) == (0, 0)
