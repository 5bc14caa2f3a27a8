"""CheckpointWeights: the arrays of a model directory, put together on the host and copied to the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Array, array
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.matrix import Matrix, Quantized, join, lifted, reordered, stacked
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.weights import Part, group_of

__all__ = ["CheckpointWeights"]

PREFIXES = ("model.", "language_model.model.", "model.language_model.")
# Parts that no model here uses: pictures, and the prediction of more than one token.
OTHERS = ("vision_tower.", "model.visual.", "mtp.", "language_model.mtp.")
EMBEDDING, HEAD, CONV = "embed_tokens", "lm_head", "linear_attn.conv1d.weight"


class CheckpointWeights:
    """The weights of a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
    form : (int, int), optional
        The group size and bits to which plain weights are quantised; None leaves them plain.

    Attributes
    ----------
    dtype : numpy.dtype
        The dtype of the embedding, or of its scales.

    Raises
    ------
    CheckpointError
        There is no embedding, or it has no floating dtype.
    """

    def __init__(self, checkpoint: Checkpoint, form: tuple[int, int] | None) -> None:
        self.checkpoint = checkpoint
        # In a quantised checkpoint, a module that is plain was left so on purpose.
        self.form = None if checkpoint.section else form
        names = checkpoint.places
        self.prefix = next((p for p in PREFIXES if f"{p}{EMBEDDING}.weight" in names), PREFIXES[0])
        self.head = "language_model.lm_head" if self.prefix == PREFIXES[1] else HEAD
        self.dtype = checkpoint.dtype_of(self.prefix + EMBEDDING)
        # As published, hybrids store a norm's weight less 1, and a convolution as (channels, 1, taps). MLX's conversion
        # adds the 1 and stores (channels, taps, 1).
        convs = [file.entries[name] for name, file in names.items() if name.endswith(CONV)]
        self.is_published = any(entry.shape[-1] != 1 for entry in convs)

    def full(self, name: str) -> str:
        """Return the name that a module has in the checkpoint."""
        return self.head if name == HEAD else self.prefix + name

    def has(self, module: str) -> bool:
        """Whether there is a module of this name."""
        return f"{self.full(module)}.weight" in self.checkpoint.places

    def norm(self, name: str, size: int) -> Array:
        """Return the weight of a root-mean-square norm."""
        weight = self.checkpoint.tensor(f"{self.full(name)}.weight", (size,), self.dtype)
        return array((weight.astype(np.float32) + 1).astype(self.dtype) if self.is_published else weight)

    def vector(self, name: str, size: int, dtype: np.dtype[Any] | None = None) -> Array:
        """Return a vector, converted to a dtype."""
        return array(self.floats(name, (size,)).astype(dtype or self.dtype))

    def conv(self, name: str, channels: int, taps: int) -> Array:
        """Return the weight of a depthwise convolution: shape (channels, taps)."""
        shape = (channels, 1, taps) if self.is_published else (channels, taps, 1)
        return array(self.floats(f"{name}.weight", shape).reshape(channels, taps).astype(self.dtype))

    def floats(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a tensor of any floating dtype."""
        full = self.full(name)
        return self.checkpoint.tensor(full, shape, self.checkpoint.floating(full))

    def matrix(self, parts: Sequence[Part], columns: int, bits: int | None = None) -> Linear:
        """Return one matrix of the rows of several parts."""
        found = []
        for part in parts:
            whole = self.checkpoint.matrix(self.full(part.module), (part.rows, columns), self.dtype)
            found.append(whole if part.order is None else reordered(whole, part.order))
        return self.upload(join(found), bits)

    def experts(self, at: str, names: Sequence[str], count: int, rows: int, columns: int, is_shared: bool) -> Linear:
        """Return a stack with a matrix for each expert, the shared one last."""
        stack = join([self.stack(at, name, count, rows, columns) for name in names])
        if is_shared:
            modules = [self.full(f"{at}.shared_expert.{name}") for name in names]
            one = join([self.checkpoint.matrix(module, (rows, columns), self.dtype) for module in modules])
            stack = join([stack, lifted(one)], 0)
        return self.upload(stack)

    def stack(self, at: str, name: str, count: int, rows: int, columns: int) -> Matrix:
        """Return a stack of one matrix of every expert, from whichever of three layouts the checkpoint has."""
        shape, full = (count, rows, columns), self.full(at)
        if self.has(f"{at}.switch_mlp.{name}"):
            return self.checkpoint.matrix(f"{full}.switch_mlp.{name}", shape, self.dtype)
        if f"{full}.experts.down_proj" in self.checkpoint.places:
            if name == "down_proj":
                return self.checkpoint.tensor(f"{full}.experts.down_proj", shape, self.dtype)
            both = self.checkpoint.tensor(f"{full}.experts.gate_up_proj", (count, 2 * rows, columns), self.dtype)
            return both[:, :rows] if name == "gate_proj" else both[:, rows:]
        modules = [f"{full}.experts.{index}.{name}" for index in range(count)]
        return stacked([self.checkpoint.matrix(module, shape[1:], self.dtype) for module in modules])

    def upload(self, matrix: Matrix, bits: int | None = None) -> Linear:
        """Copy a matrix to the device; quantise a plain one there, where `form` asks for it and a group size fits."""
        made = Linear.upload(matrix)
        if isinstance(matrix, Quantized) or self.form is None:
            return made
        group_size = group_of(matrix.shape[-1], self.form[0])
        return made.quantized(group_size, bits or self.form[1]) if group_size else made

    def finish(self) -> None:
        """Warn about tensors that nothing asked for."""
        self.checkpoint.used.update(name for name in self.checkpoint.places if name.startswith(OTHERS))
        if self.has(HEAD) and self.checkpoint.settings.get("tie_word_embeddings", bool, False):
            self.checkpoint.used.add(f"{self.head}.weight")
        self.checkpoint.warn_unused()
