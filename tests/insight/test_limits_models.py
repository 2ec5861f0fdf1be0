"""Limits of normalisation in whole models."""

import json
import math
from statistics import fmean, stdev

import pytest
import torch

from ascender.core.normalizers import NORMALIZERS
from ascender.core.rules import RULES
from ascender.hf.tokens import bytes_tokenizer
from ascender.insight import capture, muted
from ascender.insight.contribution import rows_of
from ascender.insight.limits import alarms, head_metrics, measure
from ascender.insight.limits.inputs import task_inputs, text_inputs
from ascender.insight.limits.measure import Measured, measured_rows
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.summary import compared, growth, of, summary, verdict
from ascender.insight.limits.tables import TABLES, side_by_side
from ascender.report.table import markdown
from ascender.tasks import task
from support.limits_cases import HEADS, LAYERS, LENGTHS, make_model

pytest.importorskip("entmax")

pytestmark = pytest.mark.usefixtures("unchecked_module")


def test_windows_grow_from_where_they_begin(inputs):
    short, long = (inputs[n]["input_ids"] for n in LENGTHS)
    assert short.shape == (2, 16)
    assert torch.equal(long[:, :16], short)
    assert not torch.equal(long[0], long[1])
    with pytest.raises(ValueError, match="3 tokens of text; expected at least 40"):
        text_inputs(bytes_tokenizer(), "abc", LENGTHS)


def test_special_tokens_stay_around_a_text():
    class Dressed:
        def __call__(self, text, add_special_tokens=True, verbose=True):
            ids = [ord(c) for c in text]
            return {"input_ids": [1, *ids, 2] if add_special_tokens else ids}

    ids = text_inputs(Dressed(), "abcdefgh", (4, 6), batch=2)
    assert ids[4]["input_ids"][0].tolist() == [1, 97, 98, 2]
    with pytest.raises(ValueError, match="length 2; expected more than 2"):
        text_inputs(Dressed(), "abcdefgh", (2,))


def test_every_length_normaliser_layer_and_head_has_its_row(found):
    places = {(r.length, r.normalizer, r.layer, r.head) for r in found.heads}
    assert len(places) == len(found.heads) == 2 * len(NORMALIZERS) * LAYERS * HEADS
    assert found.own == "softmax"
    assert len(found.slopes) == len(NORMALIZERS) * LAYERS * HEADS * 7
    assert Measured.of(json.loads(json.dumps(found.asdict()))) == found


def test_the_numbers_are_the_models_own(found, inputs):
    """Against a pass of one's own: the last rows of the causal mask."""
    _, layers = capture(make_model(), **inputs[40])
    A = layers[1].parts.weights[:, 2, -5:].double()  # 40 // 8 = 5 rows see the most
    H = -(A * A.clamp_min(1e-300).log()).sum(-1)
    row = next(r for r in of(found) if (r.length, r.layer, r.head) == (40, 1, 2))
    assert row.keys == 38
    assert row.entropy == pytest.approx(H.mean().item(), rel=1e-6)
    assert row.support == pytest.approx(H.exp().mean().item(), rel=1e-6)
    assert row.largest == pytest.approx(A.amax(-1).mean().item(), rel=1e-6)
    alphas = A.reshape(-1, 40)
    norms = [torch.linalg.matrix_norm(torch.diag(a) - torch.outer(a, a), 2) for a in alphas]
    assert row.spectral == pytest.approx(max(norms).item(), rel=1e-6)


def test_bounds_hold_in_the_models(found):
    for row in found.heads:
        assert row.distance <= row.bound + 1e-6
        if row.normalizer in ("softmax", "ssmax", "length"):
            assert row.outside == 0
        assert 1 - 1e-9 <= row.support <= row.keys + 1e-6
    for row in found.slopes:
        if row.normalizer in ("softmax", "topk"):
            assert row.spectral <= 1 / (2 * row.T) + 1e-9
            assert row.entry <= 1 / (4 * row.T) + 1e-9
    assert any(r.spectral > 1 / (4 * r.T) for r in found.slopes if r.normalizer == "softmax")
    assert any(row.outside > 0 for row in found.heads if row.normalizer == "sparsemax")


@pytest.mark.parametrize("attention", ["vanilla", "ascender"])
@pytest.mark.parametrize("normalizer", ["ssmax", "entmax15"])
def test_a_model_with_another_normaliser(attention, normalizer, inputs):
    model = make_model(attention, normalizer)
    found = measure(model, {16: inputs[16]}, normalizers=["softmax"])
    assert found.own == normalizer
    assert {r.normalizer for r in found.heads} == {normalizer, "softmax"}
    _, layers = capture(model, **inputs[16])
    seen = measured_rows(layers[0], rows_of(layers)[0], 2)
    torch.testing.assert_close(seen.A, layers[0].parts.weights[:, :, -2:].double())
    if normalizer == "ssmax":  # q is sharpened in what is captured: Δ holds
        assert all(r.outside == 0 for r in of(found))
        base = (layers[0].q @ layers[0].k.mT / layers[0].q.shape[-1] ** 0.5).detach()
        V = layers[0].visible
        torch.testing.assert_close(base.masked_fill(~V, 0), layers[0].parts.base)


@pytest.mark.parametrize("family", ["GPT2", "Bert"])
def test_models_that_are_not_ours(family):
    import transformers

    torch.manual_seed(0)
    sizes = {"GPT2": {"n_embd": 24, "n_layer": LAYERS, "n_head": HEADS}, "Bert": {
        "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": 32,
    }}[family]  # fmt: skip
    config = getattr(transformers, f"{family}Config")(vocab_size=37, **sizes)
    model = getattr(transformers, f"{family}Model")(config).eval()
    ids = torch.randint(0, 37, (2, 24))
    found = measure(model, {24: {"input_ids": ids}}, normalizers=["topk"])
    assert len(found.heads) == 2 * LAYERS * HEADS
    assert {r.keys for r in found.heads} == {23.0 if family == "GPT2" else 24.0}  # causal or not
    assert all(r.outside == 0 for r in of(found))
    truth = model(ids).last_hidden_state
    torch.testing.assert_close(capture(model, input_ids=ids)[0].last_hidden_state, truth)


def test_the_temperature_is_found_and_warned_of(inputs):
    model = make_model()
    for layer in model.modules():
        if hasattr(layer, "log_tau_score"):
            layer.log_tau_score.data.fill_(math.log(0.05))
    found = measure(model, {16: inputs[16]}, normalizers=["softmax"])
    assert all(r.temperature == pytest.approx(0.05, rel=1e-4) for r in found.heads)
    assert any("T = 0.05; expected T ≥ 0.1" in line for line in guideline(of(found)))
    assert all(r.outside == 0 for r in of(found))
    assert any("temperature below 0.1" in line for line in alarms(head_metrics(model, inputs[16])))


def test_guideline_counts_heads(found):
    told = guideline(of(found))
    wide = sum(r.share >= 0.06 for r in of(found) if r.length == 40)
    assert any(line.startswith(f"L = 40: {wide} of {LAYERS * HEADS} heads") for line in told)
    assert guideline([]) == []


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_rectangles(name, found):
    lines = markdown(TABLES[name](summary(found))).splitlines()
    assert len(lines) > 3
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_growth_is_the_exponent(found):
    rows = [r for r in of(found) if (r.layer, r.head) == (0, 0)]
    a, b = sorted(rows, key=lambda r: r.length)
    slope = math.log(b.support / a.support) / math.log(b.keys / a.keys)
    assert growth(found)[0, 0] == pytest.approx(slope)


def test_two_models_side_by_side(found, inputs):
    model = make_model()
    with muted(model, *RULES):
        other = measure(model, inputs, name="muted", normalizers=["softmax"])
    numbers = compared(found, other, paired=True)
    shares = [[r.share for r in of(m) if r.length == 40] for m in (found, other)]
    assert numbers["narrower"] == sum(x < y for x, y in zip(*shares, strict=True))
    assert numbers["share"][0] == (pytest.approx(fmean(shares[0])), pytest.approx(stdev(shares[0])))
    assert numbers["share"][0] != numbers["share"][1]
    assert "At 40 tokens ours uses" in verdict(numbers)
    assert "Head by head" in verdict(numbers)
    assert "Head by head" not in verdict(compared(found, other))
    assert markdown(side_by_side(summary(found), summary(other))).count("\n") == 4
    assert compared(found, found, paired=True)["slower"] == 0


def test_a_tasks_examples_are_cut():
    cut = task_inputs(task("distinct"), None, 3)
    whole = max(cut)
    assert len(cut) == 3
    for name, t in cut[whole].items():
        shorter = cut[min(cut)][name]
        assert torch.equal(shorter, t[:, : shorter.shape[1]] if t.ndim > 1 else t)
    with pytest.raises(ValueError, match=f"expected at most {whole}"):
        task_inputs(task("distinct"), [whole + 1])
