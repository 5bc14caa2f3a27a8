"""All families in plain numpy float32, from the published layout: logits of every position of a text."""

import numpy as np


def silu(x):
    return x * 0.5 * (1 + np.tanh(x / 2))


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class ReferenceModel:
    """A model over float32 weights under their published names."""

    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        self.is_hybrid = "linear_num_key_heads" in config

    def logits(self, tokens):
        """Return the logits after each token: [tokens, vocabulary]."""
        x = self.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}"
            mix = self.delta if f"{at}.linear_attn.A_log" in self.weights else self.attention
            x = x + mix(at, self.norm(x, f"{at}.input_layernorm"))
            feed = self.mixture if f"{at}.mlp.gate.weight" in self.weights else self.mlp
            x = x + feed(f"{at}.mlp", self.norm(x, f"{at}.post_attention_layernorm"))
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return self.product(self.norm(x, "model.norm"), head)

    def product(self, x, name):
        return x @ self.weights[f"{name}.weight"].T

    def norm(self, x, name):
        scaled = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(self.config["rms_norm_eps"]))
        return scaled * (self.weights[f"{name}.weight"] + np.float32(self.is_hybrid))

    def rotate(self, x):
        """Turn pairs (i, i + n/2) of the first n elements of each head by the angle of each row's position."""
        count = int(x.shape[-1] * self.config.get("partial_rotary_factor", 1.0))
        turns = self.config["rope_theta"] ** -(np.arange(0, count, 2, dtype=np.float64) / count)
        angles = np.arange(len(x))[:, None, None] * turns
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        low, high = x[..., : count // 2], x[..., count // 2 : count]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin, x[..., count:]], axis=-1)

    def attention(self, at, x):
        own, rows, width = f"{at}.self_attn", len(x), self.config["head_dim"]
        heads, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q, gate = self.product(x, f"{own}.q_proj").reshape(rows, heads, -1), None
        if self.is_hybrid:
            q, gate = np.split(q, 2, axis=-1)
        k, v = (self.product(x, f"{own}.{name}_proj").reshape(rows, groups, width) for name in "kv")
        q, k = self.rotate(self.norm(q, f"{own}.q_norm")), self.rotate(self.norm(k, f"{own}.k_norm"))
        k, v = (np.repeat(part, heads // groups, axis=1) for part in (k, v))
        scores = np.einsum("shd,thd->hst", q, k) / np.float32(np.sqrt(width))
        scores = np.where(np.tri(rows, dtype=bool), scores, -np.inf)
        mixed = np.einsum("hst,thd->shd", softmax(scores), v)
        mixed = mixed if gate is None else mixed * sigmoid(gate)
        return self.product(mixed.reshape(rows, -1), f"{own}.o_proj")

    def delta(self, at, x):
        own, rows, config = f"{at}.linear_attn", len(x), self.config
        heads, width = config["linear_num_value_heads"], config["linear_value_head_dim"]
        key_heads, key_width = config["linear_num_key_heads"], config["linear_key_head_dim"]
        q, k, v, z, b, a = self.projections(own, x)
        steps = np.concatenate([part.reshape(rows, -1) for part in (q, k, v)], axis=-1)
        taps = self.weights[f"{own}.conv1d.weight"][:, 0]
        padded = np.concatenate([np.zeros((taps.shape[1] - 1, steps.shape[1]), np.float32), steps])
        mixed = silu(sum(padded[i : i + rows] * taps[:, i] for i in range(taps.shape[1])))
        q, k, v = np.split(mixed, [key_heads * key_width, 2 * key_heads * key_width], axis=-1)
        q, k = (part.reshape(rows, key_heads, key_width) for part in (q, k))
        q, k = (part / np.sqrt((part * part).sum(axis=-1, keepdims=True) + np.float32(1e-6)) for part in (q, k))
        q, k = (np.repeat(part, heads // key_heads, axis=1) for part in (q / np.float32(np.sqrt(key_width)), k))
        v = v.reshape(rows, heads, width)
        soft = np.logaddexp(a + self.weights[f"{own}.dt_bias"], np.float32(0))
        kept, corrected = np.exp(-np.exp(self.weights[f"{own}.A_log"]) * soft), sigmoid(b)
        state = np.zeros((heads, key_width, width), np.float32)
        answers = np.zeros_like(v)
        for t in range(rows):
            state = state * kept[t][:, None, None]
            error = (v[t] - np.einsum("hkv,hk->hv", state, k[t])) * corrected[t][:, None]
            state = state + k[t][:, :, None] * error[:, None]
            answers[t] = np.einsum("hkv,hk->hv", state, q[t])
        scaled = answers / np.sqrt(np.mean(answers**2, axis=-1, keepdims=True) + np.float32(config["rms_norm_eps"]))
        gated = scaled * self.weights[f"{own}.norm.weight"] * silu(z.reshape(v.shape))
        return self.product(gated.reshape(rows, -1), f"{own}.out_proj")

    def projections(self, own, x):
        """Return q, k, v, z, b and a in either generation's layout."""
        config, rows = self.config, len(x)
        heads, width = config["linear_num_value_heads"], config["linear_value_head_dim"]
        key_heads, key_width = config["linear_num_key_heads"], config["linear_key_head_dim"]
        keys = key_heads * key_width
        if f"{own}.in_proj_qkv.weight" in self.weights:
            q, k, v = np.split(self.product(x, f"{own}.in_proj_qkv"), [keys, 2 * keys], axis=-1)
            return q, k, v, *(self.product(x, f"{own}.in_proj_{name}") for name in "zba")
        own_values = heads // key_heads * width
        parts = self.product(x, f"{own}.in_proj_qkvz").reshape(rows, key_heads, -1)
        q, k, v, z = np.split(parts, np.cumsum([key_width, key_width, own_values]), axis=-1)
        b, a = np.split(self.product(x, f"{own}.in_proj_ba").reshape(rows, key_heads, -1), 2, axis=-1)
        return q, k, v, z, b.reshape(rows, -1), a.reshape(rows, -1)

    def mlp(self, at, x):
        inner = silu(self.product(x, f"{at}.gate_proj")) * self.product(x, f"{at}.up_proj")
        return self.product(inner, f"{at}.down_proj")

    def mixture(self, at, x):
        shares = softmax(self.product(x, f"{at}.gate"))
        chosen = np.argsort(-shares, axis=-1, kind="stable")[:, : self.config["num_experts_per_tok"]]
        answer = np.zeros_like(x)
        for row, experts in enumerate(chosen):
            taken = shares[row, experts]
            taken = taken / taken.sum() if self.config.get("norm_topk_prob", True) else taken
            for share, expert in zip(taken, experts):
                answer[row] += share * self.mlp(f"{at}.experts.{expert}", x[row : row + 1])[0]
        if f"{at}.shared_expert_gate.weight" in self.weights:
            gate = sigmoid(self.product(x, f"{at}.shared_expert_gate"))
            answer = answer + gate * self.mlp(f"{at}.shared_expert", x)
        return answer
