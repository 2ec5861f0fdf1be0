"""Reports of made-up records: escaping, languages, figures, and what cannot be judged."""

import json
import re
import statistics

import numpy as np
import pytest
from matplotlib.text import Text

from ascender.lab.reports import (
    curve_figures,
    figures,
    head_figures,
    length_figures,
    report,
)
from ascender.lab.reports.methods import methods
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import FIGURES, suite_page
from ascender.report import figure as report_figure
from ascender.report import palette
from ascender.report.figure import COLUMN, PAGE, labels, save_figure, style
from ascender.report.page import PageFigure
from ascender.report.table import latex, latex_text, markdown, markdown_section
from support import lab_cases as cases
from support.lab_reports import DRAWS, read_page, results_of, tables

BY_LENGTH = ("length", "layer_costs", "layer_pareto")
NASTY = "<script>alert('50%_a&b#{}$^~\\')</script>"


def loose(tex):
    """Signs that TeX would take for its own, outside commands that are ours."""
    body = re.sub(r"\$\\?[a-z\-]+\$", "", "\n".join(tex.splitlines()[1:]))  # the first: a comment
    body = re.sub(r"\\resizebox\{\\textwidth\}\{!\}\{%", "{", body)
    cells = [line for line in body.splitlines() if line.endswith(r"\\")]
    return [
        sign
        for line in cells
        for sign in re.findall(r"(?<!\\)[%_#$^~]", line)
    ]  # fmt: skip


def depth(tex):
    return len(re.findall(r"(?<!\\)\{", tex)) - len(re.findall(r"(?<!\\)\}", tex))


@pytest.mark.parametrize("higher", [True, False])
def test_the_frontier_is_what_nothing_beats(higher):
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.integers(0, 6, 7).tolist(), rng.integers(0, 6, 7).tolist()
        found = figures.frontier(x, y, higher)
        up = 1 if higher else -1
        best = {
            (a, b) for a, b in zip(x, y, strict=True)
            if not any(
                (c, -up * d) != (a, -up * b) and c <= a and up * d >= up * b
                for c, d in zip(x, y, strict=True)
            )
        }  # fmt: skip
        assert {(x[i], y[i]) for i in found} == best


def test_words_in_figures_are_large_enough(tmp_path):
    found = results_of(tmp_path, cases.records())
    with style():
        drawn = [draw(found, labels(STRINGS, "en")) for draw in FIGURES.values()]
        for figure in filter(None, drawn):
            assert figure.get_figwidth() in (COLUMN, PAGE)
            texts = [t for t in figure.findobj(Text) if t.get_text()]
            assert texts
            assert min(t.get_fontsize() for t in texts) >= 8


def test_variants_can_be_told_without_colour():
    look = palette.line_styles([f"v{i}" for i in range(10)])
    assert len({(each.mark, str(each.line)) for each in look.values()}) == 10


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_latex_is_whole(tmp_path, lang):
    records = cases.records(variants=("vanilla", NASTY))
    for table in tables(results_of(tmp_path, records)):
        tex = latex(table, lang)
        assert depth(tex.replace(r"\\", "")) == 0
        assert re.findall(r"\\begin\{(\w+\*?)\}", tex) == ["table*", "tabular"]
        assert re.findall(r"\\end\{(\w+\*?)\}", tex) == ["tabular", "table*"]
        assert [tex.count(rule) for rule in (r"\toprule", r"\bottomrule")] == [1, 1]
        assert loose(tex) == []
        lines = [line for line in tex.splitlines() if line.endswith(r"\\")]
        assert len(lines) == len(table.rows) + 1
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(table.columns) - 1
        assert not re.search(r"[±−×δ↑–…]", tex)


def test_a_loose_sign_is_noticed():
    assert loose("%\n" + r"a_b & 5% \\") == ["_", "%"]
    assert latex_text(r"a_b & 5% {x} \y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"


def test_page_escapes_and_needs_no_network(tmp_path):
    records = cases.records(variants=("vanilla", NASTY))
    records += [cases.record("</script><b>t", "vanilla", s) for s in range(2)]
    found = results_of(tmp_path, records, claim="a < b & <i>c</i>", name="<b>")
    with style():
        figure = figures.deltas(found, labels(STRINGS, "en"))
        save_figure(figure, tmp_path / "f", "deltas")
    svg = (tmp_path / "f" / "deltas.svg").read_text("utf-8")
    drawn = PageFigure("deltas", svg, STRINGS.pair("caption.deltas", baseline=NASTY))
    text = suite_page(found, tables(found), [drawn], [], ["a&b"], "both")
    reader = read_page(text)
    assert reader.tags.count("script") == 2
    assert not {"b", "i"} & set(reader.tags)
    assert not [link for link in reader.links if re.match(r"(https?:)?//", link)]
    assert reader.tags.count("svg") == 1
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    data = json.loads(reader.scripts[0])
    assert NASTY in {t["variant"] for t in data}
    assert "&lt;script&gt;" in markdown(tables(found)[0], "en")


def test_korean_alone(tmp_path):
    found = results_of(tmp_path, cases.records(seeds=2))
    text = suite_page(found, tables(found), [], [], [], "ko")
    assert '<html lang="ko">' in text
    assert "규칙이 도움이 된다." in text
    assert "Rules help." not in text
    for table in tables(found):
        for made in (text, markdown_section(table, "ko"), latex(table, "ko")):
            assert table.title[1] in made
            assert table.title[0] not in made
            assert STRINGS["column.variant"][1] in made
        assert "kotex" in latex(table, "ko")
    assert "판정" in methods(found, "ko")


def test_without_a_baseline(tmp_path):
    records = cases.records(tasks=("distinct",)) + [
        cases.record("fewshot-digits", v, s) for v in ("ascender", "only-sep") for s in range(3)
    ]
    found = results_of(tmp_path, records)
    assert any(
        "fewshot-digits: the baseline vanilla has no finished trial" in r[0]
        for r in found.remarks()
    )
    verdicts = {row[1].text: row[-1].value for row in tables(found)[0].rows
                if row[0].text == "fewshot-digits"}  # fmt: skip
    assert verdicts == {"ascender": "unjudged", "only-sep": "unjudged"}
    text = suite_page(found, tables(found), [], [], [], "en")
    assert "the baseline vanilla has no finished trial" in text
    assert "not judged" in text


@pytest.mark.slow
def test_without_any_baseline_nothing_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    (tmp_path / "s").mkdir()
    folder = cases.store(tmp_path / "s", cases.records(variants=("ascender", "only-sep"), seeds=2))
    report(folder, tmp_path / "out", draws=DRAWS)
    assert not (tmp_path / "out" / "tables" / "examples.csv").exists()
    assert not (tmp_path / "out" / "figures" / "deltas.svg").exists()
    assert "nothing was compared with the baseline" in (tmp_path / "out" / "index.html").read_text()


def test_one_seed_is_no_verdict(tmp_path):
    found = results_of(tmp_path, cases.records(seeds=1, tasks=("distinct",)))
    rows = tables(found)[0].rows
    assert {row[-1].value for row in rows} == {"baseline", "unjudged"}
    assert {row[5].text for row in rows} == {"–"}
    assert sum("only one seed in common" in r[0] for r in found.remarks()) == 4
    with style():
        assert all(draw(found, labels(STRINGS, "en")) for name, draw in FIGURES.items()
                   if name not in BY_LENGTH)  # fmt: skip


def test_no_rules_no_heads(tmp_path):
    found = results_of(tmp_path, cases.records(variants=("vanilla",), seeds=2))
    say = labels(STRINGS, "en")
    assert found.ruled() is None
    assert head_figures.heads(found, say) is None
    assert head_figures.roles(found, say) is None
    assert curve_figures.omegas(found, say) is None
    assert figures.deltas(found, say) is None


def test_lengths_are_not_mixed(tmp_path):
    records = [
        cases.record("distinct", v, s, options={"crowd": n}, gain=n / 1000)
        for n in (32, 64) for v in ("vanilla", "only-sep") for s in range(2)
    ]  # fmt: skip
    found = results_of(tmp_path, records)
    assert found.tasks == ["distinct (crowd=32)", "distinct (crowd=64)"]
    assert all(row[4].text == "2" for row in tables(found)[0].rows)
    assert found.goal("distinct (crowd=64)") == 0.9
    with style():
        axis = length_figures.length(found, labels(STRINGS, "en")).axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["32", "64"]
    assert axis.get_lines()[0].get_xdata().tolist() == [32, 64]
    line = axis.get_lines()[0].get_ydata()
    means = [
        statistics.mean(r["test"]["value"] for r in records
                        if r["run"]["options"]["crowd"] == n and r["run"]["variant"] == "vanilla")
        for n in (32, 64)
    ]  # fmt: skip
    assert list(line) == pytest.approx(means)


@pytest.mark.parametrize("floor", [0.49, 5.0, -4.0])
def test_a_far_floor_does_not_press_the_frontier_together(tmp_path, floor):
    records = [{**r, "chance": floor} for r in cases.records(tasks=("distinct",), seeds=2)]
    with style():
        axes = figures.pareto(results_of(tmp_path, records), labels(STRINGS, "en")).axes
    low, high = axes[0].get_ylim()
    assert (low <= floor <= high) == (floor == 0.49)
    said = [axis.get_title(loc="right") for axis in axes]  # above the panels, over no point
    assert said == ["", "", {0.49: "", 5.0: "chance 5 ↑", -4.0: "chance -4 ↓"}[floor]]


def test_records_from_before_are_read_as_todays(tmp_path):
    """Older records count layers from 1 and say near and hidden; a suite may have both."""
    mixed = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"))
    once = {"neighbours": "near", "states": "hidden"}
    before = head_figures.measured(results_of(tmp_path / "a", mixed))[1].groups()
    for r in mixed:
        if r["run"]["seed"] == 1:
            r["insight"] = json.loads(json.dumps(r["insight"]))
            for g in r["insight"]["grouping"]:
                g |= {"of": once.get(g["of"], g["of"]), "layer": g["layer"] + 1}
    after = head_figures.measured(results_of(tmp_path / "b", mixed))[1].groups()
    assert after == before
    assert ("neighbours", 0) in after


def test_figure_four_shows_matched_heads(tmp_path):
    """Heads of a seed in another order change nothing; heads that are not matched would."""
    shuffled = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"))
    before = head_figures.measured(results_of(tmp_path / "a", shuffled))[1]
    for r in shuffled:
        if r["run"]["variant"] == "ascender" and r["run"]["seed"] == 1:
            f = r["insight"] = json.loads(json.dumps(r["insight"]))
            for layer in range(2):
                for name in ("share", "moved"):
                    f[name][layer] = f[name][layer][1:] + f[name][layer][:1]
                for of in f["omega"].values():
                    of[layer] = of[layer][1:] + of[layer][:1]
    after = head_figures.measured(results_of(tmp_path / "b", shuffled))[1]
    for rule in ("align", "sep", "coh"):
        np.testing.assert_allclose(before.omega(rule), after.omega(rule))
        np.testing.assert_allclose(before.moved(rule), after.moved(rule))
    plain = [np.mean([f["omega"]["sep"] for f in m.measurements], 0) for m in (before, after)]
    assert not np.allclose(*plain)
