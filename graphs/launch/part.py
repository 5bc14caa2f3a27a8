"""Parts: recordings of which other threads make executable graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.graphs.record.recording import Recording

__all__ = ["Part"]


class Part(NamedTuple):
    """A recording of which another thread makes an executable graph.

    Attributes
    ----------
    recording : Recording
    successor : hiprt_successor *
    rules : hiprt_rules *
        What the graph is made by.
    """

    recording: Recording
    successor: Any
    rules: Any
