"""hipMalloc and its kin during a capture, by CLR's rule and marks (hip_internal.hpp:201-223)."""

from helpers.child import child
from quirks.capture_calls import GLOBAL, LOCAL, RELAXED, begin, capturing, end, new_stream, on_thread, status, unjoined
from quirks.decode import WARM, Decoder, decode, expected
from rocm.bindings import hip

QUIRK = "capture_malloc_900"
REFUSED = "hipErrorStreamCaptureUnsupported"


def allocate():
    return hip.hipMalloc(64)[0].name


def forked_capture():
    stream, other, _ = unjoined()
    return [allocate(), allocate(), status(stream), status(other), end(stream)[0], allocate()]


def modes():
    """The results of this and of another thread while this one captures, by mode."""
    results = []
    for mode in (GLOBAL, LOCAL, RELAXED):
        stream = new_stream()
        begin(stream, mode)
        results.append([on_thread(allocate), allocate()])
        end(stream)
    return results


def own_captures_first():
    """Whether another thread's global capture survives an allocation of a thread that captures itself."""
    own, others = new_stream(), new_stream()
    begin(own, LOCAL)
    on_thread(lambda: begin(others, RELAXED))
    on_thread(lambda: end(others))
    begin(others, GLOBAL)
    on_thread(lambda: (begin(mine := new_stream(), LOCAL), allocate(), end(mine)))
    return [status(own), status(others)]


def decode_within():
    """Tokens of a warm decoder launched while this thread captures: no memory is taken and nothing waited for."""
    decoder = Decoder()
    for _ in range(WARM):
        decoder.kept()
    decoder.stream.synchronize()
    before = decoder.state.numpy(decoder.stream)
    with capturing(LOCAL):
        decoder.kept()
    return bool((decoder.state.numpy(decoder.stream) != before).any())


def decode_beside():
    return decode(beside=capturing(RELAXED))


def test_an_invalid_capture_is_in_the_way_until_it_ends():
    """And of its streams only the origin knows."""
    got = child(forked_capture, quirks=QUIRK)
    assert got == [REFUSED, REFUSED, "Invalidated", "Active", "hipErrorStreamCaptureInvalidated", "hipSuccess"]
    assert child(forked_capture)[1] == "hipSuccess"


def test_the_rule_by_mode():
    ok_ = "hipSuccess"
    assert child(modes, quirks=QUIRK) == [[REFUSED, REFUSED], [ok_, REFUSED], [ok_, ok_]]


def test_captures_of_the_thread_itself_come_first():
    assert child(own_captures_first, quirks=QUIRK) == ["Active", "Active"]
    assert child(own_captures_first) == ["Active", "Invalidated"]


def test_a_kept_step_allocates_nothing():
    assert child(decode_within, quirks=QUIRK)


def test_steps_go_on_beside_a_capture():
    assert child(decode_beside, quirks=QUIRK) == expected()
