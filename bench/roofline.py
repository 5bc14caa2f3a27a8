"""``hiprt bench roofline``: a model of decode's speed on GPUs that are not here, from instruction counts and bytes.

It is a model and no measurement. A product of one vector takes the longest of three times: that of its bytes at the
memory's bandwidth, that of what its resident waves have in flight (Little's law), and that of its vector instructions.
Products follow each other, each node costs the same, and what is not a product costs a node only: attention is that of
a short context. The counts are those of the kernels' machine code, compiled for the target. On an H200, whose kernel is
another and taken to be bound by memory, the model stands beside what was measured: by so much it is too fast.

``--prefill`` is the model of a prompt: its products go by tiles, and a step of a tile takes what its instructions take,
one after the other, or one latency of the memory where too few waves are resident to hide that.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.kernels.offline.resources import resources_of, text_of
from hiprt.kernels.ops.attention.prefill_attention import KERNEL as PREFILL, tile_rows as attention_rows
from hiprt.kernels.ops.quantized.qmv import DOTS, KERNEL
from hiprt.kernels.ops.quantized.quantized_tiles import COLUMNS as TILE_COLUMNS, TILES, tile_rows
from hiprt.kernels.tuning.dots import dots_configuration, dots_of, piece_codes, steps_of
from hiprt.kernels.tuning.sharing import sharing_of, simdgroups_of
from hiprt.kernels.tuning.target import Target, make_target
from hiprt.kernels.tuning.tile_splits import split_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import ROCM

__all__ = [
    "GPUS",
    "MEASURED",
    "Gpu",
    "Prediction",
    "add_arguments",
    "full_waits",
    "loop_instructions",
    "predict",
    "products",
]

SIMDS = 4  # of what HIP counts as a compute unit
GROUP, BITS = 64, 4
NODES_A_LAYER, OTHER_NODES = 5, 4
MODEL = "a model, no measurement"
SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)_")  # of a matrix instruction
LOAD = re.compile(r"\s+(?:global|flat|buffer)_load_")
FULL_WAIT = re.compile(r"\s+(?:s_waitcnt\b.*\bvmcnt\(0\)|s_wait_loadcnt 0x0\b|s_wait_loadcnt_dscnt 0x[0-9a-f]{1,2}\b)")
SLOW = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_")  # at a quarter of the speed
PROMPT = 2048  # tokens
TILE_DEPTH, THREADS = 32, 128  # of a tile
STEPS_AHEAD = {32: 1, 64: 2}  # for which the loads of a step of a tile are on their way, by the lanes of a wave
SUM_BYTES = 4
SHARED_LATENCIES = 4  # of memory at the end of a tile that threadgroups share: sums are written, counted and read


@dataclass(frozen=True)
class Gpu:
    """The assumptions about a GPU.

    Attributes
    ----------
    name, arch : str
    units, wave : int
        The compute units as HIP counts them, and the lanes of a wave.
    bandwidth : float
        The bytes that a kernel can read in a second.
    latency : float
        The seconds that a load takes when the memory is busy.
    issue : float
        The vector instructions of whole waves in a second.
    node : float
        The seconds from one node of a graph to the next that depends on it.
    matrix : float
        The floating-point operations of its matrix instructions in a second, for factors of 16 bits.
    """

    name: str
    arch: str
    units: int
    wave: int
    bandwidth: float
    latency: float
    issue: float
    node: float
    matrix: float = 0.0

    @property
    def target(self) -> Target:
        """The target that plans see."""
        return make_target(self.arch, self.units, self.wave, ROCM)


# Bandwidths, latencies and rates are estimates from data sheets and published microbenchmarks. A serial node costs
# 3.9 us on gfx1100 (ROCm/rocm-systems, issue 10834). The H200's bandwidth and its 0.89 us for a node of a chain were
# measured (bench/results/2026-11-22-h200-decode.json, 2026-11-22-h200-graph.json). Matrix instructions of a SIMD
# make 256 operations a clock on gfx1151 and 512 on gfx1201 and gfx942, whose vector instructions take 4 clocks.
GPUS = (
    Gpu("Radeon 8060S", "gfx1151", 20, 32, 215e9, 0.6e-6, 232e9, 3.9e-6, 256 * 232e9),
    Gpu("Radeon AI PRO R9700", "gfx1201", 32, 32, 640e9, 0.7e-6, 282e9, 3.9e-6, 512 * 282e9),
    Gpu("Instinct MI300X", "gfx942", 304, 64, 5300e9, 0.85e-6, 638e9, 3.9e-6, 512 * 4 * 638e9),
)
H200 = Gpu("NVIDIA H200", "sm_90", 132, 32, 4550e9, 0.8e-6, 0.0, 0.89e-6)
# Tokens a second of one sequence by preset: bench/results/2026-11-22-h200-decode.json, mode graph, context 16.
MEASURED = {
    "qwen3-0.6b": 2005.31,
    "qwen3-1.7b": 1528.58,
    "qwen3-4b": 901.4,
    "qwen3-8b": 614.88,
    "qwen3-32b": 192.14,
}


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


class Code(NamedTuple):
    """A kernel's machine code: its text, the waves that a SIMD holds, and registers kept in memory."""

    text: str
    waves: int
    spills: int


@cache
def code_of(kernel: Kernel, template: tuple[Any, ...], arch: str, decided: tuple[str, str] = ("", "")) -> Code:
    """Compile a kernel; `decided` is a text of its body and what replaces it, so that one way through is counted."""
    compiler, name = Compiler(), kernel.symbol(template)
    text = kernel.text("hip", template)
    assembly = compiler.assembly(text, name, arch)
    (row,) = resources_of(assembly, compiler.code_object(assembly, name, arch))
    if decided[0]:
        assembly = compiler.assembly(text.replace(*decided), name, arch)
    return Code(text_of(assembly, name), row.waves, row.spills)


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


class Loop(NamedTuple):
    """A loop of a function: its first line, its lines, its vector instructions, and those of them that are dots."""

    first: int
    lines: list[str]
    vectors: int
    dots: int


def loops_of(assembly: str) -> list[Loop]:
    """Return the loops of a function, each from its label to a jump back.

    Raises
    ------
    ValueError
        The function has no loop.
    """
    places: dict[str, int] = {}
    found = []
    lines = assembly.splitlines()
    for i, line in enumerate(lines):
        label, jump = re.match(r"(\.LBB\w+):", line), re.match(r"\s+s_c?branch\w*\s+(\.LBB\w+)", line)
        if label:
            places[label[1]] = i
        elif jump and jump[1] in places:
            inside = lines[places[jump[1]] : i]
            vectors = [each for each in inside if re.match(r"\s+v_", each)]
            found.append(Loop(places[jump[1]], inside, len(vectors), sum("_dot" in each for each in vectors)))
    if not any(loop.vectors for loop in found):
        raise ValueError("the function has no loop")
    return found


def loop_instructions(assembly: str) -> int:
    """Return the vector instructions of the largest loop of a function."""
    return max(loop.vectors for loop in loops_of(assembly))


def with_dots(assembly: str) -> list[Loop]:
    """Return the loops with all dot instructions of a function, the inner one first."""
    found = loops_of(assembly)
    most = max(loop.dots for loop in found)
    return sorted((loop for loop in found if loop.dots == most), key=lambda loop: loop.vectors)


def nested_instructions(assembly: str) -> tuple[int, int, int]:
    """Return the vector instructions of the inner loop with all dot instructions, of the outer one, and of all."""
    loops = with_dots(assembly)
    whole = sum(bool(re.match(r"\s+v_", line)) for line in assembly.splitlines())
    return loops[0].vectors, loops[-1].vectors, whole


def inner_loops(assembly: str) -> list[Loop]:
    """Return the loops with dot instructions, or all if there are none, within which no other of them lies."""
    every, found = loops_of(assembly), list[Loop]()
    for loop in sorted([loop for loop in every if loop.dots] or every, key=lambda loop: len(loop.lines)):
        last = loop.first + len(loop.lines)
        if not any(loop.first <= each.first and each.first + len(each.lines) <= last for each in found):
            found.append(loop)
    return found


def full_waits(assembly: str) -> int:
    """Return how often an iteration of an inner loop with dot instructions waits for all loads on their way, at most.

    A wait behind another such wait counts where a load lies between them.
    """
    return max(map(waits_of, inner_loops(assembly)))


def waits_of(loop: Loop) -> int:
    """Return how often an iteration of a loop waits for all loads on their way."""
    count, is_any_on_its_way = 0, True
    for line in loop.lines:
        if LOAD.match(line):
            is_any_on_its_way = True
        elif FULL_WAIT.match(line):
            count += is_any_on_its_way
            is_any_on_its_way = False
    return count


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


class Step(NamedTuple):
    """One turn of the loop of a kernel with matrix instructions, of one wave.

    Attributes
    ----------
    kernel : str
    matrices, vectors : int
        Its matrix instructions, and its other vector instructions. Those of rare branches are among them, and what a
        unit of quarter speed computes counts four times.
    operations : int
        The floating-point operations of its matrix instructions.
    waves : int
        The waves that a SIMD holds.
    """

    kernel: str
    matrices: int
    vectors: int
    operations: int
    waves: int

    def seconds(self, gpu: Gpu) -> tuple[float, float]:
        """Return the seconds that a SIMD takes for its matrix instructions, and for the others."""
        simds = SIMDS * gpu.units
        return self.operations * simds / gpu.matrix, self.vectors * simds / gpu.issue

    def share(self, gpu: Gpu) -> float:
        """Return the part of the issue slots that goes to matrix instructions."""
        matrix, vector = self.seconds(gpu)
        return matrix / (matrix + vector)


def matrix_step(code: Code, kernel: str) -> Step:
    """Return the step of the inner loop with the most matrix instructions; its blocks may lie anywhere in the function.

    Raises
    ------
    ValueError
        The function has no matrix instruction in a loop.
    """
    inside: dict[str, list[str]] = {}
    outer: set[str] = set()  # of loops
    label, loop = "", ""
    for line in code.text.splitlines():
        if block := re.match(r"(?:\.L(BB\w+):|; %bb\.)", line):
            label, loop = block[1] or "", ""
        if found := re.search(r"in Loop: Header=(BB\w+)", line):
            loop = found[1]
        elif "Loop Header: Depth" in line:
            loop = label
        elif found := re.search(r"Parent Loop (BB\w+)", line):
            outer.add(found[1])
        if instruction := re.match(r"\s+(v_\w+)", line):
            inside.setdefault(loop, []).append(instruction[1])
    inside = {name: names for name, names in inside.items() if name and name not in outer}
    sizes = {name: [shape for each in names if (shape := SHAPE.search(each))] for name, names in inside.items()}
    most = max(sizes, key=lambda name: len(sizes[name]), default="")
    if not most or not sizes[most]:
        raise ValueError(f"{kernel} has no matrix instruction in a loop")
    operations = sum(2 * int(m) * int(n) * int(k) for m, n, k in (shape.groups() for shape in sizes[most]))
    others = [name for name in inside[most] if not SHAPE.search(name)]
    vectors = len(others) + 3 * sum(name.startswith(SLOW) for name in others)
    return Step(kernel, len(sizes[most]), vectors, operations, code.waves)


def prefill_steps(gpu: Gpu, head: int, prompt: int = PROMPT) -> tuple[Step, Step]:
    """Return the steps of the quantised tiles of a prompt, and of attention with heads of some width."""
    tiles = {"T": bfloat16, "BITS": BITS, "ROWS": tile_rows(bfloat16, prompt, gpu.target, is_single=True)}
    attending = {"T": bfloat16, "WIDTH": head, "ROWS": attention_rows(bfloat16, head, gpu.target.table)}
    each = ((TILES, TILES.values_of(tiles)), (PREFILL, PREFILL.values_of(attending)))
    first, second = (matrix_step(code_of(*one, gpu.arch), one[0].name) for one in each)
    return first, second


def prefill_seconds(gpu: Gpu, preset: str, prompt: int = PROMPT) -> tuple[float, float]:
    """Return the seconds that the model gives a prompt, and the operations of its matrix instructions.

    Groups of threads are resident as far as registers and memory allow, and come in whole rounds. A node costs what it
    costs in decode; what is neither a product nor attention costs a node only. In the last round a SIMD has the waves
    that are left for it. Loads are on their way for a step, on CDNA for two. Sums of tiles that threadgroups share are
    written and read at the memory's bandwidth.
    """
    settings = PRESETS[preset]
    layers, heads, head = settings["num_hidden_layers"], settings["num_attention_heads"], settings["head_dim"]
    tiles, attending = prefill_steps(gpu, head, prompt)
    height = tile_rows(bfloat16, prompt, gpu.target, is_single=True)
    steps = tiles.operations * THREADS // gpu.wave // (2 * height * TILE_COLUMNS * TILE_DEPTH)  # of a turn
    simds, each_group = SIMDS * gpu.units, THREADS // gpu.wave
    slots = simds * tiles.waves // each_group
    row_tiles = -(-prompt // height)
    latency = gpu.latency / STEPS_AHEAD[gpu.wave]
    seconds = operations = 0.0
    for product, _, times_each in products(settings):
        rows = prompt if times_each > 1 else 1  # the last token alone has logits
        if rows > 1:
            count_of_tiles = row_tiles * -(-product.rows // TILE_COLUMNS)
            split = split_of(product.rows, product.width, prompt, height, gpu.target)
            rounds, rest = divmod(count_of_tiles * split, slots)
            for count, waves in ((rounds, tiles.waves), (1, -(-rest * each_group // simds))):
                step = max(waves * sum(tiles.seconds(gpu)) / steps, latency if waves else 0.0)
                seconds += times_each * count * -(-(product.width // TILE_DEPTH) // split) * step
            if split > 1:
                sums = 2.0 * split * count_of_tiles * height * TILE_COLUMNS * SUM_BYTES
                seconds += times_each * (sums / gpu.bandwidth + SHARED_LATENCIES * gpu.latency)
            operations += times_each * 2.0 * rows * product.rows * product.width
        else:
            seconds += bytes_of(product) / gpu.bandwidth
    attention = 2.0 * layers * heads * head * prompt * prompt  # both products, half of each masked
    nodes = layers * 2 * NODES_A_LAYER * gpu.node
    return seconds + attention / (gpu.matrix * attending.share(gpu)) + nodes, operations + attention


def show_prefill(presets: Sequence[str], prompt: int, *, is_json: bool) -> int:
    """Print the steps of the kernels of a prompt and what the model says of prompts; return the status."""
    counted, predicted = [], []
    for gpu in GPUS:
        for one in prefill_steps(gpu, PRESETS[presets[0]]["head_dim"], prompt):
            row = {"arch": gpu.arch, "kernel": one.kernel, "matrix": one.matrices, "vector": one.vectors}
            counted.append({**row, "issue to matrix": f"{one.share(gpu):.0%}", "waves a SIMD": one.waves})
        for preset in presets:
            seconds, operations = prefill_seconds(gpu, preset, prompt)
            peak = operations / seconds / gpu.matrix
            predicted.append(
                {"arch": gpu.arch, "preset": preset, "model: tok/s": round(prompt / seconds), "of peak": f"{peak:.0%}"}
            )
    if is_json:
        print(json.dumps({"what": MODEL, "prompt": prompt, "steps": counted, "predictions": predicted}))
        return 0
    print("instructions of a step of a wave, counted in machine code\n")
    print(text_table(list(counted[0]), [tuple(map(str, row.values())) for row in counted], names=2))
    print(f"\n{MODEL}: a prompt of {prompt} tokens, {BITS} bits in groups of {GROUP}\n")
    print(text_table(list(predicted[0]), [tuple(map(str, row.values())) for row in predicted], names=2))
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench roofline``."""
    parser.add_argument("--kernels", action="store_true", help="the kernels of the products instead, by machine code")
    parser.add_argument("--prefill", action="store_true", help="the model of a prompt instead, with its kernels' steps")
    parser.add_argument("--prompt", type=int, default=PROMPT, metavar="N", help=f"its tokens (default {PROMPT})")
    parser.add_argument("--model", metavar="PRESET", choices=sorted(MEASURED), help=", ".join(sorted(MEASURED)))
    set_run(parser, run)


def show_kernels(preset: str, *, is_json: bool) -> int:
    """Print what the kernels of a preset's products are, beside the kernel that every GPU has; return the status."""
    rows = []
    for gpu in GPUS:
        for product, is_normed, _ in products(PRESETS[preset]):
            work, plain = work_of(gpu, product, is_normed), plain_work(gpu, product, is_normed)
            row = {"arch": gpu.arch, "rows": product.rows, "width": product.width, "kernel": work.kernel}
            row |= {"instructions": work.iteration, "per byte": round(work.density, 4)}
            row |= {"plain": plain.iteration, "plain per byte": round(plain.density, 4)}
            row |= {"waves a SIMD": round(work.resident / (SIMDS * gpu.units), 1), "spills": work.spills}
            row |= {"full waits": work.full_waits, "plain full waits": plain.full_waits}
            on_their_way, needed = work.resident * work.nbytes, gpu.latency * gpu.bandwidth
            row |= {"KB in flight": round(on_their_way / 1e3), "of needed": round(on_their_way / needed, 1)}
            rows.append(row)
    if is_json:
        print(json.dumps({"what": "counted in machine code", "preset": preset, "kernels": rows}))
        return 0
    print(f"vector instructions of an iteration, counted in machine code: {preset}, 4 bits in groups of {GROUP}\n")
    print(text_table(list(rows[0]), [tuple(map(str, row.values())) for row in rows], names=1))
    return 0


def run(options: argparse.Namespace) -> int:
    """Print what the model says; return the exit status."""
    presets = [options.model] if options.model else list(MEASURED)
    if options.prefill:
        return show_prefill(presets, options.prompt, is_json=options.json)
    if options.kernels:
        return show_kernels(presets[0] if options.model else "qwen3-4b", is_json=options.json)
    found = [predict(gpu, preset) for gpu in (*GPUS, H200) for preset in presets]
    if options.json:
        assumptions = [asdict(gpu) for gpu in (*GPUS, H200)]
        print(json.dumps({"what": MODEL, "assumptions": assumptions, "predictions": [asdict(each) for each in found]}))
        return 0
    head = ("GPU", "arch", "preset", "model: tok/s", "of bandwidth", "nodes", "bound by", "measured")
    rows = [
        (
            each.gpu,
            each.arch,
            each.preset,
            f"{each.tok_s:.0f}",
            f"{each.weights_share:.0%}",
            f"{each.nodes_share:.0%}",
            each.bound,
            f"{each.measured_tok_s:.0f}" if each.measured_tok_s else "",
        )
        for each in found
    ]
    print(f"{MODEL}: decode of one sequence with a short context, 4 bits in groups of {GROUP}\n")
    print(text_table(head, rows, names=3))
    return 0
