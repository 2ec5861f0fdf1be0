"""Layers give their losses to whoever collects, once, checkpointed or compiled."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ascender import AscenderAttention, LossWeights, asc_attention, collect

NAMES = ("align", "sep", "coh")

DIM, HEADS, N = 12, 3, 13
WEIGHTS = LossWeights(align=0.3, sep=0.5, coh=0.2)


class Block(nn.Module):
    def __init__(self, reentrant=None, **options):
        super().__init__()
        self.attention = AscenderAttention(DIM, HEADS, **{"k": 3, "omega": 0.5, **options})
        self.mlp, self.reentrant = nn.Linear(DIM, DIM), reentrant

    def step(self, x):
        return x + self.mlp(torch.tanh(self.attention(x, causal=True)))

    def forward(self, x):
        if self.reentrant is None:
            return self.step(x)
        return checkpoint(self.step, x, use_reentrant=self.reentrant)


def model(layers=3, **options):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(**options) for _ in range(layers))).double()


def tokens(n=N):
    return torch.randn(2, n, DIM, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def values(losses):
    return {name: getattr(losses, name).item() for name in NAMES}


def by_hand(net, x):
    """The losses of each layer from its own call."""
    each = []
    for block in net:
        layer = block.attention
        made = layer.project(x)
        call = asc_attention(**made, rules=layer.rules(), causal=True, return_losses=True)
        each.append(call[1])
        x = block.step(x)
    return each


def test_every_layer_gives_and_the_mean_is_over_layers():
    net, x = model(), tokens()
    want = by_hand(net, x)
    with collect(net) as all_three:
        y = net(x)
    assert torch.allclose(y, net(x), atol=1e-12)
    assert len(all_three.given) == 3, "nobody collects any more"
    for got, own in zip(all_three.given, want, strict=True):
        assert values(got) == pytest.approx(values(own))
    mean = {name: sum(values(own)[name] for own in want) / 3 for name in NAMES}
    assert values(all_three.mean()) == pytest.approx(mean)
    total = 0.3 * mean["align"] + 0.5 * mean["sep"] + 0.2 * mean["coh"]
    assert all_three.total(WEIGHTS).item() == pytest.approx(total)
    assert len(by_hand(net[:1], x)) == 1


def test_only_the_layers_of_the_model_asked():
    net, x = model(), tokens()
    with collect(net[1]) as one, collect(net[2]) as another:
        net(x)
    assert (len(one.given), len(another.given)) == (1, 1)
    with collect(net) as outer:
        with collect(net) as inner:
            net(x)
        net(x)
    assert (len(inner.given), len(outer.given)) == (3, 3)


def test_off_by_default_and_zero_changes_nothing():
    net, x = model(backend="dense"), tokens()
    with collect(net, LossWeights()) as nothing:
        y = net(x)
    assert nothing.given == []
    assert nothing.total().item() == 0
    assert torch.equal(y, net(x))
    with collect(net, WEIGHTS.at(step=10, total=100)) as early:
        net(x)
    with collect(net, WEIGHTS.at(step=20, total=100)) as late:
        net(x)
    assert early.total().item() == 0 < late.total().item()

    def grads(weights):
        with collect(net) as found:
            loss = net(x).square().sum()
        return torch.autograd.grad(loss + found.total(weights), list(net.parameters()))

    plain = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(grads(LossWeights()), plain, strict=True))
    assert not all(torch.allclose(a, b) for a, b in zip(grads(WEIGHTS), plain, strict=True))


@pytest.mark.parametrize("n", [N, 190])  # dense and folded
@pytest.mark.parametrize("inside", [True, False])
def test_checkpointing_counts_once(inside, n):
    """Backward inside `with` would give twice; outside, the second forward finds nobody."""

    def step(net):
        with collect(net, WEIGHTS) as found:
            loss = net(x).square().sum() + found.total()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert len(found.given) == 3
        return loss.item(), [p.grad for p in net.parameters()]

    x = tokens(n)
    want, got = step(model()), step(model(reentrant=False))
    assert got[0] == pytest.approx(want[0])
    for a, b in zip(got[1], want[1], strict=True):
        assert torch.allclose(a, b)
    net = model(reentrant=False)
    with collect(net, WEIGHTS) as first:
        net(x)
    with collect(net, WEIGHTS) as second:
        net(x).sum().backward()
    assert (len(first.given), len(second.given)) == (3, 3), "and the next step begins anew"
    net(x).sum().backward()


def test_reentrant_checkpointing_is_refused():
    net, x = model(reentrant=True), tokens().requires_grad_()
    with collect(net, WEIGHTS), pytest.raises(RuntimeError, match="'use_reentrant': False"):
        net(x)
    with torch.no_grad(), collect(net, WEIGHTS) as found:  # nobody wants a gradient
        net(x)
    assert len(found.given) == 3
    net = model().eval()
    with collect(net, WEIGHTS), torch.no_grad():
        net(x)


def test_parts_give_too_and_caches_do_not():
    layer, x = model()[0].attention, tokens()
    with collect(layer) as found:
        layer(x, causal=True, return_parts=True)
    assert len(found.given) == 1
    cache = layer.new_cache()
    layer(x[:, :-1], cache=cache)
    with collect(layer) as nothing:
        layer(x[:, -1:], cache=cache)
    with pytest.raises(RuntimeError, match=r"no layer gave losses; expected .* without a cache"):
        nothing.total(WEIGHTS)
    with pytest.raises(ValueError, match="no weights; expected collect"):
        found.total()


def test_cross_attention_has_no_headings_of_keys():
    layer = AscenderAttention(DIM, HEADS, k=3)
    with collect(layer) as found:
        layer(tokens(5).float(), tokens().float())
    assert found.given[0].align == 0 < found.given[0].coh


def test_training_lowers_what_is_weighed():
    for name in NAMES:
        net, x = model(1), tokens(17)
        optimizer, seen = torch.optim.Adam(net.parameters(), lr=1e-2), []
        weights = LossWeights(**{name: 1.0})
        for _ in range(12):
            with collect(net, weights) as found:
                net(x)
            optimizer.zero_grad()
            found.total().backward()
            optimizer.step()
            seen.append(found.total().item())
        assert seen[-1] < 0.9 * seen[0], name


COMPILE = """
import torch
from ascender import AscenderAttention, LossWeights, collect

torch.manual_seed(0)
layer, x = AscenderAttention(24, 3, k=3).double(), torch.randn(2, 23, 24, dtype=torch.double)
whole = torch.compile(layer, backend="eager", fullgraph=True)
grads = []
for net in (whole, layer):
    with collect(net) as found:
        net(x, backend="dense")
    assert len(found.given) == 1
    grads.append(torch.autograd.grad(found.total(LossWeights(1, 1, 1)), layer.U.weight)[0])
assert torch.allclose(*grads, atol=1e-10)
"""


def test_compiled_without_a_graph_break():
    """In a process of its own: shapes checked at run time do not go with torch.compile."""
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
