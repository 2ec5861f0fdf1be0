"""Limits of normalisation: report, figures, command."""

import html
import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ascender.hf.tokens import bytes_tokenizer
from ascender.insight.limits import figures, measure
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.page import report
from ascender.insight.limits.summary import advice, of, summary
from ascender.insight.limits.tables import TABLES, brief, side_by_side
from support.limits_cases import LAYERS, make_model

pytest.importorskip("entmax")

pytestmark = pytest.mark.usefixtures("unchecked_module")


def run(*words):
    from ascender.cli import app

    return CliRunner().invoke(app, ["limits", *words])


def test_the_report_is_whole_and_closed(found, inputs, tmp_path, monkeypatch):
    few = measure(make_model(), {16: inputs[16]}, name="<b>few", normalizers=["topk"])
    monkeypatch.setattr(figures, "FIGURES", {"support": figures.support})
    written = report(few, tmp_path, found, lang="both")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert {"limits.json", "rows.json", "heads.csv", "limits.md", "compare.png"} <= {
        path.name for path in written
    }
    assert "정규화의 한계" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    assert page.index('id="figures"') < page.index('<details class="fold">')
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


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FIGURES", {"support": figures.support})
    model = saved(tmp_path / "m", make_model())
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
    tables = [*(table(kept) for table in TABLES.values()), brief(kept), side_by_side(kept, kept)]
    for table in tables:
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
    return Measured("m", "softmax", (), rows)


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
    done = run(saved(tmp_path / "m", make_model("vanilla")), *words)
    assert done.exit_code == 1
    assert said in done.stderr
