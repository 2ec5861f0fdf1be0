"""Contributions of the rules: each number again by loops or by really muting."""

import numpy as np
import pytest
import torch

from ascender.core.combine import Parts
from ascender.core.rules import RULES
from ascender.core.softmax import masked_softmax
from ascender.insight import capture, contributions, muted
from ascender.insight import model_summary as measuring
from ascender.insight.contribution import Tally, covariances, rows_of, without
from ascender.lab.reports.model_insight import ModelInsight, insight_table
from ascender.nn.module import AscenderAttention
from support.insight_cases import inputs, model

B, H, N, M = 2, 3, 5, 7
TERMS = ("base", "align", "sep", "coh", "aff", "other")


def made_up(tau=1.0, seed=0):
    """(parts, visible) of random terms; the last row of the first example sees nothing."""
    g = torch.Generator().manual_seed(seed)
    V = torch.rand(B, H, N, M, generator=g) < 0.7
    V[0, :, -1] = False
    terms = {t: torch.randn(B, H, N, M, generator=g).double().masked_fill(~V, 0) for t in TERMS}
    total = sum(terms.values()) / tau
    return Parts(**terms, total=total, weights=masked_softmax(total, V), tau_score=tau), V


def test_covariances_are_the_loops():
    parts, V = made_up()
    rows = V.any(-1)
    rows[1, :, 2] = False
    wanted = np.zeros((H, 6))
    for b in range(B):
        for h in range(H):
            for i in range(N):
                at = [j for j in range(M) if V[b, h, i, j]]
                if not at or not rows[b, h, i]:
                    continue
                t = [[float(getattr(parts, name)[b, h, i, j]) for j in at] for name in TERMS]
                S = [sum(column) for column in zip(*t, strict=True)]
                mean = sum(S) / len(at)
                for n, x in enumerate(t):
                    m = sum(x) / len(at)
                    pairs = zip(x, S, strict=True)
                    wanted[h, n] += sum((a - m) * (s - mean) for a, s in pairs) / len(at)
    np.testing.assert_allclose(covariances(parts, V, rows), wanted, atol=1e-12)
    every = covariances(parts, V, V.any(-1))
    assert not np.allclose(every, wanted)  # a row more is noticed


def test_shares_sum_to_one():
    found = contributions(model(), [inputs(), inputs((5, 9))])
    assert found.share.shape == (2, 3, 5)
    np.testing.assert_allclose(found.share.sum(-1), 1, atol=1e-12)
    assert np.abs(found.share[..., :4].sum(-1) - 1).max() < 1e-12  # no position in the scores here
    assert np.abs(found.share[..., 1:4]).min() > 0
    with_bias = contributions(model(position="alibi"), [inputs()])
    np.testing.assert_allclose(with_bias.share.sum(-1), 1, atol=1e-12)
    assert np.abs(with_bias.share[..., :4].sum(-1) - 1).max() > 1e-4  # `other` must be in it


def test_a_flat_head_has_no_shares():
    parts, V = made_up()
    flat = Parts(**{f: torch.zeros_like(parts.base) for f in (*TERMS, "total", "weights")})
    tally = Tally()
    tally.names = ("flat",)
    tally._sum("cov", [covariances(flat, V, V.any(-1))])
    tally._sum("moved", [torch.zeros(H, 3)])
    tally._sum("rows", [torch.ones(H)])
    assert (tally.result().share == 0).all()


@pytest.mark.parametrize("options", [{}, {"numbers": "shared"}])
def test_parts_carry_their_temperature(options):
    torch.manual_seed(0)
    m = AscenderAttention(12, 3, **options)
    torch.nn.init.normal_(m.log_tau_score, std=0.5)
    _, parts = m(torch.randn(2, 5, 12), return_parts=True)
    terms = sum(parts.terms().values())
    torch.testing.assert_close(terms / parts.tau_score, parts.total)
    assert not torch.allclose(terms / (parts.tau_score + 0.1), parts.total)


def really_muted(m, x, layer, rule):
    """The attention of a layer with λ = 0 in it alone."""
    attention = m.get_submodule(f"model.layers.{layer}.attention")
    before = getattr(attention, f"lam_{rule}")
    setattr(attention, f"lam_{rule}", 0.0)
    try:
        return capture(m, **x)[1][layer].parts.weights
    finally:
        setattr(attention, f"lam_{rule}", before)


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "ssmax"])
def test_moved_is_what_muting_moves(normalizer):
    if normalizer == "sparsemax":
        pytest.importorskip("entmax")
    m, x = model(normalizer=normalizer), inputs()
    found = contributions(m, [x], whole=True)
    _, layers = capture(m, **x)
    for layer in range(2):
        A = layers[layer].parts.weights
        for r, rule in enumerate(RULES):
            silent = really_muted(m, x, layer, rule)
            for h in range(3):
                apart = [
                    0.5 * sum(abs(float(A[b, h, i, j] - silent[b, h, i, j])) for j in range(11))
                    for b, n in enumerate((11, 7)) for i in range(n)
                ]  # fmt: skip
                wanted = sum(apart) / len(apart)
                assert found.moved[layer, h, r] == pytest.approx(wanted, abs=1e-9)
                assert wanted > 0
    np.testing.assert_allclose(found.whole[0], found.moved[0], atol=1e-9)  # nothing before it
    assert np.abs(found.whole[1] - found.moved[1]).max() > 1e-4
    assert found.rows == 18


@pytest.mark.parametrize("options", [{"affinity_term": True}, {"scope": "flock", "far": 3}])
def test_the_affinity_term_is_one_of_them_where_it_is_on(options):
    m, x = model(options=options), inputs()
    found = contributions(m, [x], whole=True)
    assert (found.share.shape, found.moved.shape) == ((2, 3, 6), (2, 3, 4))
    np.testing.assert_allclose(found.share.sum(-1), 1, atol=1e-12)
    assert np.abs(found.share[..., 4]).min() > 0
    _, layers = capture(m, **x)
    with muted(m, "aff"):
        _, under = capture(m, **x)
    assert not under[0].parts.aff.any()
    assert torch.equal(under[0].visible, layers[0].visible)  # it still ranks
    apart = (under[0].parts.weights - layers[0].parts.weights).abs().sum(-1) / 2
    rows = torch.arange(11)[None] < torch.tensor([[11], [7]])
    wanted = apart.transpose(1, 2)[rows].mean(0)
    np.testing.assert_allclose(found.moved[0, :, 3], wanted, atol=1e-9)
    assert wanted.min() > 0
    assert m.model.layers[0].attention.affinity_term
    np.testing.assert_allclose(found.whole[0], found.moved[0], atol=1e-9)
    assert measuring.omegas(m, found.names, 3).keys() == {*RULES, "aff"}
    one = {"share": found.share, "moved": found.moved, "whole": found.whole, "grouping": []}
    one["omega"] = measuring.omegas(m, found.names, 3)
    with_it = ModelInsight("grouping", "flock", (0,), (), (one,))
    share, moved = (found.share[..., [0, 1, 2, 3, 5]], found.moved[..., :3])
    plain = ModelInsight(
        "grouping", "ascender", (0,), (),
        ({**one, "share": share, "moved": moved, "whole": moved},),
    )  # fmt: skip
    table = insight_table("roles", [plain, with_it], "")
    assert {"share_aff", "moved_aff"} <= {c.name for c in table.columns}
    assert "moved_aff" not in {c.name for c in insight_table("roles", [plain], "").columns}
    of = [row[2].value for row in insight_table("contribution", [with_it], "").rows]
    assert set(of) == {*RULES, "aff"}


def test_zero_moves_nothing():
    found = contributions(model(omega=0.0), [inputs()], whole=True)
    assert np.abs(found.moved).max() < 1e-12
    assert np.abs(found.whole).max() < 1e-12
    np.testing.assert_allclose(found.share[..., 0], 1)


def test_padding_does_not_count():
    m = model()
    whole = inputs()
    alone = [{k: t[b : b + 1, :n] for k, t in whole.items()} for b, n in enumerate((11, 7))]
    together, apart = contributions(m, [whole]), contributions(m, alone)
    np.testing.assert_allclose(together.share, apart.share, atol=1e-9)
    np.testing.assert_allclose(together.moved, apart.moved, atol=1e-9)
    _, layers = capture(m, **whole)
    assert rows_of(layers)[0][:, 0].sum(-1).tolist() == [11, 7]
    full = {**whole, "attention_mask": torch.ones_like(whole["attention_mask"])}
    assert not np.allclose(contributions(m, [full]).moved, apart.moved)


def test_without_renormalises():
    _, layers = capture(model(), **inputs())
    A = without(layers[0], "sep")
    seen = layers[0].visible.any(-1)
    torch.testing.assert_close(A.sum(-1)[seen], torch.ones_like(A.sum(-1)[seen]))


def test_nothing_seen_is_an_error():
    with pytest.raises(ValueError, match="expected at least one batch"):
        contributions(model(), [])
