"""``hiprt hipcc``: programs in HIP's C++ for the CPU device, host code and kernels in one file.

Each source is compiled twice. The device part goes through the CPU device's hiprtc, whose option ``-xhip`` takes a
whole program; the host part is compiled by the same clang in its HIP mode, with the device part inside. The system's
C++ compiler links.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hiprt import compiler, library
from hiprt.errors import CompileError, ProviderError
from hiprt.provider import PACKAGE, library_of_ours

__all__ = ["Job", "add_arguments", "main", "parse"]

HIP_SUFFIXES = {".hip", ".cpp", ".cc", ".cxx", ".c++", ".C", ".cu"}
HOST_SUFFIXES = {".c"}
# What a flag means, by its beginning. Those with a value have it in the same word or in the next.
VALUE_OF_BOTH = ("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-include")
VALUE_OF_HOST = ("-MF", "-MT", "-MQ", "-imacros")
VALUE_OF_LINK = ("-L", "-l", "-Xlinker", "-z", "-T")
OWN_LIBRARIES = ("amdhip64", "hiprtc")  # both are the CPU device, which every program is linked with
VALUE_IGNORED = (
    "--hip-path",
    "--rocm-path",
    "--hip-device-lib-path",
    "--gcc-toolchain",
    "-Xarch_device",
    "-Xoffload-linker",
)
DEVICE_FLAGS = ("-O", "-std=", "--std=", "-ffast-math", "-fno-fast-math", "-ffp-contract=", "-w")
LINK_FLAGS = (
    "-Wl,",
    "-shared",
    "-static",
    "-pthread",
    "-rdynamic",
    "-pie",
    "-no-pie",
    "-s",
    "-fopenmp",
    "-fsanitize",
    "-nostdlib",
)
OWN_TARGET = "--offload-arch=hiprt-cpu"  # rocm_prefix.py names it to CMake
TARGET_FLAGS = ("--offload-arch", "--amdgpu-target", "--cuda-gpu-arch", "--no-offload-arch")
IGNORED_FLAGS = (
    *(
        "--offload",
        "--hipcc-",
        "-mllvm",
        "-parallel-jobs",
        "-fno-gpu-rdc",
        "-fhip-",
        "-munsafe-fp-atomics",
        "-nogpulib",
        "-mcode-object-version",
    ),
    *(
        "--no-gpu-bundle-output",
        "-fgpu-flush-denormals-to-zero",
        "-fgpu-default-stream",
        "--cuda-",
        "--hip-link",
        "-mwavefrontsize",
        "-mcumode",
        "-nogpuinc",
    ),
)
REFUSED_FLAGS = {
    "-fgpu-rdc": "the CPU device links no device code (-fgpu-rdc): a file defines or includes what its kernels call",
}
IMAGE_SUFFIX = ".hiprt"


@dataclass
class Job:
    """What a command line asks for.

    Attributes
    ----------
    sources : list of (Path, str)
        The files to compile, each with its language, ``hip`` or ``c``.
    objects : list of str
        The files that are only linked.
    output : str or None
    stage : str
        ``link``, ``-c``, ``-E``, ``-S``, ``-fsyntax-only``, ``-M``, ``-MM`` or ``--genco``.
    host, device, link : list of str
        The flags of each step.
    ignored : list of str
        The flags that mean nothing here.
    """

    sources: list[tuple[Path, str]] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    output: str | None = None
    stage: str = "link"
    host: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser: all words are hipcc's."""
    parser.prefix_chars = "\0"
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run, is_program=False, debug=False)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return main(options.words)


def main(words: Sequence[str]) -> int:
    """Do what a command line of hipcc asks for.

    Parameters
    ----------
    words : sequence of str
        The arguments, as hipcc takes them.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    ValueError
        A flag cannot be obeyed, or nothing is to be done.
    ProviderError
        No compiler was found.
    """
    if not words or "--help" in words or "-h" in words:
        print(
            "usage: hiprt hipcc [-c] [-o FILE] [-I DIR] [-D NAME] [-O LEVEL] [-g] [-std=STD] [-L DIR] [-l LIB] FILE ..."
        )
        return 0 if words else 2
    # Programs are compiled without checks, and again by a device that checks.
    os.environ["HIPRT_PROVIDER"] = "cpu"
    os.environ.pop("HIPRT_CPU_CHECK", None)
    if "--version" in words:
        library.current()
        return subprocess.run(
            [*hip_command()[: 2 if "clang" in hip_command()[1] else 1], "--version"], check=False
        ).returncode
    job = parse(list(expanded(words)))
    if job.ignored:
        print(f"hiprt hipcc: the CPU device has no use for {' '.join(job.ignored)}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        return build(job, Path(folder))


def expanded(words: Sequence[str]) -> Iterator[str]:
    """Yield the words, with those of the files that ``@FILE`` names in its place."""
    for word in words:
        if word.startswith("@") and Path(word[1:]).is_file():
            yield from expanded(shlex.split(Path(word[1:]).read_text()))
        else:
            yield word


def parse(words: list[str]) -> Job:
    """Sort a command line's words.

    Parameters
    ----------
    words : list of str
        The arguments.

    Returns
    -------
    Job

    Raises
    ------
    ValueError
        A flag cannot be obeyed here, which the message explains; or one that takes a value has none.
    """
    job, language = Job(), ""
    rest = iter(words)
    for word in rest:
        if word in REFUSED_FLAGS:
            raise ValueError(REFUSED_FLAGS[word])
        if word == "-o":
            job.output = following(word, rest)
        elif word.startswith("-o") and len(word) > 2:
            job.output = word[2:]
        elif word in ("-c", "-E", "-S", "-fsyntax-only", "-M", "-MM", "--genco"):
            job.stage = word
        elif word == "-x":
            language = following(word, rest)
        elif word.startswith("-x"):
            language = word[2:]
        elif found := begins(word, VALUE_OF_BOTH):
            value = word[len(found) :] or following(word, rest)
            if not has_our_headers(value):
                job.host += [found, value]
                job.device += [found, value]
        elif found := begins(word, VALUE_OF_HOST):
            job.host += [found, word[len(found) :] or following(word, rest)]
        elif found := begins(word, VALUE_OF_LINK):
            value = word[len(found) :] or following(word, rest)
            if found != "-l" or value not in OWN_LIBRARIES:
                job.link += [found, value]
        elif found := begins(word, VALUE_IGNORED):
            job.ignored += [word] if word != found else [word, following(word, rest)]
        elif word == OWN_TARGET:
            continue
        elif begins(word, TARGET_FLAGS) or begins(word, IGNORED_FLAGS):
            job.ignored += [word] if "=" in word or word != "-mllvm" else [word, following(word, rest)]
        elif word.startswith("-") and word != "-":
            sort_flag(word, job)
        else:
            add_file(word, language, job)
    if not job.sources and not job.objects:
        raise ValueError("hipcc: no input files")
    if job.output and job.stage != "link" and len(job.sources) > 1:
        raise ValueError(f"hipcc: -o names one file, but {job.stage} makes one of each of {len(job.sources)} sources")
    return job


def has_our_headers(folder: str) -> bool:
    """Return whether a folder is one that ``hiprt rocm-prefix`` made; hipcc finds our headers by itself."""
    name = Path("include", "hip", "hip_runtime.h")
    return Path(folder, "hip", name.name).resolve() == (PACKAGE / "native" / name).resolve()


def begins(word: str, flags: Sequence[str]) -> str:
    """Return the longest of some flags that a word begins with, or an empty text."""
    return max((flag for flag in flags if word.startswith(flag)), key=len, default="")


def following(word: str, rest: Iterator[str]) -> str:
    """Return the value that follows a flag."""
    value = next(rest, None)
    if value is None:
        raise ValueError(f"hipcc: {word} needs a value")
    return value


def sort_flag(word: str, job: Job) -> None:
    """Give a flag without a value to the steps that know it."""
    if begins(word, LINK_FLAGS):
        job.link.append(word)
    if not word.startswith(
        ("-Wl,", "-L", "-static", "-shared", "-rdynamic", "-pie", "-no-pie", "-s")
    ) or word.startswith("-std"):
        job.host.append(word)
    if begins(word, DEVICE_FLAGS):
        job.device.append(word)


def add_file(word: str, language: str, job: Job) -> None:
    """Take a file as a source or as something to link, by its language or its name."""
    suffix = Path(word).suffix
    if language == "hip" or (language in ("", "none", "c++") and suffix in HIP_SUFFIXES):
        job.sources.append((Path(word), "hip"))
    elif language == "c" or suffix in HOST_SUFFIXES:
        job.sources.append((Path(word), "c"))
    elif language in ("", "none"):
        job.objects.append(word)
    else:
        raise ValueError(f"hipcc: {word}: the language {language!r} (-x) is none of hip, c++ and c")


def build(job: Job, folder: Path) -> int:
    """Do a job, with a folder for what lies between its steps; return the exit status."""
    objects = []
    for number, (source, language) in enumerate(job.sources):
        if not source.is_file():
            raise FileNotFoundError(f"hipcc: {source}: no such file")
        if job.stage == "--genco":
            Path(job.output or source.with_suffix(IMAGE_SUFFIX).name).write_bytes(device_part(source, job))
            continue
        made = str(folder / f"{number}.o") if job.stage == "link" else job.output or default_output(source, job.stage)
        status = compile_host(source, language, job, made, folder)
        if status:
            return status
        objects.append(made)
    return link([*objects, *job.objects], job) if job.stage == "link" else 0


def default_output(source: Path, stage: str) -> str:
    """Return the name of what a stage makes of a source; empty for one that prints."""
    return {"-c": f"{source.stem}.o", "-S": f"{source.stem}.s"}.get(stage, "")


def compile_host(source: Path, language: str, job: Job, made: str, folder: Path) -> int:
    """Compile the host part, with the device part in it; return the exit status."""
    flags = [*job.host, *(["-o", made] if made else [])]
    if language == "c":
        return subprocess.run(
            [c_compiler("cc"), job.stage if job.stage != "link" else "-c", *flags, str(source)], check=False
        ).returncode
    command = [*hip_command(), "-include", "hip/hip_runtime.h", *position(job), *flags]
    stage = "-c" if job.stage == "link" else job.stage
    if stage in ("-c", "-S"):
        try:
            image = folder / "image"
            image.write_bytes(device_part(source, job))
        except CompileError as error:
            # The host part's messages, if it has any, show the lines as they were written.
            status = subprocess.run([*command, "-fsyntax-only", str(source)], check=False).returncode
            if not status:
                print(error.log, end="" if error.log.endswith("\n") else "\n", file=sys.stderr)
            return status or 1
        command += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(image)]
    return subprocess.run([*command, stage, str(source)], check=False).returncode


def position(job: Job) -> list[str]:
    """Return the flag of code that may lie anywhere, unless the command line has one of its own."""
    return (
        []
        if any(flag in ("-fPIC", "-fpic", "-fPIE", "-fpie", "-fno-pie", "-fno-PIE") for flag in job.host)
        else ["-fPIE"]
    )


def device_part(source: Path, job: Job) -> bytes:
    """Return the code object of a source.

    Raises
    ------
    CompileError
        The device part does not compile.
    """
    library.current()
    here = ["-iquote", str(source.resolve().parent)]
    return compiler.build(source.read_text(), str(source), ["-xhip", *here, *job.device], ())[0]


def hip_command() -> list[str]:
    """Return the command that host parts are compiled by.

    Raises
    ------
    ProviderError
        No compiler here has a HIP mode.
    """
    library.current()
    ask = ctypes.CDLL(str(library_of_ours("cpu"))).hiprtCpuHipCommand
    ask.restype = ctypes.c_char_p
    words = ask()
    if not words:
        remedy = 'pip install "hiprt[cpu]" (or install clang++ 15 or newer)'
        raise ProviderError("programs for hipcc cannot be compiled", [("clang", f"none was found: {remedy}")])
    return [str(word) for word in words.decode().splitlines()]


def c_compiler(name: str) -> str:
    """Return the system's compiler of C or C++, which also links.

    Raises
    ------
    ProviderError
        There is none.
    """
    names = {"cc": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}[name]
    found = next((path for each in names if (path := shutil.which(each))), None)
    if not found:
        raise ProviderError(
            "the program cannot be linked", [(name, f"none of {', '.join(names)} is on PATH: install g++")]
        )
    return found


def link(objects: list[str], job: Job) -> int:
    """Link a program or a library with the CPU device; return the exit status."""
    folder = str(library_of_ours("cpu").parent)
    # The stacks that the checks tell have the names of a program's functions by its dynamic symbols.
    ours = ["-rdynamic", "-L", folder, "-lamdhip64", f"-Wl,-rpath,{folder}"]
    command = [c_compiler("c++"), *objects, "-o", job.output or "a.out", *job.link, *ours, "-pthread", "-lm"]
    return subprocess.run(command, check=False).returncode
