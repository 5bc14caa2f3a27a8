"""hip_kernel: declarations, calls, templates, structures, modules, graphs with edges, and what is refused."""

import re
import threading
from contextlib import nullcontext

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.errors import CompileError, HipWarning
from hiprt.graphs.record.recording import Recording
from hiprt.kernels import hip_kernel, hip_kernels
from hiprt.kernels.lang.hip_signature import parameters_of, points_to_const
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.module import ADDRESS, READ, READ_WRITE, SCALAR, WRITE

AXPY = """
#include <hip/hip_runtime.h>
__global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
ARGS = {"x": "read float32", "y": "update float32", "a": "float32", "n": "int32"}
SHAPE = np.dtype(
    [("flag", "u1"), ("by", "f8"), ("pair", [("low", "i2"), ("high", "i2")], (2,)), ("add", "f4")], align=True
)
SCALED = """
struct Pair { short low, high; };
struct Shape { unsigned char flag; double by; Pair pair[2]; float add; };
__global__ void scaled(const float* x, float* y, int n, Shape s, unsigned char last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = s.flag ? x[i] * (float)s.by + s.add + s.pair[1].low + last : -1.0f;
}
"""
SCALED_ARGS = {"x": "read float32", "y": "write float32", "n": "int32", "s": SHAPE, "last": "uint8"}
RECORD = {"flag": 1, "by": 2.0, "pair": [(0, 0), (30, 0)], "add": 4.0}


@pytest.fixture
def x():
    return hiprt.array(np.arange(100, dtype=np.float32))


@pytest.fixture
def y():
    return hiprt.full(100, 1.0)


def test_a_kernel_is_launched_by_threads_by_blocks_and_by_name(x, y):
    axpy = hip_kernel(AXPY, "axpy", ARGS)
    axpy(x, y, 2.0, 100, threads=100, block=32)
    axpy(n=100, a=2, y=y, x=x, grid=(4, 1), block=(32, 1, 1))
    axpy(x, y, a=np.float32(1.0), n=np.int64(10), threads=(100, 1))
    expected = np.arange(100) * 4.0 + 1
    expected[:10] += np.arange(10)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_threads_are_rounded_up_to_whole_blocks_on_each_axis():
    count = hip_kernel("__global__ void count(int* out) { atomicAdd(out, 1); }", "count", {"out": "update int32"})
    out = hiprt.zeros(1, np.int32)
    count(out, threads=(5, 3, 2), block=(4, 2, 1))
    assert out.item() == (8 * 4 * 2)
    count(out, grid=(5, 3, 2), block=1)
    count(out, threads=(0, 3), block=4)
    assert out.item() == 64 + 30


def test_declarations_become_accesses():
    function = hip_kernel(AXPY, "axpy", ARGS).bind()
    assert [(a.name, a.access, a.dtype) for a in function.arguments] == [
        ("x", READ, ""),
        ("y", READ_WRITE, ""),
        ("a", SCALAR, "float32"),
        ("n", SCALAR, "int32"),
    ]
    assert function.name == "axpy"
    written = hip_kernel("__global__ void f(void* p) {}", "f", {"p": "write"}).bind()
    assert written.arguments[0].access == WRITE


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        (1, 2.0, [(0, 0), (30, 0)], 4.0),
        np.array((1, 2.0, [(0, 0), (30, 0)], 4.0), SHAPE),
        np.array([(1, 2.0, [(0, 0), (30, 0)], 4.0)], SHAPE)[0],
    ],
    ids=["mapping", "tuple", "array", "record"],
)
def test_a_structure_by_value(x, y, record):
    scaled = hip_kernel(SCALED, "scaled", SCALED_ARGS)
    scaled(x, y, 100, record, 200, threads=100)
    np.testing.assert_array_equal(y.numpy(), np.arange(100) * 2.0 + 234)


LOOK_UP = """
struct Table { int at; struct { const float* rows[2]; } inner[2]; };
__global__ void look_up(float* out, Table table, unsigned long long tail, unsigned long long same, const float* here) {
  out[0] = table.inner[1].rows[1][table.at];
  out[1] = *(const float*)tail;
  out[2] = same == (unsigned long long)table.inner[0].rows[0];
  out[3] = *here;
}
"""


def test_declared_addresses_move_with_their_memory(x):
    """In members of structures in a structure, and as a number or a pointer; a number that equals one stays."""
    table = np.dtype([("at", "i4"), ("inner", [("rows", ADDRESS, (2,))], (2,))], align=True)
    args = {"out": "write float32", "table": table, "tail": "address", "same": "uint64", "here": "address"}
    look_up = hip_kernel(LOOK_UP, "look_up", args)
    assert [a.addresses for a in look_up.bind().arguments] == [(), (8, 16, 24, 32), (0,), (), (0,)]

    def function():
        y = kernels.multiply(x, 2.0)
        hiprt.current_stream().barrier()
        out, at = hiprt.empty(4), y.address
        look_up(out, (3, [([at, at],), ([at, at],)]), at + 20, at, at + 28, grid=1, block=1)
        return out

    assert function().numpy().tolist() == [6, 10, 1, 14]
    step = graphs.Step(function)
    for _ in range(2):
        assert step().numpy().tolist() == [6, 10, 0, 14]


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ([("flag", "u1"), ("by", "f4"), ("pair", "i2", (4,)), ("add", "f4")], "declared as a structure of 20 bytes"),
        (
            [("flag", "u1"), ("by", "f8"), ("add", "f4"), ("pair", "i2", (4,))],
            "declared as having add, of 4 bytes, at 16",
        ),
        ([("flag", "u1"), ("by", "f8"), ("pair", "i2", (4,)), ("plus", "f4")], "plus"),
    ],
    ids=["size", "offset", "name"],
)
def test_a_structure_that_is_not_the_kernel_s_does_not_compile(dtype, message):
    args = {**SCALED_ARGS, "s": np.dtype(dtype, align=True)}
    with pytest.raises(CompileError) as caught:
        hip_kernel(SCALED, "scaled", args).bind()
    assert message in caught.value.log


def test_records_are_checked(x, y):
    scaled = hip_kernel(SCALED, "scaled", SCALED_ARGS)
    for error, message, record in [
        (
            ValueError,
            "scaled: s: fields by; flag, by, pair, add are declared",
            {k: RECORD[k] for k in RECORD if k != "by"},
        ),
        (ValueError, "scaled: s: fields more;", {**RECORD, "more": 1}),
        (ValueError, r"s.flag=256 does not fit uint8", {**RECORD, "flag": 256}),
        (ValueError, r"s.add='a'", {**RECORD, "add": "a"}),
        (TypeError, "values of flag, by, pair, add are passed", (1, 2.0)),
        (TypeError, "one record of", np.zeros(1, SHAPE)),
        (TypeError, "values of flag", 3),
    ]:
        with pytest.raises(error, match=message):
            scaled(x, y, 100, record, 0, threads=100)


def test_templates_through_name_expressions(x):
    source = """
    namespace deep {
    template <class T, int N, bool B> __global__ void times(const T* x, T* y, T add, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] * T(N) + (B ? add : T(0));
    }
    }
    """
    args = {"x": "read T", "y": "write T", "add": "T", "n": "int32"}
    times = hip_kernel(source, "deep::times<T, N, B>", args)
    y = hiprt.empty(100)
    template = {"T": np.float32, "N": -3, "B": True}
    times(x, y, 0.5, 100, threads=100, template=template)
    np.testing.assert_array_equal(y.numpy(), np.arange(100) * -3 + 0.5)
    z = hiprt.array(np.arange(100, dtype=np.int64))
    out = hiprt.empty(100, np.int64)
    times(z, out, 2**40, 100, threads=100, template={"T": np.int64, "N": 2, "B": False})
    np.testing.assert_array_equal(out.numpy(), np.arange(100) * 2)
    assert times.bind(template) is times.bind({"B": True, "N": -3, "T": np.dtype(np.float32)})
    with pytest.raises(TypeError, match="x is an array of int64; float32 is declared"):
        times(z, y, 0.5, 100, threads=100, template=template)
    for wrong in (None, {"T": np.float32}, {**template, "M": 1}):
        with pytest.raises(ValueError, match="its parameters are T, N, B"):
            times(x, y, 0.5, 100, threads=100, template=wrong)
    with pytest.raises(ValueError, match="is not a dtype, number, bool or C"):
        times(x, y, 0.5, 100, threads=100, template={**template, "T": np.complex64})
    with pytest.raises(ValueError, match="what is passed by value needs a dtype"):
        times(x, y, 0.5, 100, threads=100, template={**template, "T": "float"})


def test_a_template_value_may_be_any_type_of_the_source(x):
    source = """
    struct Half { float value; };
    template <class T> __global__ void copy(const T* x, T* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i];
    }
    """
    copy = hip_kernel(source, "copy<T>", {"x": "read T", "y": "write T", "n": "int32"})
    y = hiprt.zeros(100)
    copy(x, y, 100, threads=100, template={"T": "Half"})
    np.testing.assert_array_equal(y.numpy(), np.arange(100))


def test_values_that_python_takes_for_equal_are_programs_of_their_own(x):
    """1 and True: the first that was asked for decided for both."""
    source = "template <auto N> __global__ void sizes(int* out) { out[0] = sizeof(N); }"
    for order in ((1, True), (True, 1)):
        kernel = hip_kernel(source, "sizes<N>", {"out": "write int32"})
        out = hiprt.zeros(1, np.int32)
        for value in order:
            kernel(out, grid=1, block=1, template={"N": value})
            assert out.item() == (1 if value is True else 4)


def test_kernels_of_one_source_share_its_variables():
    source = """
    __device__ int counter = 5;
    __global__ void add(int n) { atomicAdd(&counter, n); }
    extern "C" __global__ void get(int* out) { out[0] = counter; }
    template <int N> __global__ void put() { counter = N; }
    """
    with pytest.warns(
        HipWarning, match=r"(add|put) declares nothing that it writes, so that in a graph it is a barrier"
    ):
        kernels = hip_kernels(source, {"add": {"n": "int32"}, "get": {"out": "write int32"}, "put<N>": {}})
    assert list(kernels) == ["add", "get", "put"]
    out = hiprt.zeros(1, np.int32)
    kernels["add"](2, grid=1, block=3)
    kernels["get"](out, grid=1, block=1)
    assert out.item() == 11
    assert kernels["add"].bind().module is kernels["get"].bind().module
    assert kernels["put"].bind({"N": 3}).module is not kernels["get"].bind().module


def test_a_read_of_what_the_kernel_may_write_is_doubted():
    """The warning is that of the line that declares the kernel, and names the argument and the remedy."""
    source = AXPY.replace("const float* x", "float* x")
    with pytest.warns(
        HipWarning, match=r"axpy: x is declared as read, but its parameter is 'float\* x'.*update"
    ) as told:
        hip_kernel(source, "axpy", ARGS)
    assert told[0].filename == __file__
    with pytest.warns(HipWarning, match="x is declared as read") as told:
        hip_kernels(source, {"axpy": ARGS})
    assert told[0].filename == __file__
    hip_kernel(source, "axpy", {**ARGS, "x": "update float32"})


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("__global__ void f(float* x, int n) {}", ["float* x", "int n"]),
        ("__global__ void f() {}", [""]),
        ("__global__ void __launch_bounds__(2 * N) f(const float *__restrict__ x) {}", ["const float *__restrict__ x"]),
        (
            "template <class T, int N>\n__global__ void f(const Pair<T, N>* x, // one, two\n T y) {}",
            ["const Pair<T, N>* x", "T y"],
        ),
        ("/* __global__ void f(int a) */ __global__ void f(int b) {}", ["int b"]),
        ("__global__ void f(int a);\n__global__ void f(int a) { g(1, 2); }", ["int a"]),
        ("__global__ void f(int a) {}\n__global__ void f(float a) {}", None),
        ("__global__ void other(int a) { f(a); }", None),
        ("KERNEL(f)(int a) {}", None),
    ],
)
def test_parameters_that_can_be_seen(source, found):
    """What is not in plain sight is left to the compiler."""
    assert parameters_of(source, "f") == found


@pytest.mark.parametrize(
    ("parameter", "is_const"),
    [
        ("const float* x", True),
        ("float const *x", True),
        ("float* const x", False),
        ("float* __restrict__ x", False),
        ("const volatile float4* __restrict__ x", True),
        ("float x[]", False),
        ("const float x[4]", True),
        ("constant* x", False),
        ("int n", None),
        ("Pointer x", None),
    ],
)
def test_pointers_to_const(parameter, is_const):
    """The const is that of what the pointer points to."""
    assert points_to_const(parameter) is is_const


def test_constants_are_macros():
    source = """
    __global__ void f(double* out) {
      double a[] = {A, B, C, D, E - 1};
      for (int i = 0; i < 5; ++i) out[i] = a[i];
    }
    """
    constants = {"A": 3, "B": True, "C": np.float32(0.1), "D": "A + 2", "E": -1}
    out = hiprt.empty(5, np.float64)
    hip_kernel(source, "f", {"out": "write float64"}, constants=constants)(out, grid=1, block=1)
    assert out.numpy().tolist() == [3, 1, float(np.float32(0.1)), 5, -2]
    for name, value in [("A B", 1), ("A", np.inf), ("A", None), ("A", "1\n2")]:
        with pytest.raises(ValueError, match="constant"):
            hip_kernel(source, "f", {"out": "write float64"}, constants={name: value})


def test_options_reach_the_compiler():
    source = "#ifndef N\n#error no N\n#endif\n__global__ void f(int* out) { out[0] = N; }"
    out = hiprt.empty(1, np.int32)
    hip_kernel(source, "f", {"out": "write int32"}, options=["-DN=4"])(out, grid=1)
    assert out.item() == 4
    with pytest.raises(CompileError):
        hip_kernel(source, "f", {"out": "write int32"}).bind()


def test_compile_errors_name_the_user_s_line():
    with pytest.raises(CompileError) as caught:
        hip_kernel(AXPY.replace("a * x[i]", "b * x[i]"), "axpy", ARGS, constants={"UNUSED": 1}).bind()
    assert re.search(r"axpy.hip(:5|\(5\))", caught.value.log)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": None}, "axpy takes another number of arguments than declared: x, y, a"),
        ({"x": "write float32"}, "x of axpy is declared as a buffer of float32 that is written"),
        ({"x": "read float64"}, "x of axpy is declared as a buffer of float64"),
        ({"x": "read float16"}, "x of axpy is declared as a buffer of float16"),
        ({"y": "int64"}, "y of axpy is declared as int64"),
        ({"a": "int32"}, "a of axpy is declared as int32"),
        ({"a": "address"}, "a of axpy is declared as an address"),
        ({"n": "address"}, "n of axpy is declared as an address"),
        ({"a": "read float32"}, "a of axpy is declared as a buffer of float32"),
        ({"n": "int64"}, "n of axpy is declared as int64"),
    ],
)
@pytest.mark.filterwarnings("ignore:axpy declares nothing that it writes")
def test_a_kernel_that_is_not_as_declared_does_not_compile(change, message):
    args = {name: text for name, text in {**ARGS, **change}.items() if text}
    with pytest.raises(CompileError) as caught:
        hip_kernel(AXPY, "axpy", args).bind()
    assert message in caught.value.log


def test_buffers_may_be_read_as_vectors_and_bytes(x):
    source = """
    __global__ void sum(const float4* x, const unsigned char* bytes, const void* any, float* out) {
      out[0] = x[1].x + x[1].w + bytes[0] + (any == bytes);
    }
    """
    args = {"x": "read float32", "bytes": "read float32", "any": "read", "out": "write float32"}
    out = hiprt.empty(1)
    hip_kernel(source, "sum", args)(x, x, x, out, grid=1, block=1)
    assert out.item() == 4 + 7 + 1


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (("x", "y", 1.0), TypeError, "axpy: n not given; declared are x, y, a, n"),
        (("x", "y", 1.0, 1, 2), TypeError, "axpy: 5 arguments are given; declared are x, y, a, n"),
        ((1, "y", 1.0, 1), TypeError, r"axpy: x is 1 \(int\); a hiprt.Array is declared; varying= of a step"),
        (("host", "y", 1.0, 1), TypeError, "axpy: x is a numpy array of float32; a hiprt.Array is declared"),
        (("half", "y", 1.0, 1), TypeError, "axpy: x is an array of float16; float32 is declared"),
        (("gaps", "y", 1.0, 1), ValueError, "axpy: x is not contiguous"),
        (("x", "y", "y", 1), TypeError, r"axpy: a is an array of float32; a float32 is passed by value; .*pointer"),
        (("x", "y", 1j, 1), TypeError, r"axpy: a is 1j \(complex\); a float32 is passed by value"),
        (("x", "y", 1e39, 1), ValueError, r"axpy: a=1e\+39 does not fit float32"),
        (("x", "y", 1.0, 1.0), TypeError, r"axpy: n is 1.0 \(float\); a int32 is passed by value"),
        (("x", "y", 1.0, 2**31), ValueError, "axpy: n=2147483648 does not fit int32"),
    ],
)
def test_wrong_arguments_are_named(x, y, args, error, message):
    known = {
        "x": x,
        "y": y,
        "host": np.zeros(1, np.float32),
        "half": hiprt.zeros(1, np.float16),
        "gaps": hiprt.zeros(9)[::2],
    }
    axpy = hip_kernel(AXPY, "axpy", ARGS)
    with pytest.raises(error, match=message):
        axpy(*(known.get(a, a) if isinstance(a, str) else a for a in args), threads=1)


def test_wrong_names_and_sizes_are_named(x, y):
    axpy = hip_kernel(AXPY, "axpy", ARGS)
    for error, message, how in [
        (TypeError, "no argument is named 'b'; declared are x, y, a, n", {"b": 1, "n": 1, "threads": 1}),
        (TypeError, "x is given twice", {"x": x, "threads": 1}),
        (TypeError, "either grid, in blocks, or threads is given", {"n": 1}),
        (TypeError, "either grid", {"n": 1, "threads": 1, "grid": 1}),
        (ValueError, "grid=-1 is not one to three sizes", {"n": 1, "grid": -1}),
        (ValueError, r"threads=\(1, 1, 1, 1\)", {"n": 1, "threads": (1, 1, 1, 1)}),
        (ValueError, "block=0", {"n": 1, "threads": 1, "block": 0}),
        (ValueError, "its parameters are none", {"n": 1, "threads": 1, "template": {"T": 1}}),
    ]:
        with pytest.raises(error, match=message):
            axpy(x, y, 1.0, **how)
    np.testing.assert_array_equal(y.numpy(), np.ones(100))


def test_wrong_declarations_are_refused_at_once():
    packed = np.dtype([("a", "u1"), ("b", "f8")])
    for name, args, message in [
        ("axpy", {"x": "reads float32"}, "axpy: x: 'reads float32' is no declaration"),
        ("axpy", {"x": "read float33"}, "is no declaration"),
        ("axpy", {"x": "write T"}, "is no declaration"),
        ("axpy", {"x": "complex64"}, "is no declaration"),
        ("axpy", {"x": None}, "is no declaration"),
        ("axpy", {"s": packed}, "s: .* is packed; C's layout is"),
        ("axpy", {"s": np.dtype([("a b", "f8")], align=True)}, "'a b' is not the name of a member"),
        ("axpy", {"s": np.dtype([("a", "U2")], align=True)}, "is not a type of C"),
        ("axpy", {"x": "read float32 over y"}, "is no declaration"),
        ("axpy", {"x": "write float32 over x"}, "axpy: x is over x; write over read is needed"),
        ("axpy", {"x": "read", "y": "write over x, "}, "axpy: y is over x, ; write over read is needed"),
        ("axpy<", {}, "'axpy<' is not the name of a kernel"),
        ("my axpy", {}, "is not the name of a kernel"),
    ]:
        with pytest.raises(ValueError, match=message):
            hip_kernel(AXPY, name, args)


def test_strided_arrays_where_the_kernel_says_so(y):
    gaps = hiprt.array(np.arange(200, dtype=np.float32))[::2]
    source = AXPY.replace("x[i]", "x[2 * i]")
    hip_kernel(source, "axpy", ARGS, strided=True)(gaps, y, 1.0, 100, threads=100)
    np.testing.assert_array_equal(y.numpy(), np.arange(0, 200, 2) + 1)


def test_small_values_by_value():
    names = ["bool", "int8", "uint8", "int16", "uint16", "uint64", "float16", "float64"]
    types = ["bool", "signed char", "unsigned char", "short", "unsigned short", "unsigned long long", "Two", "double"]
    parameters = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types))
    source = f"""
    struct Two {{ unsigned short bits; }};
    __global__ void f(double* out, {parameters}) {{
      double a[] = {{(double)a0, (double)a1, (double)a2, (double)a3, (double)a4, (double)a5, (double)a6.bits, a7}};
      for (int i = 0; i < 8; ++i) out[i] = a[i];
    }}
    """
    args = {"out": "write float64", **{f"a{i}": name for i, name in enumerate(names)}}
    out = hiprt.empty(8, np.float64)
    hip_kernel(source, "f", args)(out, True, -8, 200, -300, 60000, 2**53, 1.0, 0.1, grid=1, block=1)
    assert out.numpy().tolist() == [1, -8, 200, -300, 60000, 2**53, 0x3C00, 0.1]
    with pytest.raises(ValueError, match="a1=-129 does not fit int8"):
        hip_kernel(source, "f", args)(out, True, -129, 200, -300, 60000, 2**53, 1.0, 0.1, grid=1, block=1)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 65520.0), ("bfloat16", 3.4e38), ("float32", 3.5e38)])
def test_floats_round_and_do_not_overflow(dtype, size):
    source = """
    __global__ void f(unsigned char* out, Bits a) { *(Bits*)out = a; }
    """
    bits = {"float16": "struct Bits { unsigned short b; };", "float32": "typedef float Bits;"}
    out = hiprt.zeros(1, dtype)
    f = hip_kernel(bits.get(dtype, bits["float16"]) + source, "f", {"out": f"write {dtype}", "a": dtype})
    f(out, 0.1, grid=1, block=1)
    assert out.numpy()[0] == np.asarray(0.1).astype(hiprt.array([], dtype).dtype)
    f(out, np.inf, grid=1, block=1)
    assert np.isinf(out.numpy().astype(np.float32)[0])
    with pytest.raises(ValueError, match="does not fit"):
        f(out, size, grid=1, block=1)


def test_calls_become_nodes_with_edges_from_the_declarations(x):
    kernels = hip_kernels(AXPY + SCALED, {"axpy": ARGS, "scaled": SCALED_ARGS})

    def function():
        made = [hiprt.empty(100) for _ in range(2)]
        for i, out in enumerate(made):
            kernels["scaled"](x, out, 100, {**RECORD, "add": float(i)}, i, threads=100)
        kernels["axpy"](made[0], made[1], 2.0, 100, threads=100)
        return made[1]

    eager = function().numpy()
    step = graphs.Step(function)
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), eager)
    assert step.rungs["replay"] == 2


@pytest.mark.parametrize(
    ("declared", "places"), [("write float32", 2), ("write float32 over x", 1), ("write over x", 1)]
)
def test_results_lie_over_what_they_are_declared_over(x, declared, places):
    kernel = hip_kernel(SCALED, "scaled", {**SCALED_ARGS, "y": declared})

    def function():
        y = x
        for i in range(5):
            y, before = hiprt.empty(100), y
            kernel(before, y, 100, RECORD, i, threads=100)
        return y

    eager = function().numpy()
    step = graphs.Step(function)
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), eager)
    assert [plan.nbytes for plan in step.plans] == [512 * places]


def test_arrays_with_gaps_lie_over_nothing():
    with pytest.raises(ValueError, match="do not lie over each other"):
        hip_kernel(SCALED, "scaled", {**SCALED_ARGS, "y": "write float32 over x"}, strided=True)


def test_two_readers_are_not_ordered_and_a_writer_is(stream, x):
    kernels = hip_kernels(AXPY + SCALED, {"axpy": ARGS, "scaled": SCALED_ARGS})
    a, b = hiprt.empty(100), hiprt.empty(100)
    recording = Recording()
    with recording.record(stream):
        kernels["scaled"](x, a, 100, RECORD, 0, threads=100)
        kernels["scaled"](x, b, 100, RECORD, 0, threads=100)
        kernels["axpy"](a, b, 2.0, 100, threads=100)
    assert recording.dependencies() == [[], [], [0, 1]]


def test_threads_compile_once(monkeypatch):
    axpy = hip_kernel(AXPY + "// once", "axpy", ARGS)
    compiled, barrier, found = [], threading.Barrier(4), []
    compile_one = axpy.program.compile
    monkeypatch.setattr(axpy.program, "compile", lambda *args: compiled.append(args) or compile_one(*args))

    def bind():
        barrier.wait()
        found.append(axpy.bind())

    threads = [threading.Thread(target=bind) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_declarations_are_checked_for_amd_too(target):
    """The clang that compiles for AMD takes what we add, and sees the same mistakes."""
    compiler = Compiler()
    for change, wrong in [({}, None), ({"n": "int64"}, "n of scaled is declared as int64")]:
        kernel = hip_kernel(SCALED, "scaled", {**SCALED_ARGS, **change})
        text = hip_program(kernel.program.text({"scaled": kernel.declared(())}), "scaled.hip")
        with pytest.raises(CompileError, match=wrong) if wrong else nullcontext():
            assert "scaled" in compiler.assembly(text, "scaled", target)


def test_a_failed_build_is_not_kept():
    axpy = hip_kernel(AXPY + "\n#error later", "axpy", ARGS)
    for _ in range(2):
        with pytest.raises(CompileError):
            axpy.bind()
    assert not axpy.functions


def test_a_wrong_name_is_one_line():
    """The error names the kernels that there are, instead of the assertions behind the source that fail."""
    source = """
    template <typename T> __global__ void __launch_bounds__(64) twice(T* x, int n) { x[0] *= 2; }
    namespace inner { __global__ void thrice(float* x, int n) { x[0] *= 3; } }
    """
    wrong = hip_kernel(source, "twise<T>", {"x": "update T", "n": "int32"})
    with pytest.raises(ValueError, match=r"^the source has no kernel twise; it has twice, thrice$") as caught:
        wrong(hiprt.zeros(4), 4, template={"T": np.float32}, threads=4)
    assert caught.value.__suppress_context__
    with pytest.raises(ValueError, match=r"^the source has no kernel inner::once; it has twice, thrice$"):
        hip_kernel(source, "inner::once", {"x": "update float32", "n": "int32"})(hiprt.zeros(4), 4, threads=4)
    with pytest.raises(ValueError, match=r"^the source has no kernel f; it has none$"):
        hip_kernel("", "f", {"x": "update float32"})(hiprt.zeros(4), threads=4)
