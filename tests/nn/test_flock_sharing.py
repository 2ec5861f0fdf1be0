"""Far keys handed from one layer of flock scope to the next: L_m(i) is taken over, N_k(i) and the
affinity term are the layer's own."""

import pytest
import torch

from ascender.core import flock as flock_module
from ascender.core.losses import LossWeights, collect
from ascender.core.scope import FarKeys
from ascender.nn.cache import CrossKV
from nn.test_flock_module import layer
from support.laws import gap
from support.module_cases import B, N, make, tokens

pytestmark = pytest.mark.usefixtures("unchecked")

SHARED = (
    "flock", "no window", "window alone", "globals alone", "far by head", "everyone", "tied",
    "without term", "distance", "affinity by head", "local", "scores", "grouped rope", "raw", "t5",
    "shaw", "ssmax", "entmax15", "topk", "ssmax window alone",
)  # fmt: skip


def pair(name, **more):
    """(a layer that searches, one of other weights that takes its far keys over)"""
    below, above = layer(name, **more), layer(name, **more)
    with torch.no_grad():
        for p in above.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(2)))
    return below, above


def both(below, above, x, **how):
    """(rows of both layers, the list), the second layer over the tokens turned around in width."""
    y, far = below(x, return_neighbours=True, **how)
    return torch.cat([y, above(x.flip(-1), neighbours=far, **how)], -1), far


def sets(index):
    return [{*row} - {-1} for row in index.flatten(0, -2).tolist()]


# What is handed on.


def test_the_list_is_l_m_and_asking_changes_nothing():
    module, x = layer("flock"), tokens()
    y, far = module(x, causal=True, return_neighbours=True)
    assert isinstance(far, FarKeys)
    assert torch.allclose(y, module(x, causal=True), atol=1e-12)
    assert sets(far.index) == sets(module.flock(module.call(x, causal=True)).far)
    assert max(map(len, sets(far.index))) == 4


def test_a_list_is_handed_on_as_it_came():
    (below, above), x = pair("flock"), tokens()
    _, far = below(x, causal=True, return_neighbours=True)
    _, again = above(x, causal=True, neighbours=far, return_neighbours=True)
    assert sets(again.index) == sets(far.index)


def test_far_keys_are_taken_over_and_neighbours_are_not():
    """By loops: the flock is near keys and the other layer's; N_k(i) the k of highest own g."""
    (below, above), x = pair("flock"), tokens()
    _, far = below(x, causal=True, return_neighbours=True)
    call = above.call(x, causal=True, neighbours=far)
    flock = above.flock(call)
    given = sets(far.index[0, 0])
    g = (above.P(x)[0] @ above.P_k(x)[0].mT).tolist()
    held = flock.narrowed().vis.visible[0, 0]
    assert sets(flock.far[0, 0]) == given
    assert sets(flock.far) != sets(above.flock(above.call(x, causal=True)).far)
    for i in range(1, N):
        near = {j for j in range(i + 1) if i - j <= 2 or j < 1}
        assert set(held[i].nonzero().flatten().tolist()) == near | given[i]
        mates = sorted((near | given[i]) - {i}, key=lambda j: -g[i][j])
        assert sets(flock.members[0, 0])[i] == set(mates[:3])


def test_the_affinity_term_is_the_layers_own():
    (below, above), x = pair("flock"), tokens()
    _, far = below(x, causal=True, return_neighbours=True)
    _, parts = above(x, causal=True, neighbours=far, return_parts=True)
    g = above.P(x) @ above.P_k(x).mT / above.d_a**0.5
    want = (above.omega_aff.view(-1, 1, 1) * g[:, None]).masked_fill(parts.weights == 0, 0)
    torch.testing.assert_close(parts.aff, want)
    (above(x, causal=True, neighbours=far)).square().sum().backward()
    assert all(bool(m.weight.grad.any()) for m in (above.P, above.P_k))


def test_a_layer_that_shares_ranks_no_far_keys(monkeypatch):
    """The index products are those of the first layer alone; N_k(i) is chosen among the listed."""
    (below, above), x = pair("flock", n_global=0), tokens()
    searched, top_k = [], flock_module.nb.top_k
    monkeypatch.setattr(flock_module.nb, "top_k", lambda *args: searched.append(1) or top_k(*args))
    _, far = below(x, causal=True, return_neighbours=True)
    assert len(searched) == 1
    above(x, causal=True, neighbours=far)
    assert len(searched) == 1
    caches = [m.new_cache() for m in (below, above)]
    with torch.no_grad():
        for i in range(9):
            step = x[:, i : i + 1]
            _, far = below(step, cache=caches[0], return_neighbours=True)
            above(step, cache=caches[1], neighbours=far)
            assert len(searched) == 2 + i


# Laws.


@pytest.mark.parametrize("name", SHARED)
def test_decoding_equals_the_full_pass(name):
    (below, above), x = pair(name), tokens()
    want, lists = both(below, above, x, causal=True)
    caches, rows, starts = [m.new_cache() for m in (below, above)], [], [0, 7, 8, 11, *range(12, N)]
    with torch.no_grad():
        for a, b in zip(starts, [*starts[1:], N], strict=True):
            y, far = below(x[:, a:b], cache=caches[0], return_neighbours=True)
            z = above(x[:, a:b].flip(-1), cache=caches[1], neighbours=far)
            rows.append(torch.cat([y, z], -1))
            assert sets(far.index) == sets(lists.index[:, :, a:b])
    assert torch.allclose(torch.cat(rows, 1), want, atol=1e-10)


@pytest.mark.parametrize("name", SHARED)
def test_the_definition(name):
    """The layer's backend and dense are the same, gradients included."""
    (below, above), x = pair(name), tokens().requires_grad_()
    found = []
    for backend in ("auto", "dense"):
        above.zero_grad()
        out, _ = both(below, above, x, causal=True, backend=backend)
        (grad,) = torch.autograd.grad(out.square().sum(), x, retain_graph=True)
        out.square().sum().backward()
        grads = (p.grad for m in (below, above) for p in m.parameters() if p.grad is not None)
        found.append([out.detach(), grad, *(g.clone() for g in grads)])
        below.zero_grad()
    assert all(gap(a, b) <= 1e-9 for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("name", ["flock", "distance", "grouped rope", "affinity by head"])
def test_float32_by_the_c_kernels(name):
    (below, above), x = pair(name), tokens()
    want, _ = both(below, above, x, causal=True)
    got, _ = both(below.float(), above.float(), x.float(), causal=True)
    assert gap(got, want.float()) <= 1e-5


@pytest.mark.parametrize("causal", [True, False])
def test_a_flock_of_everyone_is_visible_scope(causal):
    (below, above), x = pair("everyone"), tokens()
    got, _ = both(below, above, x, causal=causal)
    below.visible_phase = above.visible_phase = True
    want, far = both(below, above, x, causal=causal)
    assert far is None, "in a visible phase there is nothing to share"
    assert torch.allclose(got, want, atol=1e-10)


def test_the_future_does_not_choose():
    (below, above), x = pair("flock"), tokens()
    want, lists = both(below, above, x, causal=True)
    other = x.clone()
    other[:, 15] = 9.0
    got, after = both(below, above, other, causal=True)
    assert torch.allclose(got[:, :15], want[:, :15], atol=1e-12)
    assert sets(after.index[:, :, :15]) == sets(lists.index[:, :, :15])
    assert not torch.allclose(got[:, 15:], want[:, 15:], atol=1e-3)
    seen, _ = both(below, above, x)
    assert not torch.allclose(both(below, above, other)[0][:, :15], seen[:, :15], atol=1e-3)


@pytest.mark.parametrize("name", ["flock", "window alone", "ssmax"])
def test_padding_on_either_side(name):
    (below, above), x = pair(name), tokens()
    for hidden in (slice(0, 5), slice(N - 5, N)):
        real = torch.ones(B, N, dtype=torch.bool)
        real[1, hidden] = False
        want, lists = both(below, above, x, causal=True, mask=real)
        other = x.masked_fill(~real[..., None], 3.0)
        got, _ = both(below, above, other, causal=True, mask=real)
        assert torch.allclose(got[real], want[real], atol=1e-12)
        chosen = [j for row in sets(lists.index[1]) for j in row]
        assert not {*range(N)[hidden]} & {*chosen}


def test_left_padding_while_decoding():
    (below, above), x = pair("flock"), tokens()
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :5] = False
    want, _ = both(below, above, x, causal=True, mask=real)
    caches, rows = [m.new_cache() for m in (below, above)], []
    with torch.no_grad():
        for a, b in ((0, 9), *((i, i + 1) for i in range(9, N))):
            y, far = below(x[:, a:b], cache=caches[0], mask=real[:, :b], return_neighbours=True)
            how = {"cache": caches[1], "mask": real[:, :b], "neighbours": far}
            rows.append(torch.cat([y, above(x[:, a:b].flip(-1), **how)], -1))
    assert torch.allclose(torch.cat(rows, 1)[real], want[real], atol=1e-10)


def test_a_nan_reaches_the_rows_that_see_it():
    (below, above), x = pair("flock"), tokens()
    want, _ = both(below, above, x, causal=True)
    spoilt = x.clone()
    spoilt[1, 15] = torch.nan
    got, _ = both(below, above, spoilt, causal=True)
    assert torch.allclose(got[0], want[0], atol=1e-10)
    assert torch.allclose(got[1, :15], want[1, :15], atol=1e-10)
    assert got[1, 15:].isnan().all()


def test_cross_attention():
    """There a list is of the context's keys."""
    below, above = make(scope="flock", far=3), make(scope="flock", far=3, omega=0.2)
    x, context = tokens(), tokens(13)
    _, lists = below(x, context, return_neighbours=True)
    assert max(map(len, sets(lists.index))) == 3
    second = above(x, context, neighbours=lists)
    cache = CrossKV()
    rows = []
    for i in range(N):
        far = FarKeys(lists.index[:, :, i : i + 1])
        rows.append(above(x[:, i : i + 1], context, cache=cache, neighbours=far))
    assert torch.allclose(torch.cat(rows, 1), second, atol=1e-10)


# Options and errors.


def test_the_index_loss_is_of_layers_that_search():
    (below, above), x = pair("without term"), tokens()
    above.far_from_below = True
    with collect(torch.nn.ModuleList([below, above]), LossWeights(index=1.0)) as losses:
        both(below, above, x, causal=True)
    assert len(losses.given) == 1
    with collect(below, LossWeights(index=1.0)) as alone:
        below(x, causal=True)
    torch.testing.assert_close(losses.mean().index, alone.mean().index)


def test_lists_of_the_wrong_shape_and_in_the_wrong_place():
    module, x = layer("flock"), tokens()
    with pytest.raises(ValueError, match=r"neighbours has shape \(5, 2\); expected"):
        module(x, causal=True, neighbours=FarKeys(torch.zeros(5, 2, dtype=torch.long)))
    far = FarKeys(torch.zeros(N, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="neighbours = FarKeys with scope='visible'"):
        make()(x, causal=True, neighbours=far)
    module.visible_phase = True
    with pytest.raises(ValueError, match="visible_phase=True; expected index lists"):
        module(x, causal=True, neighbours=far)


def test_given_lists_are_handed_on_as_neighbours():
    """They take the place of both."""
    module, x = layer("flock"), tokens()
    lists = torch.tensor([[i // 2, i // 3] for i in range(N)])
    _, near = module(x, causal=True, neighbours=lists, return_neighbours=True)
    assert isinstance(near, torch.Tensor)
    for i, row in enumerate(sets(near[0, 0])):
        assert row == {i // 2, i // 3} - {i}


def test_keys_that_a_row_may_not_have_are_dropped():
    module, x = layer("flock"), tokens()
    far = torch.tensor([[0, i, i + 1, 3, 3, -1] for i in range(N)])
    flock = module.flock(module.call(x, causal=True, neighbours=FarKeys(far)))
    for i, row in enumerate(sets(flock.far[0, 0])):
        assert row == ({3} if i > 5 else set())
