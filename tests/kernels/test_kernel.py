"""Kernel: generated text, template values, compile errors, caching, declared access."""

import re
import threading

import numpy as np
import pytest

import hiprt
from hiprt.errors import CompileError
from hiprt.kernels import Kernel
from hiprt.kernels.lang.dialect import BODY, CHECK, DIALECTS, METAL_BODY, OPS, PRELUDE
from hiprt.kernels.lang.kernel import KERNELS
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import force_generic, target_of
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE

FLOAT32 = np.dtype(np.float32)


def scaled(source="uint i = thread_position_in_grid.x;\nif (i < size) out[i] = T(float(x[i]) * by * N);", **changes):
    """A small kernel: out = x * by * N."""
    declaration = {
        "inputs": {"x": "T"},
        "outputs": {"out": "T"},
        "scalars": {"size": "uint", "by": "float"},
        "template": {"T": "dtype", "N": "int"},
        "threads": 64,
    }
    return Kernel("scaled", source=source, **{**declaration, **changes})


def launch(kernel, template, values):
    x = hiprt.array(values)
    out = hiprt.empty(x.shape, x.dtype)
    grid = (-(-x.size // 64), 1, 1)
    kernel(hiprt.current_stream(), grid, (64, 1, 1), template, x=x, out=out, size=x.size, by=2.0)
    return out.numpy()


def test_template_values_are_fixed_in_the_text_and_the_name(dtype):
    kernel = scaled()
    values = np.arange(100).astype(dtype)
    np.testing.assert_array_equal(launch(kernel, (dtype, 3), values), (values.astype(np.float32) * 6).astype(dtype))
    assert kernel.symbol((dtype, 3)) == f"scaled_{dtype.name}_3"
    assert kernel.symbol((dtype, -3)) == f"scaled_{dtype.name}_m3"
    assert "constexpr int N = 3;" in kernel.text("hip", (dtype, 3))


def test_signature_names_every_argument_in_order():
    kernel = scaled(updates={"sums": "int"}, template={"T": "dtype", "N": "int", "FLAG": "bool"})
    text = kernel.text("hip", (np.dtype(np.float16), 1, True))
    signature = re.search(r"scaled_float16_1_1\((.*)\) \{", text)
    assert signature[1] == (
        "const half* __restrict__ x, int* __restrict__ sums, half* __restrict__ out, uint size, float by"
    )
    assert "constexpr bool FLAG = true;" in text
    aliasing = scaled(aliasing={"out": ("x",)}).text("hip", (FLOAT32, 1))
    assert "scaled_float32_1(const float* x, float* out, uint size, float by)" in aliasing


def test_only_attributes_of_the_body_are_defined():
    text = scaled().text("hip", (FLOAT32, 1)).split("signature of scaled.metal")[1]
    assert text.count("thread_position_in_grid =") == 1
    assert "thread_index_in_simdgroup" not in text
    longer = scaled("uint my_thread_index_in_simdgroup2 = 0; out[my_thread_index_in_simdgroup2] = x[0];")
    assert "thread_index_in_simdgroup =" not in longer.text("hip", (FLOAT32, 1))


def test_arrays_of_a_threadgroup_are_told_from_pointers():
    source = """
threadgroup float values[4];
threadgroup packed_thing table[2][3];
threadgroup float* first = &values[1];
const threadgroup float& second = values[2];
helper((threadgroup float*)first, values[0]);
"""
    text = scaled(source).text("hip", (FLOAT32, 1))
    assert text.count("HIPRT_SHARED float values[4]") == 1
    assert text.count("HIPRT_SHARED packed_thing table[2][3]") == 1
    assert "threadgroup float* first" in text
    assert "const threadgroup float& second" in text
    assert "(threadgroup float*)first" in text


def test_parts_of_a_body_see_the_template(tmp_path, monkeypatch):
    (tmp_path / "part.h").write_text("namespace metal {\nHIPRT_INLINE T times_all(T x) { return x * T(N * TWO); }\n}\n")
    monkeypatch.setattr("hiprt.kernels.lang.kernel.OPS", tmp_path)
    source = "uint i = thread_position_in_grid.x;\nif (i < size) out[i] = times_all(x[i]) * by;"
    kernel = scaled(source, parts=("part.h",), constants=("constexpr int TWO = 2;",))
    values = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(launch(kernel, (FLOAT32, 3), values), values * 12)


def test_mistakes_are_named():
    kernel = scaled()
    for message, wrong in [
        ("target 'vulkan' is not one of hip, metal", lambda: kernel.text("vulkan", (FLOAT32, 1))),
        ("1 template values", lambda: kernel.text("hip", (FLOAT32,))),
        ("T=dtype.'complex64'", lambda: kernel.text("hip", (np.dtype(np.complex64), 1))),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


def test_compile_errors_show_the_line_of_the_body():
    kernel = scaled("uint i = 0;\nout[i] = no_such_thing;")
    with pytest.raises(CompileError) as caught:
        kernel.bind((FLOAT32, 1))
    assert re.search(r"scaled.metal(:2|\(2\))", caught.value.log)  # clang and g++, or NVRTC
    assert "no_such_thing" in caught.value.log
    with pytest.raises(CompileError):
        kernel.bind((FLOAT32, 1))


def test_bind_compiles_once_for_each_template_branch_and_device(monkeypatch):
    kernel = scaled()
    compiled = []
    compile_one = kernel.compile
    monkeypatch.setattr(kernel, "compile", lambda *args: compiled.append(args) or compile_one(*args))
    barrier = threading.Barrier(4)
    found = []

    def bind():
        barrier.wait()
        found.append(kernel.bind((FLOAT32, 1)))

    threads = [threading.Thread(target=bind) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len(set(map(id, found))) == 1
    assert kernel.bind((FLOAT32, 2)) is not found[0]
    with force_generic():
        assert kernel.bind((FLOAT32, 1)) is not found[0]
    assert kernel.bind((FLOAT32, 1)) is found[0]
    assert len(compiled) == 3


def test_access_is_what_the_declaration_says():
    kernel = Kernel(
        "touch",
        inputs={"a": "float"},
        updates={"b": "int"},
        outputs={"c": "uint"},
        scalars={"d": "int", "e": "uint", "f": "float"},
        source="b[0] += d; c[0] = e + uint(a[0] * f);",
    )
    a, b, c = hiprt.full(1, 3.0), hiprt.full(1, 4, np.int32), hiprt.empty(1, np.uint32)
    kernel(hiprt.current_stream(), (1, 1, 1), (1, 1, 1), a=a, b=b, c=c, d=-1, e=5, f=2.0)
    assert (b.item(), c.item()) == (3, 11)
    function = kernel.bind(())
    assert [(x.name, x.access) for x in function.arguments] == [
        ("a", READ),
        ("b", READ_WRITE),
        ("c", WRITE),
        ("d", SCALAR),
        ("e", SCALAR),
        ("f", SCALAR),
    ]
    assert [x.dtype for x in function.arguments if x.access == SCALAR] == ["int32", "uint32", "float32"]
    assert function.name == "touch"


def test_a_grid_with_a_zero_launches_nothing():
    kernel, x = scaled(), hiprt.zeros(1)
    out = hiprt.full(1, 7.0)
    kernel(hiprt.current_stream(), (0, 1, 1), (64, 1, 1), (FLOAT32, 1), x=x, out=out, size=1, by=2.0)
    assert out.item() == 7.0


def test_force_generic_ends_with_its_block():
    stream = hiprt.current_stream()
    loops = stream.device.provider.takes_loops
    assert target_of(stream).takes_loops is loops
    with force_generic():
        assert not target_of(stream).takes_loops
        with force_generic():
            pass
        assert not target_of(stream).takes_loops
    assert target_of(stream).takes_loops is loops


@pytest.mark.parametrize("kernel", [k for k in KERNELS.values() if not k.part_of], ids=lambda kernel: kernel.name)
def test_every_op_has_a_reference_in_its_folder(kernel):
    assert callable(kernel.reference)
    assert kernel.reference is getattr(reference, kernel.name)


def test_every_body_has_a_kernel_and_every_prelude_file_is_used():
    import hiprt.kernels as package

    assert {path.stem for path in OPS.rglob("*.metal")} == {k.name for k in KERNELS.values() if k.source is None}
    # Kernels that an op launches beside the one of its own name.
    parts = {name: kernel.part_of for name, kernel in KERNELS.items() if kernel.part_of}
    assert KERNELS.keys() - set(package.__all__) == parts.keys()
    assert set(parts.values()) <= set(package.__all__)
    used = {"hip.h", *DIALECTS["hip"].files, *DIALECTS["metal"].files, *BODY, *CHECK, *METAL_BODY}
    assert used == {path.name for path in PRELUDE.iterdir()}
