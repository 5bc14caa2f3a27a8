"""``hiprt bench kernels``: the hot kernels at the shapes of models, compared with the device's read bandwidth.

Each case is launched over copies of its operands, which together are larger than the last cache. The launches are the
nodes of one graph, a chain, which events time. The bytes are those that the op must read or write at least once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hiprt
from hiprt import Array, Stream, kernels, library, use_stream
from hiprt.array import bfloat16
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.random_weights import RandomWeights
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.graphs import Recording
from hiprt.graphs.launch.timing import microseconds, read_bandwidth
from hiprt.kernels.ops.quantized_cache.coded_heads import GROUP_SIZE
from hiprt.machine import machine

__all__ = ["CASES", "Case", "Row", "add_arguments", "measure", "run"]

FORM = (64, 4)
MOST_COPIES, NODES = 64, 32
Work = tuple[int, list[Callable[[], Any]]]  # bytes of one launch, and the launches


@dataclass(frozen=True)
class Case:
    """One op at one shape.

    Attributes
    ----------
    name : str
        The name of the op in `hiprt.kernels`.
    shape : str
        The shape, as the table shows it.
    make : callable
        Takes a `Maker`; returns the bytes that the op must move, and a callable that launches it.
    flops : float
        The floating-point operations of one launch; 0 where bytes are what counts.
    """

    name: str
    shape: str
    make: Callable[[Maker], tuple[int, Callable[[], Any]]]
    flops: float = 0.0


@dataclass(frozen=True)
class Row:
    """What a case took.

    Attributes
    ----------
    us : float
        The time of one launch.
    nbytes : int
        The bytes that a launch must move.
    gb_s : float
        Those bytes over the time.
    share : float
        The part of the device's measured read bandwidth, from 0 to 1.
    tflops : float
        0 where bytes are what counts.
    """

    name: str
    shape: str
    us: float
    nbytes: int
    gb_s: float
    share: float
    tflops: float


class Maker:
    """Makes random operands on the device."""

    def __init__(self) -> None:
        self.weights = RandomWeights(bfloat16, FORM, 0)
        self.draw = np.random.default_rng(0)

    def rows(self, *shape: int) -> Array:
        """Return activations."""
        return hiprt.array(self.draw.standard_normal(shape, np.float32).astype(bfloat16))

    def cache(self, *shape: int) -> Array:
        """Return a large array of values from 0 to 1, drawn on the device."""
        words = kernels.bitwise_and(self.weights.words(shape), 255)
        return kernels.multiply(kernels.astype(words, bfloat16), 1 / 256)

    def coded_cache(self, *shape: int) -> tuple[Array, Array]:
        """Return a large array of codes of 8 bits, drawn on the device, and the scales of their groups."""
        codes = kernels.astype(kernels.bitwise_and(self.weights.words(shape), 127), np.int8)
        return codes, hiprt.full((*shape[:-1], shape[-1] // GROUP_SIZE), 1 / 128)

    def matrix(self, rows: int, columns: int) -> Linear:
        """Return a quantised matrix."""
        return self.weights.draw((rows, columns), FORM[1], columns**-0.5)

    def stack(self, count: int, rows: int, columns: int) -> Linear:
        """Return a stack of quantised matrices."""
        return self.weights.draw((count, rows, columns), FORM[1], columns**-0.5)

    def places(self, at: int, rows: int = 1) -> Array:
        """Return the positions of some rows, all the same."""
        return hiprt.array(np.full(rows, at, np.int32))


def size_of(*parts: Any) -> int:
    """Return the bytes of arrays and matrices."""
    whole = 0
    for part in parts:
        whole += size_of(part.weight, part.scales, part.biases) if isinstance(part, Linear) else part.nbytes
    return whole


def operands(matrix: Linear) -> tuple[Any, Any, Any]:
    """Return a matrix in the form in which ops take it."""
    return matrix.weight, matrix.scales, matrix.biases


def qmv(
    rows: int, columns: int, batch: int = 1, *, gate: bool = False, norm: bool = False, added: bool = False
) -> Case:
    """Return the case of a product of a few rows, with what a layer does around it."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        matrix, x = maker.matrix(rows, columns), maker.rows(batch, columns)
        named: dict[str, Any] = {"swiglu": gate}
        named |= {"norm": maker.weights.norm("", columns)} if norm else {}
        named |= {"residual": maker.rows(batch, rows)} if added else {}
        return size_of(matrix, x), lambda: kernels.qmv(x, *operands(matrix), **named)

    words = [word for word, is_there in (("norm", norm), ("swiglu", gate), ("residual", added)) if is_there]
    return Case("qmv", f"{rows}x{columns}{f' batch {batch}' if batch > 1 else ''} {' '.join(words)}".strip(), make)


def layer(hidden: int, inner: int, heads: int, groups: int, width: int = 128, batch: int = 1) -> Case:
    """Return the case of the four products of one dense layer, which follow one another as in a step."""
    qkv = (heads + 2 * groups) * width

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        first, second = maker.matrix(qkv, hidden), maker.matrix(hidden, heads * width)
        third, fourth = maker.matrix(2 * inner, hidden), maker.matrix(hidden, inner)
        x, inside, norm = maker.rows(batch, hidden), maker.rows(batch, heads * width), maker.weights.norm("", hidden)

        def launch() -> list[Any]:
            held = [kernels.qmv(x, *operands(first), norm=norm)]
            held.append(kernels.qmv(inside, *operands(second), residual=x))
            held.append(kernels.qmv(held[-1], *operands(third), norm=norm, swiglu=True))
            held.append(kernels.qmv(held[-1], *operands(fourth), residual=held[1]))
            return held

        return size_of(first, second, third, fourth), launch

    return Case("qmv", f"layer {hidden}, {inner}, {heads} over {groups}{f' batch {batch}' if batch > 1 else ''}", make)


def attention(context: int, heads: int = 32, groups: int = 8, width: int = 128) -> Case:
    """Return the case of one token's attention over a cache."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        q = maker.rows(1, heads, width)
        keys, values = (maker.cache(1, groups, context, width) for _ in range(2))
        position = maker.places(context - 1)
        return size_of(q, keys, values), lambda: kernels.attention(q, keys, values, position, scale=width**-0.5)

    return Case("attention", f"{heads} heads over {groups}, context {context}", make)


def quantized_attention(context: int, heads: int = 32, groups: int = 8, width: int = 128) -> Case:
    """Return the case of one token's attention over a cache of 8 bits."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        q, position = maker.rows(1, heads, width), maker.places(context - 1)
        (keys, key_scales), (values, value_scales) = (maker.coded_cache(1, groups, context, width) for _ in range(2))
        caches, scale = (keys, values, key_scales, value_scales), width**-0.5
        return size_of(q, *caches), lambda: kernels.quantized_attention(q, *caches, position, scale=scale)

    return Case("quantized_attention", f"{heads} heads over {groups}, context {context}", make)


def paged_attention(context: int, heads: int = 32, groups: int = 8, width: int = 128, block_rows: int = 64) -> Case:
    """Return the case of one token's attention over a cache in blocks, which lie in the pool in their order."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        q, position, blocks = maker.rows(1, heads, width), maker.places(context - 1), context // block_rows
        keys, values = (maker.cache(groups, blocks, block_rows, width) for _ in range(2))
        table, scale = hiprt.array(np.arange(blocks, dtype=np.int32)[None]), width**-0.5
        return size_of(q, keys, values), lambda: kernels.paged_attention(q, keys, values, table, position, scale=scale)

    return Case("paged_attention", f"{heads} heads over {groups}, context {context}, blocks of {block_rows}", make)


def norm_rope_attention(heads: int = 32, groups: int = 8, width: int = 128) -> Case:
    """Return the case of the norms, rotations and cache writes of one token, and of attention to a short context."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        qkv, keys, values = (
            maker.rows(1, (heads + 2 * groups) * width),
            *(maker.cache(1, groups, 256, width) for _ in range(2)),
        )
        op = vars(kernels)["norm_rope_attention"]
        norms, position = [maker.weights.norm("", width) for _ in range(2)], maker.places(17)
        return 2 * size_of(qkv), lambda: op(qkv, *norms, position, keys, values, heads=heads, base=1e6, scale=0.1)

    return Case("norm_rope_attention", f"{heads} heads over {groups}", make)


def experts(step: str, count: int = 128, chosen: int = 8, inner: int = 768, hidden: int = 2048) -> Case:
    """Return the case of one of the two launches of a mixture of experts."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        picks = hiprt.array(maker.draw.permutation(count)[:chosen].astype(np.int32).reshape(1, -1))
        if step == "moe_gate_up":
            matrix, x = maker.stack(count, 2 * inner, hidden), maker.rows(1, hidden)
            norm = maker.weights.norm("", hidden)
            return size_of(matrix) * chosen // count, lambda: kernels.moe_gate_up(
                x, picks, *operands(matrix), norm=norm
            )
        matrix, y = maker.stack(count, hidden, inner), maker.rows(1, chosen, inner)
        shares, residual = maker.rows(1, chosen), maker.rows(1, hidden)
        return size_of(matrix) * chosen // count, lambda: kernels.moe_down(
            y, picks, shares, *operands(matrix), residual=residual
        )

    return Case(step, f"{chosen} of {count}, {inner} x {hidden}", make)


def prefill(rows: int, columns: int, lines: int = 512) -> Case:
    """Return the case of a product of many rows."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        matrix, x = maker.matrix(rows, columns), maker.rows(lines, columns)
        nbytes = size_of(matrix, x) + 2 * lines * rows
        return nbytes, lambda: kernels.quantized_matmul(x, *operands(matrix), group_size=FORM[0], bits=FORM[1])

    return Case("quantized_matmul", f"{rows}x{columns}, {lines} rows", make, 2.0 * rows * columns * lines)


def rms_norm(width: int, rows: int = 1) -> Case:
    """Return the case of a root-mean-square norm."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        x, weight = maker.rows(rows, width), maker.weights.norm("", width)
        return 2 * size_of(x) + size_of(weight), lambda: kernels.rms_norm(x, weight, 1e-6)

    return Case("rms_norm", f"{rows}x{width}", make)


def argmax(vocabulary: int) -> Case:
    """Return the case of the choice of the likeliest token."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        logits = maker.rows(1, vocabulary)
        return size_of(logits), lambda: kernels.argmax(logits)

    return Case("argmax", f"{vocabulary}", make)


RULES = {"top_k": (40, np.int32), "top_p": (0.95, np.float32), "min_p": (0.05, np.float32)}


def ruled(rules: tuple[str, ...], rows: int = 1) -> dict[str, Any]:
    """Return the named rules for so many rows of logits."""
    return {rule: hiprt.array(np.full(rows, value, kind)) for rule, (value, kind) in RULES.items() if rule in rules}


def sample(vocabulary: int, *rules: str, rows: int = 1) -> Case:
    """Return the case of a draw of a token, by rules or from all logits."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        logits, place = maker.rows(rows, vocabulary), maker.places(3, rows)
        heat, seed = hiprt.array(np.ones(rows, np.float32)), hiprt.array(np.ones(rows, np.uint32))
        given = ruled(rules, rows)
        return size_of(logits), lambda: kernels.sample(logits, heat, seed, place, **given)

    words = [f"{rows} rows"] * (rows > 1) + list(rules)
    return Case("sample", " ".join([f"{vocabulary}", *words]), make)


def filters(vocabulary: int, *rules: str) -> Case:
    """Return the case of filters of logits."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        logits, given = maker.rows(1, vocabulary), ruled(rules)
        return 2 * size_of(logits), lambda: kernels.filter_logits(logits, **given)

    return Case("filter_logits", f"{vocabulary} {' '.join(rules)}", make)


def penalty(vocabulary: int) -> Case:
    """Return the case of a penalty on the last tokens."""

    def make(maker: Maker) -> tuple[int, Callable[[], Any]]:
        logits, tokens, position = maker.rows(1, vocabulary), maker.places(17, 256), maker.places(200)
        factor = hiprt.array(np.array([1.1], np.float32))
        return 2 * size_of(logits), lambda: kernels.repetition_penalty(logits, tokens, position, factor)

    return Case("repetition_penalty", f"{vocabulary}", make)


def cases(hidden: int, inner: int, heads: int, groups: int, vocabulary: int, width: int = 128) -> Iterator[Case]:
    """Yield the cases of one dense layer and the head."""
    yield qmv((heads + 2 * groups) * width, hidden, norm=True)
    yield qmv(hidden, heads * width, added=True)
    yield qmv(2 * inner, hidden, norm=True, gate=True)
    yield qmv(hidden, inner, added=True)
    yield qmv(vocabulary, hidden, norm=True)
    yield norm_rope_attention(heads, groups, width)
    for rows, columns in ((2 * inner, hidden), (hidden, inner)):
        yield prefill(rows, columns)
    yield rms_norm(hidden)
    yield rms_norm(hidden, 512)
    yield argmax(vocabulary)
    yield sample(vocabulary)
    yield sample(vocabulary, "top_p")
    yield sample(vocabulary, *RULES)
    yield sample(vocabulary, *RULES, rows=8)
    yield filters(vocabulary, "top_k")
    yield filters(vocabulary, *RULES)
    yield penalty(vocabulary)


# The shapes of the 4B preset and of the mixture of 30B-A3B, and large ones.
CASES = [
    *cases(2560, 9728, 32, 8, 151936),
    *(layer(2560, 9728, 32, 8, batch=batch) for batch in (1, 4, 8)),
    qmv(8192, 8192),
    *(qmv(8192, 8192, batch) for batch in (2, 4, 8)),
    qmv(25600, 5120),
    *(attention(context) for context in (512, 4096, 32768)),
    *(quantized_attention(context) for context in (512, 4096, 32768)),
    *(paged_attention(context) for context in (512, 4096, 32768)),
    experts("moe_gate_up"),
    experts("moe_down"),
]
SMALL = [
    *cases(128, 192, 4, 2, 512, 32),
    layer(128, 192, 4, 2, 32),
    attention(64, 4, 2, 32),
    quantized_attention(64, 4, 2, 64),
    paged_attention(64, 4, 2, 64, 16),
    experts("moe_gate_up", 8, 2, 64, 128),
]


def measure(case: Case, stream: Stream, bandwidth: float, cache: int) -> Row:
    """Time one case.

    Parameters
    ----------
    case : Case
    stream : Stream
    bandwidth : float
        The device's read bandwidth in GB/s.
    cache : int
        The bytes that the operands of all copies together exceed.

    Raises
    ------
    KeyError, TypeError
        There is no such op, or it takes other arguments.
    """
    maker = Maker()
    with use_stream(stream):
        nbytes, first = case.make(maker)
        count = int(min(MOST_COPIES, max(2, -(-cache // max(nbytes, 1)))))
        calls = [first, *(case.make(maker)[1] for _ in range(count - 1))]
        first()
        recording = Recording(edges="chain")
        results = []
        with recording.record(stream):
            for i in range(max(NODES, count)):
                results.append(calls[i % count]())
        us = microseconds(recording, stream) / max(NODES, count)
    rate = nbytes / us / 1e3
    tflops = round(case.flops / us / 1e6, 1)
    return Row(case.name, case.shape, round(us, 3), nbytes, round(rate, 1), round(rate / bandwidth, 4), tflops)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench kernels``."""
    parser.add_argument("--only", metavar="NAME", default="", help="ops whose name begins like this")
    parser.add_argument("--small", action="store_true", help="small shapes, to see that it works")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    stream = Stream()
    bandwidth = read_bandwidth(stream)
    provider = library.current().provider
    cache = 1 << 20 if options.small else 1 << 26 if provider.is_host else 1 << 28
    rows, absent = [], {}
    for case in SMALL if options.small else CASES:
        if not case.name.startswith(options.only):
            continue
        try:
            rows.append(measure(case, stream, bandwidth, cache))
        except (KeyError, TypeError, ValueError) as error:
            absent[f"{case.name} {case.shape}"] = str(error)
    report = {
        "provider": provider.name,
        "device": stream.device.name,
        "read_gb_s": round(bandwidth, 1),
        "kernels": [asdict(row) for row in rows],
        "absent": absent,
    }
    print(json.dumps({**machine(), **report}) if options.json else table(report))
    return 0


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    rows = [
        (
            row["name"],
            row["shape"],
            f"{row['us']:.2f}",
            f"{row['nbytes'] / 1e6:.3f}",
            f"{row['gb_s']:.1f}",
            f"{row['share']:.0%}",
            f"{row['tflops']:.1f}" if row["tflops"] else "",
        )
        for row in report["kernels"]
    ]
    lines = [
        f"kernels on {report['provider']} ({report['device']}), read bandwidth {report['read_gb_s']:.0f} GB/s",
        text_table(("kernel", "shape", "us", "MB", "GB/s", "share", "TFLOP/s"), rows, names=2),
        *(f"absent: {name}: {why}" for name, why in report["absent"].items()),
    ]
    return "\n".join(lines)
