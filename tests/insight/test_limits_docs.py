"""Limits of normalisation: the tables in the documents are those of the stored rows."""

import json
from pathlib import Path

import pytest

from ascender.insight.limits.tables import fill_tables, over_seeds
from ascender.report.blocks import block_names

pytest.importorskip("entmax")

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("unchecked_module")


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
