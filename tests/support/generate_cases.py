"""Decoders by name, tokens, and generate() with its scores."""

import torch

from support.hf_cases import B, N, V, make

NEW = 6
DECODERS = {
    "ascender": ("ascender", {"k": 3}),
    "shared": ("ascender", {"k": 3, "geometry": "shared", "numbers": "shared"}),
    "qk_norm": ("ascender", {"k": 3, "geometry": "shared", "qk_norm": True}),
    "window": ("ascender", {"k": 3, "window": 4, "n_global": 2}),
    "local": ("ascender", {"k": 3, "local_scope": "neighbours", "neighbours": "scores"}),
    "flock": ("ascender", {"k": 3, "scope": "flock", "far": 3, "window": 1}),
    "flock tied": ("ascender", {"k": 3, "scope": "flock", "far": 3, "affinity": "tied"}),
    "shuffled": ("shuffled", {"k": 3}),
    "vanilla": ("vanilla", {}),
    "matched": ("matched", {}),
    "longformer": ("longformer", {"window": 4, "n_global": 2}),
    "bigbird": ("bigbird", {"block": 3}),
    "performer": ("performer", {"features": 32}),
    "linear": ("linear", {}),
}


def tokens(b=B, n=N, seed=1):
    """No token twice in a row. Twins have the same h where positions leave it alone, so who of
    them is among the k nearest is a matter of rounding, which no two ways of computing share."""
    random = torch.Generator().manual_seed(seed)
    return torch.stack([3 + torch.randperm(V - 3, generator=random)[:n] for _ in range(b)])


def decoder(name, **fields):
    attention, options = DECODERS[name]
    return make(attention=attention, attention_options=options, **fields)


def generate(model, ids, **how):
    """(tokens, logits of every new one)."""
    output = model.generate(
        ids, max_new_tokens=NEW, do_sample=False, output_logits=True, no_repeat_ngram_size=1,
        suppress_tokens=[0], return_dict_in_generate=True, **how,
    )  # fmt: skip
    return output.sequences, torch.stack(output.logits, 1)


def same(a, b):
    assert torch.equal(a[0], b[0])
    torch.testing.assert_close(a[1], b[1], atol=2e-5, rtol=1e-4)


def translator(**fields):
    return make("seq2seq", **fields)


def padded():
    ids, mask = tokens(3), torch.ones(3, N, dtype=torch.long)
    for row, pad in ((1, 3), (2, 7)):
        ids[row, :pad], mask[row, :pad] = 0, 0
    return ids, mask
