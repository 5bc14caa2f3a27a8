"""A decode loop by our own runtime, for quirks of captures and memory: its bits, and what the device has left."""

import hashlib
from contextlib import ExitStack
from functools import cache

import numpy as np
from helpers.child import child
from helpers.hip_calls import ok
from helpers.kernels import accumulate, launch, mix, scale
from rocm.bindings import hip

import hiprt
from hiprt import graphs
from hiprt.allocator import default_pool
from hiprt.buffer import Buffer

N = 3000
TOKENS = 24
WARM = 8  # tokens after which no more memory is taken
START = np.linspace(-1, 1, N, dtype=np.float32)


class Decoder:
    """A step that is kept, and one that is recorded again for each token, on a stream of their own."""

    def __init__(self):
        self.stream = hiprt.Stream()
        with hiprt.use_stream(self.stream):
            self.state, self.outs = hiprt.array(START), [hiprt.zeros(N) for _ in range(3)]
            self.factor = hiprt.zeros(N)
        self.kept = graphs.Step(self.advance, name="kept", stream=self.stream)
        self.issued = graphs.Step(self.emit, name="issued", stream=self.stream, keep=False)
        self.tokens = 0

    def advance(self):
        """Change the state, through temporaries that are dropped while their launch is in flight."""
        accumulate(scale(mix(scale(self.state, 0.25), self.factor), 0.5), self.state)

    def emit(self):
        """Write the token's output, to another place each time."""
        launch("mix", scale(self.state, 1.0 + self.tokens % 5), self.state, self.outs[self.tokens % 3], size=N)

    def step(self):
        """One token: the output of this token, not yet waited for."""
        self.tokens += 1
        self.kept()
        self.issued()
        return self.outs[self.tokens % 3]


def free_bytes():
    """Memory that the device has left."""
    return ok(hip.hipMemGetInfo())[0]


def driver_memory(nbytes, stream):
    """Memory of the driver's pool, which gets it back in stream order."""
    handle = hip.ihipStream_t.fromObj(stream.raw)  # not shared, so that a step does not listen for work of other code
    pointer = ok(hip.hipMallocAsync(nbytes, handle))
    return Buffer(int(pointer), nbytes, stream.device.index, lambda: ok(hip.hipFreeAsync(pointer, handle)))


def decode(*, on_driver=False, beside=None):
    """Decode some tokens, reading every second one.

    Parameters
    ----------
    on_driver : bool
        Let our pool stand on the driver's, and give back what is free at each token.
    beside : context manager
        Entered once warm.

    Returns
    -------
    dict
        The digest of all tokens, the number of eager runs, and whether memory stays flat after warm-up.
    """
    if on_driver:
        default_pool.source = driver_memory
    decoder, digest, left = Decoder(), hashlib.sha256(), []
    with ExitStack() as stack:
        for token in range(TOKENS):
            if token == WARM and beside is not None:
                stack.enter_context(beside)
            out = decoder.step()
            if on_driver:
                default_pool.trim()
            if token % 2:
                digest.update(out.numpy(decoder.stream).tobytes())
                left.append(free_bytes())
    eager = sum(step["rungs"]["eager"] for step in graphs.stats().values())
    return {"digest": digest.hexdigest(), "eager": eager, "is_flat": len(set(left[WARM // 2 :])) == 1}


def decode_on_driver():
    """As `decode` on the driver's pool."""
    return decode(on_driver=True)


@cache
def expected():
    """What `decode` returns without quirks."""
    right = child(decode)
    assert right["eager"] == 0
    assert right["is_flat"]
    return right
