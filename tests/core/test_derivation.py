"""The laws of the derivation: why the scores are what they are.

Row i of the attention is the distribution over V(i) that minimises the free energy

    F(A) = −Σ_j A_j U_ij + τ_score Σ_j A_j log A_j,      U = base + align + sep + coh + other,

and each rule's share of the expected score, E = Σ_j A_ij r_ij with A held fixed, has a gradient
that does what the rule is named for. Cross-attention keeps query and key apart, so that a
gradient by a key is not also one by a query; raw terms (standardise=False).
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ive
from scipy.stats import vonmises_fisher

from ascender import asc_attention
from ascender.core.combine import standardise
from ascender.core.rules import alignment
from support.cases import H, K, case
from support.laws import gap, run, visible


def parts_of(x):
    return asc_attention(**x.call(), return_parts=True)[1]


# Maximum entropy.


def free_energy(A, U, tau):
    """Of each row; 0 log 0 = 0."""
    return -(A * U).sum(-1) + tau[..., 0] * torch.special.xlogy(A, A).sum(-1)


def perturbations(A, V, how, g):
    """Other points of the simplex over V(i): a step toward a random one or a corner, or mass moved
    from one key to another."""
    if how == "toward":
        B = torch.rand(A.shape, generator=g, dtype=A.dtype).pow(3) * V
        B = B / B.sum(-1, keepdim=True).clamp_min(1e-300)
    elif how == "corner":
        corner = (torch.rand(A.shape, generator=g) * V).argmax(-1, keepdim=True)
        B = torch.zeros_like(A).scatter(-1, corner, 1.0)
    else:
        i, j = ((torch.rand(A.shape, generator=g) * V).argmax(-1, keepdim=True) for _ in range(2))
        move = 0.5 * A.gather(-1, i)
        return A.scatter_add(-1, i, -move).scatter_add(-1, j, move)
    step = torch.rand(A.shape[:-1], generator=g, dtype=A.dtype)[..., None]
    return (1 - step) * A + step * B


@pytest.mark.parametrize("kind", ["full", "causal", "window globals", "cross padded", "any mask"])
def test_weights_minimise_the_free_energy(kind):
    """F(A') − F(A) = τ KL(A' ‖ A) > 0 for every other A' of the simplex."""
    x, g = case(kind, "matrix"), torch.Generator().manual_seed(5)
    parts, V = parts_of(x), visible(x).expand(2, H, -1, -1)
    U, A = sum(parts.terms().values()), parts.weights
    tau = x.numbers["tau_score"].view(-1, 1, 1)
    assert torch.allclose(A.sum(-1), V.any(-1).double())
    least, tried = free_energy(A, U, tau), 0
    for how in ("toward", "corner", "swap") * 7:
        other = perturbations(A, V, how, g)
        rows = V.any(-1) & ((other - A).norm(dim=-1) > 1e-6)
        assert torch.allclose(other.sum(-1)[rows], torch.tensor(1.0).double())
        assert (other[rows] >= 0).all()
        assert not (other * ~V)[rows].any()
        rise = free_energy(other, U, tau) - least
        assert (rise[rows] > 0).all()
        kl = torch.special.xlogy(other, other / A.clamp_min(1e-300)).sum(-1)
        assert torch.allclose(rise[rows], (tau[..., 0] * kl)[rows], atol=1e-12)
        tried += int(rows.sum())
    assert tried > 1000


def test_weights_at_another_temperature_do_not():
    x = case("full")
    U, tau = sum(parts_of(x).terms().values()), x.numbers["tau_score"].view(-1, 1, 1)
    A, best = (torch.softmax(U / (t * tau), -1) for t in (1.1, 1.0))
    step = 0.9 * A + 0.1 * best
    assert (free_energy(step, U, tau) < free_energy(A, U, tau)).all()


# The gradient of the expected score.


def expected(x, part, row):
    """Σ_j A_ij r_ij λωγ_i over batch and heads, A held fixed."""
    parts = parts_of(x)
    return (parts.weights.detach() * getattr(parts, part))[:, :, row].sum()


def gradient(x, part, row, leaf):
    """(gradient by the keys' leaf, the weights of the row)."""
    t = x.leaves[leaf].clone().requires_grad_()
    (grad,) = torch.autograd.grad(expected(x.but(**{leaf: t}), part, row), t)
    return grad, parts_of(x).weights[:, :, row]


def cross_case(**numbers):
    """Given neighbours: row i goes by keys 0 … K−1, all others are looked at but not gone by."""
    x = case("cross", "raw local")
    near = torch.arange(K).expand(1, x.N, -1)
    values = {name: torch.full((H,), value, dtype=torch.float64) for name, value in numbers.items()}
    return replace(x, neighbours=near, numbers={**x.numbers, **values})


def test_alignment_turns_keys_toward_the_heading():
    """For j ∉ N_k(i), so that u_i does not depend on k_j:

    ∂E/∂k_j = A_ij ωγ_i (u_i − (k̃_j·u_i) k̃_j) / ‖k_j‖

    orthogonal to k_j (it turns), and with u_i·∂E/∂k_j ≥ 0 (toward u_i): a small step along it
    raises cos(k_j, u_i)."""
    x = cross_case(omega_align=1.3)
    k, row = x.leaves["k"], 2
    unit = k / k.norm(dim=-1, keepdim=True)
    s = unit[:, :, :K].sum(2, keepdim=True)
    count = torch.full((1, 1, 1, 1), float(K), dtype=torch.float64)
    u, gamma = alignment.heading(s, count, x.numbers["alpha_align"].view(-1, 1, 1))
    grad, A = gradient(x, "align", row, "k")
    cosine = (unit * u).sum(-1, keepdim=True)
    formula = 1.3 * gamma * A[..., None] * (u - cosine * unit) / k.norm(dim=-1, keepdim=True)
    others = slice(K, None)
    assert gap(grad[:, :, others], formula[:, :, others]) < 1e-12
    assert (grad * k)[:, :, others].sum(-1).abs().max() < 1e-12
    assert ((grad * u).sum(-1)[:, :, others] > 0).all()
    turned = k + 1e-3 * grad / grad.norm(dim=-1, keepdim=True)
    assert (torch.cosine_similarity(turned, u, dim=-1) > cosine[..., 0])[:, :, others].all()


def test_cohesion_pulls_toward_the_centre():
    """For j ∉ N_k(i), where the centre is that of N_k(i) (local_scope="neighbours"):

    ∂E/∂z_j = A_ij ωγ_i · 2 (c_i − z_j) / τ_coh

    straight at the centre: a small step along it lessens ‖z_j − c_i‖."""
    x = cross_case(omega_coh=1.1)
    z, row = x.leaves["z"], 3
    tau, alpha = (x.numbers[name].view(-1, 1, 1) for name in ("tau_coh", "alpha_coh"))
    near = z[:, :, :K]
    z_i = x.leaves["z_q"][:, :, row, None]
    w = torch.exp(-(near - z_i).square().sum(-1, keepdim=True) / tau**2)
    c = (w * near).sum(2, keepdim=True) / w.sum(2, keepdim=True)
    spread = (w * (near - c).square().sum(-1, keepdim=True)).sum(2, keepdim=True)
    gamma = torch.sigmoid(-alpha * spread / w.sum(2, keepdim=True))
    grad, A = gradient(x, "coh", row, "z")
    formula = 1.1 * gamma * A[..., None] * 2 * (c - z) / tau
    others = slice(K, None)
    assert gap(grad[:, :, others], formula[:, :, others]) < 1e-12
    pulled = z + 1e-3 * grad / grad.norm(dim=-1, keepdim=True)
    assert ((pulled - c).norm(dim=-1) < (z - c).norm(dim=-1))[:, :, others].all()


def test_separation_pushes_near_duplicates_apart():
    """For j ∈ N_k(i), in a crowd (η_i = 1, so that it does not move):

    ∂E/∂z_j = A_ij ω w_ij max(0, a_ij − δ) · 2 (z_j − z_i) / τ_sep²

    straight away from z_i, and nothing where a_ij ≤ δ; by h it lowers a_ij."""
    x = cross_case(omega_sep=1.7, kappa=1e-9)
    z, h, row = x.leaves["z"], x.leaves["h"], 1
    z_i, h_i = (x.leaves[name][:, :, row, None] for name in ("z_q", "h_q"))
    tau, delta = (x.numbers[name].view(-1, 1, 1) for name in ("tau_sep", "delta"))
    a = torch.cosine_similarity(h, h_i, dim=-1)[..., None]
    w = torch.exp(-(z - z_i).square().sum(-1, keepdim=True) / tau**2)
    grad, A = gradient(x, "sep", row, "z")
    near = torch.arange(x.M)[:, None] < K
    push = 1.7 * A[..., None] * w * (a - delta).clamp_min(0) * near
    assert gap(grad, push * 2 * (z - z_i) / tau**2) < 1e-12
    alike = (near & (a > delta))[..., 0]
    assert alike.any()
    assert not grad[~alike].any()
    apart = z + 1e-3 * grad / grad.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    assert ((apart - z_i).norm(dim=-1) > (z - z_i).norm(dim=-1))[alike].all()
    by_h, _ = gradient(x, "sep", row, "h")
    turned = h + 1e-3 * by_h / by_h.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    assert (torch.cosine_similarity(turned, h_i, dim=-1)[..., None] < a)[alike].all()


@pytest.mark.parametrize(("part", "leaf"), [("align", "k"), ("coh", "z"), ("sep", "z")])
def test_a_rule_of_the_other_sign_does_the_opposite(part, leaf):
    x, y = (cross_case(**{f"omega_{part}": sign, "kappa": 1e-9}) for sign in (0.1, -0.1))
    there, back = (gradient(case_, part, 1, leaf)[0] for case_ in (x, y))
    assert (there * back).sum() < 0


# Directional statistics.


def directions(kappa, n=4000, d=5):
    mean = np.eye(d)[0]
    sample = vonmises_fisher(mean, kappa).rvs(n, random_state=1)
    return torch.from_numpy(sample).reshape(1, 1, n, d)


def test_variance_is_one_minus_the_square_of_the_resultant():
    """For unit vectors Var = 1 − R², R = ‖Σ x_l‖/n, and so Var = ½ the mean squared distance of
    two of them drawn with replacement."""
    x = directions(3.0, n=300)
    s, n = x.sum(2, keepdim=True), torch.full((1, 1, 1, 1), 300.0).double()
    gate = alignment.heading(s, n, 2.0)[1]
    var = -torch.logit(gate) / 2.0
    R = s.norm() / 300
    pairs = (x[0, 0, :, None] - x[0, 0, None]).square().sum(-1).mean() / 2
    assert torch.allclose(var, 1 - R**2)
    assert torch.allclose(var, pairs)


def test_resultant_grows_with_concentration():
    """R → I_{d/2}(κ)/I_{d/2−1}(κ), which grows with κ; the gate opens with it."""
    kappas = [0.0625, 0.5, 2, 8, 32, 128]
    n = torch.full((1, 1, 1, 1), 4000.0).double()
    gates = [alignment.heading(directions(k).sum(2, keepdim=True), n, 1.0)[1] for k in kappas]
    R = [float((1 + torch.logit(gate)).clamp_min(0).sqrt()) for gate in gates]
    assert sorted(R) == R
    assert gates == sorted(gates)
    truth = [ive(2.5, k) / ive(1.5, k) for k in kappas]
    assert np.abs(np.array(R) - truth).max() < 4 / 4000**0.5


# docs/definition.md, section 5.1: why the gate comes after the standardising.


def test_gate_before_standardising_does_nothing():
    """standardise(g_i r_i) = standardise(r_i): the division by σ_i cancels whatever the row is
    multiplied by. g_i standardise(r_i), ours, is as strong as g_i says."""
    g = torch.Generator().manual_seed(0)
    r = 1e3 * torch.randn(2, 3, 11, 13, generator=g, dtype=torch.float64)  # ε is then negligible
    gate = 0.05 + 0.9 * torch.rand(2, 3, 11, 1, generator=g, dtype=torch.float64)
    V = torch.rand(2, 3, 11, 13, generator=g) < 0.7
    published, ours = standardise(gate * r, V), gate * standardise(r, V)
    assert gap(published, standardise(r, V)) < 1e-6
    assert gap(ours, standardise(r, V)) > 0.3
    assert torch.allclose(ours.norm(dim=-1), gate[..., 0] * standardise(r, V).norm(dim=-1))


def test_gates_are_felt():
    """Through the whole attention: a sharper α or a larger κ changes the output."""
    x = case("causal")
    for name in ("alpha_align", "alpha_coh", "kappa"):
        changed = replace(x, numbers={**x.numbers, name: 3 * x.numbers[name]})
        assert gap(run(changed, "dense"), run(x, "dense")) > 1e-2, name
