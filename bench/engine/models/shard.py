"""Shard: which part of a model a rank has where several decode it together (tensor parallel).

- ``q_proj``, ``k_proj``, ``v_proj``: the rows of its heads. Keys and values of fewer heads than ranks are on several.
- ``gate_proj``, ``up_proj``, of each expert too: its part of the rows.
- ``o_proj``, ``down_proj``, of each expert too: the columns for those rows, in whole groups. The products are summed up
  over the ranks.
- ``lm_head``, and the embedding where it is the head: its part of the vocabulary. The logits of all ranks are put
  together.
- The embedding, norms, routers and gated-delta layers: all of it.

So a layer of attention and one of an MLP each end with one sum over the ranks, which is a node of the step, and every
rank has the same residual stream, logits and tokens. After Shoeybi et al., "Megatron-LM", 2019, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiprt.bench.engine.models.config import Config
from hiprt.distributed import Communicator

__all__ = ["WHOLE", "Shard", "check"]

ROWS, KEYS, COLUMNS, HEAD = ("q_proj", "gate_proj", "up_proj"), ("k_proj", "v_proj"), ("o_proj", "down_proj"), "lm_head"
Place = tuple[slice, slice]


@dataclass(frozen=True)
class Shard:
    """What a rank has of the matrices of a model.

    Attributes
    ----------
    communicator : Communicator, optional
        The ranks; without one, all is whole.
    key_heads : int
        The heads of keys in the whole model.
    """

    communicator: Communicator | None = None
    key_heads: int = 1

    @classmethod
    def of(cls, config: Config, ranks: Communicator | None, group_size: int, name: str) -> Shard:
        """Return this rank's part of a model; see `check`."""
        if ranks is None or ranks.ranks == 1:
            return WHOLE
        check(config, ranks.ranks, group_size, name)
        return cls(ranks, config.num_key_value_heads)

    @property
    def name(self) -> str:
        """What tells a rank's part from others; empty for a whole model."""
        ranks = self.communicator
        return "" if ranks is None else f", part {ranks.rank} of {ranks.ranks}"

    def own(self, config: Config) -> Config:
        """Return the sizes of this rank's layers."""
        if self.communicator is None:
            return config
        ranks, mixture = self.communicator.ranks, config.mixture
        if mixture is not None:
            mixture = replace(mixture, inner=mixture.inner // ranks, shared=mixture.shared // ranks)
        return replace(
            config,
            intermediate_size=config.intermediate_size // ranks,
            num_attention_heads=config.num_attention_heads // ranks,
            num_key_value_heads=max(config.num_key_value_heads // ranks, 1),
            mixture=mixture,
        )

    def place(self, module: str, rows: int, columns: int) -> Place | None:
        """Return which rows and columns of a matrix this rank has; None for all.

        Parameters
        ----------
        module : str
            Its name in checkpoints.
        rows, columns : int
            Its whole size.
        """
        name, ranks = module.rpartition(".")[2], self.communicator
        if ranks is None or name not in (*ROWS, *KEYS, *COLUMNS, HEAD):
            return None
        if name in COLUMNS:
            return slice(0, rows), ranks.part(columns)
        if name in KEYS:
            heads, width = self.key_heads, rows // self.key_heads
            first = ranks.rank * heads // ranks.ranks
            return slice(first * width, (first + max(heads // ranks.ranks, 1)) * width), slice(0, columns)
        return ranks.part(rows), slice(0, columns)

    def sums(self, module: str) -> Communicator | None:
        """Return the ranks over which the products of a matrix are summed up; None where they are whole."""
        return self.communicator if module.rpartition(".")[2] in COLUMNS else None


WHOLE = Shard()


def check(config: Config, ranks: int, group_size: int, name: str) -> None:
    """Raise where a model cannot be split over so many ranks.

    Parameters
    ----------
    config : Config
    ranks : int
    group_size : int
        The columns of a row that share a scale; 1 for plain weights.
    name : str
        The model's name, for the message.

    Raises
    ------
    ValueError
    """
    heads, keys, mixture = config.num_attention_heads, config.num_key_value_heads, config.mixture
    wrong = {
        f"{heads} attention heads are no multiple of {ranks}": heads % ranks,
        f"of {keys} key heads and {ranks} ranks neither is a multiple of the other": keys % ranks and ranks % keys,
    }
    widths = {"the width of all heads": heads * config.head_dim}
    if any(feed == "mlp" for _, feed in config.layers):
        widths["intermediate_size"] = config.intermediate_size
    if mixture is not None:
        widths["moe_intermediate_size"] = mixture.inner
        if mixture.shared:
            widths["shared_expert_intermediate_size"] = mixture.shared
    for what, width in widths.items():
        wrong[f"{what}, {width}, is no multiple of {ranks} times groups of {group_size}"] = width % (ranks * group_size)
    cause = next((cause for cause, is_wrong in wrong.items() if ranks > 1 and is_wrong), None)
    if cause is not None:
        raise ValueError(f"{name} cannot be split over {ranks} ranks: {cause}")
