"""Drawings of what is not computed yet: `export_to_dot`."""

from __future__ import annotations

from typing import Any

from hiprt.graphs.export.dot import export_to_dot as draw
from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.trees import arrays_in

__all__ = ["export_to_dot"]


def export_to_dot(file: Any, *args: Any, **kwargs: Any) -> None:
    """Write the ops that arrays wait for as a graph in Graphviz's language DOT.

    Parameters
    ----------
    file : path, or a file that text is written to
    *args : array, or lists, tuples and dictionaries of arrays
        The arrays whose ops are drawn. An array that is computed has none.
    **kwargs : array
        Arrays that are drawn under these names: outputs, or inputs that outputs are made of.
    """
    given, named = [each.value for each in arrays_in(args, [])], {name: each.value for name, each in kwargs.items()}
    lazy.whole_cut([*given, *named.values()])
    draw(file, *given, **named)
