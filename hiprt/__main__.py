"""The command ``hiprt``, also ``python -m hiprt``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from hiprt import CompileError, HipError, ProviderError, __version__
from hiprt.command import add_commands
from hiprt.errors import RankError
from hiprt.extras import MissingExtraError, missing
from hiprt.interrupt import STATUS, end_at_once, is_command, raise_in_command, said

__all__ = ["main"]

FAILURE = 1
COMMANDS = {
    "generate": ("hiprt.bench.engine.command", "write text with a model"),
    "chat": ("hiprt.bench.engine.chat", "converse with a model"),
    "run": ("hiprt.metal_compat.run", "run a program written for MLX: hiprt run -m mlx_lm generate …"),
    "launch": ("hiprt.distributed.launcher", "run a program as several ranks, each on a device of this host"),
    "graph": ("hiprt.graphs.command", "show what steps launched: timeline, memory, rungs and why"),
    "bench": ("hiprt.bench", "measure graphs, allocation, decoding and kernels, beside others"),
    "tune": (
        "hiprt.bench.tune",
        "time ahead how a model's kernels are best shared out on a GPU without a measured table",
    ),
    "compile": ("hiprt.metal_compat.compile", "compile kernels ahead, also for GPUs not here"),
    "hipcc": ("hiprt.hipcc", "compile a HIP program, host code and kernels, for the CPU device"),
    "rocm-prefix": ("hiprt.rocm_prefix", "write a folder in the shape of ROCm for build systems: the CPU device"),
    "check": ("hiprt.check", "run a program on the CPU device and check its kernels for defects"),
    "doctor": ("hiprt.doctor", "show what hiprt runs on and what stands in its way"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status. For wrong usage argparse raises SystemExit with status 2.
    """
    is_debug = False
    try:
        if is_command():
            raise_in_command()
            open_streams()
        options = parser().parse_args(argv)
        options.argv = sys.argv[1:] if argv is None else list(argv)
        is_debug = options.debug
        if not options.is_program:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                return int(options.run(options))
    except KeyboardInterrupt:
        print(said(), end="", file=sys.stderr)
        return STATUS
    except BrokenPipeError:
        # The reader has gone (`hiprt generate | head`); what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except ModuleNotFoundError as error:
        if is_debug or not isinstance(missing(error), MissingExtraError):
            raise
        print(f"hiprt: {missing(error)}", file=sys.stderr)
        return FAILURE
    except (HipError, ProviderError, RankError, ValueError, OSError, MemoryError, MissingExtraError) as error:
        if is_debug:
            raise
        print(f"hiprt: {sentence(error)}", file=sys.stderr)
        return FAILURE
    finally:
        if is_command():
            end_at_once()
    return int(options.run(options))


def open_streams() -> None:
    """Open the standard streams that the process was started without, which Python leaves None: nobody reads them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it imports a subcommand's module when the subcommand is named."""
    top = argparse.ArgumentParser("hiprt", description="One HIP graph launch per token.")
    top.add_argument("--version", action="version", version=f"hiprt {__version__}")
    add_commands(top, COMMANDS, "COMMAND", title="commands")
    return top


def sentence(error: BaseException) -> str:
    """Return an error as one line."""
    from hiprt.doctor import cause

    text = str(error) or type(error).__name__
    if isinstance(error, ProviderError):
        text = f"{error.args[0]}: " + "; ".join(f"{name}: {reason}" for name, reason in error.tried)
    elif isinstance(error, CompileError) and error.log:
        text = cause(error.log) if error.log.startswith("hiprt: ") else f"{HipError.__str__(error)}: {cause(error.log)}"
    return " ".join(text.split())


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line."""
    print(f"hiprt: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
