"""N_k(i) against a plain sort, and the helpers that build lists."""

import doctest
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ascender import asc_attention
from ascender.core import neighbours as nb
from ascender.core.attention import find_neighbours
from ascender.core.checks import build_flock
from ascender.core.visibility import Visibility
from support.cases import KINDS, LARGE, A, B, K, N, case


def brute(scores, mates, sizes):
    """The sets N_k(i) by sorting: {(b, h, i): {j, …}}."""
    heads = max(scores.shape[1], mates.shape[1], len(sizes))
    scores, mates = (t.expand(B, heads, -1, -1) for t in (scores, mates))
    sizes = sizes * heads if len(sizes) == 1 else sizes
    found = {}
    for b, h, i in itertools.product(range(B), range(heads), range(scores.shape[2])):
        those = [j for j in range(scores.shape[3]) if mates[b, h, i, j]]
        those.sort(key=lambda j: -scores[b, h, i, j])
        found[b, h, i] = set(those[: sizes[h]])
    return found


def as_sets(index):
    """Index lists as the same dictionary; each entry must occur once."""
    found = {}
    for b, h, i in itertools.product(*(range(n) for n in index.shape[:3])):
        row = [j for j in index[b, h, i].tolist() if j >= 0]
        assert len(row) == len(set(row))
        found[b, h, i] = set(row)
    return found


@pytest.mark.parametrize("sizes", [(K,), (1, 4, 2), (50,)])
@pytest.mark.parametrize("chunk", [1, 40, 1 << 19])
@pytest.mark.parametrize("kind", KINDS)
def test_top_k_is_a_sort(kind, chunk, sizes, monkeypatch):
    """In chunks of one row, of a few and of all; with one k, k by head, and k > M."""
    monkeypatch.setattr(nb, "CHUNK", chunk)
    x = case(kind, "shared")
    q, k = torch.randn(B, 1, x.N, A), torch.randn(B, 1, x.M, A)
    vis = Visibility.of(x.N, x.M, **x.masks)
    index = nb.top_k(q, k, vis, sizes)
    assert as_sets(index) == brute(q @ k.mT, vis.flockmates, sizes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_top_k_of_long_rows(dtype):
    """Beyond what is cut by a threshold."""
    torch.manual_seed(0)
    q, k = (torch.randn(B, 1, n, A, dtype=dtype) for n in (3, 1500))
    vis = Visibility.of(3, 1500, causal=True)
    found, scores = nb.top_k(q, k, vis, (K,)), (q @ k.mT).float()
    worst = scores.gather(-1, found).min(-1).values
    rest = scores.masked_fill(~vis.flockmates, -torch.inf).scatter(-1, found, -torch.inf)
    recent = nb.TIE * 1500 * scores.abs().max()  # what the ranking prefers recent keys by, at most
    assert (worst + recent >= rest.max(-1).values).all()


def test_equal_scores_still_give_k_members():
    index = nb.top_k(torch.ones(1, 1, 7, 2), torch.ones(1, 1, 7, 2), Visibility.of(7, 7), (3,))
    assert all(len(row) == 3 and place[2] not in row for place, row in as_sets(index).items())


@pytest.mark.parametrize("word", ["semantic", "scores"])
@pytest.mark.parametrize("kind", ["causal", "window globals", "window by head", "decode window"])
@pytest.mark.parametrize("size", [N, LARGE])
def test_windows_find_the_same(kind, word, size):
    """A window looks for neighbours block by block."""
    x = case(kind, "k-per-head" if word == "scores" else "shared", size)
    flock = build_flock(**{**x.call(), "neighbours": word})
    assert as_sets(find_neighbours(flock)) == as_sets(flock.members)


@given(st.data())
def test_given_drops_strangers_and_repetitions(data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    x = case(kind)
    entries = st.lists(st.integers(-1, x.M + 2), min_size=x.N * 5, max_size=x.N * 5)
    index = torch.tensor(data.draw(entries)).view(1, 1, x.N, 5).expand(B, -1, -1, -1)
    vis = Visibility.of(x.N, x.M, **x.masks)
    found = as_sets(nb.given(index, vis))
    mates = vis.flockmates.expand(B, max(1, vis.flockmates.shape[1]), -1, -1)
    for (b, h, i), those in found.items():
        asked = {j for j in index[b, 0, i].tolist() if 0 <= j < x.M}
        assert those == {j for j in asked if mates[b, h, i, j]}


def test_as_mask():
    index = torch.tensor([[[[2, -1, 0], [-1, -1, -1]]]])
    assert nb.as_mask(index, 4).int().tolist() == [[[[1, 0, 1, 0], [0, 0, 0, 0]]]]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_grid(height, width, radius):
    lists = nb.grid(height, width, radius)
    for cell in range(height * width):
        y, x = divmod(cell, width)
        near = {
            yy * width + xx
            for yy in range(height)
            for xx in range(width)
            if max(abs(yy - y), abs(xx - x)) <= radius and (yy, xx) != (y, x)
        }
        assert {j for j in lists[cell].tolist() if j >= 0} == near


@given(st.integers(1, 6), st.data(), st.booleans())
def test_graph(nodes, data, directed):
    node = st.integers(0, nodes - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=12))
    pairs = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    lists = nb.graph(pairs, nodes, directed=directed)
    for i in range(nodes):
        near = {b for a, b in edges if a == i}
        near |= set() if directed else {a for a, b in edges if b == i}
        row = [j for j in lists[i].tolist() if j >= 0]
        assert sorted(row) == sorted(near - {i})


def test_a_grid_is_a_list_for_attention():
    """The corner of a 3×3 image goes by its three neighbours and by nobody else."""
    call = case("full", "local", 9).call()
    grid = asc_attention(**{**call, "neighbours": nb.grid(3, 3)})
    corner = asc_attention(**{**call, "neighbours": torch.tensor([[1, 3, 4]]).expand(9, -1)})
    assert torch.allclose(grid[:, :, 0], corner[:, :, 0])
    assert not torch.allclose(grid[:, :, 1], corner[:, :, 1])


def test_examples_in_the_docstrings():
    result = doctest.testmod(nb)
    assert result.attempted >= 2
    assert result.failed == 0


def test_nan_in_one_row_and_a_tie_in_another():
    """One place too few and one too many: together as many as there should be."""
    scores = torch.arange(14.0).view(1, 1, 2, 7)
    scores[..., 0, 3] = torch.nan
    scores[..., 1, 4] = scores[..., 1, 3] = scores[..., 1, 5]
    found = nb.best(scores.clone(), (2,))
    assert found.min() >= 0
    assert found.max() < 7
    assert found[0, 0, 1].sort().values[-1] == 6
