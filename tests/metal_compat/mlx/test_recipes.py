"""Calls of modules that are made from recipes: they give the bits that Python gives, and leave what Python leaves."""

import copy
import gc
import io
import pickle
import threading
import weakref
from functools import partial

import numpy as np
import pytest

from hiprt.flags import flags
from hiprt.graphs.trace import lazy
from hiprt.metal_compat import mlx as mx
from hiprt.metal_compat.mlx.module_calls import adopt, recipes_of

HIDDEN, HEADS, WIDTH, LAYERS, STEP = 64, 2, 32, 2, 8
ONE_BY_ONE = ("simplify", "dead_code", "fusion")  # all evaluations give the same bits


@pytest.fixture(autouse=True)
def the_same_bits():
    """Evaluations give the same bits, whether a structure is new or not."""
    with flags.override(mlx_passes=ONE_BY_ONE):
        yield


class Module(dict):
    """A module: its arrays and lists are items, its numbers attributes."""

    def __init__(self):
        self._no_grad = set()

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        if isinstance(value, (mx.array, dict, list, tuple)):
            self[name] = value
        else:
            super().__setattr__(name, value)


adopt(Module)


class Linear(Module):
    """A product with a matrix."""

    def __init__(self, random, rows, columns):
        super().__init__()
        self.weight = mx.array((random.normal(size=(rows, columns)) * columns**-0.5).astype(np.float32))

    def __call__(self, x):
        return x @ self["weight"].T


class Layer(Module):
    """Attention with a cache."""

    def __init__(self, random):
        super().__init__()
        self.q, self.k, self.v, self.o = (Linear(random, HEADS * WIDTH, HIDDEN) for _ in range(4))
        self.norm = mx.array(np.ones(HIDDEN, np.float32))
        self.eps = 1e-6

    def __call__(self, x, cache):
        n = mx.fast.rms_norm(x, self.norm, self.eps)
        q, k, v = (m(n).reshape(*x.shape[:2], HEADS, WIDTH).transpose(0, 2, 1, 3) for m in (self.q, self.k, self.v))
        options = {"traditional": False, "base": 1e4, "scale": 1.0}
        q, k = (mx.fast.rope(each, WIDTH, offset=cache.offset, **options) for each in (q, k))
        k, v = cache.update(k, v)
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=WIDTH**-0.5)
        return x + self.o(mixed.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))


class Model(Module):
    """Some layers; `after` is called with the module before it returns."""

    def __init__(self, seed=0, after=None):
        super().__init__()
        random = np.random.default_rng(seed)
        self.layers = [Layer(random) for _ in range(LAYERS)]
        self.scale = 1.5
        self.after = after

    def __call__(self, x, cache):
        for layer, each in zip(self.layers, cache):
            x = layer(x, each)
        made = x * self.scale
        if self.after is not None:
            self.after(self, made, cache)
        return made


class Growing:
    """A cache that grows by steps."""

    def __init__(self):
        self.keys = self.values = None
        self.offset = 0

    def update(self, keys, values):
        before, count = self.offset, keys.shape[2]
        if self.keys is None or before + count > self.keys.shape[2]:
            more = mx.zeros((*keys.shape[:2], -(-count // STEP) * STEP, keys.shape[3]))
            if self.keys is None:
                self.keys, self.values = more, mx.zeros(more.shape)
            else:
                self.keys, self.values = (
                    mx.concatenate([each[..., :before, :], more], axis=2) for each in (self.keys, self.values)
                )
        self.offset += count
        self.keys[..., before : self.offset, :] = keys
        self.values[..., before : self.offset, :] = values
        return self.keys[..., : self.offset, :], self.values[..., : self.offset, :]


class Rotating(Growing):
    """A cache of a fixed size, whose oldest place but the first is written again."""

    def __init__(self, size=6):
        super().__init__()
        self.size, self.keep, self.place = size, 1, 0

    def update(self, keys, values):
        if keys.shape[2] > 1 or self.keys is None:
            shape = (*keys.shape[:2], self.size, keys.shape[3])
            self.keys, self.values = mx.zeros(shape), mx.zeros(shape)
        if self.place >= self.size:
            self.place = self.keep
        self.keys[..., self.place : self.place + 1, :] = keys[..., -1:, :]
        self.values[..., self.place : self.place + 1, :] = values[..., -1:, :]
        self.offset += keys.shape[2]
        self.place += 1
        if self.offset < self.size:
            return self.keys[..., : self.place, :], self.values[..., : self.place, :]
        return self.keys, self.values


class InList:
    """A cache whose arrays lie in a list, as tuples."""

    def __init__(self):
        self.parts, self.offset, self.extra = [None, None], 0, {"last": None}

    def update(self, keys, values):
        both = []
        for i, new in enumerate((keys, values)):
            old = self.parts[i]
            self.parts[i] = (new if old is None else mx.concatenate([old[0], new], axis=2)[..., -4:, :],)
            both.append(self.parts[i][0])
        self.extra["last"] = values[..., -1, :]
        self.offset = self.offset + keys.shape[2]
        return both


def inputs(count, rows=1, length=1):
    random = np.random.default_rng(5)
    return [mx.array(random.normal(size=(rows, length, HIDDEN)).astype(np.float32)) for _ in range(count)]


def state(cache):
    """All that a cache holds."""
    found = {}
    for name, each in vars(cache).items():
        parts = list(each.values()) if isinstance(each, dict) else each if isinstance(each, list) else [each]
        parts = [part[0] if isinstance(part, tuple) else part for part in parts]
        found[name] = [part.tolist() if isinstance(part, mx.array) else (type(part), part) for part in parts]
    return found


def run(model, caches, tokens, between=None):
    """What a model writes for inputs, and what its caches hold then."""
    found = []
    for i, x in enumerate(tokens):
        if between is not None:
            between(i, model, caches)
        found.append(model(x, caches).tolist())
    return found, [state(each) for each in caches]


def compared(kind, tokens, between=None, seed=0, after=None):
    """Run with recipes and without; return the model with recipes."""
    with flags.override(mlx_recipes=False):
        expected = run(Model(seed, after), [kind() for _ in range(LAYERS)], tokens, between)
    model = Model(seed, after)
    assert run(model, [kind() for _ in range(LAYERS)], tokens, between) == expected
    return model


@pytest.mark.parametrize("kind", [Growing, Rotating, InList])
def test_recipes_give_the_bits_of_python(kind):
    model = compared(kind, [*inputs(1, length=3), *inputs(25)])
    assert recipes_of(model).uses > 10


def test_longer_caches_need_no_other_recording():
    """The recipe for one length of the caches gives those for others."""
    recorded = {}

    def between(i, model, caches):
        recorded[i] = recipes_of(model).recordings

    model = compared(Growing, inputs(6 * STEP), between)
    assert recorded[STEP] > 0
    for start in range(2 * STEP, 6 * STEP, STEP):  # the call before has made the caches longer
        assert recorded[start + 1] == recorded[start + STEP - 1]
    assert recipes_of(model).uses > 4 * (STEP - 2)


def by_a_branch(cache):
    return 2.0 if cache.keys.shape[2] > 3 * STEP else 0.5


def by_the_number(cache):
    return float(cache.keys.shape[2])


def by_the_form(cache):
    return 0.25 * (cache.keys.shape == (1, HEADS, 2 * STEP, WIDTH)) + 1e-4 * cache.values.nbytes


def by_the_size(cache):
    return 1e-3 * cache.keys.size


def by_an_attribute(cache):
    cache.capacity = cache.keys.shape[2]
    cache.free = cache.capacity - cache.offset
    return 1.0


def by_an_op(cache):
    return mx.exp(cache.keys).sum() * 1e-3


def by_a_view(cache):
    return cache.values[..., 1, :].reshape(1, 1, HEADS * WIDTH)


def by_a_mask(cache):
    return mx.where(mx.arange(cache.keys.shape[2]) < cache.offset, 1.0, 0.0).sum()


def by_text(cache):
    return float(f"{cache.keys.shape[-2]}")


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "share",
    [by_a_branch, by_the_number, by_the_form, by_the_size, by_an_attribute, by_an_op, by_a_view, by_a_mask, by_text],
)
@pytest.mark.parametrize("is_before", [False, True])
def test_what_depends_on_the_length_of_a_cache_is_done_for_each_length(share, is_before):
    class Measured(Model):
        def __call__(self, x, cache):
            before = share(cache[0]) if is_before and cache[0].keys is not None else 1.0
            made = super().__call__(x, cache)
            found = before if is_before else share(cache[0])
            return made * found if isinstance(found, float) else made + found.sum()

    found = []
    for is_on in (False, True):
        with flags.override(mlx_recipes=is_on):
            model = Measured()
            found.append(run(model, [Growing() for _ in range(LAYERS)], inputs(5 * STEP)))
    assert found[0] == found[1]
    assert recipes_of(model).uses > 8


def test_rows_and_lengths_have_recipes_of_their_own():
    model = Model()
    for rows, length in [(1, 1), (2, 1), (1, 3), (1, 1), (2, 1), (1, 3)]:
        compared(Growing, inputs(6, rows, length))
        with flags.override(mlx_recipes=False):
            expected = run(model, [Growing() for _ in range(LAYERS)], inputs(6, rows, length))
        assert run(model, [Growing() for _ in range(LAYERS)], inputs(6, rows, length)) == expected
    assert len(recipes_of(model).recipes) > 1


@pytest.mark.parametrize(("times", "more"), [(2**61, 0), (1, 2**70), (2**80, 0), (3, -(2**63)), (2**20, 2**60)])
def test_large_numbers_are_python_s(times, more):
    """They are beyond 64 bits, or come to be when the offset grows."""

    class Far(Model):
        def __call__(self, x, cache):
            return super().__call__(x, cache), cache[0].offset * times + more

    model, caches = Far(), [Growing() for _ in range(LAYERS)]
    found = [model(x, caches)[1] for x in inputs(20)]
    assert found == [offset * times + more for offset in range(1, 21)]


def double(module, i):
    module.weight = module.weight * 2


def in_place(module, i):
    module.weight *= 0.5


def replaced(module, i):
    module.weight = mx.array(np.eye(HEADS * WIDTH, HIDDEN, dtype=np.float32))


@pytest.mark.parametrize("change", [double, in_place, replaced])
def test_weights_are_read_where_they_are_now(change):
    recorded = []

    def between(i, model, caches):
        if i in (22, 25):
            recorded.append(recipes_of(model).recordings)
            change(model.layers[1].q, i)

    model = compared(Rotating, inputs(32), between)
    assert recipes_of(model).recordings == recorded[-1] > 0  # other weights of the same form need no other recipe


def test_a_known_call_is_one_of_the_graph(monkeypatch):
    """Its ops are put there where the structure is new, and for whoever looks at them."""
    sizes = []

    def counted(values):
        found = cut(values)
        sizes.append(len(found[1]))
        return found

    cut = lazy.cut
    monkeypatch.setattr(lazy, "cut", counted)
    model, caches = Model(), [Rotating() for _ in range(LAYERS)]
    run(model, caches, inputs(24))
    assert sizes.count(1) > 8
    assert sizes[-3:] == [1, 1, 1]
    drawn = io.StringIO()
    mx.export_to_dot(drawn, model(inputs(1)[0], caches))
    assert drawn.getvalue().count("matmul") > LAYERS


def test_calls_wait_for_each_other():
    """Caches are read and left before anything is computed."""
    x = inputs(30)

    def made(is_on):
        model, caches = Model(), [Growing() for _ in range(LAYERS)]
        with flags.override(mlx_recipes=is_on):
            run(model, caches, x[:7])
            found = [model(each, caches) for each in x[7:20]]
            late = [each.tolist() for each in reversed(found)]
            return late, run(model, caches, x[20:]), recipes_of(model).uses if is_on else 0

    found, expected = made(True), made(False)
    assert found[:2] == expected[:2]
    assert found[2] > 10


@pytest.mark.parametrize("first", ["alike", "apart"])
def test_a_weight_may_be_an_argument(first):
    class Product(Module):
        def __init__(self):
            super().__init__()
            self.weight = mx.array(np.random.default_rng(0).normal(size=(HIDDEN, HIDDEN)).astype(np.float32))

        def __call__(self, x):
            return (x @ self.weight.T) * 0.5

    module = Product()
    alike, apart = [module.weight] * 8, inputs(8, HIDDEN // 8, 8)
    apart = [x.reshape(HIDDEN, HIDDEN) for x in apart]
    for x in [*alike, *apart, *alike] if first == "alike" else [*apart, *alike, *apart]:
        expected = np.array(x) @ np.array(module.weight).T * np.float32(0.5)
        np.testing.assert_allclose(np.array(module(x)), expected, rtol=1e-4, atol=1e-4)
    assert recipes_of(module).uses > 8


def test_a_changed_module_is_another_call():
    def between(i, model, caches):
        if i == 8:
            model.scale = 0.5
        if i == 11:
            model.layers[0].k = Linear(np.random.default_rng(9), HEADS * WIDTH, HIDDEN)
        if i == 13:
            model.layers[0], model.layers[1] = model.layers[1], model.layers[0]
        if i == 15:
            model.layers = model.layers[:1]
        if i == 17:
            model.layers[0].eps = 0.5

    model = compared(Rotating, inputs(24), between)
    assert recipes_of(model).uses > 3


def test_a_trimmed_and_a_copied_cache():
    def between(i, model, caches):
        if i == 10:
            for each in caches:
                each.offset -= 3
        if i == 14:
            caches[:] = copy.deepcopy(caches)
        if i == 16:
            caches[1].offset += 1  # another position than the first layer's

    assert recipes_of(compared(Growing, inputs(30), between)).uses > 10


def test_what_holds_an_array_of_the_cache_sees_the_write():
    model, caches = Model(), [Rotating() for _ in range(LAYERS)]
    run(model, caches, inputs(10))
    keys, uses = caches[0].keys, recipes_of(model).uses
    before = keys.tolist()
    model(inputs(1)[0], caches)
    assert recipes_of(model).uses == uses + 1
    assert caches[0].keys is keys
    assert keys.tolist() != before


def test_a_call_that_reads_contents_has_no_recipe():
    model = compared(Rotating, inputs(8), after=lambda model, made, cache: made.tolist())
    assert not recipes_of(model).uses
    assert "computes" in recipes_of(model).refusals[-1]


escaped = []


def count(model, made, cache):
    model.calls = getattr(model, "calls", 0) + 1


def remember(model, made, cache):
    model.last = [made]


def escape(model, made, cache):
    escaped.append(made + 1)


def grow(model, made, cache):
    cache[0].__dict__.setdefault("history", []).append(made)


def unknown(model, made, cache):
    cache[0].other = {1, 2}


@pytest.mark.parametrize("effect", [count, remember, escape, grow, unknown])
def test_a_call_with_effects_has_no_recipe(effect):
    model = Model(after=effect)
    caches = [Rotating() for _ in range(LAYERS)]
    for x in inputs(8):
        model(x, caches)
    assert not recipes_of(model).uses
    assert recipes_of(model).refusals
    assert effect is not count or model.calls == 8
    assert effect is not escape or len(escaped) == 8


def test_a_call_that_differs_each_time_has_no_recipe():
    turns = iter(range(100))

    class Turning(Module):
        def __call__(self, x):
            return x * next(turns)

    turning = Turning()
    assert [turning(mx.array([1.0])).item() for _ in range(9)] == list(range(9))
    assert not recipes_of(turning).uses
    assert recipes_of(turning).drafts


def test_an_exception_leaves_numbers():
    failing = threading.Event()

    def fail(model, made, cache):
        if failing.is_set():
            raise ArithmeticError

    model, caches = Model(after=fail), [Growing() for _ in range(LAYERS)]
    first, *rest = inputs(12)
    model(first, caches)
    failing.set()
    with pytest.raises(ArithmeticError):
        model(rest[0], caches)
    failing.clear()
    assert [type(each.offset) for each in caches] == [int, int]
    assert caches[0].offset == 2
    run(model, caches, rest)
    assert recipes_of(model).uses


@pytest.mark.parametrize("choice", [lambda n: n % 3, lambda n: n > 9, lambda n: [1, 2, 3][n % 2], lambda n: n * n])
def test_a_choice_by_the_position_is_made_anew(choice):
    class Choosing(Module):
        def __call__(self, x, cache):
            cache.offset += 1
            return x * choice(cache.offset) + cache.offset

    def made(is_on):
        module, cache = Choosing(), Growing()
        with flags.override(mlx_recipes=is_on):
            return [module(mx.array([2.0]), cache).item() for _ in range(30)]

    assert made(True) == made(False)


def test_a_number_that_is_left_is_left_again():
    """The number that an attribute is set to is the one that it had when the call was recorded."""

    class Setting(Module):
        def __call__(self, x, cache):
            cache.place = 4
            return x + 1

    module, cache = Setting(), Rotating()
    cache.place = 4
    for _ in range(4):
        module(mx.array([1.0]), cache)
    assert recipes_of(module).uses
    cache.place = 5
    module(mx.array([1.0]), cache)
    assert cache.place == 4


def test_two_numbers_that_are_equal_by_chance():
    class Copying(Module):
        def __call__(self, x, cache):
            cache.place = cache.offset
            cache.offset += 1
            return x + mx.arange(cache.place, cache.place + 2)

    def made(is_on):
        module, cache, found = Copying(), Rotating(), []
        with flags.override(mlx_recipes=is_on):
            for i in range(12):
                if i in (6, 9):
                    cache.offset += 3
                found.append((module(mx.array([1.0]), cache).tolist(), cache.place, cache.offset))
        return found

    assert made(True) == made(False)


def test_an_array_that_nothing_leads_to_is_read_each_time():
    """A module behind a function is not among the objects that a recipe looks at."""
    hidden = Linear(np.random.default_rng(1), HIDDEN, HIDDEN)

    class Calling(Module):
        def __init__(self):
            super().__init__()
            self.function = partial(Linear.__call__, hidden)

        def __call__(self, x):
            return self.function(x)

    module, (x,) = Calling(), inputs(1)
    for i in range(8):
        if i == 6:
            hidden.weight = mx.full((HIDDEN, HIDDEN), 0.25)
        np.testing.assert_array_equal(np.array(module(x)), np.array(x @ hidden.weight.T))
    assert "nothing leads to" in recipes_of(module).refusals[-1]


def test_random_numbers_go_on():
    class Noisy(Module):
        def __call__(self, x):
            return x + mx.random.normal((3,))

    def made(is_on):
        mx.random.seed(3)
        module = Noisy()
        with flags.override(mlx_recipes=is_on):
            found = [module(mx.array([1.0])).tolist() for _ in range(6)]
        return found, mx.random.state[0].tolist(), recipes_of(module).uses if is_on else 3

    assert made(True) == made(False)


def test_two_threads_and_two_models():
    models = [Model(1), Model(2)]
    with flags.override(mlx_recipes=False):
        expected = [run(Model(seed), [Growing(), Growing()], inputs(20)) for seed in (1, 2)]
    found = {}

    def work(i):
        found[i] = run(models[i % 2], [Growing(), Growing()], inputs(20))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [found[i] for i in range(4)] == [expected[0], expected[1], expected[0], expected[1]]


def test_a_model_goes_with_its_recipes():
    model = Model()
    run(model, [Growing(), Growing()], inputs(8))
    assert recipes_of(model).uses
    copied = copy.deepcopy(model)
    assert not recipes_of(copied).uses
    assert not pickle.loads(pickle.dumps(recipes_of(model))).recipes
    gone = weakref.ref(model), weakref.ref(model.layers[0].q.weight)
    del model
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_the_flag_runs_python_each_time():
    calls = []
    model = Model(after=lambda *_: calls.append(1))
    with flags.override(mlx_recipes=False):
        run(model, [Growing(), Growing()], inputs(8))
    assert len(calls) == 8
