"""A real hiprtc as the offline compiler: the one of a ROCm that is installed or unpacked, without its GPU.

``kernels/offline/rocm.sh`` unpacks ROCm's packages into a folder with a program ``run``, which starts other programs
with the packages' own dynamic linker and libraries. An installation has no such program; its libraries are opened by
this machine's linker. Either way a process of its own compiles (``rocm_process.py``), so that nothing of it is mapped
here.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from hiprt.errors import CompileError, ProviderError
from hiprt.extras import missing
from hiprt.shared_libraries import beside, own_version, versions_in

try:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection
except ImportError as error:
    raise missing(error) from None

__all__ = ["Rocm", "RocmCompiler"]

FOLDERS = ("lib", "lib64", "root/usr/lib/*", "root/opt/rocm*/lib")
PROCESS = Path(__file__).with_name("rocm_process.py")
JUMP = re.compile(r"(s_c?branch\w*) (-?\d+)")
JUMP_BYTES = 4


class Rocm(NamedTuple):
    """A ROCm in a folder.

    Attributes
    ----------
    hip, hiprtc, comgr : Path
        The libraries: the runtime, hiprtc, and the compiler behind it.
    start : tuple of str
        What starts Python so that it can open them.
    """

    hip: Path
    hiprtc: Path
    comgr: Path
    start: tuple[str, ...]

    @property
    def version(self) -> str:
        """HIP's version by the name of the runtime's file, for example ``6.4.43484``."""
        return ".".join(map(str, own_version(self.hip)))

    @classmethod
    def find(cls, folder: Path) -> Rocm:
        """Return the newest ROCm in a folder.

        Raises
        ------
        ProviderError
            The folder has no runtime with a hiprtc of its version and a comgr beside it.
        """
        places = [place for pattern in FOLDERS for place in sorted(folder.glob(pattern))]
        for hip in (file for place in places for file in versions_in(place, "libamdhip64.so")):
            hiprtc = beside(hip, "libhiprtc.so")
            comgr = next((file for file in versions_in(hip.parent, "libamd_comgr.so")), None)
            if hiprtc is not None and comgr is not None:
                run = folder / "run"
                start = (str(run), "python3") if run.exists() else (sys.executable,)
                return cls(hip.absolute(), hiprtc.absolute(), comgr.absolute(), start)
        reason = (
            "no libamdhip64.so with its libhiprtc.so and libamd_comgr.so is there: name an installed ROCm, or a folder "
            "that kernels/offline/rocm.sh made"
        )
        raise ProviderError("there is no ROCm", [(str(folder), reason)])


class RocmCompiler:
    """The hiprtc of a ROCm. Each thread that compiles has a process of its own.

    Parameters
    ----------
    rocm : Rocm
    """

    def __init__(self, rocm: Rocm) -> None:
        self.rocm = rocm
        self.thread = threading.local()
        self.processes: list[subprocess.Popen[str]] = []

    @property
    def version(self) -> str:
        """The compiler's name for reports: ``hiprtc of HIP 6.4.43484``."""
        return f"hiprtc of HIP {self.rocm.version}"

    def compile(self, text: str, name: str, target: str, options: Sequence[str] = ()) -> tuple[str, bytes]:
        """Compile a program; return its assembly and its code object.

        Parameters
        ----------
        text, name : str
            HIP C++, and the program's name in messages.
        target : str
            The architecture, for example ``gfx1201``.
        options : sequence of str
            More of hiprtc's options.

        Raises
        ------
        CompileError
            The program does not compile; ``log`` has the compiler's lines.
        ProviderError
            The compiler's process ended.
        """
        every = [f"--offload-arch={target}", *options]
        answer = self.ask({"name": name, "text": text, "options": every})
        if answer["status"]:
            raise CompileError(
                answer["status"], answer["status_name"], f"compile for {target}", name, answer["log"] or self.version
            )
        code = base64.b64decode(answer["code"])
        return "".join(self.assembly(function, body, target) for function, body in functions_of(code)), code

    def assembly(self, function: str, body: bytes, target: str) -> str:
        """Return a function as assembly, in the form in which clang prints one."""
        lines = self.ask({"code": base64.b64encode(body).decode(), "target": target})["lines"]
        return "\n".join([f"{function}:", *labelled(lines), ".Lfunc_end0:", ""])

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send an object to this thread's process, and return the answer."""
        process = getattr(self.thread, "process", None)
        if process is None:
            command = [*self.rocm.start, str(PROCESS), str(self.rocm.hiprtc), str(self.rocm.comgr)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.thread.process = process
            self.processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            reason = f"its process ended with status {process.wait()} on {question.get('name', 'machine code')}"
            raise ProviderError("a compiler ended", [(self.version, reason)])
        return dict(json.loads(line))

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.communicate()
        self.processes.clear()
        self.thread = threading.local()


def labelled(lines: Iterable[tuple[int, str]]) -> list[str]:
    """Return the lines of a disassembly with labels where a jump leads to.

    Parameters
    ----------
    lines : iterable of (int, str)
        Each instruction with the byte at which it begins. A jump has the number of words behind it, in 16 bits with a
        sign, that it skips.
    """
    found, targets = [], set()
    for at, line in lines:
        text = line.strip()
        if jump := JUMP.fullmatch(text):
            skipped = (int(jump[2]) + (1 << 15)) % (1 << 16) - (1 << 15)
            target = at + JUMP_BYTES + 4 * skipped
            targets.add(target)
            text = f"{jump[1]} .LBB0_{target}"
        found.append((at, f"\t{text}"))
    return [each for at, text in found for each in ([f".LBB0_{at}:", text] if at in targets else [text])]


def functions_of(code: bytes) -> list[tuple[str, bytes]]:
    """Return the name and the machine code of each function of a code object."""
    elf = ELFFile(BytesIO(code))
    tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
    found = {}
    for symbol in (symbol for table in tables for symbol in table.iter_symbols()):
        if symbol["st_info"]["type"] == "STT_FUNC":
            section = elf.get_section(symbol["st_shndx"])
            at = section["sh_offset"] + symbol["st_value"] - section["sh_addr"]
            found[symbol.name] = code[at : at + symbol["st_size"]]
    return list(found.items())
