"""MLX's own files: those in ``mlxfn/`` were written by MLX 0.30 to 0.32; with MLX installed (extra `dev`), more are."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.metal_compat import metal_kernel

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


def weighted(x, y):
    """Constants, one of them a view with gaps."""
    return x * hiprt.array(np.arange(16, dtype=np.float32))[::2] + np.float32(2)


def elementwise(x, y):
    """Ops of one, two and three arrays, with numbers and broadcasts."""
    names = (
        "abs ceil cos erf exp expm1 floor isnan logical_not negative round sigmoid sign silu sin square tanh".split()
    )
    ones = [getattr(kernels, name)(x) for name in names]
    above = kernels.abs(x) + 1
    ones += [getattr(kernels, name)(above) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal")]
    names = "add subtract multiply divide maximum minimum remainder logaddexp equal not_equal less less_equal".split()
    names += "greater greater_equal logical_and logical_or floor_divide".split()
    two = [getattr(kernels, name)(x, y[:1]) for name in names]
    whole = kernels.astype(x * 4, np.int32)
    two += [getattr(kernels, f"bitwise_{name}")(whole, 3) for name in ("and", "or", "xor")]
    two += [kernels.floor_divide(whole, 3), kernels.floor_divide(whole, -2), kernels.remainder(whole, -2)]
    more = [kernels.where(x > y, x, 1.5), kernels.clip(x, -0.5, y), kernels.power(above, 2), whole + x, whole * 2.5]
    return [*ones, *two, *more, kernels.silu_mul(x, y), kernels.exp(whole)]


def rows(x, y):
    """Reductions, orders and norms."""
    made = [getattr(kernels, name)(x) for name in ("sum", "prod", "max", "min", "mean")]
    made += [getattr(kernels, name)(x, 0, True) for name in ("sum", "max", "mean", "logsumexp", "argmax")]
    made += [kernels.any(x > 1, 1), kernels.all(x > -9), kernels.softmax(x), kernels.softmax(x, 0), kernels.argmin(x)]
    made += [kernels.cumsum(x, 1), kernels.cumsum(x, 0, reverse=True, inclusive=False), kernels.cumsum(x)]
    made += [kernels.sort(x, 1), kernels.argsort(x, 0), kernels.logsumexp(x, 1), kernels.argmax(x, None)]
    return [*made, kernels.rms_norm(x, y[0], 1e-5), kernels.layer_norm(x, y[0], None, 1e-5)]


def moved(x, y):
    """Views, copies, dtypes and indices."""
    indices = kernels.argsort(x, 1)
    made = [x[1:, ::2], x[::-1], x[:, ::-3], x[1], x[..., 3], x[None, :, None], x.T, x.reshape(4, 6), x[2:2], x[-1:, 0]]
    made += [kernels.concatenate([x, kernels.astype(y, np.float16)], 1), kernels.broadcast_to(x[:1], (5, 8))]
    made += [
        kernels.take(x, indices[0], 1),
        kernels.take(x, indices[:, :2] % 3, 0),
        kernels.take_along_axis(x, indices, 1),
    ]
    made += [
        kernels.arange(3, 9, 2) + 1,
        hiprt.zeros((2, 3)) + x[0, 0],
        hiprt.full((2,), 7, np.int32),
        x.view(np.int32),
    ]
    return [*made, kernels.astype(x, np.float16), kernels.astype(x, np.int32), kernels.contiguous(x.T)]


def changed(x, y):
    """Arrays of which a part is another one, and random words."""
    columns = hiprt.array(np.array([[0, 2, 1, 0, 2, 1, 1, 2], [1, 0, -1, 1, 0, 2, 0, 1]], np.int32))
    places = hiprt.array(np.array([2, 0, 2], np.int32))
    key = hiprt.array(np.array([3, 9], np.uint32))
    return [
        kernels.put_along_axis(x, columns, y[:2], 0),
        kernels.put_along_axis(x, places.reshape(3, 1), y[0, 0], 1),
        kernels.scatter(x, places[:2], y[:2], 0),
        kernels.scatter(x, places[:2], y[:1, :2], 1),
        kernels.scatter_add(x, places, y, 0),
        kernels.scatter_add(x, places.reshape(1, 3), y[:, :1, None], 1),
        kernels.assign(x, (slice(None), slice(1, 6, 2)), y[:, :3]),
        kernels.assign(x, (slice(1, 2),), y[0, 0]),
        kernels.random_bits(key, (3, 5)),
        kernels.erfinv(kernels.tanh(x)),
    ]


def products(x, y):
    """Products of matrices."""
    packed = hiprt.array(np.arange(8 * 4, dtype=np.uint32).reshape(8, 4) * 12345)
    scales = hiprt.array(np.linspace(0.1, 1, 8, dtype=np.float32).reshape(8, 1))
    wide = kernels.concatenate([x, y, x, y], 1)
    quantized = kernels.quantized_matmul(wide, packed, scales, scales, group_size=32, bits=4)
    stacked = {"w": packed.reshape(2, 4, 4), "scales": scales.reshape(2, 4, 1), "biases": scales.reshape(2, 4, 1)}
    stacked |= {"group_size": 32, "bits": 4}
    experts = hiprt.array(np.array([[0, 1], [1, 1], [1, 0]], np.uint32))
    gathered = [
        kernels.gather_qmm(wide[:, None, None], rhs_indices=experts, **stacked),
        kernels.gather_qmm(wide[:2, None], **stacked),
        kernels.gather_qmm(
            wide[:, None], lhs_indices=experts[2], rhs_indices=experts[0], sorted_indices=True, **stacked
        ),
    ]
    return [x @ y.T, x @ y[0], y[0] @ x.T, x[None] @ kernels.contiguous(y.T), quantized, *gathered]


def single(x, y):
    """Reductions along axes of one element, which MLX has no primitive for."""
    column, row = x[:, 1:2], y[2:]
    made = [kernels.sum(column, 1), kernels.max(row, 0, True), kernels.mean(column, -1), kernels.any(row > 0, 0)]
    return [*made, kernels.prod(x[1:2, 3:4]), kernels.min(x[0, 0]), kernels.sum(x[:1, None], (0, 1), True)]


WRITTEN = [weighted, elementwise, rows, moved, changed, products, single]
RANDOM = np.random.default_rng(3)
A, B = (RANDOM.normal(size=(3, 8)).astype(np.float32) for _ in range(2))


def close(found, exact):
    assert len(found) == len(exact)
    for i, (a, b) in enumerate(zip(found, exact)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), i
        np.testing.assert_allclose(a, b, rtol=1e-3 if a.dtype == np.float16 else 1e-5, atol=1e-5, err_msg=f"output {i}")


def written(function, file, shapeless=False):
    """Write a function for MLX, and return what it makes."""
    x, y = hiprt.array(A), hiprt.array(B)
    hiprt.export_function(file, function, x, y, shapeless=shapeless, metadata="for MLX")
    made = function(x, y)
    return [each.numpy() for each in (made if isinstance(made, list) else [made])]


@pytest.mark.parametrize("function", WRITTEN)
def test_what_is_written_is_read(tmp_path, function):
    exact = written(function, tmp_path / "f.mlxfn")
    imported, metadata = hiprt.import_function(tmp_path / "f.mlxfn", return_metadata=True)
    assert metadata == "for MLX"
    close([each.numpy() for each in imported(hiprt.array(A), hiprt.array(B))], exact)


def test_what_joins_nothing_is_no_reduction_in_a_file(tmp_path):
    written(single, tmp_path / "f.mlxfn")
    assert b"Reduce" not in (tmp_path / "f.mlxfn").read_bytes()


def test_what_mlx_has_nothing_for_is_named(tmp_path):
    x = hiprt.array(A)
    for function, said in [
        (lambda x: kernels.gelu(x), "gelu cannot be written as MLX's primitives: no primitive of MLX's does it"),
        (lambda x: kernels.add(x, 1.0, out=x), "add cannot be written as MLX's primitives: it writes in place"),
    ]:
        with pytest.raises(ValueError, match=said):
            hiprt.export_function(tmp_path / "f.mlxfn", function, x)
    with pytest.raises(ValueError, match="getitem cannot be written as MLX's primitives: MLX has no rule for slices"):
        hiprt.export_function(tmp_path / "f.mlxfn", lambda x: x[1:], x, shapeless=True)
    assert not list(tmp_path.iterdir())


SCALED = metal_kernel(
    "scaled",
    ["x", "by"],
    ["y"],
    "uint i = thread_position_in_grid.x; y[i] = T(x[i] * by + N + x_shape[1]);",
    header="constant float unused = 3;\n",
)


def scaled(x):
    """The function that kernel-0.32.4.mlxfn was written of, by MLX."""
    (made,) = SCALED(
        inputs=[x, 2.0],
        template=[("T", np.float32), ("N", 3)],
        grid=(8, 1, 1),
        threadgroup=(4, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[np.float32],
    )
    return made + 1.0


def test_a_metal_kernel_is_written_as_mlx_writes_it(tmp_path):
    """The bytes are those of MLX's file, but for the numbers of its arrays, which are addresses there."""
    file = tmp_path / "f.mlxfn"
    hiprt.export_function(file, scaled, hiprt.array(X))
    mine, its = file.read_bytes(), (FILES / "kernel-0.32.4.mlxfn").read_bytes()
    assert len(mine) == len(its)
    names = {}
    places = [i for i, (a, b) in enumerate(zip(mine, its)) if a != b]
    while places:
        (number,), (address,) = (struct.unpack("<Q", raw[places[0] : places[0] + 8]) for raw in (mine, its))
        assert names.setdefault(number, address) == address
        places = [i for i in places if i >= places[0] + 8]
    assert len(names) == len(set(names.values())) == 6
    np.testing.assert_array_equal(
        hiprt.import_function(file)(hiprt.array(X))[0].numpy(), scaled(hiprt.array(X)).numpy()
    )


def test_a_metal_kernel_with_several_outputs(tmp_path):
    source = "uint i = thread_position_in_grid.x; y[i] += x[i]; if (i < 4) z[i] = int(x_strides[0]) + 1;"
    both = metal_kernel("both", ["x"], ["y", "z"], source, compile_options={"math_mode": "relaxed"})

    def function(x):
        y, z = both(
            inputs=[x + 1.0],
            grid=(x.size, 1, 1),
            threadgroup=(4, 1, 1),
            output_shapes=[x.shape, (4,)],
            output_dtypes=[np.float32, np.int32],
            init_value=0.5,
        )
        return z * 2, y, kernels.exp(y)

    file, x = tmp_path / "f.mlxfn", hiprt.array(X)
    hiprt.export_function(file, function, x)
    for mine, exact in zip(hiprt.import_function(file)(x), function(x), strict=True):
        np.testing.assert_array_equal(mine.numpy(), exact.numpy())
    with pytest.raises(ValueError, match="metal_kernel cannot be written as MLX's primitives: MLX has no rule for its"):
        hiprt.export_function(tmp_path / "g.mlxfn", scaled, x, shapeless=True)


MLX = """
import sys
import mlx.core as mx
import numpy as np
imported, metadata = mx.import_function(sys.argv[1], return_metadata=True)
given = np.load(sys.argv[2])
made = imported(*[mx.array(given[name]) for name in sorted(given)])
np.savez(sys.argv[3], *[np.array(each) for each in made])
assert metadata == "for MLX"
"""


def in_mlx(folder, *given):
    """Return what MLX makes of a file."""
    np.savez(folder / "in.npz", *given)
    files = [str(folder / name) for name in ("f.mlxfn", "in.npz", "out.npz")]
    subprocess.run([sys.executable, "-c", MLX, *files], check=True)
    made = np.load(folder / "out.npz")
    return [made[f"arr_{i}"] for i in range(len(made))]


@pytest.mark.parametrize("function", WRITTEN)
def test_mlx_imports_what_is_written(tmp_path, function):
    pytest.importorskip("mlx.core")
    exact = written(function, tmp_path / "f.mlxfn")
    close(in_mlx(tmp_path, A, B), exact)


def test_mlx_imports_a_function_for_all_shapes(tmp_path):
    pytest.importorskip("mlx.core")

    def function(x, y):
        return kernels.softmax(kernels.tanh(x * y + 1), 0)

    written(function, tmp_path / "f.mlxfn", shapeless=True)
    wider = np.resize(A, (5, 8))
    exact = function(hiprt.array(wider), hiprt.array(wider))
    close(in_mlx(tmp_path, wider, wider), [exact.numpy()])
