"""Random checkpoints of every family, in the published layout and in MLX's, that stand for the same float32 weights."""

import json

import numpy as np
from safetensors.numpy import save_file

from helpers.checkpoints import tokenizer
from hiprt.array import dtype_of
from hiprt.bench.engine.models.presets import MINIS
from hiprt.kernels.reference.quantize import dequantize, quantize

GROUP, BITS, ROUTER_BITS = 64, 4, 8
CENTRED = ("input_layernorm.weight", "post_attention_layernorm.weight", "q_norm.weight", "k_norm.weight")


def attention(at, config):
    """Return the shapes of an attention layer's matrices and vectors."""
    hidden, width = config["hidden_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    return {
        f"{at}.self_attn.q_proj.weight": (heads * (2 if is_hybrid(config) else 1), hidden),
        f"{at}.self_attn.k_proj.weight": (groups, hidden),
        f"{at}.self_attn.v_proj.weight": (groups, hidden),
        f"{at}.self_attn.o_proj.weight": (hidden, heads),
        f"{at}.self_attn.q_norm.weight": (width,),
        f"{at}.self_attn.k_norm.weight": (width,),
    }


def delta(at, config):
    """Return the shapes of a gated-delta layer's matrices and vectors."""
    hidden, heads = config["hidden_size"], config["linear_num_value_heads"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = heads * config["linear_value_head_dim"]
    shapes = {"in_proj_qkv": 2 * keys + values, "in_proj_z": values, "in_proj_b": heads, "in_proj_a": heads}
    if config["model_type"] == "qwen3_next":
        shapes = {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads}
    own = f"{at}.linear_attn"
    return {
        **{f"{own}.{name}.weight": (rows, hidden) for name, rows in shapes.items()},
        f"{own}.conv1d.weight": (2 * keys + values, 1, config["linear_conv_kernel_dim"]),
        f"{own}.A_log": (heads,),
        f"{own}.dt_bias": (heads,),
        f"{own}.norm.weight": (config["linear_value_head_dim"],),
        f"{own}.out_proj.weight": (hidden, values),
    }


def feed(at, config, inner):
    """Return the shapes of a gated MLP's matrices."""
    hidden = config["hidden_size"]
    return {
        f"{at}.gate_proj.weight": (inner, hidden),
        f"{at}.up_proj.weight": (inner, hidden),
        f"{at}.down_proj.weight": (hidden, inner),
    }


def mixture(at, config):
    """Return the shapes of the matrices of a mixture of experts."""
    hidden, shared = config["hidden_size"], config.get("shared_expert_intermediate_size", 0)
    shapes = {f"{at}.gate.weight": (config["num_experts"], hidden)}
    for expert in range(config["num_experts"]):
        shapes |= feed(f"{at}.experts.{expert}", config, config["moe_intermediate_size"])
    if shared:
        shapes |= feed(f"{at}.shared_expert", config, shared) | {f"{at}.shared_expert_gate.weight": (1, hidden)}
    return shapes


def is_hybrid(config):
    """Whether the family has gated-delta layers, and norms whose weights are stored less 1."""
    return "linear_num_key_heads" in config


def is_delta(config, layer):
    """Whether a layer is a gated-delta layer."""
    return is_hybrid(config) and (layer + 1) % config["full_attention_interval"] != 0


def shapes_of(config):
    """Return the shape of every tensor of the published layout."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.input_layernorm.weight": (hidden,), f"{at}.post_attention_layernorm.weight": (hidden,)}
        shapes |= (delta if is_delta(config, layer) else attention)(at, config)
        inner = config["intermediate_size"]
        is_sparse = config.get("num_experts") and layer not in config.get("mlp_only_layers", [])
        shapes |= mixture(f"{at}.mlp", config) if is_sparse else feed(f"{at}.mlp", config, inner)
    return shapes


def is_centred(name, config):
    """Whether a tensor is a norm's weight that is stored less 1."""
    return is_hybrid(config) and (name.endswith(CENTRED) or name == "model.norm.weight")


class Family:
    """A small model of a family with random weights.

    Attributes
    ----------
    config : dict
        For config.json.
    weights : dict
        The published layout's tensors, float32: what both layouts stand for.
    codes : dict
        Module to codes, scales and biases, group size and bits.
    """

    def __init__(self, name, dtype, seed=0, **changes):
        self.config = {**MINIS[name], **changes, "bos_token_id": 256, "hidden_act": "silu"}
        self.dtype = dtype_of(dtype)
        self.weights, self.codes = {}, {}
        rng = np.random.default_rng(seed)
        for tensor, shape in shapes_of(self.config).items():
            self.draw(tensor, shape, rng)

    def draw(self, name, shape, rng):
        """Make a tensor that is exact in the model's dtype, a matrix as its codes say."""
        if len(shape) != 2:
            middle, spread = {"A_log": (0, 0.5), "dt_bias": (-2, 0.5), "conv1d.weight": (0, 0.5)}.get(
                name.split("linear_attn.")[-1], (1, 0.1)
            )
            value = (middle + spread * rng.standard_normal(shape)).astype(np.float32)
            value = value.astype(self.dtype).astype(np.float32)
            self.weights[name] = value - 1 if is_centred(name, self.config) else value
            return
        module = name.removesuffix(".weight")
        is_router = module.endswith((".gate", "shared_expert_gate"))
        spread = 1.0 if "embed" in name else (8.0 if is_router else 0.5) / np.sqrt(shape[1])
        bits = ROUTER_BITS if is_router else BITS
        values = (rng.standard_normal(shape) * spread).astype(self.dtype)
        packed, scales, biases = quantize(values, GROUP, bits)
        self.codes[module] = packed, scales, biases, GROUP, bits
        self.weights[name] = dequantize(packed, scales.astype(np.float32), biases.astype(np.float32), GROUP, bits)

    def write_published(self, folder, dtype="float32"):
        """Write plain weights."""
        stored = {name: np.ascontiguousarray(value.astype(dtype_of(dtype))) for name, value in self.weights.items()}
        return write(folder, self.config, stored)

    def write_mlx(self, folder, *, is_nested=False):
        """Write codes; experts are stacked, norms whole, convolutions turned; as the text part of a larger model."""
        prefix = "language_model." if is_nested else ""
        stored, section, stacks = {}, {"group_size": GROUP, "bits": BITS}, {}
        for name, value in self.weights.items():
            full = prefix + name
            module = name.removesuffix(".weight")
            if module in self.codes:
                *parts, group_size, bits = self.codes[module]
                module = full.removesuffix(".weight")
                if (group_size, bits) != (GROUP, BITS):
                    section[module] = {"group_size": group_size, "bits": bits}
                for kind, part in zip(("weight", "scales", "biases"), parts):
                    if ".experts." in module:
                        at, _, rest = module.partition(".experts.")
                        stacks.setdefault(f"{at}.switch_mlp.{rest.split('.')[1]}.{kind}", []).append(part)
                    else:
                        stored[f"{module}.{kind}"] = part
            elif name.endswith("A_log"):
                stored[full] = value
            else:
                value = value.transpose(0, 2, 1) if "conv1d" in name else value
                stored[full] = (value + is_centred(name, self.config)).astype(self.dtype)
        stored |= {name: np.stack(parts) for name, parts in stacks.items()}
        stored = {name: np.ascontiguousarray(value) for name, value in stored.items()}
        config = self.config
        if is_nested:
            config = {"model_type": config["model_type"], "text_config": config}
        return write(folder, {**config, "quantization": section}, stored)


def write(folder, config, stored):
    """Write a model directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer().save(str(folder / "tokenizer.json"))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    return folder
