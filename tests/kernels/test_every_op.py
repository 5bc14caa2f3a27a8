"""Every op of the package, from one table: no rows, one row, more rows than a grid's y, operands with gaps."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from helpers.op_cases import CASES, ONE_BRANCH, call, call_on_device, numbers, operands_of

import hiprt
from hiprt import kernels
from hiprt.kernels.tuning.target import force_generic

MANY = 65_600  # more than 65,535: the largest y and z of a grid
# How to write a kernel, tested in test_kernel.py and test_hip_kernel.py; when ops are timed, in test_choices.py.
NO_OPS = {"HipKernel", "Kernel", "hip_kernel", "hip_kernels", "timed_choices"}
# What makes a view, and what writes to its operand or a part of a copy; tested in tests/base/test_operators.py and
# tests/metal_compat/mlx/test_indexing.py.
NO_RESULT = {"assign", "broadcast_to", "copyto"}
# One text's logits, and what has no operands: there are no rows.
NO_ROWS = {"arange", "filter_logits", "random_bits", "repetition_penalty"}
# Rows are an axis of the grid that is not split; the limit is named.
LIMITED = {"attention", "gated_delta", "gdn_inputs", "gdn_step", "kv_write", "moe_down", "moe_gate_up",
           "norm_rope_attention", "norm_rope_quantize", "norm_rope_write", "paged_attention", "qmv",
           "quantized_attention", "quantized_embedding", "rope"}  # fmt: skip
WITH_ROWS = sorted(set(CASES) - NO_ROWS)
# Of elementwise ops, which one code launches, these stand for the others.
FEW = {"abs", "add", "astype", "complex", "contiguous", "exp", "left_shift", "logical_or"}


def short_of(names):
    """Mark elementwise ops but for a few as wide."""
    return [pytest.param(name, marks=pytest.mark.wide) if name in ONE_BRANCH - FEW else name for name in names]


def check(found, exact):
    """Compare: whole numbers are equal, others but for the order of a sum."""
    assert found.keys() == exact.keys()
    for key, value in found.items():
        assert value.dtype == exact[key].dtype
        np.testing.assert_allclose(value, exact[key], rtol=2e-5, atol=2e-6, err_msg=key)


def test_every_op_is_in_the_table():
    assert set(CASES) == set(kernels.__all__) - NO_OPS - NO_RESULT
    assert LIMITED <= set(WITH_ROWS)


@pytest.mark.singles
@pytest.mark.parametrize("name", WITH_ROWS)
@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one_row(name, rows):
    """The branch of GPUs: the other tests here take the one of loops."""
    many, few = operands_of(name, 3), operands_of(name, 3, slice(rows))
    with nullcontext() if name in ONE_BRANCH else force_generic():
        found, exact = call(name, few), call(name, many)
    check(found, {k: v[:rows] if v.shape != found[k].shape else v for k, v in exact.items()})


@pytest.mark.parametrize("name", short_of(WITH_ROWS))
def test_more_rows_than_65535(name):
    operands = operands_of(name, MANY)
    if name in LIMITED:
        with pytest.raises(ValueError, match=name):
            call(name, operands)
        return
    found, last = call(name, operands), call(name, operands_of(name, MANY, slice(-3, None)))
    check({k: v[-3:] if v.shape != last[k].shape else v for k, v in found.items()}, last)


@pytest.mark.parametrize("name", short_of(sorted(set(CASES) - {"arange"})))
def test_operands_with_gaps(name):
    """The same result, or a refusal that says which operand has gaps."""
    operands = operands_of(name, 3)
    exact = call(name, operands)
    for key in [key for key, value in operands.items() if isinstance(value, np.ndarray)]:
        given = {k: hiprt.array(v) if isinstance(v, np.ndarray) else v for k, v in operands.items()}
        wide = hiprt.array(np.repeat(operands[key], 2, axis=-1))
        given[key] = wide[..., ::2] if wide.ndim else wide
        try:
            found = call_on_device(name, given)
        except ValueError as error:
            assert re.search("contiguous|strides", str(error)), error  # noqa: PT017
            continue
        check(found, exact)


NUMBERED = sorted(
    name for name in CASES if any(isinstance(value, (bool, int, float)) for value in operands_of(name, 3).values())
)


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_may_be_scalars_of_numpys(name):
    operands = operands_of(name, 3)
    scalars = {k: np.asarray(v)[()] if isinstance(v, (bool, int, float)) else v for k, v in operands.items()}
    found, exact = ({k: (v.dtype, v.tobytes()) for k, v in call(name, given).items()} for given in (scalars, operands))
    assert found == exact


# Launches over elements, one of each kind: a call on bytes x of a shape [2, n], and the same in numpy.
ELEMENTS = {
    "arange": (lambda x: kernels.arange(x.size), lambda x: np.arange(x.size, dtype=np.int32)),
    "binary": (lambda x: kernels.add(x, x), lambda x: x + x),
    "ternary": (lambda x: kernels.where(x, x, 7), lambda x: np.where(x, x, np.uint8(7))),
    "copy": (lambda x: kernels.contiguous(x[::-1]), lambda x: x[::-1]),
    "concatenate": (lambda x: kernels.concatenate([x[1:], x[:1]], 1), lambda x: np.concatenate([x[1:], x[:1]], 1)),
    "slice": (
        lambda x: kernels.slice(x, hiprt.array(numbers(3)), [1], (2, x.shape[1] - 3)),
        lambda x: x[:, 3:],
    ),
    "slice_update": (
        lambda x: kernels.slice_update(x, x[:, :-3], hiprt.array(numbers(3)), [1]),
        lambda x: np.concatenate([x[:, :3], x[:, :-3]], 1),
    ),
    "scatter": (
        lambda x: kernels.scatter(x, hiprt.array(numbers(1, 0)), x),
        lambda x: x[::-1],
    ),
}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_more_blocks_than_65535(kind):
    op, exact = ELEMENTS[kind]
    x = np.arange(2 * (65_600 * 128 + 3), dtype=np.uint8).reshape(2, -1)
    x[1] //= 3
    np.testing.assert_array_equal(op(hiprt.array(x)).numpy(), exact(x))
