"""`mx.compile`: functions are called once for each kind of arguments."""

import io
import threading
import time
from functools import partial

import numpy as np
import pytest

import hiprt.metal_compat.mlx as mx


@pytest.fixture(autouse=True)
def enabled():
    yield
    mx.enable_compile()


def test_a_function_is_called_once_for_a_kind_of_arguments():
    """Constants, dtypes and shapes tell kinds apart; what it has from elsewhere stays what it was."""
    calls = []
    offset = mx.array(1.0) + 1

    @mx.compile
    def fun(x, factor, more=None):
        calls.append(factor)
        return [x * factor + offset, {"same": x, "factor": factor}]

    for _ in range(3):
        made, rest = fun(mx.array([1.0, 2.0]), 3)
        assert made.tolist() == [5.0, 8.0]
        assert rest["same"].tolist() == [1.0, 2.0]
        assert rest["factor"] == 3
        offset = mx.array(100.0)
    assert fun(mx.array([2.0, 3.0]) * 2, 3)[0].tolist() == [14.0, 20.0]
    assert calls == [3]
    assert fun.traces == 1
    assert fun(mx.array([1.0]), 3)[0].tolist() == [103.0]
    assert fun(mx.array([1.0]), 2.0, more=("a", None))[0].tolist() == [102.0]
    assert fun(mx.array([1.0]), -0.0)[0].tolist() == [100.0]
    assert fun.traces == 4
    with pytest.raises(ValueError, match=r"trees of arrays or constants .* received type object"):
        fun(mx.array([1.0]), object())


def test_disabled_functions_are_called_each_time():
    calls = []
    fun = mx.compile(lambda x: calls.append(0) or x + 1)
    fun(mx.array(1))
    mx.disable_compile()
    assert [fun(mx.array(1)).item() for _ in range(2)] == [2, 2]
    assert len(calls) == 3
    mx.enable_compile()
    assert fun(mx.array(1)).item() == 2
    assert len(calls) == 3


def test_equal_calls_are_made_once():
    fun = mx.compile(lambda x: (x + 1) * (x + 1))

    def boxes(made):
        file = io.StringIO()
        mx.export_to_dot(file, made)
        return file.getvalue().count("shape=rectangle")

    assert boxes(fun(mx.array(3.0))) == 2
    mx.disable_compile()
    assert boxes(fun(mx.array(3.0))) == 3


def test_state_is_read_and_left_at_each_call():
    state = [{"sum": mx.array(0.0)}, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        state[0]["sum"] += x
        state[0]["last"] = x
        return mx.random.uniform(shape=(4,))

    drawn = []

    def run():
        mx.random.seed(3)
        drawn.append([step(mx.array(2.0)).tolist() for _ in range(3)])
        expected = mx.random.split(mx.random.key(3))[0]
        for _ in range(2):
            expected = mx.random.split(expected)[0]
        assert mx.random.state[0].tolist() == expected.tolist()

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert drawn[0] == drawn[1]
    assert len({tuple(each) for each in drawn[0]}) == 3
    assert state[0]["sum"].item() == 12.0
    assert state[0]["last"].item() == 2.0
    assert step.traces == 2, "the state has another entry from the second call on"


def test_captured_state_is_seen_by_another_thread_as_it_is():
    """It calls the function while this one traces it: the state has values without contents then."""
    state, made, threads = {"weight": mx.array(2.0)}, [], []

    def other():
        made.append(scaled(mx.array([3.0])).tolist())

    @partial(mx.compile, inputs=state)
    def scaled(x):
        if not threads:
            threads.append(threading.Thread(target=other))
            threads[0].start()
            time.sleep(0.05)
        return x * state["weight"]

    assert scaled(mx.array([4.0, 5.0])).tolist() == [8.0, 10.0]
    threads[0].join()
    assert made == [[6.0]]


def test_inputs_that_are_had_from_elsewhere_too_are_refused():
    x = mx.array([1.0]) + 1
    with pytest.raises(ValueError, match="uncaptured inputs"):
        mx.compile(lambda y: x + y)(x)
    made_of_it = x * 2
    with pytest.raises(ValueError, match="uncaptured inputs"):
        mx.compile(lambda y: made_of_it + y)(x)


def test_nothing_has_contents_while_a_function_is_traced():
    left = []

    def reads(x):
        return x * (x + 1).item()

    def leaves(x):
        left.append(x * 2)
        return x + mx.array([2.0]).item()

    with pytest.raises(ValueError, match=r"\[eval\] Attempting to eval an array during function transformations"):
        mx.compile(reads)(mx.array([1.0]))
    assert mx.compile(leaves)(mx.array([1.0])).tolist() == [3.0]
    for evaluate in (mx.eval, mx.async_eval, np.array):
        with pytest.raises(ValueError, match="Attempting to eval"):
            evaluate(left[0])
    assert (mx.array([1.0]) + 1).tolist() == [2.0]


def test_functions_for_all_shapes_that_do_not_depend_on_these():
    @partial(mx.compile, shapeless=True)
    def softly(x, y):
        return mx.sigmoid(x) * y / mx.mean(mx.square(x), axis=-1, keepdims=True)

    for shape in ((2, 3), (4, 5), (1, 1)):
        x = np.linspace(-2, 1, np.prod(shape), dtype=np.float32).reshape(shape)
        exact = 1 / (1 + np.exp(-x)) * 3 / np.square(x).mean(-1, keepdims=True)
        np.testing.assert_allclose(np.array(softly(mx.array(x), mx.array(3.0))), exact, rtol=1e-5)
    assert softly.traces == 1
    softly(mx.array([[1, 2]]), mx.array(3.0))
    softly(mx.array([1.0, 2.0]), mx.array(3.0))
    assert softly.traces == 3, "dtypes and numbers of axes tell calls apart"


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: mx.var(x, axis=-1),
        lambda x: x * x.shape[-1] ** -0.5,
        lambda x: x / len(x),
        lambda x: x.reshape(-1, 1) + mx.arange(x.size),
        lambda x: mx.zeros_like(x) + x[-1],
        lambda x: mx.argmax(x),
    ],
)
def test_functions_for_all_shapes_that_do(fun):
    compiled = mx.compile(fun, shapeless=True)
    for shape in ((2, 3), (4, 6), (4, 6), (2, 3)):
        x = mx.array(np.linspace(-2, 1, np.prod(shape), dtype=np.float32).reshape(shape))
        np.testing.assert_array_equal(np.array(compiled(x)), np.array(fun(x)))
    assert compiled.traces == 2


def test_compiled_functions_of_others_and_of_views():
    """One within another is part of it; transposed and reversed arrays are seen as they lie."""
    inner = mx.compile(lambda x: x.reshape(-1) * 2)
    outer = mx.compile(lambda x: inner(x) + inner(x[::-1]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for host in (x, x.T, x[:, ::-1]):
        exact = (host.reshape(-1) + host[::-1].reshape(-1)) * 2
        np.testing.assert_array_equal(np.array(outer(mx.array(host))), exact)
        lying = mx.array(x).T if host.shape == (3, 2) else mx.array(x)[:, :: host.strides[1] // 4]
        np.testing.assert_array_equal(np.array(outer(lying)), exact)
    assert inner.traces == 0


def test_a_growing_cache():
    """Views of the first places of a cache, of another length at each call, and a cache that is written."""

    @mx.compile
    def attend(query, keys, cache, place):
        cache[..., 5:6, :] = query
        return mx.softmax(query @ keys.swapaxes(-1, -2), axis=-1) @ keys + place, cache

    generator = np.random.default_rng(2)
    rows = generator.standard_normal((1, 2, 16, 8)).astype(np.float32)
    cache = mx.zeros((1, 2, 16, 8))
    for n in range(1, 9):
        query = generator.standard_normal((1, 2, 1, 8)).astype(np.float32)
        cache[..., n - 1 : n, :] = mx.array(rows[..., n - 1 : n, :])
        made, written = attend(mx.array(query), cache[..., :n, :], cache, mx.array(1.0))
        mx.eval(made, written, cache)
        scores = np.exp(query @ rows[..., :n, :].swapaxes(-1, -2))
        exact = scores / scores.sum(-1, keepdims=True) @ rows[..., :n, :] + 1
        np.testing.assert_allclose(np.array(made), exact, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(np.array(written)[0, :, 5], query[0, :, 0])
        np.testing.assert_array_equal(np.array(cache)[0, :, :n], rows[0, :, :n])
