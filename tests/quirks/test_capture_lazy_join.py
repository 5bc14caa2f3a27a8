"""A wait joins a capture with the next captured operation only. One port reports it of CLR 7; no profile of a
release has it, because the sources that were read (ROCm/clr @f9f995c6d, ROCm/rocm-systems @004f1770e0b4) join
at the end."""

from helpers.child import child
from helpers.hip_calls import Ints, edges
from quirks.capture_calls import end, fill, fork, unjoined
from quirks.decode import decode, expected

QUIRK = "capture_lazy_join"


def join_at_the_end():
    stream, other, _ = unjoined()
    fork(other, stream)
    return end(stream)[0]


def join_before_work():
    x, (stream, other, _) = Ints(1), unjoined()
    fork(other, stream)
    fill(stream, x, 3)
    result, graph = end(stream)
    return [result, len(edges(graph))]


def test_a_join_without_work_behind_it_is_none():
    assert child(join_at_the_end, quirks=QUIRK) == "hipErrorStreamCaptureUnjoined"
    assert child(join_at_the_end) == "hipSuccess"


def test_a_join_with_work_behind_it_is_an_edge():
    assert child(join_before_work, quirks=QUIRK) == child(join_before_work) == ["hipSuccess", 3]


def test_steps_make_their_own_edges():
    assert child(decode, quirks=QUIRK) == expected()
