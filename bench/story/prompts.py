"""Twenty beginnings that no training story has, and the score of what a model writes after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hiprt.bench.story import grammar

PROMPTS = (
    "Once upon a time there was a clever fox named Mia.",
    "Once upon a time there was an old owl named Tom. He",
    "Long ago, a quiet rabbit named Nora lived in the garden. Every morning, she",
    "Once there was an otter called Ben, who lived near the river. The best friends of Ben were",
    "Lily was a lazy bear who lived in the old tower. She loved",
    "Once upon a time there was a brave mouse named Oscar. He shared his home with",
    "Long ago, an honest eagle named Ruby lived on the hill. One windy morning,",
    "Once upon a time, in a hut made of straw in the meadow, there lived a hedgehog whose name was Hugo.",
    "Once there was a young badger called Olive, who lived under the stairs. She had always wanted a",
    "Felix was a funny duck who lived beside the pond. On a foggy evening, he",
    "Once upon a time there was a gentle goose named Clara. It was an autumn morning, and the",
    "Once upon a time there was a curious squirrel named Leo. Leo had never",
    "Long ago, a shy little frog named Poppy lived near the well. One rainy day, Poppy lost her",
    "Once there was a wise cat called Max, who lived on the roof. One stormy night, Max wished for an",
    "Wendy was an unusual wolf who lived in the cave. She was",
    "Once upon a time there was a very kind pony named Sam. One cold night, he saw that his",
    "Long ago, a beaver named Ida lived near the old bridge. One sunny afternoon, she found an",
    "Otto was an eager deer who lived in the forest. The stars were pale, but the",
    "Once upon a time, in a tiny cabin on the island, there lived an ox whose name was Stella. She liked to",
    'Once upon a time there was an elk named Arthur. One snowy morning, Arthur lost his crown on the hill. "Where',
)


class Score(NamedTuple):
    """How many of the sentences that a model completed parse, and what is wrong with the others."""

    sentences: int
    faults: list[str]

    @property
    def rate(self) -> float:
        """The part that parses; 0 where nothing was written."""
        return 1 - len(self.faults) / self.sentences if self.sentences else 0.0


def score(write: Callable[[str], str]) -> Score:
    """Score a model: `write` returns what it writes after a prompt."""
    found = 0
    faults = []
    for prompt in PROMPTS:
        given = len(grammar.sentences(prompt))
        written = grammar.sentences(prompt + write(prompt))[given:]
        found += len(written)
        faults += [problem for problem in map(grammar.fault, written) if problem is not None]
    return Score(found, faults)
