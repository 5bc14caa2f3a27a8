"""In place: an output continues an input where its kernel allows that and nobody else still reads the input."""

import numpy as np
import pytest
from helpers.kernels import scale
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator.planner import InPlace, Request, plan
from hiprt.compiler import compile_source
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE, Argument, Function, Module

N = 128  # float32: two units of the planner
UNIT = N * 4


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.linspace(-2, 2, N, dtype=np.float32))


def planned(function, stream):
    """What a step's results are, and the plan of its one graph."""
    step = graphs.Step(function, stream=stream)
    for _ in range(3):
        results = step()
    (made,) = step.plans
    return results, made


def test_a_chain_needs_one_place(stream, x):
    """Ten intermediates, each the only input of the next; the last is the result."""

    def function():
        y = kernels.rms_norm(x, None, 1e-6)
        for _ in range(5):
            y = kernels.add(kernels.exp(kernels.multiply(y, -0.5)), x)
        return kernels.softmax(kernels.silu_mul(y, x))

    result, made = planned(function, stream)
    assert made.nbytes == made.lower_bound == UNIT
    np.testing.assert_array_equal(result.numpy(), function().numpy())


def test_a_parallel_reader_prevents_it(stream, x):
    """Two nodes read y and neither waits for the other: both results lie apart from it."""

    def apart():
        y = scale(x, 2.0)
        return kernels.add(y, y), kernels.multiply(y, 3.0)

    (a, b), made = planned(apart, stream)
    assert made.nbytes == 3 * UNIT
    np.testing.assert_array_equal(a.numpy(), x.numpy() * 4)
    np.testing.assert_array_equal(b.numpy(), x.numpy() * 6)


def test_a_reader_that_is_done_does_not(stream, x):
    """The second reader waits for the first, as it reads what that made."""

    def function():
        y = scale(x, 2.0)
        return kernels.add(y, kernels.multiply(y, 3.0))

    result, made = planned(function, stream)
    assert made.nbytes == made.lower_bound == 2 * UNIT
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 8)


def test_what_is_returned_is_not_overwritten(stream, x):
    """A result is read after the step."""

    def function():
        y = scale(x, 2.0)
        return y, kernels.add(y, y)

    (y, z), made = planned(function, stream)
    assert made.nbytes == 2 * UNIT
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(z.numpy(), x.numpy() * 4)


def test_both_outputs_of_one_kernel(stream, x):
    """The sum and its norm take the places of both operands."""
    weight = hiprt.full(N, 2.0)

    def function():
        a, b = scale(x, 2.0), scale(x, 3.0)
        total, normed = kernels.add_rms_norm(a, b, weight, 1e-6)
        return kernels.add(total, normed)

    result, made = planned(function, stream)
    assert made.nbytes == made.lower_bound == 2 * UNIT
    np.testing.assert_array_equal(result.numpy(), function().numpy())


def test_only_what_is_declared_is_read_element_by_element(stream, x):
    """A transposed operand, and a part of an array, are not overwritten where they are still to be read."""

    def function():
        square = scale(x[:64], 2.0).reshape(8, 8)
        half = scale(x, 2.0)
        return kernels.add(square.T, 1.0), kernels.add(half[: N // 2], half[N // 2 :])

    (transposed, halves), _ = planned(function, stream)
    values = x.numpy()
    np.testing.assert_array_equal(transposed.numpy(), values[:64].reshape(8, 8).T * 2 + 1)
    np.testing.assert_array_equal(halves.numpy(), values[: N // 2] * 2 + values[N // 2 :] * 2)


def test_an_operand_that_is_passed_twice(stream, x):
    """Where it is the weight as well, the sum must not lie over it; where all places are declared, the result may."""

    def weighted():
        y = scale(x, 2.0)
        return kernels.add_rms_norm(y, x, y, 1e-6)

    (total, normed), made = planned(weighted, stream)
    assert made.nbytes == 2 * UNIT, "the norm lies over it, the sum apart"
    for got, wanted in zip((total, normed), weighted(), strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())

    def twice():
        y = scale(x, 2.0)
        return kernels.rms_norm(kernels.add(y, y), None, 1e-6)

    result, made = planned(twice, stream)
    assert made.nbytes == UNIT
    np.testing.assert_array_equal(result.numpy(), twice().numpy())


def test_an_operand_of_the_same_size_that_every_thread_reads(stream, x):
    """The position has as many bytes as what is turned by it."""
    pair = hiprt.array(np.array([[1, 2]], np.float16))

    def function():
        return kernels.rope(pair, kernels.astype(scale(x[:1], 2.0), np.int32), base=100.0)

    result, made = planned(function, stream)
    assert made.nbytes == 2 * 256, "the two positions in one place, the result in another"
    np.testing.assert_array_equal(result.numpy(), function().numpy())


DOUBLED = """
extern "C" __global__ void doubled(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2;
}
"""


@pytest.mark.parametrize(("over", "places"), [((), 2), (("x",), 1)])
def test_kernels_of_others_declare_it_too(stream, x, over, places):
    """`Argument` has it, and without it nothing is shared."""
    module = Module(compile_source(DOUBLED, "doubled.hip")[0])
    arguments = [Argument("x", READ), Argument("out", WRITE, over=over), Argument("n", SCALAR, "int32")]
    function = Function(module, "doubled", arguments)

    def step():
        y = x
        for _ in range(6):
            y, before = hiprt.empty(N), y
            function(stream, (1, 1, 1), (N, 1, 1), before, y, N)
        return y

    result, made = planned(step, stream)
    assert made.nbytes == made.lower_bound == places * UNIT
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 64)


@pytest.mark.parametrize(
    "arguments",
    [
        [Argument("x", READ), Argument("out", READ_WRITE, over=("x",))],
        [Argument("x", READ_WRITE), Argument("out", WRITE, over=("x",))],
        [Argument("x", READ), Argument("out", WRITE, over=("y",))],
    ],
)
def test_declarations_that_cannot_be(stream, arguments):
    """Only what is written alone lies over what is read alone."""
    module = Module(compile_source(DOUBLED, "doubled.hip")[0])
    with pytest.raises(ValueError, match=r"doubled: out is over [xy]; write over read"):
        Function(module, "doubled", arguments)


def test_an_output_that_was_used_before():
    """Node 1 fills what node 2 writes: by then the input is in use."""
    requests = [Request(256, (0, 2)), Request(256, (1, 2, 3))]
    assert plan(requests, [[], [], [0, 1], [2]], [InPlace(2, 0, 1)]).nbytes == 512
    assert plan(requests, [[], [0], [0, 1], [2]], [InPlace(2, 0, 1)]).nbytes == 512


@st.composite
def programs(draw):
    """Nodes that each write one request and read some earlier ones, and that may write some of those in place."""
    size = draw(st.integers(1, 12))
    reads = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(size)]
    waits = [
        sorted(set(reads[i]) | draw(st.sets(st.integers(0, max(i - 1, 0)), max_size=int(i > 0)))) for i in range(size)
    ]
    units = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=size, max_size=size))
    results = draw(st.sets(st.integers(0, size - 1), max_size=2))
    offers = [InPlace(i, k, i) for i in range(size) for k in reads[i] if draw(st.booleans())]
    return reads, waits, units, results, offers


def simulate(program, offsets, random):
    """Run the nodes in an order that the edges allow, several at a time; every input must be whole all the while."""
    reads, waits, units, results, _ = program
    memory = {}

    def places(request):
        return [offsets[request] // 256 + k for k in range(units[request])]

    def holds(request):
        return all(memory.get(place) == request for place in places(request))

    started, finished = set(), set()
    while len(finished) < len(reads):
        ready = [i for i in range(len(reads)) if i not in started and finished.issuperset(waits[i])]
        node = random.choice([*ready, *(started - finished)])
        assert all(holds(k) for k in reads[node]), (node, offsets)
        if node not in started:
            started.add(node)
            taken = {place for k in reads[node] if offsets[k] == offsets[node] for place in places(k)}
            memory.update(dict.fromkeys(set(places(node)) - taken, "unfinished"))
        else:
            finished.add(node)
            memory.update(dict.fromkeys(places(node), node))
    assert all(map(holds, results)), offsets


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.randoms(use_true_random=False))
def test_random_programs_in_any_order(program, random):
    """Against the nodes' own values; and a plan in place is never bound to more than one that is not."""
    reads, waits, units, results, offers = program
    users = [tuple(sorted({i} | {k for k, each in enumerate(reads) if i in each})) for i in range(len(reads))]
    requests = [Request(n * 256, u, i in results) for i, (n, u) in enumerate(zip(units, users))]
    made = plan(requests, waits, offers)
    assert made.nbytes >= made.lower_bound
    assert made.lower_bound <= plan(requests, waits).lower_bound
    for _ in range(4):
        simulate(program, made.offsets, random)


OPS = {
    "add": lambda a, b, at: kernels.add(a, b),
    "product": lambda a, b, at: kernels.multiply(a, b),
    "gate": lambda a, b, at: kernels.silu_mul(a, b),
    "norm": lambda a, b, at: kernels.rms_norm(a, b, 1e-5),
    "sums": lambda a, b, at: kernels.add_rms_norm(a, b, a, 1e-5)[1],
    "shares": lambda a, b, at: kernels.softmax(a),
    "turn": lambda a, b, at: kernels.rope(a.reshape(1, N), at, base=100.0).reshape(N),
    "copy": lambda a, b, at: scale(a, 0.5),
}


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_steps_of_ops_have_the_bits_of_eager_ones(data):
    """Whatever is planned in place, on a device that runs nodes in any order that the edges allow."""
    index = st.integers(0, 100)
    lines = data.draw(st.lists(st.tuples(st.sampled_from(sorted(OPS)), index, index), min_size=1, max_size=12))
    kept = data.draw(st.sets(index, max_size=2))
    x, at = hiprt.array(np.linspace(-1, 1, N, dtype=np.float32)), hiprt.array([3], np.int32)

    def function():
        values = [x]
        for op, a, b in lines:
            values.append(OPS[op](values[a % len(values)], values[b % len(values)], at))
        return [values[-1], *(values[k % len(values)] for k in sorted(kept))]

    expected = [value.numpy() for value in function()]
    step = graphs.Step(function)
    for _ in range(3):
        for got, wanted in zip(step(), expected, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
