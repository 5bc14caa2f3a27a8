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
        (made,) = function(*arguments)
        np.testing.assert_allclose(np.array(made), expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"Failed to open .*missing"):
        mx.import_function(tmp_path / "missing.mlxfn")


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
