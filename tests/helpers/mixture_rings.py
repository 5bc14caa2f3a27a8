"""Rings for the product in front of a mixture and for its experts, where the device in use has none of its own."""

from importlib import import_module

from hiprt.kernels.ops.experts import experts, projected, routed
from hiprt.objects import Planned

__all__ = ["both_rings", "rings_of_several"]

GATE_UP = import_module("hiprt.kernels.ops.experts.moe_gate_up")


def both_rings(monkeypatch, out, ring):
    """Let the kernels serve, with these rings, whatever was planned before."""
    for name in ("projected_of", "routed_of"):
        monkeypatch.setattr(projected, name, Planned(getattr(projected, name).function))
    monkeypatch.setattr(projected, "ring_of", lambda whole, target, is_normed: out)
    routers = {False: 2, True: 0}
    monkeypatch.setattr(routed, "routed_ring_of", lambda whole, target, has: (ring, routers[has]))


def rings_of_several(monkeypatch, ring):
    """Let the kernels of several tokens' gates and ups serve, with this ring, whatever was planned before."""
    for module, name in ((routed, "chosen_of"), (GATE_UP, "plan_of")):
        monkeypatch.setattr(module, name, Planned(getattr(module, name).function))
    monkeypatch.setattr(experts, "ring_of", lambda whole, target: ring)
