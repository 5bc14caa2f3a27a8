"""The model of a decode step: its products, what their kernels do by machine code, and the seconds that follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.gpus import H200, MEASURED, SIMDS, Gpu
from hiprt.bench.roofline.machine_code import code_of, full_waits, loop_instructions, nested_instructions
from hiprt.kernels.ops.quantized.qmv_kernels import DOTS, KERNEL
from hiprt.kernels.tuning.dots import dots_configuration, dots_of, piece_codes, steps_of
from hiprt.kernels.tuning.sharing import sharing_of, simdgroups_of
from hiprt.kernels.tuning.tiling import Product

__all__ = ["BITS", "GROUP", "NODES_A_LAYER", "Prediction", "bytes_of", "plain_work", "predict", "products", "work_of"]

GROUP, BITS = 64, 4
NODES_A_LAYER, OTHER_NODES = 5, 4


@dataclass(frozen=True)
class Prediction:
    """What the model says of a preset on a GPU.

    Attributes
    ----------
    gpu, arch, preset : str
    tok_s : float
        Tokens a second.
    weights_share : float
        The part of the bandwidth at which a token's weights are read.
    bound : str
        What most of the products' time is spent on: bandwidth, latency or instructions.
    nodes_share : float
        The part of the time that goes to nodes.
    measured_tok_s : float or None
        What was measured, where something was.
    """

    gpu: str
    arch: str
    preset: str
    tok_s: float
    weights_share: float
    bound: str
    nodes_share: float
    measured_tok_s: float | None = None


def products(settings: Mapping[str, Any]) -> Iterator[tuple[Product, bool, int]]:
    """Yield the products of a decode step of a dense model, whether they have a norm, and how often each comes."""
    hidden, head, layers = settings["hidden_size"], settings["head_dim"], settings["num_hidden_layers"]
    heads, pairs = settings["num_attention_heads"], settings["num_key_value_heads"]
    inner = settings["intermediate_size"]
    yield Product((heads + 2 * pairs) * head, hidden, 1, GROUP, BITS, False), True, layers
    yield Product(hidden, heads * head, 1, GROUP, BITS, False), False, layers
    yield Product(2 * inner, hidden, 1, GROUP, BITS, True), True, layers
    yield Product(hidden, inner, 1, GROUP, BITS, False), False, layers
    yield Product(settings["vocab_size"], hidden, 1, GROUP, BITS, False), True, 1


class Work(NamedTuple):
    """What a product's kernel does on a GPU, by its machine code.

    Attributes
    ----------
    kernel : str
    iteration : int
        The vector instructions of an iteration of the kernel's loop.
    nbytes : float
        The bytes of weights that an iteration of a wave reads, all of which are on their way at once.
    instructions : float
        The vector instructions of all waves.
    waves, resident : float
        The waves that are launched, and those that the GPU holds at a time.
    spills : int
        The registers that are kept in memory.
    full_waits : int
        How often an iteration of a wave waits for all loads that are on their way (`full_waits`).
    """

    kernel: str
    iteration: int
    nbytes: float
    instructions: float
    waves: float
    resident: float
    spills: int
    full_waits: int

    @property
    def density(self) -> float:
        """The vector instructions of an iteration for each byte of weights that it reads."""
        return self.iteration / self.nbytes


def plain_work(gpu: Gpu, product: Product, is_normed: bool) -> Work:
    """Return the work of the kernel that every GPU has."""
    sharing = sharing_of(product, gpu.target)
    template = {"T": bfloat16, "S": bfloat16, "GROUP": product.group, "BITS": product.bits, "BATCH": 1}
    template |= {"ROWS": sharing.rows, "SPLIT": sharing.split}
    branch = "is_normed = (flags & 1u) != 0"
    decided = (branch, f"is_normed = {str(is_normed).lower()}")
    code = code_of(KERNEL, KERNEL.values_of(template), gpu.arch, decided)
    waves = simdgroups_of(product, sharing) * 32 / gpu.wave
    each = sharing.rows * gpu.wave * nbytes_of(product, 128 // product.bits if product.bits % 4 == 0 else 32)
    iteration = loop_instructions(code.text)
    resident = min(waves, code.waves * SIMDS * gpu.units)
    every = bytes_of(product) / each * iteration
    return Work(KERNEL.name, iteration, each, every, waves, resident, code.spills, full_waits(code.text))


def dots_work(gpu: Gpu, product: Product, is_normed: bool) -> Work | None:
    """Return the work of the kernel of integer dot instructions; None where it does not take the product."""
    sharing = dots_of(product, gpu.target)
    if sharing is None:
        return None
    configuration = dots_configuration(product, sharing)
    parts = {"NORMED": is_normed, "ADDED": not is_normed, "GATED": product.is_gated}
    template = {"T": bfloat16, "S": bfloat16, "GROUP": product.group, "BITS": product.bits, "WIDTH": product.width}
    template |= {**configuration.template, **parts}
    code = code_of(DOTS, DOTS.values_of(template), gpu.arch)
    depth = configuration.template["DEPTH"]
    inner, outer, whole = nested_instructions(code.text)
    rounds = -(-product.rows // (sharing.rows * sharing.teams * sharing.groups))
    turns = -(-steps_of(product, sharing.split) // depth)
    waves = sharing.groups * sharing.teams * sharing.split * 32 / gpu.wave
    each_wave = whole - outer + rounds * (outer - inner + turns * inner)
    resident = min(waves, code.waves * SIMDS * gpu.units)
    each = depth * sharing.rows * gpu.wave * nbytes_of(product, piece_codes(product.group, product.bits))
    return Work(DOTS.name, inner, each, waves * each_wave, waves, resident, code.spills, full_waits(code.text))


def work_of(gpu: Gpu, product: Product, is_normed: bool) -> Work:
    """Return the work of the kernel that a plan takes for a product."""
    return dots_work(gpu, product, is_normed) or plain_work(gpu, product, is_normed)


def bytes_of(product: Product) -> float:
    """Return the bytes of a product's weights."""
    return nbytes_of(product, product.rows * product.width)


def nbytes_of(product: Product, codes: int) -> float:
    """Return the bytes of so many codes, of whose groups each has a scale and a bias of 16 bits."""
    return codes * product.bits / 8 * (1 + 32 / (product.group * product.bits))


def times(gpu: Gpu, product: Product, is_normed: bool) -> dict[str, float]:
    """Return the seconds that a product would take by each of its bounds."""
    nbytes = bytes_of(product)
    found = {"bandwidth": nbytes / gpu.bandwidth}
    if gpu.issue:
        work = work_of(gpu, product, is_normed)
        found["latency"] = max(1.0, nbytes / (work.resident * work.nbytes)) * gpu.latency
        busy = min(1.0, work.waves / (SIMDS * gpu.units))
        found["instructions"] = work.instructions / (gpu.issue * busy)
    return found


def predict(gpu: Gpu, preset: str) -> Prediction:
    """Return what the model says of a dense preset on a GPU."""
    settings = PRESETS[preset]
    total, weights = 0.0, 0.0
    by_bound: dict[str, float] = {}
    for product, is_normed, times_each in products(settings):
        bounds = times(gpu, product, is_normed)
        bound = max(bounds, key=lambda name: bounds[name])
        by_bound[bound] = by_bound.get(bound, 0.0) + bounds[bound] * times_each
        total += bounds[bound] * times_each
        weights += bounds["bandwidth"] * times_each
    nodes = (settings["num_hidden_layers"] * NODES_A_LAYER + OTHER_NODES) * gpu.node
    longest = max(by_bound, key=lambda name: by_bound[name])
    whole = total + nodes
    measured = MEASURED.get(preset) if gpu is H200 else None
    return Prediction(
        gpu.name,
        gpu.arch,
        preset,
        round(1 / whole, 1),
        round(weights / whole, 3),
        longest,
        round(nodes / whole, 3),
        measured,
    )
