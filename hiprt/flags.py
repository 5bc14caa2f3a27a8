"""Every ``HIPRT_*`` environment variable: its name, its type, its default and what it means.

No other file in Python reads these variables. A flag is read when it is first used, and then kept; `Flags.override`
sets it for a block of code. The documentation shows what `table` returns.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload

from hiprt.errors import HipWarning
from hiprt.hip_versions import FANOUT

__all__ = ["Flag", "Flags", "flags", "spelled", "table", "warn_unknown"]

T = TypeVar("T")
PASS_NAMES: tuple[str, ...] = ("simplify", "decode", "dead_code", "fusion", "copies")
RUNG_NAMES = ("replay", "patch", "update", "instantiate", "eager")
PREFIX = "HIPRT_"
UNSET = object()
MOST = 2**31 - 1  # of an integer: what native code takes wherever it takes one


class Flag(Generic[T]):
    """One environment variable with a type.

    Parameters
    ----------
    parse : callable
        Turns a text into a value; raises ValueError with what was expected.
    default : T
        The value when the variable is not set.
    help : str
        What the variable means, in the words of the documentation.
    native : bool
        Whether a library of ours in C or C++ reads the variable too: those also serve programs without Python.
    """

    def __init__(self, parse: Callable[[str], T], default: T, help: str, *, native: bool = False) -> None:  # noqa: A002
        self.parse = parse
        self.default = default
        self.help = help
        self.native = native
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name
        self.name = PREFIX + name.upper()

    @overload
    def __get__(self, instance: None, owner: type) -> Flag[T]: ...
    @overload
    def __get__(self, instance: Flags, owner: type) -> T: ...
    def __get__(self, instance: Flags | None, owner: type) -> Flag[T] | T:
        if instance is None:
            return self
        value = self.read()
        # Later reads cost an attribute look-up: the instance dictionary wins over this descriptor.
        instance.__dict__[self.attribute] = value
        return value

    def read(self) -> T:
        """Parse the variable as it stands in the environment."""
        text = os.environ.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.name}={text!r}: {error}") from None


def boolean(text: str) -> bool:
    """Parse 0 or 1."""
    if text not in ("0", "1"):
        raise ValueError("expected 0 or 1")
    return text == "1"


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser that accepts these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return text

    return parse


def integer(least: int, most: int = MOST) -> Callable[[str], int]:
    """Return a parser for integers from `least` to `most`."""

    def parse(text: str) -> int:
        value = whole(text)
        if value is None or not least <= value <= most:
            raise ValueError(f"expected an integer of at least {least}, and at most {most}")
        return value

    return parse


def either(value: int, least: int) -> Callable[[str], int]:
    """Return a parser for `value` and for the integers from `least`."""

    def parse(text: str) -> int:
        found = whole(text)
        if found is None or (found != value and not least <= found <= MOST):
            raise ValueError(f"expected {value}, or an integer of at least {least}, and at most {MOST}")
        return found

    return parse


def whole(text: str) -> int | None:
    """Return the integer that a text is; None for any other text."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def words(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for words separated by commas: the named ones, or any if none are named."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(word.strip() for word in text.split(",") if word.strip())
        for word in found:
            if allowed and word not in allowed:
                raise ValueError(f"{word!r} is none of {', '.join(allowed)}")
        return found

    return parse


def spelled(value: Any) -> str:
    """Return a value as it would be set in the environment."""
    if isinstance(value, (tuple, list)):
        return ",".join(value)
    return str(int(value) if isinstance(value, bool) else value)


class Flags:
    """The registry: one attribute for each variable.

    Attributes
    ----------
    version : int
        A number that grows whenever values may have changed, or a device is trusted with less. What was prepared under
        some values holds for one version.
    """

    def __init__(self) -> None:
        self.version = 0

    provider = Flag(
        choice("auto", "rocm", "nvidia", "cpu", "null"),
        "auto",
        "The HIP library to use. auto takes the first of rocm, nvidia and cpu that works; null's calls do nothing.",
    )
    hip_lib = Flag(str, "", "Path of the libamdhip64.so to use for the provider rocm; no other is searched for then.")
    device = Flag(integer(0), 0, "Index of the device that a thread uses until it chooses another.")
    graph = Flag(boolean, True, "0 runs every step eagerly.")
    graph_rungs: Flag[tuple[str, ...]] = Flag(
        words(*RUNG_NAMES), RUNG_NAMES, "The rungs that a launch may take, separated by commas."
    )
    graph_edges = Flag(
        choice("data", "chain", "both"),
        "data",
        "The edges of a graph: data follows what kernels read and write, chain the order of launches, both is both.",
    )
    graph_fanout = Flag(
        either(0, 2),
        FANOUT,
        "The largest number of edges that leave one node; join nodes are added where more are needed. 0 sets no bound "
        "and allows several roots.",
    )
    graph_overlap = Flag(
        boolean,
        True,
        "0 keeps every kernel from starting before the one it depends on has finished.",
    )
    graph_max_nodes = Flag(
        integer(0), 0, "The number of nodes after which a graph is launched and another one begins. 0 sets no bound."
    )
    graph_max_bytes = Flag(
        integer(0, 2**63 - 1),
        0,
        "The number of distinct bytes, as its nodes declare them, after which a graph is launched and another begins. "
        "0 sets no bound.",
    )
    graph_slots = Flag(
        integer(1), 4, "The number of executable graphs of one topology that may be in flight at the same time."
    )
    graph_keys = Flag(
        integer(1),
        64,
        "The number of topologies, and of call signatures, that a step keeps. The least recently used one is dropped.",
    )
    graph_keep_mb = Flag(
        integer(0),
        2048,
        "The MiB of device memory that the calls which a step keeps may take together. The least recently used one is "
        "dropped; the latest stays. 0 sets no bound.",
    )
    graph_update_budget = Flag(
        integer(1), 10000, "The number of nodes that may be patched or updated during the life of an executable graph."
    )
    graph_update_budget_mb = Flag(
        integer(1), 64, "The MiB of arguments that may be patched or updated during the life of an executable graph."
    )
    graph_foreign = Flag(
        boolean,
        True,
        "0 lets work that other code puts on a stream while a step records there run at once, unless it is within "
        "step.capture. 1 takes it into the step: a stream whose handle others have is captured while a step records.",
    )
    graph_force_eager_from = Flag(
        integer(0), 0, "The first node of a step that is launched eagerly, for finding a wrong node by bisection."
    )
    graph_force_eager_to = Flag(
        integer(0),
        0,
        "One past the last node of a step that is launched eagerly. 0 is the step's end if the first node is set, and "
        "else none.",
    )
    graph_verify = Flag(
        integer(0, 2),
        0,
        "1 runs every graph launch eagerly as well, and compares all memory that the step reaches. 2 also calls the "
        "functions of kept steps again, and compares what they launch with what was kept.",
    )
    graph_canary = Flag(
        boolean, False, "1 adds a kernel to each graph that shows whether patches and updates took effect."
    )
    graph_dump = Flag(str, "", "A folder into which every instantiated graph is written, as DOT and as JSON.")
    graph_trace = Flag(
        str, "", "A file into which is written what was launched when, in the format of Chrome's traces."
    )
    alloc_limit_mb = Flag(integer(0), 0, "The most MiB that the pool takes from all devices together. 0 sets no limit.")
    alloc_async = Flag(
        choice("auto", "0", "1"),
        "auto",
        "Where the pool's memory comes from: 1 is hipMallocAsync, 0 is hipMalloc, auto is hipMallocAsync if a probe "
        "finds that it works.",
    )
    alloc_defer_max_mb = Flag(
        integer(0),
        2048,
        "The most freed MiB that are kept for the stream that freed them. Beyond that, a request on another stream "
        "waits for that stream and takes the memory. 0 sets no bound.",
    )
    alloc_plan = Flag(
        boolean, True, "0 takes the intermediates of kept steps from a pool instead of laying them out by a plan."
    )
    alloc_poison = Flag(
        boolean,
        False,
        "1 fills fresh and freed memory with patterns, and looks for writes outside a buffer when the buffer is freed.",
    )
    graph_stats = Flag(
        str, "", "1 prints a table of rungs and reasons when the process ends; a path writes them there as JSON."
    )
    graph_explain = Flag(boolean, False, "1 prints a line to stderr whenever a launch takes another rung than replay.")
    cache_dir = Flag(
        str, "", "The folder of compiled kernels. The platform's cache folder is used if it is not set.", native=True
    )
    code_dir = Flag(
        str, "", "A folder of code objects that `hiprt compile FILE.hiprt` made; what is found there is not compiled."
    )
    cache_max_mb = Flag(
        integer(0),
        1024,
        "The most MiB that the folder of compiled kernels holds; the least recently used files are removed. "
        "0 sets no bound.",
        native=True,
    )
    cache_modules = Flag(
        integer(0), 256, "The number of modules that stay loaded although no kernel and no graph uses them."
    )
    nvrtc_lib = Flag(
        str,
        "",
        "Path of the NVRTC that compiles for NVIDIA GPUs. It is searched for if it is not set.",
        native=True,
    )
    collectives = Flag(
        choice("own", "library", "both"),
        "own",
        "Who does the collectives of several ranks: kernels of hiprt, RCCL or NCCL, or these for arrays of a MiB and "
        "more. Where a device cannot reach another's memory it is always the library.",
    )
    nccl_lib = Flag(
        str, "", "Path of the librccl.so or libnccl.so to use for collectives. It is searched for if it is not set."
    )
    qmv_planes = Flag(
        choice("2", "4"),
        "4",
        "The digits of 4 bits to which a quantised product of one vector rounds 16-bit activations on AMD. 4 keeps 15 "
        "bits of them, more than bfloat16 has; 2 keeps 8.",
    )
    tune = Flag(
        choice("auto", "0", "1"),
        "auto",
        "How decode products and attention are shared out on a device without a measured table: auto as timing has "
        "shown, 0 by rules. 1 times on the CPU device too, where its kernels take the branch of GPUs.",
    )
    compile = Flag(boolean, True, "`hiprt.compile` traces and runs programs; 0 calls the functions as they are.")
    compile_passes = Flag(
        words(*PASS_NAMES),
        tuple(name for name in PASS_NAMES if name != "decode"),
        "What `hiprt.compile` does to programs before they run: `simplify`, `dead_code`, `fusion`, `copies`, and "
        "`decode`, which changes results by rounding; words separated by commas.",
    )
    mlx_passes = Flag(
        words(*PASS_NAMES),
        PASS_NAMES,
        "The same for the lazy arrays of `hiprt.metal_compat.mlx`: a structure that comes again goes through these.",
    )
    mlx_recipes = Flag(
        boolean,
        True,
        "Calls of `mlx.nn` modules that come again are made without their Python; 0 runs it each time, with its prints "
        "and other effects.",
    )
    cpu_compiler = Flag(str, "", "The CPU device's compiler: a path, or one of zig, clang++ and g++.", native=True)
    cpu_zig = Flag(
        str,
        "",
        "Path of the zig binary; if it is not set, that of the package ziglang, if installed.",
        native=True,
    )
    cpu_threads = Flag(integer(0), 0, "The number of threads of the CPU device. 0 is one for each core.", native=True)
    cpu_seed = Flag(
        integer(0), 0, "The seed of the order in which the CPU device runs work that is independent.", native=True
    )
    cpu_check = Flag(
        str,
        "",
        "What the CPU device looks for in kernels while they run: memory, race, init, barrier, by comma, or all.",
        native=True,
    )
    cpu_check_report = Flag(str, "", "A file that gets a line of JSON for each defect that is found.", native=True)
    cpu_check_suppress = Flag(
        str, "", "A file of defects that are not told of: lines kind:text, where * is any kind.", native=True
    )
    cpu_devices = Flag(integer(1), 1, "The number of CPU devices that the machine seems to have.", native=True)
    cpu_memory_mb = Flag(
        integer(0), 0, "The memory of a CPU device in MiB. 0 is as much as the machine has.", native=True
    )
    cpu_profile = Flag(str, "", "A release of ROCm whose runtime the CPU device imitates, with its defects.")
    cpu_quirks: Flag[tuple[str, ...]] = Flag(
        words(), (), "Defects of ROCm's runtime that the CPU device imitates, separated by commas."
    )
    build_sanitize = Flag(
        str, "", "The sanitizers that native code is built with, for example address,undefined; read by the build only."
    )

    def set(self, **values: Any) -> None:
        """Set flags from now on, whatever the environment says.

        Parameters
        ----------
        **values
            Attribute names and typed values.
        """
        for name in values:
            if name not in names():
                raise AttributeError(f"no flag {name!r}")
        self.__dict__.update(values)
        self.version += 1

    @contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Set flags for a block of code, whatever the environment says.

        Parameters
        ----------
        **values
            Attribute names and typed values.
        """
        before = {name: self.__dict__.get(name, UNSET) for name in values}
        self.set(**values)
        try:
            yield
        finally:
            self.version += 1
            for name, value in before.items():
                if value is UNSET:
                    self.__dict__.pop(name, None)
                else:
                    self.__dict__[name] = value

    def reload(self) -> None:
        """Forget what was read, so that the environment is read again."""
        version = self.version
        self.__dict__.clear()
        self.version = version + 1

    def check(self) -> None:
        """Parse every variable that is set, without keeping its value.

        Raises
        ------
        ValueError
            A variable has a value that its flag cannot have.
        """
        for flag in names().values():
            flag.read()


def names() -> Mapping[str, Flag[Any]]:
    """Return all flags by the name of their attribute, in order."""
    return {name: flag for name, flag in vars(Flags).items() if isinstance(flag, Flag)}


def table() -> str:
    """Return the documentation's table of flags (Markdown)."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for flag in names().values():
        default = spelled(flag.default)
        rows.append(f"| `{flag.name}` | {f'`{default}`' if default else 'unset'} | {flag.help} |")
    return "\n".join(rows)


def warn_unknown(environment: Mapping[str, str]) -> list[str]:
    """Warn about ``HIPRT_*`` variables that no flag reads, with the nearest name; return them."""
    known = [flag.name for flag in names().values()]
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    for name in unknown:
        import difflib

        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        warnings.warn(f"{name} is not a flag of hiprt; did you mean {near[0]}?", HipWarning, stacklevel=3)
    return unknown


flags = Flags()
