"""Positions by name, random tensors and places for the tests of positions."""

import torch
from hypothesis import strategies as st

from ascender import Rules
from ascender.nn.positions import position

B, H, N, M, D, E = 2, 3, 5, 11, 6, 7
DIM = H * D
SIZES = {"dim": DIM, "heads": H, "head_dim": D}
NONE = Rules(omega_align=0.0, omega_sep=0.0, omega_coh=0.0)


def randn(*shape, seed=0, dtype=torch.double):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def make(name, **options):
    """A position in float64 whose tables are not small."""
    encoding = position(name, **SIZES, **options).double()
    for i, table in enumerate(encoding.parameters()):
        table.data = randn(*table.shape, seed=i)
    return encoding


def tail(n=N, m=M, start=0):
    """p and j where the queries are the last n of m keys."""
    return torch.arange(start + m - n, start + m), torch.arange(start, start + m)


@st.composite
def places(draw, n_min=1):
    """p, j of every kind: one token, a tail, a whole, an offset, a cache with a hole."""
    m = draw(st.integers(n_min, 13))
    n = draw(st.integers(1, m))
    start = draw(st.sampled_from([0, 1, 97, 40_000]))
    p, j = tail(n, m, start)
    hole = draw(st.integers(0, m - n))
    j = torch.cat([j[:hole], j[hole:] + draw(st.integers(0, 40))])
    return p + (j[-1] - p[-1]), j
