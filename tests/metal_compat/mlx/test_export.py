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
