"""Check that steps whose values, shapes and addresses change at random give numpy's bits.

From tests/: ``python -m helpers.varied --seed 7 --count 20``. The environment (provider, profile, seed) is taken as it
is.
"""

import argparse
import itertools
import logging
import sys

import numpy as np

import hiprt
from helpers.kernels import accumulate, mix, scale
from hiprt import graphs

SIZES = (32, 33, 64, 200)
CALLS = 40


def host(x, y, by, options):
    """Return what `device` computes, and what becomes of y."""
    z = x * np.float32(by)
    for factor in options["factors"]:
        z = z * np.float32(factor)
    if options["twice"]:
        z = z * np.float32(by * 2)
    return z * np.float32(0.5) + y[::-1], y + z


def device(x, y, by, options):
    """Launch kernels that take values as they are and computed with, and as many as a value says."""
    z = scale(x, by)
    for factor in options["factors"]:
        z = scale(z, float(factor))
    if options["twice"]:
        z = scale(z, by * 2)
    out = mix(z, y)
    accumulate(z, y)
    return {"out": out, "y": y}


def run(seed, **how):
    """Call one step at random; return what is wrong, or None."""
    rng = np.random.default_rng(seed)
    step = graphs.Step(device, name=f"varied {seed}", **how)
    known = {size: [rng.standard_normal(size, dtype=np.float32) for _ in range(4)] for size in SIZES}
    arrays = {size: [hiprt.array(values) for values in held] for size, held in known.items()}
    by = [1.0, -0.0, 0.0, 0.75, np.float32(0.75), 3]
    results = []
    for call in range(CALLS):
        size = SIZES[int(rng.integers(len(SIZES) if rng.random() < 0.3 else 1))]
        i, j = rng.choice(4, 2, replace=False)
        value = by[int(rng.integers(len(by)))] if rng.random() < 0.5 else float(np.float32(rng.random()))
        factors = np.float32([1.5, 0.5, 2.0])[: int(rng.integers(4))]
        options = {"factors": factors if rng.random() < 0.5 else list(map(float, factors)), "twice": rng.random() < 0.3}
        x, y = arrays[size][i], arrays[size][j]
        if rng.random() < 0.1:
            # Another array of the same contents, at an address that was not seen before.
            y = arrays[size][j] = hiprt.array(known[size][j])
        expected, known[size][j] = host(known[size][i], known[size][j], value, options)
        made = step(x, y, value, options) if rng.random() < 0.5 else step(x, y, options=options, by=value)
        results.append((call, made["out"], expected))
        if not how.get("overwrite"):
            continue
        if not np.array_equal(made["out"].numpy(), expected):
            return f"seed {seed}, {how}: call {call} differs\n{dict(step.reasons)}"
    for call, made, expected in [] if how.get("overwrite") else results:
        if made.numpy().tobytes() != expected.tobytes():
            return f"seed {seed}, {how}: call {call} differs\n{dict(step.reasons)}"
    for size in SIZES:
        for array, values in zip(arrays[size], known[size]):
            if array.numpy().tobytes() != values.tobytes():
                return f"seed {seed}, {how}: an array of {size} differs\n{dict(step.reasons)}"
    return None


WAYS = [
    {"keep": keep, "moves": moves, "overwrite": overwrite}
    for keep, moves, overwrite in itertools.product((True, False), (False, True), (False, True))
    if keep or not (moves or overwrite)
]


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser("helpers.varied", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("hiprt.graphs").setLevel(logging.ERROR)
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        for seed in range(options.seed, options.seed + options.count):
            found = run(seed, **WAYS[seed % len(WAYS)])
            if found:
                print(found)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
