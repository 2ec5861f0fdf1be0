"""Blocks near, global and random, against loops and against transformers' BigBird."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ascender.core.visibility import Visibility
from ascender.nn.baselines import attention
from ascender.nn.baselines.bigbird import (
    BigBird,
    Plan,
    bigbird_attention,
    bigbird_count,
    bigbird_visible,
)
from ascender.nn.baselines.vanilla import Vanilla
from support.patterned import (
    B,
    Grow,
    H,
    Slope,
    Turn,
    bias,
    gaps,
    leaves,
    padding,
    patterned_path,
    plain,
)

DIM = 15
PLANS = {
    "usual": Plan(block=5, random=2),
    "no globals": Plan(block=7, n_global=0, random=3, seed=5),
    "wide": Plan(block=3, near=2, n_global=2, random=1),
    "fixed": Plan(block=4, near=0, random=0),
    "one block": Plan(block=64),
}


path = pytest.fixture(params=["blocks", "square"], autouse=True)(patterned_path)


@cache
def oracle(N, M, plan, causal):
    """Who sees whom, (H, N, M), by loops; the random blocks are the plan's."""
    L, b, g = plan.block, plan.near, plan.n_global
    C = -(-M // L)
    drawn = plan.drawn(torch.arange(C), H, None if causal else C).tolist()
    V = torch.zeros(H, N, M, dtype=torch.bool)
    for h in range(H):
        for i in range(N):
            p = i + M - N
            for j in range(M):
                c, d = p // L, j // L
                globals_ = d < g or (not causal and d >= C - g)
                all_seeing = not causal and (c < g or c >= C - g)
                near = abs(c - d) <= b
                seen = globals_ or all_seeing or near or d in drawn[h][c]
                V[h, i, j] = seen and (not causal or j <= p)
    return V


# The plan.


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("N", "M"), [(47, 47), (17, 47), (1, 1), (9, 9)])
def test_visible_is_the_definition(name, causal, N, M):
    vis = Visibility.of(N, M, causal=causal)
    got = bigbird_visible(vis.p, vis.j, PLANS[name], H, causal)
    assert torch.equal(got, oracle(N, M, PLANS[name], causal))


@pytest.mark.parametrize("blocks", [None, 1, 2, 3, 5, 6, 11, 40])
def test_lists_name_no_block_twice_and_draw_what_is_left(blocks):
    plan = Plan(block=2, random=4)
    C = blocks or 40
    c = torch.arange(C)
    lists, drawn = plan.lists(c, H, blocks), plan.drawn(c, H, blocks)
    for h in range(H):
        for i in range(C):
            listed = [d for d in lists[h, i].tolist() if d >= 0]
            assert len(set(listed)) == len(listed), "twice"
            assert all(0 <= d < C and (blocks is not None or d <= i) for d in listed)
            if not bool(plan.everything(c, blocks)[i]):
                last = i + 1 if blocks is None else C
                fixed = {0, i, *([i - 1] * (i > 0))}
                fixed |= set() if blocks is None else {i + 1, C - 1}
                found = {d for d in drawn[h, i].tolist() if d >= 0}
                assert not found & fixed
                assert set(listed) == found | fixed
                assert len(found) == min(4, last - len(fixed)), "draws while any are left"


def test_draws_are_uniform_and_their_own():
    """Every pair of blocks as often: 400 seeds, within five standard deviations."""
    C, r, seeds, c = 12, 2, 400, torch.tensor([5])
    hits = torch.zeros(H, C, C)
    for seed in range(seeds):
        found = Plan(random=r, seed=seed).drawn(c, H, C)[:, 0]
        for h in range(H):
            hits[h, found[h, 0], found[h, 1]] += 1
    free = torch.tensor([d for d in range(C) if d not in (0, 4, 5, 6, C - 1)])
    pairs = hits[:, free][..., free]
    assert float(hits.sum()) == float(pairs.sum()) == H * seeds
    off = ~torch.eye(len(free), dtype=torch.bool)
    share = 1 / int(off.sum())
    sd = (seeds * share * (1 - share)) ** 0.5
    assert float((pairs[:, off] - seeds * share).abs().max()) < 5 * sd
    assert float((pairs[:, off] - seeds * share).square().mean() ** 0.5) == pytest.approx(
        sd, rel=0.2
    )
    many = torch.arange(60)
    lists = {s: Plan(seed=s).drawn(many, H, 60) for s in (0, 1)}
    assert torch.equal(lists[0], Plan(seed=0).drawn(many, H, 60)), "a seed gives the same again"
    assert not torch.equal(lists[0], lists[1])
    assert not torch.equal(lists[0][0], lists[0][1]), "heads differ"


def test_a_causal_draw_does_not_know_what_comes():
    plan, c = Plan(), torch.arange(30)
    short, long = plan.drawn(c[:20], H, None), plan.drawn(c, H, None)
    assert torch.equal(long[:, :20], short)
    assert torch.equal(plan.drawn(c[17:18], H, None), short[:, 17:18])
    assert not torch.equal(plan.drawn(c[:20], H, 20), plan.drawn(c[:20], H, 30)), "others do"


@pytest.mark.parametrize("name", ["block", "near", "n_global", "random"])
def test_bad_plans(name):
    with pytest.raises(ValueError, match=f"{name} = -1; expected an int ≥"):
        Plan(**{name: -1})


# The function.


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", [None, "right", "left"])
def test_attention_is_the_definition(name, causal, side):
    plan = PLANS[name]
    for N, M, kind in ((47, 47, "by key"), (17, 47, "low rank"), (47, 47, "none"), (3, 3, "none")):
        x, mask = leaves(N, M, kv_heads=1), None if side is None else padding(M, side)
        V = oracle(N, M, plan, causal)
        V = V if mask is None else V & mask
        vis = Visibility.of(N, M, causal=causal, mask=mask)
        got = bigbird_attention(x["q"], x["k"], x["v"], vis, plan, bias(x, kind))
        found = gaps(x, got, plain(x["q"], x["k"], x["v"], V, bias(x, kind)))
        assert max(found.values()) < 1e-11, (N, M, kind, found)
        n = V.sum(-1, keepdim=True)
        assert torch.equal(bigbird_count(vis, plan, H), n if mask is not None else n[None])


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_some_blocks_at_a_time(causal, monkeypatch):
    """Without gradients the keys are gathered in pieces."""
    plan, x, vis = PLANS["usual"], leaves(47, 47), Visibility.of(47, 47, causal=causal)
    want = bigbird_attention(x["q"], x["k"], x["v"], vis, plan)
    monkeypatch.setattr("ascender.nn.baselines.bigbird.MAX_GATHERED", 1)
    pieces = bigbird_attention(x["q"], x["k"], x["v"], vis, plan)
    assert torch.allclose(pieces, want, rtol=0, atol=1e-14)


def test_what_is_hidden_reaches_nobody():
    N, mask, plan = 47, padding(47), PLANS["usual"]
    x = leaves(N, N)
    vis = Visibility.of(N, N, mask=mask)
    want = bigbird_attention(x["q"], x["k"], x["v"], vis, plan)
    bad = {n: t.masked_fill(~mask.mT, torch.nan) if n in "kv" else t for n, t in x.items()}
    assert torch.equal(bigbird_attention(bad["q"], bad["k"], bad["v"], vis, plan), want)
    for causal in (False, True):
        nobody = Visibility.of(N, N, mask=torch.zeros_like(mask), causal=causal)
        out = bigbird_attention(x["q"], x["k"], x["v"], nobody, plan)
        assert bool((out == 0).all())
        grads = torch.autograd.grad(out.sum(), [x["q"], x["k"]])
        assert all(bool(g.isfinite().all()) for g in grads)


# transformers.


L, BLOCKS, R = 4, 13, 2


def theirs():
    hf = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    config = pytest.importorskip("transformers").BigBirdConfig(
        hidden_size=DIM, num_attention_heads=H, block_size=L, num_random_blocks=R, use_bias=True
    )
    torch.manual_seed(3)
    return hf.BigBirdBlockSparseAttention(config, seed=7).double().train()


def run_theirs(hf, x, real):
    from transformers import BigBirdModel

    blocked, band, rows, keys = BigBirdModel.create_masks_for_block_sparse_attn(real.double(), L)
    return hf(
        x, band_mask=band, from_mask=rows, to_mask=keys, from_blocked_mask=blocked,
        to_blocked_mask=blocked,
    )[0]  # fmt: skip


def ours(hf, plan):
    """With their weights, and no W_O."""
    module = BigBird(DIM, H, bias=True).double()
    module.plan = plan
    for here, there in {"W_Q": "query", "W_K": "key", "W_V": "value"}.items():
        getattr(module, here).load_state_dict(getattr(hf, there).state_dict())
    torch.nn.init.eye_(module.W_O.weight)
    torch.nn.init.zeros_(module.W_O.bias)
    return module


@dataclass(frozen=True)
class Given(Plan):
    """A plan whose draw is somebody else's, (H, blocks − 2, r): the first and last have none."""

    given: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    def drawn(self, c, heads, blocks):
        return F.pad(self.given, (0, 0, 1, 1), value=-1)[:, c]


def their_draw(hf):
    np.random.seed(hf.seed)
    length, blocks = hf._get_rand_attn_plan(L * BLOCKS, L, R)
    lists = hf._bigbird_block_rand_mask_with_head(L * BLOCKS, L * BLOCKS, L, L, H, length, blocks)
    return torch.from_numpy(np.stack(lists)).long()


@pytest.mark.parametrize("whose", ["ours", "theirs"])
@pytest.mark.parametrize("pad", [0, 7])
def test_transformers_bigbird(whose, pad, monkeypatch):
    hf, real = theirs(), torch.ones(B, L * BLOCKS, dtype=torch.bool)
    real[1, L * BLOCKS - pad :] = False
    plan = Plan(block=L, random=R)
    if whose == "theirs":
        plan = Given(block=L, random=R, given=their_draw(hf))
    else:
        draw = plan.drawn(torch.arange(1, BLOCKS - 1), H, BLOCKS).numpy()
        monkeypatch.setattr(hf, "_bigbird_block_rand_mask_with_head", lambda **_: list(draw))
    x = torch.randn(B, L * BLOCKS, DIM, dtype=torch.double, requires_grad=True)
    want, got = run_theirs(hf, x, real), ours(hf, plan)(x, mask=real)
    assert torch.allclose(got[real], want[real], rtol=0, atol=1e-12)
    along = torch.randn_like(want) * real[..., None]
    a, b = (torch.autograd.grad(y, x, along)[0] for y in (got, want))
    assert torch.allclose(a, b, rtol=0, atol=1e-12)
    other = ours(hf, Plan(block=L, random=R, seed=1))(x, mask=real)
    assert not torch.allclose(other[real], want[real], atol=1e-2)


def test_transformers_evaluates_with_block_0_counted_again():
    """What the module's page says of it: r times more for all but the global blocks."""
    hf, N = theirs().eval(), L * BLOCKS
    x = torch.randn(B, N, DIM, dtype=torch.double)
    module = ours(hf, Plan(block=L, random=0))
    q, k, v = (module._split(lin(x)) for lin in (module.W_Q, module.W_K, module.W_V))
    n = torch.ones(N, N, dtype=torch.double)
    n[L:-L, :L] = 1 + R
    V = module.pattern(torch.arange(N), torch.arange(N))
    real = torch.ones(B, N, dtype=torch.bool)
    want = module._merge(plain(q, k, v, V, n=n))
    assert torch.allclose(run_theirs(hf, x, real), want, rtol=0, atol=1e-12)
    assert not torch.allclose(module(x), want, atol=1e-3)


def test_transformers_draws_what_is_seen_anyway_at_some_lengths():
    hf = theirs()
    np.random.seed(0)
    lists = hf._bigbird_block_rand_mask(1024, 1024, 64, 64, 3, last_idx=1024)
    assert bool((np.abs(lists[-1] - 14) <= 1).any()), "block 14 draws itself or a neighbour"


# The object.


def make(**options):
    torch.manual_seed(0)
    return BigBird(DIM, H, **{"block": 3, "random": 1, **options}).double()


def tokens(n, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, n, DIM, dtype=torch.double, generator=g)


@pytest.mark.parametrize(
    ("options", "near", "n_global"),
    [
        ({}, 1, 1),
        ({"window": 7}, 3, 1),
        ({"window": 0, "n_global": 0}, 0, 0),
        ({"n_global": 6}, 1, 2),
    ],
)
def test_tokens_become_whole_blocks(options, near, n_global):
    plan = make(**options).plan
    assert (plan.block, plan.near, plan.n_global, plan.random) == (3, near, n_global, 1)


@pytest.mark.parametrize("causal", [False, True])
def test_enough_random_blocks_are_vanilla(causal):
    module, x = make(random=20, position=Turn()), tokens(31)
    whole = Vanilla(DIM, H, position=Turn()).double()
    whole.load_state_dict(module.state_dict())
    want = whole(x, causal=causal)
    assert torch.allclose(module(x, causal=causal), want, atol=1e-12)
    few = make(position=Turn())
    assert not torch.allclose(few(x, causal=causal), want, atol=1e-3)


CUTS = [1, 20, 1, 1, 9, *[1] * 8, 11]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("position", [Turn, Slope])
@torch.no_grad()
def test_decode_equals_prefill(masked, position):
    N = sum(CUTS)
    module, x = make(position=position(), kv_heads=1, normalizer=Grow()), tokens(N)
    rows = torch.ones(B, N, dtype=torch.bool)
    if masked:
        rows[1, :3] = rows[0, 44] = False
    mask = rows if masked else None
    want = module(x, causal=True, mask=mask)

    def in_pieces(module):
        past, out, a = module.new_cache(), [], 0
        for n in CUTS:
            real = rows[:, a : a + n] if masked else None
            out.append(module(x[:, a : a + n], cache=past, mask=real))
            a += n
        return torch.cat(out, 1)

    assert torch.allclose(in_pieces(module)[rows], want[rows], atol=1e-12)
    module.plan = Plan(block=3, random=1, seed=1)
    assert not torch.allclose(in_pieces(module)[rows], want[rows], atol=1e-3), "another seed"


def test_normaliser_and_temperature():
    N, mask = 47, padding(47)[:, 0, 0]
    module, x = make(normalizer=Grow()), tokens(N)
    by_key = torch.randn(H, 1, N, dtype=torch.double)
    for causal in (False, True):
        q, k, v = (module._split(lin(x)) for lin in (module.W_Q, module.W_K, module.W_V))
        V = oracle(N, N, module.plan, causal) & mask[:, None, None]
        sharp = module.normalizer.sharpen(q, V.sum(-1, keepdim=True)) / Grow.temperature
        want = plain(sharp, k, v, V, by_key / Grow.temperature)
        got = module(x, causal=causal, mask=mask, other=by_key)
        assert torch.allclose(got, module._merge(want), atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_no_row_sees_further(causal):
    module, N = make(), 31
    x = tokens(N)[:1]
    V = oracle(N, N, module.plan, causal).any(0)
    changed = x.repeat(N, 1, 1)
    changed[range(N), range(N)] *= -1
    for one, near in ((module, True), (Vanilla(DIM, H).double(), False)):
        y, z = (one(t, causal=causal) for t in (changed, x))
        moved = ((y - z).abs().amax(-1) > 1e-12).T  # [row, token]
        assert bool((moved & ~V).any()) != near


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": -1}, r"window = -1; expected an int ≥ 0, or None"),
        ({"n_global": -2}, r"n_global = -2; expected an int ≥ 0, or None"),
        ({"block": 0}, r"block = 0; expected an int ≥ 1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_window_beside_the_plan_is_refused():
    zero = [torch.zeros(1, 1, 3, 2) for _ in range(3)]
    with pytest.raises(ValueError, match="window = 2; expected None: the plan's blocks"):
        bigbird_attention(*zero, Visibility.of(3, 3, window=2), Plan())


def test_by_name():
    assert attention("bigbird", DIM, H, block=8, seed=3).plan == Plan(block=8, seed=3)
