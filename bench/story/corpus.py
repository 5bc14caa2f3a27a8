"""Training text from the grammar: rows of whole stories, some of them made harder in the ways users' prompts are."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from hiprt.bench.story import grammar, rules

END_OF_TEXT = "<|endoftext|>"
# What cross-entropy skips.
IGNORED = -100

_NAME = re.compile(rf"\b(?:{'|'.join(name for names in rules.NAMES.values() for name in names.split())})\b")
_LETTERS = "aabcdeefghiijklmnooprsttuuvwxyz"


class Row(NamedTuple):
    """Text of one training row: its stories, and strange words in front that only have to be read."""

    strange: str
    stories: list[str]
    after_end: bool


def row(seed: int) -> Row:
    """Return the row of a seed: five stories.

    Most rows are plain. Others begin behind the end of a text, in the middle of a story, or behind strange words, and
    one story in ten is about somebody with a made-up name, so that the model learns to take names from its prompt.
    """
    rng = random.Random(seed)
    stories = [_story(rng) for _ in range(5)]
    start = rng.random()
    if start < 0.2:
        sentences = grammar.sentences(stories[0])
        stories[0] = " ".join(sentences[rng.randrange(len(sentences)) :])
    strange = " ".join(_strange_word(rng) for _ in range(rng.randint(1, 12))) + rng.choice(("", ".", "!", "?"))
    return Row(strange if start < 0.05 else "", stories, start > 0.7)


def rows(count: int, seed: int, workers: int) -> Iterator[Row]:
    """Write rows in parallel, in an order that depends on the seed alone."""
    with Pool(workers) as pool:
        yield from pool.imap(row, range(seed * 10**9, seed * 10**9 + count), chunksize=64)


def tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Byte-level byte-pair encoding learnt from texts: any text can be encoded."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def end_of_text(made: Tokenizer) -> int:
    """Return the token that stands between stories."""
    token: int | None = made.token_to_id(END_OF_TEXT)
    assert token is not None
    return token


def encode(written: list[Row], made: Tokenizer, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens and targets [rows, length]; rows that are too short are left out."""
    end = end_of_text(made)
    inputs, targets = [], []
    for item in written:
        prefix: list[int] = made.encode(item.strange).ids
        stories = made.encode_batch([" " * bool(prefix) + item.stories[0], *item.stories[1:]])
        told = [end] * item.after_end + prefix + [token for story in stories for token in [*story.ids, end]]
        if len(told) > length:
            inputs.append(np.array(told[:length]))
            targets.append(np.array(told[1 : 1 + length]))
            targets[-1][: max(0, len(prefix) - 1)] = IGNORED
    return np.stack(inputs), np.stack(targets)


def _story(rng: random.Random) -> str:
    story = grammar.generate(rng)
    if rng.random() < 0.1:
        name = rng.choice(_NAME.findall(story))
        return re.sub(rf"\b{name}\b", _strange_word(rng).capitalize(), story)
    return story


def _strange_word(rng: random.Random) -> str:
    word = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 8)))
    return word.capitalize() if rng.random() < 0.15 else word
