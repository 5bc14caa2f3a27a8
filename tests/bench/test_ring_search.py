"""The search of `hiprt bench rings` finds the best rings of a known landscape."""

from itertools import count

from hiprt.bench.ring_search import INTERRUPTED, NEAREST, OVER, Search
from hiprt.kernels.tuning.target import make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import vector_ring_of
from hiprt.provider import NVIDIA

TARGET = make_target("sm_90", 132, 32, NVIDIA)
QKV, DOWN = Product(6144, 2560, 8, 64, 4, False), Product(2560, 9728, 8, 64, 4, False)
PRODUCTS = {"qkv": QKV, "down": DOWN}
RINGS = {name: vector_ring_of(product, TARGET) for name, product in PRODUCTS.items()}
BEST = {
    "qkv": RINGS["qkv"]._replace(teams=6, depth=1, early=1, helpers=0, groups=132),  # two moves away
    "down": RINGS["down"]._replace(depth=2, early=1),
}


def away(name, ring):
    """How far a ring is from the best."""
    return sum(abs(own - other) for own, other in zip(ring[1:], BEST[name][1:]))


def landscape(rings, repeat):
    """A step that takes the longer the farther its rings are from the best."""
    return 1000.0 + 5 * sum(away(name, ring) for name, ring in rings.items())


def search(time=landscape, seconds=1e9, **options):
    """A search that has ended."""
    made = Search(PRODUCTS, RINGS, time, target=TARGET, seconds=seconds, **options)
    made.run()
    return made


def ticking():
    """A clock that goes on by a second each time that it is read."""
    return count().__next__


def test_the_best_of_a_landscape_is_found():
    """Turn by turn, until nothing near is left; the table's rings are elsewhere."""
    turns = []
    found = search(said=turns.append)
    assert RINGS != BEST
    assert (found.rings, found.ended) == (BEST, NEAREST)
    assert turns == found.turns
    assert [turn.name for turn in turns[:4]] == ["qkv", "down", "qkv", "down"]
    assert all(turn.us <= turn.before_us for turn in turns)
    for name in PRODUCTS:
        own = [turn for turn in turns if turn.name == name]
        assert own[0].before == RINGS[name]
        assert [turn.before for turn in own[1:]] == [turn.ring for turn in own[:-1]]
        tried = [ring for turn in own for ring, _ in turn.times]
        assert len(tried) == len(set(tried))
        assert RINGS[name] not in tried


def test_a_turn_tries_so_many_and_times_the_fastest_again():
    asked = []

    def timed(rings, repeat):
        asked.append((rings["qkv"], repeat))
        return landscape(rings, repeat)

    found = search(timed, most=7)
    first = found.turns[0]
    assert len(first.times) == first.tried == 7
    assert [ring for ring, _ in first.again] == [r for r, _ in sorted(first.times, key=lambda pair: pair[1])[:4]]
    fastest = [repeat for ring, repeat in asked if ring == first.again[0][0]]
    assert fastest[0] < fastest[1]


def test_codes_of_a_product_that_is_late_are_not_asked_for_early():
    found = search(late=["down"])
    early = {name: [r.early for t in found.turns if t.name == name for r, _ in t.times] for name in PRODUCTS}
    assert any(early["qkv"])
    assert early["down"]
    assert not any(early["down"])


def test_the_rings_of_the_table_stay_if_nothing_is_faster_by_the_margin():
    """Every other ring is a little faster, by less than 0.1 %; or is faster the first time only."""

    def little(rings, repeat):
        return 1000.0 if rings == RINGS else 999.5

    asked = []

    def once(rings, repeat):
        asked.append(dict(rings))
        return 1000.0 if rings == RINGS or asked.count(rings) > 1 else 900.0

    for timed in (little, once):
        found = search(timed)
        assert (found.rings, found.ended) == (RINGS, NEAREST)
        assert all(turn.ring == turn.before and turn.us == turn.before_us == 1000.0 for turn in found.turns)


def test_a_slower_device_is_no_faster_ring():
    """The ring of before is timed on both sides of those that are tried: what all of them gain is no gain."""
    calls = count()
    found = search(lambda rings, repeat: 1000.0 - next(calls))
    assert found.rings == RINGS


def test_the_time_ends_the_search():
    """What was tried of the turn until then is timed again and taken."""
    found = search(seconds=30.0, clock=ticking(), most=90)
    assert found.ended == OVER
    (turn,) = found.turns
    assert 0 < len(turn.times) < 30
    assert turn.ring == found.rings["qkv"] != RINGS["qkv"]
    assert search(seconds=0.0, clock=ticking()).turns == []


def test_a_program_that_is_not_compiled_in_time_is_waited_for_no_longer():
    waited = []

    def wait(seconds):
        waited.append(seconds)
        raise TimeoutError

    times = iter((0.0, 1.0, 2.0, 3.0, 4.0, 100.0))
    found = search(begin=lambda name, ring: wait, seconds=90.0, clock=lambda: next(times, 100.0))
    assert waited == [60.0]  # of which one is not the end, and the other is behind it
    (turn,) = found.turns
    assert (turn.times, found.ended) == ([], OVER)


def test_a_program_that_takes_too_long_counts_as_one_that_cannot_be_compiled():
    def wait(seconds):
        raise TimeoutError

    found = search(begin=lambda name, ring: wait)
    assert (found.rings, found.ended) == (RINGS, NEAREST)
    assert all(turn.uncompiled and not turn.times for turn in found.turns)
    assert "60 s" in found.turns[0].uncompiled[0][1]


def test_rings_that_do_not_compile_or_fail_are_passed_over():
    """They are told with their reasons, and the best of the others is found."""

    def begin(name, ring):
        return lambda seconds: "no registers" if ring.copies else ""

    def timed(rings, repeat):
        if any(ring.depth == 3 for ring in rings.values()):
            raise RuntimeError("the launch\nfailed")
        return landscape(rings, repeat)

    found = search(timed, begin=begin)
    assert (found.rings, found.ended) == (BEST, NEAREST)
    refused = [pair for turn in found.turns for pair in turn.uncompiled]
    failed = [pair for turn in found.turns for pair in turn.failed]
    assert refused
    assert all(ring.copies and why == "no registers" for ring, why in refused)
    assert failed
    assert all(ring.depth == 3 and why == "the launch failed" for ring, why in failed)
    assert all(turn.tried == len(turn.times) + len(turn.failed) for turn in found.turns)


def test_a_ring_that_fails_when_it_is_timed_again_is_not_taken():
    def timed(rings, repeat):
        if repeat > 1 and rings != RINGS:
            raise RuntimeError
        return landscape(rings, repeat)

    found = search(timed)
    assert found.rings == RINGS
    assert found.turns[0].failed[0][1] == "RuntimeError"


def test_a_step_that_fails_with_what_was_taken_ends_the_search():
    calls = count()

    def timed(rings, repeat):
        if next(calls) > 200:
            raise RuntimeError("the device is gone")
        return landscape(rings, repeat)

    found = search(timed)
    assert found.ended == "the device is gone"
    assert found.rings["qkv"] != RINGS["qkv"]


def test_an_interrupt_keeps_what_was_found():
    calls = count()

    def timed(rings, repeat):
        if next(calls) == 150:
            raise KeyboardInterrupt
        return landscape(rings, repeat)

    found = search(timed)
    assert found.ended == INTERRUPTED
    first, second = found.turns
    assert found.rings == {"qkv": first.ring, "down": RINGS["down"]}
    assert first.ring != RINGS["qkv"]
    assert second.times
    assert second.ring == second.before
