"""``hiprt doctor``: what hiprt runs on here, and what stands in its way."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from hiprt import __version__, library
from hiprt.array import zeros
from hiprt.code_cache import CodeCache
from hiprt.command import set_run
from hiprt.compiler import compile_source
from hiprt.device import Device, current_device, describe, device_count
from hiprt.errors import HipError, ProviderError
from hiprt.flags import flags, names, spelled, warn_unknown
from hiprt.imitation import imitation
from hiprt.machine import hip_version
from hiprt.module import WRITE, Argument, Function, Module
from hiprt.provider import Provider
from hiprt.stream import current_stream

__all__ = ["add_arguments", "cause", "diagnose", "render", "try_compiler"]

TIMEOUT = 120.0  # seconds for the first kernel: a compiler may build its own support library before it
NAME_LENGTH = 96
BEGINNING = "made by "  # what the kernel's text begins with
# A kernel that says which compiler made it. Kernels of 16-bit floats need more of a compiler of the host than others.
SOURCE = f"""
#if defined(__VERSION__) && defined(__clang__)
#define MADE_BY __VERSION__
#elif defined(__VERSION__)
#define MADE_BY "g++ " __VERSION__
#else
#define MADE_BY "hiprtc"
#endif
#ifndef __CUDACC_RTC__
__device__ _Float16 twice(_Float16 number) {{ return number + number; }}
#endif
extern "C" __global__ void made_by(char *out) {{
  const char text[] = "{BEGINNING}" MADE_BY;
  for (unsigned i = 0; i < sizeof text && i < {NAME_LENGTH}; ++i) out[i] = text[i];
}}
"""
# What a child process runs, with the places of modules as arguments.
CHILD = """
import json, sys
sys.path[:] = sys.argv[1:]
from hiprt.doctor import try_compiler
print(json.dumps(try_compiler()))
"""
# Variables of other programs that decide which devices are visible or how they behave. hiprt never sets them.
FOREIGN = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HSA_OVERRIDE_GFX_VERSION",
    "ROCM_PATH",
    "ROCM_HOME",
    "HIP_PATH",
    "AMD_LOG_LEVEL",
    "AMD_SERIALIZE_KERNEL",
    "AMD_SERIALIZE_COPY",
    "HIP_LAUNCH_BLOCKING",
    "DEBUG_CLR_GRAPH_PACKET_CAPTURE",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt doctor``."""
    parser.add_argument("--check", action="store_true", help="run ops, decode steps and benchmarks too, into one file")
    parser.add_argument("--out", metavar="FILE", default="hiprt-check.json", help="that file (default: %(default)s)")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Print what hiprt runs on, or check it; return the exit status, which is 1 if nothing is usable."""
    if options.check:
        return int(import_module("hiprt.bench.check").run(options))
    report = diagnose()
    print(json.dumps(report, indent=2) if options.json else render(report))
    if report["problem"]:
        print(f"hiprt: {report['problem']}", file=sys.stderr)
    return 0 if report["usable"] else 1


def diagnose() -> dict[str, Any]:
    """Examine this machine.

    Returns
    -------
    dict
        Plain values under the names usable, problem, versions, provider, library, collectives, devices, compiler,
        cache, probes, refused, imitation, flags, environment and warnings. ``problem`` is one sentence if nothing is
        usable, else empty.
    """
    report: dict[str, Any] = {
        "usable": False,
        "problem": "",
        "versions": versions(),
        "provider": None,
        "library": None,
        "collectives": None,
        "devices": [],
        "compiler": None,
        "cache": None,
        "probes": {},
        "refused": [],
        "imitation": imitation(),
        "flags": {},
        "environment": {name: os.environ[name] for name in FOREIGN if name in os.environ},
    }
    given = set(os.environ)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_unknown(os.environ)
        try:
            examine(report)
        except ProviderError as error:
            report["refused"] = listed(error.tried)
            report["problem"] = f"{error.args[0]}; nothing below can run until one of the libraries works"
        except (HipError, ValueError) as error:
            report["problem"] = str(error)
    # Opening a library of ours sets flags that nobody gave, so the values are read after it.
    report["flags"] = flag_values(given)
    report["warnings"] = [str(warning.message) for warning in caught]
    return report


def examine(report: dict[str, Any]) -> None:
    """Open the library, try its compiler and fill the report; raise what stands in the way."""
    report["cache"] = cache()
    current = library.current()
    report["provider"] = current.provider.name
    report["library"] = {
        "hip": str(current.hip),
        "hiprtc": str(current.hiprtc),
        "version": hip_version(current.version),
    }
    report["collectives"] = collectives()
    report["refused"] = listed(current.tried)
    report["devices"] = [as_values(describe(index)) for index in range(device_count())]
    report["compiler"] = find_compiler(current.provider)
    report["usable"] = report["compiler"]["works"]
    if not report["usable"]:
        report["problem"] = f"no kernel can be compiled and run: {report['compiler']['error']}"
        return
    from hiprt.graphs import probes

    report["probes"] = probes(current_device())


def collectives() -> dict[str, str] | None:
    """Return the library of collectives of several devices, or None where there is none."""
    from hiprt.distributed.collective_library import collective_library

    try:
        found = collective_library()
    except OSError as error:
        return {"library": flags.nccl_lib, "error": str(error)}
    return None if found is None else {"library": str(found.path), "version": found.version}


def as_values(device: Device) -> dict[str, Any]:
    """Return a device as plain values."""
    return {**vars(device), "provider": device.provider.name}


def versions() -> dict[str, str]:
    """Return the versions of what hiprt stands on."""
    found = {"hiprt": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in ("numpy", "hip-python", "ziglang"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def flag_values(given: set[str]) -> dict[str, dict[str, Any]]:
    """Return for each flag its value, or what is wrong with it, and whether the user set it."""
    table: dict[str, dict[str, Any]] = {}
    for attribute, flag in names().items():
        row: dict[str, Any] = {"set": flag.name in given}
        try:
            row["value"] = getattr(flags, attribute)
        except ValueError as error:
            row["error"] = str(error)
        table[flag.name] = row
    return table


def listed(tried: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Return refused libraries as plain values."""
    return [{"library": name, "reason": reason} for name, reason in tried]


def cache() -> dict[str, Any]:
    """Return where compiled kernels are kept, and how many."""
    held = CodeCache()
    files, nbytes = held.size()
    return {"dir": str(held.folder), "files": files, "bytes": nbytes, "writable": can_write(held.folder)}


def can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, or the folder itself if it does not exist."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def find_compiler(provider: Provider) -> dict[str, Any]:
    """Try the compilers in the library's own order; return the first that works, else the last failure."""
    paths = [""]
    if provider.is_host:
        paths = [flags.cpu_compiler] if flags.cpu_compiler else [path for path in (flags.cpu_zig,) if path] + [""]
    for path in paths:
        found = try_in_child(path)
        if found["works"]:
            break
    return {**found, "path": path or None}


def try_in_child(path: str) -> dict[str, Any]:
    """Compile and run a kernel in a child process with an empty cache, which proves that it works now."""
    with tempfile.TemporaryDirectory(prefix="hiprt-doctor-") as folder:
        # Isolated (-I), because the current folder may hold anything: its files are no part of hiprt.
        command = [sys.executable, "-I", "-W", "ignore", "-c", CHILD, *own_path()]
        environment = {**os.environ, "HIPRT_CACHE_DIR": folder, "HIPRT_CPU_COMPILER": path}
        try:
            child = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return {"works": False, "name": None, "ms": None, "error": f"it took more than {TIMEOUT:.0f} s"}
    try:
        return dict(json.loads(child.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError):
        cause = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
        return {"works": False, "name": None, "ms": None, "error": f"a test process failed: {cause}"}


def own_path() -> list[str]:
    """Return where this process looks for modules, without the current folder unless hiprt itself lies there."""
    package = Path(__file__).resolve().parent
    places = [Path(entry or ".").resolve() for entry in sys.path]
    current = Path.cwd().resolve()
    return [str(place) for place in places if place != current or place / "hiprt" == package]


def try_compiler() -> dict[str, Any]:
    """Compile a kernel that names its compiler and run it.

    Returns
    -------
    dict
        The keys are works, name, ms (the time to compile) and error.
    """
    try:
        stream = current_stream()
        begin = time.perf_counter()
        code, _ = compile_source(SOURCE, "made_by.hip")
        elapsed = (time.perf_counter() - begin) * 1e3
        out = zeros(NAME_LENGTH, "uint8")
        Function(Module(code), "made_by", [Argument("out", WRITE)])(stream, (1, 1, 1), (1, 1, 1), out)
        name = bytes(out.numpy()).split(b"\0")[0].decode(errors="replace")
    except (HipError, ProviderError, ValueError) as error:
        reason = cause(getattr(error, "log", "") or str(error))
        return {"works": False, "name": None, "ms": None, "error": reason}
    if not name.startswith(BEGINNING):
        reason = "a kernel was launched, but what it should write is not there"
        return {"works": False, "name": None, "ms": None, "error": reason}
    return {"works": True, "name": name.removeprefix(BEGINNING), "ms": round(elapsed, 1), "error": None}


def cause(log: str) -> str:
    """Return the line of a compiler's log that says what is wrong."""
    lines = log.strip().splitlines() or [""]
    told = next((line for line in lines if line.startswith("hiprt: ")), None)
    found = told or next((line for line in lines if "error" in line), lines[0])
    return found.removeprefix("hiprt: ")


def render(report: dict[str, Any]) -> str:
    """Return a report as text for people."""
    lines = [f"{name:<12} {version}" for name, version in report["versions"].items()]
    if report["provider"]:
        lines += ["", f"provider     {report['provider']}"]
        lines += [f"library      {report['library']['hip']}, HIP {report['library']['version']}"]
    if found := report["collectives"]:
        told = f"NCCL {found['version']}" if "version" in found else found["error"]
        lines.append(f"collectives  {found['library']}, {told}")
    for device in report["devices"]:
        memory = f"{device['memory'] / 2**30:.1f} GiB"
        units = f"{device['compute_units']} units, warps of {device['warp_size']}"
        lines.append(f"device {device['index']:<5} {device['name']} ({device['arch']}), {memory}, {units}")
    compiler = report["compiler"]
    if compiler:
        place = f" ({compiler['path']})" if compiler["path"] else ""
        works = f"{compiler['name']}{place}, first kernel in {compiler['ms']} ms"
        lines.append(f"compiler     {works if compiler['works'] else 'does not work: ' + str(compiler['error'])}")
    if report["cache"]:
        cached = report["cache"]
        held = f"{cached['files']} files, {cached['bytes'] / 2**20:.1f} MiB"
        state = held if cached["writable"] else "cannot be written: every process compiles its kernels again"
        lines.append(f"cache        {cached['dir']}, {state}")
    lines += section("graph probes", [f"{name}: {result}" for name, result in report["probes"].items()])
    lines += section("refused", [f"{row['library']}: {row['reason']}" for row in report["refused"]])
    lines += section("what the CPU device imitates", imitation_lines(report["imitation"]))
    lines += section("flags", [flag_line(name, row) for name, row in report["flags"].items()])
    lines += section("environment", [f"{name}={value}" for name, value in report["environment"].items()])
    lines += section("warnings", report["warnings"])
    lines += ["", f"not usable: {report['problem']}" if report["problem"] else "all well: kernels compile and run"]
    return "\n".join(lines)


def section(title: str, rows: list[str]) -> list[str]:
    """Return a heading and its rows, or nothing where there are none."""
    return ["", title, *(f"  {row}" for row in rows)] if rows else []


def imitation_lines(found: dict[str, Any] | None) -> list[str]:
    """Return the profiles and quirks of the CPU device as text, those that are on first."""
    if found is None:
        return ["its library is not built"]
    quirks, on = found["quirks"], found["on"]
    profiles = ", ".join(f"{name} ({len(members)} quirks)" for name, members in found["profiles"].items())
    texts = {
        "on": f"{len(on)} of {len(quirks)} quirks{': ' if on else ''}{', '.join(on)}",
        "HIPRT_CPU_PROFILE": profiles,
        "HIPRT_CPU_QUIRKS": ", ".join(quirks),
    }
    lines = []
    for name, text in texts.items():
        lines += textwrap.wrap(f"{name}: {text}", 116, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def flag_line(name: str, row: dict[str, Any]) -> str:
    """Return a flag as text."""
    if "error" in row:
        return str(row["error"])
    return f"{name}={spelled(row['value'])}" + ("" if row["set"] else "  (not set)")
