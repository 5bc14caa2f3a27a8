"""CheckpointWeights: the arrays of a model directory, put together on the host and copied to the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Array
from hiprt.bench.engine.checkpoint import FLOATS, Checkpoint
from hiprt.bench.engine.errors import DOWNLOAD, CheckpointError
from hiprt.bench.engine.matrix import Matrix, Quantized, cut, join, lifted, reordered, stacked
from hiprt.bench.engine.models.finite import Finite
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.shard import WHOLE, Shard
from hiprt.bench.engine.models.upload import Upload
from hiprt.bench.engine.models.weights import Part
from hiprt.kernels.ops.quantized.formats import Format

__all__ = ["CheckpointWeights"]

PREFIXES = ("model.", "language_model.model.", "model.language_model.")
# Parts that no model here uses: pictures, and the prediction of more than one token.
OTHERS = ("vision_tower.", "model.visual.", "mtp.", "language_model.mtp.")
INTEGER_GROUP = 64  # values in a group of integer codes among floating ones
EMBEDDING, HEAD, CONV = "embed_tokens", "lm_head", "linear_attn.conv1d.weight"


class CheckpointWeights:
    """The weights of a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
    form : Format, optional
        The format to which plain weights are quantised; None leaves them plain.
    progress : callable
        Takes how many bytes have been copied, and how many there are.
    shard : Shard, optional
        Which part of the matrices a rank reads.

    Attributes
    ----------
    dtype : numpy.dtype
        The dtype of the embedding, or of its scales.

    Raises
    ------
    CheckpointError
        There is no embedding, or it has no floating dtype.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        form: Format | None,
        progress: Callable[[int, int], object],
        shard: Shard = WHOLE,
    ) -> None:
        self.checkpoint, self.shard = checkpoint, shard
        self.copy = Upload(checkpoint.nbytes, progress, checkpoint.files.values())
        # In a quantised checkpoint, a module that is plain was left so on purpose.
        self.form = None if checkpoint.section else form
        names = checkpoint.places
        self.prefix = next((p for p in PREFIXES if f"{p}{EMBEDDING}.weight" in names), PREFIXES[0])
        self.head = "language_model.lm_head" if self.prefix == PREFIXES[1] else HEAD
        self.dtype = checkpoint.dtype_of(self.prefix + EMBEDDING, f"{self.prefix}norm.weight")
        self.identity = f"{checkpoint.fingerprint}, {self.form}{shard.name}"
        # As published, hybrids store a norm's weight less 1, and a convolution as (channels, 1, taps). MLX's conversion
        # adds the 1 and stores (channels, taps, 1).
        convs = [file.entries[name] for name, file in names.items() if name.endswith(CONV)]
        self.is_published = any(entry.shape[-1] != 1 for entry in convs)
        self.finite = Finite()

    def refuse(self, modules: Sequence[str]) -> None:
        """Raise for the first tensor of some modules that holds NaN or infinity."""
        for name, file in self.checkpoint.places.items():
            if f"{name}.".startswith(tuple(f"{module}." for module in modules)) and file[name].dtype in FLOATS:
                if not np.isfinite(file[name].astype(np.float32)).all():
                    raise CheckpointError(f"{file.path}: {name} holds NaN or infinity", DOWNLOAD)
        cause = f"{self.checkpoint.path}: {modules[0]} has values that {self.dtype} cannot hold"
        raise CheckpointError(cause, "convert the model to bfloat16 or float32")

    def full(self, name: str) -> str:
        """Return the name that a module has in the checkpoint."""
        return self.head if name == HEAD else self.prefix + name

    def has(self, module: str) -> bool:
        """Whether there is a module of this name."""
        return f"{self.full(module)}.weight" in self.checkpoint.places

    def norm(self, name: str, size: int) -> Array:
        """Return the weight of a root-mean-square norm."""
        weight = self.floats(f"{name}.weight", (size,))
        return self.checked(name, weight.astype(np.float32) + 1 if self.is_published else weight, self.dtype)

    def vector(self, name: str, size: int, dtype: np.dtype[Any] | None = None) -> Array:
        """Return a vector, converted to a dtype."""
        return self.checked(name, self.floats(name, (size,)), dtype or self.dtype)

    def conv(self, name: str, channels: int, taps: int) -> Array:
        """Return the weight of a depthwise convolution: shape (channels, taps)."""
        shape = (channels, 1, taps) if self.is_published else (channels, taps, 1)
        return self.checked(name, self.floats(f"{name}.weight", shape).reshape(channels, taps), self.dtype)

    def checked(self, name: str, values: NDArray[Any], dtype: np.dtype[Any]) -> Array:
        """Copy values to the device in a dtype, and have them checked for NaN and infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            made = self.copy(values.astype(dtype))
        self.copy.then(lambda: self.finite.ask(made, [name]))
        return made

    def floats(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a tensor of any floating dtype."""
        full = self.full(name)
        return self.checkpoint.tensor(full, shape, self.checkpoint.floating(full))

    def matrix(self, parts: Sequence[Part], columns: int, bits: int | None = None) -> Linear:
        """Return one matrix of the rows of several parts."""
        found = []
        for part in parts:
            whole = self.checkpoint.matrix(self.full(part.module), (part.rows, columns), self.dtype)
            found.append(self.own(part.module, whole if part.order is None else reordered(whole, part.order)))
        made = self.upload(join(found), [part.module for part in parts], bits)
        return replace(made, ranks=self.shard.sums(parts[0].module))

    def own(self, module: str, whole: Matrix) -> Matrix:
        """Return this rank's part of a matrix, or of each of a stack."""
        place = self.shard.place(module, *whole.shape[-2:])
        return whole if place is None else cut(whole, *place)

    def experts(self, at: str, names: Sequence[str], count: int, rows: int, columns: int, is_shared: bool) -> Linear:
        """Return a stack with a matrix for each expert, the shared one last."""
        stack = join([self.stack(at, name, count, rows, columns) for name in names])
        if is_shared:
            modules = [self.full(f"{at}.shared_expert.{name}") for name in names]
            found = [self.checkpoint.matrix(module, (rows, columns), self.dtype) for module in modules]
            one = join([self.own(module, each) for module, each in zip(modules, found)])
            stack = join([stack, lifted(one)], 0)
        return replace(self.upload(stack, [at]), ranks=self.shard.sums(names[0]))

    def stack(self, at: str, name: str, count: int, rows: int, columns: int) -> Matrix:
        """Return a stack of one matrix of every expert, from whichever of three layouts the checkpoint has."""
        shape, full = (count, rows, columns), self.full(at)
        if self.has(f"{at}.switch_mlp.{name}"):
            return self.own(name, self.checkpoint.matrix(f"{full}.switch_mlp.{name}", shape, self.dtype))
        if f"{full}.experts.down_proj" in self.checkpoint.places:
            if name == "down_proj":
                return self.own(name, self.checkpoint.tensor(f"{full}.experts.down_proj", shape, self.dtype))
            both = self.checkpoint.tensor(f"{full}.experts.gate_up_proj", (count, 2 * rows, columns), self.dtype)
            return self.own(name, both[:, :rows] if name == "gate_proj" else both[:, rows:])
        modules = [f"{full}.experts.{index}.{name}" for index in range(count)]
        found = [self.checkpoint.matrix(module, shape[1:], self.dtype) for module in modules]
        return stacked([self.own(name, each) for each in found])

    def upload(self, matrix: Matrix, modules: Sequence[str], bits: int | None = None) -> Linear:
        """Copy a matrix to the device; quantise a plain one there, where `form` asks for it and the group size fits.

        As mlx-lm does, rows that are no whole groups stay plain.
        """
        made = Linear.upload(matrix, self.copy)
        self.copy.then(lambda: self.uploaded(made, modules))
        if isinstance(matrix, Quantized) or self.form is None:
            return made
        form = self.form
        if bits:  # as in mlx-lm, a module whose bits its family chooses has integer codes in every mode
            form = Format("affine", form.group_size if form.is_affine else INTEGER_GROUP, bits)
        if matrix.shape[-1] % form.group_size:
            return made
        self.copy.wait()
        return made.quantized(form)

    def uploaded(self, made: Linear, modules: Sequence[str]) -> None:
        """Have the values of a matrix checked whose copies are in the stream."""
        self.checkpoint.release()  # what was put together on the host has mapped pages of the files
        for part in (made.weight if made.scales is None else made.scales, made.biases):
            if part is not None and part.dtype != np.uint8:
                self.finite.ask(part, modules)

    def wait(self) -> None:
        """Wait until all copies are in the stream."""
        self.copy.wait()

    def finish(self) -> None:
        """Wait for the copies; warn about tensors that nothing asked for.

        Raises
        ------
        CheckpointError
            A tensor holds NaN or infinity, which would make every logit NaN.
        """
        self.copy.wait()
        self.checkpoint.release()
        unfit = [self.full(module) for module in self.finite.unfit()]
        if unfit:
            self.refuse(unfit)
        self.checkpoint.used.update(name for name in self.checkpoint.places if name.startswith(OTHERS))
        if self.has(HEAD) and self.checkpoint.settings.get("tie_word_embeddings", bool, False):
            self.checkpoint.used.add(f"{self.head}.weight")
        self.checkpoint.warn_unused()

    def close(self) -> None:
        """Give back what the copies need on the host."""
        self.copy.close()
