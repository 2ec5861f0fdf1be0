"""Where an index starts: the leading directions of the model's own W_Q and W_K.

    M = s/H Σ_h W_Q,h W_K,hᵀ          the mean over heads of the unrotated score is x̂_i M x̂_jᵀ
    L Lᵀ = mean of x̂ᵀx̂                LᵀML = U diag(σ) Vᵀ, cut to d_a
    P_q = L⁻ᵀ U √σ d_a^¼              P_k = L⁻ᵀ V √σ d_a^¼

So h^q_i·h^k_j/√d_a is the best approximation of rank d_a of that score on tokens like x̂. W_Q and
W_K are fitted to the module's queries and keys of these tokens by least squares: exact where they
are linear maps, and the same code for every family.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ascender.core.combine import repeat_kv
from ascender.hf.retrofit.probe import bare_projections
from ascender.hf.retrofit.rule_adapter import RuleAdapter, unit_rms

RIDGE = 1e-4  # share of the mean square added to the diagonal: tokens may not span all directions
SPARE = 8  # additional directions, for the accuracy of the randomised decomposition


def start_from_random_tokens(swarm: RuleAdapter, module: nn.Module) -> None:
    """P_q and P_k from random tokens, while there is no text yet."""
    weight = next(module.parameters())
    dim = swarm.P.in_features
    x = torch.randn(1, 2 * dim, dim, generator=torch.Generator().manual_seed(0))
    start_from_tokens(swarm, module, unit_rms(x).to(weight))


@torch.no_grad()
def start_from_tokens(swarm: RuleAdapter, module: nn.Module, x: Float[Tensor, "1 T dim"]) -> None:
    """P_q and P_k from tokens x that the attention module was given; the bias by distance is 0."""
    assert swarm.P_k is not None
    assert swarm.affinity_heads is not None
    adapter = module.__dict__["_modules"].pop("swarm", None)  # probe the original module
    try:
        original = bare_projections(module, x, swarm.turn_width)
    finally:
        if adapter is not None:
            module.swarm = adapter
    q = original.q[0].double()
    k = repeat_kv(original.k, q.shape[0])[0].double()
    scale = original.q.shape[-1] ** -0.5 if original.scaling is None else original.scaling
    tokens = unit_rms(x[0].double())
    groups = zip(q.chunk(swarm.affinity_heads), k.chunk(swarm.affinity_heads), strict=True)
    maps = [leading_directions(tokens, a, b, scale, swarm.d_a) for a, b in groups]
    for P, parts in zip((swarm.P, swarm.P_k), zip(*maps, strict=True), strict=True):
        P.weight.copy_(torch.cat(parts))
    if swarm.distance_bias is not None:
        swarm.distance_bias.zero_()


def leading_directions(
    x: Float[Tensor, "T dim"], q: Float[Tensor, "H T d"], k: Float[Tensor, "H T d"],
    scale: float, d_a: int,
) -> tuple[Float[Tensor, "a dim"], Float[Tensor, "a dim"]]:  # fmt: skip
    """The weights of P_q and P_k."""
    dim, T = x.shape[1], x.shape[0]
    C = x.T @ x / T
    C = C + RIDGE * C.diagonal().mean() * torch.eye(dim, dtype=x.dtype, device=x.device)
    L = torch.linalg.cholesky(C)
    W_Q, W_K = (torch.cholesky_solve(x.T @ t.transpose(0, 1).flatten(1) / T, L) for t in (q, k))
    M = L.T @ W_Q @ (W_K.T @ L) * (scale / q.shape[0])
    rank = min(d_a, dim)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        U, sigma, V = torch.svd_lowrank(M, q=min(rank + SPARE, dim), niter=4)
    weights = []
    for t in (U, V):
        P = torch.linalg.solve_triangular(L.T, t[:, :rank], upper=True)
        P = P * sigma[:rank].sqrt() * d_a**0.25
        weights.append(torch.nn.functional.pad(P, (0, d_a - rank)).T)
    return weights[0], weights[1]
