"""A text model: a checkpoint on the device, and methods that write text with it. ``hiprt.load`` returns one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hiprt import Array, Stream, array, empty, kernels, use_stream
from hiprt.bench.engine.beginning import encode
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.conversation import Conversation
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import Generation, open_draft
from hiprt.bench.engine.models import Model, load as load_model
from hiprt.bench.engine.prompts import chunks, is_single, tokens_of
from hiprt.bench.engine.report import Report
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.room import bucket
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.template import find_template
from hiprt.bench.story import CHECKPOINT

__all__ = ["TextModel", "load"]

OF_MODEL = ("model", "plain", "q_mode", "tp")  # options of the command that are said once for all texts
ALIASES = {"max_tokens": "tokens", "temp": "temperature", "stop": "stops"}  # other names that the command has too


class TextModel:
    """A checkpoint on the device.

    Its methods take the options of ``hiprt generate`` as keywords, as `Request` explains them: ``tokens`` or
    ``max_tokens``, ``temperature`` or ``temp``, ``top_p``, ``top_k``, ``min_p``, ``repetition_penalty``,
    ``presence_penalty``, ``seed``, ``stop``, ``batch``, ``prompt_ids``, ``logprobs``, ``load_cache``, ``save_cache``,
    ``kv_bits``, ``kv_blocks``, ``speculate``, ``draft``, ``chat_template``, ``system_prompt``, ``template_values``,
    ``eager``, ``verify`` and ``rerecord``. ``prompt_ids`` are the tokens of a prompt, or of several.
    They raise the command's errors: `ValueError` for an option, and `HipError` where a HIP call failed.

    Parameters
    ----------
    path : Path or str
        The model directory.
    plain : bool
        Whether weights that are not quantised stay as they are.
    q_mode : str
        The mode in which such weights are quantised otherwise, as `hiprt.kernels.quantize` takes it, with its default
        group size and bits: ``affine`` (groups of 64, 4 bits), ``mxfp4``, ``mxfp8`` or ``nvfp4``.
    progress : callable, optional
        Takes how many bytes of the weights have been copied to the device, and how many there are.

    Raises
    ------
    CheckpointError
        A ValueError: the model directory cannot be used.
    """

    def __init__(
        self,
        path: Path | str = CHECKPOINT,
        *,
        plain: bool = False,
        q_mode: str = "affine",
        progress: Callable[[int, int], object] = lambda loaded, nbytes: None,
    ) -> None:
        form = Request(path, plain=plain, q_mode=q_mode).form
        self.checkpoint = Checkpoint(path)
        self.template = find_template(self.checkpoint.path)
        self.device_stream = Stream()
        with use_stream(self.device_stream):
            self.model = load_model(self.checkpoint, form=form, progress=progress)
        self.idle: Decoder | None = None  # the last text's, whose steps are recorded
        self.drafts: dict[Path, Model] = {}  # the models that guess

    def generate(self, prompt: str | Sequence[str] | None = None, **options: Any) -> Report:
        """Write text after a prompt, or several texts side by side.

        Parameters
        ----------
        prompt : str or sequence of str, optional
            What the text begins with, or a question where the checkpoint has a chat template. By default it is the
            command's, where ``prompt_ids`` has no tokens instead.
        **options
            The options of ``hiprt generate``.

        Returns
        -------
        Report
            ``text``, ``tokens``, ``stop``, ``tok_s`` and what else the command's JSON has.
        """
        generation = self.generation(prompt, options)
        for _ in self.pieces(generation):
            pass
        return generation.report

    def stream(self, prompt: str | None = None, **options: Any) -> Iterator[str]:
        """Write text after a prompt, and yield each piece as it comes; a caller who stops iterating ends the text.

        Parameters
        ----------
        prompt : str, optional
            As that of `generate`.
        **options
            The options of ``hiprt generate``.
        """
        return self.pieces(self.generation(prompt, options))

    def conversation(self, **options: Any) -> Conversation:
        """Begin a conversation, which keeps its key/value cache from answer to answer.

        Parameters
        ----------
        **options
            The options of ``hiprt generate``, ``system_prompt`` among them. ``tokens`` is for each answer, and by
            default as many as the model has positions for.
        """
        return Conversation(self, self.request("", {"tokens": self.positions, **options}))

    def logits(self, tokens: Sequence[int]) -> Array:
        """Return the logits behind each token of a text.

        Parameters
        ----------
        tokens : sequence of int

        Returns
        -------
        Array, shape (len(tokens), vocab_size)
            In the dtype of the model. Row i is for the token behind ``tokens[i]``.

        Raises
        ------
        ValueError
            There is no token, one that the model lacks, or more of them than the model has positions.
        """
        vocabulary = self.model.config.vocab_size
        if not 0 < len(tokens) <= self.positions or not all(0 <= token < vocabulary for token in tokens):
            raise ValueError(f"logits need from 1 to {self.positions} tokens from 0 to {vocabulary - 1}")
        logits, at = empty((len(tokens), vocabulary), self.model.dtype, stream=self.device_stream), 0
        with use_stream(self.device_stream):
            state = self.model.state(1, bucket(len(tokens)))
            for size, _ in chunks(len(tokens)):
                chunk, position = array(np.array(tokens[at : at + size], np.int32)), np.arange(at, at + size)
                rows = self.model.rows(chunk, array(position.astype(np.int32)), state, 0)
                kernels.contiguous(self.model.logits(rows, False), out=logits[at : at + size])
                at += size
        return logits

    @property
    def positions(self) -> int:
        """How many tokens a text may have."""
        return self.model.config.max_position_embeddings

    def request(self, prompt: str | Sequence[str] | None, options: dict[str, Any]) -> Request:
        """Return the request for a prompt and options; raise ValueError or TypeError where there is no such option."""
        given = {ALIASES.get(name, name): value for name, value in options.items()}
        for name in filter(given.__contains__, OF_MODEL):
            raise TypeError(f"{name} is no option of a text: hiprt.load takes path, plain and q_mode, the command --tp")
        if isinstance(given.get("stops"), str):
            given["stops"] = (given["stops"],)
        ids = given.get("prompt_ids", ())
        if len(ids):
            given["prompt_ids"] = tuple(tuple(tokens_of(each)) for each in ([ids] if is_single(ids) else ids))
        texts = prompt if prompt is None or isinstance(prompt, str) else tuple(prompt)
        return Request(model=self.checkpoint.path, prompt=texts, **given)

    def generation(self, prompt: str | Sequence[str] | None, options: dict[str, Any]) -> Generation:
        """Return a run over a prompt that has not begun."""
        request = self.request(prompt, options)
        texts = encode(request, self.checkpoint, self.template)
        sampling = request.sampling(self.checkpoint.sampling)
        decoder, self.idle = self.idle, None
        draft = self.draft(request)
        if decoder is not None and not fits(decoder, request, sampling, draft):
            decoder = None
        given = request, sampling, self.model, self.checkpoint, texts, self.device_stream
        return Generation(*given, decoder=decoder, draft=draft)

    def draft(self, request: Request) -> Model | None:
        """Return the model that guesses for a request; it is loaded once."""
        if request.draft is None:
            return None
        path = Path(request.draft)
        if path not in self.drafts:
            checkpoint = open_draft(path, self.checkpoint)
            with use_stream(self.device_stream):
                self.drafts[path] = load_model(checkpoint)
        return self.drafts[path]

    def pieces(self, generation: Generation) -> Iterator[str]:
        """Yield the pieces of a run, and keep its decoder for the next one."""
        try:
            yield from generation.pieces()
        except GeneratorExit:
            self.idle = generation.decoder
            raise
        self.idle = generation.decoder


def fits(decoder: Decoder, request: Request, sampling: Sampling, draft: Model | None) -> bool:
    """Whether the steps of a decoder can write what is asked for."""
    same = replace(decoder.state.sampler.sampling, temperature=sampling.temperature, seed=sampling.seed)
    is_recorded = decoder.graph.keep and not request.rerecord
    has_logprobs = request.logprobs is not None or decoder.state.logprobs is not None
    has_bits = decoder.state.kv_bits == request.kv_bits
    has_blocks = request.kv_blocks is not None or decoder.blocks is not None  # pools are as large as their texts need
    is_as_wide = decoder.batch == len(request.prompts)
    guesses = None if decoder.draft is None else decoder.draft.model
    has_drafts = decoder.drafts == (request.speculate or 0) and guesses is draft
    is_like = has_bits and not has_blocks and has_drafts and is_as_wide
    return is_recorded and not has_logprobs and is_like and same == sampling


def load(
    path: Path | str = CHECKPOINT,
    *,
    plain: bool = False,
    q_mode: str = "affine",
    progress: Callable[[int, int], object] = lambda loaded, nbytes: None,
) -> TextModel:
    """Load a model directory; by default the small model of the package.

    Parameters
    ----------
    path : Path or str
        A Hugging Face directory of a Qwen3, Qwen3 MoE, Qwen3-Next or Qwen3.5 model.
    plain : bool
        Whether weights that are not quantised stay as they are.
    q_mode : str
        The mode in which they are quantised otherwise: ``affine`` (groups of 64, 4 bits), ``mxfp4``, ``mxfp8`` or
        ``nvfp4``.
    progress : callable, optional
        Takes how many bytes of the weights have been copied to the device, and how many there are.

    Returns
    -------
    TextModel

    Raises
    ------
    CheckpointError
        A ValueError: the model directory cannot be used.
    HipError
        A HIP call failed.
    """
    return TextModel(path, plain=plain, q_mode=q_mode, progress=progress)
