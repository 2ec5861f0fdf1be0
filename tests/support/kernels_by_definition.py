"""aten's attention kernels for CUDA by their definition, for machines without a GPU."""

import torch
import torch.nn.functional as F


def scores(Q, K, bias, causal):
    s = (Q @ K.mT).float()
    s = s if bias is None else s + bias
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf) if causal else s


def forward(Q, K, V, bias, compute_lse, dropout, causal, *, scale):
    """aten's efficient attention by its definition: widths of 16, lse padded to 32 with ∞."""
    assert (scale, dropout, compute_lse) == (1.0, 0.0, True)
    assert not any(t.shape[-1] % 16 for t in (Q, K, V))
    assert bias is None or (bias.stride(0) % 16 == 0 and bias.shape == (*Q.shape[:3], K.shape[2]))
    s = scores(Q, K, bias, causal)
    lse = F.pad(s.logsumexp(-1), (0, -Q.shape[2] % 32), value=torch.inf)
    seed = torch.zeros((), dtype=torch.long)
    return s.softmax(-1).to(V.dtype) @ V, lse, seed, seed


def backward(g, Q, K, V, bias, out, lse, seed, offset, dropout, wanted, causal, *, scale):
    p = (scores(Q, K, bias, causal) - lse[..., : Q.shape[2], None]).exp()
    ds = p * (g @ V.mT - (g * out).sum(-1, keepdim=True))
    return ds.to(Q.dtype) @ K, ds.mT.to(Q.dtype) @ Q, p.mT.to(Q.dtype) @ g, None


def flash(Q, K, V, dropout, causal, debug, *, scale):
    """aten's flash attention: one width, and what its backward wants."""
    assert (dropout, debug, Q.shape[-1], Q.shape[-1] % 16) == (0.0, False, V.shape[-1], 0)
    out, lse, *seed = forward(Q, K, V, None, True, 0.0, causal, scale=scale)
    return out, lse[..., : Q.shape[2]], None, None, Q.shape[2], K.shape[2], *seed, None


def flash_backward(g, Q, K, V, out, lse, a, b, n, m, dropout, causal, seed, offset, *, scale):
    assert (a, b, n, m) == (None, None, Q.shape[2], K.shape[2])
    return backward(g, Q, K, V, None, out, lse, seed, offset, 0, None, causal, scale=scale)[:3]


def cudnn(Q, K, V, bias, compute_lse, dropout, causal, debug, *, scale):
    """cuDNN's, whose lse is (B, H, N, 1)."""
    assert (bias, compute_lse, debug) == (None, True, False)
    out, lse, *seed = forward(Q, K, V, None, True, dropout, causal, scale=scale)
    lse = lse[..., : Q.shape[2], None]
    return out, lse, None, None, Q.shape[2], K.shape[2], *seed, None


def cudnn_backward(g, Q, K, V, out, lse, seed, offset, bias, a, b, n, m, dropout, causal, *, scale):
    assert (bias, a, b, n, m, lse.shape[-1]) == (None, None, None, Q.shape[2], K.shape[2], 1)
    lse = lse.squeeze(-1)
    return backward(g, Q, K, V, None, out, lse, seed, offset, 0, None, causal, scale=scale)[:3]


OPERATORS = {}
for name, (run, back) in {
    "efficient": (forward, backward), "flash": (flash, flash_backward),
    "cudnn": (cudnn, cudnn_backward),
}.items():  # fmt: skip
    OPERATORS[f"_scaled_dot_product_{name}_attention"] = run
    OPERATORS[f"_scaled_dot_product_{name}_attention_backward"] = back
