"""Data that quantisation is compared on, and checksums of what MLX 0.32.4 makes of them on the CPU.

The checksums were taken with ``python tests/helpers/quantized_data.py`` where ``mlx`` and ``ml_dtypes`` are installed.
"""

import zlib
from itertools import product

import ml_dtypes
import numpy as np

BITS, GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
ROWS, WIDTH = 3, 256


def kinds():
    """Return eight kinds of data, float64, from a generator whose numbers do not change between versions of numpy."""
    random = np.random.RandomState(7)
    normal = random.randn(ROWS, WIDTH)
    few = random.randint(-3, 4, (ROWS, WIDTH)) / 2
    sparse = np.where(random.rand(ROWS, WIDTH) < 0.05, normal * 20, 0)
    return {
        "normal": normal,
        "all negative": -np.abs(normal) - 1.5,
        "all positive": np.abs(normal) + 0.5,
        "zeros and constants": np.repeat([[0.0], [2.75], [-3.25]], WIDTH, axis=1),
        "ties": few,
        "tiny": normal * 1e-7,
        "large": normal * 5000,
        "sparse": sparse,
    }


def checksum(*arrays):
    """Return the CRC-32 of the bytes of arrays."""
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).tobytes(), value)
    return value


# One line for each format, bits first; one column for each dtype.
TABLE = """
f0724fcf 5066016e 14fb36de
25122321 00287ac4 dfa303c9
d0de0318 8e24c68c 5af1040e
bae510f2 8f6873b4 cc69116d
b63fa4fa 399e0f01 16ef96b0
1b48b535 031ec861 b9297ad7
cc3c61ed c831b6b8 067bbf0f
f3dc7239 20bc4aae c7d59987
9974f5ab 367ec45a f80c1658
185d5d92 799e9f1e 5c24b8e8
831eb2b7 5862a084 f0a55cdf
fc453693 038097ca 743aba1d
a2f2291f 50a480c4 2afe64ec
0ff94c34 b34288ba b7292d51
d2ade433 44e3ee11 b327490a
f5c43047 2fc98c84 5257eeb0
a243bc75 f1449c53 7e1437d9
53429ac4 13e9e90c b9a92dba
""".split()
CHECKSUMS = {key: int(word, 16) for key, word in zip(product(BITS, GROUPS, DTYPES), TABLE, strict=True)}


def measured():
    """Return checksums of codes, scales, biases and restored values, by format and dtype, over all kinds of data."""
    import mlx.core as mx

    found = {}
    for bits, group, name in product(BITS, GROUPS, DTYPES):
        value = []
        for data in kinds().values():
            w = mx.array(data.astype(DTYPES[name]).astype(np.float32)).astype(getattr(mx, name))
            packed, scales, biases = mx.quantize(w, group, bits)
            back = mx.dequantize(packed, scales, biases, group, bits)
            value += [np.array(packed), *(host(v) for v in (scales, biases, back))]
        found[bits, group, name] = checksum(*value)
    return found


def host(value):
    """Return an MLX array in numpy; bfloat16 becomes its bits."""
    import mlx.core as mx

    return np.array(value.view(mx.uint16)) if value.dtype == mx.bfloat16 else np.array(value)


if __name__ == "__main__":
    print(measured())
