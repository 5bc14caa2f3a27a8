"""Which libamdhip64 this process uses, and why the others were refused.

Order: rocm, nvidia, cpu; ``HIPRT_PROVIDER`` picks one. Nothing is opened before `current` is first called, and the
choice is final for the process: hip-python (cold calls) and the C core (per-node path) take the same library.
A ROCm library is probed in a child process first, because initialising one on a machine without a GPU may abort.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiprt import core
from hiprt.errors import HipError, HipWarning, ProviderError, check
from hiprt.flags import flags

__all__ = ["Library", "current", "error_name", "hip", "hiprtc", "is_open"]

MINIMUM_HIP = 60000000  # hip-python 10 reads hipDeviceProp_tR0600, which HIP 6.0 introduced
PROBE_TIMEOUT = 60.0  # seconds
PROBE = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
version, count = ctypes.c_int(), ctypes.c_int()
status = hip.hipRuntimeGetVersion(ctypes.byref(version)) or hip.hipGetDeviceCount(ctypes.byref(count))
print(status, version.value, count.value)
"""


@dataclass(frozen=True)
class Library:
    """The HIP library in use.

    Attributes
    ----------
    provider : str
        ``rocm``, ``nvidia``, ``cpu``, or ``null`` (calls do nothing).
    hip, hiprtc : Path
        The files with the runtime and the compiler.
    version : int
        What hipRuntimeGetVersion says: major * 10,000,000 + minor * 100,000 + patch.
    tried : list of (str, str)
        What was considered before it, and why it was refused.
    """

    provider: str
    hip: Path
    hiprtc: Path
    version: int
    tried: list[tuple[str, str]] = field(default_factory=list)


lock = threading.RLock()
chosen: Library | None = None


def is_open() -> bool:
    """Whether a library has been chosen and opened."""
    return chosen is not None


def current() -> Library:
    """Return the library of this process; choose and open it on the first call.

    Raises
    ------
    ProviderError
        None can be used; ``tried`` says why for each.
    """
    global chosen
    if chosen is None:
        with lock:
            if chosen is None:
                chosen = choose()
    return chosen


def hip() -> Any:
    """Return ``rocm.bindings.hip`` bound to the chosen library."""
    current()
    from rocm.bindings import hip as module

    return module


def hiprtc() -> Any:
    """Return ``rocm.bindings.hiprtc`` bound to the chosen library."""
    current()
    from rocm.bindings import hiprtc as module

    return module


def error_name(status: int) -> str:
    """Return the name of a ``hipError_t`` value."""
    if chosen is None:
        return f"hipError_t {status}"
    module = hip()
    try:
        return str(module.hipError_t(status).name)
    except ValueError:
        return f"hipError_t {status}"


def choose() -> Library:
    """Try the providers in order and open the first that works."""
    flags.check()
    tried: list[tuple[str, str]] = []
    wanted = flags.provider
    finders = {"rocm": open_rocm, "nvidia": open_nvidia, "cpu": open_cpu}
    if wanted == "null":
        finders = {"null": open_null}
    for provider, find in finders.items():
        if wanted in ("auto", provider):
            found = find(tried)
            if found is not None:
                return found
    raise ProviderError(f"no HIP library can be used (HIPRT_PROVIDER={wanted})", tried)


def open_rocm(tried: list[tuple[str, str]]) -> Library | None:
    """Open AMD's runtime: the one already mapped, else the first installed one that sees a GPU."""
    mapped = mapped_libraries()
    if len(mapped) > 1:
        names = ", ".join(map(str, mapped))
        warnings.warn(
            f"two HIP libraries are mapped in this process: {names}; using the first", HipWarning, stacklevel=4
        )
    if flags.hip_lib:
        candidates = [Path(flags.hip_lib)]
    else:
        candidates = mapped[:1] or list(dict.fromkeys(installed_libraries()))
    if not candidates:
        tried.append(("rocm", "no libamdhip64.so is installed"))
    for path in candidates:
        reason = refusal(path)
        if reason is None:
            sibling = next((f for f in sorted(path.parent.glob("libhiprtc.so*"))), path)
            return open_library("rocm", path, sibling, tried)
        tried.append((f"rocm {path}", reason))
    return None


def open_nvidia(tried: list[tuple[str, str]]) -> Library | None:
    """Open our HIP library over NVIDIA's driver, where there is a driver and a GPU."""
    path = Path(__file__).parent / "nvidia" / "libamdhip64.so"
    if not path.exists():
        tried.append(("nvidia", f"{path} is missing: build the package with a C compiler"))
        return None
    count = ctypes.c_int()
    status = ctypes.CDLL(str(path)).hipGetDeviceCount(ctypes.byref(count))
    if status or not count.value:
        tried.append(("nvidia", f"no NVIDIA driver (libcuda.so.1) or no GPU: status {status}, {count.value} devices"))
        return None
    compiler = nvrtc_library()
    if compiler is not None and not flags.nvrtc_lib:
        os.environ["HIPRT_NVRTC_LIB"] = str(compiler)
        flags.__dict__.pop("nvrtc_lib", None)
    return open_library("nvidia", path, path, tried)


def nvrtc_library() -> Path | None:
    """Find the NVRTC that NVIDIA's wheels or a CUDA installation carry; None leaves it to the system loader."""
    folders = [Path("/usr/local/cuda/lib64")]
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders = [*Path(place).glob("cu*/lib"), *folders]
    return next((file for folder in folders for file in sorted(folder.glob("libnvrtc.so.1[23]"))), None)


def open_cpu(tried: list[tuple[str, str]]) -> Library | None:
    """Open the CPU device, whose compiler is the one the PyPI package ziglang carries when it is installed."""
    path = Path(__file__).parent / "cpu" / "libamdhip64.so"
    if not path.exists():
        tried.append(("cpu", f"{path} is missing: build the package with a C++ compiler"))
        return None
    zig = zig_binary()
    if zig is not None and not flags.cpu_zig:
        # The CPU device also serves programs without Python, so it reads the environment itself.
        os.environ["HIPRT_CPU_ZIG"] = str(zig)
        flags.__dict__.pop("cpu_zig", None)
    return open_library("cpu", path, path, tried)


def open_null(tried: list[tuple[str, str]]) -> Library | None:
    """Open the library whose calls do nothing; only when it is asked for by name."""
    path = Path(__file__).parent / "null" / "libamdhip64.so"
    return open_library("null", path, path, tried)


def zig_binary() -> Path | None:
    """Find the compiler that the PyPI package ziglang carries."""
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "zig"
        if path.exists():
            return path
    return None


def mapped_libraries() -> list[Path]:
    """List the libamdhip64 files this process has mapped already (torch brings its own), other than ours."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    ours = Path(__file__).resolve().parent
    paths = dict.fromkeys(Path(line.split(maxsplit=5)[5]) for line in lines if "libamdhip64" in line)
    return [path for path in paths if ours not in path.resolve().parents]


def installed_libraries() -> Iterator[Path]:
    """Yield installed ROCm runtimes: the SDK wheels, ROCM_PATH and kin, LD_LIBRARY_PATH, /opt/rocm, the system's."""
    folders: list[Path] = []
    spec = importlib.util.find_spec("_rocm_sdk_core")
    folders += [Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec else []
    folders += [
        Path(os.environ[name]) / "lib" for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH") if os.environ.get(name)
    ]
    folders += [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place]
    folders += [place / "lib" for place in sorted(Path("/opt/rocm").glob("core-*"), reverse=True)]
    folders.append(Path("/opt/rocm/lib"))
    ours = Path(__file__).resolve().parent
    for folder in folders:
        if ours not in folder.resolve().parents:
            yield from sorted(folder.glob("libamdhip64.so*"))[:1]
    system = ctypes.util.find_library("amdhip64")
    if system:
        yield Path(system)


def refusal(path: Path) -> str | None:
    """Say why a ROCm library cannot be used here, or None when it can."""
    if path.is_absolute() and not path.exists():
        return "no such file"
    if not any(os.path.exists(node) for node in ("/dev/kfd", "/dev/dxg")):
        return "this machine has no AMD GPU: neither /dev/kfd nor /dev/dxg exists (in a container, pass the device in)"
    return probe(path)


def probe(path: Path) -> str | None:
    """Ask a library for its version and devices in a child process; the reason to refuse it, or None."""
    command = [sys.executable, "-I", "-c", PROBE, str(path)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"initialising it took more than {PROBE_TIMEOUT:.0f} s"
    if child.returncode != 0:
        lines = child.stderr.strip().splitlines()
        cause = lines[-1] if lines else f"exit status {child.returncode}"
        return f"initialising it crashed a test process: {cause}"
    status, version, count = map(int, child.stdout.split()[-3:])
    if status or not count:
        return f"it sees no GPU (hipGetDeviceCount: status {status}, {count} devices)"
    if version < MINIMUM_HIP:
        return f"HIP {version // 10**7}.{version // 10**5 % 100} is too old; 6.0 or newer is needed"
    return None


def open_library(provider: str, path: Path, compiler: Path, tried: list[tuple[str, str]]) -> Library | None:
    """Bind the C core and hip-python to a library."""
    if importlib.util.find_spec("rocm") is None or importlib.util.find_spec("rocm.bindings") is None:
        tried.append((provider, "hip-python is not installed: pip install hip-python"))
        return None
    try:
        core.call(core.lib.hiprt_library_open(os.fsencode(path)))
    except HipError as error:
        tried.append((f"{provider} {path}", str(error)))
        return None
    bind_hip_python({"amdhip64": path, "hiprtc": compiler})
    import rocm.bindings.hip

    module: Any = rocm.bindings.hip
    version = int(check(module.hipRuntimeGetVersion(), "hipRuntimeGetVersion"))
    return Library(provider, path, compiler, version, tried)


def bind_hip_python(libraries: dict[str, Path]) -> None:
    """Make hip-python load these files; it asks for a path at the first call of each library."""
    from rocm.bindings.util import paths

    search = paths.get_library_path

    def get_library_path(shortname: str, bundled_location: Path | None = None) -> bytes:
        path = libraries.get(shortname)
        return os.fsencode(path) if path else search(shortname, bundled_location)

    paths.get_library_path = get_library_path
