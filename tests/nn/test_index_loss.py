"""The index loss: the loops' number, gradients to the index alone, and layers without an index."""

import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import ascender.core.index_loss as index_module
from ascender import AscenderAttention, LossWeights, collect
from ascender.hf import AscenderConfig
from ascender.train.run import Run

B, N, DIM, HEADS = 2, 11, 12, 3
INDEX = LossWeights(index=1.0)
INDEX_NAMES = {"P.weight", "P_k.weight", "distance_bias"}


def layer(**options):
    torch.manual_seed(0)
    given = {"scope": "flock", "far": 2, "window": 1, "n_global": 1, "affinity_bias": 8, "k": 3}
    made = AscenderAttention(DIM, HEADS, **{**given, **options}).double()
    with torch.no_grad():  # as they start, affinities are almost flat
        for p in (made.P.weight, made.P_k and made.P_k.weight):
            if p is not None:
                p.mul_(8)
    if made.distance_bias is not None:
        nn.init.normal_(made.distance_bias)
    return made


def tokens(grad=False):
    g = torch.Generator().manual_seed(1)
    return torch.randn(B, N, DIM, dtype=torch.double, generator=g).requires_grad_(grad)


def index_of(attention, x, **call):
    with collect(attention, INDEX) as found:
        out = attention(x, **call)
    return out, found.mean().index


def bucket(distance, buckets=8, last=1024):
    near = buckets // 2
    if distance < near:
        return distance
    step = math.log(distance / near) / math.log(last / near) * (buckets - near)
    return min(buckets - 1, near + int(step))


def by_hand(attention, x, weights, sees, outside):
    """The definition in loops, of causal attention and one h for all heads."""
    attention.requires_grad_(False)
    h_q, h_k = attention.P(x), attention.P_k(x)
    bias = attention.distance_bias
    rows = []
    for b in range(B):
        for i in range(N):
            S = [j for j in range(N) if sees(b, i, j) and outside(i, j)]
            mean = {j: float(weights[b, :, i, j].mean()) for j in S}
            mass = sum(mean.values())
            if not S or mass == 0:
                continue
            g = {j: float(h_q[b, i] @ h_k[b, j]) / math.sqrt(attention.d_a) for j in S}
            if bias is not None:
                g = {j: v + float(bias[bucket(i - j)]) for j, v in g.items()}
            norm = math.log(sum(math.exp(v) for v in g.values()))
            p = {j: v / mass for j, v in mean.items()}
            rows.append(sum(v * (math.log(v) - g[j] + norm) for j, v in p.items() if v > 0))
    return sum(rows) / len(rows)


@pytest.mark.parametrize("chunk", [1 << 22, HEADS * N * 2])
@pytest.mark.parametrize("dense_phase", [True, False])
@pytest.mark.parametrize("options", [{}, {"affinity_bias": 0}, {"affinity_term": False}])
def test_the_definition(options, dense_phase, chunk, monkeypatch):
    monkeypatch.setattr(index_module, "CHUNK", chunk)
    attention, x = layer(**options), tokens()
    attention.visible_phase = dense_phase
    _, parts = attention(x, causal=True, return_parts=True)
    out, found = index_of(attention, x, causal=True)
    assert torch.allclose(out, attention(x, causal=True), atol=1e-12), "the output stays"
    A = parts.weights.detach()

    def sees(b, i, j):
        return j <= i if dense_phase else A[b, 0, i, j] > 0

    def outside(i, j):
        return abs(i - j) > 1 and j >= 1

    assert found.item() == pytest.approx(by_hand(attention, x, A, sees, outside), abs=1e-10)
    wrong = by_hand(attention, x, A, sees, lambda i, j: abs(i - j) > 0 and j >= 1)
    assert found.item() != pytest.approx(wrong, rel=1e-3), "a window of 0 is another loss"


@pytest.mark.parametrize("dense_phase", [True, False])
def test_only_the_index_learns_from_it(dense_phase):
    attention, x = layer(), tokens(grad=True)
    attention.visible_phase = dense_phase
    index_of(attention, x, causal=True)[1].backward()
    assert x.grad is None
    learned = {name for name, p in attention.named_parameters() if p.grad is not None}
    assert learned == INDEX_NAMES
    assert all(p.grad.abs().max() > 0 for p in attention.parameters() if p.grad is not None)


def test_gradient_descent_finds_what_attention_looks_at():
    attention, x = layer(affinity_term=False, d_a=8), tokens()
    attention.visible_phase = True
    adam = torch.optim.Adam(attention.parameters(), 0.03)
    before = index_of(attention, x, causal=True)[1].item()
    for _ in range(60):
        adam.zero_grad()
        loss = index_of(attention, x, causal=True)[1]
        loss.backward()
        adam.step()
    assert loss.item() < 0.2 * before


def test_padding_says_nothing():
    attention, x = layer(), tokens()
    mask = torch.ones(B, N, dtype=torch.bool)
    mask[1, 7:] = False
    found = index_of(attention, x, causal=True, mask=mask)[1]
    other = x.masked_fill(~mask[..., None], 3.0)
    assert index_of(attention, other, causal=True, mask=mask)[1].item() == pytest.approx(
        found.item()
    )
    assert index_of(attention, x, causal=True)[1].item() != pytest.approx(found.item())


def test_nobody_outside_is_zero():
    attention = layer(window=N)
    assert index_of(attention, tokens(), causal=True)[1].item() == 0


@pytest.mark.parametrize("heads", [1, HEADS])
def test_cross_attention_and_heads_of_their_own(heads):
    attention = layer(window=0, n_global=0, affinity_heads=heads, affinity_bias=0)
    found = index_of(attention, tokens(), context=tokens()[:, :7])[1]
    assert found > 0


def test_with_the_other_losses_and_layers_without_an_index():
    net = nn.ModuleList([layer(), AscenderAttention(DIM, HEADS, k=3).double()])
    x = tokens()

    def run(weights=None):
        with collect(net, weights) as found:
            for attention in net:
                attention(x, causal=True)
        return found

    both = run()
    assert both.given[0].index is not None
    assert both.given[1].index is None
    assert both.mean().index == both.given[0].index, "the mean is over layers with an index"
    assert run(LossWeights(coh=1.0)).given[0].index is None
    alone = run(INDEX)
    assert alone.mean().coh == 0
    assert alone.total() == alone.mean().index
    weights = LossWeights(coh=0.5, index=0.25)
    mean = run(weights).mean()
    assert torch.equal(mean.total(weights), 0.5 * mean.coh + 0.25 * mean.index)


def test_checkpointing_gives_it_once():
    attention, x = layer(), tokens(grad=True)
    with collect(attention, INDEX) as found:
        out = checkpoint(lambda t: attention(t, causal=True), x, use_reentrant=False)
    assert len(found.given) == 1
    (out.sum() + found.total()).backward()
    assert len(found.given) == 1
    assert attention.distance_bias.grad.abs().max() > 0


def test_from_the_first_step():
    at = LossWeights(coh=0.5, index=0.5).at(0, 100)
    assert (at.coh, at.index) == (0.0, 0.5)


@pytest.mark.parametrize(
    "options", [{"scope": "visible"}, {"affinity": "tied", "affinity_bias": 0}]
)
def test_no_index_is_an_error(options):
    net = layer(**options) if "affinity" in options else AscenderAttention(DIM, HEADS, **options)
    with (
        pytest.raises(ValueError, match=r"index = 1 .* no layer has an index; expected .*flock"),
        collect(net, INDEX),
    ):
        pass


def test_in_configs_and_runs():
    with pytest.raises(Exception, match=r"index_loss = 0\.5.*no index.*scope"):
        AscenderConfig.preset("tiny", index_loss=0.5)
    flock = AscenderConfig.preset("tiny", index_loss=0.5, attention_options={"scope": "flock"})
    assert flock.loss_weights() == LossWeights(index=0.5)
    run = Run.of("recall", variant="flock", losses={"index": 0.5})
    assert run.config(run.make_task()).index_loss == 0.5
    with pytest.raises(ValueError, match="unknown loss 'indx'"):
        Run.of("recall", variant="flock", losses={"indx": 0.5})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"affinity_bias": 0},
        {"affinity_term": False},
        {"far": 5, "window": 0},
        {"position": "rope"},
        {"position": "alibi", "affinity_term": False},
    ],
)
@pytest.mark.parametrize("call", [{"causal": True}, {}])
def test_lists_alone_give_the_definitions_loss(options, call, monkeypatch):
    """Without rules and globals the loss is made of the lists; its number and gradients are those
    of whole matrices."""
    made = layer(n_global=0, **options)
    for rule in ("align", "sep", "coh"):
        setattr(made, f"lam_{rule}", 0.0)
    x, mask = tokens(), torch.ones(B, N, dtype=torch.bool)
    mask[1, 8:] = False
    found, used, real = [], [], index_module._listed_divergence
    monkeypatch.setattr(index_module, "_listed_divergence", lambda *a: used.append(1) or real(*a))
    for lists in (True, False):
        if not lists:
            monkeypatch.setattr(index_module, "listed", lambda *a: False)
        made.zero_grad()
        loss = index_of(made, x, mask=mask, **call)[1]
        loss.backward()
        grads = {n: p.grad.clone() for n, p in made.named_parameters() if p.grad is not None}
        found.append((loss.detach(), grads))
    (a, own), (b, theirs) = found
    with_distance = options.get("affinity_term", True) and options.get("affinity_bias", 8)
    assert used == (
        [] if with_distance or (options.get("position") == "alibi" and not call) else [1]
    )
    assert float(b) > 0
    assert torch.allclose(a, b, atol=1e-12)
    assert own.keys() == theirs.keys() <= INDEX_NAMES
    for name in own:
        assert torch.allclose(own[name], theirs[name], atol=1e-12), name
