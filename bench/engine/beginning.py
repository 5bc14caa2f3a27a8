"""Beginnings: the tokens with which texts begin, of prompts, of questions in a chat template and of prompt caches."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.models import read
from hiprt.bench.engine.prompt_cache import PromptCache
from hiprt.bench.engine.prompts import check_tokens
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.template import Template

__all__ = ["Beginning", "encode"]


class Beginning(NamedTuple):
    """What a text begins with.

    Attributes
    ----------
    prompt : str
    ids : list of int
        The tokens.
    is_question : bool
        Whether the chat template is around the prompt, so that the text is an answer.
    """

    prompt: str
    ids: list[int]
    is_question: bool = False


def encode(request: Request, checkpoint: Checkpoint, template: Template | None) -> list[Beginning]:
    """Return the beginning of each text; prompts that are texts are questions in the chat template, where there is one.

    Raises
    ------
    CheckpointError
        The architecture is unknown, or the template cannot write them.
    ValueError
        A prompt exceeds what the model was trained for, holds a token that the model lacks, or there is a system prompt
        and no template.
    """
    config = read(checkpoint.settings)
    limit = config.max_position_embeddings
    is_question = template is not None and request.chat_template
    if request.system_prompt and not is_question:
        raise ValueError(f"a system prompt is part of a chat template, which {checkpoint.path} does not have")
    system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
    texts = []
    for prompt in request.prompts:
        if not isinstance(prompt, str):
            check_tokens(prompt, config.vocab_size)
            written = checkpoint.tokenizer.decode(list(prompt), skip_special_tokens=False)
            texts.append(Beginning(written, list(prompt)))
        elif template is not None and is_question:
            asked = template.render([*system, {"role": "user", "content": prompt}], request.template_values)
            texts.append(Beginning(prompt, checkpoint.encode(asked, special=False), is_question=True))
        else:
            texts.append(Beginning(prompt, checkpoint.encode(prompt)))
    if request.load_cache is not None and request.prompt is None and not request.prompt_ids:
        ids = PromptCache.read_tokens(request.load_cache)
        texts = [Beginning(checkpoint.tokenizer.decode(ids, skip_special_tokens=False), ids)] * len(texts)
    longest = max(len(text.ids) for text in texts)
    if longest >= limit:
        raise ValueError(f"a prompt of {longest} tokens leaves no place among the {limit} positions of the model")
    return texts
