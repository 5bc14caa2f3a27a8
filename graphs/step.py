"""Steps: a function whose launches become one graph launch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from weakref import WeakMethod

from numpy.typing import DTypeLike

from hiprt import core
from hiprt.allocator import Arena, Plan, Pool
from hiprt.array import Array
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.flags import flags
from hiprt.graphs.arguments import Arguments, names_of
from hiprt.graphs.block import step
from hiprt.graphs.cells import Cells
from hiprt.graphs.launch.armed import Armed
from hiprt.graphs.launch.exec import launch_failure
from hiprt.graphs.launch.kept_call import KeptCall, Segment
from hiprt.graphs.launch.kept_calls import KeptCalls
from hiprt.graphs.launch.ladder import Ladder
from hiprt.graphs.launch.moved_arrays import Placement
from hiprt.graphs.launch.preparation import Preparation, arguments_of
from hiprt.graphs.launch.recurring import TRANSIENT, Recurring
from hiprt.graphs.launch.results import arrays_in, copied
from hiprt.graphs.record.captured import capture
from hiprt.graphs.record.comparison import Recorded, first_change
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.record.session import EARLIER, Session, why_forced
from hiprt.graphs.signature import arrays_of, form_of, is_frozen, signature_of
from hiprt.graphs.stats import Event
from hiprt.graphs.trace.core import Trace
from hiprt.graphs.trace.trace import Pause
from hiprt.stream import Stream, current_stream, session_of_thread, use_stream

__all__ = ["Step", "step"]

P = ParamSpec("P")
R = TypeVar("R")


logger = logging.getLogger("hiprt.graphs")

CAPTURED = "The function uses something that has changed and that is no argument: pass it, or call Step.forget"


class Step(Armed, Generic[P, R]):
    """A function of device work, launched as one graph.

    The first call with a set of arguments records what the function launches; later calls with the same arguments
    (addresses, shapes, dtypes and plain values) replay the executable graph without calling the function. The arguments
    of the call before cost one call of the C core: the step is armed for them, and `call` does what remains.

    Arguments are arrays, values, and lists, tuples and dictionaries of them, by position or by name. A value is
    anything hashable, or a small numpy array, which is compared by content. Where a plain value or an address is
    another one at each call, the function is called each time, and its launches are patched into a graph that is there.

    Any thread may call it. Calls take turns, from the choice of a graph, or the recording, to the copy of the results.

    Parameters
    ----------
    function : callable
        Launches ops on the current stream and returns arrays (any structure). Where it reads an array on the host, the
        graph is split, and the function is called every time. `key` is no name for one of its arguments.
    name : str, optional
        The step's name in messages and statistics; the function's name by default.
    stream : Stream, optional
        The stream it runs on; by default its caller's current stream at each call.
    keep : bool
        False calls the function and records at every call, for an engine that issues each launch again. Execs are
        reused all the same.
    moves : bool
        True patches arrays of the same shapes at other addresses into the kept graph, without the function, where that
        cannot change an edge. The function must use such arrays through its arguments only, or name them in `captured`.
    captured : sequence of Array, optional
        Arrays that the function uses besides its arguments. An argument in the same memory as one of them is not
        patched, since it could not be told from it: the step records again.
    overwrite : bool
        True returns the very arrays that the function returned, and the next call of the same signature overwrites
        them. False returns copies, made in stream order, of those that lie in the step's own memory. A step that
        returns an object in which arrays cannot be found is then recorded at each call.
    varying : mapping, optional
        The arguments that are another number at each call: name to dtype. The function gets each as an array without
        axes, in device memory, also where it runs eagerly; a call writes the number there, and replays.

    Attributes
    ----------
    rungs : dict
        How often each rung of the ladder was taken.
    reasons : Counter
        Why a rung other than replay was taken, and why graphs were split.

    Examples
    --------
    >>> step = Step(lambda: add(x, y))
    >>> z = step()
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str = "",
        stream: Stream | None = None,
        keep: bool = True,
        moves: bool = False,
        captured: Sequence[Array] = (),
        overwrite: bool = False,
        varying: Mapping[str, DTypeLike] | None = None,
    ) -> None:
        self.function: Callable[..., R] = function
        self.ladder = Ladder(name or getattr(function, "__name__", "step"))
        self.ladder.letting_go = WeakMethod(self.forget_recordings)
        replays = self.ladder.stats.replays
        self.attach(replays, int(core.ffi.cast("uintptr_t", replays)), vars(flags))
        self.given, self.last = stream, stream
        self.keep = keep
        self.moves = moves
        self.captured = captured
        self.overwrite = overwrite
        self.cells = Cells(function, varying) if varying else None
        self.kept = KeptCalls(self.ladder)
        self.recordings: list[Recording] = []
        self.recurring = Recurring()
        self.latest: Arguments | None = None  # of the call before
        self.names: dict[int, tuple[str, ...]] = {}
        self.caller = 0  # the thread that has the step for itself

    if TYPE_CHECKING:

        def __call__(self, /, *args: P.args, **keywords: P.kwargs) -> R:
            """Run the step; `Armed` does this, in C."""

    capture = staticmethod(capture)

    @property
    def stream(self) -> Stream | None:
        """The stream that it was given, else that of its last call; None before that."""
        return self.given or self.last

    @stream.setter
    def stream(self, stream: Stream | None) -> None:
        self.given = stream

    @property
    def name(self) -> str:
        """The step's name in messages and statistics."""
        return self.ladder.name

    @property
    def rungs(self) -> dict[str, int]:
        """How often each rung of the ladder was taken."""
        return self.ladder.stats.rungs

    @property
    def reasons(self) -> Counter[str]:
        """Why a rung other than replay was taken, and why graphs were split."""
        return self.ladder.stats.reasons

    @property
    def nodes(self) -> int:
        """Number of nodes launched or prepared last."""
        return sum(map(len, self.recordings))

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the intermediates and results of its graphs take."""
        return sum(memory.stats().reserved for memory in self.memories)

    @property
    def memories(self) -> list[Pool | Arena]:
        """The pools and arenas in which the intermediates of its graphs lie."""
        kept = [memory for kept in self.kept.values() for memory in kept.memories]
        return list({id(memory): memory for memory in (self.ladder.memory, *kept)}.values())

    @property
    def plans(self) -> list[Plan]:
        """How the memory of its kept graphs is laid out: one plan for each graph."""
        return [plan for memory in self.memories if isinstance(memory, Arena) for plan in memory.plans]

    @property
    def edges(self) -> int:
        """Number of edges of what was launched or prepared last."""
        return sum(recording.edges for recording in self.recordings)

    def call(self, /, *args: Any, key: Hashable = None, **keywords: Any) -> R:
        """Run the step on its stream. Calling the step does this, unless it is armed for the arguments.

        Parameters
        ----------
        *args, **keywords
            Arrays, values, and lists, tuples and dictionaries of them. Keywords mean the same in any order; the
            function gets them in the order of their names.
        key : hashable, optional
            The caller's name of this topology. It is checked, not trusted.

        Raises
        ------
        TypeError
            An argument is neither an array nor hashable, nor a structure of such, nor a small numpy array.
        UndefinedOutputsError
            A call failed, and the step may have run, in whole or in part. It is not run again.
        HipError
            A call failed, and nothing of the step has run.
        """
        if len(keywords) > 1:
            keywords = dict(sorted(keywords.items()))
        stream = self.own_stream()
        run, session = stream.device.provider.run_step, session_of_thread()
        if session is not None or Trace.current() is not None or (stream.recording and run is None):
            return self.inside(session, args, keywords)
        if run is not None:
            self.last = stream
            if self.cells is not None:
                args, keywords = self.cells.place(args, keywords, stream)
            return cast(R, run(self, stream, args, keywords))
        stream.check_open()
        if not flags.graph:
            self.ladder.stats.count(Event(self.name, "eager", "HIPRT_GRAPH=0"))
            return self.eager(*args, **keywords)
        if self.caller == get_ident() or self.launches_here():
            # A finaliser calls while results are copied, which another launch of their graph would overwrite.
            self.ladder.stats.count(Event(self.name, "eager", "called while its results are copied"))
            return self.eager(*args, **keywords)
        # A thread has the step for itself until its results are copied (G12). While it records it takes no other lock
        # of a step, because steps within a step become nodes of it: no two threads wait for each other.
        with self.ladder.lock:
            self.caller = get_ident()
            try:
                return self.alone(args, keywords, stream, key)
            finally:
                self.caller = 0

    def alone(self, args: tuple[Any, ...], keywords: dict[str, Any], stream: Stream, key: Hashable) -> R:
        """Do what `call` does for a thread that has the step for itself."""
        self.last = stream
        self.disarm()
        if self.cells is not None:
            args, keywords = self.cells.place(args, keywords, stream)
        if not self.keep:
            return self.record((), args, keywords, stream, key)
        target = None if self.kept.moving is None or keywords else self.kept.moving.placements.find(args)
        kept = None if target is None else self.kept.moving
        signature = signature_of(args, keywords, moves=self.moves) if kept is None else kept.signature
        if "replay" not in flags.graph_rungs:
            kept = None
        elif kept is None:
            kept = self.kept.get(signature)
        before = None
        if kept is not None and flags.graph_verify > 1:
            before = kept.recorded if self.is_launched_for(kept, args, keywords) else None
            self.kept.drop(signature)
            kept = None
        rung = self.relaunch(signature, kept, args, keywords, stream, target) if kept is not None else ""
        if not rung:
            self.kept.drop(signature)
        if kept is not None and rung:
            if rung not in ("replay", "patch"):
                return self.record(signature, args, keywords, stream, key, eager=rung)
            result = cast(R, kept.results(stream))
            # Calls of an armed step do not take this lock, and would overwrite what is not copied yet.
            self.make_ready(signature, args, keywords, stream)
            return result
        result = self.record(signature, args, keywords, stream, key)
        if before is not None:
            extents = [array.extent for array in arrays_of(*args, *keywords.values())]
            self.compare(before, Recorded(self.recordings, extents))
        return result

    def own_stream(self) -> Stream:
        """Return the stream that a call of this thread runs on."""
        return self.given or current_stream()

    def inside(self, session: Session | None, args: tuple[Any, ...], keywords: dict[str, Any]) -> R:
        """Call the function within another step or a trace: its work is a part of that, whatever its stream (G5)."""
        if session is None or session.stream.device == self.own_stream().device:
            stream = current_stream() if session is None else session.stream
            if self.cells is not None:
                with Pause():
                    args, keywords = self.cells.place(args, keywords, stream, anew=True)
            with use_stream(stream):
                return self.function(*args, **keywords)
        with session.outside("a step on another device"):
            return self.eager(*args, **keywords)

    def eager(self, *args: Any, **keywords: Any) -> R:
        """Call the function on the step's stream without recording."""
        stream = self.last = self.own_stream()
        if self.cells is not None:
            args, keywords = self.cells.place(args, keywords, stream, anew=True)
        with use_stream(stream):
            return self.function(*args, **keywords)

    def forget(self) -> None:
        """Drop what is kept of earlier calls: the next call records, and finds the execs of earlier ones to change."""
        with self.ladder.lock:
            self.disarm()
            for signature in list(self.kept):
                self.kept.drop(signature)
            self.recurring.clear()

    def let_go(self) -> None:
        """Forget, and drop all graphs and recordings: nothing that the step has launched, such as a module, is held.

        It waits for launches that are in flight. The next call makes another graph.
        """
        self.ladder.let_go()

    def forget_recordings(self) -> None:
        """Forget, and drop the recordings of the last call."""
        self.forget()
        self.recordings = []

    def make_ready(self, signature: Hashable, args: tuple[Any, ...], keywords: dict[str, Any], stream: Stream) -> None:
        """Arm the step for calls with these arguments, if they may launch one exec again and no flag asks for more."""
        kept = self.kept.get(signature)
        exec_ = None if kept is None else kept.exec
        if kept is None or exec_ is None or "replay" not in flags.graph_rungs:
            return
        if flags.graph_verify or flags.graph_trace:
            return
        values, names = (*args, *keywords.values()), tuple(keywords)
        cells = [] if self.cells is None else self.cells.formats(len(args), names, stream)
        # The C core takes the same object for the same argument.
        if cells is not None and is_frozen(values):
            try:
                self.vary(cells)
                # What has not moved yet is not known to be nothing but arrays.
                moves = self.ladder.bounds(kept, stream) if self.kept.moving is kept else None
                self.arm(kept, exec_, exec_.address, stream, values, names, flags.device, moves)
            except MemoryError:
                # The call has run. The next one is launched from here again.
                self.disarm()

    def relaunch(
        self,
        signature: Hashable,
        kept: KeptCall,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        stream: Stream,
        target: Placement | None = None,
    ) -> str:
        """Launch again what is kept of a signature; `target` says where its arrays lie, if that is known.

        Returns
        -------
        str
            ``replay`` or ``patch``, the rung that was taken; empty where the function must be recorded; else why all
            that it launches runs eagerly.

        Raises
        ------
        HipError
            A part could not be launched. An `UndefinedOutputsError` where some of the step may have run.
        """
        if next(reversed(self.kept)) is not signature:
            self.kept.move_to_end(signature)
        rung = "replay"
        arrays = []
        if target is not None:
            arrays = list(args)
        elif self.moves:
            arrays = arrays_of(*args, *keywords.values())
            target = kept.placements.of(arrays)
        else:
            target = kept.placements.here
        if target is not kept.placements.here:
            rung = "patch"
            # Values, lists and names beside the arrays are no part of where these lie.
            if not keywords and all(isinstance(arg, Array) for arg in args):
                self.kept.moving = kept
            try:
                if not self.ladder.move(kept, arrays, target, stream):
                    return ""
            except HipError as error:
                return self.give_up(signature, kept, error, stream)
        whole = True
        for part, segment in enumerate(kept.segments):
            try:
                if isinstance(segment, Recording):
                    self.ladder.run_eagerly(segment, stream, why_forced())
                else:
                    if rung != "patch" and not segment.may_launch(stream):
                        segment.wait()
                    whole = self.ladder.repeat(segment, stream, rung) and whole
            except (HipError, MemoryError) as error:
                self.kept.drop(signature)
                if part:
                    raise UndefinedOutputsError.of(error, EARLIER) from error
                raise
        self.latest = kept.arguments
        if not whole:
            self.kept.drop(signature)
        return rung

    def give_up(self, signature: Hashable, kept: KeptCall, error: HipError, stream: Stream) -> str:
        """Discard an exec in which some addresses may be changed and others not, and which was not launched (G8)."""
        assert kept.exec is not None
        self.ladder.execs.drop(kept.exec)
        self.kept.drop(signature)
        self.ladder.fall(error, stream)
        return str(error)

    def fail(
        self,
        kept: KeptCall,
        status: int,
        ran: bool,
        stream: Stream,
        args: tuple[Any, ...],
        keywords: Mapping[str, Any] | None,
    ) -> Any:
        """Run eagerly what the C core could not launch again, if none of it may have run (G8).

        Parameters
        ----------
        kept : KeptCall
            What was to be launched.
        status : int
            The status of the launch.
        ran : bool
            Whether its nodes may have run.
        stream : Stream
            The stream of the launch.
        args, keywords : tuple, mapping or None
            The arguments of the call.
        """
        error = launch_failure(status, ran)
        with self.ladder.lock:
            self.disarm()
            is_kept, exec_ = self.kept.get(kept.signature) is kept, kept.exec
            assert exec_ is not None
            if is_kept:
                self.kept.drop(kept.signature)
            self.ladder.execs.drop(exec_)
            self.ladder.fall(error, stream)
            # The calls of other threads since then may have written their values and arrays, or dropped the call.
            named = dict(sorted((name, value) for name, value in (keywords or {}).items() if name != "key"))
            if self.cells is not None:
                args, named = self.cells.place(args, named, stream)
            if is_kept and self.is_carried(kept, args, named):
                self.ladder.run_eagerly(exec_.recording, stream, str(error))
                return kept.results(stream)
            return self.record((), args, named, stream, None, eager=str(error))

    def is_carried(self, kept: KeptCall, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
        """Whether the exec of a kept call carries the arrays of these arguments now."""
        return not self.moves or kept.placements.of(arrays_of(*args, *keywords.values())) is kept.placements.here

    def names_of(self, args: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the names of positional arguments, which are looked up once for as many of them."""
        if len(args) not in self.names:
            self.names[len(args)] = names_of(self.function, len(args))
        return self.names[len(args)]

    def told(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Arguments:
        """Return what is told of the arguments of a call."""
        return Arguments(args, keywords, self.names_of(args), () if self.cells is None else self.cells.dtypes)

    def record(
        self,
        signature: Hashable,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        stream: Stream,
        key: Hashable,
        eager: str = "",
    ) -> R:
        """Call the function while the stream records, launch what it launched, and keep that if the call recurs.

        Where `eager` says why, all is launched eagerly, and nothing is kept.
        """
        arguments, before = self.told(args, keywords), self.latest
        why = None if before is None else partial(arguments.difference, before)
        self.latest = arguments
        reserve, slots, known = False, flags.graph_slots, self.ladder.topologies
        form: tuple[Hashable, ...] = ()
        if self.keep and not eager:
            form, slots = form_of(args, keywords), min(TRANSIENT, slots)
            reserve = self.recurring.is_expected(form, signature)
        session = Session(self.ladder, stream, reserve=reserve, key=key, why=why, slots=slots, eager=eager)
        with session.record():
            result = self.function(*args, **keywords)
        self.recordings = [s if isinstance(s, Recording) else s.recording for s in session.segments]
        if not session.segments:
            self.ladder.stats.count(Event(self.name, "eager", "the step launched nothing"))
        elif self.keep and session.is_whole and not eager:
            found = [] if self.overwrite else arrays_in(result)
            is_kept = self.recurring.is_kept(form, signature, is_new=self.ladder.topologies > known)
            if found is None:
                self.reasons["not kept: its results are inside an object of an unknown type"] += 1
            if found is None or not (reserve and is_kept):
                session.let_go()
                return self.without_cells(result, stream)
            own = {id(array.buffer) for array in found if self.is_own(array, session)}
            kept = self.remember(
                signature, session.segments, result, own, arguments, arrays_of(*args, *keywords.values())
            )
            result = cast(R, kept.results(stream))
            self.make_ready(signature, args, keywords, stream)
            return result
        return self.without_cells(result, stream)

    def is_own(self, array: Array, session: Session) -> bool:
        """Whether a result lies where the next launch, or the next call's value that varies, is written."""
        return session.owns(array.buffer) or (self.cells is not None and self.cells.owns(array, session.stream))

    def without_cells(self, result: R, stream: Stream) -> R:
        """Return what the function returned, with copies of the arrays that lie in cells."""
        cells = self.cells
        if cells is None or self.overwrite:
            return result
        own = {id(array.buffer) for array in arrays_in(result) or () if cells.owns(array, stream)}
        return cast(R, copied(result, own, stream)) if own else result

    def is_launched_for(self, kept: KeptCall, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether a kept call is launched again for these arguments, whose signature it has."""
        if self.is_carried(kept, args, keywords):
            return True
        return kept.can_move(kept.placements.of(arrays_of(*args, *keywords.values())))

    def compare(self, before: Recorded, now: Recorded) -> None:
        """Report what a kept call would have launched otherwise than its function does now."""
        found = first_change(before, now)
        if found is not None:
            logger.error("step %s: verify: what was kept is stale: %s. %s", self.name, found, CAPTURED)
            self.reasons[f"verify: what was kept is stale: {found}"] += 1

    def prepare(self, calls: Iterable[Sequence[Any]]) -> int:
        """Make the graphs of calls ahead, without running them, so that the first such call only launches.

        The function is called, and what it launches is recorded; other threads make the graphs meanwhile.

        Parameters
        ----------
        calls : iterable of sequence
            The arguments of each call, by position. Contents of arrays do not matter; with `moves`, later calls may
            have arrays elsewhere.

        Returns
        -------
        int
            How many graphs were made. It is less than the number of calls where some were kept already, or need no
            graph, and 0 where graphs are off; such calls run as they would have.

        Raises
        ------
        RuntimeError
            The function does what cannot be recorded. Nothing of it has run.
        HipError
            A call failed while it was recorded.
        """
        with Preparation() as preparation:
            for args in arguments_of(calls):
                preparation.add(self, args)
        return preparation.made

    def remember(
        self,
        signature: Hashable,
        segments: list[Segment],
        result: Any,
        own: set[int],
        arguments: Arguments,
        arrays: list[Array],
    ) -> KeptCall:
        """Keep a call, and no more than ``HIPRT_GRAPH_KEYS`` and ``HIPRT_GRAPH_KEEP_MB`` allow; see `KeptCall`."""
        captured = [array.extent for array in self.captured] if self.moves else ()
        kept = KeptCall(segments, result, arrays, own, arguments, captured)
        self.disarm()
        self.kept.keep(signature, kept)
        self.recurring.keep(signature)
        return kept
