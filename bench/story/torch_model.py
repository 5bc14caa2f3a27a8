"""Qwen3 dense in plain torch, with its weights under their checkpoint names, and rounding to 4 bits for training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Weights = dict[str, torch.Tensor]


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight of a model with tied embeddings."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    layer = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (groups, hidden),
        "self_attn.v_proj": (groups, hidden),
        "self_attn.o_proj": (hidden, heads),
        "self_attn.q_norm": (width,),
        "self_attn.k_norm": (width,),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens": (config["vocab_size"], hidden)}
    for at in range(config["num_hidden_layers"]):
        found.update({f"model.layers.{at}.{name}": shape for name, shape in layer.items()})
    return {**found, "model.norm": (hidden,)}


def initial(config: Mapping[str, Any], seed: int, device: str) -> Weights:
    """Return fresh float32 weights: ones for norms, normal values for matrices, smaller ones where a layer adds."""
    generator = torch.Generator().manual_seed(seed)
    weights: Weights = {}
    for name, shape in shapes(config).items():
        if len(shape) == 1:
            value = torch.ones(shape)
        else:
            scale = 0.02 if name == "model.embed_tokens" else shape[1] ** -0.5
            if name.endswith(("o_proj", "down_proj")):
                scale /= (2 * config["num_hidden_layers"]) ** 0.5
            value = torch.randn(shape, generator=generator) * scale
        weights[name] = value.to(device).requires_grad_()
    return weights


def logits(config: Mapping[str, Any], weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits [batch, length, vocabulary] for tokens [batch, length]."""
    eps = config["rms_norm_eps"]
    cos, sin = _angles(config, tokens.shape[1], tokens.device)
    x = F.embedding(tokens, weights["model.embed_tokens"])
    for layer in range(config["num_hidden_layers"]):
        part = {name.split(".", 3)[3]: w for name, w in weights.items() if name.startswith(f"model.layers.{layer}.")}
        x = x + _attention(config, part, _norm(x, part["input_layernorm"], eps), cos, sin)
        h = _norm(x, part["post_attention_layernorm"], eps)
        inner = F.silu(F.linear(h, part["mlp.gate_proj"])) * F.linear(h, part["mlp.up_proj"])
        x = x + F.linear(inner, part["mlp.down_proj"])
    return F.linear(_norm(x, weights["model.norm"], eps), weights["model.embed_tokens"])


def rounded(weights: Weights, group_size: int, bits: int) -> Weights:
    """Return weights as a checkpoint holds them: matrices quantised, the rest in bfloat16; gradients pass unchanged."""
    with torch.no_grad():
        lost = {
            name: (_quantised(w, group_size, bits) if w.dim() == 2 else w.bfloat16().float()) - w
            for name, w in weights.items()
        }
    return {name: w + lost[name] for name, w in weights.items()}


def _quantised(w: torch.Tensor, group_size: int, bits: int) -> torch.Tensor:
    """Return what `quantize` keeps of bfloat16 weights; `hiprt.kernels.reference.quantize` says the same in numpy."""
    groups = w.bfloat16().float().view(-1, group_size)
    low, high = groups.aminmax(dim=-1, keepdim=True)
    low_is_edge = low.abs() > high.abs()
    scale = ((high - low) / (2**bits - 1)).clamp(min=1e-7)
    scale = torch.where(low_is_edge, scale, -scale)
    edge = torch.where(low_is_edge, low, high)
    code_of_zero = torch.round(edge / scale)
    reached = code_of_zero != 0
    scale = torch.where(reached, edge / torch.where(reached, code_of_zero, 1.0), scale)
    bias = torch.where(reached, edge, 0.0)
    codes = torch.round((groups - bias) / scale).clamp(0, 2**bits - 1)
    return (codes * scale.bfloat16().float() + bias.bfloat16().float()).view_as(w)


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def _angles(config: Mapping[str, Any], length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    width = config["head_dim"]
    frequencies = config["rope_theta"] ** -(torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
    angles = torch.arange(length, device=device, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().float(), angles.sin().float()


def _attention(
    config: Mapping[str, Any], part: Weights, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    heads: list[torch.Tensor] = []
    for name in "qkv":
        split = F.linear(x, part[f"self_attn.{name}_proj"]).unflatten(-1, (-1, config["head_dim"])).transpose(1, 2)
        if name != "v":
            low, high = _norm(split, part[f"self_attn.{name}_norm"], config["rms_norm_eps"]).chunk(2, dim=-1)
            split = torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(split.dtype)
        heads.append(split)
    mixed = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
    return F.linear(mixed.transpose(1, 2).flatten(2), part["self_attn.o_proj"])
