"""Models for pages, and a reader of pages that shares nothing with the page or its writer."""

import base64
import json
import re
import struct
import zlib

import numpy as np
import torch

from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.tokens import bytes_tokenizer

BAD = "</script><script>window.hacked=1</script>"
TEXT = f"boids {BAD} fly"


def tokenizer():
    """Bytes, and one token that is out to hurt."""
    with_bad_token = bytes_tokenizer()
    with_bad_token.add_tokens([BAD])
    return with_bad_token


def model(**fields):
    """Three layers of two heads, rules strong enough to see."""
    torch.manual_seed(5)
    few = dict(
        vocab_size=259, hidden_size=28, num_hidden_layers=3, num_attention_heads=2,
        initializer_range=0.4, max_position_embeddings=64,
        attention_options={"omega": 0.7, "k": 3, "d_z": 5, "d_a": 3},
    )  # fmt: skip
    return AscenderForCausalLM(AscenderConfig(**{**few, **fields})).eval()


def flock_model(share_neighbours=1, **options):
    """The same in flock scope, the affinity term on: two far keys, a window and a global token."""
    few = {"omega": 0.7, "k": 2, "d_z": 5, "d_a": 3}
    near = {"scope": "flock", "far": 2, "window": 1, "n_global": 1}
    options = {**few, **near, **options}
    return model(attention_options=options, share_neighbours=share_neighbours)


def with_temperatures(net):
    """The same model, another τ_score in every head."""
    with torch.no_grad():
        for name, number in net.named_parameters():
            if name.endswith("log_tau_score"):
                number.add_(torch.linspace(-0.4, 0.3, number.numel()))
    return net


def data_of(html):
    """The JSON inside a page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(match[1])


class Reader:
    """A page's numbers, as a reader without a browser gets them."""

    def __init__(self, html):
        self.data = data_of(html)

    def array(self, place):
        blob = self.data["blobs"][place]
        raw = base64.b64decode(blob["d"])
        raw = zlib.decompress(raw) if blob["z"] else raw
        n, m = blob["n"], blob["m"]
        if blob["t"] == "f4":
            return np.array(struct.unpack(f"<{n * m}f", raw)).reshape(n, m)
        if blob["t"] == "u1":
            return np.array(list(raw)).reshape(n, m)
        if blob["t"] == "b1":
            line = -(-m // 8)
            return np.array(
                [[raw[i * line + j // 8] >> (j % 8) & 1 for j in range(m)] for i in range(n)]
            )
        if blob["t"] == "u2":
            return np.array([raw[x] + 256 * raw[n * m + x] for x in range(n * m)]).reshape(n, m)
        width = {"i3": 3, "i2": 2}[blob["t"]]
        scale = struct.unpack(f"<{n}f", raw[: 4 * n])
        planes = raw[4 * n :]
        out = np.zeros((n, m))
        for i in range(n):
            for j in range(m):
                digits = bytes(planes[p * n * m + i * m + j] for p in range(width))
                out[i, j] = int.from_bytes(digits, "little", signed=True) * scale[i]
        return out

    def head(self, layer, h, of=0, dense=False):
        """Every term, total and weights of a head, recomputed."""
        head = self.data["models"][of]["layers"][layer]["heads"][h]
        head = head["dense"] if dense else head
        N = len(self.data["models"][of]["tokens"])
        V = self._visible(head["mask"], N)
        terms = [t for t in ("base", "align", "sep", "coh", "aff", "other") if t in head]
        terms_of = {t: self._term(head, t, V, N) for t in terms}
        terms_of["total"] = sum(terms_of.values()) / head["tau"]
        if "weights" in head:
            terms_of["weights"] = self.array(head["weights"]["matrix"])
        else:
            e = np.where(V, np.exp(terms_of["total"] - terms_of["total"].max(-1, keepdims=True)), 0)
            terms_of["weights"] = e / e.sum(-1, keepdims=True)
        return terms_of

    def _visible(self, mask, N):
        if mask == "all":
            return np.ones((N, N), bool)
        if mask == "causal":
            return np.tril(np.ones((N, N), bool))
        return self.array(mask) > 0

    def _term(self, head, name, V, N):
        form, out = head[name], np.zeros((N, N))
        if form is None:
            return out
        if "matrix" in form:
            return self.array(form["matrix"])
        near = [[j for j in row if j != 65535] for row in self.array(head["near"])] if (
            "near" in head) else []  # fmt: skip
        row = {key: self.array(form[key])[0] for key in ("f", "g") if key in form}
        read = {key: self.array(p) for key, p in form.items() if key not in row and p is not None}
        if name == "align" and "keys" not in read:
            R = self.array(head["base"]["R"])
            read["keys"] = R / np.linalg.norm(R, axis=-1, keepdims=True)
        for i in range(N):
            for j in range(N):
                if not V[i, j]:
                    continue
                if "L" in read:
                    out[i, j] = read["L"][i] @ read["R"][j]
                elif "keys" in read:
                    s = sum((read["keys"][l] for l in near[i]), np.zeros_like(read["keys"][0]))
                    s = s / max(np.linalg.norm(s), 1e-12)
                    out[i, j] = row["f"][i] * (read["keys"][j] @ s) + row["g"][i]
                elif "z" in read:
                    far = ((read["z"][j] - read["c"][i]) ** 2).sum()
                    out[i, j] = -row["f"][i] * far + row["g"][i]
                elif "x" in read:
                    inside = j in near[i]
                    out[i, j] = read["x"][i, near[i].index(j)] if inside else row["g"][i]
                elif "diagonal" in read:
                    out[i, j] = read["diagonal"][0, j - i + N - 1]
                else:
                    out[i, j] = read["column"][0, j]
        return out
