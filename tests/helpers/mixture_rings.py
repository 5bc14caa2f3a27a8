"""Rings for the product in front of a mixture and for its experts, where the device in use has none of its own."""

from hiprt.kernels.ops.experts import projected, routed
from hiprt.objects import Planned

__all__ = ["both_rings"]


def both_rings(monkeypatch, out, ring):
    """Let the kernels serve, with these rings, whatever was planned before."""
    for name in ("projected_of", "routed_of"):
        monkeypatch.setattr(projected, name, Planned(getattr(projected, name).function))
    monkeypatch.setattr(projected, "ring_of", lambda whole, target, is_normed: out)
    routers = {False: 2, True: 0}
    monkeypatch.setattr(routed, "routed_ring_of", lambda whole, target, has: (ring, routers[has]))
