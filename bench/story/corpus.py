"""Training text from the grammar: rows of whole stories, some of them as hard to continue as users' prompts are."""

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
# Targets that cross-entropy skips.
IGNORED = -100

_NAME = re.compile(rf"\b(?:{'|'.join(name for names in rules.NAMES.values() for name in names.split())})\b")
_LETTERS = "aabcdeefghiijklmnooprsttuuvwxyz"


class Story(NamedTuple):
    """A beginning that only has to be read, like a prompt, and the rest, which the model learns to write."""

    given: str
    rest: str


class Row(NamedTuple):
    """The text of one training row: stories, which may follow the end of another text."""

    after_end: bool
    stories: list[Story]


def row(seed: int) -> Row:
    """Return the row of a seed: five stories.

    Most rows are plain. Others begin after the end of a text, in the middle of a story, or after strange words.
    """
    rng = random.Random(seed)
    stories = [_story(rng) for _ in range(5)]
    start = rng.random()
    if start < 0.2:
        sentences = grammar.sentences(grammar.generate(rng))
        strange = " ".join(_strange_word(rng) for _ in range(rng.randint(1, 12))) + rng.choice(("", ".", "!", "?"))
        stories[0] = Story(strange if start < 0.05 else "", " ".join(sentences[rng.randrange(len(sentences)) :]))
    return Row(start > 0.7, stories)


def rows(count: int, seed: int, workers: int) -> Iterator[Row]:
    """Yield rows, which processes write in parallel, in an order that depends on the seed alone."""
    with Pool(workers) as pool:
        yield from pool.imap(row, range(seed * 10**9, seed * 10**9 + count), chunksize=64)


def tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level byte-pair encoding learnt from texts; it can encode any text."""
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
    """Return tokens and targets [rows, length]; rows that are too short are left out."""
    end = end_of_text(made)
    inputs, targets = [], []
    for item in written:
        texts = [(story.given, " " * bool(story.given) + story.rest) for story in item.stories]
        encoded = [text.ids for text in made.encode_batch([text for pair in texts for text in pair])]
        told, learnt = [end] * item.after_end, [IGNORED] * item.after_end
        for given, rest in zip(encoded[::2], encoded[1::2]):
            told += [*given, *rest, end]
            learnt += [*[IGNORED] * len(given), *rest, end]
        if len(told) > length:
            inputs.append(np.array(told[:length]))
            targets.append(np.array(learnt[1 : 1 + length]))
    return np.stack(inputs), np.stack(targets)


def _story(rng: random.Random) -> Story:
    """Return a story. One in six has a made-up name in it, so that the model learns to take names from prompts."""
    first, *others = grammar.sentences(grammar.generate(rng))
    rest = " ".join(others)
    if rng.random() > 1 / 6:
        return Story("", f"{first} {rest}")
    known, made_up = _NAME.findall(first)[0], _strange_word(rng).capitalize()
    given, rest = (re.sub(rf"\b{known}\b", made_up, text) for text in (first, rest))
    return Story(given, rest)


def _strange_word(rng: random.Random) -> str:
    word = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 8)))
    return word.capitalize() if rng.random() < 0.15 else word
