"""A token outside V(i) changes nothing in row i, neither its output nor its gradients, whatever
it holds: the law for every attention of the slot, over positions, normalisers and masks."""

import math

import pytest
import torch

from ascender.core.neighbours import grid
from ascender.core.normalizers import NORMALIZERS
from ascender.core.visibility import Visibility
from ascender.nn import slot
from ascender.nn.baselines import ATTENTIONS, attention
from ascender.nn.cache import CrossKV
from ascender.nn.positions import POSITIONS
from ascender.nn.slot import Unsupported

# test_vectors.py and test_module.py check the shapes; here it would take a third of the time.
pytestmark = pytest.mark.usefixtures("unchecked")

BAD = (math.nan, math.inf, -math.inf, 1e18, -1e18, 1e30, -1e30)
B, N, DIM, HEADS = len(BAD) + 1, 13, 12, 3  # the first of the batch is as it should be
OPTIONS = {
    "longformer": {"window": 2, "n_global": 1}, "bigbird": {"block": 2, "random": 1},
    "performer": {"features": 16}, "shuffled": {"k": 3}, "ascender": {"k": 3},
}  # fmt: skip
TOLERANCE = 1e-4  # float32; of gradients a hundredth as large as the largest, a hundredth of it

# mask → (causal, the tokens that are padding, those that are bad)
MASKS = {
    "causal": (True, slice(0, 0), slice(8, 9)),
    "causal padded": (True, slice(0, 4), slice(2, 4)),
    "padded": (False, slice(9, None), slice(9, None)),
    "pattern": (False, slice(0, 0), slice(8, 9)),  # for those that have one
}


def make(name, **options):
    torch.manual_seed(0)
    module = attention(name, DIM, HEADS, **{**OPTIONS.get(name, {}), **options}).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(0.4 * torch.randn(p.shape))
    return module


def combinations():
    """Every attention with every position, and with every normaliser, that it takes."""
    found = []
    for name in ATTENTIONS:
        for option, names in (("position", POSITIONS), ("normalizer", NORMALIZERS)):
            for value in names:
                try:
                    make(name, **{option: value})
                except Unsupported:
                    continue
                found.append((name, option, value))
    return found


def tokens(mask, values=BAD):
    """(the tokens, the same with bad ones, which these are, which are no padding)."""
    _, cut, at = MASKS[mask]
    x = torch.randn(B, N, DIM, generator=torch.Generator().manual_seed(1))
    real, bad = torch.ones(B, N, dtype=torch.bool), torch.zeros(B, N, dtype=torch.bool)
    real[:, cut] = False
    spoilt = x.clone()
    for b, value in enumerate(values, 1):
        bad[b, at] = True
        if math.isfinite(value):
            spoilt[b, at] = value * x[b, at].sign()
        else:
            spoilt[b, at, -1] = value
    return x, spoilt, bad, real


def visible(module, causal, real):
    """V in any head, (B, N, M)."""
    p = torch.arange(N)
    if hasattr(module, "visible"):
        mask = real[:, None, None]
        vis = Visibility(p, p, causal, module.window, module.n_global, mask)
        return module.visible(vis).any(1)
    V = real[:, None].expand(-1, N, -1)
    return V & (p <= p[:, None]) if causal else V


def outcome(module, x, rows, **kinds):
    """y, and the gradients by x and all parameters of a loss over some rows (B, N)."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    y = module(x, **kinds)
    along = torch.randn(y.shape, generator=torch.Generator().manual_seed(5))
    y.backward(along * rows[..., None])
    found = {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}
    return y.detach(), {"x": x.grad, **found}


def leaks(module, x, spoilt, bad, rows, **kinds):
    """By name: how far bad tokens move rows that do not see them, and the gradients of a loss over
    these rows by the other tokens and by parameters."""
    good, want = outcome(module, x, rows, **kinds)
    got, have = outcome(module, spoilt, rows, **kinds)
    pairs = {"out": (got[rows], good[rows]), **{n: (have[n], want[n]) for n in want}}
    pairs["x"] = have["x"][~bad], want["x"][~bad]
    least = 0.01 * max(float(b.norm()) for _, b in pairs.values())
    gaps = {n: float((a - b).norm() / b.norm().clamp_min(least)) for n, (a, b) in pairs.items()}
    return {name: gap for name, gap in gaps.items() if not gap <= TOLERANCE}, got


@pytest.mark.parametrize(("name", "option", "value"), combinations())
def test_hidden_tokens_change_nothing(name, option, value):
    module, tried = make(name, **{option: value}), 0
    more = {"neighbours": grid(1, N, 1)} if name == "graph" else {}
    for mask, (causal, _, _) in MASKS.items():
        if mask == "pattern" and module.pattern(torch.arange(N), torch.arange(N)).all():
            continue
        x, spoilt, bad, real = tokens(mask)
        V = visible(module, causal, real)
        sees = (V & bad[:, None]).any(-1) | (bad & V.any(-1))
        try:
            wrong, y = leaks(module, x, spoilt, bad, ~sees & ~bad, causal=causal, mask=real, **more)
        except Unsupported:
            continue
        tried += 1
        assert not wrong, mask
        nan = y.isnan().all(-1)
        assert torch.equal(nan[:4], sees[:4]), (mask, "what is not finite is seen where it is")
        assert not bool((nan & ~sees).any()), mask
    assert tried


def test_the_law_can_fail(monkeypatch):
    """Where nobody looks at the tokens, everything leaks."""
    x, spoilt, bad, real = tokens("padded")
    kinds = {"mask": real}
    assert not leaks(make("vanilla"), x, spoilt, bad, real, **kinds)[0]
    monkeypatch.setattr(slot, "within_limits", lambda t: True)
    assert set(leaks(make("vanilla"), x, spoilt, bad, real, **kinds)[0]) >= {
        "out",
        "x",
        "W_K.weight",
    }
    monkeypatch.undo()
    seen = leaks(make("vanilla"), x, spoilt, bad, real)[0]  # no mask: the tokens are in sight
    assert "out" in seen


@pytest.mark.parametrize("name", ["vanilla", "linear", "performer"])
def test_hidden_tokens_of_a_context_change_nothing(name):
    module = make(name)
    x, spoilt, bad, real = tokens("padded")
    rows = torch.randn(B, 5, DIM, generator=torch.Generator().manual_seed(2))
    found = []
    for given in (x, spoilt):
        context = given.clone().requires_grad_()
        module.zero_grad()
        y = module(rows, context, mask=real)
        y.square().sum().backward()
        grads = [p.grad.clone() for p in module.parameters()]
        found.append([y.detach(), context.grad[~bad], *grads])
        with torch.no_grad():
            memory = CrossKV()
            for _ in range(2):
                again = module(rows, context, mask=real, cache=memory)
                assert torch.allclose(again, y, atol=1e-4)
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["vanilla", "longformer", "bigbird", "linear", "performer"])
def test_decoding_past_bad_tokens(name):
    """One token at a time equals the full pass: padding that is bad is forgotten, and what is not
    finite and in sight spoils every later row."""
    module = make(name)
    for mask in ("causal padded", "causal"):
        _, spoilt, _, real = tokens(mask, BAD[:3])
        with torch.no_grad():
            want = module(spoilt, causal=True, mask=real)
            cache = module.new_cache()
            first = module(spoilt[:, :6], mask=real[:, :6], cache=cache)
            steps = [
                module(spoilt[:, i : i + 1], mask=real[:, i : i + 1], cache=cache)
                for i in range(6, N)
            ]
        got = torch.cat([first, *steps], 1)
        assert torch.allclose(got[real], want[real], rtol=1e-4, atol=1e-4, equal_nan=True), mask
        assert bool(want[real].isfinite().any())


def test_rows_that_see_large_tokens_are_computed_as_ever():
    """1e9 is large and no reason to give up: outputs and gradients are those of the definition."""
    module, rows = make("vanilla").double(), torch.ones(B, N, dtype=torch.bool)
    x = tokens("causal")[0].double()
    x[1, 8] *= 1e9
    y, grads = outcome(module, x, rows, causal=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot, "within_limits", lambda t: True)
        want, expected = outcome(module, x, rows, causal=True)
    assert torch.equal(y[1, 8:], want[1, 8:])
    assert torch.allclose(y, want, atol=1e-12)
    for name, grad in grads.items():
        assert torch.allclose(grad, expected[name], rtol=1e-9), name


def test_parts_past_bad_tokens():
    module = make("vanilla")
    x, spoilt, _, _ = tokens("causal", BAD[:3])
    y, parts = module(spoilt, causal=True, return_parts=True)
    nan = parts.weights.isnan().any(-1).any(1)
    assert torch.equal(nan, y.isnan().any(-1))
    want = module(x, causal=True, return_parts=True)[1].weights
    kept = ~nan[:, None, :, None].expand_as(want)
    assert torch.allclose(parts.weights[kept], want[kept], atol=1e-6)
