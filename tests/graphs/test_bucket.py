"""bucketed: results are those without padding, whatever the size; what padding would change is hidden or refused."""

import threading

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.metal_compat import metal_kernel

SIZES = (4, 8, 16)
draw = np.random.default_rng(1)
WEIGHT = hiprt.array(draw.standard_normal((6, 5)).astype(np.float32))
ROW = hiprt.array(draw.standard_normal(6).astype(np.float32))
TABLE = hiprt.array(draw.standard_normal((9, 3)).astype(np.float32))


def rows(n, *, dtype=np.float32, seed=0):
    return hiprt.array((np.random.default_rng(seed + n).standard_normal((n, 6)) * 3).astype(dtype))


def whole(n, seed=0):
    return hiprt.array(np.random.default_rng(seed + n).integers(-8, 9, (n, 6)).astype(np.int32))


def check(function, given, *, axis=0, exact=True, sizes=(1, 3, 4, 5, 8, 11, 16, 2)):
    """Compare a bucketed function with the function itself, for sizes in and out of order."""
    compiled = hiprt.bucketed(axis, SIZES)(function)
    for n in sizes:
        x = given(n)
        before, args = x.numpy().copy(), (x,)
        for _ in range(2):
            mine, its = compiled(*args), function(*args)
            pairs = zip(mine, its) if isinstance(its, (tuple, list)) else [(mine, its)]
            for a, b in pairs:
                assert (a.shape, a.dtype) == (b.shape, b.dtype), n
                same = np.testing.assert_array_equal if exact else close
                same(a.numpy(), b.numpy())
        np.testing.assert_array_equal(x.numpy(), before)
    assert compiled.compiled.traces == len(SIZES)
    return compiled


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


# What is apart along the axis


@pytest.mark.parametrize(
    "function",
    [
        lambda x: kernels.exp(kernels.add(x, ROW)),
        lambda x: kernels.where(kernels.greater(x, 0.0), x, kernels.negative(x)),
        lambda x: kernels.rms_norm(x, ROW, 1e-5),
        lambda x: kernels.softmax(x),
        lambda x: kernels.softmax(x, axis=1),
        lambda x: kernels.sum(x, axis=1),
        lambda x: kernels.sum(x, axis=-1, keepdims=True),
        lambda x: kernels.argmax(x, axis=-1),
        lambda x: kernels.cumsum(x, axis=0),
        lambda x: kernels.sort(x, axis=-1),
        lambda x: x.T,
        lambda x: kernels.contiguous(x.T).reshape(3, 2, -1),
        lambda x: kernels.multiply(x[:, None, :], x[:, :, None]),
        lambda x: x[:, 1:3],
        lambda x: x[..., -1],
        lambda x: x.reshape(x.shape[0], 2, 3),
        lambda x: kernels.exp(x.reshape(-1)),
        lambda x: kernels.softmax(x.reshape(x.shape[0] * 2, 3)).reshape(-1, 6),
        lambda x: kernels.exp(x.reshape(-1, 3)).reshape(x.shape),
        lambda x: kernels.add(x, kernels.arange(x.shape[0])[:, None]),
        lambda x: kernels.add(x, hiprt.zeros(x.shape)),
        lambda x: kernels.add(x, hiprt.full((x.shape[0], 1), 2.0)),
        lambda x: kernels.broadcast_to(ROW, x.shape),
        lambda x: kernels.concatenate([x, x], axis=1),
        lambda x: (x, kernels.exp(x), ROW),
        lambda x: [kernels.exp(ROW), x[:, 0]],
        lambda x: x.view(np.int32),
        lambda x: kernels.astype(x, np.float16),
    ],
)
def test_rows_are_apart(function):
    check(function, rows)


def test_products_of_rows():
    check(lambda x: kernels.matmul(x, WEIGHT), rows, exact=False)
    check(lambda x: kernels.matmul(kernels.silu(kernels.matmul(x, WEIGHT)), WEIGHT.T), rows, exact=False)
    check(lambda x: kernels.matmul(x, x.T), rows, exact=False)


def test_another_axis():
    check(lambda x: kernels.exp(x), lambda n: kernels.contiguous(rows(n).T), axis=1)
    check(lambda x: kernels.sum(x, axis=0), lambda n: rows(n).T, axis=-1)


def test_embedding_and_several_arguments():
    ids = hiprt.array(np.array([3, 1, 8, 0, 7], np.int32))
    look = hiprt.bucketed(0, SIZES)(lambda ids: kernels.take(TABLE, ids, axis=0))
    np.testing.assert_array_equal(look(ids).numpy(), kernels.take(TABLE, ids, axis=0).numpy())

    def function(x, scale, weight, *, base=1.0):
        return kernels.add(kernels.multiply(kernels.matmul(x, weight), scale), base)

    both = hiprt.bucketed({"x": 0, "scale": 0}, SIZES)(function)
    for n in (3, 6):
        x, scale = rows(n), hiprt.array(np.arange(n, dtype=np.float32)[:, None])
        close(both(x, scale, WEIGHT, base=2.0).numpy(), function(x, scale, WEIGHT, base=2.0).numpy())
    with pytest.raises(ValueError, match=r"\[bucketed\] function: the arguments have different sizes, .*'x': 3"):
        both(rows(3), ROW, WEIGHT)
    only = hiprt.bucketed({"x": 0}, SIZES)(function)
    with pytest.raises(ValueError, match=r"multiply.* padded in one operand and not in another. Name both"):
        only(rows(4), hiprt.array(np.ones((4, 1), np.float32)), WEIGHT)


# What is hidden


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, None, (0, 1)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_reductions_of_whole_numbers(name, axis, keepdims):
    op = getattr(kernels, name)
    check(lambda x: op(x, axis=axis, keepdims=keepdims), whole)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "logsumexp", "prod"])
def test_reductions(name):
    op = getattr(kernels, name)
    for axis in (0, None):
        check(lambda x, axis=axis: op(x, axis=axis), rows, exact=False)
        check(lambda x, axis=axis: op(kernels.exp(x[:, None, :]), axis=axis), rows, exact=False)
    # Of what comes out of padding, which is no number
    check(lambda x: op(kernels.log(kernels.add(kernels.abs(x), 1.0)), axis=0), rows, exact=False)
    check(lambda x: op(kernels.reciprocal(x), axis=0), rows, exact=False)


def test_means_over_two_padded_axes_and_a_folded_one():
    check(lambda x: kernels.mean(kernels.matmul(x, x.T)), rows, exact=False)
    check(lambda x: kernels.mean(x.reshape(-1)), rows, exact=False)
    check(lambda x: kernels.mean(x.reshape(-1, 2), axis=0), rows, exact=False)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name):
    op = getattr(kernels, name)
    check(lambda x: op(x, axis=0), rows)
    check(lambda x: op(x, axis=None), rows)
    check(lambda x: op(x, axis=0, keepdims=True), whole)
    infinite = -np.inf if name == "argmax" else np.inf
    check(lambda x: op(x, axis=0), lambda n: hiprt.full((n, 6), infinite))


def test_softmax_and_sums_from_the_end():
    check(lambda x: kernels.softmax(x, axis=0), rows, exact=False)
    check(lambda x: kernels.cumsum(x, axis=0, reverse=True), whole)
    check(lambda x: kernels.cumsum(x, axis=0, reverse=True, inclusive=False), whole)


def test_attention_in_plain_ops():
    """Scores of padded keys are hidden, and so are padded values in the product with them."""

    def function(x):
        scores = kernels.softmax(kernels.multiply(kernels.matmul(x, x.T), 0.4), axis=-1)
        return kernels.matmul(scores, kernels.log(kernels.abs(x)))

    check(function, rows, exact=False)


def test_one_element():
    check(lambda x: x[-1], rows)
    check(lambda x: (x[0], x[-1, 2:4], x[-1][None]), rows)
    check(lambda x: kernels.exp(kernels.matmul(x, WEIGHT))[-1], rows, exact=False)
    third = hiprt.bucketed(0, SIZES)(lambda x: x[2])
    np.testing.assert_array_equal(third(rows(3)).numpy(), rows(3).numpy()[2])
    with pytest.raises(ValueError, match=r"\[bucketed\] .*padding changes"):
        third(rows(2))


# What is refused

double = metal_kernel("bucket_double", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];")


def custom(x):
    return double(
        inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(x.size, 1, 1), threadgroup=(8, 1, 1)
    )[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: kernels.sort(x, axis=0), r"sort: .*orders the elements of the padded axis"),
        (lambda x: kernels.rms_norm(kernels.exp(x.T), hiprt.zeros(8), 1e-5), r"rms_norm: .*padded in one operand"),
        (lambda x: kernels.concatenate([x, x]), r"concatenate: .*behind the padding"),
        (lambda x: x[1:], r"getitem: .*takes a part of the padded axis"),
        (lambda x: x[::2], r"getitem: .*takes a part"),
        (lambda x: kernels.contiguous(x.T).reshape(-1), r"reshape: .*puts padding between valid elements"),
        (lambda x: kernels.take(x, hiprt.array(np.array([0], np.int32)), axis=0), r"take: .*places from the end"),
        (lambda x: kernels.add(x, hiprt.zeros((8, 6))), r"add: .*padded in one operand and not in another"),
        (lambda x: kernels.matmul(hiprt.zeros((3, 8)), x), r"matmul: .*sums over an axis that is padded in one"),
        (lambda x: kernels.add(x, 1.0, out=x), r"add: .*writes memory that the function did not make"),
        (lambda x: kernels.softmax(kernels.astype(x, np.int32), axis=0), r"softmax: .*convert them to"),
        (lambda x: kernels.argmax(kernels.contiguous(x.T), axis=None), r"argmax: .*Name the axis"),
        (custom, r"metal_kernel: .*not known to treat the elements along an axis apart"),
    ],
)
def test_what_padding_would_change_is_refused(function, said):
    """By name, before anything ran, and at a bucket's size as well."""
    x = rows(8)
    before = x.numpy().copy()
    for n in (8, 7):
        compiled = hiprt.bucketed(0, SIZES)(function)
        with pytest.raises(ValueError, match=r"^\[bucketed\] " + said):
            compiled(x[:n])
    np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: kernels.multiply(x, 1.0 / x.shape[0]),
        lambda x: kernels.multiply(x, float(x.size)),
        lambda x: kernels.exp(x) if x.shape[0] == 8 else x,
        lambda x: kernels.add(x, hiprt.array(np.arange(len(x), dtype=np.float32)[:1])),
        lambda x: kernels.arange(x.shape[0] // 2),
        lambda x: kernels.broadcast_to(ROW, (x.shape[0] - 3, 6)),
        lambda x: kernels.multiply(x, x.nbytes / 24),
    ],
)
def test_sizes_as_numbers_are_refused(function):
    """At the sizes at which they would be others."""
    compiled = hiprt.bucketed(0, SIZES)(function)
    np.testing.assert_array_equal(compiled(rows(8)).numpy(), function(rows(8)).numpy())
    with pytest.raises(ValueError, match=r"\[bucketed\] .*depends on a size that padding changes: .* for 8 elements"):
        compiled(rows(7 if function.__code__.co_consts.count(2) == 0 else 6))


def test_a_question_with_the_same_answer_is_allowed():
    check(lambda x: kernels.exp(x) if x.shape[0] < 100 else x, rows)


def test_what_is_not_padded_may_be_anything():
    """A custom kernel and a reduction of other values, and what nothing uses."""

    def function(x):
        kernels.sort(x, axis=0)
        return kernels.add(x, kernels.sum(custom(ROW)))

    check(function, rows)


def test_errors_of_arguments():
    compiled = hiprt.bucketed(0, SIZES)(lambda x, y=None: x)
    with pytest.raises(ValueError, match=r"size 17 is larger than the largest bucket, 16. Add a bucket"):
        compiled(rows(17))
    with pytest.raises(ValueError, match="x must be an array, not list"):
        compiled([rows(1)])
    with pytest.raises(ValueError, match="x has no axis 0"):
        compiled(hiprt.full((), 1.0))
    with pytest.raises(ValueError, match="the axis is empty"):
        compiled(hiprt.zeros((0, 6)))
    with pytest.raises(TypeError, match="missing a required argument"):
        compiled()
    with pytest.raises(ValueError, match="at least 1"):
        hiprt.bucketed(0, [0, 4])
    with pytest.raises(ValueError, match="one size at least"):
        hiprt.bucketed(0, [])
    for sizes in (4, ["4"], [4.0]):
        with pytest.raises(TypeError, match="are no whole numbers"):
            hiprt.bucketed(0, sizes)
    for axis in (None, "x", {"x": "0"}):
        with pytest.raises(TypeError, match="is no whole number, nor a mapping"):
            hiprt.bucketed(axis, SIZES)(lambda x: x)
    with pytest.raises(ValueError, match="no parameter 'z'"):
        hiprt.bucketed({"z": 0}, SIZES)(lambda x: x)
    with pytest.raises(ValueError, match="captured inputs"):
        hiprt.bucketed(0, SIZES)(hiprt.compile(lambda x: x, inputs=[ROW]))


# How it runs


def test_one_exec_a_bucket():
    calls = []

    @hiprt.bucketed(axis=0, sizes=SIZES)
    def function(x):
        calls.append(x)
        return kernels.sum(kernels.exp(x), axis=0)

    for _ in range(3):
        for n in range(1, 17):
            function(rows(n))
    assert len(calls) == function.compiled.traces == len(function.compiled.steps) == 3
    assert [step.name for step in function.compiled.steps] == ["function[4]", "function[8]", "function[16]"]
    assert all(step.rungs["instantiate"] == 1 for step in function.compiled.steps)
    assert function.calls == {4: 12, 8: 12, 16: 24}
    said = function.explain()
    assert "bucket 4: 12 calls, 38% of the elements padding" in said
    assert "where(" in said
    assert {"function[4]", "function[8]", "function[16]"} <= set(graphs.stats())


def test_padded_memory_is_no_result():
    same = hiprt.bucketed(0, SIZES)(lambda x: (x, x[:, 1:]))
    first, second = same(rows(3)), same(rows(2))
    for n, (one, part) in ((3, first), (2, second)):
        np.testing.assert_array_equal(one.numpy(), rows(n).numpy())
        np.testing.assert_array_equal(part.numpy(), rows(n).numpy()[:, 1:])


def test_within_others():
    """Within a traced function it is the function; within a step the padding is recorded."""
    function = hiprt.bucketed(0, SIZES)(lambda x: kernels.sum(x, axis=0))
    outer = hiprt.compile(lambda x: kernels.exp(function(x)))
    np.testing.assert_array_equal(outer(whole(3)).numpy(), kernels.exp(kernels.sum(whole(3), axis=0)).numpy())
    assert function.compiled.traces == 0
    step = graphs.Step(lambda x: kernels.negative(function(x)), moves=True)
    for n in (3, 2, 3, 3, 8, 2):
        x = whole(n)
        np.testing.assert_array_equal(step(x).numpy(), -whole(n).numpy().sum(0))
        np.testing.assert_array_equal(function(whole(5)).numpy(), whole(5).numpy().sum(0))
    hiprt.disable_compile()
    try:
        np.testing.assert_array_equal(function(whole(17)).numpy(), whole(17).numpy().sum(0))
    finally:
        hiprt.enable_compile()


def test_threads_and_streams():
    function = hiprt.bucketed(0, SIZES)(lambda x: kernels.sum(x, axis=0))
    wrong = []

    def work(seed):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            for i in range(20):
                x = whole(1 + (i * 7 + seed) % 16, seed)
                if not np.array_equal(function(x).numpy(), x.numpy().sum(0)):
                    wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


# Random programs


def random_program(seed):
    """Return a function of [n, 6] whole numbers, with whole results, so that every bit is compared."""

    def function(x):
        pick = np.random.default_rng(seed)
        known = [x]
        for _ in range(int(pick.integers(2, 12))):
            a, b = (known[int(pick.integers(len(known)))] for _ in "ab")
            kind = int(pick.integers(9))
            try:
                if kind == 0:
                    made = kernels.maximum(a, b)
                elif kind == 1:
                    made = kernels.subtract(a, int(pick.integers(3)))
                elif kind == 2:
                    axis = int(pick.integers(-a.ndim, a.ndim))
                    name = ("sum", "max", "min")[int(pick.integers(3))]
                    made = getattr(kernels, name)(a, axis=axis, keepdims=bool(pick.integers(2)))
                elif kind == 3:
                    made = a.transpose(*map(int, pick.permutation(a.ndim)))
                elif kind == 4:
                    made = kernels.contiguous(a).reshape(-1)
                elif kind == 5 and a.ndim == 2:
                    made = kernels.contiguous(a).reshape(-1, 2, 3) if a.shape[1] == 6 else a
                elif kind == 6:
                    made = kernels.cumsum(a, axis=int(pick.integers(a.ndim)), reverse=bool(pick.integers(2)))
                elif kind == 7:
                    made = a[-1]
                else:
                    made = kernels.bitwise_and(kernels.argmax(a, axis=int(pick.integers(a.ndim))), 3)
            except ValueError:  # shapes that do not fit
                continue
            if made.ndim:
                known.append(made)
        return known

    return function


def test_random_programs(form, part):
    """Either the results are the bits of the function itself, or the program is refused."""
    checked = refused = 0
    for seed in part(range(20 if form == "short" else 300)):
        function = random_program(seed)
        compiled = hiprt.bucketed(0, (5, 10))(function)
        for n in (4, 7, 5, 9):  # none that is a number of columns
            x = whole(n, seed)
            its = function(x)
            try:
                mine = compiled(x)
            except ValueError as error:
                if not str(error).startswith("[bucketed] "):
                    raise
                refused += 1
                continue
            assert [a.shape for a in mine] == [b.shape for b in its], (seed, n)
            for a, b in zip(mine, its):
                np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=f"{seed} {n}\n{compiled.compiled.program}")
            checked += 1
    assert checked > refused / 4


def test_arguments_of_a_bucket_are_named_by_their_parameters(stream):
    """The length comes before them."""

    @hiprt.bucketed(0, (8,))
    def scaled(x, scale):
        return kernels.multiply(x, scale)

    x, scales = hiprt.array(np.ones(5, np.float32)), [hiprt.array(np.ones(1, np.float32)) for _ in range(2)]
    for scale in scales:
        scaled(x, scale)
    said = next(event.difference for event in reversed(graphs.explain()) if event.difference)
    assert f"argument scale: {scales[0].address:#x} -> {scales[1].address:#x}" in said
