"""Functions of files and compiled ones, on arrays of MLX's names."""

import numpy as np
import pytest

import hiprt
import hiprt.metal_compat.mlx as mx
from hiprt import kernels

X = np.array([[0.0, 1.0, 2.0, 4.0]], np.float32)


@pytest.mark.parametrize("name", ["function.mlxfn", "function.hiprt"])
def test_a_file_gives_a_function_of_arrays(tmp_path, name):
    """Arguments come by position or as a list, and may be values that are not computed yet."""
    hiprt.export_function(tmp_path / name, lambda x: kernels.softmax(x), hiprt.array(X))
    function = mx.import_function(tmp_path / name)
    expected = np.exp(2 * X - 8) / np.exp(2 * X - 8).sum()
    for arguments in ((mx.array(X) * 2,), ([mx.array(X) * 2],)):
        made = function(*arguments)
        assert type(made) is tuple
        (made,) = made
        np.testing.assert_allclose(np.array(made), expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"Failed to open .*missing"):
        mx.import_function(tmp_path / "missing.mlxfn")


@pytest.mark.parametrize("ending", ["mlxfn", "hiprt"])
def test_the_function_of_a_file_is_part_of_one_that_is_traced(tmp_path, ending):
    """Its constants as well, also where the function returns them."""
    weight, file, other = hiprt.array(X * 3), tmp_path / f"f.{ending}", tmp_path / f"g.{ending}"
    hiprt.export_function(file, lambda x, *, y: (x * weight - y, weight), hiprt.array(X), y=hiprt.array(X))
    inner = mx.import_function(file)

    def outer(x):
        made, constant = inner(x + 1, y=x)
        return made * 2, constant

    compiled = mx.compile(outer)
    mx.export_function(str(other), outer, mx.array(X))
    for host in (X, X + 5, X):
        for function in (compiled, mx.import_function(other)):
            made, constant = function(mx.array(host))
            np.testing.assert_array_equal(np.array(made), ((host + 1) * (X * 3) - host) * 2)
            np.testing.assert_array_equal(np.array(constant), X * 3)
    assert compiled.traces == 1


def test_a_file_that_keeps_a_state_is_part_of_no_other_function(tmp_path):
    state = hiprt.array(X)
    hiprt.export_function(tmp_path / "f.hiprt", lambda x: kernels.add(state, x, out=state), hiprt.array(X))
    function = mx.import_function(tmp_path / "f.hiprt")
    for times in (2, 3):
        np.testing.assert_array_equal(np.array(function(mx.array(X))[0]), X * times)
    with pytest.raises(ValueError, match="writes arrays in place"):
        mx.compile(lambda x: function(x))(mx.array(X))


def test_a_compiled_function_gives_what_it_gives():
    """Also as a method, whose object is passed."""

    class Scale:
        factor = 3.0

        @mx.compile
        def __call__(self, x):
            return x * self.factor

    np.testing.assert_array_equal(np.array(Scale()(mx.array(X))), X * 3)


def test_a_function_keeps_its_name_under_its_derivatives():
    @mx.custom_function
    def double(x):
        return x * 2

    plain = double
    for name in ("vjp", "jvp", "vmap"):

        @getattr(double, name)
        def double(*_):
            raise AssertionError("there are no gradients")

        assert double is plain
    assert double(mx.array(3.0)).item() == 6
