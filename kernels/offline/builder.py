"""Building ahead of time: the programs, the backends that compile them for targets, and the build in parallel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hiprt import library
from hiprt.compiler import compile_source
from hiprt.device import current_device
from hiprt.errors import ProviderError
from hiprt.flags import flags
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.offline.amd_targets import MACHINES
from hiprt.kernels.offline.body_file import BodyFile
from hiprt.kernels.offline.catalogue import Instance, instances
from hiprt.kernels.offline.resources import Resources, resources_of
from hiprt.kernels.offline.rocm_compiler import Rocm, RocmCompiler
from hiprt.provider import CPU, ROCM

__all__ = ["BACKENDS", "Backend", "Product", "RocmBackend", "Unit", "backend_of", "build", "units"]

DEVICE = "device"  # this target stands for the device in use


@dataclass(frozen=True)
class Unit:
    """One program: an instance of a kernel, a Metal body, or HIP source.

    Attributes
    ----------
    name : str
        The name of the files that are made of the program.
    instance : Instance, optional
    body : BodyFile, optional
    path : Path, optional
        The file of HIP source.
    """

    name: str
    instance: Instance | None = None
    body: BodyFile | None = None
    path: Path | None = None

    def text(self, dialect: str) -> str:
        """Return the program in a dialect, ``hip`` or ``metal``.

        Raises
        ------
        ValueError
            HIP source has no Metal text.
        """
        if self.instance is not None:
            return self.instance.kernel.text(dialect, self.instance.template)
        if self.body is not None:
            return self.body.text(dialect)
        assert self.path is not None
        if dialect != "hip":
            raise ValueError(f"{self.path} is HIP source; a kernel for every target is written as a Metal body")
        return self.path.read_text()


@dataclass(frozen=True)
class Product:
    """The result of compiling a program for a target.

    Attributes
    ----------
    unit : Unit
    target : str
    files : dict
        The suffix and the content of each file.
    resources : list of Resources
        The resources of each kernel, on targets that report them.
    """

    unit: Unit
    target: str
    files: dict[str, bytes] = field(default_factory=dict)
    resources: list[Resources] = field(default_factory=list)


class Backend(Protocol):
    """A compiler of programs for some targets.

    Attributes
    ----------
    targets : tuple of str
        The targets' names, used in messages.
    dialect : str
        The dialect in which it takes the project's kernels, ``hip`` or ``metal``.
    offers : frozenset of str
        The options that the backend serves, of ``--report``, ``--compare``, ``--emit``, ``--out`` and ``--option``.
    is_loops : bool
        Whether kernels take their branch of plain loops there. This is known after a target was opened.
    fills_cache : bool
        Whether the cache of compiled code keeps the results. This is known after a target was opened.
    """

    targets: tuple[str, ...]
    dialect: str
    offers: frozenset[str]
    is_loops: bool
    fills_cache: bool

    def serves(self, target: str) -> bool:
        """Whether the backend compiles for a target."""

    def open(self, target: str) -> str:
        """Prepare for a target and return the name of its compiler; raise if that is impossible."""

    def build(self, unit: Unit, target: str, options: Sequence[str]) -> Product:
        """Compile a program. Any thread may call this."""


class AmdBackend:
    """The backend for AMD GPUs, which this machine need not have.

    Attributes
    ----------
    compiler : Compiler
        The compiler, which is known after a target was opened.
    """

    targets: tuple[str, ...] = tuple(MACHINES)
    dialect = "hip"
    offers = frozenset(("report", "compare", "out", "option"))
    is_loops = False
    fills_cache = False
    compiler: Compiler

    def serves(self, target: str) -> bool:
        """Whether the target without its features, ``gfx942`` of ``gfx942:xnack-``, is an AMD GPU."""
        return target.partition(":")[0] in self.targets

    def open(self, _target: str) -> str:
        """Find the compiler."""
        self.compiler = Compiler()
        return self.compiler.version

    def build(self, unit: Unit, target: str, options: Sequence[str]) -> Product:
        """Compile to a code object."""
        text = unit.text("hip")
        if unit.path is not None:
            text = hip_program(text, str(unit.path))
            options = ("-I", str(unit.path.parent), *options)
        assembly = self.compiler.assembly(text, unit.name, target, options)
        code = self.compiler.code_object(assembly, unit.name, target)
        return Product(unit, target, {".co": code}, resources_of(assembly, code))


class RocmBackend:
    """The backend for AMD GPUs by the hiprtc of a ROCm, which compiles as it would beside its GPU.

    Parameters
    ----------
    folder : Path
        An installed ROCm, or a folder that ``kernels/offline/rocm.sh`` made.
    """

    targets: tuple[str, ...] = tuple(MACHINES)
    dialect = "hip"
    offers = AmdBackend.offers
    is_loops = False
    fills_cache = False

    def __init__(self, folder: Path) -> None:
        self.compiler = RocmCompiler(Rocm.find(folder))

    def serves(self, target: str) -> bool:
        """Whether the target without its features is an AMD GPU."""
        return target.partition(":")[0] in self.targets

    def open(self, _target: str) -> str:
        """Return the compiler's name."""
        return self.compiler.version

    def build(self, unit: Unit, target: str, options: Sequence[str]) -> Product:
        """Compile to a code object, with the options that ROCm's provider gives its own hiprtc."""
        mode = () if unit.path is not None else ROCM.math_modes["safe"]
        assembly, code = self.compiler.compile(unit.text("hip"), f"{unit.name}.hip", target, (*mode, *options))
        return Product(unit, target, {".co": code}, resources_of(assembly, code))


class DeviceBackend:
    """The backend for the device in use. Its results go to the cache of compiled kernels, if its library has one."""

    targets: tuple[str, ...] = (DEVICE, CPU.name)
    dialect = "hip"
    offers: frozenset[str] = frozenset(("option",))
    is_loops: bool = False
    fills_cache: bool = False

    def serves(self, target: str) -> bool:
        """Whether the target is one of this backend's; these have no features."""
        return target in self.targets

    def open(self, target: str) -> str:
        """Open the library; ``cpu`` opens the CPU device."""
        is_cpu = target == CPU.name
        with flags.override(provider=CPU.name) if is_cpu and not library.is_open() else nullcontext():
            provider = library.current().provider
        if is_cpu and provider is not CPU:
            raise ProviderError("the CPU device is not in use", [(provider.name, "is open in this process")])
        self.is_loops, self.fills_cache = provider.takes_loops, provider.runs_kernels
        return f"{provider}, {current_device().arch}"

    def build(self, unit: Unit, target: str, options: Sequence[str]) -> Product:
        """Compile with the library's own compiler."""
        if unit.instance is not None:
            unit.instance.kernel.bind(unit.instance.template)
        else:
            mode = library.current().provider.math_modes["safe"] if unit.body else ()
            compile_source(unit.text("hip"), f"{unit.name}.hip", options=(*mode, *options))
        return Product(unit, target)


BACKENDS: tuple[Backend, ...] = (DeviceBackend(), AmdBackend())


def backend_of(target: str, backends: Sequence[Backend] = BACKENDS) -> Backend:
    """Return the backend that compiles for a target.

    Raises
    ------
    ValueError
        No backend does.
    """
    for backend in backends:
        if backend.serves(target):
            return backend
    known = ", ".join(name for backend in backends for name in sorted(backend.targets) if name != DEVICE)
    raise ValueError(f"{target!r} is not a target; known are {known}")


def units(paths: Sequence[Path], *, is_loops: bool = False, dialect: str = "hip") -> list[Unit]:
    """Return the programs of files, or without files every instance of the project's kernels.

    Parameters
    ----------
    paths : sequence of Path
    is_loops : bool
        Whether the instances are those of the CPU device's branch of plain loops.
    dialect : str
        The dialect of the instances, ``hip`` or ``metal``.

    Raises
    ------
    ValueError
        A body file does not name its arguments, or two files have one name.
    OSError
        A file cannot be read.
    """
    if not paths:
        return [Unit(instance.symbol, instance) for instance in instances(is_loops=is_loops, dialect=dialect)]
    found: dict[str, Unit] = {}
    for path in paths:
        if path.stem in found:
            raise ValueError(f"{path} and {found[path.stem].path} have one name: their results would be one file")
        path.read_bytes()
        is_body = path.suffix == ".metal"
        found[path.stem] = Unit(path.stem, body=BodyFile.read(path)) if is_body else Unit(path.stem, path=path)
    return list(found.values())


def build(
    work: Sequence[tuple[Unit, str]], options: Sequence[str] = (), backends: Sequence[Backend] = BACKENDS
) -> Iterator[Product]:
    """Compile programs, as many at a time as there are processors; yield each result as it comes.

    Parameters
    ----------
    work : sequence of (Unit, str)
        The programs with their targets, whose backends are open.
    options : sequence of str
        More options for the compiler.
    backends : sequence of Backend
        The backends, which include those of the targets.

    Raises
    ------
    CompileError
        A program does not compile. The first such program raises, and programs that have not begun are dropped.
    """
    pool = ThreadPoolExecutor(os.cpu_count(), "hiprt-compile")
    try:
        futures = [pool.submit(backend_of(target, backends).build, unit, target, options) for unit, target in work]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
