"""An inference engine of one's own: a small transformer whose every token is one replay of one graph.

You learn how to write a decode step with hiprt's ops, where the values that change from token to token must live, and
how `graphs.Step` turns the step into one graph launch. The same model stands beside it in numpy, as the check.

Run it, with no GPU needed: ``python examples/own_engine.py``
"""

import numpy as np

import hiprt
from hiprt import graphs, kernels

VOCABULARY, WIDTH, HEADS, HEAD, LAYERS, INNER, CAPACITY = 64, 64, 2, 32, 2, 128, 32
BASE, EPS, TOKENS = 10_000.0, 1e-6, 20


def make_weights(seed):
    """Random weights of the model, as numpy arrays by name."""
    draw = np.random.default_rng(seed)

    def matrix(rows, columns):
        return draw.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    weights = {"embedding": matrix(VOCABULARY, WIDTH) * 8, "head": matrix(VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        for name in ("q", "k", "v"):
            weights[f"{layer}.{name}"] = matrix(HEADS * HEAD, WIDTH)
        weights[f"{layer}.o"] = matrix(WIDTH, HEADS * HEAD)
        weights[f"{layer}.gate"], weights[f"{layer}.up"] = matrix(INNER, WIDTH), matrix(INNER, WIDTH)
        weights[f"{layer}.down"] = matrix(WIDTH, INNER)
        for name in ("norm1", "norm2"):
            weights[f"{layer}.{name}"] = draw.uniform(0.5, 1.5, WIDTH).astype(np.float32)
    return weights


class Engine:
    """The model on the device, and one text in the making."""

    def __init__(self, weights):
        self.weights = {name: hiprt.array(value) for name, value in weights.items()}
        # The caches are written in place: their addresses are the same for every token.
        shape = (HEADS, CAPACITY, HEAD)
        self.caches = [(hiprt.zeros(shape), hiprt.zeros(shape)) for _ in range(LAYERS)]
        # What changes from token to token lives on the device too. A Python number that is passed to a kernel is one of
        # the graph's arguments, so that a new number means a change of the graph; a number in memory means none.
        self.token, self.position = hiprt.zeros(1, np.int32), hiprt.zeros(1, np.int32)
        self.one = hiprt.full(1, 1, np.int32)
        self.step = graphs.Step(self.decode, overwrite=True)

    def project(self, x, name):
        """Multiply rows with a matrix. Its transpose is a view, so nothing is copied."""
        return kernels.matmul(x, self.weights[name].T)

    def decode(self):
        """Take the token at the position, choose the next one, and move on; Python runs this for the first only."""
        w, position = self.weights, self.position
        x = kernels.take(w["embedding"], self.token, axis=0)
        for layer, (keys, values) in enumerate(self.caches):
            h = kernels.rms_norm(x, w[f"{layer}.norm1"], EPS)
            q, k, v = (self.project(h, f"{layer}.{name}").reshape(HEADS, HEAD) for name in "qkv")
            kernels.kv_write(keys, kernels.rope(k, position, base=BASE), position)
            kernels.kv_write(values, v, position)
            q = kernels.rope(q, position, base=BASE)
            # It reads the position itself, and no further than that in the caches.
            mixed = kernels.attention(q, keys, values, position, scale=HEAD**-0.5)
            x = kernels.add(x, self.project(mixed.reshape(1, HEADS * HEAD), f"{layer}.o"))
            h = kernels.rms_norm(x, w[f"{layer}.norm2"], EPS)
            gated = kernels.silu_mul(self.project(h, f"{layer}.gate"), self.project(h, f"{layer}.up"))
            x = kernels.add(x, self.project(gated, f"{layer}.down"))
        logits = self.project(x, "head")
        kernels.argmax(logits, out=self.token)
        kernels.add(position, self.one, out=position)
        return logits


class Reference:
    """The same model in numpy, in float64."""

    def __init__(self, weights):
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}
        self.caches = [([], []) for _ in range(LAYERS)]
        self.position = 0

    def norm(self, x, weight):
        """The root-mean-square norm."""
        return x / np.sqrt(np.mean(x * x) + EPS) * weight

    def turn(self, x):
        """Rotate the pairs (i, i + HEAD / 2) of each head by the position."""
        angles = self.position * BASE ** (-np.arange(HEAD // 2) * 2 / HEAD)
        a, b = x[:, : HEAD // 2], x[:, HEAD // 2 :]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)

    def decode(self, token):
        """Return the logits behind a token."""
        w = self.weights
        x = w["embedding"][token]
        for layer, (keys, values) in enumerate(self.caches):
            h = self.norm(x, w[f"{layer}.norm1"])
            q, k, v = ((w[f"{layer}.{name}"] @ h).reshape(HEADS, HEAD) for name in "qkv")
            keys.append(self.turn(k))
            values.append(v)
            scores = np.einsum("hd,nhd->hn", self.turn(q), np.stack(keys)) * HEAD**-0.5
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            mixed = np.einsum("hn,nhd->hd", shares, np.stack(values))
            x = x + w[f"{layer}.o"] @ mixed.reshape(-1)
            h = self.norm(x, w[f"{layer}.norm2"])
            gate = w[f"{layer}.gate"] @ h
            x = x + w[f"{layer}.down"] @ (gate / (1 + np.exp(-gate)) * (w[f"{layer}.up"] @ h))
        self.position += 1
        return w["head"] @ x


def main():
    """Write a text with both and compare them token by token."""
    weights = make_weights(0)
    engine, reference = Engine(weights), Reference(weights)
    token, text, worst = 0, [], 0.0
    for _ in range(TOKENS):
        expected = reference.decode(token)
        logits = engine.step().numpy()[0]
        worst = max(worst, float(np.abs(logits - expected).max()))
        token = int(np.argmax(expected))
        assert engine.token.item() == token, "the engine and numpy chose different tokens"
        text.append(token)
    print("tokens ", *text)
    print("nodes  ", engine.step.nodes, "in one graph, with", engine.step.edges, "edges")
    print("rungs  ", engine.step.rungs)
    print("numpy   chose the same tokens; its logits differ by less than 1e-4:", worst < 1e-4)


if __name__ == "__main__":
    main()
