"""Doctor: what it reports, and how it says that nothing works."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from hiprt import doctor, library
from hiprt.flags import flags, names


def run(*arguments, status=0, **environment):
    """Run ``hiprt doctor``; returns (stdout, stderr)."""
    command = [sys.executable, "-m", "hiprt", "doctor", *arguments]
    env = {**os.environ, **environment}
    child = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=env)
    assert child.returncode == status, child.stdout + child.stderr
    return child.stdout, child.stderr


@pytest.fixture(scope="module")
def report():
    """The report on this machine."""
    return json.loads(run("--json")[0])


def test_report_of_a_machine_that_works(report):
    """Library, device and a compiler that was really run."""
    assert report["usable"] is True
    assert report["problem"] == ""
    assert report["provider"] == library.current().provider.name
    assert os.path.samefile(report["library"]["hip"], library.current().hip)
    assert report["devices"][0]["name"]
    assert report["compiler"]["works"] is True
    assert report["compiler"]["name"]
    assert report["compiler"]["ms"] > 0
    assert report["versions"].keys() >= {"hiprt", "python", "numpy", "hip-python"}


def test_report_lists_every_flag(report):
    """All flags are there, with their values."""
    assert report["flags"].keys() == {flag.name for flag in names().values()}
    assert report["flags"]["HIPRT_GRAPH_SLOTS"] == {"set": False, "value": 4}


def test_text_has_what_json_has(report):
    """The text names library, device, compiler, cache, refusals and flags."""
    text = doctor.render(report)
    for part in (report["library"]["hip"], report["devices"][0]["name"], report["compiler"]["name"]):
        assert part in text
    assert report["cache"]["dir"] in text
    for row in report["refused"]:
        assert f"{row['library']}: {row['reason']}" in text
    assert all(name in text for name in report["flags"])
    assert text.endswith("all well: kernels compile and run")


def test_environment_is_reported():
    """Flags that are set, variables of others, and unknown names with the nearest."""
    out, _ = run("--json", HIPRT_GRAPH_SLOTS="7", HIPRT_GRAPH_SLOT="8", HIP_VISIBLE_DEVICES="0")
    found = json.loads(out)
    assert found["flags"]["HIPRT_GRAPH_SLOTS"] == {"set": True, "value": 7}
    assert found["environment"]["HIP_VISIBLE_DEVICES"] == "0"
    assert any("did you mean HIPRT_GRAPH_SLOTS?" in warning for warning in found["warnings"])


def test_flags_are_shown_as_they_are_set(report):
    """What the text says can be put into the environment."""
    assert "  HIPRT_GRAPH_RUNGS=replay,patch,update,instantiate,eager  (not set)" in doctor.render(report).splitlines()


def test_a_cache_that_cannot_be_written_is_shown(tmp_path):
    """Else every process compiles every kernel again, and nobody knows why it is slow."""
    (tmp_path / "file").write_text("")
    for folder, is_writable in ((tmp_path / "file" / "cache", False), (tmp_path / "new" / "cache", True)):
        with flags.override(cache_dir=str(folder)):
            cache = doctor.cache()
        assert cache["writable"] is is_writable
    out, _ = run(HIPRT_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert re.search(r"cache .*cannot be written: every process compiles its kernels again", out)


def test_no_library_is_one_sentence():
    """Nothing to run on: status 1, each library with its reason, one sentence on stderr."""
    out, err = run("--json", status=1, HIPRT_PROVIDER="rocm", HIPRT_HIP_LIB="/no/such/libamdhip64.so")
    found = json.loads(out)
    assert found["usable"] is False
    assert found["provider"] is None
    assert found["refused"] == [{"library": "rocm /no/such/libamdhip64.so", "reason": "no such file"}]
    assert err.count("\n") == 1
    assert "no HIP library can be used (HIPRT_PROVIDER=rocm)" in err


def test_a_compiler_that_does_not_work_is_one_sentence():
    """The CPU device without a compiler: status 1 and the reason."""
    out, err = run("--json", status=1, HIPRT_PROVIDER="cpu", HIPRT_CPU_COMPILER="/no/such/compiler")
    found = json.loads(out)
    assert found["compiler"]["works"] is False
    assert "/no/such/compiler" in found["compiler"]["error"]
    assert found["compiler"]["path"] == "/no/such/compiler"
    assert found["problem"] in err
    assert err.count("\n") == 1


def test_a_compiler_without_floats_of_16_bits_does_not_work(tmp_path):
    """As g++ 12 for aarch64, which compiles all other kernels."""
    old = tmp_path / "g++"
    old.write_text(f"""#!/bin/sh
for word; do
  [ -f "$word" ] && grep -q "_Float16 twice" "$word" && echo "error: '_Float16' was not declared" && exit 1
done
exec {shutil.which("g++")} "$@"
""")
    old.chmod(0o755)
    out, err = run("--json", status=1, HIPRT_PROVIDER="cpu", HIPRT_CPU_COMPILER=str(old))
    assert "'_Float16' was not declared" in json.loads(out)["compiler"]["error"]
    assert "no kernel can be compiled and run" in err


def test_a_library_that_computes_nothing_is_not_usable():
    """The null library, whose calls do nothing: memory has what was there before."""
    out, err = run("--json", status=1, HIPRT_PROVIDER="null")
    assert json.loads(out)["probes"] == {}
    assert "what it should write is not there" in err


def test_a_bad_flag_is_shown():
    """A value that cannot be parsed is reported with what was expected."""
    out, err = run(status=1, HIPRT_PROVIDER="cuda")
    assert "HIPRT_PROVIDER='cuda': expected one of" in out
    assert "HIPRT_PROVIDER='cuda': expected one of" in err


def test_two_mapped_libraries_are_a_warning(tmp_path):
    """A process that has mapped two runtimes is told."""
    copies = []
    for name in "ab":
        (tmp_path / name).mkdir()
        copies.append(str(shutil.copy(library.current().hip, tmp_path / name / "libamdhip64.so")))
    code = (
        "import ctypes, json, sys\n"
        "kept = [ctypes.CDLL(path) for path in sys.argv[1:]]\n"
        "from hiprt.doctor import diagnose, render\n"
        "report = diagnose()\n"
        "assert any(path in render(report) for path in sys.argv[1:])\n"
        "print(json.dumps(report['warnings']))\n"
    )
    command = [sys.executable, "-c", code, *copies]
    child = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    warning = " ".join(json.loads(child.stdout))
    assert "two HIP libraries are mapped" in warning
    assert all(path in warning for path in copies)


def test_files_of_the_current_folder_do_not_run(tmp_path):
    """Whoever asks what is wrong may do so in a folder of somebody else's."""
    for name in ("json", "numpy", "rich", "tempfile"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    code = "import sys; sys.path.pop(0); from hiprt import doctor; print(doctor.try_in_child(''))"
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=280
    )
    assert "'works': True" in child.stdout, child.stdout
    assert not (tmp_path / "ran").exists()


def test_beside_a_folder_that_is_called_hiprt(tmp_path):
    """The folder above a clone holds one, which is no package."""
    (tmp_path / "hiprt" / "hiprt").mkdir(parents=True)
    code = "import sys; sys.path.pop(0); from hiprt import doctor; print(doctor.try_in_child(''))"
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=280
    )
    assert "'works': True" in child.stdout, child.stdout


def test_try_compiler_names_the_compiler():
    """The kernel that was compiled says by what."""
    found = doctor.try_compiler()
    assert found["works"], found["error"]
    assert any(word in found["name"].lower() for word in ("clang", "g++", "nvrtc", "hiprtc"))


def test_quirks_and_profiles_are_listed(report):
    """All of them, which are on, and the same in the text."""
    found = report["imitation"]
    assert {"fanout_drop", "update_partial", "arg_guard"} <= set(found["quirks"])
    assert next(iter(found["profiles"])) == "cuda"
    assert found["profiles"]["cuda"] == []
    assert "fanout_drop" in found["profiles"]["clr-7.2"]
    assert all(set(members) <= set(found["quirks"]) for members in found["profiles"].values())
    changed = json.loads(run("--json", HIPRT_CPU_PROFILE="clr-7.2", HIPRT_CPU_QUIRKS="arg_guard")[0])["imitation"]
    assert set(changed["on"]) == {*found["profiles"]["clr-7.2"], "arg_guard"}
    text = " ".join(doctor.render({**report, "imitation": changed}).split())
    assert f"on: {len(changed['on'])} of {len(found['quirks'])} quirks: {changed['on'][0]}, " in text
    assert "clr-7.2 (" in text
    assert doctor.imitation_lines(None) == ["its library is not built"]
