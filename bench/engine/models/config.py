"""Config: the sizes and constants of a model of any family."""

from __future__ import annotations

from dataclasses import dataclass

from hiprt.bench.engine.settings import Settings

__all__ = ["Config", "Delta", "Mixture"]

REMEDY = "use a model of this type with plain settings"
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Mixture:
    """The mixture of experts of a layer.

    Attributes
    ----------
    experts, chosen : int
        How many experts there are, and how many each token takes.
    inner : int
        The width of an expert.
    shared : int
        The width of the expert that every token takes; 0 without one.
    is_normalized : bool
        Whether the shares of the chosen experts add up to 1.
    """

    experts: int
    chosen: int
    inner: int
    shared: int
    is_normalized: bool


@dataclass(frozen=True)
class Delta:
    """The gated delta rule of a layer.

    Attributes
    ----------
    key_heads, value_heads, key_width, value_width : int
    taps : int
        How many tokens the convolution in front of the rule sees.
    """

    key_heads: int
    value_heads: int
    key_width: int
    value_width: int
    taps: int

    @property
    def keys(self) -> int:
        """How many elements the keys of all heads have."""
        return self.key_heads * self.key_width

    @property
    def values(self) -> int:
        """How many elements the values of all heads have."""
        return self.value_heads * self.value_width

    @property
    def channels(self) -> int:
        """How many channels the convolution has: queries, keys and values."""
        return 2 * self.keys + self.values


@dataclass(frozen=True)
class Config:
    """Sizes and constants of a model, most under the names of config.json.

    Attributes
    ----------
    hidden_size, intermediate_size, vocab_size : int
    num_attention_heads, num_key_value_heads, head_dim : int
    rms_norm_eps, rope_theta : float
    rotary_dims : int
        How many elements of a head are rotated.
    tie_word_embeddings : bool
        Whether the embedding also turns the last state into logits.
    max_position_embeddings : int
        The longest text the model was trained for.
    layers : tuple of (str, str)
        The two parts of each layer: what mixes positions, ``attention`` or ``delta``, and ``mlp`` or ``moe``.
    is_gated : bool
        Whether a sigmoid gates the answers of attention.
    mixture : Mixture, optional
    delta : Delta, optional
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rotary_dims: int
    tie_word_embeddings: bool
    max_position_embeddings: int
    layers: tuple[tuple[str, str], ...]
    is_gated: bool = False
    mixture: Mixture | None = None
    delta: Delta | None = None

    @property
    def num_hidden_layers(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    @classmethod
    def read(cls, settings: Settings, rotary: float = 1.0) -> Config:
        """Read what all families have; every layer is attention and a gated MLP.

        Parameters
        ----------
        settings : Settings
        rotary : float
            The part of a head that is rotated, where the settings do not say.

        Raises
        ------
        CheckpointError
            A value is missing, of another type or not supported.
        """
        get = settings.get
        heads, hidden = get("num_attention_heads", int), get("hidden_size", int)
        width = get("head_dim", int, hidden // max(heads, 1))
        rope = settings.part("rope_parameters")
        part = get("partial_rotary_factor", float, rope.get("partial_rotary_factor", float, rotary))
        layers = get("num_hidden_layers", int)
        settings.refuse(
            {
                f"num_hidden_layers is {layers}, not from 1 to {MOST_LAYERS}": not 1 <= layers <= MOST_LAYERS,
                f"partial_rotary_factor is {part}, not above 0 and up to 1": not 0 < part <= 1,
            },
            REMEDY,
        )
        config = cls(
            hidden,
            # Models whose layers all are mixtures need not have it.
            get("intermediate_size", int, 1 if "moe_intermediate_size" in settings.values else None),
            get("vocab_size", int),
            heads,
            get("num_key_value_heads", int),
            width,
            get("rms_norm_eps", float),
            get("rope_theta", float) if "rope_theta" in settings.values else rope.get("rope_theta", float),
            int(width * part),
            get("tie_word_embeddings", bool, False),
            get("max_position_embeddings", int),
            (("attention", "mlp"),) * layers,
        )
        config.check(settings, rope)
        return config

    def check(self, settings: Settings, rope: Settings) -> None:
        """Refuse what these models do not compute; every refusal names the setting."""
        get = settings.get
        tables = (rope, settings.part("rope_scaling"))
        scaled = [table.get("rope_type", str, table.get("type", str, "default")) for table in tables]
        kind = get("model_type", str)
        sizes = {name: value for name, value in vars(self).items() if type(value) is int and name != "rotary_dims"}
        wrong = {
            "attention_bias true": get("attention_bias", bool, False),
            "use_sliding_window true": get("use_sliding_window", bool, False),
            "another hidden_act than silu": get("hidden_act", str, "silu") != "silu",
            "scaled rotary positions (rope_type)": scaled != ["default"] * 2,
            f"rms_norm_eps {self.rms_norm_eps}": self.rms_norm_eps < 0,
            f"rope_theta {self.rope_theta}": self.rope_theta <= 0,
            **{f"{name} {size}": size < 1 for name, size in sizes.items()},
        }
        settings.refuse({f"{kind} with {cause} is not supported": holds for cause, holds in wrong.items()}, REMEDY)
        heads, groups, width = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        unfit = {
            f"num_attention_heads {heads}, no multiple of num_key_value_heads {groups},": heads % groups,
            f"head_dim {width}, an odd number,": width % 2,
            f"partial_rotary_factor for {self.rotary_dims} of {width} elements": self.rotary_dims % 2
            or not 0 < self.rotary_dims <= width,
        }
        settings.refuse({f"{kind} with {cause} is not supported": bool(odd) for cause, odd in unfit.items()}, REMEDY)
