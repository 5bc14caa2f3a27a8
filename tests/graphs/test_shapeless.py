"""Shapeless functions: programs that take other shapes than those that they were traced for."""

import numpy as np
import pytest
from helpers.compiled import double, ramp

import hiprt
from hiprt import graphs, kernels
from hiprt.metal_compat import metal_kernel


def test_shapeless_uses_sizes_as_numbers():
    def function(x):
        flat = x.reshape(x.shape[0] * x.shape[1], -1)
        last = kernels.add(x[-1], kernels.astype(kernels.arange(x.shape[1]), np.float32)[:, None])
        halves = kernels.add(x[: x.shape[0] // 2], 1.0)
        return flat, last, halves, x.reshape(-1, x.shape[-1])

    compiled = hiprt.compile(function, shapeless=True)
    for shape in ((4, 3, 2), (5, 3, 2), (1, 7, 5), (6, 1, 1)):
        x = ramp(*shape)
        for mine, its in zip(compiled(x), function(x)):
            assert mine.shape == its.shape
            np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert compiled.traces == 1


def test_shapeless_returns_sizes_as_numbers():
    """A size that is returned, or left in the state, is the one of the call."""
    state = {"rows": 0}

    def function(x):
        state["rows"] = x.shape[0]
        return [kernels.exp(x), x.shape], x.shape[0] // 2, divmod(x.shape[0], 3)

    compiled = hiprt.compile(function, outputs=state, shapeless=True)
    for n in (3, 5, 3, 8):
        (_, shape), half, divided = compiled(ramp(n))
        assert (shape, half, divided, state["rows"]) == ((n,), n // 2, divmod(n, 3), n)
        assert type(shape[0]) is type(half) is type(state["rows"]) is int
    assert compiled.traces == 3


def test_shapeless_is_traced_again_where_an_answer_changes():
    def function(x):
        if x.shape[0] > 4:
            return kernels.exp(x)
        return kernels.add(x, float(len(range(x.shape[0]))))

    compiled = hiprt.compile(function, shapeless=True)
    for n, traces in ((3, 1), (5, 2), (9, 2), (4, 3), (3, 3)):
        np.testing.assert_array_equal(compiled(ramp(n)).numpy(), function(ramp(n)).numpy())
        assert compiled.traces == traces
    assert "assert %0.shape[0] > 4" in compiled.explain()
    assert "assert not %0.shape[0] > 4" in compiled.explain()


def test_shapeless_is_traced_again_for_axes_dtypes_and_constants():
    compiled = hiprt.compile(double, shapeless=True)
    for call, traces in (
        (lambda: compiled(ramp(3)), 1),
        (lambda: compiled(ramp(9)), 1),
        (lambda: compiled(ramp(3, 3)), 2),
        (lambda: compiled(ramp(3, dtype=np.float16)), 3),
        (lambda: compiled(ramp(3), 1), 4),
        (lambda: compiled(ramp(0)), 4),
    ):
        call()
        assert compiled.traces == traces


def test_shapeless_refuses_what_it_cannot_infer_before_anything_runs():
    """The primitive and the remedy are named; nothing was launched."""
    held = ramp(4)
    compiled = hiprt.compile(lambda x: kernels.add(kernels.exp(x), held), shapeless=True)
    compiled(ramp(4))
    stream = hiprt.current_stream()
    x, before = ramp(5), stream.launches
    with pytest.raises(ValueError, match=r"fused of the program cannot take the shapes \(5,\), \(4,\): \[add\] Shapes"):
        compiled(x)
    assert stream.launches == before
    np.testing.assert_array_equal(compiled(ramp(4)).numpy(), kernels.add(kernels.exp(ramp(4)), held).numpy())


def test_shapeless_refusals_are_sentences():
    compiled = hiprt.compile(lambda x: x.reshape(-1), shapeless=True)
    compiled(ramp(4, 3))
    with pytest.raises(ValueError, match=r"reshape .* call contiguous\(\) first\. A number .* for each set"):
        compiled(ramp(3, 4).T)


@pytest.mark.parametrize("way", ["graph", "eager", "in a step"])
def test_shapeless_writes_nothing_where_an_op_refuses(way):
    """Neither in a graph of its own, nor without graphs, nor behind other work of a step that goes on."""
    held, state = ramp(4), ramp(4)

    def function(x):
        kernels.copyto(state, kernels.multiply(state, 2.0))
        return kernels.add(x, held)

    compiled, refused = hiprt.compile(function, shapeless=True), []

    def call(x):
        out = kernels.exp(x)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"cannot take the shapes \(5,\), \(4,\)"):
                compiled(x)
            refused.append(x)
        return out

    compiled(ramp(4))
    before = state.numpy()
    with hiprt.flags.override(graph=way != "eager"):
        (graphs.Step(call) if way == "in a step" else call)(ramp(5))
    assert refused
    np.testing.assert_array_equal(state.numpy(), before)


def test_shapeless_custom_kernels():
    """Sizes of values, functions of shapes, and constants: shape and grid are right for 4 and then 8 elements."""
    body = "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"
    kernel = metal_kernel("double", ["x"], ["y"], body)

    def by_sizes(x):
        return kernel(
            inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(x.size, 1, 1), threadgroup=(4, 1, 1)
        )[0]

    def by_functions(x):
        return kernel(
            inputs=[x],
            output_shapes=lambda shape: [shape],
            output_dtypes=[x.dtype],
            grid=lambda shape: (shape[0], 1, 1),
            threadgroup=(4, 1, 1),
        )[0]

    for function in (by_sizes, by_functions):
        compiled = hiprt.compile(function, shapeless=True)
        for n in (4, 8, 3, 100):
            np.testing.assert_array_equal(compiled(ramp(n)).numpy(), 2 * ramp(n).numpy())
        assert compiled.traces == 1
    assert "grid=test_shapeless_custom_kernels.<locals>.by_functions.<locals>.<lambda>, thr" in compiled.program
    fixed = hiprt.compile(
        lambda x: kernel(
            inputs=[x], output_shapes=[(2,)], output_dtypes=[x.dtype], grid=(2, 1, 1), threadgroup=(2, 1, 1)
        )[0],
        shapeless=True,
    )
    assert [fixed(ramp(n)).shape for n in (4, 8)] == [(2,), (2,)]


def test_shapeless_gather_qmm_with_another_batch():
    """Default indices follow the batch of the call, not that of the trace."""
    w, scales, biases = kernels.quantize(ramp(4, 8, 64))
    compiled = hiprt.compile(
        lambda x, right: kernels.gather_qmm(x, w, scales, biases, rhs_indices=right, transpose=True), shapeless=True
    )
    for rows in (2, 5):
        x, right = ramp(rows, 1, 64), hiprt.array((np.arange(rows) % 4).astype(np.uint32))
        exact = kernels.gather_qmm(x, w, scales, biases, rhs_indices=right, transpose=True)
        assert compiled(x, right).shape == (rows, 1, 8)
        np.testing.assert_array_equal(compiled(x, right).numpy(), exact.numpy())
    assert compiled.traces == 1
