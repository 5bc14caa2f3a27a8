"""Context-free grammars whose symbols carry features; the same rules write sentences and recognise them.

A rule reads ``head feature ... = body | body | ...``. In a body, ``<symbol feature ...>`` refers to other rules and
anything else is a word. A feature that starts with ``?`` is a variable: it has one value throughout a rule, so
``<subject ?n> <verb ?n>`` makes verb and subject agree. A line that starts with ``|`` continues the rule above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hiprt.bench.story.taste import Taste

Features = tuple[str | None, ...]
Bindings = dict[str, str]


class Reference(NamedTuple):
    """A symbol and its features in the body of a rule."""

    symbol: str
    features: tuple[str, ...]


class Rule(NamedTuple):
    """One head with one body."""

    features: tuple[str, ...]
    body: tuple[Reference | str, ...]


class FeatureGrammar:
    """Rules by symbol, read from text."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[Rule]] = {}
        head: list[str] = []
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if not line.lstrip().startswith("|"):
                left, _, line = line.partition("=")
                head = left.split()
            for body in line.strip().strip("|").split("|"):
                self.rules.setdefault(head[0], []).append(Rule(tuple(head[1:]), _body(body)))
        self._check()

    def _check(self) -> None:
        for symbol, rules in self.rules.items():
            if len({len(rule.features) for rule in rules}) != 1:
                raise ValueError(f"rules of {symbol!r} differ in their number of features")
            for reference in (item for rule in rules for item in rule.body if isinstance(item, Reference)):
                heads = self.rules.get(reference.symbol)
                if heads is None or len(heads[0].features) != len(reference.features):
                    raise ValueError(f"rule {symbol!r} refers to {reference}, which no rule defines")

    def words(self) -> set[str]:
        """Return every word that some sentence holds."""
        return {item for rules in self.rules.values() for rule in rules for item in rule.body if isinstance(item, str)}

    def write(self, symbol: str, features: Features, taste: Taste) -> list[str]:
        """Return the words of a derivation of a symbol with these features; None leaves one open."""
        for words, _ in self._write(symbol, features, taste):
            return words
        raise ValueError(f"no rule derives {symbol}{features}")

    def _write(self, symbol: str, features: Features, taste: Taste) -> Iterator[tuple[list[str], Features]]:
        rules = self.rules[symbol]
        bindings = {
            at: found for at, rule in enumerate(rules) if (found := _bind(rule.features, features, {})) is not None
        }
        for at in taste.order(symbol, list(bindings), len(rules)):
            for words, bound in self._write_body(rules[at].body, bindings[at], taste):
                taste.note(symbol, at)
                yield words, _values(rules[at].features, bound)

    def _write_body(
        self, body: Sequence[Reference | str], bindings: Bindings, taste: Taste
    ) -> Iterator[tuple[list[str], Bindings]]:
        for at, item in enumerate(body):
            if isinstance(item, Reference):
                for words, features in self._write(item.symbol, _values(item.features, bindings), taste):
                    bound = _bind(item.features, features, bindings)
                    if bound is not None:
                        for rest, final in self._write_body(body[at + 1 :], bound, taste):
                            yield [*body[:at], *words, *rest], final  # type: ignore[list-item]
                return
        yield list(body), bindings  # type: ignore[arg-type]

    def read(self, symbol: str, words: Sequence[str]) -> tuple[bool, int]:
        """Return whether the words derive from a symbol, and with how many of them some derivation begins."""
        reader = _Reader(self.rules, words)
        arity = len(self.rules[symbol][0].features)
        ends = reader.ends(symbol, (None,) * arity, 0)
        return any(end == len(words) for end, _ in ends), reader.reached


class _Reader:
    """A memoised recogniser over one sentence."""

    def __init__(self, rules: dict[str, list[Rule]], words: Sequence[str]) -> None:
        self._rules = rules
        self._words = words
        self._memo: dict[tuple[str, Features, int], set[tuple[int, Features]]] = {}
        self.reached = 0

    def ends(self, symbol: str, features: Features, start: int) -> set[tuple[int, Features]]:
        """Return where derivations that start here may end, each with its features."""
        key = (symbol, features, start)
        if key not in self._memo:
            found: set[tuple[int, Features]] = set()
            for rule in self._rules[symbol]:
                bindings = _bind(rule.features, features, {})
                if bindings is not None:
                    for end, bound in self._body_ends(rule.body, 0, start, bindings):
                        found.add((end, _values(rule.features, bound)))
            self._memo[key] = found
        return self._memo[key]

    def _body_ends(
        self, body: Sequence[Reference | str], at: int, start: int, bindings: Bindings
    ) -> Iterator[tuple[int, Bindings]]:
        if at == len(body):
            yield start, bindings
            return
        item = body[at]
        if isinstance(item, str):
            if start < len(self._words) and self._words[start] == item:
                self.reached = max(self.reached, start + 1)
                yield from self._body_ends(body, at + 1, start + 1, bindings)
            return
        for end, features in self.ends(item.symbol, _values(item.features, bindings), start):
            bound = _bind(item.features, features, bindings)
            if bound is not None:
                yield from self._body_ends(body, at + 1, end, bound)


def _body(text: str) -> tuple[Reference | str, ...]:
    items: list[Reference | str] = []
    for item in re.findall(r"<[^>]*>|\S+", text):
        if item.startswith("<"):
            symbol, *features = item[1:-1].split()
            items.append(Reference(symbol, tuple(features)))
        else:
            items.append(item)
    return tuple(items)


def _values(features: tuple[str, ...], bindings: Bindings) -> Features:
    return tuple(bindings.get(f) if f[0] == "?" else f for f in features)


def _bind(features: tuple[str, ...], values: Features, bindings: Bindings) -> Bindings | None:
    """Return bindings extended so that features have these values, or None where they cannot have them."""
    bound = bindings
    for feature, value in zip(features, values):
        if value is None:
            continue
        if feature[0] != "?":
            if feature != value:
                return None
        elif bound.get(feature, value) != value:
            return None
        elif feature not in bound:
            bound = {**bound, feature: value}
    return bound
