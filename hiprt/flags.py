"""Every ``HIPRT_*`` environment variable: name, type, default, meaning. Nothing else in Python reads the environment.

A flag is read when it is first used and kept; `Flags.override` sets it for a block of code. The documentation shows
what `table` returns.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload

from hiprt.errors import HipWarning
from hiprt.runtimes import FANOUT

__all__ = ["Flag", "Flags", "flags", "spelled", "table", "warn_unknown"]

T = TypeVar("T")
RUNG_NAMES = ("replay", "patch", "update", "instantiate", "eager")
PREFIX = "HIPRT_"
UNSET = object()


class Flag(Generic[T]):
    """One environment variable with a type.

    Parameters
    ----------
    parse : callable
        Text to value; raises ValueError with what was expected.
    default : T
        Value when the variable is not set.
    help : str
        One sentence for the documentation.
    native : bool
        Read by the CPU device itself (it also serves programs without Python); listed here for its meaning.
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
        # Later reads cost an attribute look-up: the instance dictionary wins over this non-data descriptor.
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


def integer(least: int) -> Callable[[str], int]:
    """Return a parser for integers from `least`."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise ValueError(f"expected an integer of at least {least}")
        return int(text)

    return parse


def either(value: int, least: int) -> Callable[[str], int]:
    """Return a parser for one integer, and for those from `least`."""

    def parse(text: str) -> int:
        if not text.isdigit() or (int(text) != value and int(text) < least):
            raise ValueError(f"expected {value}, or an integer of at least {least}")
        return int(text)

    return parse


def words(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for words separated by commas; any word where none are named."""

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
    """The registry: one attribute per variable.

    Attributes
    ----------
    version : int
        Goes up when values may have changed; what was made ready by some values is good for one version.
    """

    def __init__(self) -> None:
        self.version = 0

    provider = Flag(
        choice("auto", "rocm", "nvidia", "cpu", "null"), "auto", "HIP library; auto tries rocm, nvidia, cpu."
    )
    hip_lib = Flag(str, "", "Path of the libamdhip64.so to use for the rocm provider; nothing else is searched.")
    device = Flag(integer(0), 0, "Index of the default device.")
    graph = Flag(boolean, True, "0 runs every step eagerly.")
    graph_rungs: Flag[tuple[str, ...]] = Flag(words(*RUNG_NAMES), RUNG_NAMES, "Rungs that may be taken, by comma.")
    graph_edges = Flag(
        choice("data", "chain", "both"), "data", "Edges of a graph: data hazards, program order, or both."
    )
    graph_fanout = Flag(
        either(0, 2), FANOUT, "Most edges that leave a node, before join nodes; 2 or more. 0: no bound, several roots."
    )
    graph_overlap = Flag(
        boolean, True, "0: no kernel starts before the one it depends on has finished, on devices that could do that."
    )
    graph_max_nodes = Flag(integer(0), 0, "Nodes after which a graph is launched and another begun. 0: no bound.")
    graph_max_bytes = Flag(integer(0), 0, "The same, by the distinct bytes that the nodes declare. 0: no bound.")
    graph_slots = Flag(integer(1), 4, "Executable graphs that may be in flight per topology.")
    graph_keys = Flag(
        integer(1), 64, "Topologies, and call signatures, that a step keeps; the least recently used goes."
    )
    graph_update_budget = Flag(integer(1), 10000, "Nodes that may be patched or updated in an executable graph's life.")
    graph_update_budget_mb = Flag(integer(1), 64, "The same, in MiB of argument bytes.")
    graph_force_eager_from = Flag(integer(0), 0, "First node of a step that is launched eagerly, for bisection.")
    graph_force_eager_to = Flag(integer(0), 0, "One past the last such node.")
    graph_verify = Flag(boolean, False, "1: run every graph launch eagerly as well and compare all written memory.")
    graph_canary = Flag(boolean, False, "1: a kernel more in each graph shows whether patches and updates took effect.")
    graph_dump = Flag(str, "", "Folder that receives every instantiated graph as DOT and JSON.")
    graph_trace = Flag(str, "", "File that receives what was launched when, in Chrome's trace format.")
    alloc_limit_mb = Flag(integer(0), 0, "Most MiB that the pool takes from the devices, all together. 0: no limit.")
    alloc_async = Flag(
        choice("auto", "0", "1"),
        "auto",
        "Source of the pool's memory: 1 hipMallocAsync, 0 hipMalloc; auto: the former where a probe finds it right.",
    )
    alloc_defer_max_mb = Flag(
        integer(0),
        2048,
        "MiB that may be free for the stream only that freed them; then others wait for that stream. 0: no bound.",
    )
    alloc_plan = Flag(boolean, True, "0: intermediates of kept steps come from a pool, and are not laid out by a plan.")
    alloc_poison = Flag(
        boolean, False, "1: fill fresh and freed memory with patterns, check red zones around buffers at their free."
    )
    graph_stats = Flag(str, "", "1: a table of rungs and reasons at exit; a path: the same as JSON.")
    graph_explain = Flag(boolean, False, "1: a line on stderr whenever a rung other than replay is taken.")
    cache_dir = Flag(str, "", "Folder of compiled kernels; default: the platform's cache folder.", native=True)
    cache_max_mb = Flag(
        integer(0), 1024, "Most MiB that it holds; the least recently used goes. 0: no bound.", native=True
    )
    cache_modules = Flag(integer(0), 256, "Modules kept loaded beside those that a kernel or a graph holds.")
    nvrtc_lib = Flag(str, "", "Path of the NVRTC that compiles for NVIDIA GPUs; searched when not set.", native=True)
    cpu_compiler = Flag(str, "", "Compiler of the CPU device: a path, or zig, clang++, g++.", native=True)
    cpu_zig = Flag(str, "", "Path of the zig binary; set from the ziglang package when it is installed.", native=True)
    cpu_threads = Flag(integer(0), 0, "Threads of the CPU device; 0 means one per core.", native=True)
    cpu_seed = Flag(integer(0), 0, "Seed of the order in which the CPU device runs independent work.", native=True)
    cpu_devices = Flag(integer(1), 1, "Number of CPU devices to present.", native=True)
    cpu_memory_mb = Flag(integer(0), 0, "Memory of a CPU device in MiB; 0 means what the machine has.", native=True)
    cpu_profile = Flag(str, "", "Imitate the runtime of this ROCm release on the CPU device.")
    cpu_quirks: Flag[tuple[str, ...]] = Flag(
        words(), (), "Defects of ROCm's runtime to imitate on the CPU device, by comma."
    )
    build_sanitize = Flag(str, "", "Sanitizers to build the native code with, for example address,undefined.")

    @contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Set flags for a block of code, whatever the environment says.

        Parameters
        ----------
        **values
            Attribute names and typed values.
        """
        for name in values:
            if name not in names():
                raise AttributeError(f"no flag {name!r}")
        before = {name: self.__dict__.get(name, UNSET) for name in values}
        self.__dict__.update(values)
        self.version += 1
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
        """Forget what was read; the environment is read again."""
        version = self.version
        self.__dict__.clear()
        self.version = version + 1

    def check(self) -> None:
        """Parse every variable that is set, without keeping it.

        Raises
        ------
        ValueError
            A value is none of those that the flag may have.
        """
        for flag in names().values():
            flag.read()


def names() -> Mapping[str, Flag[Any]]:
    """Return attribute name and flag of the whole registry, in order."""
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
