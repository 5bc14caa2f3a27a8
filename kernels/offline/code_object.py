"""What a code object for AMD says of its kernels: the note of its ELF file (LLVM's "User Guide for AMDGPU Backend")."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from hiprt.extras import missing

try:
    import msgpack
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import NoteSection
except ImportError as error:
    raise missing(error, "offline") from None

__all__ = ["CodeObject", "KernelArgument", "KernelMetadata"]

METADATA_NOTE: tuple[object, object] = ("AMDGPU", 32)  # its name, and NT_AMDGPU_METADATA


@dataclass(frozen=True)
class KernelArgument:
    """One argument as the machine code reads it.

    Attributes
    ----------
    offset, size : int
        Its place in the argument block, in bytes.
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
            metadata = metadata_of(code)
            self.target: str = metadata["amdhsa.target"].split("--")[-1]
            self.kernels = tuple(kernel_of(entry) for entry in metadata["amdhsa.kernels"])
        except KeyError as error:
            raise ValueError(f"not a code object for AMD: its metadata has no {error}") from None
        except (ELFError, ValueError) as error:
            raise ValueError(f"not a code object for AMD: {error}") from None


def metadata_of(code: bytes) -> dict[str, Any]:
    """Return the metadata of a code object: the MessagePack map in the note that LLVM puts it in.

    Raises
    ------
    ELFError
        This is no ELF file, or it is cut off.
    ValueError
        It has no such note, or the note is no MessagePack.
    """
    for section in ELFFile(BytesIO(code)).iter_sections():
        for note in section.iter_notes() if isinstance(section, NoteSection) else ():
            if (note["n_name"], note["n_type"]) == METADATA_NOTE:
                try:
                    metadata: dict[str, Any] = msgpack.unpackb(note["n_descdata"])
                except (ValueError, msgpack.UnpackException):
                    raise ValueError("its metadata is not MessagePack") from None
                return metadata
    raise ValueError("it has no metadata note")


def kernel_of(entry: dict[str, Any]) -> KernelMetadata:
    """Return one entry of ``amdhsa.kernels``."""
    arguments = tuple(
        KernelArgument(one[".offset"], one[".size"], one[".value_kind"], one.get(".actual_access", ""))
        for one in entry.get(".args", ())
    )
    numbers = {name[1:]: int(value) for name, value in entry.items() if isinstance(value, int)}
    return KernelMetadata(entry[".name"], arguments, numbers)
