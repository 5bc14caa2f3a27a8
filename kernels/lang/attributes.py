"""Metal's kernel attributes (table 5.8 of its specification), and their values on HIP."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ATTRIBUTES", "Attribute"]


@dataclass(frozen=True)
class Attribute:
    """One of Metal's kernel attributes.

    Attributes
    ----------
    word : str
        The attribute's type.
    whole : str
        The attribute's value where all threadgroups are of one size (prelude/simd.h); its field ``threads`` is that
        size, or 0 where launches vary.
    exact : str
        The attribute's value in a body, whose threadgroups are smaller at the grid's edges (prelude/grid.h).
    """

    word: str
    whole: str
    exact: str


ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": Attribute(
        "uint", "(group_threads<{threads}>() + 3u) / 4u", "(here.whole_threads() + 3u) / 4u"
    ),
    "dispatch_simdgroups_per_threadgroup": Attribute(
        "uint", "(group_threads<{threads}>() + 31u) / 32u", "(here.whole_threads() + 31u) / 32u"
    ),
    "dispatch_threads_per_threadgroup": Attribute("uint3", "group_size<{threads}>()", "here.whole"),
    "grid_origin": Attribute("uint3", "uint3(0u)", "uint3(0u)"),
    "grid_size": Attribute("uint3", "grid_groups<{threads}>() * group_size<{threads}>()", "here.grid"),
    "quadgroup_index_in_threadgroup": Attribute("uint", "thread_index<{threads}>() / 4u", "here.index / 4u"),
    "quadgroups_per_threadgroup": Attribute(
        "uint", "(group_threads<{threads}>() + 3u) / 4u", "(here.threads + 3u) / 4u"
    ),
    "simdgroup_index_in_threadgroup": Attribute("uint", "thread_index<{threads}>() / 32u", "here.index / 32u"),
    "simdgroups_per_threadgroup": Attribute(
        "uint", "(group_threads<{threads}>() + 31u) / 32u", "(here.threads + 31u) / 32u"
    ),
    "thread_execution_width": Attribute("uint", "32u", "32u"),
    "thread_index_in_quadgroup": Attribute("uint", "thread_index<{threads}>() & 3u", "here.index & 3u"),
    "thread_index_in_simdgroup": Attribute("uint", "thread_index<{threads}>() & 31u", "here.index & 31u"),
    "thread_index_in_threadgroup": Attribute("uint", "thread_index<{threads}>()", "here.index"),
    "thread_position_in_grid": Attribute(
        "uint3", "group_of_grid() * group_size<{threads}>() + thread_of_group()", "here.group * here.whole + here.local"
    ),
    "thread_position_in_threadgroup": Attribute("uint3", "thread_of_group()", "here.local"),
    "threadgroup_position_in_grid": Attribute("uint3", "group_of_grid()", "here.group"),
    "threadgroups_per_grid": Attribute("uint3", "grid_groups<{threads}>()", "here.groups"),
    "threads_per_grid": Attribute("uint3", "grid_groups<{threads}>() * group_size<{threads}>()", "here.grid"),
    "threads_per_simdgroup": Attribute("uint", "32u", "32u"),
    "threads_per_threadgroup": Attribute("uint3", "group_size<{threads}>()", "here.size"),
}
