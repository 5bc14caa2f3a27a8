"""``hiprt bench kv``: what keys and values in 8 bits change in the logits of a model, and the memory that they take.

It also tells what memory texts of different lengths take with caches as long as the longest, and in blocks of a pool.

The model writes a text by draws, with caches in its dtype. Then it takes that text twice, token by token as it decodes:
with such caches, and with caches in 8 bits. The logits behind each token are compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import library, use_stream, zeros
from hiprt.bench.engine.blocks import check_blocks
from hiprt.bench.engine.command import add_model, add_quantization
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import Recurrent
from hiprt.bench.engine.room import bucket
from hiprt.bench.engine.text_model import TextModel
from hiprt.bench.graph import positive
from hiprt.bench.story import CHECKPOINT
from hiprt.command import set_run
from hiprt.graphs import Step
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run"]

BITS = 8
LENGTHS = (64, 128, 256, 2048)
BLOCK_ROWS = 64
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Report:
    """What caches in 8 bits change.

    Attributes
    ----------
    model, provider, device : str
    dtype : str
        That of the model, and of the other caches.
    tokens : int
        How many tokens were taken: there are logits behind each.
    bytes_per_token, bytes_per_token_8 : int
        What the layers of attention keep of a token, in the dtype of the model and in 8 bits.
    same_likeliest : int
        Behind how many tokens the likeliest one is the same.
    largest_margin : float
        The most by which the likeliest logit is ahead of that of the other token, in the model's dtype, where they
        differ; 0 where none does.
    largest_error, rms_error : float
        The largest difference of a logit, and the root of the mean of squares.
    rms_logits : float
        The root of the mean of squares of the logits, without the mean of each place.
    divergence : float
        The mean divergence of the probabilities (Kullback and Leibler), in nats.
    perplexity, perplexity_8 : float
        Of the text, in the dtype of the model and in 8 bits.
    lengths : list of int
        The tokens of texts that are written side by side.
    block_rows : int
        The tokens of a block.
    kv_bytes, kv_bytes_in_blocks : int
        The bytes of the keys and values of such texts, where each has memory for the longest one, and in blocks.
    """

    model: str
    provider: str
    device: str
    dtype: str
    tokens: int
    bytes_per_token: int
    bytes_per_token_8: int
    same_likeliest: int
    largest_margin: float
    largest_error: float
    rms_error: float
    rms_logits: float
    divergence: float
    perplexity: float
    perplexity_8: float
    lengths: list[int]
    block_rows: int
    kv_bytes: int
    kv_bytes_in_blocks: int


def measure(
    path: Path | str = CHECKPOINT,
    tokens: int = 500,
    seed: int = 0,
    *,
    plain: bool = False,
    q_mode: str = "affine",
    lengths: Sequence[int] = LENGTHS,
    block_rows: int = BLOCK_ROWS,
) -> Report:
    """Compare the logits of a text, and the memory of several.

    Parameters
    ----------
    path : Path or str
        A model directory.
    tokens : int
        How many tokens are written behind the prompt, if no stop token ends the text.
    seed : int
        The seed of their draws.
    plain, q_mode
        As in `hiprt.load`.
    lengths : sequence of int
        The tokens of texts that are written side by side.
    block_rows : int
        The tokens of a block: a power of two from 16 to 4,096.

    Raises
    ------
    ValueError
        The model directory cannot be used, or the heads of the model cannot be kept in 8 bits.
    """
    check_blocks(block_rows)
    model = TextModel(path, plain=plain, q_mode=q_mode)
    draw: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": seed}
    written = model.generate(tokens=tokens, chat_template=False, **draw)
    text = [*model.checkpoint.encode(written.prompt), *written.token_ids]
    exact, nbytes = logits_of(model, text, None)
    found, nbytes_8 = logits_of(model, text, BITS)
    error, likeliest, others = found - exact, exact.argmax(-1), found.argmax(-1)
    places = np.arange(len(text))
    margins = (exact[places, likeliest] - exact[places, others])[likeliest != others]
    log, log_8 = log_softmax(exact), log_softmax(found)
    # The last token's logits are for one that is not part of the text.
    perplexity, perplexity_8 = (float(np.exp(-each[places[:-1], text[1:]].mean())) for each in (log, log_8))
    return Report(
        str(path),
        library.current().provider.name,
        model.device_stream.device.name,
        str(model.model.dtype),
        len(text),
        nbytes,
        nbytes_8,
        int((likeliest == others).sum()),
        round(float(margins.max(initial=0)), 4),
        round(float(np.abs(error).max()), 4),
        round(root_mean_square(error), 5),
        round(root_mean_square(exact - exact.mean(-1, keepdims=True)), 4),
        round(float((np.exp(log) * (log - log_8)).sum(-1).mean()), 7),
        round(perplexity, 4),
        round(perplexity_8, 4),
        [*lengths],
        block_rows,
        *memory_of(model, lengths, block_rows),
    )


def memory_of(model: TextModel, lengths: Sequence[int], block_rows: int) -> tuple[int, int]:
    """Return the bytes of keys and values of decoders for texts of some lengths, without blocks and with them."""
    pool = sum(-(-length // block_rows) for length in lengths)
    made = partial(Decoder, model.model, model.device_stream, bucket(max(lengths)), batch=len(lengths))
    return made().state.kv_bytes, made(kv_blocks=block_rows, kv_pool=pool).state.kv_bytes


def logits_of(model: TextModel, text: Sequence[int], kv_bits: int | None) -> tuple[Floats, int]:
    """Return the logits behind each token of a text as it is decoded, and the bytes of caches that a token takes."""
    stream, engine, capacity = model.device_stream, model.model, bucket(len(text))
    with use_stream(stream):
        state = engine.state(1, capacity, kv_bits)
        token, position = zeros(1, np.int32), zeros(1, np.int32)
        step = Step(lambda: engine.decode(token, position, state), name="decode", stream=stream)
        rows = []
        for at, each in enumerate(text):
            token.set([each], stream)
            position.set([at], stream)
            rows.append(step().numpy(stream)[0].astype(np.float64))
    return np.stack(rows), sum(layer.nbytes for layer in state if not isinstance(layer, Recurrent)) // capacity


def log_softmax(logits: Floats) -> Floats:
    """Return the logarithms of the probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def root_mean_square(x: Floats) -> float:
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.square(x).mean()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench kv``."""
    add_model(parser)
    parser.add_argument("--tokens", metavar="N", type=positive, default=500, help="of the text (default: 500)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of its draws (default: 0)")
    parser.add_argument(
        "--lengths", metavar="LIST", type=lengths_of, default=LENGTHS, help="tokens of texts side by side, by comma"
    )
    parser.add_argument(
        "--kv-blocks", metavar="N", type=positive, default=BLOCK_ROWS, help=f"tokens of a block (default: {BLOCK_ROWS})"
    )
    add_quantization(parser)
    set_run(parser, run)


def lengths_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a list by comma."""
    return tuple(map(positive, text.split(",")))


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    path = options.model or CHECKPOINT
    texts = {"lengths": options.lengths, "block_rows": options.kv_blocks}
    report = measure(path, options.tokens, options.seed, plain=options.plain, q_mode=options.q_mode, **texts)
    print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    wide, coded = report.bytes_per_token, report.bytes_per_token_8
    mebibytes, in_blocks = report.kv_bytes / 2**20, report.kv_bytes_in_blocks / 2**20
    rows = [
        ("model", f"{Path(report.model).name} on {report.provider} ({report.device})"),
        ("bytes a token", f"{wide} in {report.dtype}, {coded} in {BITS} bits ({coded / wide:.0%})"),
        ("likeliest token", f"the same behind {report.same_likeliest} of {report.tokens} tokens"),
        ("its lead elsewhere", f"{report.largest_margin} at most"),
        ("error of a logit", f"{report.rms_error} (root of the mean of squares), {report.largest_error} at most"),
        ("spread of logits", f"{report.rms_logits}"),
        ("divergence", f"{report.divergence} nats"),
        ("perplexity", f"{report.perplexity} in {report.dtype}, {report.perplexity_8} in {BITS} bits"),
        (f"{len(report.lengths)} texts", f"of {', '.join(map(str, report.lengths))} tokens"),
        ("their memory", f"{mebibytes:.1f} MiB, {in_blocks:.1f} in blocks of {report.block_rows} tokens"),
    ]
    return "\n".join(f"{name:<18} {value}" for name, value in rows)
