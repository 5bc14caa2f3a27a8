"""Exported functions: what a file takes with it, who can call it, where it is written and read, what is refused."""

import io
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.graphs.export.tensor_file import read_tensors, write_tensors
from hiprt.kernels import hip_kernel
from hiprt.metal_compat import metal_kernel
from hiprt.module import ADDRESS
from hiprt.op import op

RANDOM = np.random.default_rng(1)
HOST = RANDOM.normal(size=(3, 8)).astype(np.float32)
WIDER = RANDOM.normal(size=(5, 8)).astype(np.float32)
DOUBLE = metal_kernel("double", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = T(2) * x[i];")
SAXPY = hip_kernel(
    "__global__ void saxpy(const T* x, T* y, pair p, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
    " if (i < n) y[i] += T(p.a) * x[i] * SCALE; }".replace(
        "__global__", "struct pair { float a; int b; };\ntemplate <typename T> __global__"
    ),
    "saxpy<T>",
    {
        "x": "read T",
        "y": "update T",
        "p": np.dtype([("a", np.float32), ("b", np.int32)], align=True),
        "n": "int32",
    },
    constants={"SCALE": 3},
)


def array(host):
    return hiprt.array(host)


def plain(x, y):
    return kernels.add(kernels.exp(x), y), kernels.softmax(x, axis=0)


def named(x, *, weight):
    return [kernels.multiply(x, weight)]


def closed(x):
    return x * WEIGHT[:, 1] + np.float32(2)


def doubled(x):
    """Call a kernel whose grid and shape are functions of the input's shape."""
    return DOUBLE(
        inputs=[kernels.contiguous(x[::-1])],
        template=[("T", x.dtype)],
        output_shapes=lambda shape: [shape],
        output_dtypes=[x.dtype],
        grid=lambda shape: (shape[0] * shape[1], 1, 1),
        threadgroup=(32, 1, 1),
    )[0]


def added(x):
    """Call a HIP kernel that is a template and takes a structure."""
    y = kernels.add(x, 1.0)
    SAXPY(x, y, (0.5, 7), x.size, threads=x.size, template={"T": np.float32})
    return y


def quantized(x):
    packed = kernels.quantize(hiprt.array(MATRIX), 32, 4)
    return kernels.quantized_matmul(kernels.concatenate([x, x, x, x], axis=1), *packed, group_size=32, bits=4)


def floating_codes(x):
    wide = kernels.concatenate([x, x, x, x], axis=1)
    return (
        *kernels.quantize(wide, mode="mxfp4"),
        *kernels.quantize(wide, mode="mxfp8"),
        *kernels.quantize(wide, mode="nvfp4"),
    )


def sliced(x):
    half = x[: x.shape[0] // 2 + 1, None, ..., ::2]
    return kernels.concatenate([half, half]).reshape(-1, half.shape[-1]), kernels.astype(x, ml_dtypes.bfloat16)


def whole_numbers(x):
    made = kernels.arange(x.shape[1]) + kernels.astype(hiprt.full((1,), 7, np.int32), np.int64)
    return kernels.take(x, kernels.argsort(x, axis=0), axis=0), made, 3 * x


WEIGHT = None
MATRIX = RANDOM.normal(size=(16, 32)).astype(np.float32)
FUNCTIONS = {
    "plain": (plain, lambda x: ((x, x[0]), {})),
    "named": (named, lambda x: ((x,), {"weight": x[:1]})),
    "closed": (closed, lambda x: ((x,), {})),
    "metal": (doubled, lambda x: ((x,), {})),
    "hip": (added, lambda x: ((x,), {})),
    "quantized": (quantized, lambda x: ((x,), {})),
    "floating codes": (floating_codes, lambda x: ((x,), {})),
    "sliced": (sliced, lambda x: ((x,), {})),
    "whole numbers": (whole_numbers, lambda x: ((x,), {})),
}


@pytest.fixture(autouse=True)
def _weight(monkeypatch):
    """A constant that is a view with gaps."""
    monkeypatch.setattr(sys.modules[__name__], "WEIGHT", array(RANDOM.normal(size=(8, 2)).astype(np.float32)))


def same(made, exact):
    exact = exact if isinstance(exact, (list, tuple)) else (exact,)
    assert type(made) is tuple
    assert len(made) == len(exact)
    for a, b in zip(made, exact):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_come_from_a_file(tmp_path, name, shapeless):
    function, inputs = FUNCTIONS[name]
    args, kwargs = inputs(array(HOST))
    hiprt.export_function(tmp_path / "f.hiprt", function, *args, shapeless=shapeless, **kwargs)
    imported = hiprt.import_function(tmp_path / "f.hiprt")
    assert imported.__name__ == function.__name__
    for host in (HOST, HOST[::-1], WIDER, HOST) if shapeless else (HOST, HOST[::-1]):
        args, kwargs = inputs(array(host))
        for _ in range(3):
            same(imported(*args, **kwargs), function(*args, **kwargs))
    assert sum(step.rungs["replay"] for step in imported.steps) >= 4
    assert all(step.rungs["eager"] == 0 for step in imported.steps)


CHILD = """
import sys
import numpy as np
import hiprt
given = np.load(sys.argv[2])
imported = hiprt.import_function(sys.argv[1])
args = [hiprt.array(given[name]) for name in sorted(given) if name.startswith("x")]
kwargs = {name: hiprt.array(given[name]) for name in given if not name.startswith("x")}
made = imported(*args, **kwargs)
np.savez(sys.argv[3], *[each.numpy().view(np.uint8) for each in made])
"""


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_process_runs_it(tmp_path, name):
    function, inputs = FUNCTIONS[name]
    args, kwargs = inputs(array(HOST))
    hiprt.export_function(tmp_path / "f.hiprt", function, *args, shapeless=True, **kwargs)
    args, kwargs = inputs(array(WIDER))
    exact = function(*args, **kwargs)
    hosts = {f"x{i}": each.numpy() for i, each in enumerate(args)} | {n: each.numpy() for n, each in kwargs.items()}
    np.savez(tmp_path / "in.npz", **hosts)
    files = [str(tmp_path / each) for each in ("f.hiprt", "in.npz", "out.npz")]
    subprocess.run([sys.executable, "-W", "error", "-c", CHILD, *files], check=True)
    found = np.load(tmp_path / "out.npz")
    for i, each in enumerate(exact if isinstance(exact, (list, tuple)) else [exact]):
        assert found[f"arr_{i}"].tobytes() == each.numpy().tobytes()


WITHOUT_DEVICE = """
import sys
import numpy as np
import hiprt
from hiprt import kernels
from hiprt.kernels import hip_kernel
from hiprt.metal_compat import metal_kernel

try:
    hiprt.current_device()
except hiprt.ProviderError:
    pass
else:
    sys.exit("there is a device")

double = metal_kernel("double", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];")
half = hip_kernel("__global__ void half(float* x) { x[threadIdx.x] *= 0.5f; }", "half", {"x": "update float32"})
weight = np.arange(8, dtype=np.float32)

def function(x):
    packed = kernels.quantize(hiprt.array(np.ones((4, 32), np.float32)), 32, 4)
    y = double(inputs=[x * weight], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(8, 1, 1),
               threadgroup=(8, 1, 1))[0]
    half(y, grid=1, block=8)
    return kernels.exp(y), kernels.quantized_matmul(hiprt.zeros((1, 32)), *packed, group_size=32, bits=4)

class Like:
    shape, dtype = (8,), np.float32

hiprt.export_function(sys.argv[1], function, Like())
hiprt.export_to_dot(sys.argv[1] + ".dot", function, np.zeros(8, np.float32))
imported = hiprt.import_function(sys.argv[1])
assert "metal_kernel(double" in imported.program and "hip_kernel(half" in imported.program
hiprt.export_function(sys.argv[1], lambda x: imported(x), np.zeros(8, np.float32))  # the imported one is inlined
"""


def test_no_device_and_no_compiler_are_needed(tmp_path):
    file = tmp_path / "f.hiprt"
    environment = os.environ | {"HIPRT_PROVIDER": "rocm", "PATH": "", "ROCM_PATH": str(tmp_path)}
    environment["HIPRT_CPU_COMPILER"] = "/nothing"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DEVICE, str(file)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.linspace(0, 1, 8, dtype=np.float32)
    made, zeros = hiprt.import_function(file)(array(x))
    np.testing.assert_allclose(made.numpy(), np.exp(x * np.arange(8)), rtol=1e-6)
    assert not zeros.numpy().any()
    assert (tmp_path / "f.hiprt.dot").read_text().startswith("digraph {")


def test_inputs_are_given_in_all_of_mlx_ways(tmp_path):
    function = lambda x, y, **more: kernels.subtract(x, y) if not more else kernels.subtract(x, more["z"])  # noqa: E731
    x, y, z = (array(HOST + i) for i in range(3))
    file = tmp_path / "f.hiprt"
    with hiprt.exporter(file, function) as export:
        export((x, y))
        export([x, y], {"z": z})
    imported = hiprt.import_function(file)
    for call in (lambda: imported(x, y), lambda: imported([x, y]), lambda: imported((x, y))):
        same(call(), kernels.subtract(x, y))
    for call in (lambda: imported(x, y, z=z), lambda: imported((x, y), {"z": z})):
        same(call(), kernels.subtract(x, z))
    hiprt.export_function(file, lambda a, b: kernels.subtract(a, b), {"b": y, "a": x})
    imported = hiprt.import_function(file)
    for call in (lambda: imported(a=x, b=y), lambda: imported(b=y, a=x), lambda: imported({"b": y, "a": x})):
        same(call(), kernels.subtract(x, y))
    same(imported(a=x, b=x), kernels.subtract(x, x))
    same(imported(b=y, a=x), kernels.subtract(x, y))


def test_what_no_input_can_be():
    inputs = "Inputs can either be a variable number of positional and keyword arrays or a single tuple and/or dict"
    x = array(HOST)
    for args, kwargs in [((x, 1.0), {}), (([x, 1],), {}), (((x,), {"a": 2}), {}), (((x,),), {"a": x}), ((3,), {})]:
        with pytest.raises(ValueError, match=inputs):
            hiprt.export_function("f", lambda *_a, **_k: x, *args, **kwargs)


def test_what_no_output_can_be(tmp_path):
    for wrong in (3, None, {"a": 1}, [[1]], "s"):
        with pytest.raises(ValueError, match="Outputs can be either a single array, a tuple, or a list of arrays"):
            hiprt.export_function(tmp_path / "f", lambda _, wrong=wrong: wrong, array(HOST))
    assert not list(tmp_path.iterdir())
    hiprt.export_function(tmp_path / "f", lambda _: [], array(HOST))
    assert hiprt.import_function(tmp_path / "f")(array(HOST)) == ()


def test_a_call_that_does_not_match_says_what_would(tmp_path):
    hiprt.export_function(tmp_path / "f", named, array(HOST), weight=array(HOST[:1]))
    imported = hiprt.import_function(tmp_path / "f")
    x, weight = array(HOST), array(HOST[:1])
    wrong = [
        ((x,), {}),
        ((x, weight), {}),
        ((x,), {"wait": weight}),
        ((array(WIDER),), {"weight": weight}),
        ((array(HOST.astype(np.float16)),), {"weight": weight}),
    ]
    for args, kwargs in wrong:
        with pytest.raises(ValueError, match=r"which matches the given positional and keyword arguments") as error:
            imported(*args, **kwargs)
        said = str(error.value)
        assert (
            'Function with 1 positional inputs and 1 keyword inputs:\n   1: (3,8) float32\n   "weight": (1,8)' in said
        )
        assert f"Called with {len(args)} positional inputs and {len(kwargs)} keyword inputs:\n  1:" in said
    with pytest.raises(ValueError, match="Inputs can either be"):
        imported(HOST, weight=weight)


def test_the_same_signature_twice_and_a_closed_file(tmp_path):
    export = hiprt.exporter(tmp_path / "f", plain)
    export(array(HOST), array(HOST))
    with pytest.raises(RuntimeError, match="a function twice with the same signature is not allowed"):
        export(array(WIDER[:3]), array(HOST))
    export.close()
    export.close()
    with pytest.raises(RuntimeError, match="Attempting to write after exporting is closed"):
        export(array(HOST), array(HOST[0]))
    with pytest.raises(RuntimeError, match=r"\[export_function\] Failed to open /nowhere/f"):
        hiprt.exporter("/nowhere/f", plain)
    with pytest.raises(RuntimeError, match=r"\[import_function\] Failed to open /nowhere/f: No such file"):
        hiprt.import_function("/nowhere/f")


def test_constants_are_in_a_file_once(tmp_path):
    weight = array(RANDOM.normal(size=(64, 64)).astype(np.float32))
    with hiprt.exporter(tmp_path / "f", lambda x: kernels.matmul(x, weight), metadata="what it is") as export:
        for rows in range(1, 6):
            export(hiprt.zeros((rows, 64)))
    assert (tmp_path / "f").stat().st_size < weight.nbytes + 8000
    imported, text = hiprt.import_function(tmp_path / "f", return_metadata=True)
    assert text == "what it is"
    for rows in (1, 5, 3):
        x = hiprt.full((rows, 64), 2.0)
        same(imported(x), kernels.matmul(x, weight))


def test_writes_reach_the_callers_arrays_and_state_is_kept(tmp_path):
    """As with a compiled function; the state is the imported function's own."""
    held = hiprt.zeros(4)

    def function(cache, x):
        cache += x
        kernels.add(held, x, out=held)
        return kernels.sum(held)

    hiprt.export_function(tmp_path / "f", function, hiprt.zeros(4), hiprt.zeros(4))
    imported = hiprt.import_function(tmp_path / "f")
    cache, x = hiprt.zeros(4), hiprt.full((4,), 2.0)
    assert [imported(cache, x)[0].item() for _ in range(3)] == [8, 16, 24]
    assert cache.numpy().tolist() == [6] * 4
    assert held.numpy().tolist() == [0] * 4


def test_views_of_captured_memory_that_is_written_are_refused(tmp_path):
    held = hiprt.zeros((2, 4))
    first = held[0]

    def function(x):
        kernels.add(first, x, out=first)
        return kernels.sum(held)

    with pytest.raises(ValueError, match="writes memory of an array that it does not take as an argument"):
        hiprt.export_function(tmp_path / "f", function, hiprt.zeros(4))


def test_what_a_file_cannot_hold_is_named(tmp_path):
    @op
    def mine(x, stream=None):
        return kernels.exp(x)

    with pytest.raises(ValueError, match="Unable to serialize primitive mine: it is no op of hiprt"):
        hiprt.export_function(tmp_path / "f", mine, array(HOST))
    with pytest.raises(ValueError, match=r"Attempting to eval an array during function transformations.*test_export"):
        hiprt.export_function(tmp_path / "f", lambda x: x if x.item() else x + 1, array(HOST))
    assert not (tmp_path / "f").exists()


def test_sizes_that_the_function_has_asked_about_bind_the_file(tmp_path):
    hiprt.export_function(tmp_path / "f", lambda x: x + 1 if x.shape[0] > 2 else x, array(HOST), shapeless=True)
    imported = hiprt.import_function(tmp_path / "f")
    same(imported(array(WIDER)), array(WIDER) + 1)
    with pytest.raises(ValueError, match=r"does not hold for the shapes \(1, 8\).*input 1\.shape\[0\] > 2"):
        imported(array(HOST[:1]))


def test_imported_functions_are_part_of_others(tmp_path):
    hiprt.export_function(tmp_path / "f", plain, array(HOST), array(HOST))
    imported, x = hiprt.import_function(tmp_path / "f"), array(HOST)
    compiled = hiprt.compile(lambda x: kernels.exp(imported(x, x)[0]))
    exact = kernels.exp(plain(x, x)[0])
    for _ in range(2):
        assert compiled(x).numpy().tobytes() == exact.numpy().tobytes()
    assert compiled.steps[0].nodes >= 1
    step = graphs.Step(lambda: imported(x, x))
    for _ in range(3):
        same(step(), plain(x, x))
    hiprt.export_function(tmp_path / "s", sliced, x, shapeless=True)
    general = hiprt.import_function(tmp_path / "s")
    for shapeless in (False, True):
        compiled = hiprt.compile(lambda x: general(x), shapeless=shapeless)
        for host in (HOST, WIDER):
            same(compiled(array(host)), sliced(array(host)))
    hiprt.export_function(tmp_path / "g", hiprt.compile(plain), x, x)
    same(hiprt.import_function(tmp_path / "g")(x, x), plain(x, x))
    hiprt.disable_compile()
    try:
        same(imported(x, x), plain(x, x))
    finally:
        hiprt.enable_compile()


def test_the_callback_is_told_what_mlx_tells():
    told = []
    hiprt.export_function(told.append, closed, array(HOST))
    assert [each["type"] for each in told[:4]] == ["inputs", "keyword_inputs", "outputs", "constants"]
    assert told[0]["inputs"] == [("A", (3, 8), np.float32)]
    assert told[3]["constants"][0][1].numpy().tolist() == WEIGHT[:, 1].numpy().tolist()
    assert [each["name"] for each in told[4:]] == ["multiply", "add"]
    assert told[5]["arguments"] == [2.0]
    assert told[5]["parameters"] == ["b"]
    assert told[5]["inputs"] == told[4]["outputs"]
    assert told[5]["outputs"] == told[2]["outputs"]
    with pytest.raises(ValueError, match="metadata argument is only supported when exporting to a file"):
        hiprt.export_function(told.append, closed, array(HOST), metadata="m")


def test_drawings(tmp_path):
    hiprt.export_to_dot(tmp_path / "f.dot", named, array(HOST), weight=array(HOST[:1]))
    drawn = (tmp_path / "f.dot").read_text()
    assert '[label="multiply", shape=rectangle]' in drawn
    assert '"weight" [label="weight float32[1, 8]"]' in drawn
    text = io.StringIO()

    def function(x):
        y = kernels.exp(x)
        hiprt.export_to_dot(text, kernels.add(y, y), x=x)
        return y

    hiprt.compile(function)(array(HOST))
    assert text.getvalue().count("shape=rectangle") == 2
    assert '"x" -> "primitive 0"' in text.getvalue()
    with pytest.raises(ValueError, match="Accepts file-like objects or strings"):
        hiprt.export_to_dot(3, named, array(HOST), weight=array(HOST))
    with pytest.raises(ValueError, match="A function and its inputs are needed"):
        hiprt.export_to_dot(text)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "f"
    hiprt.export_function(file, plain, array(HOST), array(HOST))
    before = file.read_bytes()

    def fails(self, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(RuntimeError, match=r"Failed to open .*No space left"):
        hiprt.export_function(file, named, array(HOST), weight=array(HOST))
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_tensor_files_are_safetensors(tmp_path):
    from safetensors.numpy import load_file, save_file

    tensors = {"a": np.arange(5, dtype=np.int8), "b": HOST, "c": np.zeros((0, 3), np.float16), "d": np.float32([7])}
    write_tensors(tmp_path / "ours", {name: lambda each=each: each for name, each in tensors.items()}, {"k": "v"})
    for name, found in load_file(tmp_path / "ours").items():
        np.testing.assert_array_equal(found, tensors[name])
    save_file(tensors, tmp_path / "theirs", {"k": "v"})
    found, texts = read_tensors(tmp_path / "theirs")
    assert texts == {"k": "v"}
    for name, each in tensors.items():
        np.testing.assert_array_equal(found[name], each)
        assert found[name].dtype == each.dtype


def test_addresses_are_refused(tmp_path):
    pair = np.dtype([("at", ADDRESS), ("sizes", np.int32, (2,))], align=True)
    copy = hip_kernel(
        "struct pair { const float* at; int sizes[2]; };\n"
        "__global__ void copy(pair p, float* y) { y[threadIdx.x] = p.at[p.sizes[threadIdx.x]]; }",
        "copy",
        {"p": pair, "y": "write float32"},
    )
    x = array(HOST)

    def function(like):
        y = hiprt.zeros(2)
        copy((x.address, (3, 1)), y, grid=1, block=2)
        return y + like

    with pytest.raises(ValueError, match="copy: p has an address, which means nothing in another process"):
        hiprt.export_function(tmp_path / "f", function, hiprt.zeros(2))
