"""A conversation with a model, whose caches are kept from answer to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hiprt.bench.engine.beginning import Beginning
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import Generation
from hiprt.bench.engine.prompt_cache import shared
from hiprt.bench.engine.report import Report
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.template import Message

if TYPE_CHECKING:
    from hiprt.bench.engine.text_model import TextModel

__all__ = ["Conversation"]


class Conversation:
    """Questions and answers, each of which takes only those tokens that are new.

    The chat template writes the whole conversation anew for each answer. Of its tokens those are taken that follow the
    first difference from what the caches hold: a template may leave out what a model thought, for example, and its
    text may have other tokens than those that the model drew. Recurrent layers go back to where the last question
    ended, or to the beginning.

    Without a template the questions and answers are one text.

    Parameters
    ----------
    model : TextModel
    request : Request
        The system prompt, and how answers are drawn; its prompt is not read.

    Attributes
    ----------
    messages : list of mappings
        What was said; each has ``role`` and ``content``.
    held : list of int
        The tokens that the caches hold.
    kept : int
        How many tokens of the last prompt the caches held already.
    report : Report or None
        The last answer's.

    Raises
    ------
    ValueError
        There is a system prompt and no template, or an option that a conversation cannot have.
    """

    def __init__(self, model: TextModel, request: Request) -> None:
        if model.template is None and request.system_prompt:
            raise ValueError(f"a system prompt is part of a chat template, which {request.model} does not have")
        if request.verify or len(request.prompts) > 1 or request.load_cache or request.save_cache:
            raise ValueError("a conversation has neither several texts, nor a prompt cache of its own, nor verify")
        if request.kv_blocks is not None:
            raise ValueError(f"kv_blocks={request.kv_blocks}: a conversation is one text, which shares no pool")
        self.model, self.request = model, request
        self.template = model.template if request.chat_template else None
        self.sampling = request.sampling(model.checkpoint.sampling)
        self.decoder: Decoder | None = None
        self.reset()

    def reset(self) -> None:
        """Begin a new conversation."""
        system = self.request.system_prompt
        self.messages: list[Message] = [{"role": "system", "content": system}] if system else []
        self.text: list[int] = []  # without a template, the tokens of all that was said
        self.held: list[int] = []
        self.kept = 0
        self.report: Report | None = None

    def ask(
        self,
        question: str,
        stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, str], object] = lambda done, total, unit: None,
    ) -> Iterator[str]:
        """Ask, and yield each piece of the answer as it comes.

        A question is forgotten where its answer is stopped before the first token, or the caller stops iterating.

        Parameters
        ----------
        question : str
        stopped : callable, optional
            Is called before each chunk of the prompt and each step; True ends the answer.
        progress : callable, optional
            Takes how many tokens of the prompt have been taken, how many there are, and ``tokens``.

        Raises
        ------
        CheckpointError
            The template refuses the conversation.
        ValueError
            The model has no positions left, or the question is no valid UTF-8.
        """
        request = replace(self.request, prompt=question)
        messages = [*self.messages, {"role": "user", "content": question}]
        prompt = self.encode(messages, question)
        if len(prompt) >= self.model.positions:
            cause = f"the conversation has {len(prompt)} tokens, and the model {self.model.positions} positions"
            raise ValueError(f"{cause}: begin a new one (/reset), or ask less")
        before, self.held = shared(self.held, prompt), []
        decoder, self.decoder = self.decoder, None  # one that an exception ends amid a step is used no more
        self.kept = 0 if decoder is None else decoder.rewind(min(before, len(prompt) - 1))
        generation = Generation(
            request,
            self.sampling,
            self.model.model,
            self.model.checkpoint,
            [Beginning(question, prompt)],
            self.model.device_stream,
            decoder=decoder,
            kept=self.kept,
            save_at=self.end_of_question(messages, prompt),
            draft=self.model.draft(request),
        )
        self.report = generation.report
        try:
            yield from generation.pieces(stopped, progress)
        except GeneratorExit:
            self.decoder = self.decoder or generation.decoder  # another answer's may be there by now
            raise
        self.report.cached_tokens = self.kept
        self.decoder, drawn = generation.decoder, generation.report.token_ids
        self.held = [*prompt, *drawn][: self.decoder.position]
        if drawn:
            self.messages = [*messages, {"role": "assistant", "content": generation.report.text}]
            self.text = [*prompt, *drawn]

    def encode(self, messages: Sequence[Message], question: str) -> list[int]:
        """Return the tokens of the prompt."""
        checkpoint = self.model.checkpoint
        if self.template is not None:
            text = self.template.render(messages, self.request.template_values)
            return checkpoint.encode(text, special=False)
        if not self.text:
            return checkpoint.encode(question)
        return self.text + list(checkpoint.tokenizer.encode(question, add_special_tokens=False).ids)

    def end_of_question(self, messages: Sequence[Message], prompt: Sequence[int]) -> int:
        """Return up to where the prompt of the next question will be the same, whatever is answered."""
        if self.template is None:
            return 0
        text = self.template.render(messages, self.request.template_values, add_generation_prompt=False)
        return shared(self.model.checkpoint.encode(text, special=False), prompt)
