"""Every op with launches of more than 65,535 blocks: what repeats in the operands repeats in the results.

All ops on both branches, with a record of what was launched: ``python -m helpers.many_blocks --json FILE`` in tests/.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hiprt
from helpers.op_cases import (
    CASES as FEW_ROWS,
    CODE,
    FLOAT,
    INT,
    ONE_BRANCH,
    UINT,
    Joined,
    Rows,
    numbers,
    repeated,
    results_of,
    whole,
)
from hiprt import objects
from hiprt.allocator import default_pool
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import force_generic

MOST = 65_535  # blocks along y and z of a grid, and along x where a block's number has 16 bits
BLOCKS = 65_600
PERIOD = 5003  # a prime: no number of whole blocks is a number of whole periods
PIECE = 2**24  # elements that are compared at once
HALF = np.dtype(np.float16)


@dataclass(frozen=True)
class Same:
    """An operand that is another one."""

    name: str


@dataclass(frozen=True)
class View:
    """An operand that is a view of an array on the device."""

    rows: Rows
    of: Callable[[hiprt.Array], hiprt.Array]


@dataclass(frozen=True)
class Case:
    """How an op gets more than 65,535 blocks.

    Attributes
    ----------
    operands : dict
        By name: `Rows` and `Joined` have as many rows as it takes, functions are called with their number.
    prepares : tuple of str
        Beginnings of kernels' names that the op launches beforehand; as ops of their own they have a case.
    shapes : dict
        Of results and operands, by name, for comparing: what repeats lies along one axis.
    exact : callable, optional
        From the operands on the host to the result, where it does not repeat.
    rows : int
        For an op whose blocks do not grow with the rows.
    bound : int
        The most blocks that such an op launches.
    """

    operands: dict[str, Any]
    prepares: tuple[str, ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    exact: Callable[..., np.ndarray] | None = None
    rows: int = 0
    bound: int = 0


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    name: str
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]


def likely(logits, **_):
    """Return logits of which the three largest of a period stay."""
    return np.where(logits >= np.unique(logits[:PERIOD])[-3], logits, -np.inf)


def heads(count, *shape, axis=0):
    """Return `count` operands of heads that lie one behind the other."""
    return tuple(Rows(shape, FLOAT, 4 + i, axis, flat=True) for i in range(count))


def codes(words, *shape, axis=0, top=32):
    """Return the parts of a quantized matrix of as many rows as are counted, by name."""
    return {
        "w": Rows((*shape, words), UINT, 2**top, axis),
        "scales": Rows((*shape, words // 8), FLOAT, top, axis),
        "biases": Rows((*shape, words // 8), FLOAT, top + 1, axis),
    }


GATE, UP = codes(64, 1, axis=1), codes(64, 1, axis=1, top=31)
COLUMNS = {"x": whole(1, 64)} | codes(8)
# Not with the operands of the table that they share with other tests: their rows are no blocks, or too large.
OTHERS = {
    # In place: two bytes for each of the 16,384 elements of a plain loop on the CPU device.
    "add": Case({"a": Rows((64,), HALF), "b": Same("a"), "out": Same("a")}),
    "silu_mul": Case({"gate": Rows((64,), HALF), "up": Same("gate"), "out": Same("gate")}),
    "rms_norm": Case({"x": Rows((64,), HALF), "weight": whole(64, dtype=HALF), "eps": 1e-6, "out": Same("x")}),
    "contiguous": Case({"x": View(Rows((10,)), lambda x: x[:, ::2])}),
    "arange": Case({"start": 0, "stop": lambda rows: rows}, exact=lambda start, stop: np.arange(stop)),
    "random_bits": Case(
        {"key": numbers(3, 5, dtype=UINT), "shape": lambda rows: (rows,)},
        exact=lambda key, shape: reference.random_bits(key, shape),
    ),
    "argsort of more than a run": Case({"a": Rows((1030,))}),
    "topk": Case(FEW_ROWS["topk"] | {"k": 6}),
    "quantize": Case({"w": Rows((32,), HALF), "group_size": 32}),
    "matmul": Case({"a": whole(3, 5), "b": Rows((5,), axis=1)}),
    "matmul by columns": Case({"a": whole(3, 5), "b": View(Rows((5,)), lambda x: x.T)}),
    "quantized_matmul by columns": Case(COLUMNS),
    "quantized_matmul of 3 bits": Case(COLUMNS | {"w": Rows((6,), UINT, 2**32), "bits": 3}),
    "gather_qmm": Case(FEW_ROWS["gather_qmm"], prepares=("sort_runs", "merge_runs")),
    "qmv": Case(COLUMNS | {"norm": whole(64), "residual": Rows((1,), axis=1)}),
    "quantized_embedding": Case({
        "ids": numbers(1, 0), "weight": Rows((2, 8), UINT, 2**32, 1, flat=True),
        "scales": Rows((2, 1), FLOAT, 4, 1, flat=True), "biases": Rows((2, 1), FLOAT, 5, 1, flat=True),
    }),
    "moe_gate_up": Case(
        {"x": whole(1, 512), "indices": np.zeros((1, 2), INT), "norm": whole(512)}
        | {name: Joined((GATE[name], UP[name]), 1) for name in GATE}
    ),
    "moe_down": Case(
        {"y": whole(1, 2, 64), "indices": np.zeros((1, 2), INT), "weights": whole(1, 2)}
        | {"residual": Rows((1,), axis=1)} | codes(8, 1, axis=1)
    ),
    "attention": Case({
        "q": Rows((1, 32), axis=1), "keys": Rows((1, 4, 32), axis=1), "values": Rows((1, 4, 32), FLOAT, 5, 1),
        "position": numbers(2), "scale": 0.5, "gate": Rows((1, 32), axis=1, flat=True),
    }),
    "prefill_attention": Case({
        "q": Rows((1, 32), HALF), "keys": whole(1, 4, 32, dtype=HALF), "values": whole(1, 4, 32, dtype=HALF),
        "position": Rows((), INT), "scale": 0.5, "gate": Rows((32,), HALF),
    }),
    "gated_delta": Case({
        "q": whole(1, 1, 1, 8), "k": whole(1, 1, 1, 8), "v": Rows((1, 1, 2), axis=3), "g": whole(1, 1, 2),
        "beta": whole(1, 1, 2), "state": Rows((1, 2, 8), axis=2),
    }),
    "gdn_step": Case(
        {
            "proj": Joined((*heads(4, 1, 8, axis=1), *heads(2, 1, 1, axis=1)), 1),
            "conv_weight": Joined(heads(3, 8, 4), 0), "conv": Joined(heads(3, 1, 3, 8, axis=2), 2),
            "a_log": Rows(), "dt_bias": Rows((), FLOAT, 5), "state": Rows((1, 8, 8), axis=1), "norm": whole(8),
            "key_heads": lambda rows: rows, "value_heads": lambda rows: rows, "key_width": 8, "value_width": 8,
        },
        shapes={"conv": (1, 3, 3, -1)},
    ),
    "kv_write": Case({"cache": Rows((1, 1, 2), axis=3), "x": Rows((1, 1), axis=2), "position": numbers(1)}),
    "rope": Case(
        {"x": Rows((1, 1), axis=2), "position": numbers(3), "base": 1e4, "dims": 8}, exact=reference.rope
    ),
    "norm_rope_write": Case({
        "qkv": Joined((*heads(1, 1, 8, axis=1), whole(1, 16)), 1), "q_norm": whole(8), "k_norm": whole(8),
        "position": numbers(3), "keys": whole(1, 1, 5, 8), "values": whole(1, 1, 5, 8),
        "heads": lambda rows: rows, "base": 1e4,
    }),
    "norm_rope_attention": Case({
        "qkv": Joined((*heads(1, 1, 32, axis=1), whole(1, 64)), 1), "q_norm": whole(32), "k_norm": whole(32),
        "position": numbers(3), "keys": whole(1, 1, 5, 32), "values": whole(1, 1, 5, 32),
        "heads": lambda rows: rows, "base": 1e4, "scale": 0.5,
    }),
    "norm_rope_quantize": Case({
        "qkv": Joined((*heads(1, 1, 64, axis=1), whole(1, 128)), 1), "q_norm": whole(64), "k_norm": whole(64),
        "position": numbers(3), "keys": np.zeros((1, 1, 5, 64), np.int8), "values": np.zeros((1, 1, 5, 64), np.int8),
        "key_scales": whole(1, 1, 5, 1), "value_scales": whole(1, 1, 5, 1), "heads": lambda rows: rows, "base": 1e4,
    }),
    "quantized_attention": Case({
        "q": Rows((1, 64), axis=1), "keys": Rows((1, 4, 64), CODE, 100, 1), "values": Rows((1, 4, 64), CODE, 101, 1),
        "key_scales": Rows((1, 4, 1), axis=1), "value_scales": Rows((1, 4, 1), FLOAT, 5, 1),
        "position": numbers(2), "scale": 0.5, "gate": Rows((1, 64), axis=1, flat=True),
    }),
    "paged_attention": Case({
        "q": Rows((1, 32), axis=1), "keys": Rows((2, 16, 32)), "values": Rows((2, 16, 32), FLOAT, 5),
        "table": numbers([1, 0]), "position": numbers(20), "scale": 0.5, "gate": Rows((1, 32), axis=1, flat=True),
    }),
    # 2.5 times as many as there are periods: of each of the three largest logits all, for equal ones stay together.
    "filter_logits": Case(
        {"logits": Rows(), "top_k": numbers(5 * BLOCKS * 2048 // PERIOD // 2)},
        exact=likely, rows=BLOCKS * 2048, bound=1024,
    ),
    "repetition_penalty": Case(
        {"logits": Rows(), "tokens": numbers(1, 2, 1), "position": numbers(2), "penalty": numbers(1.5, dtype=FLOAT)},
        exact=lambda logits, tokens, position, penalty: reference.repetition_penalty(
            logits, tokens, int(position[0]), float(penalty[0]), 20
        ),
        rows=BLOCKS * 256, bound=1024,
    ),
}  # fmt: skip
MANY = {name: Case(operands) for name, operands in FEW_ROWS.items()} | OTHERS
# On the CPU device a block is a row, of which the op takes at most 65,535.
REFUSED = ("kv_write", "norm_rope_quantize", "norm_rope_write", "rope")
RUNS = [
    (name, branch)
    for name in sorted(MANY)
    for branch in ("loops", "generic")
    if not (name in ONE_BRANCH and branch == "generic") and not (name in REFUSED and branch == "loops")
]
# What takes less than a second: mostly ops whose blocks are rows.
QUICK = [
    *((name, "loops") for name in (
        "add_rms_norm", "all", "any", "argmax", "argmin", "argpartition", "argsort", "cumsum", "gated_delta",
        "gated_rms_norm", "layer_norm", "logsumexp", "max", "mean", "min", "moe_route", "prod", "sample", "slice",
        "softmax", "square", "sum", "take",
    )),
    *((name, "generic") for name in ("rope", "slice", "sum")),
]  # fmt: skip


@contextmanager
def launches():
    """Collect what is launched within the block."""
    found = []

    def note(launch, _):
        found.append(Launch(launch.kernel.name, launch.grid, launch.threads))

    before = objects.Launch.watch(note)
    try:
        yield found
    finally:
        objects.Launch.watch(before)


def hosts(case, rows):
    """Return the operands of so many rows, on the host."""
    made = {}
    for key, value in case.operands.items():
        if isinstance(value, (Rows, Joined)):
            made[key] = value.make(rows, PERIOD)
        elif isinstance(value, View):
            made[key] = value.rows.make(rows, PERIOD)
        else:
            made[key] = value(rows) if callable(value) and not isinstance(value, type) else value
    return made


def call(name, case, made):
    """Call an op with operands of the host; return the results and what became of the operands, on the device."""
    given = {}
    for key, value in made.items():
        value = given[value.name] if isinstance(value, Same) else value
        given[key] = hiprt.array(value) if isinstance(value, np.ndarray) else value
        if isinstance(case.operands[key], View):
            given[key] = case.operands[key].of(given[key])
    return results_of(name.split()[0], given)


def compare(found, tile):
    """Require an array that is a host's tile again and again along one axis."""
    assert found.dtype == tile.dtype
    axis = next((i for i in range(tile.ndim) if found.shape[i] != tile.shape[i]), 0)
    period, size = tile.shape[axis], found.shape[axis]
    assert (*found.shape[:axis], *found.shape[axis + 1 :]) == (*tile.shape[:axis], *tile.shape[axis + 1 :])
    found = found.numpy() if axis else found
    step = min(size, period * max(1, PIECE // tile.size))
    expected = repeated(tile, step, axis)
    for at in range(0, size, step):
        part = found[(*[slice(None)] * axis, slice(at, at + step))]
        part = part if axis else part.numpy()
        np.testing.assert_array_equal(bits(part), bits(expected[(*[slice(None)] * axis, slice(part.shape[axis]))]))


def bits(values):
    """Return numbers as whole ones: NaN equals NaN, and it is faster."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def largest(launched):
    """Return the most blocks along an axis of the grid, of each kernel."""
    found = {}
    for each in launched:
        found[each.name] = max(found.get(each.name, 0), *each.grid)
    return found


def is_written(case, key, value, made):
    """Whether an array is a result, or an operand that is no longer as it was made."""
    return key not in case.operands or (
        isinstance(case.operands[key], (Rows, Joined)) and not np.array_equal(value.numpy(), made[key])
    )


def run(name):
    """Call an op with more than 65,535 blocks of each kernel, and check the results.

    Returns
    -------
    launched : list of Launch
    elements : int
        Of operands and results.
    """
    case = MANY[name]
    default_pool.trim()
    if case.rows:
        rows = case.rows
    else:
        made = hosts(case, PERIOD)
        with launches() as launched:
            few = call(name, case, made)
        blocks = min(n for kernel, n in largest(launched).items() if not kernel.startswith(case.prepares or "-"))
        rows = -(-BLOCKS * PERIOD // (blocks - 1))
        tiles = {k: v.numpy() for k, v in few.items() if is_written(case, k, v, made)}
    made = hosts(case, rows)
    with launches() as launched:
        found = call(name, case, made)
    for kernel, blocks in largest(launched).items():
        if not kernel.startswith(case.prepares or "-"):
            assert blocks <= case.bound if case.bound else blocks > MOST, f"{kernel}: {blocks} blocks"
    if case.exact is not None:
        exact = case.exact(**{k: v for k, v in made.items() if not isinstance(v, Same)})
        np.testing.assert_allclose(found["0"].numpy(), exact, rtol=2e-5, atol=2e-6)
    else:
        for key, tile in tiles.items():
            shape = case.shapes.get(key)
            compare(found[key].reshape(shape) if shape else found[key], tile.reshape(shape) if shape else tile)
    return launched, sum(v.size for v in {id(v): v for v in found.values()}.values())


def record(name, branch):
    """Run an op on a branch; return what there is to know of it."""
    start = time.monotonic()
    with force_generic() if branch == "generic" else nullcontext():
        launched, elements = run(name)
    seconds = round(time.monotonic() - start, 1)
    grids = {each.name: each.grid for each in sorted(launched, key=lambda each: max(each.grid))}
    result = {"op": name, "branch": branch, "grids": grids, "elements": elements, "seconds": seconds}
    return result | ({"most blocks": MANY[name].bound} if MANY[name].bound else {})


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser("helpers.many_blocks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="OP", help="of these ops only")
    parser.add_argument("--json", metavar="FILE", help="write what was launched")
    options = parser.parse_args()
    results, failed = [], 0
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        for name, branch in RUNS:
            if options.names and name.split()[0] not in options.names:
                continue
            try:
                results.append(record(name, branch))
                print(json.dumps(results[-1]), flush=True)
            except AssertionError as error:
                failed += 1
                print(f"{name}, {branch}: {error}", flush=True)
    if options.json:
        head = {
            "what": "every op with more than 65,535 blocks of a launch: the results repeat as the operands do",
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            "versions": {"python": platform.python_version(), "numpy": np.__version__, "hiprt": hiprt.__version__},
            "provider": stream.device.provider.name,
            "command": "python -m helpers.many_blocks --json FILE",
            "refused on the CPU device's loops, where a block is a row": REFUSED,
            "failed": failed,
        }
        lines = ",\n".join(f"  {json.dumps(result)}" for result in results)
        with open(options.json, "w") as file:
            file.write(json.dumps(head, indent=1)[:-2] + f',\n "results": [\n{lines}\n ]\n}}\n')
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
