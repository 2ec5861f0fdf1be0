"""The folder of the paper: complete, or not there at all; every number with its trials."""

import csv
import json
import re
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest

from ascender import lab
from ascender.lab.paper import build, draft_tables, paper_figures, pdf
from ascender.lab.paper.author_strings import AUTHOR
from ascender.lab.paper.body_strings import BODY
from ascender.lab.paper.document import Heading, Paragraph, TableBlock
from ascender.lab.paper.document import text as said
from ascender.lab.paper.facts import Unknown
from ascender.lab.paper.material import material
from ascender.lab.paper.paper_figures import NUMBERS, blocks
from ascender.lab.score_maps import ScoreMaps
from ascender.report.table import Cell
from support import lab_cases as cases
from support.paper_cases import finish, store

DRAWS = 20
COSTS = {
    "order": {}, "rows": [
        {"variant": name, "n": n, "flops": n * 1000 * (i + 1), "forward_ms": 2.0 * n * (i + 1),
         "training_ms": 5.0 * n * (i + 1), "memory_mb": 20.5 * (i + 1)}
        for n in (64, 128) for i, name in enumerate(("vanilla", "ascender", "ascender+window=8"))
    ],
}  # fmt: skip
DRAFT = """
title: {en: My study, ko: 나의 연구}
authors: [A. Author, 김 저자]
abstract: [We compare., {en: "It wins always.", claim: 1}, {en: "It saves 77%.", claim: 3}]
conclusion: [{en: Done., ko: 끝.}]
captions: {figure3: [{en: "Mine [@dao2022].", claim: 1}], quality: [{en: See 99 things.}]}
"""


def quiet(line):
    pass


def made(root, out, lang="en", **more):
    return build.build(root, out, lang, draws=DRAWS, with_pdf=False, say=quiet, **more)


def bundle(root):
    """Whole, with the costs of layers."""
    store(root)
    finish(root)
    (root / "accuracy" / "costs.json").write_text(json.dumps(COSTS))
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return bundle(tmp_path_factory.mktemp("trials"))


@pytest.fixture(scope="module")
def of(root):
    return material(root, DRAWS, quiet)


@pytest.fixture(scope="module")
def paper(root, of, tmp_path_factory):
    """(folder, files, what was said) with the author's text; the pictures are empty."""
    place = tmp_path_factory.mktemp("out")
    (place / "draft.yaml").write_text(DRAFT)
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "material", lambda *args: of)
        patch.setattr(paper_figures, "save_figure", empty)
        patch.setattr(build, "appendix", lambda *args: APPENDIX)
        paths = build.build(root, place / "paper", "both", place / "draft.yaml", draws=DRAWS,
                            with_pdf=False, with_markdown=True, say=lines.append)  # fmt: skip
    return place / "paper", paths, lines


APPENDIX = [Heading(1, said("A"), f"app:{name}") for name in (
    "settings", "sweeps", "examples", "procedures", "limitations"
)] + [Heading(2, said("E"), "tab:footprint")]  # fmt: skip


def empty(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("pdf", "png", "svg"):
        (folder / f"{name}.{kind}").write_bytes(b"")


@pytest.fixture
def fast(of, monkeypatch):
    """A paper of one table, from trials that were judged once."""
    monkeypatch.setattr(build, "material", lambda *args: of)
    monkeypatch.setattr(build, "opening", lambda *args: [Paragraph(said("Said."))])
    monkeypatch.setattr(build, "body", lambda *args: [TableBlock(draft_tables.quality(of))])
    monkeypatch.setattr(build, "appendix", lambda *args: [])
    monkeypatch.setattr(build, "findings", lambda *args: ())
    monkeypatch.setattr(build, "drawings", lambda *args: {name: [] for name in NUMBERS})


def listing(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file()}  # fmt: skip


# --- what is in it


def test_the_folder_has_everything(paper):
    folder, paths, _ = paper
    assert {p.relative_to(folder).as_posix() for p in paths} == set(listing(folder))
    names = set(listing(folder))
    assert {"main.tex", "paper.md", "references.bib", "numbers.csv", "written.json"} <= names
    pictures = {re.sub("[a-z]?([.]ko)?[.]pdf", "", n) for n in names if n.endswith(".pdf")}
    assert pictures == {f"figures/figure{n}" for n in (2, 4, 5)}
    assert "figures/figure2.ko.pdf" in names or "figures/figure2a.ko.pdf" in names
    tex = (folder / "main.tex").read_text()
    for picture in re.findall(r"\\includegraphics\[.*?\]\{(.*?)\}", tex):
        assert (folder / picture).is_file()
    labels = re.findall(r"\\label\{(.*?)\}", tex)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\ref\{(.*?)\}", tex)) <= set(labels)


def test_tables_are_the_drafts_in_its_order(paper):
    tex = (paper[0] / "main.tex").read_text()
    names = ("paper_claims", "draft_layers", "draft_training", "draft_quality", "draft_groups",
             "draft_rules", "criteria")  # fmt: skip
    places = [tex.index(rf"\label{{tab:{name}}}") for name in names]
    assert places == sorted(places)
    start, end = places[1:3]
    heads = tex[start:end]
    for words in ("Transformer (base)", "ASCender (ours)", r"ASC + Sparse/\allowbreak{}Flash",
                  "Latency (ms)", "Attention FLOPs", "Peak Memory (GB)",
                  r"Tokens/\allowbreak{}sec"):  # fmt: skip
        assert words in heads


def test_every_number_has_its_trials(paper, root):
    keys = {p.parent.name for p in root.glob("*/trials/*/record.json")}
    with (paper[0] / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 300
    assert all(set(row["trials"].split()) <= keys for row in rows)
    assert {k for row in rows for k in row["trials"].split()} == keys


def test_missing_material_is_said(paper):
    tex = (paper[0] / "main.tex").read_text()
    assert "Figure 1 (the terms of one attention) is not drawn" in tex
    assert "Figure 3 (ablation) is not drawn" in tex
    assert "No task was run at more than one length" in tex


def test_the_authors_words_stand_beside_their_verdicts(paper):
    folder, _, lines = paper
    tex = (folder / "main.tex").read_text()
    assert r"\title{My study}" in tex
    assert r"A. Author \and 김 저자" in tex
    assert r"We compare. It wins always. \verdict{supported (claim 1)}" in tex
    assert r"It saves 77\%. \verdict{not run yet (claim 3); not in the result: 77\%}" in tex
    # of a figure that is not drawn
    assert "\\begin{quote}\nMine \\citep{dao2022}. \\verdict{supported (claim 1)}" in tex
    assert "Sentences that the measurements do not support" in tex
    assert lines[-1] == (
        "the measurements do not support 2 of the author's sentences (listed in the paper): "
        "abstract[3], captions.quality[1]"
    )


def test_korean_has_the_same_tables_and_figures(paper):
    en, ko = ((paper[0] / name).read_text() for name in ("main.tex", "main.ko.tex"))
    assert re.findall(r"\\label\{(.*?)\}", ko) == re.findall(r"\\label\{(.*?)\}", en)
    assert "Transformer (기준)" in ko
    assert r"\title{나의 연구}" in ko
    assert r"\verdict{지지됨(주장 1)}" in ko


def test_every_string_of_the_body_has_the_same_fields_and_marks_in_both_languages():
    for key, (en, ko) in {**BODY, **AUTHOR}.items():
        marks = [sorted(re.findall(r"`[^`]+`|\[[#@][^\]]+\]|\{\w+\}", x)) for x in (en, ko)]
        assert marks[0] == marks[1], key


# --- numbers, again by other means


def records(root, task, variant):
    every = (json.loads(p.read_text()) for p in root.glob("accuracy/trials/*/record.json"))
    return [r for r in every if (r["run"]["task"], r["run"]["variant"]) == (task, variant)]


def test_quality_is_the_mean_of_the_seeds(of, root):
    for row in draft_tables.quality(of).records():
        task = row["task"].text
        for column, variant in (("base", "vanilla"), ("ours", "ascender"),
                                ("sparse", "ascender+window=8")):  # fmt: skip
            values = [r["test"]["value"] for r in records(root, task, variant)]
            assert row[column].data["mean"] == pytest.approx(statistics.mean(values))
            assert row[column].data["sd"] == pytest.approx(statistics.stdev(values))
        assert row["sparse_variant"].text == "window=8"


def test_efficiency_of_layers_is_in_the_drafts_units(of):
    rows = draft_tables.layer_efficiency(of).records()
    assert [row["model"].code for row in rows] == ["base", "ours", "sparse"] * 2
    ours = rows[4]
    assert (ours["length"].text, ours["variant"].text) == ("128", "ascender")
    assert ours["draft_latency"].text == "512 (2.00×)"
    assert ours["draft_memory"].text == "0.0410 (2.00×)"
    assert ours["draft_speed"].data["mean"] == pytest.approx(1000 * 128 / (5 * 128 * 2))


def test_efficiency_of_trials_is_that_of_the_records(of, root):
    rows = draft_tables.trial_efficiency(of).records()
    (row,) = [r for r in rows if (r["task"].text, r["variant"].text) == ("distinct", "ascender")]
    own, base = (records(root, "distinct", v) for v in ("ascender", "vanilla"))
    step = [statistics.mean(1e3 * r["seconds"] / r["steps"] for r in of) for of in (own, base)]
    assert row["draft_step"].data["mean"] == pytest.approx(step[0])
    assert row["draft_step"].data["ratio"] == pytest.approx(step[0] / step[1])
    assert row["draft_memory"].data["mean"] == pytest.approx(own[0]["peak_memory_mb"] / 1000)


def test_a_variant_is_one_row_of_the_draft_or_none():
    models = {
        "vanilla": "base", "ascender": "ours", "ascender+window=8": "sparse", "flash": "sparse",
        "flock": "sparse", "ascender+topk": "sparse", "no-sep": "", "ascender+k=4": "",
        "longformer+window=8": "", "ascender+window=8+alibi": "", "shuffled": "",
    }  # fmt: skip
    assert {name: draft_tables.model_of(name, "vanilla") for name in models} == models


@pytest.fixture(scope="module")
def ablation(tmp_path_factory):
    """A suite with each rule alone."""
    folder = cases.store(tmp_path_factory.mktemp("ablation"), cases.records())
    return material(folder, DRAWS, quiet)


def test_figures_have_the_drafts_numbers_and_say_what_they_are_of(ablation):
    parts = paper_figures._deltas(ablation)
    (shown,) = blocks(ablation, {"deltas": parts}, "deltas")
    assert (shown.number, shown.label) == ("3", "fig:deltas")
    caption = shown.caption.plain("en")
    assert caption.startswith("Differences from vanilla, paired by seed, with 95% intervals.")
    assert caption.endswith("Suite made-up (fewshot-digits, distinct), trials: 30.")
    assert "시행 30개" in shown.caption.plain("ko")


def test_a_figure_that_is_higher_than_a_page_is_split(ablation, monkeypatch):
    monkeypatch.setattr(paper_figures, "HIGHEST", 1.0)
    parts = paper_figures._deltas(ablation)
    assert [part.results.tasks for part in parts] == [["fewshot-digits"], ["distinct"]]
    shown = blocks(ablation, {"deltas": parts}, "deltas")
    assert [(b.number, b.label) for b in shown] == [("3a", "fig:deltas"), ("3b", "fig:deltas-b")]


def test_maps_that_were_kept_are_figure_1(ablation, monkeypatch):
    key = ablation.suites["made-up"].records[1]["key"]
    kept = ScoreMaps("fewshot-digits", "ascender", 0, key, 1, 2, {
        term: np.eye(4) for term in ("base", "align", "sep", "coh", "total", "weights")
    })  # fmt: skip
    monkeypatch.setattr(paper_figures.attention_maps, "maps", lambda *args: kept)
    (shown,) = blocks(ablation, {"maps": paper_figures._maps(ablation, None)}, "maps")
    assert "layer 1, head 2" in shown.caption.plain("en")
    assert shown.number == "1"


# --- errors leave nothing behind


def strange(monkeypatch, block):
    monkeypatch.setattr(build, "opening", lambda *args: [block])


@pytest.mark.parametrize("there", [False, True])
def test_a_number_that_is_in_no_row_fails_the_build(root, tmp_path, monkeypatch, there, fast):
    out = tmp_path / "paper"
    if there:
        out.mkdir()
        (out / "written.json").write_text('{"files": {}}')
    before = listing(tmp_path)
    strange(monkeypatch, Paragraph(said("The accuracy is 0.987.")))
    with pytest.raises(Unknown, match=r"0\.987 is no constant of the method"):
        made(root, out)
    assert listing(tmp_path) == before
    assert out.exists() == there


def test_a_cell_that_is_not_what_its_trials_say_fails_the_build(root, tmp_path, monkeypatch, fast):
    own = draft_tables.mean_cell

    def wrong(summary, trials, signed=False):
        cell = own(summary, trials, signed)
        return Cell(cell.text.replace("0.", "0.9", 1), cell.keys, cell.data)

    monkeypatch.setattr(draft_tables, "mean_cell", wrong)
    with pytest.raises(Unknown, match="table draft_quality, column base"):
        made(root, tmp_path / "paper")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("See [@nobody1900].", r"\[@nobody1900\] is not in references.bib; expected one of"),
        ("See [#tab:nothing].", r"\[#tab:nothing\] leads nowhere; expected one of"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(root, tmp_path, monkeypatch, text, error, fast):
    strange(monkeypatch, Paragraph(said(text)))
    with pytest.raises(ValueError, match=error):
        made(root, tmp_path / "paper")


def test_a_label_that_is_there_twice_is_an_error(root, tmp_path, monkeypatch, of, fast):
    strange(monkeypatch, TableBlock(draft_tables.quality(of)))
    with pytest.raises(ValueError, match="'tab:draft_quality' is there twice"):
        made(root, tmp_path / "paper")


# --- over an earlier paper


def test_an_earlier_paper_is_replaced_and_other_files_stay(root, tmp_path, fast):
    out = tmp_path / "paper"
    made(root, out, "both")
    (out / "mine.tex").write_text("mine")
    first = listing(out)
    made(root, out, "en")
    names = set(listing(out))
    assert "mine.tex" in names
    assert "main.ko.tex" not in names
    assert listing(out)["main.tex"] == first["main.tex"]
    assert [p.name for p in tmp_path.iterdir()] == ["paper"]


def test_a_file_that_was_edited_is_not_lost(root, tmp_path, fast):
    out = tmp_path / "paper"
    made(root, out)
    (out / "main.tex").write_text("edited")
    before = listing(out)
    with pytest.raises(ValueError, match=r"main\.tex was edited; expected"):
        made(root, out)
    assert listing(out) == before


def test_a_folder_of_something_else_is_refused(root, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match="is not empty; expected a new folder"):
        made(root, tmp_path)


# --- programs


def test_without_tex_that_is_said_or_is_an_error(root, tmp_path, fast, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    lines = []
    build.build(root, tmp_path / "paper", "en", draws=DRAWS, say=lines.append)
    assert "no PDF: xelatex is not installed (Debian: apt install texlive-xetex" in lines[-1]
    with pytest.raises(FileNotFoundError, match="expected TeX for --pdf"):
        lab.write_paper(root, tmp_path / "other", with_pdf=True)
    with pytest.raises(FileNotFoundError, match="pandoc is not installed"):
        lab.write_paper(root, tmp_path / "other", with_docx=True)
    assert not (tmp_path / "other").exists()


TEX = pytest.mark.skipif(bool(pdf.missing_tex()), reason="TeX (xelatex, bibtex) is not installed")


@TEX
def test_tex_errors_name_the_line(tmp_path):
    source = tmp_path / "main.tex"
    source.write_text("\\documentclass{article}\n\\begin{document}\n\\nonsense\n\\end{document}\n")
    with pytest.raises(ValueError, match=r"Undefined control sequence.* l\.3"):
        pdf.build_pdf(source, quiet)


@TEX
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_small_document_compiles(tmp_path, lang):
    """Every kind of block, hostile text, wide and long tables."""
    from ascender.lab.paper.latex import latex
    from lab.test_paper_writers import HOSTILE, document, every_kind, table

    shown = [b for b in every_kind().blocks if not hasattr(b, "path") and "fig:f" not in str(b)]
    wide = table(8, text="+0.0203 [−0.0077, +0.0529]", name="wide")
    long = table(5, 80, name="long")
    text = latex(document(Paragraph(said("**{x}**", x=HOSTILE)), TableBlock(wide), TableBlock(long),
                          *shown, Paragraph(said("[@dao2022]"))), lang)  # fmt: skip
    (tmp_path / "main.tex").write_text(text)
    bib = Path(build.__file__).parents[4] / "docs" / "references.bib"
    shutil.copy(bib, tmp_path / "references.bib")
    lines = []
    assert pdf.build_pdf(tmp_path / "main.tex", lines.append).stat().st_size > 10_000
    assert not [line for line in lines if line.startswith("main.tex:")], lines
    assert sorted(p.name for p in tmp_path.iterdir()) == ["main.pdf", "main.tex", "references.bib"]


@TEX
@pytest.mark.slow
def test_the_paper_compiles_in_both_languages(root, tmp_path):
    (tmp_path / "draft.yaml").write_text(DRAFT)
    lines = []
    build.build(root, tmp_path / "paper", "both", tmp_path / "draft.yaml", draws=DRAWS,
                with_pdf=True, say=lines.append)  # fmt: skip
    for name in ("main.pdf", "main.ko.pdf"):
        assert (tmp_path / "paper" / name).read_bytes().startswith(b"%PDF")
    assert not [line for line in lines if re.match(r"main(\.ko)?\.tex:", line)], lines


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="pandoc is not installed")
def test_docx(root, tmp_path, fast):
    made(root, tmp_path / "paper", with_docx=True)
    assert (tmp_path / "paper" / "paper.docx").read_bytes().startswith(b"PK")
