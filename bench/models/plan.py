"""What is measured of presets, in which order, and how long it is expected to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hiprt.bench.engine.models import FORM, read
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.presets import settings_of
from hiprt.bench.engine.room import bucket

__all__ = ["START", "Measurement", "Settings", "expected", "needed", "planned", "weights"]

# Of an H200; what is left is told by how much longer or shorter than this the measurements so far took.
START = 6.0  # seconds from the start of a process to a preset whose weights are made
LEAST, LEAST_EAGER = 4e-4, 1.6e-3  # seconds of a step
READS = 4.5e12  # bytes of a step in a second
PRODUCTS = 2.5e14  # additions and multiplications of a prompt in a second
WARM_SECONDS = 0.4
CONTEXT = 512  # positions and more that a text has room for beside its prompt
ELEMENT = 2  # bytes of a key's or a value's element


@dataclass(frozen=True)
class Settings:
    """What was asked for.

    Attributes
    ----------
    models : tuple of str
        Presets.
    batches : tuple of int
        How many texts a step has. Those behind the first go with the first context.
    contexts : tuple of int
        How many tokens are in front of those that are decoded. Those behind the first go with the first batch.
    prompts : tuple of int
        The tokens of prompts whose first token is timed.
    modes : tuple of str
        How steps are launched. Those behind the first go with the first batch and the first context.
    tokens : int
        How many tokens are decoded at a time.
    repeat : int
        How often each measurement is made.
    kernels : bool
        Whether each kernel is timed as well.
    """

    models: tuple[str, ...]
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    prompts: tuple[int, ...]
    modes: tuple[str, ...]
    tokens: int
    repeat: int
    kernels: bool


@dataclass(frozen=True)
class Measurement:
    """One thing to measure.

    Attributes
    ----------
    preset : str
    mode : str
        How steps are launched; ``prompt`` for a prompt and the step behind it.
    batch : int
        How many texts a step has.
    context : int
        The tokens in front of those that are decoded; of a prompt its tokens.
    """

    preset: str
    mode: str
    batch: int
    context: int

    @property
    def text(self) -> str:
        """What it is in a line of the progress."""
        if self.mode == "prompt":
            return f"{self.preset}, a prompt of {self.context:,}"
        texts = "one text" if self.batch == 1 else f"{self.batch} texts"
        return f"{self.preset}, {texts} behind {self.context:,}, {self.mode}"


def planned(settings: Settings, *, is_by_worth: bool) -> list[Measurement]:
    """Return the measurements in their order: preset by preset, or what is worth most of all presets first."""
    kinds = list(dict.fromkeys(kinds_of(settings)))
    if is_by_worth:
        return [Measurement(preset, *kind) for kind in kinds for preset in settings.models]
    return [Measurement(preset, *kind) for preset in settings.models for kind in kinds]


def kinds_of(settings: Settings) -> Iterator[tuple[str, int, int]]:
    """Yield mode, batch and context of what is measured of a preset, the worthiest first."""
    mode, batch, context = settings.modes[0], settings.batches[0], settings.contexts[0]
    yield mode, batch, context
    for prompt in sorted(settings.prompts, reverse=True):
        yield "prompt", 1, prompt
    for other in sorted(settings.batches[1:], reverse=True):
        yield mode, other, context
    for other in settings.contexts[1:]:
        yield mode, batch, other
    for name in settings.modes[1:]:
        yield name, batch, context


def elements(config: Config, experts: int | None = None) -> int:
    """Return the elements of a model's matrices without its embedding; `experts` says of how many of a mixture."""
    hidden, total = config.hidden_size, config.vocab_size * config.hidden_size
    for mixer, feed in config.layers:
        if mixer == "attention":
            answers = config.num_attention_heads * config.head_dim
            total += hidden * ((2 + config.is_gated) * answers + 2 * config.num_key_value_heads * config.head_dim)
        elif config.delta is not None:
            total += hidden * (config.delta.channels + 2 * config.delta.values)
        if feed == "mlp":
            total += 3 * hidden * config.intermediate_size
        elif config.mixture is not None:
            mixture = config.mixture
            count = mixture.experts if experts is None else min(experts, mixture.experts)
            total += 3 * hidden * (count * mixture.inner + mixture.shared)
    return total


def weights(preset: str) -> float:
    """Return the bytes of the weights of a preset, nearly."""
    config = read(settings_of(preset))
    embedding = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    return (elements(config) + embedding) * bytes_of_element()


def bytes_of_element() -> float:
    """Return the bytes of an element of a matrix, with its part of a group's scale and bias."""
    return FORM.bits / 8 + 4 / FORM.group_size


def cache(config: Config, batch: int, context: int) -> float:
    """Return the bytes of keys and values."""
    layers = sum(mixer == "attention" for mixer, _ in config.layers)
    return 2 * ELEMENT * layers * config.num_key_value_heads * config.head_dim * batch * bucket(context + CONTEXT)


def needed(measurement: Measurement) -> float:
    """Return the bytes of weights, keys and values that a measurement needs, nearly."""
    config = read(settings_of(measurement.preset))
    return weights(measurement.preset) + cache(config, measurement.batch, measurement.context)


def expected(measurement: Measurement, settings: Settings) -> float:
    """Return the seconds that a measurement takes on an H200 whose process is there, nearly."""
    config = read(settings_of(measurement.preset))
    batch, context = measurement.batch, measurement.context
    chosen = None if config.mixture is None else batch * config.mixture.chosen
    parts = elements(config, 1 if config.mixture is None else config.mixture.chosen)
    prompt = 2 * parts * context / PRODUCTS + LEAST_EAGER
    if measurement.mode == "prompt":
        return WARM_SECONDS + (settings.repeat + 4) * prompt
    read_bytes = elements(config, chosen) * bytes_of_element() + cache(config, batch, context)
    least = LEAST if measurement.mode in ("graph", "compiled") else LEAST_EAGER
    step = max(least, read_bytes / READS * 1.3)
    # Each time there are a pass without events and one with, and once to warm up.
    return WARM_SECONDS + batch * prompt + (settings.repeat + 1) * 2 * settings.tokens * step
