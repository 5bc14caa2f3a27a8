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
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.decode import BITS, GROUP, plain_work, predict, products, work_of
from hiprt.bench.roofline.gpus import GPUS, H200, MEASURED, SIMDS
from hiprt.bench.roofline.prompt import PROMPT, prefill_seconds, prefill_steps
from hiprt.bench.table import text_table
from hiprt.command import set_run

__all__ = ["add_arguments", "run"]

MODEL = "a model, no measurement"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench roofline``."""
    parser.add_argument("--kernels", action="store_true", help="the kernels of the products instead, by machine code")
    parser.add_argument("--prefill", action="store_true", help="the model of a prompt instead, with its kernels' steps")
    parser.add_argument("--prompt", type=int, default=PROMPT, metavar="N", help=f"its tokens (default {PROMPT})")
    parser.add_argument("--model", metavar="PRESET", choices=sorted(MEASURED), help=", ".join(sorted(MEASURED)))
    set_run(parser, run)


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
    print(table(rows, names=1))
    return 0


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
    print(table(counted, names=2))
    print(f"\n{MODEL}: a prompt of {prompt} tokens, {BITS} bits in groups of {GROUP}\n")
    print(table(predicted, names=2))
    return 0


def table(rows: Sequence[Mapping[str, object]], names: int) -> str:
    """Return rows with the same keys, of which there are some, as text under these keys."""
    return text_table(list(rows[0]), [tuple(map(str, row.values())) for row in rows], names=names)
