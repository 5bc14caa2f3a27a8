"""Little stories from a seeded grammar, and the exact recogniser of their sentences.

`generate` writes a story; `sentences` cuts text into its completed sentences; `parse` says whether a sentence belongs
to the grammar, `fault` why it does not; `check_story` also compares pronouns with the character last named.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from hiprt.bench.story import rules
from hiprt.bench.story.feature_grammar import FeatureGrammar
from hiprt.bench.story.taste import Taste

_GENDER_OF_NAME = {name: gender for gender, names in rules.NAMES.items() for name in names.split()}
_GENDER_OF_PRONOUN = {"she": "f", "her": "f", "he": "m", "his": "m", "him": "m"}
_KINDS = [pair.split()[0] for pair in rules.KINDS.split(", ")]
_THINGS = [pair.split()[0] for pair in rules.THINGS.split(", ")]
_ADJECTIVES = rules.ADJECTIVES.split()
_GRAMMAR = FeatureGrammar(rules.text())

# Characters that no training story has: the prompts that score a model are about them.
HELD_OUT = frozenset(
    {
        ("Mia", "fox"), ("Tom", "owl"), ("Nora", "rabbit"), ("Ben", "otter"), ("Lily", "bear"),
        ("Oscar", "mouse"), ("Ruby", "eagle"), ("Hugo", "hedgehog"), ("Olive", "badger"), ("Felix", "duck"),
        ("Clara", "goose"), ("Leo", "squirrel"), ("Poppy", "frog"), ("Max", "cat"), ("Wendy", "wolf"),
        ("Sam", "pony"), ("Ida", "beaver"), ("Otto", "deer"), ("Stella", "ox"), ("Arthur", "elk"),
    }
)  # fmt: skip


class Character(NamedTuple):
    """Somebody in a story."""

    name: str
    gender: str
    kind: str


def generate(seed: int | random.Random) -> str:
    """Write one story; the same seed always writes the same one."""
    rng = seed if isinstance(seed, random.Random) else random.Random(seed)
    hero = _character(Taste("", rng, 0.0), None)
    taste = Taste(hero.name, rng)
    friend = _character(taste, hero)
    thing, adjective = taste.choose("thing", _THINGS), taste.choose("adjective", _ADJECTIVES)
    focus: str | None = None
    story = []
    for beat in taste.choose("plot", [rules.PLOTS[name] for name in sorted(rules.PLOTS)]).split():
        beat, optional, _ = beat.partition("?")
        if optional and rng.random() < 0.4:
            continue
        beat, _, subject = beat.partition(":")
        me, other = (friend, hero) if subject == "f" else (hero, friend)
        introduced = other if beat == "met" else me
        called = "pron" if focus == me.name and rng.random() < 0.6 else "name"
        features = (called, me.name, me.gender, other.name, other.gender, introduced.kind, thing, adjective)
        words = _GRAMMAR.write(beat, features, taste)
        story.append(_render(words))
        focus = next((word for word in reversed(words) if word in _GENDER_OF_NAME), focus)
    return " ".join(story)


def parse(sentence: str) -> bool:
    """Say whether this is a sentence of the grammar, spaces and capitals included."""
    return fault(sentence) is None


def fault(sentence: str) -> str | None:
    """Say what is wrong with a sentence, or return None where it parses."""
    words = _words(sentence)
    accepted, reached = _GRAMMAR.read("sentence", words)
    if not accepted:
        before, after = " ".join(words[max(0, reached - 4) : reached]), " ".join(words[reached : reached + 3])
        return f"no rule goes on from {before!r} to {after!r}: {sentence!r}"
    return None if _render(words) == sentence else f"spaces or capitals are wrong: {sentence!r}"


def sentences(text: str) -> list[str]:
    """Cut text into its completed sentences; an unfinished end is left out.

    A full stop ends a sentence together with a closing quotation mark behind it; so do ``?`` and ``!``, but inside
    quotation marks the sentence goes on after them to say who speaks.
    """
    found, start, quoted = [], 0, False
    for at, mark in enumerate(text):
        if mark == '"':
            quoted = not quoted
        closing = quoted and text[at + 1 : at + 2] == '"'
        spoken_stop = mark == '"' and not quoted and text[at - 1 : at] == "."
        if spoken_stop or (mark == "." and not closing) or (mark in "?!" and not quoted):
            if quoted and mark == "." and at + 1 == len(text):
                break
            found.append(text[start : at + 1].strip())
            start, quoted = at + 1, False
    return found


def check_story(text: str) -> list[str]:
    """Return all faults of a story: sentences that do not parse, pronouns that do not fit the last name before them."""
    faults = []
    gender: str | None = None
    for sentence in sentences(text):
        problem = fault(sentence)
        if problem is not None:
            faults.append(problem)
        for word in _words(sentence):
            gender = _GENDER_OF_NAME.get(word, gender)
            if _GENDER_OF_PRONOUN.get(word, gender) != gender:
                faults.append(f"{word!r} is not the character last named: {sentence!r}")
    return faults


def _character(taste: Taste, other: Character | None) -> Character:
    """Return a character that is not held out and has another name, kind and gender than the other one."""
    while True:
        gender = taste.rng.choice("fm") if other is None else "fm"[other.gender == "f"]
        name, kind = taste.choose("friend", rules.NAMES[gender].split()), taste.choose("friendly", _KINDS)
        if (name, kind) not in HELD_OUT and (other is None or kind != other.kind):
            return Character(name, gender, kind)


def _words(sentence: str) -> list[str]:
    """Return words and marks as the rules have them: quotation marks open or close, only names and I have capitals."""
    words: list[str] = []
    quoted = False
    for word in re.findall(r"[A-Za-z]+|[^A-Za-z\s]", sentence):
        if word == '"':
            quoted = not quoted
            word = "“" if quoted else "”"
        elif (not words or words[-1] == "“") and word not in _GENDER_OF_NAME and word != "I":
            word = word[0].lower() + word[1:]
        words.append(word)
    return words


def _render(words: list[str]) -> str:
    """Return the sentence as it is written."""
    text = ""
    for word in words:
        opens = not text or text[-1] == "“"
        text += "" if opens or word in {".", ",", "?", "!", ":", "”"} else " "
        text += word[0].upper() + word[1:] if opens else word
    return text.replace("“", '"').replace("”", '"')
