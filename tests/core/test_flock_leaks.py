"""What a row does not see changes nothing in it, in flock scope under any mask: neither its output
nor, through it, a gradient. Not even where it is NaN, infinite, or so large that it overflows."""

import random
from dataclasses import replace

import pytest
import torch

from ascender import Rules, asc_attention
from support.cases import FEW, B, H
from support.flock_cases import flock_serving, flocked
from support.laws import spoilt_wrongly, visible
from support.worked_cases import oracle_of

pytestmark = pytest.mark.usefixtures("unchecked")

FAST, MANY = 200, 10_000
VALUES = ("other", torch.nan, torch.inf, 1e18)  # a product of two 1e18 is finite
KEYS, QUERIES = ("k", "v", "z_k", "h_k"), ("q", "z_q", "h_q")


def random_call(seed):
    """(tokens, options, V): any shape, any mask, any option."""
    r, g = random.Random(seed), torch.Generator().manual_seed(seed)
    cross, heads, M = r.random() < 0.2, r.randint(1, 3), r.randint(2, 13)
    batch, N = r.randint(1, 2), r.randint(1, 9 if cross else M)
    shared, d = r.choice([1, heads]), r.randint(1, 9)

    def draw(*shape):
        return torch.randn(*shape, generator=g)

    shapes = {"q": (heads, N, d), "k": (heads, M, d), "v": (heads, M, 3), "z_q": (shared, N, 2),
              "z_k": (shared, M, 2), "h_q": (shared, N, 4), "h_k": (shared, M, 4)}  # fmt: skip
    tokens = {name: draw(batch, *shape) for name, shape in shapes.items()}
    options = {"scope": "flock", "cross": cross, "causal": not cross and r.random() < 0.5}
    options |= {"affinity": r.choice(["tied", "query-key"]), "affinity_term": r.random() < 0.7}
    options["neighbours"] = r.choice(["semantic", "semantic", "scores"])
    if not cross:
        options |= {"window": r.choice([None, 0, 1, 3]), "n_global": r.choice([0, 0, 1, 2])}
        if options["affinity"] == "query-key" and r.random() < 0.3:
            options["affinity_bias"] = draw(8)
    rows = r.choice([(1, 1), (heads, 1), (1, N), (heads, N)])
    options["mask"] = torch.rand(batch, *rows, M, generator=g) < r.choice([0.3, 0.7, 0.9])
    least = 1 if cross else 0
    far = [r.randint(least, 5) for _ in range(heads if r.random() < 0.3 else 1)]
    options["rules"] = Rules(
        k=r.randint(1, 5), far=far, omega_align=0.8, omega_sep=1.0, omega_coh=0.7, kappa=2.0,
        standardise=r.random() < 0.8, local_scope=r.choice(["visible", "neighbours"]),
    )  # fmt: skip
    V = options["mask"].expand(batch, heads, N, M).clone()
    if options["causal"]:
        V &= torch.arange(M) <= torch.arange(M - N, M)[:, None]
    return tokens, options, V


def with_others(tokens, options, keys, value):
    """The tokens of these keys (in self-attention also as queries) replaced."""
    M, N = tokens["k"].shape[2], tokens["q"].shape[2]
    queries = [] if options["cross"] else [j - M + N for j in keys if j >= M - N]
    new = {name: t.clone() for name, t in tokens.items()}
    for names, where in ((KEYS, keys), (QUERIES, queries)):
        for name in names:
            here = new[name][:, :, where]
            new[name][:, :, where] = 3 - 2 * here if value == "other" else value
    return new, queries


def rows_and_gradients(tokens, options, backend, blind):
    """The outputs of some rows, and the gradients of a loss over them alone."""
    leaves = {name: t.clone().requires_grad_() for name, t in tokens.items()}
    out = asc_attention(**leaves, **options, backend=backend)
    torch.where(blind[..., None], out, 0).square().sum().backward()
    return {"out": out.detach()[blind], **{name: t.grad for name, t in leaves.items()}}


def leak(seed, sighted=False):
    """How far hidden tokens reach, by outputs and by gradients, on one backend of a random call."""
    tokens, options, V = random_call(seed)
    r = random.Random(-1 - seed)
    backend = r.choice(["flock", "flock", "dense", *flock_serving(torch.float32)])
    M = tokens["k"].shape[2]
    keys = [j for j in range(M) if r.random() < 0.4] or [r.randrange(M)]
    new, queries = with_others(tokens, options, keys, r.choice(VALUES[:1] if sighted else VALUES))
    blind = V.any(-1) if sighted else ~V[..., keys].any(-1)
    blind[:, :, queries] = False
    before, after = (rows_and_gradients(t, options, backend, blind) for t in (tokens, new))
    worst = 0.0
    for name, t in before.items():
        gap = (after[name] - t).abs().max() if t.numel() else torch.zeros(())
        size = max(1.0, float(t.abs().max()) if t.numel() else 0.0)
        worst = max(worst, float(gap.nan_to_num(torch.inf)) / size)
    return worst, backend


def check(seeds):
    for seed in seeds:
        worst, backend = leak(seed)
        assert worst <= 1e-4, (seed, backend, worst)


def test_no_leak_under_random_masks():
    check(range(FAST))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_leak_under_many_random_masks(part):
    check(range(FAST + part * MANY // 10, FAST + (part + 1) * MANY // 10))


def test_a_leak_would_be_noticed():
    """Rows that do see the tokens change, nearly always (not where F(i) leaves them out)."""
    found = [leak(seed, sighted=True)[0] > 1e-3 for seed in range(60)]
    assert sum(found) > 30


# NaN in gives NaN out in the rows that see it and in no other.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", FEW)
def test_nan_spoils_the_rows_that_see_it(kind, dtype):
    x = flocked(kind, "shared" if dtype == torch.float32 else "bare").to(dtype)
    tokens = {"q": x.N - 1, "k": x.M // 2, "v": 0, "h": x.M - 1, "bare": 1}
    for backend in ("dense", *flock_serving(dtype)):
        wrong = {
            name: spoilt_wrongly(x, backend, name, tokens.get(name, 0))
            for name in x.leaves
            if name != "h"  # that of queries is another leaf here
        }
        assert not any(wrong.values()), (backend, wrong)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", ["full", "causal", "cross padded"])
def test_a_key_that_no_flock_holds_is_still_seen(kind, value):
    """Whom i looks at depends on every key that is visible: none of them may be lost silently."""
    x = flocked(kind)
    flock = torch.from_numpy(oracle_of(x)["flock"])
    V = visible(x).expand(B, H, -1, -1)
    unheld = (V & ~flock).nonzero()[0].tolist()
    b, _, i, j = unheld
    t = x.leaves["h"].clone()
    t[b, :, j] = value
    for backend in ("dense", *flock_serving()):
        out = asc_attention(**x.but(h=t).call(), backend=backend)
        assert out[b, :, i].isnan().all(), backend


@pytest.mark.parametrize("options", ["low-rank", "key-bias"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_nan_in_a_bias_spoils_the_rows_that_see_it(options, dtype):
    x = flocked("padded left", options).to(dtype)
    for name in {"left", "right", "bias"} & set(x.leaves):
        for token in (0, x.M - 1):
            t = x.leaves[name].clone()
            t[1, -1, token, 0] = torch.nan
            expected = asc_attention(**x.but(**{name: t}).call(), backend="dense").isnan()
            for backend in flock_serving(dtype):
                out = asc_attention(**x.but(**{name: t}).call(), backend=backend)
                assert torch.equal(out.isnan(), expected), (name, token, backend)


@pytest.mark.parametrize("backend", flock_serving(torch.float32))
@pytest.mark.parametrize("scope", ["visible", "flock"])
def test_a_number_that_is_nan_is_not_hidden(scope, backend):
    """A diverged parameter shows in every row of its head, on the C kernels too."""
    x = flocked("full", "distance", 37).to(torch.float32)
    x = replace(x, flock={**x.flock, "scope": scope})
    for name in ("omega_align", "omega_sep", "omega_coh", "omega_aff", "alpha_align", "alpha_coh"):
        value = x.numbers[name].clone()
        value[1] = torch.nan
        spoilt = replace(x, numbers={**x.numbers, name: value})
        if (scope, backend) != ("visible", "flock"):
            out = asc_attention(**spoilt.call(), backend=backend)
            assert out[:, 1].isnan().all(), name
            assert out[:, [0, 2]].isfinite().all(), name


def test_parts_of_hidden_nan():
    """Weights and terms of rows that do not see a NaN are finite."""
    x = flocked("causal")
    v = x.leaves["v"].clone()
    v[:, :, -1] = torch.nan
    _, parts = asc_attention(**replace(x.but(v=v)).call(), return_parts=True)
    assert parts.weights[:, :, :-1].isfinite().all()
    assert all(t.isfinite().all() for t in parts.terms().values())
