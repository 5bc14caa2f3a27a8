"""Functions of arrays written to files, and read by this module, by hiprt and by MLX where it is installed."""

import numpy as np
import pytest

import hiprt
from hiprt.metal_compat import mlx as mx

HOST = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WEIGHT = mx.array(np.arange(4, dtype=np.float32)) * 2


def function(x, y=None):
    """Several results, of which one is an input and one does not depend on any; a weight that is not computed yet."""
    z = mx.exp(x) * 2 + WEIGHT + mx.arange(4)
    return [z, z.sum() if y is None else z @ y.T, x, mx.zeros((2,))]


def same(made, exact):
    assert len(made) == len(exact)
    for a, b in zip(made, exact):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-6)


@pytest.mark.parametrize("ending", ["mlxfn", "hiprt"])
def test_a_file_gives_the_function_again(tmp_path, ending):
    file = str(tmp_path / f"f.{ending}")
    x = mx.array(HOST)
    mx.export_function(file, function, x, metadata="of a test")
    imported, metadata = mx.import_function(file, return_metadata=True)
    assert metadata == "of a test"
    for host in (HOST, HOST[::-1], HOST):
        same(imported(mx.array(host)), function(mx.array(host)))
    same([each.numpy() for each in hiprt.import_function(file)(hiprt.array(HOST))], function(x))
    if ending == "mlxfn":
        theirs = pytest.importorskip("mlx.core")
        same(theirs.import_function(file)(theirs.array(HOST)), function(x))


def test_inputs_have_names_and_come_in_sets(tmp_path):
    file = str(tmp_path / "f.hiprt")
    x = mx.array(HOST)
    with mx.exporter(file, function) as export:
        export(x, y=x)
        export((x[:1],))
    imported = mx.import_function(file)
    same(imported(x, y=x + 1), function(x, x + 1))
    same(imported(x[1:]), function(x[1:]))
    with pytest.raises(ValueError, match="import_function"):
        imported(mx.array(HOST[:, :2]))


def test_other_sizes_are_refused(tmp_path):
    file = str(tmp_path / "f.hiprt")
    mx.export_function(file, lambda x: mx.var(x, axis=-1), mx.array(HOST), shapeless=True)
    imported = mx.import_function(file)
    same(imported(mx.array(HOST)), [np.var(HOST, axis=-1)])
    with pytest.raises(ValueError, match="does not hold for the shapes"):
        imported(mx.ones((2, 5)))


def test_what_is_no_array_is_refused(tmp_path):
    file, x = str(tmp_path / "f.hiprt"), mx.array(HOST)
    for wrong in (lambda: mx.export_function(file, function, x, "hi"), lambda: mx.export_function(file, mx.abs, [[x]])):
        with pytest.raises(ValueError, match="Inputs can either be"):
            wrong()
    with pytest.raises(ValueError, match="Outputs can be"):
        mx.export_function(file, lambda x: (x, 1), x)
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.export_function(str(tmp_path / "none" / "f.hiprt"), mx.abs, x)


@pytest.mark.parametrize("ending", ["mlxfn", "hiprt"])
def test_inputs_have_no_contents_while_a_function_is_exported(tmp_path, ending):
    """What the function had before has some, whether it is computed or not."""
    left = []

    def reads(x):
        return x * x.sum().item()

    def leaves(x):
        left.append(x)
        return x * WEIGHT.sum().item()

    file = str(tmp_path / f"f.{ending}")
    for wrong in (reads, lambda x: mx.eval(x) or x, lambda x: x if x[0, 0] > 0 else -x, np.array):
        with pytest.raises(ValueError, match=r"\[eval\] Attempting to eval an array during function transformations"):
            mx.export_function(file, wrong, mx.array(HOST))
    mx.export_function(file, leaves, mx.array(HOST))
    np.testing.assert_array_equal(np.array(mx.import_function(file)(mx.array(HOST))[0]), HOST * 12)
    with pytest.raises(ValueError, match="left behind"):
        mx.export_function(file, lambda x: x + left[0], mx.array(HOST))
