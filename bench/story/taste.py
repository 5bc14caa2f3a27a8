"""What makes one storyteller unlike another: half of the choices are free, the other half follow a habit.

Without habits every choice would be uniform, and a model that always takes the likeliest word would tell one story
over and over. With them the likeliest choice depends on who the story is about and on what was chosen last time.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence


class Taste:
    """Choices of one storyteller, by what is chosen.

    Parameters
    ----------
    owner : str
        Decides where a habit starts.
    rng : random.Random
        Decides when a habit is followed, and what is chosen otherwise.
    strength : float
        How often a habit is followed.
    """

    def __init__(self, owner: str, rng: random.Random, strength: float = 0.5) -> None:
        self.rng = rng
        self._owner = owner
        self._strength = strength
        self._last: dict[str, int] = {}

    def order(self, topic: str, allowed: Sequence[int], among: int) -> list[int]:
        """Return the allowed ones of so many choices, the one to try first in front."""
        ordered = self.rng.sample(allowed, len(allowed))
        if len(ordered) > 1 and self.rng.random() < self._strength:
            last = self._last.get(topic, _start(self._owner, topic, among))
            # A third of the way on: the next few may say almost the same, as the plural of a word does.
            favourite = min(allowed, key=lambda choice: (choice - last - max(1, among // 3)) % among)
            ordered.remove(favourite)
            ordered.insert(0, favourite)
        return ordered

    def note(self, topic: str, choice: int) -> None:
        """Remember what was chosen: the habit is to take one some way after it next time."""
        self._last[topic] = choice

    def choose(self, topic: str, options: Sequence[str]) -> str:
        """Choose and remember."""
        choice = self.order(topic, range(len(options)), len(options))[0]
        self.note(topic, choice)
        return options[choice]


@functools.cache
def _start(owner: str, topic: str, among: int) -> int:
    return random.Random(f"{owner} {topic}").randrange(among)
