"""Adopted graphs: what other code captures again and again, launched by the ladder as a step is.

A library that captures its work anew (a shape came again, weights moved, an adapter was swapped) instantiates each
capture. Here a capture is compared with those before it: nothing changed is a replay, other arguments are patched, and
only other work is instantiated, with the first node that differs in `hiprt.graphs.explain`.
"""

from __future__ import annotations

from hiprt.flags import flags
from hiprt.graphs.captured_pointers import Pointers
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.ladder import Ladder
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Stats
from hiprt.stream import Stream, current_stream

__all__ = ["Adopted", "adopt"]


class Adopted:
    """Graphs of other code, of the same work or of a few kinds of work.

    Parameters
    ----------
    name : str
        The name used in statistics and messages.
    stream : Stream, optional
        The stream that they run on; the current one of the calling thread by default.

    Attributes
    ----------
    ladder : Ladder
        Launches them, and keeps the executable graphs.
    recording : Recording or None
        What was launched last.
    """

    def __init__(self, name: str = "adopted", *, stream: Stream | None = None) -> None:
        self.ladder = Ladder(name)
        self.given = stream
        self.recording: Recording | None = None
        self.exec: Exec | None = None

    @property
    def stats(self) -> Stats:
        """Which rungs were taken, and why."""
        return self.ladder.stats

    def launch(self, graph: int, *, is_given: bool = False) -> None:
        """Launch a graph by the first rung that serves. Work that it needs from other streams must be waited for.

        Parameters
        ----------
        graph : int
            A ``hipGraph_t`` that was captured, or made. It keeps its edges. Child graphs become part of it.
        is_given : bool
            Whether the graph is hiprt's from now on, also if this fails, and is destroyed when nothing needs it. By
            default the graph stays the caller's, and is copied where it is other work than the last.

        Raises
        ------
        UndefinedOutputsError
            Something failed, and some of the nodes may have run.
        HipError
            Nothing has run. ``HIPRT_E_FOREIGN``: some node is none that can be launched again, such as a function of
            the host, a copy from or to the host, or memory that is allocated or freed.
        """
        stream = self.given or current_stream()
        with self.ladder.lock:
            recording = Recording.of_graph(graph, stream.device.index, is_given=is_given, like=self.recording)
            self.launch_recording(recording)

    def launch_recording(self, recording: Recording) -> None:
        """Launch the nodes of a graph of other code; errors are those of `launch`."""
        stream = self.given or current_stream()
        with self.ladder.lock:
            self.recording = self.exec = None
            self.exec = self.start(recording, stream)
            self.recording = recording

    def point(self, pointers: Pointers, words: bytearray) -> bool:
        """Launch what was launched last for memory that begins elsewhere; False where it must be launched as another.

        Parameters
        ----------
        pointers : Pointers
            By which its recording was pointed.
        words : bytearray
            Where each memory begins, as 64-bit words.

        Raises
        ------
        HipError
            As for `launch`.
        """
        stream = self.given or current_stream()
        with self.ladder.lock:
            if self.exec is None or not flags.graph:
                return False
            is_launched = self.ladder.point(self.exec, pointers, words, stream)
            if is_launched is False:
                self.exec = None
            return is_launched is not None

    def again(self) -> None:
        """Launch again what was launched last.

        Raises
        ------
        ValueError
            Nothing has been launched yet.
        HipError
            As for `launch`.
        """
        stream = self.given or current_stream()
        with self.ladder.lock:
            recording, exec_ = self.recording, self.exec
            if recording is None:
                raise ValueError(f"{self.ladder.name}: nothing has been launched yet")
            if exec_ is None:
                self.exec = self.start(recording, stream)
                return
            if not exec_.may_launch(stream):
                exec_.wait()
            if not self.ladder.repeat(exec_, stream, "replay"):
                self.exec = None

    def start(self, recording: Recording, stream: Stream) -> Exec | None:
        """Launch a recording, and return the exec; None where the nodes ran eagerly, or there are none."""
        if not len(recording):
            return None
        if not flags.graph:
            self.ladder.run_eagerly(recording, stream, "HIPRT_GRAPH=0")
            return None
        return self.ladder.launch(recording, stream)


def adopt(graph: int, *, name: str = "adopted", stream: Stream | None = None, is_given: bool = False) -> Adopted:
    """Launch a graph of other code, and return what launches later captures of the same work: see `Adopted.launch`.

    Examples
    --------
    >>> work = graphs.adopt(captured)  # doctest: +SKIP
    >>> work.launch(captured_again)  # doctest: +SKIP
    >>> work.stats.rungs["patch"]  # doctest: +SKIP
    1
    """
    adopted = Adopted(name, stream=stream)
    adopted.launch(graph, is_given=is_given)
    return adopted
