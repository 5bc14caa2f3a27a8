"""``hiprt run``: a program written for MLX, on hiprt."""

from __future__ import annotations

import argparse
import gc
import os
import runpy
import signal
import sys
from importlib.util import find_spec
from io import open_code
from types import ModuleType
from zipfile import is_zipfile as is_archive

from hiprt.command import set_program
from hiprt.metal_compat.stand_in import INSTALL, stand_in

__all__ = ["add_arguments", "run"]

DESCRIPTION = """Run a Python program with hiprt in place of mlx.core, for this program only: nothing installed is
changed. mlx.nn, mlx.utils and what else of MLX is Python come from the package mlx, mlx_lm from mlx-lm;
pip install 'hiprt[mlx]' brings both. The program gets its arguments, its exit status and its tracebacks as from
python itself."""
EPILOG = "hiprt run -m mlx_lm generate --model PATH --prompt TEXT"
PACKAGES = ("mlx", "mlx_lm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hiprt run``."""
    parser.description, parser.epilog = DESCRIPTION, f"example: {EPILOG}"
    parser.usage = "hiprt run [-h] (-m MODULE | FILE) [ARGUMENT ...]"
    # What begins with a dash belongs to the program, as does all behind it.
    parser.prefix_chars = ""
    parser.add_argument(
        "words",
        metavar="-m MODULE | FILE",
        nargs=argparse.REMAINDER,
        help="a module or package, as for python -m, or a Python file, or a folder or archive with __main__.py; then "
        "the arguments that it gets",
    )
    parser.set_defaults(show_help=parser.print_help)
    set_program(parser, run)


def run(options: argparse.Namespace) -> int:
    """Run the program that was named; what it raises passes.

    Returns
    -------
    int
        0, as the program ended without ``sys.exit``.
    """
    words = list(options.words)
    if words[:1] in (["-h"], ["--help"]):
        options.show_help()
        return 0
    is_module = words[:1] == ["-m"]
    if is_module:
        del words[0]
    if not words:
        print("hiprt run: a module (-m MODULE) or a file is needed; hiprt run --help shows more", file=sys.stderr)
        return 2
    name, *arguments = words
    problem = missing(name) if is_module else unreadable(name)
    if problem:
        print(f"hiprt run: {problem}", file=sys.stderr)
        return 1 if is_module else 2
    stand_in()
    look_seldom()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = os.getcwd() if is_module else os.path.dirname(os.path.abspath(name))
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    sys.argv = [name, *arguments]
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif os.path.isfile(name) and not is_archive(name):
        run_file(name)
    else:
        runpy.run_path(name, run_name="__main__")
    return 0


def look_seldom() -> None:
    """Let Python's collector look at objects a hundredth as often.

    The packages of mlx-lm have some 100,000 objects, 500,000 with torch beside them. A look at all of them takes a
    quarter of a second, the time of a hundred tokens. The objects of a token go by themselves, without the collector.
    """
    first, second, third = gc.get_threshold()
    gc.set_threshold(100 * first, second, third)


def run_file(name: str) -> None:
    """Run a file as the module ``__main__``, which stays that when it has ended: threads may look for it."""
    module = ModuleType("__main__")
    module.__file__ = os.path.abspath(name)
    with open_code(name) as file:
        code = compile(file.read(), module.__file__, "exec")
    sys.modules["__main__"] = module
    exec(code, vars(module))


def missing(module: str) -> str | None:
    """Return what to say of a module of MLX's packages that is not installed."""
    package = module.partition(".")[0]
    if package in PACKAGES and find_spec(package) is None:
        return f"No module named {package}: {INSTALL} brings it"
    return None


def unreadable(file: str) -> str | None:
    """Return what to say of a file that is not there."""
    return None if os.path.exists(file) else f"can't open file {os.path.abspath(file)!r}: No such file or directory"
