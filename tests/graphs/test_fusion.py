"""Fusion: which ops become one kernel, which must not, and that the kernel has the bits of the ops one by one."""

import re

import numpy as np
import pytest
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.array import bfloat16
from hiprt.buffer import Buffer
from hiprt.flags import flags
from hiprt.graphs.trace.passes.fusion import MOST_OPS, fusion
from hiprt.graphs.trace.rehearsal import rehearse, stand_in, substitute
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.ops.elementwise import expression, fused as fused_ops
from hiprt.kernels.ops.elementwise.fused import FUSABLE, fused
from hiprt.kernels.ops.elementwise.fused_kernel import Load, Store, Value, fused_kernel
from hiprt.kernels.ops.promotion import WORDS
from hiprt.kernels.tuning.target import force_generic
from hiprt.metal_compat.checker import check_metal


def ramp(*shape, dtype=np.float32):
    return hiprt.array((np.arange(np.prod(shape, dtype=int)) % 11 - 4).reshape(shape).astype(dtype))


def bits(array):
    """What two equal arrays share; any NaN is as good as another: compilers may exchange the operands of a sum."""
    values = np.array(array.numpy())
    if array.dtype == bfloat16:
        values = values.view(np.uint16).copy()
        values[(values & 0x7FFF) > 0x7F80] = 0x7FC0
    elif values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    return array.dtype, array.shape, values.tobytes()


def check(function, *arrays, count=None, shapeless=False):
    """Compare a function with its program after fusion; return the calls of that."""
    program = fusion(traced(function, *arrays, shapeless=shapeless))
    exact = function(*arrays)
    exact = exact if isinstance(exact, tuple) else (exact,)
    assert [bits(each) for each in program.run(*arrays)] == [bits(each) for each in exact]
    assert count is None or len(program) == count
    return calls(program)


# What becomes one kernel


def test_a_chain_becomes_one_kernel():
    def gelu(x):
        inner = kernels.multiply(kernels.add(kernels.erf(kernels.multiply(x, 2**-0.5)), 1.0), 0.5)
        return kernels.multiply(x, inner)

    (call,) = check(gelu, ramp(3, 5))
    assert call == (
        "fused([%0, 0.7071067811865476, 1.0, 0.5], 'v0 = multiply(x0, x1); v1 = erf(v0); v2 = add(v1, x2); "
        "v3 = multiply(v2, x3); v4 = multiply(x0, v3); return v4')"
    )


def test_casts_broadcasts_and_strides():
    def function(x, row, column):
        y = kernels.add(kernels.astype(x.T, np.float16), row)
        y = kernels.where(kernels.less(y, column), y, 1.5)
        return kernels.multiply(kernels.contiguous(row[None, ::-1]), kernels.astype(y, np.int32))

    def halves(x):
        return kernels.silu_mul(*(kernels.contiguous(x[:, i : i + 4]) for i in (0, 4)))

    check(function, ramp(4, 6), ramp(4, dtype=np.float16), ramp(6, 1), count=4)  # two views, the copy of one, all
    check(halves, ramp(2, 8), count=3)


def test_results_that_others_use_are_results_of_the_kernel():
    def function(x):
        y = kernels.exp(x)
        z = kernels.add(y, 1.0)
        return z, kernels.multiply(z, y), y

    assert check(function, ramp(7), count=1)[0].endswith("return v0, v1, v2')")


def test_what_others_need_comes_before_them():
    def function(x):
        y = kernels.exp(kernels.negative(x))
        total = kernels.sum(y)
        return kernels.add(kernels.multiply(y, 2.0), total)

    assert [call.split("(")[0] for call in check(function, ramp(5))] == ["fused", "sum", "fused"]


def test_ops_in_between_do_not_divide_a_kernel():
    def function(x, y):
        gate = kernels.sigmoid(x)
        return kernels.multiply(gate, kernels.cumsum(y))

    assert [call.split("(")[0] for call in check(function, ramp(5), ramp(5))] == ["cumsum", "fused"]


def test_nothing_is_computed_twice():
    """The value of a row is not made for each of its elements."""

    def function(x, row):
        return kernels.add(x, kernels.exp(kernels.negative(row)))

    assert [call.split("(")[0] for call in check(function, ramp(3, 4), ramp(1, 4))] == ["fused", "add"]


def test_zeros_of_both_signs_are_two_numbers():
    (call,) = check(lambda x: kernels.add(kernels.multiply(x, 0.0), kernels.multiply(x, -0.0)), ramp(5))
    assert call.startswith("fused([%0, 0.0, -0.0], ")


def test_what_stays():
    one = traced(lambda x: kernels.exp(x), ramp(3))
    assert fusion(one) is one
    apart = traced(lambda x: (kernels.exp(x), kernels.tanh(x)), ramp(3))
    assert fusion(apart) is apart
    bounded = traced(lambda x: kernels.exp(kernels.clip(x, 0.0, None)), ramp(3))
    assert fusion(bounded) is bounded


# What is written in between


def test_writes_stay_between_the_reads_that_they_were_between():
    def before(x, y):
        z = kernels.exp(x)
        kernels.add(y, 1.0, out=y)  # may be the memory of x
        return kernels.multiply(z, 2.0)

    def behind(x, y):
        kernels.add(y, 1.0, out=y)
        return kernels.multiply(kernels.exp(x), 2.0)

    def view(x, y):
        z = kernels.exp(x)
        kernels.add(z[:1], 1.0, out=z[:1])
        return kernels.multiply(z, kernels.negative(z))

    for function in (before, behind, view):
        for is_one in (False, True):
            given = [(x, x if is_one else ramp(4)) for x in (ramp(4), ramp(4))]
            program = fusion(traced(function, ramp(4), ramp(4)))
            (mine,) = program.run(*given[0])
            assert bits(mine) == bits(function(*given[1])), function.__name__
            assert bits(given[0][0]) == bits(given[1][0])
    assert "fused" not in str(fusion(traced(before, ramp(4), ramp(4))))
    assert "fused" in str(fusion(traced(behind, ramp(4), ramp(4))))


def test_a_result_that_is_written_is_made_before():
    def function(x):
        y = kernels.exp(kernels.negative(x))
        kernels.add(y, 1.0, out=y)
        return kernels.multiply(kernels.square(y), y)

    assert [call.split("(")[0] for call in check(function, ramp(4))] == ["fused", "add", "fused"]


# Bounds


def test_bounds(monkeypatch):
    def long(x):
        for i in range(100):
            x = kernels.add(kernels.multiply(x, 0.5), float(i))
        return x

    def wide(*arrays):
        total = arrays[0]
        for each in arrays[1:]:
            total = kernels.add(total, each)
        return total

    def many(x):
        made = [kernels.exp(x)]
        for _ in range(20):
            made.append(kernels.multiply(made[-1], 0.5))
        return tuple(made)

    monkeypatch.setattr(fused_ops, "whole_of", lambda *_: None)
    assert 200 / MOST_OPS < len(check(long, ramp(3))) < 20
    assert len(check(wide, *(ramp(3) for _ in range(40)))) == 3
    for call in check(many, ramp(3)):
        assert call.count("v") < 60


# Other shapes


@pytest.mark.parametrize("rows", [1, 3])
def test_shapes_that_change(rows):
    """Results that had one shape in the trace may have several; the sizes of what is fused are still known."""

    def function(x, row):
        y = kernels.exp(kernels.negative(row))
        z = kernels.multiply(x, y)
        return y, z, kernels.add(hiprt.full((z.shape[0],), 2.0), 1.0)

    compiled = hiprt.compile(function, shapeless=True)
    for n in (rows, 1, 4):
        given = ramp(n, 4), ramp(1, 4)
        for mine, its in zip(compiled(*given), function(*given)):
            assert bits(mine) == bits(its)
    assert compiled.traces == 1


# The kernel's bits

DTYPES = ("float32", "float16", "bfloat16", "int32", "uint8", "int64", "bool")
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, 65504.0, 3.0e38, -2.5, 0.3)


def operand(random, dtype, shape):
    """Return an array of ordinary and special values."""
    size = int(np.prod(shape, dtype=int))
    values = random.normal(size=size) * 3
    if dtype in DTYPES[:3]:
        values[: len(SPECIAL)] = SPECIAL[:size]
        random.shuffle(values)
    with np.errstate(over="ignore"):
        made = values.astype(np.float32 if dtype == "bfloat16" else dtype).reshape(shape)
    whole = hiprt.array(made)
    return kernels.astype(whole, "bfloat16") if dtype == "bfloat16" else whole


BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
SKIPPED = {"left_shift", "right_shift"}  # shifts by more than the width mean nothing


def random_text(random, kinds, shapes, length):
    """Return a text of random ops that returns so many values, all that have the shape of the last one."""
    known = [(f"x{i}", kind, shape) for i, (kind, shape) in enumerate(zip(kinds, shapes))]
    full = np.broadcast_shapes(*shapes)
    lines = []
    names = sorted(set(FUSABLE) - SKIPPED)
    returned = []
    while len(returned) < length:
        name = names[random.integers(len(names))]
        fusable = FUSABLE[name]
        chosen = [known[i] for i in random.integers(len(known), size=fusable.operands)]
        if all(isinstance(kind, type) for _, kind, _ in chosen):
            continue
        if fusable.operands == 1 and isinstance(chosen[0][1], type):
            continue
        if name == "where" and isinstance(chosen[0][1], type):
            continue
        to = np.dtype((np.float32, np.float16)[random.integers(2)])
        if name == "astype" and chosen[0][1] == to:
            continue
        if name == "contiguous" and not chosen[0][0].startswith("x"):
            continue
        if name == "silu_mul" and (chosen[0][1:] != chosen[1][1:] or str(chosen[0][1]) not in DTYPES[:3]):
            continue
        try:
            _, dtype = fusable.dtypes([kind for _, kind, _ in chosen], to if fusable.names_dtype else None)
        except TypeError:  # the op does not take the dtype
            continue
        words = [word for word, _, _ in chosen] + ([str(to)] if fusable.names_dtype else [])
        lines.append(f"v{len(lines)} = {name}({', '.join(words)})")
        shape = np.broadcast_shapes(*(shape for _, _, shape in chosen))
        known.append((f"v{len(lines) - 1}", dtype, shape))
        if shape == full:
            returned.append(known[-1][0])
    return "; ".join([*used(lines, returned), f"return {', '.join(returned)}"])


def used(lines, returned):
    """Return the lines whose values are in results; the others would cost a kernel each, and are not compared."""
    kept, names = [], set(returned)
    for line in reversed(lines):
        name, expression = line.split(" = ")
        if name in names:
            names.update(re.findall(r"\bv\d+", expression))
            kept.append(line)
    return kept[::-1]


def one_by_one(operands, text):
    return fused_ops.one_by_one(operands, text, hiprt.current_stream())


# Shapes of the operands: of one shape, flat; with broadcasts and strides, where a row is or is no multiple of a run.
SHAPES = {
    "flat": [(24,)] * 3,
    "odd": [(13,)] * 3,
    "one": [(1,), (1, 1), ()],
    "none": [(0, 4), (1, 4), (4,)],
    "rows": [(6, 16), (16,), (6, 1)],
    "odd rows": [(5, 3, 7), (3, 1), (5, 1, 7)],
}


KINDS = 2 * [DTYPES[:3], DTYPES[3:6], DTYPES[2:7:2]]


@pytest.mark.parametrize("is_generic", [False, True], ids=["loops", "lanes"])
@pytest.mark.parametrize(("shapes", "dtypes"), list(zip(SHAPES, KINDS)), ids=str)
def test_the_bits_of_a_kernel(shapes, dtypes, is_generic, form_in_turn):
    """A text of many random ops of which all values are results, on all dtypes and special values."""
    seed = sum(map(ord, "".join(dtypes) + shapes))
    for turn in range(1 if form_in_turn == "short" else 2):
        random = np.random.default_rng(seed + turn)
        arrays = [operand(random, dtype, shape) for dtype, shape in zip(dtypes, SHAPES[shapes])]
        numbers = [0.7, 3]
        kinds = [*(each.dtype for each in arrays), float, int]
        text = random_text(random, kinds, [*SHAPES[shapes], (), ()], 8 if form_in_turn == "short" else 16)
        if is_generic:
            with force_generic():
                made, exact = fused([*arrays, *numbers], text), one_by_one([*arrays, *numbers], text)
                hiprt.current_stream().synchronize()
        else:
            made, exact = fused([*arrays, *numbers], text), one_by_one([*arrays, *numbers], text)
        for i, (mine, its) in enumerate(zip(made, exact)):
            assert bits(mine) == bits(its), (text, i)


COMPLEX = ("complex", "imag", "real")  # Metal's text has no complex numbers


def of_every_op(axes, run, skipped=()):
    """A kernel that has a value of every op."""
    kinds = [np.dtype(np.float16), bfloat16, np.dtype(np.int32), float]
    loads = (Load("half", False, 1), Load("bfloat16_t", False, 0), Load("int", False, None if axes else 1))
    loads += (Load("float", True, 0),)
    values = []
    for name, fusable in FUSABLE.items():
        if name in skipped:
            continue
        operands = tuple(i % 3 if name not in {"bitwise_invert", *BITWISE} else 2 for i in range(fusable.operands))
        common, dtype = fusable.dtypes([kinds[i] for i in operands], bfloat16 if fusable.names_dtype else None)
        words = tuple(WORDS[each] for each in common)
        values.append(Value(name, fusable.expression.text, operands, words, WORDS[dtype]))
    for i in range(4, 3 + len(values)):
        values.append(Value("add", "a + b", (i, len(values) + 3), ("float", "float"), "float"))
    return fused_kernel(loads, tuple(values), (Store(len(values) + 3, "float"),), axes, run)


@pytest.mark.parametrize(("axes", "run"), [(0, 4), (2, 1)])
def test_every_op_compiles_for_amd_and_passes_the_check_of_metal(axes, run):
    compiler = Compiler()
    text = hip_program(of_every_op(axes, run).text("hip", ()), "fused.hip")
    assert compiler.code_object(compiler.assembly(text, "fused", "gfx1151"), "fused", "gfx1151")
    assert check_metal(of_every_op(axes, run, COMPLEX).text("metal", ())) == []


def test_strided_operands_and_many_axes():
    x = ramp(4, 6, 8)
    text = "v0 = multiply(x0, x1); v1 = add(v0, x1); return v1"
    for view in (x[::2, :, ::-1], x.transpose(2, 0, 1), x[:, 1:5, 3:7], x[:, :, :1]):
        other = ramp(*view.shape)
        assert bits(fused([view, other], text)[0]) == bits(one_by_one([view, other], text)[0])
    wide = ramp(2, 2, 2, 2, 2, 2, 2, 2)
    turned = wide.transpose(7, 6, 5, 4, 3, 2, 1, 0)
    assert bits(fused([turned, wide], text)[0]) == bits(one_by_one([turned, wide], text)[0])


def test_products_and_sums_are_not_contracted():
    x = hiprt.array(np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32))
    text = "v0 = multiply(x0, x1); v1 = add(v0, x2); v2 = subtract(v1, v0); return v1, v2"
    for mine, its in zip(fused([x[0], x[1], x[2]], text), one_by_one([x[0], x[1], x[2]], text)):
        assert bits(mine) == bits(its)


@pytest.mark.parametrize(
    "text",
    ["v0 = exp(x0)", "v0 = exp(x1); return v0", "v0 = nothing(x0); return v0", "v0 = add(x0); return v0", "return v0"],
)
def test_wrong_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"\[fused\]"):
        fused([ramp(3)], text)


@pytest.mark.parametrize("shapeless", [False, True])
def test_the_rule_of_a_fused_call_is_that_of_a_rehearsal(shapeless):
    """The pass takes the rule from the ops that a call stands for, so that a trace makes no text of a kernel."""

    def function(x, y):
        half = kernels.astype(kernels.multiply(x.T, 2.0), np.float16)
        return half, kernels.less(half, y), kernels.where(kernels.less(half, y), half, 1)

    program = fusion(traced(function, ramp(3, 5), ramp(5, 3), shapeless=shapeless))
    (primitive,) = [each for each in program.primitives if each.op is fused]
    operands = []

    def stands_for(part):
        if not isinstance(part, hiprt.Array):
            return part
        operands.append(stand_in(part, Buffer(0, 0, -1)))
        return operands[-1]

    kind, results, writes = rehearse(primitive.op, substitute(primitive.arguments, stands_for), operands)
    assert (kind, writes) == (primitive.rule[0], primitive.rule[2])
    assert [(each.form, *more) for each, *more in results] == [(each.form, *more) for each, *more in primitive.rule[1]]


def test_a_trace_plans_no_launch_of_elementwise_ops(monkeypatch):
    def refuse(*_):
        raise AssertionError("a trace needs no launch")

    monkeypatch.setattr(fused_ops, "whole_of", refuse)
    monkeypatch.setattr(expression, "launch_of", refuse)
    x = ramp(3, 7, 1)  # a shape of which no rule is known yet
    program = fusion(traced(lambda x: kernels.where(kernels.exp(x) < 1, kernels.add(x[::-1], 1), x), x))
    assert len(program) == 2


def test_all_that_is_fused_is_off_by_name():
    def function(x):
        return kernels.exp(kernels.negative(x))

    with flags.override(compile_passes=("simplify", "dead_code")):
        compiled = hiprt.compile(function)
        compiled(ramp(3))
        assert "fused" not in compiled.explain()
    compiled = hiprt.compile(function)
    compiled(ramp(3))
    assert "fusion: 2 primitives become 1" in compiled.explain()


def test_a_size_of_a_fused_value_that_is_used_as_a_number():
    """The program is tied to the size, which is asked for where the value is made."""

    def function(x):
        y = kernels.exp(kernels.multiply(x, 2.0))
        width = int(y.shape[1])
        return kernels.add(kernels.softmax(kernels.negative(y)), width)

    compiled = hiprt.compile(function, shapeless=True)
    for shape in ((2, 4), (3, 4), (2, 5)):
        x = hiprt.array(np.random.default_rng(1).normal(size=shape).astype(np.float32))
        np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())
    assert compiled.traces == 2


# Ops with `out`


def fused_calls(function, *arrays, shapeless=False):
    """Compare what a function returns and writes with its program after fusion; return the ops of that by name."""
    mine, its = ([hiprt.array(x.numpy()) for x in arrays] for _ in range(2))
    program = fusion(traced(function, *arrays, shapeless=shapeless))
    made, exact = program.run(*mine), function(*its)
    exact = exact if isinstance(exact, tuple) else (exact,)
    assert [bits(each) for each in (*made, *mine)] == [bits(each) for each in (*exact, *its)]
    return [primitive.op.name for primitive in program.primitives]


@pytest.mark.parametrize("shapeless", [False, True])
def test_a_chain_that_ends_in_an_array_of_the_caller(shapeless):
    def function(x, out):
        y = kernels.exp(kernels.multiply(x, 0.25))
        return kernels.add(y, x, out=out)

    assert fused_calls(function, ramp(3, 5), ramp(3, 5), shapeless=shapeless) == ["fused"]


def test_a_chain_that_is_copied_to_an_array_of_the_caller():
    def function(x, out):
        y = kernels.multiply(kernels.exp(x), 2.0)
        kernels.copyto(out, y)
        return y  # is a result of the kernel as well

    assert fused_calls(function, ramp(3, 5), ramp(3, 5)) == ["fused"]


def test_an_array_that_is_copied_to_itself():
    called = check(lambda x: kernels.exp(kernels.add(kernels.copyto(x, x), 1.0)), ramp(4), shapeless=True)
    assert [call.split("(")[0] for call in called] == ["copyto", "fused"]


def test_an_array_that_is_read_and_written():
    def function(state, x):
        return kernels.add(kernels.multiply(state, 0.5), x, out=state)

    def reversed_before(state, x):
        return kernels.add(kernels.multiply(state[::-1], 0.5), x, out=state)

    assert fused_calls(function, ramp(3, 5), ramp(3, 5)) == ["fused"]
    assert fused_calls(reversed_before, ramp(3, 5), ramp(3, 5)) == ["getitem", "multiply", "add"]


def test_an_array_that_is_written_is_read_otherwise_than_it_is_written():
    """With an operand that broadcasts, and with a result of another dtype."""

    def broadcast(state, x):
        return kernels.add(kernels.multiply(state, x[0]), 1.0, out=state)

    def other_dtype(state, x):
        y = kernels.multiply(state, 2.0)
        is_less = kernels.less(y, x)
        kernels.add(y, x, out=state)
        return is_less

    for function in (broadcast, other_dtype):
        for shapeless in (False, True):
            assert "fused" not in fused_calls(function, ramp(3, 5), ramp(3, 5), shapeless=shapeless)[-1:]


def test_fused_writes_what_it_reads_otherwise():
    for operands, text in (
        ((ramp(3, 5), ramp(5)), "v0 = multiply(x0, x1); v1 = add(v0, x1); return v1"),
        ((ramp(3, 5), ramp(3, 5)), "v0 = less(x0, x1); v1 = add(x0, x1); return v0, v1"),
    ):
        exact = fused(operands, text)
        made = fused(operands, text, out=[*[None] * (len(exact) - 1), operands[0]])
        assert made[-1] is operands[0]
        assert [bits(each) for each in made] == [bits(each) for each in exact]


def test_what_reads_an_array_before_and_behind_its_write():
    def function(x, out):
        before = kernels.multiply(out, 2.0)
        kernels.add(kernels.exp(x), 1.0, out=out)
        behind = kernels.add(out, before)
        return kernels.multiply(behind, 0.5)

    assert fused_calls(function, ramp(7), ramp(7)) == ["multiply", "fused", "fused"]


def test_memory_that_the_program_makes_and_writes():
    def function(x):
        y = kernels.exp(kernels.add(x, 1.0))
        kernels.multiply(kernels.add(x, 2.0), 3.0, out=y)
        return kernels.add(y, x)

    assert fused_calls(function, ramp(7)) == ["fused", "fused", "add"]


def test_writes_that_stay_alone():
    def gaps(x, out):
        return kernels.add(kernels.exp(x), 1.0, out=out[:, :5])

    def other_dtype(x, out):
        return kernels.add(kernels.exp(x), 1.0, out=out)

    with pytest.raises(ValueError, match="contiguous"):
        traced(gaps, ramp(3, 5), ramp(3, 6))
    with pytest.raises(TypeError, match="out"):
        traced(other_dtype, ramp(3, 5), ramp(3, 5, dtype=np.int32))


def test_arguments_that_share_memory():
    """The op with `out` reads what it has not written yet only where arguments lie apart."""

    def function(x, y, out):
        before = kernels.exp(x)
        kernels.add(kernels.multiply(y, 2.0), 1.0, out=out)
        return kernels.add(before, x)

    program = fusion(traced(function, *(ramp(4, 6) for _ in range(3))))
    assert program.otherwise is not None
    mine, its, y = ramp(6, 6), ramp(6, 6), ramp(4, 6)
    for start in (0, 1, 2):
        made = program.run(mine[:4], y, mine[start : start + 4])
        exact = function(its[:4], y, its[start : start + 4])
        assert bits(made[0]) == bits(exact)
        assert bits(mine) == bits(its)


def test_what_fused_does_not_take_as_out():
    x, y = ramp(4), ramp(4)
    text = "v0 = exp(x0); v1 = add(v0, x1); return v0, v1"
    with pytest.raises(ValueError, match="out has 1 arrays; 2 are needed"):
        fused([x, y], text, out=[None])
    with pytest.raises(ValueError, match="overlaps"):
        fused([x, y], text, out=[x, x])
    first, second = fused([x, y], text, out=[None, y])
    np.testing.assert_array_equal(second.numpy(), y.numpy())
    assert first is not x
