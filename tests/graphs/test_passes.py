"""Passes: programs as text before and after, and what each must leave alone."""

import numpy as np
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.flags import PASS_NAMES, flags
from hiprt.graphs.trace.passes import PASSES, ROUNDING
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.simplify import simplify
from hiprt.metal_compat import metal_kernel

TWICE = metal_kernel("twice", ["x"], ["y"], "y[thread_position_in_grid.x] = 2 * x[thread_position_in_grid.x];")


def ramp(*shape):
    return hiprt.array(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float32))


def test_all_names_are_flags():
    assert tuple(PASSES) == PASS_NAMES
    assert flags.compile_passes == tuple(name for name in PASSES if name not in ROUNDING)


def test_calls_that_do_nothing_go():
    def function(x):
        y = kernels.contiguous(kernels.astype(x, np.float32))[:].reshape(2, 3)
        return kernels.exp(y.transpose(0, 1)[0:2])

    assert calls(simplify(traced(function, ramp(2, 3)))) == ["exp(%0)"]
    assert len(simplify(traced(function, ramp(2, 3), shapeless=True))) == 7
    assert calls(simplify(traced(lambda x: x[:1], ramp(2, 3)))) == ["getitem(%0, :1)"]


def test_equal_calls_are_merged():
    def function(x):
        return kernels.add(kernels.exp(x[0]), kernels.multiply(kernels.exp(x[0]), kernels.exp(x[1])))

    after = simplify(traced(function, ramp(2, 3)))
    assert calls(after) == [
        "getitem(%0, 0)", "exp(%1)", "getitem(%0, 1)", "exp(%3)", "multiply(%2, %4)", "add(%2, %5)",
    ]  # fmt: skip
    for mine, its in zip(after.run(ramp(2, 3)), (function(ramp(2, 3)),)):
        np.testing.assert_array_equal(mine.numpy(), its.numpy())


def test_what_is_not_merged():
    """Numbers of two types, results, custom kernels, new memory, and what is written in between."""

    def numbers(x):
        return kernels.add(kernels.exp(kernels.multiply(x, 1)), kernels.exp(kernels.multiply(x, 1.0)))

    def results(x):
        return kernels.exp(x), kernels.exp(x)

    def kernels_of_the_user(x):
        shapes = {"output_shapes": [x.shape], "output_dtypes": [x.dtype], "grid": (6, 1, 1), "threadgroup": (6, 1, 1)}
        return kernels.add(TWICE(inputs=[x], **shapes)[0], TWICE(inputs=[x], **shapes)[0])

    def memory(x):
        one, two = hiprt.zeros(x.shape), hiprt.zeros(x.shape)
        kernels.add(one, 1.0, out=one)
        return kernels.add(one, two)

    def written(x):
        before = kernels.exp(x)
        kernels.add(x, 1.0, out=x)
        return kernels.add(before, kernels.exp(x))

    def written_elsewhere(x, y):
        """The two may be one array."""
        before = kernels.exp(x)
        kernels.add(y, 1.0, out=y)
        return kernels.add(before, kernels.exp(x))

    for function in (numbers, results, kernels_of_the_user, memory, written):
        program = traced(function, ramp(2, 3))
        assert simplify(program) is program, function.__name__
    program = traced(written_elsewhere, ramp(2, 3), ramp(2, 3))
    assert simplify(program) is program
    x, y = ramp(2, 3), ramp(2, 3)
    np.testing.assert_array_equal(
        hiprt.compile(written_elsewhere)(x, x).numpy(), written_elsewhere(y, y).numpy(), "one array, given twice"
    )


def test_dead_code():
    def function(x, cache):
        kernels.exp(kernels.add(x, 1.0))
        scratch = hiprt.zeros(x.shape)
        kernels.add(scratch, 1.0, out=scratch[:])
        kept = hiprt.zeros(x.shape)
        kernels.add(kept[0], x[0], out=kept[0])
        kernels.add(cache[0], 1.0, out=cache[0])
        return kernels.exp(kept)

    after = dead_code(traced(function, ramp(2, 3), ramp(2, 3)))
    assert [call.split("(")[0] for call in calls(after)] == [
        "zeros", "getitem", "getitem", "getitem", "add", "getitem", "getitem", "add", "exp",
    ]  # fmt: skip
    x, mine, its = ramp(2, 3), ramp(2, 3), ramp(2, 3)
    np.testing.assert_array_equal(after.run(x, mine)[0].numpy(), function(x, its).numpy())
    np.testing.assert_array_equal(mine.numpy(), its.numpy())


def test_sizes_and_guards_follow_their_values():
    def function(x):
        kernels.exp(x)
        y = kernels.concatenate([x, x])
        if y.shape[0] > 10:
            return kernels.add(y, 1.0)
        return hiprt.full((y.shape[0] * 2,), 1.0)

    compiled = hiprt.compile(function, shapeless=True)
    for n, traces in ((3, 1), (4, 1), (7, 2), (5, 2)):
        np.testing.assert_array_equal(compiled(ramp(n)).numpy(), function(ramp(n)).numpy())
        assert compiled.traces == traces
    assert "dead_code: 3 primitives become 2" in compiled.explain()
    assert "full(((%1.shape[0] * 2),), 1.0)" in compiled.explain()
    assert "assert not %1.shape[0] > 10" in compiled.explain()


def test_passes_are_off_by_name():
    def function(x):
        kernels.exp(x)
        return kernels.add(kernels.tanh(x), kernels.tanh(x))

    for names, count in ((("simplify", "dead_code"), 2), (("simplify",), 3), (("dead_code",), 3), ((), 4)):
        with flags.override(compile_passes=names):
            compiled = hiprt.compile(function)
            np.testing.assert_array_equal(compiled(ramp(4)).numpy(), function(ramp(4)).numpy())
            assert len(compiled.programs[0]) == count
