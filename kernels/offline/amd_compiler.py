"""The offline compiler for AMD GPUs: the clang and the lld in the PyPI package ziglang, without ROCm.

``zig clang`` and ``zig ld.lld`` are the tools themselves; ``zig cc`` is not used, because it turns optimisations of the
AMD backend off. No HIP headers and no device libraries are needed: the dialect's prelude has words of its own, and
plain HIP gets those of ``prelude/hip.h``.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from hiprt.errors import CompileError, ProviderError
from hiprt.flags import flags
from hiprt.kernels.lang.dialect import DIALECTS, PRELUDE
from hiprt.provider import zig_binary

__all__ = ["Compiler", "hip_program"]

# Code objects of version 5 are loaded by HIP 6.0 and later. HIP 6.1 and 6.2 refuse version 6, which clang would choose.
COMPILE = """-x hip --offload-device-only -nogpuinc -nogpulib -fdeclspec -fno-math-errno -ffp-contract=off
-fuse-cuid=none -mcode-object-version=5 -std=c++17 -O3 -S - -o -""".split()
ASSEMBLE = "--target=amdgcn-amd-amdhsa -x assembler -c - -o".split()
LINK = ["-shared", "--no-undefined", "-o"]
# A program may include these headers of HIP and C. prelude/hip.h, which comes first, declares what they would declare.
HEADERS = ("hip/hip_runtime.h", "hip/hip_fp16.h", "stdint.h", "cstdint", "stddef.h", "cstddef", "math.h", "cmath")
UNDEFINED = re.compile(r"undefined (?:hidden )?symbol: (\S+)|no libcall available for f?(\w+)")
SECONDS = 300  # the time limit: a compiler that takes longer is stuck
HIPRTC_ERROR_COMPILATION = 6


def hip_program(text: str, file: str) -> str:
    """Return plain HIP source behind the declarations that hiprtc has built in; messages name `file`.

    The text of `hiprt.kernels.Kernel.text` has its own declarations and does not need this.
    """
    if text.startswith(DIALECTS["hip"].prelude):
        return text
    prelude = "".join(f'#line 1 "hiprt/{name}"\n{(PRELUDE / name).read_text()}' for name in ("target.h", "hip.h"))
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'{prelude}#line 1 "{quoted}"\n{text}'


class Compiler:
    """The offline compiler.

    Parameters
    ----------
    zig : path, optional
        The zig binary; default: ``HIPRT_CPU_ZIG``, then the one of the package ziglang.

    Raises
    ------
    ProviderError
        There is no zig binary.
    """

    def __init__(self, zig: str | Path | None = None) -> None:
        found = zig or flags.cpu_zig or zig_binary()
        if not found or not Path(found).is_file():
            raise ProviderError(
                "no compiler for AMD targets",
                [(str(found or "ziglang"), "not found: pip install ziglang, or set HIPRT_CPU_ZIG to a zig binary")],
            )
        self.zig = str(found)

    @cached_property
    def version(self) -> str:
        """The compiler's version as it prints it: ``clang version 22.1.8``."""
        return self.tool(["clang", "--version"], b"", "version", self.zig).decode().splitlines()[0].split(" (")[0]

    def assembly(self, text: str, name: str, target: str, options: Sequence[str] = ()) -> str:
        """Compile a program and return its assembly.

        Parameters
        ----------
        text : str
        name : str
            The program's name, used in messages.
        target : str
            The architecture, for example ``gfx1201``.
        options : sequence of str
            More of clang's options.

        Raises
        ------
        CompileError
            The program does not compile; ``log`` has the compiler's lines.
        """
        with tempfile.TemporaryDirectory(prefix="hiprt-") as folder:
            for header in HEADERS:
                Path(folder, header).parent.mkdir(exist_ok=True)
                Path(folder, header).touch()
            command = ["clang", f"--offload-arch={target}", "-I", folder, *options, *COMPILE]
            return self.tool(command, text.encode(), f"compile for {target}", name).decode()

    def code_object(self, assembly: str, name: str, target: str) -> bytes:
        """Assemble and link, and return the code object.

        Raises
        ------
        CompileError
            The program calls a function that is defined nowhere.
        """
        with tempfile.TemporaryDirectory(prefix="hiprt-") as folder:
            made, linked = Path(folder, "program.o"), Path(folder, "program.co")
            command = ["clang", f"-mcpu={target}", *ASSEMBLE, str(made)]
            self.tool(command, assembly.encode(), f"assemble for {target}", name)
            self.tool(["ld.lld", *LINK, str(linked), str(made)], b"", f"link for {target}", name)
            return linked.read_bytes()

    def tool(self, command: Sequence[str], text: bytes, call: str, name: str) -> bytes:
        """Run one of the tools in the zig binary on a text; return what it writes to stdout."""
        try:
            done = subprocess.run([self.zig, *command], input=text, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            log = f"hiprt: the compiler did not end within {SECONDS} seconds on {name}"
        except OSError as error:
            raise ProviderError("no compiler for AMD targets", [(self.zig, str(error))]) from None
        else:
            if done.returncode == 0:
                return done.stdout
            log = done.stderr.decode(errors="replace").strip() or f"hiprt: the compiler ended with {done.returncode}"
        raise CompileError(HIPRTC_ERROR_COMPILATION, "HIPRTC_ERROR_COMPILATION", call, name, explained(log, name))


def explained(log: str, name: str) -> str:
    """Return a compiler's log; it begins with the cause if the compiler's own message does not name that."""
    undefined = UNDEFINED.search(log)
    if not undefined:
        return log
    function = undefined[1] or undefined[2]
    return (
        f"hiprt: {name} calls {function}, which the source does not define; AMD's device libraries (erf, tanh, ...) "
        f"are not linked here: write it in the source\n{log}"
    )
