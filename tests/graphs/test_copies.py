"""The pass `copies`: which copies to arguments become one kernel, and which must stay where they are."""

import numpy as np
import pytest
from helpers.traced import traced

import hiprt
from hiprt import kernels
from hiprt.flags import flags
from hiprt.graphs.trace.passes.copies import copies
from hiprt.graphs.trace.passes.dead_code import dead_code


def arrays(count, *shape):
    random = np.random.default_rng(count)
    return [hiprt.array(random.normal(size=shape or (4, 8)).astype(np.float32)) for _ in range(count)]


def names_of(function, *given, shapeless=False):
    """Return the calls after the pass; the program does to arrays what the function does."""
    mine, its = ([hiprt.array(x.numpy()) for x in given] for _ in range(2))
    program = copies(dead_code(traced(function, *given, shapeless=shapeless)))
    made, exact = program.run(*mine), function(*its)
    for a, b in [*zip(made, exact if isinstance(exact, tuple) else (exact,), strict=True), *zip(mine, its)]:
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    return [primitive.op.name for primitive in program.primitives]


def swap(a, b, x, y):
    """Write both arrays, one behind the other, with work in between."""
    kernels.copyto(a, kernels.add(x, 1.0))
    z = kernels.multiply(x, y)
    kernels.copyto(b, kernels.add(y, z))
    return z


@pytest.mark.parametrize("shapeless", [False, True])
def test_copies_wait_for_each_other(shapeless):
    assert names_of(swap, *arrays(4), shapeless=shapeless) == ["add", "multiply", "add", "fused"]


def test_arguments_that_share_memory_are_copied_one_by_one():
    program = copies(traced(swap, *arrays(4)))
    (whole, x, y), (other, *_) = arrays(3, 6, 8), arrays(1, 6, 8)
    pairs = [(each[:4], each[2:]) for each in (whole, other)]
    kernels.copyto(other, whole)
    program.run(*pairs[0], x[:4], y[:4])
    swap(*pairs[1], x[:4], y[:4])
    np.testing.assert_array_equal(whole.numpy(), other.numpy())


def test_a_captured_array_that_shares_memory_with_an_argument():
    (whole,) = arrays(1, 6, 8)
    before = whole.numpy()
    captured = whole[2:]

    def function(a, b, x):
        kernels.copyto(a, kernels.add(x, 1.0))
        seen = kernels.multiply(captured, 2.0)
        kernels.copyto(b, kernels.add(x, 2.0))
        return seen

    a, b, x = arrays(3)
    program = copies(traced(function, a, b, x))
    (seen,) = program.run(whole[:4], b, x)
    before[:4] = x.numpy() + np.float32(1)
    np.testing.assert_array_equal(seen.numpy(), before[2:] * np.float32(2))


@pytest.mark.parametrize("passes", [("copies",), flags.compile_passes], ids=["copies", "all"])
def test_a_compiled_function_whose_arguments_move_together(passes):
    """Kept for arrays that lie apart, called with such that do not, and again with others."""
    with flags.override(compile_passes=passes):
        move_together(hiprt.compile(swap))


def move_together(compiled):
    x, y = arrays(2)
    for places in [(0, 4), (0, 4), (0, 4), (8, 12), (0, 2), (8, 12), (0, 2), (4, 0), (9, 8)]:
        mine, its = (hiprt.array(arrays(1, 16, 8)[0].numpy()) for _ in range(2))
        a, b = places
        made = compiled(mine[a : a + 4], mine[b : b + 4], x, y)
        exact = swap(its[a : a + 4], its[b : b + 4], x, y)
        np.testing.assert_array_equal(made.numpy(), exact.numpy())
        np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert "out=[" in compiled.explain()


def test_what_reads_a_copy_sees_it():
    def function(a, b, x):
        kernels.copyto(a, kernels.add(x, 1.0))
        seen = kernels.add(a, x)
        kernels.copyto(b, seen)
        return seen

    assert names_of(function, *arrays(3)) == ["add", "copyto", "add", "copyto"]


def test_what_writes_the_source_comes_behind_the_copy():
    def function(a, b, x):
        y = kernels.add(x, 1.0)
        kernels.copyto(a, y)
        kernels.multiply(y, 2.0, out=y)
        kernels.copyto(b, y)
        return y

    assert names_of(function, *arrays(3)) == ["add", "copyto", "multiply", "copyto"]


def test_the_last_write_of_an_array_holds():
    def function(a, b, x):
        kernels.copyto(a, kernels.add(x, 1.0))
        kernels.copyto(b, kernels.add(x, 2.0))
        kernels.copyto(a, kernels.add(x, 3.0))
        return x

    assert names_of(function, *arrays(3)) == ["add", "add", "add", "fused", "copyto"]


def test_other_shapes_and_dtypes_are_other_kernels():
    def function(a, b, c, d, x, y):
        kernels.copyto(a, x)
        kernels.copyto(b, y)
        kernels.copyto(c, x)
        kernels.copyto(d, y)
        return x

    given = [*arrays(1), *arrays(1, 3, 5), *arrays(1), *arrays(1, 3, 5), *arrays(1), *arrays(1, 3, 5)]
    assert names_of(function, *given) == ["fused", "fused"]


def test_what_is_no_plain_copy_stays():
    def function(a, b, c, x):
        kernels.copyto(a, 1.0)
        kernels.copyto(b[:, :3], x[:, 2:5])
        kernels.copyto(c, x[0])
        return x

    assert "fused" not in names_of(function, *arrays(4))


def test_many_copies_are_several_kernels():
    def function(x, *targets):
        for i, each in enumerate(targets):
            kernels.copyto(each, kernels.add(x, float(i)))
        return x

    names = names_of(function, *arrays(20))
    assert names.count("fused") == 3
    assert "copyto" not in names


def test_other_sizes_of_a_shapeless_program():
    """Arrays of one size where it was traced have different ones later."""

    def function(a, b, x, y):
        kernels.copyto(a, kernels.add(x, 1.0))
        kernels.copyto(b, kernels.add(y, 1.0))
        return x

    program = copies(traced(function, *arrays(4), shapeless=True))
    a, b, x, y = *arrays(1, 2, 8), *arrays(1, 7, 8), *arrays(1, 2, 8), *arrays(1, 7, 8)
    program.run(a, b, x, y)
    for to, source in ((a, x), (b, y)):
        np.testing.assert_array_equal(to.numpy(), source.numpy() + np.float32(1))
