"""Moved calls: a step's calls with arrays that have lain there before, which the C core patches and launches alone."""

import gc
import random
import threading
import weakref

import numpy as np
import pytest
from helpers.gate import Gate
from helpers.hip_calls import raw
from helpers.kernels import accumulate, launch, scale
from quirks.test_guards import CoreExec

import hiprt
from hiprt import graphs
from hiprt.flags import flags
from hiprt.graphs.launch import trust

N = 64


class ByPython(graphs.Step):
    """A step whose execs are given other arrays by Python only."""

    def __init__(self, function, **options):
        super().__init__(function, **options)
        self.ladder.bounds = lambda *args: None


@pytest.fixture
def pool(stream):
    """One piece of memory with room for many arrays."""
    return hiprt.array(np.arange(16 * N, dtype=np.float32))


def at(pool, place):
    """A new array at a place of a pool."""
    return pool[place * N : (place + 1) * N]


def value(place, by=2.0):
    """What `scale` makes of it."""
    return np.arange(place * N, (place + 1) * N, dtype=np.float32) * np.float32(by)


def warm(step, pool, places):
    """Let a step know the moves between each two places; it carries the last of them then."""
    for first in places:
        for second in places:
            step(at(pool, first))
            step(at(pool, second))


def last(step):
    """The event that a step counted last, without the seconds."""
    return step.ladder.stats.latest._replace(seconds=0)


def counted(step):
    """What a step has counted, without times and without the addresses of its own memory."""
    event = last(step)
    latest = event if event.reason.startswith("arrays moved") else event._replace(difference="")
    return {**step.ladder.stats.as_dict(), "latest": latest}


def test_arrays_that_take_turns_need_no_python(stream, pool, calls):
    """Each call is a patch, and says so as one that Python makes."""
    step = graphs.Step(lambda a: scale(a, 2.0), name="turns", stream=stream, moves=True)
    places = [0, 3, 7]
    warm(step, pool, places)
    asked, before = len(calls), step.rungs["patch"]
    for i in range(30):
        place = places[i % 3]
        np.testing.assert_array_equal(step(at(pool, place)).numpy(), value(place))
    assert len(calls) == asked
    assert step.rungs["patch"] == before + 30
    assert step.reasons["patch: arrays moved, 1 nodes"] == before + 30
    event = graphs.explain()[-1]
    assert event.difference == f"argument a: {at(pool, 3).address:#x} -> {at(pool, 7).address:#x}"
    assert event.seconds > 0


def random_call(draw, arrays):
    """The arguments of a call, by position and by name: mostly two arrays that the step may know."""
    kind = draw.random()
    a, b = arrays[draw.randrange(2)], arrays[4 + draw.randrange(2)]
    if kind < 0.93:
        return (a, b), {}
    others = [
        ((a, a), {}),  # an alias
        ((a, arrays[7]), {}),  # which overlaps some of the others
        ((arrays[8], b), {}),  # which the step uses otherwise
        ((a.reshape(8, N // 8), b), {}),
        ((a, hiprt.full(N, 0.5)), {}),  # where nothing has lain, or what is gone now
        ((a, b, 3.0), {}),
        ((a,), {"b": b}),
    ]
    return draw.choice(others)


@pytest.mark.parametrize("budget", [10000, 24])
@pytest.mark.parametrize("seed", range(2))
def test_random_calls_are_what_python_makes_of_them(stream, calls, seed, budget):
    """The same results, rungs, reasons and counts, with all kinds of arguments and with execs that are replaced."""
    draw, memory = random.Random(seed), hiprt.array(np.random.default_rng(seed).random(20 * N, np.float32))
    arrays = [at(memory, i) for i in range(7)] + [memory[N // 2 + 3 * N : N // 2 + 4 * N], at(memory, 9)]
    # All that the function writes lies where it is told: whether arguments come back does not depend on the allocator.
    writes = [[hiprt.zeros(N) for _ in range(3)] for _ in range(2)]

    def function(a, b, by=2.0):
        total, middle, out = own
        accumulate(arrays[8], total)
        launch("scale", a, middle, by, size=N)
        launch("mix", middle, b, out, size=N)

    steps = [kind(function, name="same", stream=stream, moves=True) for kind in (graphs.Step, ByPython)]
    asked = [0, 0]
    with flags.override(graph_update_budget=budget, graph_rungs=("replay", "patch", "instantiate", "eager")):
        for _ in range(300):
            args, keywords = random_call(draw, arrays)
            for i, step in enumerate(steps):
                own, before = writes[i], len(calls)
                step(*args, **keywords)
                for exec_ in step.ladder.execs:
                    exec_.wait()  # the rung of the next call depends on what is in flight
                asked[i] += len(calls) - before
            for first, second in zip(*writes):
                np.testing.assert_array_equal(first.numpy(), second.numpy())
            assert counted(steps[0]) == counted(steps[1])
            assert all(exec_.updated_nodes <= budget for exec_ in steps[0].ladder.execs)
    assert asked[0] < asked[1] - 50
    replaced = steps[0].reasons["replaced: update budget spent"]
    assert replaced if budget == 24 else not replaced


def test_more_places_than_are_known(stream, calls):
    """They are forgotten, and come again."""
    memory = hiprt.array(np.arange(48 * N, dtype=np.float32))
    steps = [kind(lambda a: scale(a, 2.0), name="many", stream=stream, moves=True) for kind in (graphs.Step, ByPython)]
    for i in range(150):
        place = i % 48 if i % 5 else i % 2
        for step in steps:
            np.testing.assert_array_equal(step(at(memory, place)).numpy(), value(place))
        assert counted(steps[0]) == counted(steps[1])


def test_results_are_copies(stream, pool):
    """Those of a call stay what they are when the exec is given other arrays."""
    step = graphs.Step(lambda a: {"doubled": scale(a, 2.0), "given": [scale(a, 3.0)]}, stream=stream, moves=True)
    warm(step, pool, [0, 1])
    results = [step(at(pool, i % 2)) for i in range(8)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result["doubled"].numpy(), value(i % 2))
        np.testing.assert_array_equal(result["given"][0].numpy(), value(i % 2, 3.0))


def test_an_exception_while_results_are_copied_is_the_callers(stream, pool):
    """The call has run, and is counted; the step is free again."""
    fails = []

    class Pair(tuple):
        def __new__(cls, items):
            if fails:
                raise KeyError("pair")
            return super().__new__(cls, items)

    step = graphs.Step(lambda a: Pair([scale(a, 2.0), 1]), stream=stream, moves=True)
    warm(step, pool, [0, 1])
    before = step.rungs
    step.reasons.clear()
    fails.append(True)
    with pytest.raises(KeyError, match="pair"):
        step(at(pool, 0))
    fails.clear()
    assert step.rungs == {**before, "patch": before["patch"] + 1}
    assert step.reasons == {"patch: arrays moved, 1 nodes": 1}
    results = []
    other = threading.Thread(target=lambda: results.append(step(at(pool, 1))[0].numpy(stream)))
    other.start()
    other.join()
    np.testing.assert_array_equal(results, [value(1)])


def test_threads_get_the_results_of_their_own_arrays(stream, pool):
    """G12: whichever of them patch, replay or wait for the other."""
    step = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True)
    places = range(4)
    warm(step, pool, places)
    wrong = []

    def work(place):
        draw = random.Random(place)
        for _ in range(150):
            mine = place if draw.random() < 0.8 else draw.choice(places)
            if step(at(pool, mine)).numpy(stream).tobytes() != value(mine).tobytes():
                wrong.append(mine)

    threads = [threading.Thread(target=work, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert step.rungs["instantiate"] == 1
    assert step.rungs["eager"] == 0


def test_a_moved_call_waits_for_what_other_streams_do_with_its_arrays(stream):
    """G13: with those that it is given, and not with those that the exec had."""
    arrays = [hiprt.full(N, float(i), np.float32) for i in range(2)]
    step = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True)
    for i in (0, 1, 0, 1, 0):
        step(arrays[i])
    stream.synchronize()
    with hiprt.Stream() as other:
        gate = Gate(other)
        gate.shut()
        with hiprt.use_stream(other):
            accumulate(hiprt.full(N, 10.0, np.float32), arrays[1])
        result = step(arrays[1])
        gate.open()
        np.testing.assert_array_equal(result.numpy(stream), np.full(N, 22, np.float32))
        gate.close()


class Watched(graphs.Step):
    """A step that notes whether another thread could have its execs while it deals with a failure."""

    def fail(self, *args):
        """Do what a step does, behind the question."""
        taken = []
        other = threading.Thread(target=lambda: taken.append(self.ladder.lock.acquire(blocking=False)))
        other.start()
        other.join()
        self.seen = [*getattr(self, "seen", []), taken[0]]
        return super().fail(*args)


@pytest.mark.only("cpu", reason="checks handles of executable graphs")
def test_a_refused_move_runs_eagerly(stream, pool, calls):
    """G8, G12: the exec, which may hold old and new addresses, is nobody else's until it is discarded."""
    step = Watched(lambda a: scale(a, 2.0), stream=stream, moves=True)
    warm(step, pool, [0, 1])
    (kept,) = step.kept.values()
    stream.synchronize()
    asked, before = len(calls), step.rungs["patch"]
    assert raw("hipGraphExecDestroy", CoreExec.of(kept.exec).handle) == 0
    np.testing.assert_array_equal(step(at(pool, 0)).numpy(), value(0))
    assert step.seen == [False]
    assert len(calls) == asked
    assert step.rungs["patch"] == before
    assert step.rungs["eager"] == 1
    assert any(reason.startswith("eager: hipGraphExecKernelNodeSetParams: hipErrorInvalid") for reason in step.reasons)
    assert not step.kept
    assert not list(step.ladder.execs)
    for place in (1, 0, 1, 0):
        np.testing.assert_array_equal(step(at(pool, place)).numpy(), value(place))
    assert step.rungs["instantiate"] == 2


def test_a_finaliser_may_call_the_step(stream, pool):
    """What a call replaces goes when the step can be called again."""
    step = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True)
    warm(step, pool, [0, 1, 2])
    results = []
    for _ in range(20):
        array = at(pool, 2)
        # The step alone holds it, until the next call.
        weakref.finalize(array, lambda: results.append(step(at(pool, 0)).numpy()))
        np.testing.assert_array_equal(step(array).numpy(), value(2))
        del array
        np.testing.assert_array_equal(step(at(pool, 1)).numpy(), value(1))
    gc.collect()
    assert len(results) == 20
    np.testing.assert_array_equal(results, [value(0)] * 20)


def test_a_device_that_loses_trust_gets_no_more_patches(stream, pool):
    """Steps that were armed before know it, whichever of them saw it."""
    step, device = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True), stream.device
    warm(step, pool, [0, 1])
    before = step.rungs["patch"]
    try:
        trust.distrust(device, ("patch", "update"))
        for place in (0, 1, 0):
            np.testing.assert_array_equal(step(at(pool, place)).numpy(), value(place))
        assert step.rungs["patch"] == before
    finally:
        trust.distrusted.pop(device)
        trust.decided.clear()
        flags.version += 1
    for place in (1, 0, 1, 0):
        step(at(pool, place))
    assert step.rungs["patch"] > before


def test_flags_and_attributes_are_obeyed_at_once(stream, pool, calls, capfd):
    """Whatever they change, the next call knows."""
    step = graphs.Step(lambda a: scale(a, 2.0), name="flagged", stream=stream, moves=True)
    warm(step, pool, [0, 1])
    with flags.override(graph_explain=True):
        for place in (0, 1, 0):
            step(at(pool, place))
    assert capfd.readouterr().err.count("flagged") == 3
    warm(step, pool, [0, 1])
    patched = step.rungs["patch"]
    with flags.override(graph_rungs=("replay", "instantiate", "eager")):
        for place in (1, 0):
            np.testing.assert_array_equal(step(at(pool, place)).numpy(), value(place))
    assert step.rungs["patch"] == patched
    with flags.override(graph=False):
        np.testing.assert_array_equal(step(at(pool, 1)).numpy(), value(1))
    with flags.override(graph_update_budget=1):
        for place in (0, 1, 0, 1):
            np.testing.assert_array_equal(step(at(pool, place)).numpy(), value(place))
    assert step.reasons["replaced: update budget spent"] > 1
    assert step.rungs["eager"] == 1
    warm(step, pool, [0, 1])
    patched, asked = step.rungs["patch"], len(calls)
    step.keep = False
    step(at(pool, 0))
    assert len(calls) == asked + 1
    assert step.rungs["patch"] <= patched + 1


def test_a_moved_call_within_another_step_is_a_part_of_it(stream, pool):
    """Nothing is launched while the stream records."""
    inner = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True)
    warm(inner, pool, [0, 1])
    before = stream.launches
    outer = graphs.Step(lambda: (inner(at(pool, 0)), inner(at(pool, 1))), stream=stream)
    results = outer()
    assert outer.nodes == 2
    assert stream.launches == before + 1
    for place, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), value(place))


def test_a_step_without_a_stream_moves_on_its_callers(stream, pool):
    """Where it is armed for another one, Python finds out."""
    step = graphs.Step(lambda a: scale(a, 2.0), moves=True)
    warm(step, pool, [0, 1])
    stream.synchronize()
    with hiprt.Stream() as other, hiprt.use_stream(other):
        for place in (0, 1, 0, 1):
            before = other.launches
            np.testing.assert_array_equal(step(at(pool, place)).numpy(other), value(place))
            assert other.launches > before
