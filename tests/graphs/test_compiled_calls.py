"""Calls of compiled functions: on which stream, by which launch, in how much memory, and what is told of them."""

import threading

import numpy as np
import pytest
from helpers.compiled import double, ramp

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import stats, trim
from hiprt.flags import flags


def test_calls_follow_the_stream_of_their_caller():
    compiled, x = hiprt.compile(double), ramp(4)
    streams = [hiprt.Stream() for _ in range(2)]
    for stream in (*streams, *streams, hiprt.current_stream()):
        with hiprt.use_stream(stream):
            before = stream.launches
            for _ in range(3):
                made = compiled(x)
            np.testing.assert_array_equal(made.numpy(), double(x).numpy())
        assert stream.launches > before
    assert compiled.traces == 1
    assert len(compiled.steps) == 3
    for stream in streams:
        stream.close()
    np.testing.assert_array_equal(compiled(x).numpy(), double(x).numpy())


def test_one_launch_a_call():
    compiled = hiprt.compile(lambda x: kernels.exp(kernels.add(kernels.softmax(x), x)), outputs=None)
    x = ramp(4, 8)
    compiled(x)
    stream = hiprt.current_stream()
    before = stream.launches
    for _ in range(10):
        compiled(x)
    assert stream.launches - before == 10
    assert compiled.steps[0].rungs["replay"] == 10


def test_another_stream_and_another_thread():
    compiled, x = hiprt.compile(double), ramp(3)
    found = []

    def call():
        found.append(compiled(x).numpy())

    call()
    with hiprt.use_stream(hiprt.Stream()):
        call()
    other = threading.Thread(target=call)
    other.start()
    other.join()
    assert all((each == 2 * x.numpy()).all() for each in found)
    assert len(found) == 3
    assert compiled.traces == 1


def test_streams_that_are_closed_leave_nothing():
    """A server may open a stream for each request."""
    compiled, x = hiprt.compile(lambda x: double(double(x))), ramp(1000)
    reserved = []
    for _ in range(8):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            np.testing.assert_array_equal(compiled(x).numpy(), 4 * x.numpy())
        trim()
        reserved.append(stats()["reserved"])
    assert reserved[-1] == reserved[2]
    assert compiled.traces == 1


@pytest.mark.parametrize(("op", "arrays"), [("exp", 1), ("softmax", 2), ("sort", 3)])
def test_a_chain_takes_the_memory_of_its_widest_place(op, arrays):
    """Elementwise kernels write over their operand at its last use; others need a second array, and sort a third."""
    x = ramp(64, 256)

    def chain(x, length):
        for _ in range(length):
            x = getattr(kernels, op)(x)
        return x

    with flags.override(compile_passes=("simplify", "dead_code")):
        sizes = []
        for length in (4, 16):
            compiled = hiprt.compile(chain)
            for _ in range(3):
                made = compiled(x, length)
            np.testing.assert_array_equal(made.numpy(), chain(x, length).numpy())
            (step,) = compiled.steps
            sizes.append(sum(plan.nbytes for plan in step.plans))
    assert sizes[0] == sizes[1]
    assert sizes[0] <= arrays * x.nbytes + 8192, sizes


def test_an_array_that_lies_elsewhere_is_named_by_its_parameter(stream):
    """Also in lists and dictionaries, among named arguments and in captured inputs."""
    state = [ramp(3)]

    @hiprt.compile(inputs=state)
    def together(x, pair, *, last):
        return kernels.add(kernels.add(x, pair[0]), kernels.add(pair[1]["y"], kernels.add(last, state[0])))

    moved = ["x", "pair[0]", "pair[1]['y']", "last", "inputs[0]"]
    given = [ramp(3) for _ in moved]
    others = [ramp(3) for _ in moved]
    for place in range(-1, len(moved)):
        x, first, y, last, state[0] = (others[i] if i <= place else each for i, each in enumerate(given))
        together(x, (first, {"y": y}), last=last)
        if place >= 0:
            was, now = given[place].address, others[place].address
            assert f"argument {moved[place]}: {was:#x} -> {now:#x}" in told(together)


def told(compiled):
    """What the last patch of a compiled function was for."""
    return next(event.difference for event in reversed(graphs.explain()) if event.step == compiled.name)
