"""The plain baselines against torch's own modules and loops, and what all of the slot share."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ascender import AscenderAttention
from ascender.core.combine import LowRank, add_bias
from ascender.core.neighbours import as_mask, grid, tree
from ascender.nn.baselines import graph
from ascender.nn.baselines.graph import GraphBias, distance
from ascender.nn.baselines.shuffled import Shuffled, directions
from ascender.nn.baselines.vanilla import Matched, Vanilla
from ascender.nn.slot import Unsupported

B, N, DIM, HEADS = 2, 11, 15, 3


def tokens(n=N, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, n, DIM, dtype=torch.double, generator=g)


def make(kind, **options):
    torch.manual_seed(0)
    return kind(DIM, HEADS, **options).double().eval()


def torch_own(module):
    """nn.MultiheadAttention with the same weights."""
    own = nn.MultiheadAttention(DIM, HEADS, bias=False, batch_first=True).double()
    with torch.no_grad():
        own.in_proj_weight.copy_(
            torch.cat([module.W_Q.weight, module.W_K.weight, module.W_V.weight])
        )
        own.out_proj.weight.copy_(module.W_O.weight)
    return own


def padding(side):
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, slice(0, 4) if side == "left" else slice(7, None)] = False
    return real


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pad", [None, "right", "left"])
def test_vanilla_is_torchs_own(causal, pad):
    module, x = make(Vanilla), tokens()
    real = None if pad is None else padding(pad)
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1) if causal else None
    want, weights = torch_own(module)(
        x, x, x, attn_mask=hidden, key_padding_mask=None if real is None else ~real,
        average_attn_weights=False,
    )  # fmt: skip
    y = module(x, causal=causal, mask=real)
    out, parts = module(x, causal=causal, mask=real, return_parts=True)
    rows = want.isfinite().all(-1)  # torch's own has NaN in rows that see nothing
    assert torch.allclose(y[rows], want[rows], atol=1e-12)
    assert torch.allclose(out[rows], want[rows], atol=1e-12)
    assert torch.allclose(parts.weights.transpose(1, 2)[rows], weights.transpose(1, 2)[rows])
    assert bool((y[~rows] == 0).all())
    assert rows.all() == (not (causal and pad == "left")), "the empty rows were there"


def test_vanilla_gradients_are_torchs_own():
    module = make(Vanilla)
    x, x2 = tokens().requires_grad_(), tokens().requires_grad_()
    real = padding("right")
    module(x, causal=True, mask=real).square().sum().backward()
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    torch_own(module)(x2, x2, x2, attn_mask=hidden, key_padding_mask=~real)[
        0
    ].square().sum().backward()
    assert torch.allclose(x.grad, x2.grad, atol=1e-12)


def biases():
    g = torch.Generator().manual_seed(3)
    randn = lambda *s: torch.randn(*s, generator=g, dtype=torch.double)  # noqa: E731
    return {
        "matrix": randn(B, HEADS, N, N),
        "by key": randn(HEADS, 1, N),
        "low rank": LowRank(randn(B, 1, N, 2), randn(HEADS, N, 2)),
    }


@pytest.mark.parametrize("name", biases())
@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_is_added_to_the_scores(name, causal):
    module, x, other = make(Vanilla, kv_heads=1), tokens(), biases()[name]
    y, parts = module(x, causal=causal, mask=padding("right"), other=other, return_parts=True)
    assert torch.allclose(
        module(x, causal=causal, mask=padding("right"), other=other), y, atol=1e-12
    )
    dense = other.dense() if isinstance(other, LowRank) else other
    seen = parts.weights != 0
    want = torch.where(seen, parts.base + dense, 0)
    assert torch.allclose(parts.total, want, atol=1e-12)
    assert not torch.allclose(module(x, causal=causal, mask=padding("right")), y, atol=1e-3)


@pytest.mark.parametrize("a", biases())
@pytest.mark.parametrize("b", biases())
def test_biases_add(a, b):
    full = lambda t: t.dense() if isinstance(t, LowRank) else t  # noqa: E731
    x, y = biases()[a], biases()[b]
    both = add_bias(x, y)
    assert torch.allclose(full(both), full(x) + full(y))
    assert isinstance(both, LowRank) == (("low rank" in (a, b)) and "matrix" not in (a, b))
    assert add_bias(x, None) is x
    assert add_bias(None, x) is x


@pytest.mark.parametrize(
    "options", [{}, {"geometry": "shared"}, {"d_z": 8, "d_a": 4}, {"kv_heads": 1}]
)
def test_matched_has_as_many_parameters(options):
    count = lambda m: sum(p.numel() for p in m.parameters())  # noqa: E731
    ours, theirs = AscenderAttention(64, 4, **options), Matched(64, 4, **options)
    plain = Vanilla(64, 4, **{k: v for k, v in options.items() if k == "kv_heads"})
    assert abs(count(ours) / count(theirs) - 1) < 0.02
    assert count(plain) < count(theirs)


# A graph.


def distance_by_search(lists, limit):
    """Breadth first, in plain Python."""
    n = len(lists)
    found = [[limit + 1] * n for _ in range(n)]
    for start in range(n):
        ring, seen = [start], {start}
        for d in range(limit + 1):
            for i in ring:
                found[start][i] = d
            ring = [j for j in {t for i in ring for t in lists[i] if t >= 0} if j not in seen]
            seen |= set(ring)
    return found


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_distance_is_that_of_a_search(limit):
    for lists in (tree(torch.tensor([1, -1, 1, 2, 2, 4, 5])), grid(3, 4)):
        want = distance_by_search(lists.tolist(), limit)
        assert distance(lists[None, None], limit)[0, 0].tolist() == want


def test_graph_bias_is_a_table_by_distance():
    module, x, lists = make(GraphBias, max_distance=2), tokens(), tree(torch.arange(N) // 2 - 1)
    plain = make(Vanilla)
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if k != "table"})
    assert torch.allclose(module(x, neighbours=lists), plain(x), atol=1e-12), "a table of 0"
    module.table.data.normal_()
    far = torch.tensor(distance_by_search(lists.tolist(), 2))
    want = plain(x, other=module.table[:, far])
    assert torch.allclose(module(x, neighbours=lists), want, atol=1e-12)
    assert not torch.allclose(want, plain(x), atol=1e-3)


@pytest.mark.parametrize("each", [False, True])
def test_graph_bias_has_the_gradient_of_its_table(each):
    """Lists that all examples share, or each its own."""
    module, x, plain = make(GraphBias, max_distance=2), tokens(), make(Vanilla)
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if k != "table"})
    trees = [tree(torch.arange(N) // 2 - 1), grid(1, N, 1)]
    near = (
        torch.stack([F.pad(t, (0, 3 - t.shape[1]), value=-1) for t in trees]) if each else trees[0]
    )
    module.table.data.normal_()
    table = module.table.detach().clone().requires_grad_()
    own = near if each else near.expand(B, -1, -1)
    far = torch.tensor([distance_by_search(one.tolist(), 2) for one in own])
    want = plain(x, other=table[:, far].transpose(0, 1), causal=True)
    got = module(x, neighbours=near, causal=True)
    assert torch.allclose(got, want, atol=1e-12)
    for y in (got, want):
        y.square().sum().backward()
    assert float(table.grad.abs().min()) > 0
    assert torch.allclose(module.table.grad, table.grad, atol=1e-12)


@pytest.mark.parametrize("each", [False, True])
def test_near_pairs_alone_are_the_definition(each, monkeypatch):
    """Outputs, and gradients of tokens, weights and table."""
    module, x, plain = (
        make(GraphBias, max_distance=2, kv_heads=1),
        tokens(),
        make(Vanilla, kv_heads=1),
    )
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if k != "table"})
    trees = [tree(torch.arange(N) // 2 - 1), grid(1, N, 1)]
    near = (
        torch.stack([F.pad(t, (0, 3 - t.shape[1]), value=-1) for t in trees]) if each else trees[0]
    )
    module.table.data.normal_(0, 2)
    own = near if each else near.expand(B, -1, -1)
    far = torch.tensor([distance_by_search(one.tolist(), 2) for one in own])
    table, a, b = (t.detach().clone().requires_grad_() for t in (module.table, x, x))
    want = plain(a, other=table[:, far].transpose(0, 1))
    monkeypatch.setattr(graph, "LARGE", 0)
    monkeypatch.setattr(graph, "FEW", 1.0)
    called, apply = [], graph._NearPairs.apply
    monkeypatch.setattr(graph._NearPairs, "apply", lambda *t: called.append(1) or apply(*t))
    got = module(b, neighbours=near)
    assert called
    assert torch.allclose(got, want, atol=1e-12)
    for y in (got, want):
        (y * torch.linspace(-1, 1, DIM, dtype=y.dtype)).square().sum().backward()
    assert float(table.grad.abs().min()) > 0
    assert torch.allclose(module.table.grad, table.grad, atol=1e-12)
    assert torch.allclose(a.grad, b.grad, atol=1e-12)
    assert torch.allclose(module.W_K.weight.grad, plain.W_K.weight.grad, atol=1e-12)
    called.clear()
    for more in ({"causal": True}, {"mask": torch.ones(B, N, dtype=torch.bool).tril(3)[:, :N]}):
        module(b, neighbours=near, **more)
    parts = module(b, neighbours=near, return_parts=True)[1]
    assert not called
    assert torch.allclose(parts.other, table[:, far].transpose(0, 1), atol=1e-12)
    monkeypatch.setattr(graph, "FEW", 0.01)
    graph._known.clear()
    module(b, neighbours=near)
    assert not called, "near pairs are many"


def test_distances_are_searched_once_for_all_layers_and_steps(monkeypatch):
    searched, search = [], graph._search
    monkeypatch.setattr(graph, "_search", lambda *a: searched.append(1) or search(*a))
    layers, x, near = [make(GraphBias), make(GraphBias)], tokens(), grid(1, N, 2)
    for layer in layers * 2:
        layer.table.data.normal_()
        layer(x, neighbours=near)
    assert len(searched) == 1
    before = layers[0](x, neighbours=near)
    near[0] = -1  # in place
    assert not torch.allclose(layers[0](x, neighbours=near), before)
    make(GraphBias, max_distance=1)(x, neighbours=near)
    assert len(searched) == 3


def test_graph_bias_needs_its_graph():
    module, x = make(GraphBias), tokens()
    with pytest.raises(ValueError, match=r"neighbours = None.*expected index lists"):
        module(x)
    with pytest.raises(Unsupported, match="graph attention cannot decode"):
        module(x, cache=Vanilla(DIM, HEADS).new_cache())
    with pytest.raises(ValueError, match="max_distance = 0"):
        GraphBias(DIM, HEADS, max_distance=0)


def test_a_tree_needs_its_places():
    with pytest.raises(ValueError, match=r"parents = \[0, 5\]; expected one place in"):
        tree(torch.tensor([0, 5]))


# The control.


def members(module, **kinds):
    return module.flock(module.call(tokens(), **kinds)).members


@pytest.mark.parametrize("kinds", [{}, {"causal": True}, {"neighbours": grid(1, N, 3)}])
def test_shuffled_has_as_many_members_and_others(kinds):
    ours, theirs = (members(make(kind, k=4), **kinds) for kind in (AscenderAttention, Shuffled))
    assert torch.equal((ours >= 0).sum(-1).expand_as((theirs >= 0).sum(-1)), (theirs >= 0).sum(-1))
    own = torch.arange(N)[:, None]
    assert not bool((theirs == own).any()), "nobody is its own flockmate"
    same = (as_mask(ours, N) == as_mask(theirs, N)).all(-1)
    assert float(same.double().mean()) < 0.7


def test_shuffled_members_are_uniform():
    """Every flockmate is drawn as often: 400 seeds, k of N − 1, within five standard deviations."""
    k, seeds = 3, 400
    hits = torch.zeros(HEADS, N, N)
    module = make(Shuffled, k=k)
    for seed in range(seeds):
        module.seed = seed
        hits += nn.functional.one_hot(members(module)[0], N).sum(-2)
    share = k / (N - 1)
    off = ~torch.eye(N, dtype=torch.bool)
    sd = (seeds * share * (1 - share)) ** 0.5
    assert float((hits[:, off] - seeds * share).abs().max()) < 5 * sd
    assert float((hits[:, off] - seeds * share).square().mean() ** 0.5) == pytest.approx(
        sd, rel=0.2
    )


def test_shuffled_draws_anew_while_training_and_not_after():
    module = make(Shuffled, k=3)
    assert torch.equal(members(module), members(module))
    module.train()
    a, b = members(module), members(module)
    assert not torch.equal(a, b)
    torch.manual_seed(5)
    a = members(module)
    torch.manual_seed(5)
    assert torch.equal(a, members(module)), "a seed gives the same run again"


def test_directions_depend_on_the_position_alone():
    like = torch.zeros(1, 2, 1, 1)
    whole = directions(torch.arange(9), 2, 7, like)
    assert torch.equal(directions(torch.tensor([4, 8]), 2, 7, like), whole[:, :, [4, 8]])
    assert not torch.equal(directions(torch.arange(9), 2, 8, like), whole)
    assert float(whole.abs().max()) <= 1


# The slot.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 4}, "heads = 4; expected a divisor of dim = 15"),
        ({"kv_heads": 2}, "kv_heads = 2; expected a divisor of heads = 3"),
        ({"dropout": 1.5}, r"dropout = 1.5; expected a number in \[0, 1\)"),
        ({"window": 4}, "window = 4: vanilla attention has no window; expected one of ascender"),
    ],
)
def test_bad_options(options, message):
    heads = options.pop("heads", HEADS)
    with pytest.raises(ValueError, match=message):
        Vanilla(DIM, heads, **options)


def test_bad_calls():
    module, x = make(Vanilla), tokens()
    with pytest.raises(
        ValueError, match=r"x has shape \(2, 11, 14\); expected \(batch, tokens, 15\)"
    ):
        module(x[..., 1:])
    with pytest.raises(ValueError, match=r"mask has shape \(2, 9\); expected padding"):
        module(x, mask=torch.ones(2, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"other has shape \(11, 3\)"):
        module(x, other=torch.zeros(11, 3))
    with pytest.raises(ValueError, match=r"no context; expected keys of width 7"):
        make(Vanilla, context_dim=7)(x)


def test_cross_attention():
    module, x = make(Vanilla, context_dim=7), tokens(5)
    context = torch.randn(B, 9, 7, dtype=torch.double)
    real = torch.ones(B, 9, dtype=torch.bool)
    real[:, 6:] = False
    want, _ = module(x, context[:, :6], return_parts=True)
    assert torch.allclose(module(x, context, mask=real), want, atol=1e-12)


@pytest.mark.parametrize("kind", [Vanilla, Matched, Shuffled])
def test_dropout_only_while_training(kind):
    module, x = make(kind, dropout=0.5), tokens()
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.allclose(module(x), module(x), atol=1e-3)
