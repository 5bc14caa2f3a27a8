"""mx.random: MLX's numbers for a key and a seed, a key for each thread, what MLX refuses."""

import threading

import pytest

import hiprt.metal_compat.mlx as mx

LOGITS = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, -3.0, 0.25], [0.0, 0.0, 4.0, 4.0]]
# Made by MLX 0.32.4 on a CPU, with mx.random.key(17).
FROM_MLX = {
    "uniform": [-1.909682035446167, 1.1706933975219727, 2.6325387954711914, -1.0345520973205566, 0.81801438331604],
    "bfloat16": [0.19921875, 0.98828125, 0.96484375, 0.5078125],
    "normal": [-1.2412109375, 0.4326171875, 1.5, -0.62353515625, 0.261962890625],
    "randint": [-34, 50, -42, -11, 40, 65],
    "bernoulli": [False, True, True, False, True, False, True, True],
    "permutation": [3, 4, 6, 7, 1, 8, 2, 0, 5],
    "categorical": [2, 3, 3],
    "categorical of columns": [2, 1, 2, 2],
    "samples": [[3, 2, 2, 2, 3], [3, 0, 0, 1, 0], [2, 3, 2, 3, 2]],
    "samples of one": [2, 0, 0, 2, 0, 2, 1, 0],
    "a shape": [[2, 1, 2], [2, 0, 3]],
}
CALLS = {
    "uniform": lambda key: mx.random.uniform(-2.5, 3, (5,), key=key),
    "bfloat16": lambda key: mx.random.uniform(shape=(4,), dtype=mx.bfloat16, key=key),
    "normal": lambda key: mx.random.normal((5,), dtype=mx.float16, key=key),
    "randint": lambda key: mx.random.randint(-50, 100, (6,), key=key),
    "bernoulli": lambda key: mx.random.bernoulli(0.3, (8,), key=key),
    "permutation": lambda key: mx.random.permutation(9, key=key),
    "categorical": lambda key: mx.random.categorical(mx.array(LOGITS), key=key),
    "categorical of columns": lambda key: mx.random.categorical(mx.array(LOGITS), 0, key=key),
    "samples": lambda key: mx.random.categorical(mx.array(LOGITS), num_samples=5, key=key),
    "samples of one": lambda key: mx.random.categorical(mx.array(LOGITS[0]), num_samples=8, key=key),
    "a shape": lambda key: mx.random.categorical(mx.array(LOGITS), shape=(2, 3), key=key),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_those_of_mlx(name):
    assert mx.astype(CALLS[name](mx.random.key(17)), mx.float32).tolist() == FROM_MLX[name]


def test_a_seed_gives_the_numbers_of_mlx():
    mx.random.seed(5)
    drawn = [mx.random.uniform().item() for _ in range(3)]
    assert drawn == [0.856399655342102, 0.7829771041870117, 0.6885854005813599]
    assert mx.random.state[0].tolist() == [803454538, 850803111]
    assert len(mx.random.state) == 1


def test_each_thread_has_its_own_key():
    mx.random.seed(5)
    before = mx.random.state[0].tolist()
    thread = threading.Thread(target=lambda: mx.random.seed(6))
    thread.start()
    thread.join()
    assert mx.random.state[0].tolist() == before


@pytest.mark.parametrize(
    ("kind", "message", "call"),
    [
        (ValueError, "Negative dimensions", lambda: mx.random.uniform(shape=(2, -3))),
        (ValueError, "from broadcasted shape", lambda: mx.random.uniform(low=mx.array([0.0, 1.0]))),
        (ValueError, "only accepts integer", lambda: mx.random.randint(0, 5, dtype=mx.float32)),
        (ValueError, "must be a float type", lambda: mx.random.bernoulli(0, (2,))),
        (
            ValueError,
            "At most one of shape",
            lambda: mx.random.categorical(mx.array(LOGITS), shape=(3,), num_samples=2),
        ),
        (IndexError, "Invalid axis 5", lambda: mx.random.categorical(mx.array(LOGITS), 5)),
        (ValueError, "Expected key type", lambda: mx.random.split(mx.array([1, 2]))),
        (TypeError, "permutation", lambda: mx.random.permutation(5.5)),
    ],
)
def test_mistakes_are_those_of_mlx(kind, message, call):
    with pytest.raises(kind, match=message):
        call()
