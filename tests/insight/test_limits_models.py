"""Limits of normalisation: of whole models, on the command line, in training, in the documents."""

import html
import io
import json
import math
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from ascender.core.normalizers import NORMALIZERS
from ascender.core.rules import RULES
from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.tokens import bytes_tokenizer
from ascender.insight import capture, muted
from ascender.insight.contribution import rows_of
from ascender.insight.limits import (
    LimitsCallback,
    Thresholds,
    alarms,
    figures,
    head_metrics,
    measure,
)
from ascender.insight.limits.inputs import default_text, task_inputs, text_inputs
from ascender.insight.limits.measure import Measured, measured_rows
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.page import report
from ascender.insight.limits.summary import advice, compared, growth, of, summary, verdict
from ascender.insight.limits.tables import (
    TABLES,
    brief,
    fill_tables,
    over_seeds,
    side_by_side,
)
from ascender.report.blocks import block_names
from ascender.report.table import markdown
from ascender.tasks import task

pytest.importorskip("entmax")
ROOT = Path(__file__).resolve().parents[2]
LENGTHS = (16, 40)
LAYERS, HEADS = 2, 3


def made(attention="ascender", normalizer="softmax", seed=0, **more):
    torch.manual_seed(seed)
    config = AscenderConfig(
        vocab_size=258, hidden_size=24, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        attention=attention, normalizer=normalizer, max_position_embeddings=64,
        initializer_range=0.4, **more,
    )  # fmt: skip
    return AscenderForCausalLM(config).eval()


pytestmark = pytest.mark.usefixtures("unchecked_module")


@pytest.fixture(scope="module")
def inputs():
    return text_inputs(bytes_tokenizer(), default_text(), LENGTHS, batch=2)


@pytest.fixture(scope="module")
def found(inputs):
    return measure(made(), inputs, name="ours")


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
    _, layers = capture(made(), **inputs[40])
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
    model = made(attention, normalizer)
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
    model = made()
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
    assert growth(rows)[0, 0] == pytest.approx(slope)


def test_two_models_side_by_side(found, inputs):
    model = made()
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


def test_the_report_is_whole_and_closed(found, inputs, tmp_path, monkeypatch):
    few = measure(made(), {16: inputs[16]}, name="<b>few", normalizers=["topk"])
    monkeypatch.setattr(figures, "FIGURES", {"support": figures.support})
    written = report(few, tmp_path, found, lang="both")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert {"limits.json", "rows.json", "heads.csv", "limits.md", "compare.png"} <= {
        path.name for path in written
    }
    assert "정규화의 한계" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    csv = (tmp_path / "heads.csv").read_text(encoding="utf-8").splitlines()
    assert len(csv) == 1 + len(few.heads) + len(found.heads)
    assert "&lt;b&gt;few" in page
    assert "<b>few" not in page
    with pytest.raises(ValueError, match="unknown lang 'fr'"):
        report(found, tmp_path, lang="fr")


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_draws_what_is_measured(name, found):
    drawn = figures.FIGURES[name](found)
    axes = drawn.get_axes()
    assert len(axes) == (1 if name in ("support", "normalizers") else LAYERS)
    lines = {line.get_label(): line for line in axes[0].lines}
    if name == "gradient":
        rows = [r for r in found.slopes if (r.normalizer, r.layer, r.head) == ("softmax", 0, 1)]
        assert list(lines["head 1"].get_ydata()) == [r.spectral for r in rows]
    if name == "support":
        ends = [r.support for r in of(found) if r.length == 40]
        assert lines["softmax *"].get_ydata()[-1] == pytest.approx(sum(ends) / len(ends))


def saved(folder, model):
    model.save_pretrained(folder)
    bytes_tokenizer().save_pretrained(folder)
    return str(folder)


def run(*words):
    from ascender.cli import app

    return CliRunner().invoke(app, ["limits", *words])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FIGURES", {"support": figures.support})
    model = saved(tmp_path / "m", made())
    text = tmp_path / "t.txt"
    text.write_text("one <script> two " * 20, encoding="utf-8")
    given = ("--text-file", str(text), "--lengths", "8,24", "--normalizers", "topk", "--batch", "2")
    done = run(model, *given, "--compare", "muted", "--json", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [m["name"] for m in told["models"]] == ["m", "m, muted"]
    assert {r["normalizer"] for r in told["models"][0]["rows"]} == {"softmax", "topk"}
    assert (tmp_path / "out" / "index.html").exists()
    assert str(tmp_path) not in (tmp_path / "out" / "limits.json").read_text(encoding="utf-8")
    short = run(model, *given, "--compare", "muted")
    *_, seen, do = short.stdout.splitlines()
    assert [seen, do] == told["advice"]
    assert (seen.startswith("Result: at 24 tokens, a head of m "), do.startswith("Next: ")) == (
        1,
        1,
    )
    assert len(short.stdout.splitlines()) < 40
    assert seen in html.unescape((tmp_path / "out" / "index.html").read_text("utf-8"))
    assert do in (tmp_path / "out" / "limits.md").read_text("utf-8")


def test_no_heading_is_cut(found):
    """At the width of a file, whatever the table."""
    from ascender.cli.terminal import WIDTH
    from ascender.report.terminal import rich_table

    kept = summary(found)
    made = [*(table(kept) for table in TABLES.values()), brief(kept), side_by_side(kept, kept)]
    for table in made:
        console = Console(width=WIDTH, file=io.StringIO())
        console.print(rich_table(table, title="title", width=WIDTH))
        drawn = console.file.getvalue()
        for word in " ".join(table.headings("en")).split():
            assert word in drawn, (table.name, word)


def looked(share, grows, temperature=1.0, other=None):
    """Two heads at two lengths, exp(H) ∝ L^grows; perhaps under another normaliser too."""
    rows = [
        SimpleNamespace(
            normalizer=name, layer=0, head=head, length=n, keys=n,
            share=share * (n / 64) ** (b - 1),
            support=share * 64 * (n / 64) ** b, temperature=temperature,
        )
        for name, b in (("softmax", grows), *([other] if other else []))
        for head in (0, 1)
        for n in (16, 64)
    ]  # fmt: skip
    return SimpleNamespace(name="m", own="softmax", heads=rows)


@pytest.mark.parametrize(
    ("given", "seen", "do"),
    [
        ((0.05, 0.9), "0 of 2 heads over 0.06 or more; the effective support grows with length as "
         "L^0.90.", "Next: nothing to do. Most heads"),
        ((0.5, 0.2), "over 0.50 of its keys", "nothing to do for longer texts"),
        ((0.5, 0.9), "2 of 2 heads", "without --normalizers"),
        ((0.5, 0.9, 1.0, ("topk", 0.1)), "2 of 2 heads", "topk comes nearest (L^0.10)"),
        ((0.5, 0.9, 0.05), "2 of 2 heads", "raise the temperature of 2 heads to 0.1 or more "
         "(first: layer 0 head 0)"),
    ],
)  # fmt: skip
def test_what_was_seen_and_what_to_do(given, seen, do):
    found = advice(looked(*given))
    assert seen in found[0][0]
    assert do in found[1][0]
    assert all(ko and ko != en for en, ko in found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lengths", "65"], "length 65; expected at most 64, the model's positions"),
        (["--normalizers", "softmx"], "unknown normalizer 'softmx'"),
        (["--compare", "muted"], "has no rules to mute"),
        (["--lang", "fr"], "unknown lang 'fr'"),
        (["--task", "distnct"], "unknown task 'distnct'"),
    ],
)
def test_errors_name_the_value(words, said, tmp_path):
    done = run(saved(tmp_path / "m", made("vanilla")), *words)
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_tasks_examples_are_cut():
    cut = task_inputs(task("distinct"), None, 3)
    whole = max(cut)
    assert len(cut) == 3
    for name, t in cut[whole].items():
        shorter = cut[min(cut)][name]
        assert torch.equal(shorter, t[:, : shorter.shape[1]] if t.ndim > 1 else t)
    with pytest.raises(ValueError, match=f"expected at most {whole}"):
        task_inputs(task("distinct"), [whole + 1])


# --- while training


def test_alarms_by_thresholds():
    found = {
        "share": [[0.5, 0.95]], "support": [[1.0, 9.0]], "separable": [[0.1, 0.9]],
        "temperature": [[1.0, 1.0]],
    }  # fmt: skip
    told = alarms(found)
    assert [line.split(" heads ")[0] for line in told] == ["1 of 2"] * 3
    assert "layer 0 head 1 with 0.95" in told[0]
    easy = Thresholds(share=1, support=0, separable=0, temperature=0)
    assert alarms(found, easy) == []
    with pytest.raises(ValueError, match="share = -1"):
        Thresholds(share=-1)


def test_the_callback_of_transformers_trainer(tmp_path, caplog, inputs):
    pytest.importorskip("accelerate")
    import transformers

    rows = [{"input_ids": row, "labels": row} for row in inputs[16]["input_ids"]] * 2
    watch = LimitsCallback(inputs[16], Thresholds(share=0.0))
    args = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, eval_strategy="steps", eval_steps=1, report_to=[],
        use_cpu=True, disable_tqdm=True, save_strategy="no", per_device_train_batch_size=2,
    )  # fmt: skip
    model = made()
    trainer = transformers.Trainer(
        model, args, train_dataset=rows, eval_dataset=rows, callbacks=[watch]
    )
    trainer.train()
    assert [h["step"] for h in watch.history] == [1, 2]
    assert watch.history[1]["support"] == head_metrics(model, inputs[16])["support"]
    logged = [row for row in trainer.state.log_history if "limits/support/layer1.head2" in row]
    assert [row["step"] for row in logged] == [1, 2]
    assert logged[1]["limits/support/layer1.head2"] == watch.history[1]["support"][1][2]
    assert "6 of 6 heads spread over more than 0 of their keys" in caplog.text


def test_ascender_train_logs_the_limits(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    from ascender.train import Run, train
    from ascender.train.display import Lines

    said = []
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 13)
    sizes = {"batch": 4, "hidden": 16, "layers": LAYERS, "heads": 2}
    run = Run.of("distinct", steps=4, every=2, options={"crowd": 13, "most": 5}, **sizes)
    with_, without = tmp_path / "a", tmp_path / "b"
    first = train(run, with_, limits=Thresholds(share=0.0), show=Lines(said.append))
    second = train(run, without)
    rows = [json.loads(x) for x in (with_ / "metrics.jsonl").read_text().splitlines()]
    assert ["limits" in row for row in rows] == [False, True, False, True]
    limits = rows[-1]["limits"]
    assert len(limits["support"]) == LAYERS
    assert all(x >= 1 for row in limits["support"] for x in row)
    assert any(line.startswith("step 2: 4 of 4 heads spread over more than 0") for line in said)
    assert first["test"]["scores"] == second["test"]["scores"]  # looking changes nothing
    assert first["key"] == second["key"]


# --- the document


def summaries():
    kept = {}
    for path in sorted((ROOT / "docs" / "limits").glob("*.json")):
        kept[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return kept


@pytest.mark.parametrize(
    ("page", "marks", "changed"), [("limits", 6, "stories15M"), ("results/limits", 2, "pylib-0")]
)
def test_tables_in_the_documents_are_what_the_rows_give(page, marks, changed):
    text, kept = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), summaries()
    assert len(block_names(text, "limits")) >= marks
    assert fill_tables(text, kept) == text
    row = kept[changed]["models"][0]["rows"][0]
    row["support"], row["share"] = row["support"] * 2, row["share"] * 2
    assert fill_tables(text, kept) != text


def test_two_variants_over_seeds_by_hand():
    """Shares 0.5 and 0.6 against 0.4 and 0.3: differences 0.1 and 0.3, 0.2 ± 12.706 · 0.1."""

    def model(share, beta):
        row = {"length": 16, "normalizer": "softmax", "share": share, "separable": 1.0}
        growth = [{"normalizer": "softmax", "mean": beta}]
        return {"own": "softmax", "rows": [row], "growth": growth}

    found = over_seeds([(model(0.5, 0.7), model(0.4, 0.8)), (model(0.6, 0.7), model(0.3, 0.8))])
    share, beta = (tuple(cell.text for cell in row) for row in found.rows)
    assert share[:5] == ("16", "2", "0.550 ± 0.071", "0.350 ± 0.071", "+0.200 [-1.071, +1.471]")
    assert beta[1:5] == ("2", "0.700 ± 0.000", "0.800 ± 0.000", "-0.100 [-0.100, -0.100]")
    with pytest.raises(ValueError, match=r"no moon\.json for a table; there is sun"):
        fill_tables("<!-- limits: moon seeds -->\n<!-- /limits -->", {"sun": {}})


def test_the_rows_of_the_document_keep_the_bounds():
    for found in [model for file in summaries().values() for model in file["models"]]:
        for row in found["rows"]:
            assert row["distance"] <= row["bound"]
            assert row["normalizer"] not in ("softmax", "ssmax", "length") or row["outside"] == 0
        for row in found["slopes"]:
            if row["normalizer"] == "softmax":
                assert row["spectral"] <= 1 / (2 * row["T"]) + 1e-6
