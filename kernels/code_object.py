"""What a code object for AMD says of its kernels: the note of its ELF file (LLVM's "User Guide for AMDGPU Backend")."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["CodeObject", "KernelArgument", "KernelMetadata"]

ELF_NOTES, AMDGPU_METADATA = 7, 32  # SHT_NOTE, NT_AMDGPU_METADATA
# First bytes of MessagePack: what follows is a length or the number itself.
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
INTEGERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
ARRAYS = {0xDC: ">H", 0xDD: ">I"}
MAPS = {0xDE: ">H", 0xDF: ">I"}


@dataclass(frozen=True)
class KernelArgument:
    """One argument as the machine code reads it.

    Attributes
    ----------
    offset, size : int
        Bytes, in the argument block.
    kind : str
        ``global_buffer``, ``by_value`` or a ``hidden_`` one that the runtime fills in.
    access : str
        What the machine code does with a buffer: ``read_only``, ``write_only``, ``read_write``; empty if not known.
    """

    offset: int
    size: int
    kind: str
    access: str


@dataclass(frozen=True)
class KernelMetadata:
    """One kernel of a code object.

    Attributes
    ----------
    name : str
    arguments : tuple of KernelArgument
        The declared ones, then the hidden ones.
    numbers : dict
        Every integer of the kernel's metadata, by its name without the dot: ``vgpr_count``, ``sgpr_spill_count`` …
    """

    name: str
    arguments: tuple[KernelArgument, ...]
    numbers: dict[str, int]


class CodeObject:
    """The metadata of a code object.

    Parameters
    ----------
    code : bytes
        An ELF file for amdgcn.

    Attributes
    ----------
    target : str
        For example ``gfx1201``, or ``gfx942:xnack-``.
    kernels : tuple of KernelMetadata

    Raises
    ------
    ValueError
        This is not a code object for AMD.
    """

    def __init__(self, code: bytes) -> None:
        try:
            metadata = next((MessagePack(note).value() for kind, note in notes(code) if kind == AMDGPU_METADATA), None)
        except (struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"not a code object for AMD: its metadata is cut off ({error})") from None
        if metadata is None:
            raise ValueError("not a code object for AMD: it has no metadata note")
        self.target: str = metadata["amdhsa.target"].split("--")[-1]
        self.kernels = tuple(kernel_of(entry) for entry in metadata["amdhsa.kernels"])


def kernel_of(entry: dict[str, Any]) -> KernelMetadata:
    """Return one entry of ``amdhsa.kernels``."""
    arguments = tuple(
        KernelArgument(one[".offset"], one[".size"], one[".value_kind"], one.get(".actual_access", ""))
        for one in entry.get(".args", ())
    )
    numbers = {name[1:]: int(value) for name, value in entry.items() if isinstance(value, int)}
    return KernelMetadata(entry[".name"], arguments, numbers)


def notes(code: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each note of a 64-bit ELF file."""
    if code[:5] != b"\x7fELF\x02" or len(code) < 64:
        raise ValueError("not a code object for AMD: not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    for section in range(table, table + size * count, size):
        kind, at, nbytes = struct.unpack_from("<4xI16xQQ", code, section)
        end = at + nbytes
        while kind == ELF_NOTES and at < end:
            name, content, note = struct.unpack_from("<III", code, at)
            at += 12 + name + -name % 4
            yield note, code[at : at + content]
            at += content + -content % 4


class MessagePack:
    """Reader of the part of MessagePack that the metadata uses: maps, arrays, text, integers and booleans.

    Parameters
    ----------
    data : bytes
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: str) -> int:
        """Read an integer of a struct format."""
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def text(self, size: int) -> str:
        """Read text of a length in bytes."""
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def array(self, count: int) -> list[Any]:
        """Read the elements of an array."""
        return [self.value() for _ in range(count)]

    def map(self, count: int) -> dict[str, Any]:
        """Read the entries of a map."""
        return {self.value(): self.value() for _ in range(count)}

    def value(self) -> Any:
        """Read the next value.

        Raises
        ------
        ValueError
            It is of a type that the metadata does not use.
        """
        tag = self.number(">B")
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        for first, mask, read in ((0x80, 0x0F, self.map), (0x90, 0x0F, self.array), (0xA0, 0x1F, self.text)):
            if tag & ~mask == first:
                return read(tag & mask)
        for table, sized in ((MAPS, self.map), (ARRAYS, self.array), (TEXTS, self.text)):
            if tag in table:
                return sized(self.number(table[tag]))
        if tag in INTEGERS:
            return self.number(INTEGERS[tag])
        if tag in CONSTANTS:
            return CONSTANTS[tag]
        raise ValueError(f"the metadata of this code object has a value of MessagePack type {tag:#x}")
