"""Build step: the C core (a cffi extension), libhiprt, and libraries with the HIP ABI.

libhiprt is the core without Python; the others are the CPU device, NVIDIA's library and the null one. This module runs
inside setuptools' ``build_ext`` and is not imported by the installed package. ``CC``, ``CXX`` and ``LDFLAGS`` name the
compilers and what is given to the linker; ``HIPRT_BUILD_SANITIZE`` (for example ``address,undefined``) instruments all.
"""

import fcntl
import hashlib
import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cffi import FFI
from setuptools import Extension
from setuptools.command.build_ext import build_ext

NATIVE = Path(__file__).resolve().parent
ROOT = NATIVE.parent.parent
INCLUDE = NATIVE / "include"
CPU = NATIVE.parent / "cpu"
# The CPU device consists of these files too: it must find the same cache without Python.
CACHE = NATIVE / "cache"
PUBLIC_HEADER = INCLUDE / "hiprt" / "hiprt.h"
CORE_FOLDERS = [NATIVE, CACHE, ROOT / "graphs" / "native", ROOT / "allocator" / "native"]
C_LIBRARIES = ("null", "nvidia")
# Programs link a library of ours by this name (-lamdhip64). It is a link: the library itself has another name, so that
# a program that was linked with one finds that one, whatever other HIP library its process has mapped.
HIP_NAME = "libamdhip64.so"
# Sources under hiprt/cpu that decide how a program becomes a module: their hash is part of every cached module's key.
CODE_GENERATION = (
    "compile/compiler",
    "compile/kernel_list",
    "compile/opening",
    "compile/options",
    "compile/program",
    "compile/reconvergence",
    "compile/scanner",
    "compile/signature",
    "compile/tokens",
    "engine/code_object",
)
# Most of the CPU device's files include most of these, and half of what their compilation took was reading them.
STANDARD_HEADERS = (
    "algorithm",
    "array",
    "atomic",
    "condition_variable",
    "cstdio",
    "cstring",
    "deque",
    "functional",
    "map",
    "memory",
    "mutex",
    "optional",
    "set",
    "shared_mutex",
    "string",
    "thread",
    "unordered_map",
    "utility",
    "vector",
)
# The part of a header that Python sees too.
PUBLIC = re.compile(r"/\* cffi begin \*/\n(.*?)/\* cffi end \*/", re.DOTALL)
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def sanitize_flags() -> list[str]:
    """Compile and link flags of the sanitizers asked for.

    With less optimisation the checks take half the time to compile, and find the same.
    """
    names = os.environ.get("HIPRT_BUILD_SANITIZE", "")
    if not names:
        return []
    return ["-O1", f"-fsanitize={names}", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]


def compiler(variable: str) -> list[str]:
    """Return the command of the C compiler (``CC``) or the C++ compiler (``CXX``)."""
    return shlex.split(os.environ.get(variable) or {"CC": "gcc", "CXX": "g++"}[variable])


def link_flags() -> list[str]:
    """Return the flags that make a shared library, without its own name and objects."""
    return ["-shared", *sanitize_flags(), *shlex.split(os.environ.get("LDFLAGS", ""))]


def compile_flags(standard: str) -> list[str]:
    """Flags common to the core and the CPU device."""
    return [standard, "-O2", "-g1", "-fPIC", "-fvisibility=hidden", *WARNINGS, f"-I{INCLUDE}", *sanitize_flags()]


def public_headers() -> list[Path]:
    """Return the core's headers that have a public part, each behind those that it includes."""
    known = {"hiprt/hiprt.h": PUBLIC_HEADER}
    known |= {header.name: header for folder in CORE_FOLDERS for header in sorted(folder.glob("*.h"))}
    ordered: dict[Path, None] = {}

    def add(header: Path) -> None:
        text = header.read_text()
        for name in re.findall(r'#include "(.*)"', text):
            if name in known:
                add(known[name])
        if PUBLIC.search(text):
            ordered[header] = None

    for header in known.values():
        add(header)
    return list(ordered)


def interface() -> str:
    """Return what cffi reads: the public parts of the core's headers, of which there is no other copy."""
    return "".join(part for header in public_headers() for part in PUBLIC.findall(header.read_text()))


# What Python sees of HIP's structures; cffi takes sizes and offsets from the headers.
STRUCTURES = """
typedef struct {
  char name[256];
  char gcnArchName[256];
  size_t totalGlobalMem;
  int warpSize;
  int multiProcessorCount;
  int pciDomainID;
  int pciBusID;
  int pciDeviceID;
  ...;
} hipDeviceProp_tR0600;
typedef struct {
  int type;
  int id;
} hipMemLocation;
typedef struct {
  int allocType;
  hipMemLocation location;
  ...;
} hipMemPoolProps;
typedef struct {
  char reserved[64];
} hipIpcMemHandle_t;
"""


BY_VALUE = ("hipIpcMemHandle_t",)  # structures that HIP's functions take themselves, not a pointer to them


def hip_list(name: str) -> list[str]:
    """Return the entries of a list in hip_functions.h, each without its ``X(…)``."""
    text = (NATIVE / "hip_functions.h").read_text().replace("\\\n", "")
    found = re.search(rf"^#define {name}\(X\)(.*)$", text, re.MULTILINE)
    assert found, f"hip_functions.h: {name} is missing"
    return [" ".join(entry.split()) for entry in re.findall(r"X\((\w+(?:, \([^)]*\))?)\)", found.group(1))]


def hip_enumeration(header: str, name: str) -> str:
    """Return the text of an enumeration in one of HIP's headers."""
    found = re.search(rf"typedef enum {name} {{.*?}} {name};", (INCLUDE / "hip" / header).read_text(), re.DOTALL)
    assert found, f"{header}: {name} is missing"
    return found.group(0) + "\n"


def hip_interface() -> tuple[str, str]:
    """Return HIP's functions for Python under their own names: what cffi reads, and the C text behind it.

    Each calls the function in the C core's table and remembers a failure as the core's own functions do. Handles,
    addresses of device memory (``void *``) and numbers are numbers in Python; other pointers, and structures, which
    Python gives by a pointer, are cffi's pointers, or bytes.
    """
    declared = [hip_enumeration("hip_errors.h", "hipError_t"), hip_enumeration("hiprtc.h", "hiprtcResult"), STRUCTURES]
    declared += [f"#define {name} ...\n" for name in hip_list("HIPRT_HIP_CONSTANTS")]
    defined = ['#include "library.h"\n#include "status.h"\n']
    tables = {"HIPRT_HIP_FUNCTIONS": "hip", "HIPRT_HIP_OPTIONAL": "hip", "HIPRT_HIPRTC_FUNCTIONS": "hiprtc"}
    for entries, table in tables.items():
        for entry in hip_list(entries):
            name, types = entry.removesuffix(")").split(", (")
            parameters = [] if types == "void" else types.split(", ")
            is_pointer = [(each.endswith("*") and each != "void *") or each in BY_VALUE for each in parameters]
            taken = ["void *" if each else "uint64_t" for each in is_pointer]
            listed = ", ".join(f"{kind} a{i}" for i, kind in enumerate(taken)) or "void"
            passed = ", ".join(
                f"*({kind} *)a{i}" if kind in BY_VALUE else f"({kind})a{i}" if pointer else f"({kind})(uintptr_t)a{i}"
                for i, (kind, pointer) in enumerate(zip(parameters, is_pointer))
            )
            declared.append(f"int {name}({', '.join(taken) or 'void'});\n")
            defined.append(
                f"static int hiprt_call_{name}({listed}) {{\n"
                f'  if (!hiprt_{table}.{name}) return hiprt_fail(HIPRT_E_LIBRARY, "{name}", "the library lacks it");\n'
                f"  const int status = (int)hiprt_{table}.{name}({passed});\n"
                f'  return status ? hiprt_fail(status, "{name}", 0) : 0;\n'
                f"}}\n#define {name} hiprt_call_{name}\n"
            )
    return "".join(declared), "".join(defined)


class Build(build_ext):
    """build_ext for ``hiprt._core``, ``hiprt/native/lib/libhiprt.so`` and the HIP libraries."""

    def finalize_options(self) -> None:
        """Complete the extension that pyproject.toml names."""
        # A compiler of a user's may warn of what ours do not; that must not stop an installation.
        if not (self.inplace or self.editable_mode) and "-Werror" in WARNINGS:
            WARNINGS.remove("-Werror")
        generated = ROOT / "build" / "_core.c"
        generated.parent.mkdir(exist_ok=True)
        ffi = FFI()
        hip_declarations, hip_definitions = hip_interface()
        ffi.cdef(interface() + hip_declarations)
        includes = "".join(f'#include "{header.name}"\n' for header in public_headers() if header != PUBLIC_HEADER)
        ffi.set_source("hiprt._core", includes + hip_definitions, py_limited_api=True)
        ffi.emit_c_code(str(generated))
        sources = [generated, *(f for folder in CORE_FOLDERS for f in sorted(folder.glob("*.c")))]
        core: Extension = self.distribution.ext_modules[0]
        core.sources = [os.path.relpath(source) for source in sources]
        core.include_dirs = [str(NATIVE), str(INCLUDE), *map(str, CORE_FOLDERS)]
        core.define_macros = [("Py_LIMITED_API", "0x030A0000")]
        core.extra_compile_args = [*compile_flags("-std=c11"), "-Wno-unused-parameter"]
        core.extra_link_args = ["-pthread", "-ldl", *sanitize_flags()]
        core.depends = [str(PUBLIC_HEADER), *(str(f) for folder in CORE_FOLDERS for f in folder.glob("*.h"))]
        core.py_limited_api = True
        super().finalize_options()

    def run(self) -> None:
        """Build the extension, and beside it the HIP libraries of our own."""
        package = Path(self.get_ext_fullpath("hiprt._core")).resolve().parent  # while run() works, it is another folder
        with ThreadPoolExecutor(1) as pool:
            extension = pool.submit(super().run)
            if os.name == "posix" and sysconfig.get_platform().startswith("linux"):
                build_cpu_device(library_file(package, "cpu"), ROOT / "build" / "cpu")
                for name in C_LIBRARIES:
                    build_c_library(NATIVE.parent / name, library_file(package, name))
                build_library(library_target(package), ROOT / "build" / "libhiprt")
            extension.result()

    def build_extension(self, ext: Extension) -> None:
        """Compile the extension's files by all processors: setuptools would compile one at a time."""
        compile_some = self.compiler.compile

        def compile_each(sources: list[str], **given: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = pool.map(lambda source: compile_some([source], **given), sources)
                return [out for outs in made for out in outs]

        self.compiler.compile = compile_each
        super().build_extension(ext)

    def get_outputs(self) -> list[str]:
        """Name the HIP libraries too, so that installers remove them."""
        package = Path(self.get_ext_fullpath("hiprt._core")).parent
        made = [library_file(package, name) for name in ("cpu", *C_LIBRARIES)]
        named = [library_target(package), *(path for each in made for path in (each, each.with_name(HIP_NAME)))]
        return [*super().get_outputs(), *map(str, named)]


def library_file(package: Path, name: str) -> Path:
    """Return the file of a HIP library of ours; its name is the one that the loader knows it by."""
    return package / name / f"libhiprt_{name}.so"


def library_target(package: Path) -> Path:
    """Return the file of libhiprt; its folder lies beside that of its header."""
    return package / "native" / "lib" / "libhiprt.so"


def put_in_place(fresh: Path, target: Path) -> None:
    """Give a library that has been linked its name, and the HIP name beside it.

    It was linked under another name: a process that has the old file mapped keeps it.
    """
    fresh.replace(target)
    link = target.with_name(f"{HIP_NAME}.new")
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    link.replace(target.with_name(HIP_NAME))


def up_to_date(target: Path, depfile: Path) -> bool:
    """Whether ``target`` is newer than everything its make-style depfile names."""
    if not target.exists() or not depfile.exists():
        return False
    names = depfile.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    made = target.stat().st_mtime
    return all(Path(n).exists() and Path(n).stat().st_mtime <= made for n in names)


@contextmanager
def objects_folder(objects: Path, compilers: dict[str, list[str]]) -> Iterator[Path]:
    """Hold the folder of the objects that these compilers make with these flags.

    An object tells nobody which compiler wrote it, so each set of commands has a folder of its own, and so have each
    version of a compiler and each list of precompiled headers, which gcc does not name among what a file depends on.
    Another build of the same folder waits: an object that is half written looks as if it were up to date.
    """
    name = re.sub(r"\W", "_", os.environ.get("HIPRT_BUILD_SANITIZE", "") or "plain")
    versions = [
        subprocess.run([*command, "--version"], check=True, stdout=subprocess.PIPE).stdout
        for command in compilers.values()
    ]
    folder = (
        objects / f"{name}-{hashlib.sha256(repr((compilers, versions, STANDARD_HEADERS)).encode()).hexdigest()[:12]}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder


def compile_all(sources: list[Path], objects: Path, compilers: dict[str, list[str]]) -> list[Path]:
    """Compile sources, each by the compiler of its suffix, into objects; only what changed is compiled again."""

    def compile_one(source: Path) -> Path:
        out = objects / source.relative_to(ROOT).with_suffix(".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        if not up_to_date(out, out.with_suffix(".d")):
            subprocess.run([*compilers[source.suffix], "-MMD", "-c", str(source), "-o", str(out)], check=True)
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def precompile(header: Path, command: list[str]) -> list[str]:
    """Precompile a header for a compiler that is to include it in front of every file; return its command for that.

    Both gcc and clang find the precompiled form by its name beside the header, or else read the header.
    """
    made = header.with_name(f"{header.name}.gch")
    if not up_to_date(made, made.with_suffix(".d")):
        subprocess.run(
            [*command, "-MMD", "-MF", str(made.with_suffix(".d")), "-x", "c++-header", str(header), "-o", str(made)],
            check=True,
        )
    return [*command, "-include", str(header)]


def needs_python(file: Path) -> bool:
    """Whether a C file of the core includes Python.h, by itself or through headers of the core."""
    text = file.read_text()
    headers = [folder / name for name in re.findall(r'#include "(.*)"', text) for folder in CORE_FOLDERS]
    return "<Python.h>" in text or any(needs_python(header) for header in headers if header.exists())


def plain_sources() -> list[Path]:
    """Return the C files of the core that work without Python."""
    return [file for folder in CORE_FOLDERS for file in sorted(folder.glob("*.c")) if not needs_python(file)]


def public_functions() -> list[str]:
    """Return the names of the functions that the public header declares."""
    text = re.sub(r"/\*.*?\*/", "", PUBLIC_HEADER.read_text(), flags=re.DOTALL)
    return re.findall(r"^[a-z][\w *]*?\b(hiprt_\w+)\(", text, re.MULTILINE)


def library_compilers() -> dict[str, list[str]]:
    """Return the command that compiles the core without Python."""
    includes = [f"-I{folder}" for folder in CORE_FOLDERS]
    flags = [*compile_flags("-std=c11"), "-DHIPRT_BUILDS_LIBRARY", "-Wno-unused-parameter", *includes]
    return {".c": [*compiler("CC"), *flags]}


def build_library(target: Path, objects: Path) -> None:
    """Compile the core without Python into ``target``, which exports what the public header declares."""
    compilers = library_compilers()
    target.parent.mkdir(parents=True, exist_ok=True)
    with objects_folder(objects, compilers) as folder:
        outs = compile_all(plain_sources(), folder, compilers)
        exports = folder / "exports.map"
        exports.write_text(f"{{ global: {' '.join(f'{name};' for name in public_functions())} local: *; }};\n")
        fresh = target.with_suffix(".so.new")
        # Its calls of its own functions stay its own, whatever else in a process has their names.
        names = f"-Wl,-soname,{target.name},--version-script={exports},-Bsymbolic"
        link = [*link_flags(), "-o", str(fresh), *map(str, outs), names, "-pthread", "-ldl"]
        subprocess.run([*compiler("CC"), *link], check=True)
        fresh.replace(target)


def build_cpu_device(target: Path, objects: Path) -> None:
    """Compile the C++ files under ``hiprt/cpu`` and link them into ``target``; only what changed is compiled again."""
    flags = [*compile_flags("-std=c++17"), f"-I{CPU}", f"-I{CACHE}", "-pthread"]
    compilers = {".cpp": [*compiler("CXX"), *flags], ".c": [*compiler("CC"), *compile_flags("-std=c11")]}
    target.parent.mkdir(parents=True, exist_ok=True)
    with objects_folder(objects, compilers) as folder:
        write_code_generation(folder / "code_generation.h")
        standard = folder / "standard.h"
        write_if_changed(standard, "".join(f"#include <{name}>\n" for name in STANDARD_HEADERS))
        compilers[".cpp"] = [*precompile(standard, compilers[".cpp"]), f"-I{folder}"]
        outs = compile_all([*sorted(CPU.rglob("*.cpp")), *sorted(CACHE.glob("*.c"))], folder, compilers)
        fresh = target.with_suffix(".so.new")
        whole = "-Wl,-z,now" if sanitize_flags() else "-Wl,--no-undefined"
        names = f"-Wl,-soname,{target.name},--version-script={CPU / 'exports.map'}"
        link = [*link_flags(), "-o", str(fresh), *map(str, outs), names, whole, "-pthread", "-ldl"]
        subprocess.run([*compiler("CXX"), *link], check=True)
        put_in_place(fresh, target)


def write_if_changed(header: Path, text: str) -> None:
    """Write a header; one that says the same already is left alone, so that nothing is compiled for it again."""
    if not header.exists() or header.read_text() != text:
        header.write_text(text)


def write_code_generation(header: Path) -> None:
    """Define the hash of the code in `CODE_GENERATION`'s sources.

    Comments, blank lines and includes do not count, so that rewording a comment or moving a file makes nobody compile
    their kernels again.
    """
    digest = hashlib.sha256()
    for name in CODE_GENERATION:
        for end in ("cpp", "h"):
            source = (CPU / f"{name}.{end}").read_text()
            code = re.sub(r"(?m)(^|\s+)//(\s.*)?$|^#include .*$", "", source)
            digest.update("\n".join(line for line in code.splitlines() if line.strip()).encode())
    write_if_changed(header, f'#define HIPRT_CODE_GENERATION "{digest.hexdigest()}"\n')


def build_c_library(folder: Path, target: Path) -> None:
    """Compile the C files of a folder into ``target``: the null provider, HIP over NVIDIA's driver."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".so.new")
    sources = [str(source) for source in sorted(folder.glob("*.c"))]
    link = [*link_flags(), "-o", str(fresh), *sources, f"-Wl,-soname,{target.name}", "-pthread", "-ldl"]
    subprocess.run([*compiler("CC"), *compile_flags("-std=c11"), *link], check=True)
    put_in_place(fresh, target)


if __name__ == "__main__":
    for library in C_LIBRARIES:
        build_c_library(NATIVE.parent / library, library_file(NATIVE.parent, library))
    build_cpu_device(library_file(NATIVE.parent, "cpu"), ROOT / "build" / "cpu")
    build_library(library_target(NATIVE.parent), ROOT / "build" / "libhiprt")
