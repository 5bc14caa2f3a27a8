"""MLX's own files: those in ``mlxfn/`` were written by MLX 0.30 to 0.32; with MLX installed (extra `dev`), more are."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hiprt

FILES = Path(__file__).parent / "mlxfn"
MIXED = sorted(FILES.glob("mixed-*.mlxfn"))
X = np.sin(np.arange(8, dtype=np.float32) * 3).reshape(2, 4)
Y = np.cos(np.arange(8, dtype=np.float32) * 5).reshape(2, 4)


@pytest.mark.parametrize("file", MIXED, ids=[file.stem for file in MIXED])
def test_functions_of_all_versions(file):
    """25 kinds of primitives, and an input by name."""
    imported = hiprt.import_function(file)
    exact = np.load(file.with_suffix(".npz"))
    given = [hiprt.array(X), hiprt.array(Y), hiprt.array(np.array([1, 0], np.int32))]
    scale = hiprt.full((1,), 2.0)
    for _ in range(3):
        made = imported(*given, scale=scale)
        assert len(made) == len(exact)
        for i, array in enumerate(made):
            found, wanted = array.numpy(), exact[f"arr_{i}"]
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(found, wanted, rtol=1e-3 if found.dtype == np.float16 else 1e-5, atol=1e-6)
    assert imported.steps[0].rungs["replay"] >= 1
    with pytest.raises(ValueError, match='"scale": \\(1\\) float32'):
        imported(*given)


@pytest.mark.parametrize("version", [file.stem.split("-")[1] for file in MIXED])
def test_functions_for_all_shapes(version):
    imported = hiprt.import_function(FILES / f"shapeless-{version}.mlxfn")
    for rows in (2, 5, 1):
        x, y = np.resize(X, (rows, 4)), np.resize(Y, (rows, 4))
        made = imported(hiprt.array(x), hiprt.array(y))[0].numpy()
        np.testing.assert_allclose(made, np.tanh((x * y + 1).sum(0)), rtol=1e-5)


def test_a_metal_kernel():
    """The file has the whole generated text, with a template and the shape of an input."""
    imported = hiprt.import_function(FILES / "kernel-0.32.4.mlxfn")
    np.testing.assert_allclose(imported(hiprt.array(X))[0].numpy(), X * 2 + 3 + 4 + 1, rtol=1e-6)


def test_what_has_no_op_is_named():
    with pytest.raises(
        ValueError, match=r"MLX's primitive ArcTan cannot be made of ops of hiprt: there is no op for it"
    ):
        hiprt.import_function(FILES / "arctan-0.32.4.mlxfn")


def test_what_is_no_such_file(tmp_path):
    whole = MIXED[-1].read_bytes()
    file = tmp_path / "f.mlxfn"
    for content, said in [
        (whole[:-9], r"\[read\] Unable to read|the file is too short"),
        (whole + b"\0", "1 bytes behind its functions"),
        (whole.replace(b"0.32.4", b"0.99.4"), "it is of MLX '0.99.4'; files of MLX 0.30 to 0.32 are read"),
        (whole.replace(b"Exp", b"Xyz"), "a primitive 'Xyz' that this hiprt does not know"),
        (b"\xff" * 100, "the file is too short"),
        (b"", "is empty|cannot mmap"),
    ]:
        file.write_bytes(content)
        with pytest.raises((ValueError, RuntimeError), match=said):
            hiprt.import_function(file)
    with pytest.raises(RuntimeError, match="Failed to open"):
        hiprt.import_function(tmp_path / "nothing.mlxfn")


@pytest.mark.parametrize(
    "case", ["unary", "binary", "reductions", "shapes", "indexing", "products", "quantized", "layers"]
)
def test_every_primitive_that_mlx_exports(tmp_path, case):
    """MLX runs in a process of its own: it needs memory of its own, and no other test does."""
    pytest.importorskip("mlx.core")
    folder = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-m", "helpers.mlx_functions", case, str(tmp_path)], cwd=folder, check=True)
    content = np.load(tmp_path / "arrays.npz")
    given = [hiprt.array(content[name]) for name in sorted(content) if name.startswith("in")]
    exact = [content[name] for name in sorted(content) if name.startswith("out")]
    made = hiprt.import_function(tmp_path / "f.mlxfn")(*given)
    assert len(made) == len(exact)
    for i, (array, wanted) in enumerate(zip(made, exact)):
        found = array.numpy()
        found = found if wanted.dtype == found.dtype else found.astype(wanted.dtype)  # numpy has no bfloat16
        assert found.shape == wanted.shape, i
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=f"output {i}")
