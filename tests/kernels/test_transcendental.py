"""The functions that are derived on AMD, where no device libraries are: compiled for the host, beside numpy's."""

import ctypes
import subprocess

import numpy as np
import pytest

from hiprt.kernels.lang import dialect

ONE = ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "log1p")
INVERSE = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
NUMPY = {name: f"arc{name[1:]}" for name in INVERSE}
WITHIN = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "acosh": (1, 1e6), "log1p": (-1, 1e6), "tan": (-1.5, 1.5)}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 1e-20, -1e-20, 1e20], np.float32)
ULPS = 8
HOST = """
#include <cmath>
#define HIPRT_TARGET_AMD 1
#define HIPRT_INLINE inline
namespace metal {
HIPRT_INLINE float sin(float x) { return std::sin(x); }
HIPRT_INLINE float cos(float x) { return std::cos(x); }
HIPRT_INLINE float sqrt(float x) { return std::sqrt(x); }
HIPRT_INLINE float exp(float x) { return std::exp(x); }
HIPRT_INLINE float log(float x) { return std::log(x); }
HIPRT_INLINE float fabs(float x) { return std::fabs(x); }
}
"""
EACH = """
extern "C" void derived_{name}(const float* a, const float* b, float* out, int n) {{
  for (int i = 0; i < n; i++) out[i] = metal::{name}({arguments});
}}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transcendental")
    loops = [EACH.format(name=name, arguments="a[i]") for name in ONE]
    loops.append(EACH.format(name="atan2", arguments="a[i], b[i]"))
    text = HOST + (dialect.PRELUDE / "transcendental.h").read_text() + "".join(loops)
    (folder / "functions.cpp").write_text(text)
    made = folder / "functions.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", made, folder / "functions.cpp"], check=True)
    return ctypes.CDLL(str(made))


def computed(library, name, a, b=None):
    """Return a function's results for arrays of float32."""
    out = np.empty_like(a)
    pointers = [np.ascontiguousarray(each).ctypes.data_as(ctypes.c_void_p) for each in (a, a if b is None else b, out)]
    getattr(library, f"derived_{name}")(*pointers, len(a))
    return out


def agree(found, wanted):
    """Assert that results are the same where they are no ordinary numbers, and near where they are."""
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
    ordinary = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~ordinary], rounded[~ordinary])
    np.testing.assert_array_equal(np.signbit(found[rounded == 0]), np.signbit(rounded[rounded == 0]))
    error = np.abs(found[ordinary] - wanted[ordinary]) / np.maximum(np.spacing(np.abs(rounded[ordinary])), 2.0**-149)
    assert error.max(initial=0) <= ULPS


@pytest.mark.parametrize("name", ONE)
def test_one_argument(library, name):
    low, high = WITHIN.get(name, (-80, 80))
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.uniform(low, high, 20000), rng.uniform(max(low, -0.9), min(high, 1.2), 20000)])
    a = np.clip(a, low, high).astype(np.float32)
    if name != "tan":
        a = np.concatenate([a, SPECIAL])
    with np.errstate(all="ignore"):
        agree(computed(library, name, a), getattr(np, NUMPY.get(name, name))(a.astype(np.float64)))


def test_two_arguments(library):
    rng = np.random.default_rng(1)
    y, x = rng.normal(size=(2, 20000)) * 10.0 ** rng.uniform(-6, 6, (2, 20000))
    corners = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    y, x = np.concatenate([np.stack([y, x]).astype(np.float32), corners], axis=1)
    agree(computed(library, "atan2", y, x), np.arctan2(y.astype(np.float64), x.astype(np.float64)))
