"""What a row does not see changes nothing in it, however large: neither its output nor a gradient.

NaN, infinities and finite values whose squares overflow: 0 · ∞ is NaN, so a sum over all keys
would carry them past any mask.
"""

from dataclasses import replace

import pytest
import torch

from ascender import AscenderAttention
from support.cases import BY_QUERY, LARGE, B, H, case, serving
from support.laws import cotangent, gap, leak_from_unseen, outputs_gap, run, visible

# test_vectors.py and test_module.py check the shapes; here it would take a third of the time.
pytestmark = pytest.mark.usefixtures("unchecked")

HIDING = ("causal", "padded right", "window causal globals", "any mask", "decode padded")


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


def gradients_of_blind_rows(x, backend, blind):
    """Outputs and gradients of a loss over some rows alone."""
    leaves = {name: t.detach().clone().requires_grad_() for name, t in x.leaves.items()}
    numbers = {name: t.detach().clone().requires_grad_() for name, t in x.numbers.items()}
    out = run(replace(x, leaves=leaves, numbers=numbers), backend)
    (torch.where(blind[..., None], out, 0) * cotangent(x, out.shape[-1])).sum().backward()
    grads = {name: t.grad for name, t in {**leaves, **numbers}.items() if t.grad is not None}
    return {"out": out.detach()[blind], **grads}


def reach(x, backend, name, value, token):
    """How far a value in a token reaches rows that do not see it: the largest gap."""
    t, V, first = x.leaves[name].clone(), visible(x).expand(B, H, -1, -1), x.M - x.N
    blind = ~V[..., token]
    if token >= first:
        blind[..., token - first] = False
    t[:, :, token - first if name in BY_QUERY else token] = value
    assert blind.any()
    plain = gradients_of_blind_rows(x, backend, blind)
    other = gradients_of_blind_rows(x.but(**{name: t}), backend, blind)
    gaps = [gap(other[key], plain[key]) for key in plain]
    return max(g if g == g else torch.inf for g in gaps)


@pytest.mark.parametrize("value", [torch.nan, 1e18, slow(torch.inf), slow(-1e37)])
@pytest.mark.parametrize("name", ["q", "k", "v", "z", "h"])
@pytest.mark.parametrize("kind", HIDING)
def test_hidden_values_reach_nothing(kind, name, value):
    x = case(kind).to(torch.float32)
    for backend in ("dense", *serving(kind)):
        assert reach(x, backend, name, value, x.M - 1) <= 1e-5, backend


def test_a_value_that_is_seen_does_reach():
    x = case("causal").to(torch.float32)
    sighted = replace(x, masks={})
    blind = ~visible(x).expand(B, H, -1, -1)[..., -1]
    v = x.leaves["v"].clone()
    v[:, :, -1] = 1e18
    plain = gradients_of_blind_rows(sighted, "dense", blind)
    other = gradients_of_blind_rows(sighted.but(v=v), "dense", blind)
    assert gap(other["out"], plain["out"]) > 1
    assert gap(other["q"], plain["q"]) > 1


@pytest.mark.parametrize("kind", ["window", "window causal", "window padded", "any mask"])
def test_hidden_coordinates_do_not_round(kind):
    """Groups far from 0 whose members are near each other: z is measured from no key that a row
    does not see."""
    x = case(kind, "shared" if kind == "any mask" else "plain", 37)
    z = x.leaves["z"]
    x = x.but(z=100 * z[:, :, ::4].repeat_interleave(4, 2)[:, :, : x.M] + z).to(torch.float32)
    for backend in ("dense", *serving(kind)):
        assert leak_from_unseen(x, backend, slice(0, None, 6)) <= 1e-6, backend


@torch.no_grad()
def test_hidden_coordinates_do_not_round_in_a_bounded_cache():
    torch.manual_seed(0)
    attention = AscenderAttention(32, 4, window=5)
    attention.U.weight.mul_(100)
    x = torch.randn(1, 40, 32)

    def last(x):
        cache = attention.new_cache()
        return [attention(x[:, i : i + 1], cache=cache) for i in range(40)][-1]

    other = x.clone()
    other[:, 0] = 9
    assert torch.equal(last(x), last(other))


@pytest.mark.parametrize("backend", ["decode", "compact", "folded"])
@pytest.mark.parametrize("rows", [1, 4])
def test_duplicates_far_from_0_are_finite(backend, rows):
    """‖z_i − z_j‖² of duplicates may round below 0 by as much as ‖z‖² does."""
    x = case("decode", "shared", LARGE).to(torch.float32)
    z = (1e4 * x.leaves["z"][:, :, :3]).repeat_interleave(53, 2)[:, :, : x.M]
    x = x.but(z=z + 1e5, q=x.leaves["q"][:, :, -rows:])
    with torch.no_grad():
        out = run(x, backend)
    assert torch.isfinite(out).all()
    assert torch.isfinite(run(x, "auto")).all()


@pytest.mark.parametrize(
    "options", ["shared", "shared k-per-head", "shared local", "shared scores"]
)
@pytest.mark.parametrize("rows", [1, 4])
def test_a_mask_by_head_over_shared_geometry(options, rows):
    """With one kernel width, as a layer of shared geometry has it."""
    x = case("any mask", options, 37)
    numbers = {name: t for name, t in x.numbers.items() if name not in ("tau_sep", "tau_coh")}
    x = replace(x, numbers=numbers, fixed={**x.fixed, "tau_sep": 0.9, "tau_coh": 0.9})
    q, mask = x.leaves["q"][:, :, -rows:], x.masks["mask"][:, :, -rows:]
    x = replace(x.but(q=q), masks={"mask": mask})
    for backend in ("decode", "auto"):
        assert outputs_gap(x, run(x, backend), run(x, "dense")) <= 1e-10
    padded = replace(x, masks={"mask": mask[:, :, :1], "causal": True})
    assert outputs_gap(padded, run(padded, "decode"), run(padded, "dense")) <= 1e-10
