"""V(i) and P(i) against the loops, for any shape and mask."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ascender.core.visibility import Visibility
from support.oracles import visible_oracle


@st.composite
def views(draw):
    """(Visibility, V as the oracle has it): any sizes, any kind, and any mask of any shape."""
    cross = draw(st.booleans())
    N = draw(st.integers(1, 7))
    M = draw(st.integers(1 if cross else N, 9))
    kinds = {"cross": cross}
    if not cross:
        kinds["causal"] = draw(st.booleans())
        kinds["window"] = draw(st.none() | st.integers(0, 9))
        kinds["n_global"] = draw(st.integers(0, 4)) if kinds["window"] is not None else 0
    V = torch.from_numpy(visible_oracle(N, M, **kinds))[:, None]
    mask = None
    if draw(st.booleans()):
        shape = (draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3])),
                 draw(st.sampled_from([1, N])), M)  # fmt: skip
        count = int(np.prod(shape))
        bits = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        mask = torch.tensor(bits).view(shape)
        V = V & mask
    return Visibility.of(N, M, mask=mask, **kinds), V


@given(views())
def test_visible_and_flockmates(pair):
    vis, V = pair
    assert torch.equal(vis.visible, V.expand_as(vis.visible))
    assert vis.visible.shape[:2] == V.shape[:2]
    for i in range(vis.N):
        mates = V[..., i, :].clone()
        if not vis.cross:
            mates[..., i + vis.M - vis.N] = False
        assert torch.equal(vis.flockmates[..., i, :], mates)


@given(views())
def test_count(pair):
    vis, V = pair
    n = V.sum(-1, keepdim=True)
    assert torch.equal(vis.count.expand_as(n), n)
    assert vis.count.shape[:2] == V.shape[:2]


def test_count_of_a_stream():
    """A bounded cache: globals in front of the tail, positions missing between them; and blocks."""
    j = torch.tensor([0, 1, 14, 15, 16, 17, 18])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 0, 1, 1]]).bool().view(2, 1, 1, 7)
    vis = Visibility(j[-3:], j, causal=True, window=2, n_global=2, mask=mask)
    assert vis.count[..., 0].tolist() == [[[5, 5, 5]], [[3, 3, 3]]]
    assert torch.equal(vis.count, vis.visible.sum(-1, keepdim=True))
    blocks = Visibility(torch.arange(6).view(3, 2), torch.arange(6).view(3, 2), causal=True)
    assert blocks.count.flatten().tolist() == [1, 2] * 3


def test_count_needs_no_matrix():
    """A padding mask over 2²⁰ × 2²⁰ tokens; a terabyte if it were written out."""
    n = 1 << 20
    mask = (torch.arange(n) >= 3).view(1, 1, 1, n)
    whole = Visibility.of(n, n, causal=True, mask=mask)
    assert whole.count[0, 0, [0, 3, 4, n - 1], 0].tolist() == [0, 1, 2, n - 3]
    near = Visibility.of(n, n, window=5, n_global=4, mask=mask)
    assert near.count[0, 0, [0, 4, 100, n - 1], 0].tolist() == [n - 3, 7, 12, 7]


@given(views())
def test_self_visible(pair):
    vis, V = pair
    own = torch.zeros_like(V[..., 0])
    if not vis.cross:
        own = V.diagonal(offset=vis.M - vis.N, dim1=-2, dim2=-1)
    assert torch.equal(vis.self_visible.expand_as(own), own)


@given(views(), st.data())
def test_allows(pair, data):
    """Of any list, the entries in P(i); −1 and what is past the keys are never allowed."""
    vis, _ = pair
    entries = st.lists(st.integers(-1, vis.M + 1), min_size=2 * vis.N * 4, max_size=2 * vis.N * 4)
    index = torch.tensor(data.draw(entries)).view(2, 1, vis.N, 4)
    allowed = vis.allows(index)
    mates = vis.flockmates.expand(2, allowed.shape[1], -1, -1)
    for place in np.ndindex(*allowed.shape):
        b, h, i, n = place
        j = int(index[b, 0, i, n])
        assert bool(allowed[place]) == (0 <= j < vis.M and bool(mates[b, h, i, j]))


@given(views(), st.data())
def test_rows_are_rows(pair, data):
    vis, V = pair
    which = torch.tensor(data.draw(st.lists(st.integers(0, vis.N - 1), min_size=1, max_size=4)))
    some = vis.rows(which)
    assert torch.equal(some.visible, V[..., which, :].expand_as(some.visible))
    assert torch.equal(some.flockmates, vis.flockmates[..., which, :])
    assert torch.equal(some.self_visible, vis.self_visible[..., which])


@given(views(), st.data())
def test_sees(pair, data):
    vis, V = pair
    bits = data.draw(st.lists(st.booleans(), min_size=6 * vis.M, max_size=6 * vis.M))
    keys = torch.tensor(bits).view(2, 3, vis.M)
    expected = (V & keys[..., None, :]).any(-1)
    for chunk in (1, 2, 256):
        assert torch.equal(vis.sees(keys, chunk), expected)


@pytest.mark.parametrize(
    ("mask", "by_key"),
    [(None, True), (torch.ones(2, 1, 1, 5) > 0, True), (torch.ones(1, 1, 4, 5) > 0, False)],
)
def test_by_key_only(mask, by_key):
    assert Visibility.of(4, 5, mask=mask).by_key_only == by_key


def test_by_hand():
    """Two queries at positions 3 and 4 of five keys, window 1, one global, key 3 padded."""
    mask = torch.tensor([True, True, True, False, True]).view(1, 1, 1, 5)
    vis = Visibility.of(2, 5, causal=True, window=1, n_global=1, mask=mask)
    assert vis.visible[0, 0].int().tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 1]]
    assert vis.flockmates[0, 0].int().tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert vis.self_visible[0, 0].tolist() == [False, True]
