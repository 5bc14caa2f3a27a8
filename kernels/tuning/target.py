"""Targets: what a plan may know of the device that it plans for.

Plans ask the `Target` of their stream and nothing else: no file above this folder compares the name of a provider or of
an architecture. Each family of GPUs has a file beside this one with its features and its table of launch shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hiprt.device import Device
from hiprt.kernels.tuning.arch import amd, cpu, nvidia
from hiprt.kernels.tuning.choices import Choices
from hiprt.kernels.tuning.table import Table
from hiprt.provider import Provider
from hiprt.stream import Stream

__all__ = ["Target", "describe", "force_generic", "make_target", "target_of", "use_target"]

FAMILIES = (nvidia, amd, cpu)  # cpu takes every architecture that the others do not


@dataclass(frozen=True, eq=False)
class Target:
    """A device as plans see it. Each device has one such object, which is equal to itself only.

    Attributes
    ----------
    arch : str
        The compiler's name of the architecture, for example ``gfx1201`` or ``sm_90``.
    compute_units : int
        The number of processors that run threadgroups.
    wave : int
        The lanes of a hardware wave, 32 or 64. Kernels see simdgroups of 32 lanes everywhere.
    features : frozenset of str
        The features that plans choose by: ``arrivals`` (the last threadgroup of a launch to finish may read what the
        others wrote), ``matrix`` (kernels of matrix instructions run here), ``bulk_copies``
        (kernels that copy from global to threadgroup memory in bulk run here), ``streams`` (attention has rows on their
        way to threadgroup memory here), ``wgmma`` (kernels of Hopper's matrix instructions run here), ``dots`` (kernels
        of integer dot instructions run here) and ``blocks`` (kernels of AMD's matrix instructions run here).
    takes_loops : bool
        Whether kernels take their branch of plain loops, for a processor without lanes.
    is_generic : bool
        Whether the branch of cooperating lanes was asked for on a device that would take plain loops
        (`force_generic`).
    table : Table
        The shapes of launches that were measured, or chosen, for the family.
    choices : Choices or None
        What is chosen by timing instead; None where the table was measured, and where no device is there to be timed.
    """

    arch: str
    compute_units: int
    wave: int
    features: frozenset[str] = field(repr=False)
    takes_loops: bool
    is_generic: bool
    table: Table = field(repr=False)
    choices: Choices | None = field(default=None, repr=False)


def make_target(arch: str, compute_units: int, wave: int, provider: Provider, *, is_generic: bool = False) -> Target:
    """Return the target of a device with these properties."""
    family = next(family for family in FAMILIES if family.serves(arch))
    takes_loops, is_generic = provider.takes_loops and not is_generic, provider.takes_loops and is_generic
    return Target(
        arch, compute_units, wave, family.features(arch), takes_loops, is_generic, family.table(arch, compute_units)
    )


plain: dict[int, Target] = {}
generic: dict[int, Target] = {}
targets = plain  # the targets of the devices by index; `force_generic` switches to the other dictionary


def target_of(stream: Stream) -> Target:
    """Return the target of a stream's device."""
    return targets.get(stream.device.index) or describe(stream.device)


def describe(device: Device) -> Target:
    """Return the target of a device, which is made at the first call."""
    made = targets.get(device.index) or make_target(
        device.arch, device.compute_units, device.warp_size, device.provider, is_generic=targets is generic
    )
    # Streams that record all the time, as Metal's, have no moment at which a launch could be timed.
    is_timed = device.provider.runs_kernels and device.provider.stream is None
    if is_timed and not made.takes_loops and not made.table.is_measured and made.choices is None:
        made = replace(made, choices=Choices(device, is_generic=made.is_generic))
    return targets.setdefault(device.index, made)


@contextmanager
def force_generic() -> Iterator[None]:
    """Let the whole process run the GPU branches of kernels on the CPU device within the block; tests use this."""
    global targets
    before, targets = targets, generic
    try:
        yield
    finally:
        targets = before


@contextmanager
def use_target(device: Device, target: Target) -> Iterator[None]:
    """Let the whole process plan for another target on a device within the block; `hiprt bench rings` tries tables so.

    Plans and functions are remembered by target: none of the block is taken behind it, and none has to be forgotten.
    """
    here, before = targets, describe(device)
    here[device.index] = target
    try:
        yield
    finally:
        here[device.index] = before
