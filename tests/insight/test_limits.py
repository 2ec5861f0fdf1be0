"""Limits of normalisation: every bound on random inputs, and each shown able to fail."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from ascender.core.normalizers import NORMALIZERS, normalizer
from ascender.insight.limits.distance import selection
from ascender.insight.limits.sensitivity import jacobian, largest_entry, reweighted, spectral
from ascender.insight.limits.sphere import ball_bounds, cosine_cdf, expected_separable, sphere
from ascender.insight.limits.support import (
    delta,
    effective_support,
    entropy,
    envelope,
    half_range,
    outside,
    tight,
)

B, H, N, M, D, E = 2, 3, 5, 11, 7, 4
EXPONENT = {"sparsemax": 2.0, "entmax15": 1.5}
seeds = st.integers(0, 2**31)
hot = st.floats(0.05, 8)


def drawn(seed, scale=1.0):
    """(q, k, b, visible, S): scores of q·k/√d and a bias, one key hidden, every row sees two."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    q, k, b = scale * normal(B, H, N, D), normal(B, H, M, D), normal(B, H, N, M)
    visible = torch.rand(B, H, N, M, generator=g) < 0.7
    visible[..., :2] = True
    S = (q @ k.mT / math.sqrt(D) + b).masked_fill(~visible, 0)
    return q, k, b, visible, S


def softmax(S, visible, T=1.0):
    return torch.softmax((S / T).masked_fill(~visible, -torch.inf), -1)


@given(seeds, hot)
def test_entropy_lies_between_its_bounds(seed, scale):
    q, k, b, visible, S = drawn(seed, scale)
    A, L = softmax(S, visible), visible.sum(-1).double()
    H_ = entropy(A)
    by_hand = torch.tensor(
        [-sum(a * math.log(a) for a in row if a > 0) for row in A[0, 0].tolist()]
    )
    torch.testing.assert_close(H_[0, 0], by_hand.double())
    assert (H_ >= 0).all()
    assert (L.log() + 1e-12 >= H_).all()
    assert (effective_support(A) <= L + 1e-9).all()
    for reach in (delta(q, k, b, visible), half_range(S, visible)):
        assert (L.log() - 2 * reach - 1e-9 <= H_).all()
    if scale > 1:  # a sixteenth of Δ is too little for some row
        assert (L.log() - half_range(S, visible) / 8 > H_).any()


def test_effective_support_of_equal_and_single_weights():
    torch.testing.assert_close(effective_support(torch.full((3,), 1 / 3)), torch.tensor(3.0))
    assert effective_support(torch.tensor([0.0, 1.0])) == 1


@given(seeds, hot, st.floats(0.2, 5))
def test_the_envelope_holds_a_softmax(seed, scale, T):
    q, k, b, visible, S = drawn(seed, scale)
    A, L = softmax(S, visible, T), visible.sum(-1)
    for reach in (delta(q, k, b, visible), half_range(S, visible)):
        low, high = envelope(L, reach, T)
        assert (outside(A, (low, high), visible) == 0).all()
        assert ((low.exp()[..., None] * (1 - 1e-9) <= A) | ~visible).all()
        assert ((high.exp()[..., None] * (1 + 1e-9) >= A) | ~visible).all()
    assert (half_range(S, visible) <= delta(q, k, b, visible) + 1e-9).all()


@given(seeds)
def test_a_wrong_envelope_is_left(seed):
    q, k, b, visible, S = drawn(seed, 3)
    A, L = softmax(S, visible), visible.sum(-1)
    assert (outside(A, envelope(L, half_range(S, visible) / 3), visible) > 0).any()
    assert (outside(A, envelope(L, half_range(S, visible), 3.0), visible) > 0).any()  # another T
    big = 9 * b
    S = (q @ k.mT / math.sqrt(D) + big).masked_fill(~visible, 0)
    alone = delta(q, k, torch.zeros_like(b), visible)  # Δ without the biases
    assert (outside(softmax(S, visible), envelope(L, alone), visible) > 0).any()
    assert (
        outside(softmax(S, visible), envelope(L, delta(q, k, big, visible)), visible) == 0
    ).all()


def test_tight_is_within_a_factor_of_an_edge():
    A = torch.tensor([[0.5, 0.25, 0.125, 0.125]])
    seen = torch.ones_like(A, dtype=torch.bool)
    edges = (torch.tensor([0.1]).log(), torch.tensor([0.9]).log())
    assert tight(A, edges, seen).item() == 0.75  # 0.5 ≥ 0.9/2; 0.125 ≤ 0.1·2 twice
    assert tight(A, edges, seen, factor=1.1).item() == 0
    beyond = (torch.tensor([0.2]).log(), torch.tensor([0.3]).log())
    assert outside(A, beyond, seen).item() == 0.75
    assert tight(A, beyond, seen).item() == 0.25  # what lies outside is no witness of tightness
    even = torch.full((1, 4), 0.25)
    assert tight(even, envelope(torch.tensor([4]), torch.zeros(1)), seen).item() == 1


# --- selected and unselected


def by_hand(a, x, N):
    """(ᾱ, d̃, bound, N_s/N) in loops; a of one row without hidden keys."""
    order = sorted(range(len(a)), key=lambda j: (-a[j], j))
    inn, out = order[:N], order[N:]
    s = sum(a[j] * x[j] for j in inn)
    mass = sum(a[j] for j in inn)
    far = {j: (s - a[j] * x[j]).norm() for j in order}
    d1 = max((s / mass - x[i]).norm() for i in out)
    rest = mass * (len(a) - N) - (1 - mass)
    bound = (1 - mass) * d1 + max(v.norm() for v in x) * rest
    r = min(far[i] for i in out)
    return mass, sum(far[i] for i in out), bound, sum(bool(far[j] < r) for j in inn) / N


@given(seeds, st.floats(0.1, 6))
def test_selection_is_what_the_loops_say(seed, scale):
    g = torch.Generator().manual_seed(seed)
    a = torch.softmax(scale * torch.randn(M, generator=g, dtype=torch.float64), -1)
    x = torch.randn(M, E, generator=g, dtype=torch.float64)
    wider = torch.cat([torch.zeros(2), a]), torch.cat([99 * torch.ones(2, E), x])
    seen = torch.arange(M + 2) >= 2
    found = selection(wider[0][None], wider[1][None], seen[None])
    for n in (1, 2, 5, M - 1):
        truth = torch.stack([torch.as_tensor(t).double() for t in by_hand(a, x, n)])
        told = [getattr(found, w)[0, n - 1] for w in ("mass", "distance", "bound", "separable")]
        torch.testing.assert_close(torch.stack(told), truth, rtol=1e-6, atol=1e-6)
    assert found.distance[0, M - 1 :].isnan().all()
    best = max(range(1, M), key=lambda n: float(by_hand(a, x, n)[1]))
    assert int(found.critical) == best


@given(seeds, st.floats(0, 6), st.floats(0, 5), st.sampled_from([*NORMALIZERS]))
def test_the_distance_is_below_its_bound(seed, scale, away, name):
    g = torch.Generator().manual_seed(seed)
    S = scale * torch.randn(1, H, N, M, generator=g, dtype=torch.float64)
    A, _ = reweighted(name, S, S, torch.ones_like(S, dtype=torch.bool))
    x = torch.randn(1, H, N, M, E, generator=g, dtype=torch.float64) * torch.rand(M, 1, generator=g)
    x = x + away * torch.randn(E, generator=g, dtype=torch.float64)
    found = selection(A, x, torch.ones_like(A, dtype=torch.bool))
    assert (found.distance <= found.bound * (1 + 1e-9) + 1e-6).all()
    assert ((found.separable >= 0) & (found.separable <= 1)).all()
    pairs = torch.cdist(x, x).amax((-1, -2))
    assert (found.bound <= (1 - found.mass) * pairs[..., None] + _rest(found, x) + 1e-6).all()


def _rest(found, x):
    n = torch.arange(1, M)
    longest = x.norm(dim=-1).amax(-1)[..., None]
    return longest * (found.mass * (found.L[..., None] - n) - (1 - found.mass))


def test_the_bound_is_reached_and_needs_its_conditions():
    ones = torch.ones(1, 6, E, dtype=torch.float64)
    A = torch.softmax(torch.arange(6.0, dtype=torch.float64), -1)[None]
    seen = torch.ones(1, 6, dtype=torch.bool)
    found = selection(A, ones, seen)
    torch.testing.assert_close(found.distance, found.bound)  # equal values
    # with d₁ = max ‖s − x_i‖ it fails: s = ½x₁ lies between the two, μ = x₁ does not
    a, x = torch.tensor([0.5, 0.5]), torch.tensor([[2.0], [-1.0]])
    _, distance, bound, _ = by_hand(a, x, 1)
    wrong = bound + 0.5 * ((0.5 * x[0] - x[1]).norm() - (x[0] - x[1]).norm())
    assert wrong < distance <= bound + 1e-6
    # and for keys that are not the largest: ᾱ = 0.1 < α_i = 0.9, all values equal
    s, rest = 0.1 * torch.ones(1), 0.1 * (2 - 1) - (1 - 0.1)
    assert (s - 0.9).norm() > rest


def test_critical_n_of_known_weights():
    """Equal values and weights: d̃ = (L − N)(N − 1)/L … largest in the middle."""
    seen = torch.ones(1, M, dtype=torch.bool)
    even = selection(torch.full((1, M), 1 / M), torch.ones(1, M, E), seen)
    torch.testing.assert_close(
        even.distance[0] / E**0.5,
        torch.tensor([(M - n) * (n - 1) / M for n in range(1, M)], dtype=torch.float64),
        atol=1e-6, rtol=1e-6,
    )  # fmt: skip
    assert int(even.critical) == (M + 1) // 2
    sharp = torch.tensor([[0.99] + [0.01 / (M - 1)] * (M - 1)])
    assert int(selection(sharp, torch.ones(1, M, E), seen).critical) == 1
    alone = selection(torch.ones(1, 1), torch.ones(1, 1, E), torch.ones(1, 1, dtype=torch.bool))
    assert int(alone.critical) == 0


def test_separable_by_hand():
    """Two far values selected, one small left: s lies near neither."""
    x = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [0.1, 0.1]]])
    seen = torch.ones(1, 3, dtype=torch.bool)
    found = selection(torch.tensor([[0.4, 0.4, 0.2]]), x, seen)
    assert found.separable[0].tolist() == [1.0, 1.0]
    near = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [8.0, 8.0]]])  # 0.2·(8, 8) = s
    assert selection(torch.tensor([[0.4, 0.4, 0.2]]), near, seen).separable[0, 1] == 0


# --- sensitivity


@given(seeds, hot, st.sampled_from([0.05, 0.3, 1.0, 3.0]))
def test_the_jacobian_is_below_its_bounds(seed, scale, T):
    S = scale * torch.randn(N, M, generator=torch.Generator().manual_seed(seed))
    A = torch.softmax(S.double() / T, -1)
    whole = jacobian(A) / T
    torch.testing.assert_close(spectral(A) / T, torch.linalg.matrix_norm(whole, 2))
    torch.testing.assert_close(largest_entry(A) / T, whole.abs().amax((-1, -2)))
    assert (spectral(A) / T <= 1 / (2 * T) + 1e-12).all()
    assert (largest_entry(A) / T <= 1 / (4 * T) + 1e-12).all()


def test_a_quarter_over_t_is_no_spectral_bound():
    A = torch.tensor([[0.5, 0.5, 0.0]])
    for T in (0.1, 1.0, 7.0):
        assert spectral(A).item() / T == pytest.approx(1 / (2 * T))
        assert spectral(A).item() / T > 1.99 / (4 * T)
        assert largest_entry(A).item() / T == pytest.approx(1 / (4 * T))
    assert spectral(torch.tensor([[1.0, 0.0]])).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("T", [0.5, 2.0])
def test_the_jacobian_is_autograds(name, T):
    """Of every normaliser, by the logits: c/T · (diag(p) − p pᵀ/Σp)."""
    if name in EXPONENT:
        pytest.importorskip("entmax")
    g = torch.Generator().manual_seed(3)
    S = torch.randn(1, 1, 1, 40, generator=g, dtype=torch.float64)
    seen = torch.ones_like(S, dtype=torch.bool)
    seen[..., -3:] = False
    A, c = reweighted(name, S, S, seen, T)
    a = EXPONENT.get(name, 1.0)
    made = normalizer(name, heads=1)

    def weights(logits):
        return made.weights(logits.view_as(S) * c / T, seen).flatten()

    torch.testing.assert_close(weights(S), A.flatten())
    truth = torch.autograd.functional.jacobian(weights, S.flatten())
    found = (c.flatten() / T * jacobian(A.flatten(), a)).detach()
    torch.testing.assert_close(found, truth, rtol=1e-5, atol=1e-8)
    norm = (c.flatten() / T * spectral(A.flatten(), a)).detach()
    torch.testing.assert_close(norm[0], torch.linalg.matrix_norm(truth, 2), rtol=1e-5, atol=1e-8)
    assert float(norm) <= float(c) / T + 1e-9


def test_reweighted_sharpens_the_base_alone():
    """ssmax of S = base + bias: s·log n times the base, the bias as it was."""
    _, _, b, visible, S = drawn(4)
    base = S - b.masked_fill(~visible, 0)
    A, c = reweighted("ssmax", S, base, visible)
    n = visible.sum(-1, keepdim=True).double()
    torch.testing.assert_close(c.double(), 0.43 * n.log(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(A, softmax(c * base + b, visible), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="unknown normalizer 'softmx'"):
        reweighted("softmx", S, base, visible)


# --- values on a sphere


@pytest.mark.parametrize("d", [2, 3, 7, 64])
def test_cosines_of_uniform_directions(d):
    x = torch.randn(20_000, d, generator=torch.Generator().manual_seed(0)).double()
    t = (x / x.norm(dim=-1, keepdim=True))[:, 0]
    for c in (-1.5, -0.4, 0.0, 0.1, 0.9, 1.5):
        found = float(cosine_cdf(torch.tensor(c), d))
        assert abs(found - float((t <= c).double().mean())) < 0.015
    if d == 3:  # Archimedes: uniform
        assert float(cosine_cdf(torch.tensor(0.5), 3)) == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize(("L", "N", "d"), [(23, 1, 5), (41, 3, 2), (41, 11, 5), (67, 4, 31)])
def test_separable_keys_on_a_sphere(L, N, d):
    """Counted as in distance.py, the share is what the theorem says, within four errors."""
    one = sphere(L, N, d, draws=300)
    assert one.lower <= one.expected <= one.upper
    assert abs(one.measured - one.expected) <= 4 * max(one.error, 0.004)
    assert N > 1 or one.measured == 1  # one key is its own sum


def test_the_theorem_needs_values_that_are_spread_over_the_sphere():
    """Unselected values that lie where the selected ones point leave none separable."""
    g = torch.Generator().manual_seed(0)
    a = torch.softmax(torch.randn(41, generator=g).double(), 0).sort(descending=True).values
    x = torch.nn.functional.normalize(torch.randn(41, 31, generator=g).double(), dim=-1)
    lower, _, _ = expected_separable(a, x[:3])
    x[3:] = torch.nn.functional.normalize((a[:3, None] * x[:3]).sum(0), dim=-1)
    seen = torch.ones(1, 41, dtype=torch.bool)
    counted = selection(a[None], x[None], seen).at("separable", torch.tensor([3]))
    assert float(counted) < float(lower) - 0.25


@given(seeds, st.integers(2, 9), st.floats(0.05, 1.0))
def test_how_many_lie_in_a_ball(seed, d, r):
    g = torch.Generator().manual_seed(seed)
    a = torch.softmax(torch.randn(7, generator=g).double(), 0)
    x = torch.randn(2000, 7, d, generator=g).double()
    parts = a[:, None] * x / x.norm(dim=-1, keepdim=True)
    inside = torch.linalg.vector_norm(parts.sum(-2, keepdim=True) - parts, dim=-1) < r
    low, high = ball_bounds(a, r, d)
    assert low - 0.02 <= float(inside.double().mean()) <= high + 0.02
