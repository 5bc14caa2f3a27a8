"""What a device is trusted with: what its probes showed to work, until a launch shows that it does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hiprt import library
from hiprt.device import Device
from hiprt.flags import flags
from hiprt.graphs.launch.probes import OK, probes, results, unanswered
from hiprt.hip_versions import dotted, runtime

__all__ = ["NEEDED", "distrust", "trusted", "why_not"]

# Which probes must be right before a rung, or a freer form of graph, is used. Replay and eager need none.
NEEDED = {
    "instantiate": ("kernel nodes", "arguments copied"),
    "patch": ("kernel nodes", "arguments copied", "patch takes effect", "structures by value"),
    "update": ("kernel nodes", "arguments copied", "update takes effect"),
    "overlap": ("kernel nodes", "overlaps ordered"),
    "unbounded fan-out": ("roots ordered", "fan-out kept"),
}
distrusted: defaultdict[Device, set[str]] = defaultdict(set)
# By index, for devices of which every probe has an answer.
decided: dict[int, frozenset[str]] = {}


def trusted(device: Device) -> frozenset[str]:
    """Return the names in `NEEDED` whose probes this device passed and that have not failed since."""
    known = decided.get(device.index)
    if known is None:
        known = decide(device)
        if not (device.provider.runs_kernels and unanswered(device)):
            decided[device.index] = known
    return known


def decide(device: Device) -> frozenset[str]:
    """Find what `trusted` returns."""
    if is_too_old(device):
        return frozenset()
    if not device.provider.runs_kernels:
        return frozenset(NEEDED)
    found = probes(device)
    right = {name for name, needs in NEEDED.items() if all(found[need] == OK for need in needs)}
    return frozenset(right - distrusted[device])


def distrust(device: Device, names: Iterable[str]) -> None:
    """Stop using rungs on a device for the rest of the process: they were seen to fail."""
    distrusted[device].update(names)
    decided.pop(device.index, None)
    flags.version += 1  # so that armed steps do not go on


def is_too_old(device: Device) -> bool:
    """Whether the runtime is older than the first whose graphs are used on the device's architecture."""
    return library.current().version < runtime(device.provider.name, device.arch).least_hip


def why_not(device: Device, name: str) -> str:
    """Return what keeps a rung from a device: the runtime's version, or probes and what they saw."""
    if is_too_old(device):
        least = runtime(device.provider.name, device.arch).least_hip
        return (
            f"HIP {dotted(library.current().version)} is too old for graphs on {device.arch}: {dotted(least)} is needed"
        )
    known = results.get(device) or probes(device)
    seen = {need: known[need] for need in NEEDED[name]}
    return ", ".join(f"probe {need!r}: {result}" for need, result in seen.items() if result != OK)
