"""Wheels: hiprt compiled for an architecture and every C library from an old one on, so that nobody needs a compiler.

``python hiprt/native/wheel.py [--out FOLDER] [ARCHITECTURE ...]`` makes them on any machine: the clang of the package
ziglang compiles for all architectures. Beside it the packages setuptools and cffi are needed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = (2, 28)
# setuptools reads more of its configuration from a file that a variable names.
CONFIGURATION = """\
[build]
build_base = {work}
[egg_info]
egg_base = {work}
[bdist_wheel]
plat_name = manylinux_{glibc[0]}_{glibc[1]}_{architecture}
py_limited_api = cp310
"""
BUILD = """
import sys
from setuptools import build_meta
print(build_meta.build_wheel(sys.argv[1], {"--global-option": ["--quiet"]}))
"""


def zig() -> Path:
    """Return the compiler of the package ziglang."""
    spec = find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('wheels are compiled by the package ziglang: pip install "hiprt[cpu]"')
    return Path(spec.submodule_search_locations[0]) / "zig"


def python_headers(architecture: str) -> str:
    """Return the option that lets Python's headers be found, which Debian divides: one of them lies by architecture.

    All architectures here are 64-bit and little-endian, and have the same one.
    """
    include = Path(sysconfig.get_path("include"))
    own = include.parent / str(sysconfig.get_config_var("MULTIARCH")) / include.name / "pyconfig.h"
    if not own.exists():
        return ""
    folder = ROOT / "build" / "headers"
    copy = folder / f"{architecture}-linux-gnu" / include.name / own.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(own.read_bytes())
    return f"-I{shlex.quote(str(folder))}"


def compilers(architecture: str) -> dict[str, str]:
    """Return what the build takes from the environment to compile for an architecture."""
    target = f"-target {architecture}-linux-gnu.{GLIBC[0]}.{GLIBC[1]} {python_headers(architecture)}".strip()
    program = shlex.quote(str(zig()))
    named = {variable: f"{program} {tool} {target}" for variable, tool in (("CC", "cc"), ("CXX", "c++"))}
    # Python's own flags for the linker are those of the compiler that Python was built by.
    return {**named, "LDSHARED": f"{named['CC']} -shared", "LDFLAGS": "-s"}


def build_wheel(architecture: str, out: Path) -> Path:
    """Build the wheel for an architecture.

    Parameters
    ----------
    architecture : str
        One of `ARCHITECTURES`.
    out : Path
        The folder that the wheel is put into.

    Returns
    -------
    Path
        The wheel's file.

    Raises
    ------
    SystemExit
        The build failed, and has said why; or the package ziglang is not installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        configuration = Path(work) / "setup.cfg"
        configuration.write_text(CONFIGURATION.format(work=work, glibc=GLIBC, architecture=architecture))
        given = {name: value for name, value in os.environ.items() if name not in ("CFLAGS", "HIPRT_BUILD_SANITIZE")}
        given |= {**compilers(architecture), "DIST_EXTRA_CONFIG": str(configuration)}
        command = [sys.executable, "-c", BUILD, str(out.resolve())]
        child = subprocess.run(command, cwd=ROOT, env=given, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        raise SystemExit(f"the wheel for {architecture} was not built")
    return out / child.stdout.splitlines()[-1]


def main() -> None:
    """Build the wheels that the command line asks for, and print their files."""
    parser = argparse.ArgumentParser(description="Build wheels that need no compiler.")
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help="x86_64, aarch64; by default both")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder that they are put into")
    options = parser.parse_args()
    unknown = set(options.architectures) - set(ARCHITECTURES)
    if unknown:
        parser.error(f"no such architecture: {', '.join(sorted(unknown))}")
    for architecture in options.architectures or ARCHITECTURES:
        print(build_wheel(architecture, options.out))


if __name__ == "__main__":
    main()
