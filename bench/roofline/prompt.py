"""The model of a prompt: a step of a tile takes what its instructions take, and tiles come in rounds."""

from __future__ import annotations

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.decode import BITS, NODES_A_LAYER, bytes_of, products
from hiprt.bench.roofline.gpus import SIMDS, Gpu
from hiprt.bench.roofline.machine_code import MatrixStep, code_of, matrix_step
from hiprt.kernels.ops.attention.prefill_attention import KERNEL as PREFILL, tile_rows as attention_rows
from hiprt.kernels.ops.quantized.quantized_tiles import COLUMNS as TILE_COLUMNS, TILES, tile_rows
from hiprt.kernels.tuning.tile_splits import split_of

__all__ = ["PROMPT", "prefill_seconds", "prefill_steps"]

PROMPT = 2048  # tokens
TILE_DEPTH, THREADS = 32, 128  # of a tile
STEPS_AHEAD = {32: 1, 64: 2}  # for which the loads of a step of a tile are on their way, by the lanes of a wave
SUM_BYTES = 4
SHARED_LATENCIES = 4  # of memory at the end of a tile that threadgroups share: sums are written, counted and read


def prefill_steps(gpu: Gpu, head: int, prompt: int = PROMPT) -> tuple[MatrixStep, MatrixStep]:
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
