"""Providers: the kinds of HIP library, how each is found, and what differs between them above the library.

Only this file and the table of `hiprt.hip_versions` know providers by name. Everything else asks the `Provider` object
that a device and the library in use carry. A device that HIP does not serve brings its own
(`hiprt.metal_compat.apple`).
"""

from __future__ import annotations

import _ctypes
import ctypes
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hiprt import dlpack
from hiprt.core import status_name
from hiprt.errors import HipWarning
from hiprt.flags import flags
from hiprt.hip_versions import dotted, runtime
from hiprt.shared_libraries import beside, in_linker_cache, own_version, versions_in

__all__ = ["CPU", "NULL", "NVIDIA", "PROVIDERS", "ROCM", "Files", "Provider", "Refused", "wanted", "zig_binary"]

PROBE_TIMEOUT = 60.0  # seconds
PROBE = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
version, count = ctypes.c_int(), ctypes.c_int()
status = hip.hipRuntimeGetVersion(ctypes.byref(version)) or hip.hipGetDeviceCount(ctypes.byref(count))
print(status, version.value, count.value)
"""
PACKAGE = Path(__file__).resolve().parent
GPU_NODES = ("/dev/kfd", "/dev/dxg")
HIP, HIPRTC = "libamdhip64.so", "libhiprtc.so"
RCCL, NCCL = "librccl.so", "libnccl.so"

# Options of a compiler by math mode. In the safe mode, which hiprt's own kernels use too, products are fused with sums
# only where a body says so (mad), so that every target gives the same bits. The relaxed mode keeps NaN and infinity.
# The compilers define __FAST_MATH__ themselves in the fast mode; NVRTC does not.
CLANG_MODES = {
    "safe": ("-ffp-contract=off",),
    "relaxed": ("-ffp-contract=fast", "-DHIPRT_RELAXED_MATH=1"),
    "fast": ("-ffp-contract=fast", "-ffast-math"),
}
NVRTC_MODES = {
    "safe": ("--fmad=false", "--device-as-default-execution-space"),
    "relaxed": ("--fmad=true", "--device-as-default-execution-space"),
    "fast": ("--use_fast_math", "--device-as-default-execution-space", "-D__FAST_MATH__=1"),
}


class Files(NamedTuple):
    """The files of a HIP library.

    Attributes
    ----------
    hip, hiprtc : Path
        The files with the functions of the runtime and of the compiler.
    compiler : Path
        The file of the compiler that works behind hiprtc.
    """

    hip: Path
    hiprtc: Path
    compiler: Path


Refused = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Provider:
    """One kind of HIP library, or another way to reach a GPU.

    Attributes
    ----------
    name : str
        The name in ``HIPRT_PROVIDER``, in messages and in reports.
    find : callable
        Yields the `Files` of each library of the kind that may work, the preferred one first. It appends to the list
        that it is given what was refused, and why.
    dlpack_device : int
        DLPack's type of the memory of its arrays.
    dlpack_usable : tuple of int
        The types of memory that its kernels can use.
    has_cuda_interface : bool
        Whether arrays have ``__cuda_array_interface__``, which stands for HIP's memory on AMD GPUs too.
    math_modes : mapping of str to tuple of str
        The compiler's options for each math mode of `metal_kernel`; hiprt's own kernels use those of ``"safe"``.
    caches_code : bool
        Whether `hiprt.compiler` keeps what its compiler made. The CPU device keeps it itself, also for programs
        without Python.
    is_host : bool
        Whether kernels run in this process, on its processor and in its memory. Pages can then be closed to them, and
        the library tells the address of a kernel's last fault.
    takes_loops : bool
        Whether kernels take their branch of plain loops, which a compiler turns into vector instructions, instead of
        the branch of cooperating lanes.
    runs_kernels : bool
        False where launches do nothing, so that no probe can read back what a kernel wrote.
    stream : type, optional
        The class of its streams; `hiprt.Stream` where it is None.
    find_collectives : callable
        Yields the files of its library of collectives, which has NCCL's functions, the preferred one first. It is given
        the file of the HIP library.
    load_kernel : callable, optional
        Compiles and loads a kernel of the project, ``load_kernel(kernel, template, device)``; through hiprtc where it
        is None.
    load_body : callable, optional
        Compiles and loads a user's body, ``load_body(programs, form, device)``; through hiprtc where it is None.
    run_step : callable, optional
        Runs a step on a stream that records all the time, ``run_step(step, stream, args, keywords)``; where it is None,
        a step on a stream that records becomes a part of the recording.
    """

    name: str
    find: Callable[[Refused], Iterator[Files]]
    dlpack_device: int
    dlpack_usable: tuple[int, ...]
    math_modes: Mapping[str, tuple[str, ...]]
    has_cuda_interface: bool = False
    caches_code: bool = False
    is_host: bool = False
    takes_loops: bool = False
    runs_kernels: bool = True
    stream: Callable[[Any], Any] | None = None
    find_collectives: Callable[[Path], Iterable[Path]] = lambda _hip: ()
    load_kernel: Callable[[Any, tuple[Any, ...], Any], Any] | None = None
    load_body: Callable[[Any, Any, Any], Any] | None = None
    run_step: Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any] | None = None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<provider {self.name}>"


def find_rocm(refused: Refused) -> Iterator[Files]:
    """Yield AMD's runtimes: the one that is mapped already, else the installed ones that see a GPU."""
    mapped = mapped_libraries()
    if len(mapped) > 1:
        names = ", ".join(map(str, mapped))
        warnings.warn(
            f"two HIP libraries are mapped in this process: {names}; using the first", HipWarning, stacklevel=5
        )
    if flags.hip_lib:
        candidates = [named_library(flags.hip_lib)]
    else:
        candidates = mapped[:1] or list(dict.fromkeys(installed_libraries()))
    if not candidates:
        refused.append((ROCM.name, "no libamdhip64.so is installed"))
    without_compiler = []
    for path in candidates:
        reason = refusal(path)
        hiprtc = beside(path, HIPRTC)
        if reason is not None:
            refused.append((f"{ROCM.name} {path}", reason))
        elif hiprtc is None:
            without_compiler.append(path)
        else:
            yield Files(path, hiprtc, hiprtc)
    # They serve a process whose kernels were compiled ahead. The compiler is named as the place where it is missing.
    for path in without_compiler:
        missing = path.parent / ".".join([HIPRTC, *map(str, own_version(path)[:1])])
        yield Files(path, missing, missing)


def named_library(text: str) -> Path:
    """Return the file that ``HIPRT_HIP_LIB`` names: a path, or a bare name that is looked for as the linker does."""
    if os.sep in text:
        return Path(text).absolute()
    folders = [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place]
    found = [folder / text for folder in folders if (folder / text).exists()]
    found += [path for path in in_linker_cache(HIP) if path.name == text]
    return found[0] if found else Path(text)


def mapped_libraries() -> list[Path]:
    """List the libamdhip64 files that this process has mapped already (torch brings its own), other than ours."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = dict.fromkeys(Path(line.split(maxsplit=5)[5]) for line in lines if "libamdhip64" in line)
    return [path for path in paths if PACKAGE not in path.resolve().parents]


def installed_libraries() -> Iterator[Path]:
    """Yield installed ROCm runtimes: the SDK wheels, ROCM_PATH and kin, LD_LIBRARY_PATH, /opt/rocm, the system's.

    All versions in a folder are yielded, the newest first, because an old one may be left beside the one that works.
    """
    for folder in rocm_folders():
        if PACKAGE not in folder.resolve().parents:
            yield from versions_in(folder.absolute(), HIP)
    yield from in_linker_cache(HIP)


def rocm_folders() -> list[Path]:
    """Return where ROCm's libraries may lie."""
    folders = [place / "lib" for place in package_folders("_rocm_sdk_core")]
    roots = [Path(os.environ[name]) for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH") if os.environ.get(name)]
    folders += [root / lib for root in roots for lib in ("lib", "lib64")]
    folders += [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place]
    folders += [place / "lib" for place in sorted(Path("/opt/rocm").glob("core-*"), reverse=True)]
    folders.append(Path("/opt/rocm/lib"))
    return folders


def find_rccl(hip: Path) -> Iterator[Path]:
    """Yield AMD's libraries of collectives: that beside the HIP library before others."""
    for folder in dict.fromkeys((hip.parent, hip.resolve().parent, *rocm_folders())):
        yield from versions_in(folder.absolute(), RCCL)
    yield from in_linker_cache(RCCL)


def find_nccl(_hip: Path) -> Iterator[Path]:
    """Yield NVIDIA's libraries of collectives: that of its wheel before the system's."""
    for folder in package_folders("nvidia"):
        yield from versions_in(folder / "nccl" / "lib", NCCL)
    for place in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if place:
            yield from versions_in(Path(place).absolute(), NCCL)
    yield from versions_in(Path("/usr/local/cuda/lib64"), NCCL)
    yield from in_linker_cache(NCCL)


def refusal(path: Path) -> str | None:
    """Say why a ROCm library cannot be used here, or return None when it can."""
    if path.is_absolute() and not path.exists():
        return "no such file"
    nodes = [node for node in GPU_NODES if os.path.exists(node)]
    if not nodes:
        return "this machine has no AMD GPU: neither /dev/kfd nor /dev/dxg exists (in a container, pass the device in)"
    if not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return f"this user may not open {nodes[0]}: join the group that owns it (usually render), and log in again"
    return probe(path)


def probe(path: Path) -> str | None:
    """Ask a library for its version and devices; return the reason to refuse it, or None.

    A child process asks, because initialising ROCm on a machine without a GPU may abort the process.
    """
    import subprocess
    import sys

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
        named = f"{status_name('hipError_t', status)} ({status})"
        return f"it sees no GPU (hipGetDeviceCount: {named}, {count} devices)"
    least = runtime(ROCM.name).least_hip
    if version < least:
        return f"HIP {dotted(version)} is too old; {dotted(least)} or newer is needed"
    return None


def library_of_ours(name: str) -> Path:
    """Return the file of a HIP library that is part of the package. It lies beside a link with HIP's own name."""
    return PACKAGE / name / f"libhiprt_{name}.so"


def find_nvidia(refused: Refused) -> Iterator[Files]:
    """Yield our HIP library over NVIDIA's driver, where there are a driver and a GPU."""
    path = library_of_ours("nvidia")
    if not path.exists():
        refused.append((NVIDIA.name, f"{path} is missing: build the package with a C compiler"))
        return
    count = ctypes.c_int()
    asked = ctypes.CDLL(str(path))
    status = asked.hipGetDeviceCount(ctypes.byref(count))
    if status or not count.value:
        # What stays mapped could serve a program that is loaded later and asks for a HIP library by name.
        _ctypes.dlclose(asked._handle)
        reason = f"no NVIDIA driver (libcuda.so.1) or no GPU: status {status}, {count.value} devices"
        refused.append((NVIDIA.name, reason))
        return
    found = None if flags.nvrtc_lib else nvrtc_library()
    if found is not None:
        hand_over("nvrtc_lib", found)
    yield Files(path, path, Path(flags.nvrtc_lib or path))


def nvrtc_library() -> Path | None:
    """Find the NVRTC that NVIDIA's wheels or a CUDA installation carry; None leaves it to the system's loader."""
    folders = [Path("/usr/local/cuda/lib64")]
    for place in package_folders("nvidia"):
        folders = [*place.glob("cu*/lib"), *folders]
    return next((file for folder in folders for file in sorted(folder.glob("libnvrtc.so.1[23]"))), None)


def find_cpu(refused: Refused) -> Iterator[Files]:
    """Yield the CPU device. Its compiler is the one in the PyPI package ziglang, where that is installed."""
    path = library_of_ours("cpu")
    if not path.exists():
        refused.append((CPU.name, f"{path} is missing: build the package with a C++ compiler"))
        return
    zig = zig_binary()
    if zig is not None and not flags.cpu_zig:
        hand_over("cpu_zig", zig)
    yield Files(path, path, path)


def zig_binary() -> Path | None:
    """Find the compiler that the PyPI package ziglang carries."""
    return next((folder / "zig" for folder in package_folders("ziglang") if (folder / "zig").exists()), None)


def find_null(_refused: Refused) -> Iterator[Files]:
    """Yield the library whose calls do nothing."""
    path = library_of_ours("null")
    yield Files(path, path, path)


def package_folders(name: str) -> list[Path]:
    """Return the folders of an installed Python package, which is not imported for it."""
    spec = importlib.util.find_spec(name)
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


def hand_over(flag: str, path: Path) -> None:
    """Set a flag for a library of ours, which reads the environment itself: it also serves programs without Python."""
    os.environ[f"HIPRT_{flag.upper()}"] = str(path)
    flags.__dict__.pop(flag, None)


ROCM = Provider(
    name="rocm",
    find=find_rocm,
    dlpack_device=dlpack.ROCM,
    dlpack_usable=(dlpack.ROCM, dlpack.ROCM_HOST),
    math_modes=CLANG_MODES,
    has_cuda_interface=True,
    caches_code=True,
    find_collectives=find_rccl,
)
NVIDIA = Provider(
    name="nvidia",
    find=find_nvidia,
    dlpack_device=dlpack.CUDA,
    dlpack_usable=(dlpack.CUDA, dlpack.CUDA_HOST, dlpack.CUDA_MANAGED),
    math_modes=NVRTC_MODES,
    has_cuda_interface=True,
    caches_code=True,
    find_collectives=find_nccl,
)
CPU = Provider(
    name="cpu",
    find=find_cpu,
    dlpack_device=dlpack.CPU,
    dlpack_usable=(dlpack.CPU,),
    math_modes=CLANG_MODES,
    is_host=True,
    takes_loops=True,
)
NULL = Provider(
    name="null",
    find=find_null,
    dlpack_device=dlpack.CPU,
    dlpack_usable=(dlpack.CPU,),
    math_modes=CLANG_MODES,
    runs_kernels=False,
)
# HIP's providers, in the order in which they are tried.
PROVIDERS = (ROCM, NVIDIA, CPU, NULL)


def wanted(name: str) -> tuple[Provider, ...]:
    """Return the providers that ``HIPRT_PROVIDER`` allows: all that run kernels for ``auto``, else the named one."""
    return tuple(each for each in PROVIDERS if each.name == name or (name == "auto" and each.runs_kernels))
