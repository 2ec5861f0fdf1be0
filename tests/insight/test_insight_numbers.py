"""Contributions, roles and grouping: each number again by loops, by hand, or by really muting."""

import html
import json
import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from ascender.cli import app
from ascender.core.combine import Parts
from ascender.core.rules import RULES
from ascender.core.softmax import masked_softmax
from ascender.hf import AscenderConfig, AscenderForTokenClassification
from ascender.hf.tokens import bytes_tokenizer, train_tokenizer
from ascender.insight import agreement, capture, contributions, measure, muted, roles_of
from ascender.insight import grouping as gr
from ascender.insight import model_summary as measuring
from ascender.insight import python_token_classes as python_words
from ascender.insight.contribution import Tally, covariances, rows_of, without
from ascender.insight.roles import aligned, layer_agreement, match, matched_correlation, vectors
from ascender.lab.reports.cells import term_cell
from ascender.lab.reports.insight_report import advice
from ascender.lab.reports.model_insight import ModelInsight, insight_table
from ascender.nn.module import AscenderAttention
from ascender.report import figure as report_figure
from ascender.tasks import task
from ascender.tasks.grouping import Grouping
from ascender.train import Run, train

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


def model(omega=0.4, layers=2, k=4, **config):
    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=13, hidden_size=12, num_hidden_layers=layers, num_attention_heads=3,
        num_labels=3, max_position_embeddings=17,
        attention_options={"k": k, **config.pop("options", {})}, **config,
    )  # fmt: skip
    made = AscenderForTokenClassification(config).double().eval()
    g = torch.Generator().manual_seed(1)
    for name, p in made.named_parameters():
        if "omega" in name:
            p.data = omega * (0.5 + torch.rand(p.shape, generator=g).double())
        if "tau_score" in name:
            p.data = p.data + 0.3
    return made


def inputs(lengths=(11, 7)):
    ids = torch.randint(0, 13, (len(lengths), max(lengths)),
                        generator=torch.Generator().manual_seed(2))  # fmt: skip
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}


# --- contributions


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


# --- roles


def heads(seed, noise=0.01, spots=((0, 0), (1, 0), (0, 1), (3, 3))):
    rng = np.random.default_rng(seed)
    return np.array(spots, float)[rng.permutation(len(spots))] + noise * rng.normal(size=(4, 2))


def test_matching_finds_a_permutation():
    rng = np.random.default_rng(0)
    a, order = rng.normal(size=(5, 8)), np.array([3, 0, 4, 1, 2])
    b = a[order] + 0.01 * rng.normal(size=a.shape)
    assert b[match(a, b)] == pytest.approx(a, abs=0.05)
    assert match(a, b).tolist() == np.argsort(order).tolist()
    assert match(a, rng.normal(size=a.shape)).tolist() != np.argsort(order).tolist()


def test_aligned_seeds_are_alike():
    seeds = [np.stack([heads(s), heads(s + 10)]) for s in range(4)]
    orders = aligned(seeds)
    made = [np.take_along_axis(s, o[..., None], 1) for s, o in zip(seeds, orders, strict=True)]
    assert np.std(made, 0).max() < 0.05 < np.std(seeds, 0).max()


def test_agreement_is_beyond_chance_only_where_there_is_some():
    found = agreement([heads(s) for s in range(3)], draws=200)
    assert found.r > 0.99
    assert found.r > found.null
    assert found.p < 0.05
    assert found.pairs == 3
    rng = np.random.default_rng(5)
    ps = [
        agreement([rng.normal(size=(4, 3)) for _ in range(3)], draws=99).p for _ in range(20)
    ]  # fmt: skip
    assert 0.25 < np.mean(ps) < 0.75  # of heads drawn alike p is uniform


def test_layers_agree_where_they_differ_alike():
    rng = np.random.default_rng(0)
    spots = rng.normal(size=(3, 1, 4))
    alike = [spots + 0.3 * rng.normal(size=(3, 5, 4)) for _ in range(3)]
    found = layer_agreement(alike, draws=99)
    assert found.r > 0.8
    assert found.p == 0.01
    a, b = (s.mean(1) - s.mean((0, 1)) for s in alike[:2])
    by_hand = (a * b).sum() / math.sqrt((a**2).sum() * (b**2).sum())
    assert layer_agreement(alike[:2], draws=9).r == pytest.approx(by_hand)
    turned = [alike[0], alike[1][::-1], alike[2][[1, 0, 2]]]
    assert layer_agreement(turned, draws=99).p > 0.05
    assert layer_agreement([s[:1] for s in alike]).r is None


def test_agreement_without_pairs_or_differences():
    assert agreement([heads(0)]) == agreement([heads(1)])
    assert agreement([heads(0)]).r is None
    assert agreement([np.ones((3, 2)), np.ones((3, 2))]).p is None


def test_correlation_by_hand():
    a, b = np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([[3.0, 1.0], [1.0, 0.0]])
    # about their means: ±(−1, 0) and ±(1, ½), matched by sign: r = 2 / √(2 · 2.5)
    assert matched_correlation(a, b) == pytest.approx(2 / math.sqrt(2 * 2.5))


def test_roles_are_the_blobs():
    rng = np.random.default_rng(0)
    spots = np.zeros((3, 8))
    spots[0, 6], spots[1, 7], spots[1, 5] = 0.3, 0.2, 0.1  # sep; coh and align; none
    which = np.repeat([0, 1, 2], [7, 5, 3])
    found = roles_of(spots[which] + 0.005 * rng.normal(size=(15, 8)))
    assert found.names == ("sep", "coh+align", "base")
    assert found.which.tolist() == which.tolist()
    assert found.silhouette > 0.8
    np.testing.assert_allclose(found.centres, spots, atol=0.02)
    one = roles_of(np.full((6, 8), 0.2))
    assert one.silhouette is None
    assert one.which.tolist() == [0] * 6
    assert vectors(np.zeros((2, 3, 5)), np.ones((2, 3, 3))).shape == (2, 3, 8)


# --- grouping


def test_nmi_and_ari_by_hand():
    nmi, ari = gr.scores(np.array([0, 0, 1, 2]), np.array([5, 5, 7, 7]))
    # I = ln 2, H = ln 2 and 1.5 ln 2; one pair of the two together in both
    assert nmi == pytest.approx(1 / 1.25)
    assert ari == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3))


def test_spectral_is_scikit_learns():
    from sklearn.cluster import SpectralClustering

    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(3), [7, 11, 5])
    W = rng.random((23, 23)) * 0.2 + 0.8 * (true[:, None] == true[None])
    told = gr.spectral(W, 3)
    made = SpectralClustering(3, affinity="precomputed", random_state=0)
    theirs = made.fit_predict((W + W.T) / 2)
    assert gr.scores(told, theirs) == (1.0, 1.0)
    assert gr.scores(told, true) == (1.0, 1.0)
    pieces = (true[:, None] == true[None]).astype(float)  # a graph that falls apart
    assert gr.scores(gr.spectral(pieces, 3), true) == (1.0, 1.0)
    assert gr.scores(gr.spectral(rng.random((23, 23)), 3), true)[1] < 0.5


def test_perfect_and_random_groups():
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(4), 17)
    x = rng.normal(size=(4, 6))[true] + 0.01 * rng.normal(size=(68, 6))
    told = gr.kmeans(x, 4)
    assert gr.scores(told, true) == (1.0, 1.0)
    by_chance = np.mean([gr.scores(told, rng.permutation(true)) for _ in range(50)], 0)
    assert by_chance[1] == pytest.approx(0, abs=0.03)
    assert 0 < by_chance[0] < 0.2


def test_what_is_clustered_is_the_layers():
    """A model that reads vectors in two blobs: every source of it, and groups left out."""
    m, x = model(layers=1), inputs((11, 11))
    groups = torch.tensor([[0, 1] * 5 + [-100], [0] * 11])
    found = gr.groups_found(m, [(x, groups)])
    assert [(f.of, f.layer) for f in found] == [
        ("z", 0), ("neighbours", 0), ("attention", 0), ("states", 0), ("states", 1),
    ]  # fmt: skip
    assert all(len(f.nmi) == 1 for f in found)  # the second has one group only
    output, layers = capture(m, **x, output_hidden_states=True)
    at = np.arange(10)
    meant = groups[0, :10].numpy()
    A = layers[0].parts.weights[0].mean(0).numpy()[np.ix_(at, at)]
    assert (found[2].nmi[0], found[2].ari[0]) == gr.scores(gr.spectral(A, 2), meant)
    state = output.hidden_states[0][0, :10].numpy()
    assert (found[3].nmi[0], found[3].ari[0]) == gr.scores(gr.kmeans(state, 2), meant)
    z = layers[0].geometry.z[0].transpose(0, 1).flatten(1).numpy()[:10]
    assert (found[0].nmi[0], found[0].ari[0]) == gr.scores(gr.kmeans(z, 2), meant)


def test_a_graph_of_everyone_is_skipped():
    x, groups = inputs((11, 11)), torch.tensor([[0, 1] * 5 + [0]] * 2)
    few, all_of_them = (gr.groups_found(model(layers=1, k=k), [(x, groups)]) for k in (4, 12))
    assert "neighbours" in {f.of for f in few}
    assert {f.of for f in all_of_them} == {"z", "attention", "states"}


def test_mean_and_interval():
    mean, low, high = gr.mean_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (mean, round(low, 3), round(high, 3)) == (3.0, 1.037, 4.963)
    assert gr.mean_interval(np.array([0.5])) == (0.5, None, None)


def test_digits_of_an_example_go_by_their_names():
    made = task("fewshot-digits", ways=3, unlabelled=2)
    batch = next(made.eval_batches("test", 40))
    digits, ids = made.clusters(batch), batch.inputs["input_ids"]
    for b in range(40):
        of = {int(n): int(d) for n, d in zip(ids[b], digits[b], strict=True) if 0 < n < 4}
        assert of[int(batch.labels[b, -1]) + 1] == int(digits[b, -1])
        counts = sorted(np.bincount(digits[b].numpy(), minlength=10)[list(of.values())])
        assert counts == [3, 3, 4]
    assert task("digits").clusters(next(task("digits").eval_batches("test", 2))) is None


# --- classes of real text

SOURCE = 'def f(x):  # so\n    return "é" + x * 12\n'


def said(classes):
    return "".join(python_words.CLASSES[c][0] for c in classes)


def test_classes_of_characters():
    assert said(python_words.classes(SOURCE)) == "kkkwnonoowwccccw" + "wwwwkkkkkkwssswownwownnw"


@pytest.mark.parametrize("learned", [False, True])
def test_tokens_have_the_class_of_their_characters(learned):
    text = SOURCE * 60
    tokenizer = train_tokenizer([text], 300) if learned else bytes_tokenizer()
    ids, kinds = python_words._row(tokenizer, text, 97)
    half = text.rfind("\n", 0, len(text) // 2) + 1
    assert len(ids) == len(kinds) == 97
    of, at = python_words.classes(text), half
    for token, kind in zip(ids, kinds, strict=True):
        piece = tokenizer.decode([token])
        if "�" in piece:  # half of é
            assert python_words.CLASSES[kind] == "string"
            continue
        at = text.index(piece, at)
        ink = next((i for i, c in enumerate(piece) if not c.isspace()), 0)
        assert kind == of[at + ink], piece
        at += len(piece)


def test_examples_are_of_files_of_the_test():
    found = list(python_words.examples(bytes_tokenizer(), 5, 31, 2))
    assert [len(groups) for _, groups in found] == [2, 2, 1]
    assert all(x["input_ids"].shape == g.shape == (len(g), 31) for x, g in found)
    assert all(int(g.min()) >= 0 and int(g.max()) < 7 for _, g in found)
    with pytest.raises(ValueError, match="object has no offsets; expected a fast tokenizer"):
        next(python_words.examples(object(), 1, 31, 1))


# --- the whole of it


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two seeds of ascender and of vanilla, trained for a moment, measured."""
    folder = tmp_path_factory.mktemp("runs")
    whole, Grouping.examples = Grouping.examples, 5
    try:
        for variant in ("ascender", "vanilla"):
            for seed in range(2):
                run = Run.of("grouping", variant=variant, seed=seed, steps=2, batch=4, every=2,
                             hidden=16, heads=2, options={"crowd": 23, "most": 3})  # fmt: skip
                train(run, folder / f"{variant}-{seed}", measure=partial(measure, n=4))
    finally:
        Grouping.examples = whole
    return folder


def test_the_record_is_small_and_whole(runs):
    record = json.loads((runs / "ascender-0" / "record.json").read_text())
    found = record["insight"]
    assert len(json.dumps(found)) < 20_000
    assert np.array(found["share"]).shape == (2, 2, 5)
    assert np.array(found["moved"]).shape == np.array(found["whole"]).shape == (2, 2, 3)
    np.testing.assert_allclose(np.array(found["share"]).sum(-1), 1, atol=5e-4)
    assert set(found["score"]) == {"", *RULES}
    assert {g["of"] for g in found["grouping"]} == {"z", "neighbours", "attention", "states"}
    assert np.array(found["omega"]["sep"]).shape == (2, 2)
    plain = json.loads((runs / "vanilla-0" / "record.json").read_text())["insight"]
    assert "moved" not in plain
    assert plain["omega"] == {}
    assert set(plain["score"]) == {""}
    assert {g["of"] for g in plain["grouping"]} == {"attention", "states"}


def test_layers_without_rules_have_none(monkeypatch):
    """In the upper half alone: nothing below."""
    monkeypatch.setattr(Grouping, "examples", 5)
    run = Run.of(
        "grouping", variant="rules-upper", hidden=16, heads=2, options={"crowd": 23, "most": 3}
    )
    task = run.make_task()
    found = measure(run.make_model(task), task, n=4)
    assert found["omega"]["coh"][0] == [0.0, 0.0] != found["omega"]["coh"][1]
    moved = np.array(found["moved"])
    assert moved.shape == (2, 2, 3)
    assert not moved[0].any()
    assert moved[1].any()


def test_the_command(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SCORED", 3)
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    monkeypatch.setattr(Grouping, "examples", 3)
    models = [str(runs / f"ascender-{i}") for i in range(2)]
    beside = [w for i in range(2) for w in ("--against", str(runs / f"vanilla-{i}"))]
    run = CliRunner().invoke(app, ["insight", *models, *beside, "--examples", "3", "--json",
                                   "--lang", "both", "--out", str(tmp_path)])  # fmt: skip
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found == json.loads((tmp_path / "insight.json").read_text("utf-8"))
    assert [m["variant"] for m in found["models"]] == 2 * ["ascender"] + 2 * ["vanilla"]
    for name in ("contribution", "roles", "agreement", "grouping"):
        assert found["tables"][name]
        for kind in ("csv", "md", "ko.md"):
            assert (tmp_path / "tables" / f"{name}.{kind}").stat().st_size > 100
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.count("<svg") == 3
    assert not re.search(r'(src|href)="(https?:)?//', page.replace("http://www.w3.org", ""))
    for word in ("Roles of heads", "헤드의 역할", "ascender-0, ascender-1", "vanilla-1"):
        assert word in page
    row = next(r for r in found["tables"]["grouping"]
               if r["variant"] == "ascender" and r["of"] == "z" and r["layer"] == "1")  # fmt: skip
    mine, theirs = (
        [g["nmi"][0] for m in found["models"] if m["variant"] == v for g in m["grouping"]
         if (g["of"], g["layer"]) == (of, 1)]
        for v, of in (("ascender", "z"), ("vanilla", "states"))
    )  # fmt: skip
    assert row["nmi"]["mean"] == pytest.approx(np.mean(mine))
    assert row["difference"]["mean"] == pytest.approx(np.mean(mine) - np.mean(theirs))
    for line in found["advice"]:
        assert line in html.unescape(page)


def measured(moved, score):
    """One seed of two layers with two heads: what each rule moves, and what muting it does."""
    by_head = [[[x * (1 + h) for x in moved] for h in range(2)], [[0.0] * 3] * 2]
    score = {"": 0.5, **{r: 0.5 + x for r, x in zip(RULES, score, strict=True)}}
    found = {"moved": by_head, "score": score, "grouping": []}
    return ModelInsight("grouping", "ascender", (0,), (), (found,))


def test_what_was_seen_and_what_to_do():
    (seen, ko), (do, _) = advice([measured((0.001, 0.2, 0.1), (0.0, -0.03, -0.01))], "runs/a0")
    assert seen.startswith("Result: separation moves more attention than the other rules, 15.0% on "
                           "average and 30.0% in layer 0;")  # fmt: skip
    assert "separation −0.0300, cohesion −0.0100" in seen
    assert "분리" in ko
    assert "layer 0 head 1 of runs/a0, where separation moves most" in do
    assert "these rules move less than 2% in every layer: alignment" in do
    assert "--variant no-align" in do
    assert "less than" not in advice([measured((0.1, 0.2, 0.1), (0, 0, 0))], "m")[1][0]


def test_tables_have_the_words_of_their_figures():
    for codes, en, ko in (
        (("align", "coh"), ["alignment", "cohesion"], ["정렬", "응집"]),
        (("z", "neighbours", "states"), ["z", "neighbours", "states"], ["z", "이웃", "상태"]),
        (("sep+align", "base"), ["separation + alignment", "base"], ["분리 + 정렬", "기본 점수"]),
    ):
        cells = [term_cell(code) for code in codes]
        assert [cell.pair for cell in cells] == list(zip(en, ko, strict=True))
        assert [cell.value for cell in cells] == list(codes)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ascender-0", "vanilla-0"], "models of ascender and vanilla; expected seeds of one"),
        (["ascender-0", "--against", "ascender-1"], "--against is ascender like the models"),
        (["ascender-0", "ascender-0"], "models of seeds [0, 0]; expected each seed once"),
        (["ascender-0", "--task", "digits"], "was not trained on digits; expected --task grouping"),
        (["ascender-0", "--lang", "fr"], "unknown lang 'fr'; expected one of en, ko, both"),
        (["ascender-0", "--task", "groping"], "did you mean 'grouping'?"),
        (["no/where/at/all"], "no folder no/where/at/all"),
    ],
)
def test_errors_teach(runs, words, told):
    paths = [str(runs / w) if (runs / w).is_dir() else w for w in words]
    run = CliRunner().invoke(app, ["insight", *paths, "--examples", "2"])
    assert run.exit_code == 1
    assert told in run.output


def test_one_model_alone_is_compared_with_nothing(runs, monkeypatch):
    monkeypatch.setattr(measuring, "SCORED", 3)
    monkeypatch.setattr(Grouping, "examples", 3)
    words = ["insight", str(runs / "vanilla-0"), "--examples", "3"]
    told = CliRunner().invoke(app, words).stdout.splitlines()
    assert told[-2].startswith("Result: true groups of tokens are recovered best from ")
    assert told[-1].startswith("Next: compare it with a model that has rules")
    run = CliRunner().invoke(app, [*words, "--json"])
    assert run.exit_code == 0, run.output
    tables = json.loads(run.stdout)["tables"]
    assert set(tables) == {"grouping"}
    assert not {"difference", "p", "verdict"} & set(tables["grouping"][0])
