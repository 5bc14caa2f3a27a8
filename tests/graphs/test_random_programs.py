"""Random programs of 5 to 60 primitives, bit by bit the same in all ways in which they can run.

These are: eager; compiled; compiled without shapes, at other shapes; and exported and imported in another process.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.elementwise import fused
from hiprt.metal_compat import metal_kernel

WIDTH = 8
UNARY = ("exp", "abs", "negative", "tanh", "sigmoid", "square", "floor", "isnan", "logical_not")
SCALE = metal_kernel("scale", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i] * T(2) + T(1);")


def scaled(x):
    """Call a custom kernel whose grid and shape follow from the array's."""
    return SCALE(
        inputs=[x],
        template=[("T", x.dtype)],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(x.size, 1, 1),
        threadgroup=(32, 1, 1),
    )[0]


def as_float(x):
    return x if x.dtype == np.float32 else kernels.astype(x, np.float32)


def solid(x):
    """Return a contiguous array of float32, for ops that take no other."""
    return kernels.contiguous(as_float(x))


def unary(name, x, y, n):
    return getattr(kernels, name)(as_float(x))


# What a line of a program does with two arrays, [rows, 8], and a whole number; each returns such an array.
LINES = {
    **{name: partial(unary, name) for name in UNARY},
    "add": lambda x, y, n: kernels.add(x, y),
    "multiply": lambda x, y, n: kernels.multiply(x, y),
    "subtract": lambda x, y, n: kernels.subtract(as_float(x), y),
    "maximum": lambda x, y, n: kernels.maximum(x, y),
    "less": lambda x, y, n: kernels.less(x, y),
    "where": lambda x, y, n: kernels.where(kernels.less(x, y), x, 1.5),
    "silu_mul": lambda x, y, n: kernels.silu_mul(solid(x), solid(y)),
    "number": lambda x, y, n: kernels.add(x, float(n)),
    "whole": lambda x, y, n: kernels.multiply(x, n),
    "half": lambda x, y, n: kernels.astype(x, np.float16),
    "int": lambda x, y, n: kernels.astype(kernels.clip(as_float(x), -9, 9), np.int32),
    "softmax": lambda x, y, n: kernels.softmax(as_float(x), axis=n % 2),
    "rms_norm": lambda x, y, n: kernels.rms_norm(solid(x), None, 1e-5),
    "row sum": lambda x, y, n: kernels.multiply(x, kernels.sum(x, axis=1, keepdims=True)),
    "column max": lambda x, y, n: kernels.subtract(as_float(x), kernels.max(x, axis=0, keepdims=True)),
    "reverse": lambda x, y, n: kernels.contiguous(x[::-1]),
    "reversed view": lambda x, y, n: kernels.add(x[::-1], y),
    "last row": lambda x, y, n: kernels.add(x, y[-1]),
    "first rows": lambda x, y, n: kernels.concatenate([x[: x.shape[0] // 2], y[x.shape[0] // 2 :]]),
    "turn": lambda x, y, n: kernels.contiguous(x.T).T,
    "reshape": lambda x, y, n: kernels.contiguous(x).reshape(-1).reshape(x.shape[0], WIDTH),
    "flat": lambda x, y, n: kernels.cumsum(solid(x).reshape(x.shape[0] * x.shape[1])).reshape(-1, WIDTH),
    "matmul": lambda x, y, n: kernels.matmul(kernels.matmul(as_float(x), as_float(y).T), as_float(y)),
    "take": lambda x, y, n: kernels.take(x, kernels.argsort(as_float(y)[:, n % WIDTH]), axis=0),
    "custom kernel": lambda x, y, n: scaled(solid(x)),
    "sort": lambda x, y, n: kernels.sort(as_float(x), axis=n % 2),
    "arange": lambda x, y, n: kernels.add(x, kernels.arange(x.shape[0])[:, None]),
    "zeros": lambda x, y, n: kernels.add(hiprt.zeros(x.shape), x),
    "full": lambda x, y, n: kernels.add(hiprt.full((x.shape[0], 1), n, np.int32), x),
    "write": lambda x, y, n: kernels.add(copy(x), 1.0, out=copy(x)),
    "write row": lambda x, y, n: written(copy(x), y, n),
    "write over": lambda x, y, n: overwritten(x, kernels.add(kernels.astype(kernels.less(y, 0.5), x.dtype), n)),
    "write to": lambda x, y, n: kernels.multiply(copy(y), 0.5, out=x if is_solid(x) else None),
    "nothing": lambda x, y, n: kernels.astype(x, x.dtype)[:],
}


def copy(x):
    """Return a new array of float32."""
    made = hiprt.empty(x.shape)
    kernels.astype(x, np.float32, out=made)
    return made


def is_solid(x):
    return x.dtype == np.float32 and x.is_contiguous


def overwritten(x, y):
    """Write an array, which may be an argument or a view of one, and return it."""
    kernels.copyto(x, kernels.astype(y, x.dtype))
    return x


def written(x, y, n):
    """Write to one row of an array through a view, and read the whole."""
    kernels.add(as_float(y)[n % 2], 1.0, out=x[n % 2])
    return kernels.multiply(x, 2.0)


@st.composite
def programs(draw, most):
    """A list of lines: a name, which two earlier arrays, a number; and how many of the last arrays are returned."""
    length = draw(st.integers(5, most))
    names = [draw(st.sampled_from(sorted(LINES))) for _ in range(length)]
    earlier = [st.integers(0, i + 1) for i in range(length)]
    lines = [(name, draw(each), draw(each), draw(st.integers(0, 7))) for name, each in zip(names, earlier)]
    return lines, draw(st.integers(1, 4))


def function_of(program):
    """Return the function of a random program."""
    lines, count = program

    def function(x, y):
        known = [x, y]
        for name, first, second, number in lines:
            known.append(LINES[name](known[first], known[second], number))
        return tuple(known[-count:])

    return function


def operands(rows, *, is_shared=False):
    """Return two arrays; `is_shared` lets the second begin behind the first row of the first one."""
    random = np.random.default_rng(rows)
    if is_shared:
        whole = hiprt.array(random.normal(size=(rows + 1, WIDTH)).astype(np.float32))
        return [whole[:-1], whole[1:]]
    return [hiprt.array(random.normal(size=(rows, WIDTH)).astype(np.float32)) for _ in range(2)]


def check(program):
    function = function_of(program)
    compiled, shapeless = hiprt.compile(function), hiprt.compile(function, shapeless=True)
    for rows, is_shared in ((4, False), (4, False), (4, True), (7, False), (2, True), (4, False)):
        arrays = operands(rows, is_shared=is_shared)
        exact = [(each.dtype, each.numpy()) for each in (*function(*arrays), *arrays)]
        for way in (compiled, shapeless):
            arrays = operands(rows, is_shared=is_shared)
            for array, (dtype, values) in zip((*way(*arrays), *arrays), exact, strict=True):
                assert array.dtype == dtype
                assert array.shape == values.shape
                assert array.numpy().tobytes() == values.tobytes()
    assert shapeless.traces == 1


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_random_programs(form, part):
    """40 short programs by default, 400 with ``--all``, 20,000 in the long form; what is fused runs op by op."""
    count, most = {"short": (40, 25), "usual": (400, 60), "long": (20_000, 60)}[form]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "whole_of", lambda *_: None)
        run(part(range(count)), most)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_random_programs_in_fused_kernels(form, part):
    """The same where what is fused is one kernel, which takes a compiler's time for each program."""
    count, most = {"short": (2, 25), "usual": (10, 60), "long": (500, 60)}[form]
    run(part(range(count)), most)


def test_other_shapes_of_arguments_that_share_memory(monkeypatch):
    """A program that was right for arguments apart, called with other shapes of arguments that share memory."""
    monkeypatch.setattr(fused, "whole_of", lambda *_: None)
    lines = [("abs", 0, 0, 0)] * 3 + [("write over", 0, 0, 0), ("write over", 1, 1, 0)]
    check((lines, 1))


def drawn(numbers, most, test, **kinds):
    """Run a test of as many random programs as numbers are given; other shares' begin elsewhere, and draw others."""
    wanted = settings(max_examples=len(numbers), deadline=None, suppress_health_check=list(HealthCheck), **kinds)
    made = wanted(given(programs(most))(test))
    (seed(numbers[0])(made) if numbers[0] else made)()


def run(numbers, most):
    drawn(numbers, most, check)


IMPORTING = """
import json, sys
from pathlib import Path
import numpy as np
import hiprt
for file in sorted(Path(sys.argv[1]).glob("*.hiprt")):
    imported = hiprt.import_function(file)
    cases = json.loads(file.with_suffix(".json").read_text())
    for case in cases:
        given = [hiprt.array(np.frombuffer(bytes.fromhex(each), np.float32).reshape(-1, 8)) for each in case["given"]]
        for made, (dtype, shape, exact) in zip(imported(*given), case["made"], strict=True):
            assert (str(made.dtype), list(made.shape)) == (dtype, shape), file
            assert made.numpy().tobytes().hex() == exact, file
    file.unlink()
"""
BATCH = 400  # programs that a process imports


def export(program, folder, number):
    """Export a program for fixed shapes and for all, with what it makes of a few inputs."""
    function = function_of(program)
    for shapeless, sizes in ((False, (4,)), (True, (7, 2))):
        file = folder / f"{number}-{shapeless}.hiprt"
        hiprt.export_function(file, function, *operands(4), shapeless=shapeless)
        cases = []
        for rows in sizes:
            given_arrays = operands(rows)
            hexes = [each.numpy().tobytes().hex() for each in given_arrays]
            exact = [(str(each.dtype), each.shape, each.numpy().tobytes().hex()) for each in function(*given_arrays)]
            cases.append({"given": hexes, "made": exact})
        file.with_suffix(".json").write_text(json.dumps(cases))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_exported_programs_in_another_process(form, part, tmp_path):
    """10 short programs by default, 60 with ``--all``, 20,000 in the long form."""
    count, most = {"short": (10, 25), "usual": (60, 60), "long": (20_000, 60)}[form]
    written = []

    def check_imports():
        child = [sys.executable, "-c", IMPORTING, str(tmp_path)]
        done = subprocess.run(child, env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert not list(Path(tmp_path).glob("*.hiprt"))
        written.clear()

    def check(program):
        written.append(program)
        export(program, tmp_path, len(written))
        if len(written) == BATCH:
            check_imports()

    drawn(part(range(count)), most, check, database=None, phases=[Phase.generate])
    check_imports()
