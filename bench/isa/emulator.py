"""The ISA emulator in tinygrad's repository executes AMD code objects on the host, instruction by instruction.

It shows whether machine code computes the right numbers, and nothing about speed, caches or races. The emulator is in
``test/mockgpu/amd`` of a checkout of github.com/tinygrad/tinygrad (commit a9069c177a of August 2026 works) and needs
``clang`` on the path.
"""

from __future__ import annotations

import ctypes
import inspect
import mmap
import os
import re
import shutil
import struct
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from hiprt.kernels.offline.code_object import CodeObject, KernelMetadata

__all__ = ["Emulator"]

FAMILIES = {"gfx9": "cdna", "gfx11": "rdna3", "gfx12": "rdna4"}
S_NOP = bytes.fromhex("000080bf")
# Instructions that maintain caches, which the emulator does not decode and does not need, since it runs everything in
# order: buffer_gl0_inv and buffer_gl1_inv of RDNA 3, buffer_wbl2 and buffer_inv of CDNA 3 with the scope of the device,
# global_wb and global_inv of RDNA 4 with each scope.
UNDECODED = {"0000ace000000000", "0000b0e000000000", "0080a0e000000000", "0080a4e000000000"} | {
    f"7c{op}ee0000{scope}0000000000" for op in ("000b", "c00a") for scope in ("04", "08", "0c")
}
# The emulator lacks ds_swizzle_b32. This is its mode with three masks of five bits, which moves words within 32 lanes,
# in the emulator's notation.
SWIZZLE = """declare tmp : 32'B[64];
declare OFFSET : 16'U;
declare ADDR : 32'U;
declare VDST : 32'U;
for i in 0 : WAVE64 ? 63 : 31 do
tmp[i] = 0x0
endfor;
for i in 0 : WAVE64 ? 63 : 31 do
low = (i & 31) & (OFFSET.u32 & 31U) | ((OFFSET.u32 >> 5U) & 31U);
src_lane = (i & 32) | (low ^ ((OFFSET.u32 >> 10U) & 31U));
if EXEC[src_lane].u1 then
tmp[i] = VGPR[src_lane][ADDR]
endif
endfor;
for i in 0 : WAVE64 ? 63 : 31 do
if EXEC[i].u1 then
VGPR[i][VDST] = tmp[i]
endif
endfor"""
# The lane that ds_bpermute_b32 reads is a remainder, which is negative for some bits of lanes that are switched off.
SOURCE = re.compile(r"src_lane = .* % (\d+)U?;")
MASKED = r"src_lane = ((VGPR[i][ADDR].u32 + OFFSET.u32) >> 2U) & (\1U - 1U);"
ROW_XMASK, QUAD_PERM_OWN = 0x160, 0xE4  # controls of DPP: the latter moves nothing
# What ``emu.py`` of a9069c177a does wrong, by its functions: what is replaced there, and by what. An entry can go with
# a later checkout in which it matches nothing. A 16-bit operand v128 or later is the high half of a register on RDNA 3
# and later only, on CDNA it is that register: one of five places asks for the family, src0 of ``_compile_vopc``. What a
# matrix instruction of RDNA adds to may be a constant, whose code is taken for a register's number.
HALVES = re.compile(r"bits\['(?:d|s0)'\] == 16(?= and \(|:)"), r"\g<0> and 'cdna' not in type(inst.op).__module__"
ADDED = "ctx.inst_field(type(inst).src2)"
CONSTANTS = (
    re.compile(r"ctx\.rvgpr_dyn\(src2_r \+ _c\(vgpr\), UOp\.const\(lane, dtypes\.int\)\)"),
    rf"({ADDED} >= _c(256)).where(\g<0>, ctx.rsrc_dyn({ADDED}, None))",
)
MENDED = {"_load_vsrc0": HALVES, "_compile_vop12": HALVES, "_compile_vopc": HALVES, "_compile_wmma": CONSTANTS}
LDS_GRANULE = 512
LARGEST_LDS = 64 * 1024
LDS_WINDOW = (1 << 32) + (1 << 16)
PADDING = 4096  # bytes behind the code: the emulator reads ahead


class Emulator:
    """The emulator of a checkout of tinygrad.

    Parameters
    ----------
    folder : path

    Raises
    ------
    FileNotFoundError
        The folder holds no emulator, or there is no ``clang`` on the path, by which it compiles instructions.
    """

    def __init__(self, folder: str | Path) -> None:
        if not Path(folder, "test/mockgpu/amd/emu.py").is_file():
            raise FileNotFoundError(f"{folder} has no test/mockgpu/amd/emu.py: give a checkout of tinygrad")
        if shutil.which("clang") is None:
            raise FileNotFoundError("clang is not on the path: tinygrad's emulator compiles instructions with it")
        os.environ.setdefault("DEV", "CPU")
        sys.path.insert(0, str(folder))
        from test.mockgpu.amd import emu  # type: ignore[import-not-found]

        teach(emu)
        self.emu = emu
        self.plain_buffer = emu.Buffer
        self.windows: list[mmap.mmap] = []

    def run(
        self,
        code: bytes,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        values: Sequence[Any],
    ) -> None:
        """Execute a kernel.

        Parameters
        ----------
        code : bytes
            The code object.
        kernel : str
        grid, block : tuple of 3 int
            The number of blocks, and of threads in each.
        values : sequence
            For each argument an array, which is read and written in place, or a numpy scalar.

        Raises
        ------
        RuntimeError
            The emulator lacks an instruction.
        """
        made = CodeObject(code)
        metadata = next(one for one in made.kernels if one.name == kernel)
        image, symbols = load(code)
        descriptor = symbols[kernel + ".kd"]
        lds, scratch = struct.unpack_from("<II", image, descriptor)
        (entry,) = struct.unpack_from("<q", image, descriptor + 16)
        (rsrc2,) = struct.unpack_from("<I", image, descriptor + 52)
        granules = -(-lds // LDS_GRANULE)
        rsrc2 = (rsrc2 & ~(0x1FF << 15)) | granules << 15  # where the loader would put the size of the LDS
        memory = (ctypes.c_ubyte * (len(image) + PADDING)).from_buffer(image + bytearray(PADDING))
        block_of_arguments = pack(metadata, values, grid, block)
        arguments = (ctypes.c_ubyte * len(block_of_arguments)).from_buffer(block_of_arguments)
        family = next(name for prefix, name in FAMILIES.items() if made.target.startswith(prefix))
        words = max(granules * LDS_GRANULE // 4, 1)
        self.emu.Buffer = lambda device, size, dtype, options=None: self.buffer(device, size, dtype, options, words)
        start, at = ctypes.addressof(memory) + descriptor + entry, ctypes.addressof(arguments)
        try:
            self.emu.run_asm(start, len(image), *grid, *block, at, rsrc2, scratch, family)
        finally:
            self.emu.Buffer = self.plain_buffer
            self.windows.clear()

    def buffer(self, device: str, size: int, dtype: Any, options: Any, lds_words: int) -> Any:
        """Make memory for the emulator.

        Lanes that are switched off read LDS at whatever address their register holds. So LDS, which is known by its
        size and by having no options, gets a window that holds every address.
        """
        if options is not None or size != lds_words or size > LARGEST_LDS:
            return self.plain_buffer(device, size, dtype, options=options)
        from tinygrad.device import BufferSpec  # type: ignore[import-not-found]

        unreserved = 0x4000  # MAP_NORESERVE
        window = mmap.mmap(-1, LDS_WINDOW, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unreserved)
        self.windows.append(window)
        at = ctypes.addressof(ctypes.c_char.from_buffer(window))
        return self.plain_buffer(device, size, dtype, options=BufferSpec(external_ptr=at))


def teach(emu: Any) -> None:
    """Add the swizzle to the emulator, beside the instructions that move words between lanes, and answers of atomics.

    It knows the bit by which an atomic instruction returns what was there by the name that RDNA 3 has for it. Of the
    controls of DPP it lacks row_xmask, by which a lane reads the one that an exclusive or of its number finds.
    """
    control_of = emu._dpp16_ctrl

    def control(lane: Any, dpp: int, *masks: int) -> tuple[Any, Any, Any]:
        if dpp & 0x1F0 != ROW_XMASK:
            found: tuple[Any, Any, Any] = control_of(lane, dpp, *masks)
            return found
        source, enabled, valid = control_of(lane, QUAD_PERM_OWN, *masks)
        return source ^ (dpp & 15), enabled, valid

    emu._dpp16_ctrl = control
    for table in (emu.PCODE_RDNA3, emu.PCODE_RDNA4, emu.PCODE_CDNA):
        table.update({op: SWIZZLE for op in table if op.name == "DS_SWIZZLE_B32"})
        table.update({op: SOURCE.sub(MASKED, table[op]) for op in table if op.name == "DS_BPERMUTE_B32"})
    field_of, name_of = emu._iattr, emu._op_name

    def field(instruction: Any, name: str, default: int = 0) -> int:
        if name != "glc":
            return int(field_of(instruction, name, default))
        return max(int(field_of(instruction, each)) for each in ("glc", "sc0", "th"))

    emu._iattr = field
    mend(emu)
    emu._op_name = lambda instruction: name_of(instruction).replace("DS_SWIZZLE", "DS_SWIZZLE_PERMUTE")


def mend(emu: Any) -> None:
    """Replace in the emulator's functions what `MENDED` has."""
    handlers = emu._INST_HANDLERS
    for name, (wrong, right) in MENDED.items():
        before = getattr(emu, name)
        exec(compile(wrong.sub(right, inspect.getsource(before)), emu.__file__, "exec"), vars(emu))
        handlers.update({kind: getattr(emu, name) for kind, handler in handlers.items() if handler is before})


def load(code: bytes) -> tuple[bytearray, dict[str, int]]:
    """Return a code object as it lies in memory, and the addresses of its symbols."""
    elf = ELFFile(BytesIO(code))
    image = bytearray(max(section["sh_addr"] + section["sh_size"] for section in elf.iter_sections()))
    for section in elf.iter_sections("SHT_PROGBITS"):
        if address := section["sh_addr"]:
            image[address : address + section["sh_size"]] = section.data()
    tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
    symbols = {symbol.name: symbol["st_value"] for table in tables for symbol in table.iter_symbols()}
    for word in map(bytes.fromhex, UNDECODED):
        for at in range(0, len(image), 4):
            if image.startswith(word, at):
                image[at : at + len(word)] = S_NOP * (len(word) // 4)
    return image, symbols


def pack(kernel: KernelMetadata, values: Sequence[Any], grid: Sequence[int], block: Sequence[int]) -> bytearray:
    """Return the argument block, laid out as the code object says."""
    found = bytearray(kernel.numbers["kernarg_segment_size"])
    hidden = {"block_count": grid, "group_size": block, "remainder": (0, 0, 0), "global_offset": (0, 0, 0)}
    given = iter(values)
    for argument in kernel.arguments:
        if not argument.kind.startswith("hidden_"):
            value = next(given)
            bytes_of = np.uint64(value.ctypes.data) if isinstance(value, np.ndarray) else value
            content = bytes_of.tobytes()
        else:
            name, _, axis = argument.kind.removeprefix("hidden_").rpartition("_")
            number = (
                hidden[name]["xyz".index(axis)] if name in hidden else 3 if argument.kind == "hidden_grid_dims" else 0
            )
            content = number.to_bytes(argument.size, "little")
        assert len(content) == argument.size, argument
        found[argument.offset : argument.offset + argument.size] = content
    return found
