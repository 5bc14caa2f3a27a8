"""Products of the same vectors that become one, with matrices that are joined when the program is compiled."""

import gc

import numpy as np
import pytest
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.flags import flags
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode import decode

HIDDEN, INNER, ROWS = 128, 96, 3
PASSES = ("simplify", "decode", "dead_code")
random = np.random.default_rng(4)


def array(*shape):
    return hiprt.array((random.normal(size=shape) * 0.3).astype(np.float32))


def matrix(rows, columns=HIDDEN, bits=4):
    return [*kernels.quantize(array(rows, columns), 32, bits), bits]


def multiply(x, matrix):
    w, scales, biases, bits = matrix
    return kernels.quantized_matmul(x, w, scales, biases, True, 32, bits)


def gated(x, gate, up, *, other=None):
    second = multiply(x if other is None else other, up)
    return kernels.multiply(kernels.silu(multiply(x, gate)), second)


def compiled(function):
    return hiprt.compile(function)


def run(function, *arrays):
    with flags.override(compile_passes=PASSES):
        return function(*arrays).numpy()


def names(program):
    return [call.split("(")[0] for call in calls(program)]


def test_a_gate_and_what_it_gates():
    gate, up, x = matrix(INNER), matrix(INNER), array(ROWS, HIDDEN)
    step = compiled(lambda x: gated(x, gate, up))
    np.testing.assert_allclose(run(step, x), gated(x, gate, up).numpy(), rtol=1e-4, atol=1e-5)
    assert step.steps[0].nodes == 1
    assert "6 arrays of matrices are joined" in step.explain()
    nbytes = 2 * sum(each.nbytes for each in gate[:3])
    assert f"{nbytes:,} bytes of copies; {nbytes:,} bytes of the originals are held elsewhere" in step.explain()


def test_what_is_said_when_nothing_holds_the_originals():
    """They are released, and the memory is there once."""
    matrices, x = [matrix(INNER), matrix(INNER)], array(ROWS, HIDDEN)
    expected = gated(x, *matrices).numpy()
    before = hiprt.allocator.stats()["allocated"]
    program = decode(traced(lambda x: gated(x, *matrices), x))
    assert "are held elsewhere" in str(program.notes[-1])
    matrices.clear()
    gc.collect()
    hiprt.current_stream().synchronize()
    assert str(program.notes[-1]).endswith("bytes of copies, and nothing holds the originals")
    assert hiprt.allocator.stats()["allocated"] <= before
    np.testing.assert_allclose(program.run(x)[0].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_neighbours_in_memory_are_not_copied():
    whole, x = matrix(2 * INNER), array(ROWS, HIDDEN)
    gate, up = ([*(each[rows] for each in whole[:3]), 4] for rows in (slice(0, INNER), slice(INNER, 2 * INNER)))
    step = compiled(lambda x: gated(x, gate, up))
    before = run(step, x)
    assert step.steps[0].nodes == 1
    assert "0 bytes of copies" in step.explain()
    whole[1].set(2 * whole[1].numpy())
    whole[2].set(2 * whole[2].numpy())
    after = run(step, x)
    assert (before != after).any()
    np.testing.assert_allclose(after, gated(x, gate, up).numpy(), rtol=1e-4, atol=1e-4)


def test_one_copy_serves_all_programs_and_has_what_the_originals_hold():
    gate, up = matrix(INNER), matrix(INNER)
    first, second = (compiled(lambda x: gated(x, gate, up)) for _ in range(2))
    x, more = array(1, HIDDEN), array(2, HIDDEN)
    run(first, x)
    for each in (*gate[1:3], *up[1:3]):
        each.set(2 * each.numpy())
    np.testing.assert_allclose(run(second, more), gated(more, gate, up).numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run(first, x), gated(x, gate, up).numpy(), rtol=1e-4, atol=1e-4)
    assert {each.buffer for each in first.programs[0].captured} == {each.buffer for each in second.programs[0].captured}


def test_the_copy_goes_with_its_programs():
    gate, up, x = matrix(INNER), matrix(INNER), array(1, HIDDEN)
    step = compiled(lambda x: gated(x, gate, up))
    run(step, x)
    held = hiprt.allocator.stats()["allocated"]
    del step
    gc.collect()
    hiprt.current_stream().synchronize()
    assert hiprt.allocator.stats()["allocated"] < held


@pytest.mark.parametrize("what", ["bits", "vectors", "input", "written", "returned", "used"])
def test_what_is_not_joined(what):
    gate, x = matrix(INNER), array(ROWS, HIDDEN)
    up = matrix(INNER, bits=8 if what == "bits" else 4)
    other = kernels.exp(x) if what == "vectors" else None

    def function(x, scales):
        if what == "written":
            kernels.multiply(up[1], 0.5, out=up[1])
        matrices = gate, [up[0], scales if what == "input" else up[1], *up[2:]]
        if what not in ("returned", "used"):
            return gated(x, *matrices, other=other)
        opening = multiply(x, gate)
        made = kernels.multiply(kernels.silu(opening), multiply(x, up))
        return (made, opening) if what == "returned" else kernels.add(made, opening)

    program = dead_code(decode(traced(function, x, up[1])))
    assert names(program).count("product") == 0
    if what not in ("returned", "used"):
        assert names(program).count("quantized_matmul") == 2
    kept = up[1].numpy()
    mine = program.run(x, up[1])[0].numpy()
    up[1].set(kept)
    its = function(x, up[1])
    np.testing.assert_allclose(mine, (its[0] if what == "returned" else its).numpy(), rtol=1e-4, atol=1e-5)


def test_no_join_within_a_step():
    """What a step records is its own: the copy would be made again at each replay."""
    gate, up, x = matrix(INNER), matrix(INNER), array(ROWS, HIDDEN)
    inner = compiled(lambda x: gated(x, gate, up))
    step = hiprt.graphs.Step(lambda x: inner(x))
    for _ in range(3):
        made = run(step, x)
        np.testing.assert_allclose(made, gated(x, gate, up).numpy(), rtol=1e-4, atol=1e-5)
    assert step.nodes <= 5


def test_no_memory_for_a_copy(monkeypatch):
    from hiprt.errors import OutOfMemoryError

    gate, up, x = matrix(INNER), matrix(INNER), array(ROWS, HIDDEN)

    def refuse(*_, **__):
        raise OutOfMemoryError("hipMallocAsync", 2, "hipErrorOutOfMemory", "out of memory")

    step = compiled(lambda x: gated(x, gate, up))
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "concatenate", refuse)
        made = run(step, x)
    np.testing.assert_allclose(made, gated(x, gate, up).numpy(), rtol=1e-4, atol=1e-5)
    assert "joined" not in step.explain()
