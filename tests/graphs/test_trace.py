"""Traces: programs as text, their rules, and what a traced value refuses."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.compiled import ramp
from helpers.op_cases import CASES, operands_of, results_of

import hiprt
from hiprt import kernels
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.trace import Trace
from hiprt.metal_compat import metal_kernel
from hiprt.op import Op

# What has one text's logits, and no operands with rows.
NO_ROWS = {"arange", "filter_logits", "random_bits", "repetition_penalty"}


def traced(function, *arrays, shapeless=False):
    """Return the program of a function that returns an array or a tuple of arrays."""
    trace = Trace(shapeless=shapeless)
    values = [trace.given(array) for array in arrays]
    with trace.recording():
        made = function(*values)
    return Program(values, trace.primitives, made if isinstance(made, tuple) else (made,), trace.guards)


def test_every_op_can_be_traced():
    names = set(kernels.__all__) - {"HipKernel", "Kernel", "hip_kernel", "hip_kernels", "timed_choices"}
    assert all(isinstance(getattr(kernels, name), Op) for name in names)


def test_text():
    weight = ramp(8)

    def function(x):
        normed = kernels.rms_norm(x, weight, 1e-6)
        rows = kernels.softmax(kernels.multiply(normed, 1.5)[1:, None], axis=-1)
        return kernels.concatenate([rows.reshape(-1, 8), x]), kernels.astype(x.T, np.int32)

    assert traced(function, ramp(4, 8)).text() == (
        "program(%0: float32[4, 8])\n"
        "  @0: float32[8] captured\n"
        "  %1: float32[4, 8] = rms_norm(%0, @0, 1e-06)\n"
        "  %2: float32[4, 8] = multiply(%1, 1.5)\n"
        "  %3: float32[3, 1, 8] = getitem(%2, (1:, None))\n"
        "  %4: float32[3, 1, 8] = softmax(%3)\n"
        "  %5: float32[3, 8] = reshape(%4, (-1, 8))\n"
        "  %6: float32[7, 8] = concatenate([%5, %0])\n"
        "  %7: float32[8, 4] strides [1, 8] = transpose(%0, ())\n"
        "  %8: int32[8, 4] = astype(%7, int32)\n"
        "  return %6, %8"
    )


def test_writes_are_marked():
    """Of an op that writes in place, of one that is given `out`, and of kernels of the user."""
    axpy = kernels.hip_kernel(
        "__global__ void axpy(const float* x, float* y, float a, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] += a * x[i];\n}",
        "axpy",
        {"x": "read float32", "y": "update float32", "a": "float32", "n": "int32"},
    )

    def function(cache, x, position):
        kernels.kv_write(cache, x, position)
        axpy(x, cache, 2.0, 4, threads=4)
        return kernels.add(cache, 1.0, out=cache)

    text = traced(function, ramp(2, 5, 4), ramp(2, 4), ramp(1, dtype=np.int32)).text()
    assert text.splitlines()[1:] == [
        "  kv_write(%0!, %1, %2)",
        "  hip_kernel(axpy, [%1, %0!, 2.0, 4], threads=4)",
        "  add(%0!, 1.0, out=%0!)",
        "  return %0",
    ]


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_op_gives_the_same_in_a_program(name):
    """Results, and what it wrote in place, bit by bit."""
    host = operands_of(name, 3)

    def given():
        return {k: hiprt.array(v) if isinstance(v, np.ndarray) else v for k, v in host.items()}

    mine, its = given(), given()
    arrays = [k for k, v in mine.items() if isinstance(v, hiprt.Array)]
    exact = results_of(name, mine)
    number_of_results = len(exact) - len(arrays)

    def function(*values):
        found = results_of(name, its | dict(zip(arrays, values)))
        return tuple(found[str(i)] for i in range(number_of_results))

    program = traced(function, *(its[k] for k in arrays))
    made = program.run(*(its[k] for k in arrays))
    for i, array in enumerate(made):
        expected, pattern = exact[str(i)], program.outputs[i]
        assert (array.shape, array.dtype, array.strides) == (expected.shape, expected.dtype, expected.strides)
        assert (pattern.shape, pattern.dtype, pattern.strides) == (expected.shape, expected.dtype, expected.strides)
        np.testing.assert_array_equal(array.numpy().view(np.uint8), expected.numpy().view(np.uint8))
    for key in arrays:
        np.testing.assert_array_equal(its[key].numpy(), mine[key].numpy(), err_msg=key)


@pytest.mark.parametrize("name", sorted(set(CASES) - NO_ROWS))
def test_every_op_takes_other_shapes(name):
    """A program without shapes, traced with 3 rows: the forms it infers for 5 are those of the op."""
    few, many = operands_of(name, 3), operands_of(name, 5)
    arrays = [k for k, v in few.items() if isinstance(v, np.ndarray)]
    static = {k: v for k, v in many.items() if k not in arrays}
    if static != {k: v for k, v in few.items() if k not in arrays}:
        pytest.skip("its constants name the rows")
    exact = results_of(name, static | {k: hiprt.array(many[k]) for k in arrays})

    def function(*values):
        found = results_of(name, static | dict(zip(arrays, values)))
        return tuple(found[str(i)] for i in range(len(found) - len(arrays)))

    program = traced(function, *(hiprt.array(few[k]) for k in arrays), shapeless=True)
    operands = [hiprt.array(many[k]) for k in arrays]
    inferred = program.forms(operands)
    for i, (array, form) in enumerate(zip(program.run(*operands), inferred)):
        expected = exact[str(i)]
        assert (form.shape, form.dtype) == (expected.shape, expected.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(array.numpy().view(np.uint8), expected.numpy().view(np.uint8))


def test_rules_are_those_of_the_call():
    """Of calls in turn, more than an op remembers as recent, whose keys differ in little, or in nothing but objects."""
    x, ends = ramp(4, dtype=np.int32), (1000, 1001, 5000, 7000, 9000)
    with Trace().recording():
        for _ in range(3):
            for end in map(int, map(str, ends)):
                assert kernels.arange(0, end, 2).shape == (len(range(0, end, 2)),)
            for number in (1, 1.0, 0.0, -0.0, True):
                made = kernels.multiply(x, number)
                assert made.dtype == (np.float32 if isinstance(number, float) else np.int32)
                assert repr(made.primitive.arguments[1]) == repr(number)


def test_names_in_any_order():
    """They are a caller's own strings, in another order than the parameters'."""
    x, weight = ramp(2, 8), ramp(8)
    backwards = {"".join(name): value for name, value in [(("ep", "s"), 0.5), (("weig", "ht"), weight), (("x",), x)]}

    def function():
        return kernels.rms_norm(**backwards), kernels.rms_norm(x, eps=0.5, weight=weight)

    one, other = traced(function).outputs
    assert one.primitive.arguments == other.primitive.arguments
    with Trace().recording(), pytest.raises(TypeError, match="has no parameter 'wieght'"):
        kernels.rms_norm(x, wieght=weight, eps=0.5)
    with Trace().recording(), pytest.raises(TypeError, match="x is given twice"):
        kernels.rms_norm(x, weight, 0.5, x=x)


def test_hashes_follow_the_structure():
    """Equal calls hash alike in two traces; another number, operand or op does not."""

    def hashes(function):
        trace = Trace()
        x = hiprt.zeros(4)
        with trace.recording():
            function(x)
        return [primitive.hash for primitive in trace.primitives]

    first = hashes(lambda x: kernels.exp(kernels.add(x, 1.0)))
    assert first == hashes(lambda x: kernels.exp(kernels.add(x, 1.0)))
    for other in (
        lambda x: kernels.exp(kernels.add(x, 2.0)),
        lambda x: kernels.exp(kernels.add(x, 1)),
        lambda x: kernels.exp(kernels.multiply(x, 1.0)),
    ):
        assert first[1] != hashes(other)[1]


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ("numpy", lambda x: x.numpy()),
        ("item", lambda x: x.item()),
        ("bool", bool),
        ("bool", lambda x: 1.0 in x),
        ("float", float),
        ("int", int),
        ("index", lambda x: [1, 2][x]),
        ("numpy", np.asarray),
        ("DLPack", lambda x: x.__dlpack__()),
        ("address", lambda x: x.address),
        ("set", lambda x: x.set([1.0])),
    ],
)
def test_host_reads_are_refused_with_the_line(what, read):
    def function(x):
        return read(kernels.exp(x))

    with pytest.raises(ValueError, match=rf"(?s)\[eval\] Attempting to eval.*test_trace\.py:\d+ in .*{what}"):
        traced(function, hiprt.zeros(1))


def test_a_value_outlives_no_trace():
    """Neither an op nor a kernel takes it afterwards."""
    left = []
    traced(lambda x: left.append(kernels.exp(x)) or x, hiprt.zeros(4))
    with pytest.raises(ValueError, match="traced value"):
        kernels.exp(left[0])
    with pytest.raises(ValueError, match="after its trace"):
        traced(lambda x: kernels.add(x, left[0]), hiprt.zeros(4))


def test_misuse_in_a_trace():
    x = hiprt.zeros(4)
    stream = hiprt.Stream()
    for call, error, text in (
        (lambda v: kernels.add(v, v, stream=stream), ValueError, "no stream of its own"),
        (lambda v: kernels.add(v), TypeError, "add: b is not given"),
        (lambda v: kernels.add(v, v, v), TypeError, "takes 2 arguments by position"),
        (lambda v: kernels.add(v, b=v, a=v), TypeError, "a is given twice"),
        (lambda v: kernels.add(v, v, axis=1), TypeError, "no parameter 'axis'"),
        (lambda v: kernels.rms_norm(v, hiprt.zeros(5), 1e-6), ValueError, r"weight has shape \(5,\)"),
        (lambda v: v[4], IndexError, "out of bounds"),
    ):
        with pytest.raises(error, match=text):
            traced(call, x)
    assert (kernels.add(x, 1.0).numpy() == 1).all(), "the thread launches again after an error in a trace"


def test_misuse_of_a_trace_itself():
    """By passes, which repeat the primitives of one program in another, and know the rules of calls that they make."""
    x = hiprt.zeros(4)
    program = traced(kernels.exp, x)
    trace = Trace()
    value, (primitive,) = trace.given(x), program.primitives
    with pytest.raises(KeyError):
        trace.repeat(primitive, {}, int, Size)
    with pytest.raises(TypeError):
        trace.repeat(value, {}, int, Size)
    with pytest.raises(TypeError, match="an argument for each of its parameters"):
        trace.add(kernels.exp, (), primitive.rule)
    with pytest.raises(TypeError, match="a prepared trace, an op"):
        trace.add(len, (value,), primitive.rule)
    ((pattern, _, _),) = primitive.rule[1]
    with pytest.raises(ValueError, match="that of another call"):
        trace.add(Op(lambda a: a, "nothing"), (value,), (0, ((pattern, 1, 0),), ()))
    assert not trace.primitives
    (made,) = trace.repeat(primitive, {program.inputs[0].number: value}, int, Size)
    assert (made.shape, made.primitive) == ((4,), trace.primitives[0])


def test_operators_and_methods():
    """Of values and numbers, reflected, in place, through views, and by methods of numpy's."""

    def function(x, y):
        z = 1.0 - (x + y) * 2 @ y.T / 3
        z += 1
        z -= z[0]
        z[1:, ::2] = y[:1, :1] > 0
        rows = [row * 2 for row in x]
        return z, rows[1] + x.sum(0).astype(np.int32), abs(-x).max(-1, keepdims=True).broadcast_to((3, 4)), x[chosen]

    x, y, chosen = ramp(3, 4), ramp(3, 4), hiprt.array(np.array([2, 0], np.int32))
    for shapeless in (False, True):
        program = traced(function, x, y, shapeless=shapeless)
        for mine, its in zip(program.run(x, y), function(x, y)):
            np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert "copyto(" in program.text()


def test_values_made_in_the_function():
    def function(x):
        made = hiprt.zeros(x.shape)
        made.copy_from(x)
        other = hiprt.full(x.shape, 2.5)
        kernels.add(made, other, out=made[:])
        return made, hiprt.array([1, 2])

    x = ramp(5)
    for _ in range(2):
        made, constant = traced(function, x).run(x)
        np.testing.assert_array_equal(made.numpy(), x.numpy() + 2.5)
        assert constant.numpy().tolist() == [1, 2]


def test_a_trace_needs_no_device_and_no_compiler():
    """Programs with kernels of all kinds are made where no library is found, and nothing is opened for them."""
    code = """
import numpy as np
from hiprt import kernels
from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.trace import Trace
from hiprt.metal_compat import metal_kernel
twice = metal_kernel("twice", ["x"], ["y"], "y[thread_position_in_grid.x] = 2 * x[thread_position_in_grid.x];")
plain = kernels.hip_kernel("no C++ at all", "add", {"x": "update float32"})
trace = Trace()
x, position = (trace.given(Array(Buffer(0, 0, -1), (2, 4, 32), np.dtype(np.float32), 0)),
               trace.given(Array(Buffer(0, 0, -1), (2,), np.dtype(np.int32), 0)))
with trace.recording():
    y = kernels.rope(x, position, base=1e4)
    shapes = {"output_shapes": [y.shape], "grid": (y.size, 1, 1), "threadgroup": (8, 1, 1)}
    y = twice(inputs=[y], output_dtypes=[y.dtype], **shapes)[0]
    plain(y, grid=1)
    y = kernels.matmul(y, kernels.softmax(y).transpose(0, 2, 1))
print(Program([x, position], trace.primitives, [y]))
"""
    environment = {"HIPRT_PROVIDER": "rocm", "HIPRT_LIBRARY": "/nowhere", "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    environment = os.environ | environment
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split(" = ")[-1].split("(")[0].strip() for line in done.stdout.splitlines()] == [
        "program", "rope", "metal_kernel", "hip_kernel", "softmax", "transpose", "matmul", "return %6",
    ]  # fmt: skip


def test_metal_kernels_keep_their_form_of_call():
    """A dictionary in, a dictionary out, in a trace as outside."""
    kernel = metal_kernel("both", "a[thread_position_in_grid.x] = x[0]; b[thread_position_in_grid.x] = 2 * x[0];")

    def function(x):
        found = kernel(
            inputs={"x": x},
            output_shapes={"b": (2,), "a": (3,)},
            output_dtypes={"b": np.dtype(np.float32), "a": np.dtype(np.float32)},
            grid=(2, 1, 1),
            threadgroup=(2, 1, 1),
        )
        return found["a"], found["b"]

    program = traced(function, hiprt.full((1,), 4.0))
    assert [value.shape for value in program.outputs] == [(3,), (2,)]
    assert program.run(hiprt.full((1,), 4.0))[1].numpy().tolist() == [8, 8]
