"""Sampling: how the next token is drawn from logits, on the device and inside the step's graph."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hiprt import Array, array, kernels, zeros

__all__ = ["Sampler", "Sampling"]


@dataclass(frozen=True)
class Sampling:
    """The rules of a draw. They apply in this order, as in mlx-lm: penalties, filters, temperature.

    Attributes
    ----------
    repetition_penalty : float
        What positive logits of the last tokens are divided by, and negative ones multiplied with; 1 changes nothing.
        Keskar et al., "CTRL", 2019, section 4.1.
    presence_penalty : float
        What is subtracted from the logits of the last tokens.
    window : int
        How many of the newest tokens the penalties count.
    top_k : int
        How many of the largest logits stay; 0 for all.
    top_p : float
        As few of the largest logits stay as have this probability together; 1 for all.
    min_p : float
        The logits stay whose probability is at least this part of the largest one; 0 for all.
    temperature : float
        How evenly tokens are drawn; 0 takes the likeliest token.
    seed : int
        The seed of the first text's draws, from 0 to 2**32 - 1; text i has ``seed + i``.

    Raises
    ------
    ValueError
        A value is out of range.
    """

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    window: int = 20
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Comparisons with NaN are false, so that it is refused everywhere.
        allowed = {
            "repetition_penalty": (0 < self.repetition_penalty < float("inf"), "above 0"),
            "presence_penalty": (abs(self.presence_penalty) < float("inf"), "a finite number"),
            "window": (1 <= self.window < 2**31, "at least 1"),
            "top_k": (0 <= self.top_k < 2**31, "0 or more"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "min_p": (0 <= self.min_p <= 1, "from 0 to 1"),
            "temperature": (0 <= self.temperature < float("inf"), "0 or more"),
            "seed": (0 <= self.seed < 2**32, "from 0 to 2**32 - 1"),
        }
        for name, (is_allowed, range_) in allowed.items():
            if not is_allowed:
                raise ValueError(f"{name}={getattr(self, name)}: must be {range_}")

    @property
    def is_greedy(self) -> bool:
        """Whether a draw takes the largest logit of all."""
        is_penalised = self.repetition_penalty != 1 or self.presence_penalty != 0
        return (self.temperature == 0 or self.top_k == 1) and not is_penalised

    @property
    def changed(self) -> dict[str, Any]:
        """The rules that differ from taking the likeliest token of all."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


class Sampler:
    """A `Sampling` on the device, for several texts.

    Parameters
    ----------
    sampling : Sampling
    batch : int
        How many texts there are.
    width : int
        The number of logits of a text.
    dtype : numpy.dtype
        The dtype of the logits.

    Attributes
    ----------
    temperature : Array of float32, shape (batch,)
    seed : Array of uint32, shape (batch,)
    """

    def __init__(self, sampling: Sampling, batch: int, width: int, dtype: np.dtype[Any]) -> None:
        self.sampling = sampling
        self.temperature, self.seed = zeros(batch, np.float32), zeros(batch, np.uint32)
        self.filters = {
            name: array(np.full(batch, getattr(sampling, name), kind))
            for name, kind in (("top_k", np.int32), ("top_p", np.float32), ("min_p", np.float32))
            if name in sampling.changed
        }
        self.repetition = array(np.array([sampling.repetition_penalty], np.float32))
        # A penalty of 2 on ones makes a mask: one half at the last tokens, and 1 elsewhere.
        self.two = array(np.array([2], np.float32))
        self.ones = array(np.ones((1, width), dtype)) if sampling.presence_penalty else None

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty changes the logits."""
        return self.sampling.repetition_penalty != 1 or self.ones is not None

    def set(self, temperature: float, seed: int) -> None:
        """Begin texts, on the current stream."""
        batch = self.seed.size
        self.temperature.set([self.warmth(temperature)] * batch)
        self.seed.set((np.arange(batch) + seed).astype(np.uint32))

    def begin(self, sequence: int, temperature: float | None, seed: int | None) -> None:
        """Begin one text, on the current stream, with what the text before in its place had where there is None."""
        if temperature is not None:
            self.temperature[sequence : sequence + 1].set([self.warmth(temperature)])
        if seed is not None:
            self.seed[sequence : sequence + 1].set([seed])

    def warmth(self, temperature: float) -> float:
        """Return the temperature at which is drawn where a temperature is asked for."""
        # `filter_logits` keeps equal logits together, of which a temperature would draw any.
        return 0.0 if self.sampling.top_k == 1 else temperature

    def draw(self, logits: Array, tokens: Array, position: Array) -> Array:
        """Launch the draw of a token for each text.

        Parameters
        ----------
        logits : Array, shape (batch, width)
        tokens : Array of int32, shape (batch, capacity)
            The texts so far.
        position : Array of int32, shape (batch,)
            The place of the newest token of each text.

        Returns
        -------
        Array of int32, shape (batch,)
        """
        if self.is_penalised:
            rows = range(len(logits))
            changed = [self.penalised(logits[i : i + 1], tokens[i], position[i : i + 1]) for i in rows]
            logits = changed[0] if len(changed) == 1 else kernels.concatenate(changed)
        top_k, top_p, min_p = map(self.filters.get, ("top_k", "top_p", "min_p"))
        return kernels.sample(logits, self.temperature, self.seed, position, top_k=top_k, top_p=top_p, min_p=min_p)

    def penalised(self, logits: Array, tokens: Array, position: Array) -> Array:
        """Launch the penalties of one text; return its logits."""
        sampling = self.sampling
        if sampling.repetition_penalty != 1:
            logits = kernels.repetition_penalty(logits, tokens, position, self.repetition, window=sampling.window)
        if self.ones is not None:
            mask = kernels.repetition_penalty(self.ones, tokens, position, self.two, window=sampling.window)
            less = kernels.multiply(kernels.subtract(mask, 1.0), 2.0 * sampling.presence_penalty)
            logits = kernels.add(logits, less)
        return logits
