"""random_bits: MLX's own words, sizes around the halves, nothing, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


def key(*words):
    return np.array(words, np.uint32)


# mx.random.split(key, 3) of MLX 0.32.4, flat.
SPLITS = {
    (0, 0): [2467461003, 428148500, 3186719485, 3840466878, 2562233961, 1946702221],
    (0, 7): [276534068, 861967409, 1905761346, 1641862660, 2900896126, 1402713516],
    (256, 5): [1070028816, 3116542653, 3600761423, 1908725145, 1447120341, 1212153964],
}


@pytest.mark.parametrize("words", SPLITS)
def test_are_the_words_of_mlx(words):
    assert kernels.random_bits(hiprt.array(key(*words)), (6,)).numpy().tolist() == SPLITS[words]


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (4, 5), (511,), (512,), (513,), (3, 7, 11), (0,), (4, 0)])
@pytest.mark.parametrize("words", [(0, 0), (1, 2**32 - 1)])
def test_matches_numpy(words, shape):
    got = kernels.random_bits(hiprt.array(key(*words)), shape)
    assert (got.dtype, got.shape) == (np.uint32, shape)
    np.testing.assert_array_equal(got.numpy(), reference.random_bits(key(*words), shape))


def test_mistakes_are_named():
    good = hiprt.array(key(1, 2))
    for kind, message, wrong in [
        (TypeError, "uint32 is needed", lambda: kernels.random_bits(hiprt.array(np.zeros(2, np.int32)), (2,))),
        (ValueError, r"\(2,\) is needed", lambda: kernels.random_bits(hiprt.array(key(1, 2, 3)), (2,))),
        (ValueError, "lengths of 0 and more", lambda: kernels.random_bits(good, (2, -1))),
        (ValueError, "at most", lambda: kernels.random_bits(good, (2**16, 2**16))),
    ]:
        with pytest.raises(kind, match=message):
            wrong()
