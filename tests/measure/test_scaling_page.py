"""docs/scaling.md: its formulas evaluated, its tables as the code writes them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ascender.measure import scaling, scaling_tables
from ascender.measure.scaling import MODELS
from support.scaling_cases import FLOCK, SMALL, N

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def test_the_formulas_of_the_page():
    """The table under "Assumptions", evaluated: dense, without rules, with rules."""
    rows = re.findall(
        r"^\| [^|]+ \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", PAGE.read_text("utf-8"), re.M
    )
    m, few = SMALL, replace(FLOCK, n_global=2, rules=False, term=False, affinity_heads=2, spaces=3)
    full = replace(few, rules=True, term=True)
    letters = {
        "N": N, "M": N, "H": m.heads, "G": m.kv_heads, "d": m.head_dim, "D": m.dim,
        "d_a": few.d_a, "A": 2, "d_z": few.d_z, "Z": 3, "w": few.window, "g": 2,
        "L": few.size, "S": scaling.flock_pairs(N, few),
    }  # fmt: skip
    got = [[eval(cell, {}, letters) for cell in row] for row in rows]
    prompt, one = (
        [(of(m, f, N)["dense"], of(m, f, N)["index"] + of(m, f, N)["listed"]) for f in (few, full)]
        for of in (scaling.prefill_flops, scaling.decode_flops)
    )
    maps = [scaling.map_flops(m, f) for f in (few, full)]
    numbers = [scaling.cache_numbers(m, f) for f in (None, few, full)]
    reads = [scaling.decode_reads(m, f, N) for f in (None, few, full)]
    want = [
        [N * prompt[0][0], *(N * (f - t) for (_, f), t in zip(prompt, maps, strict=True))],
        [one[0][0], *(f - t for (_, f), t in zip(one, maps, strict=True))],
        [0, *maps], numbers, reads,
    ]  # fmt: skip
    assert [[a, b, b + c] for a, b, c in got] == [pytest.approx(row) for row in want]


def test_what_the_page_says_of_the_stored_rows():
    text = PAGE.with_suffix("").joinpath("rows.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(row["model"] < row["random"] for row in rows)
    without, full = (
        min(scaling.break_even(m, f) for m in MODELS)
        for f in (scaling_tables.FLOCK, scaling_tables.RULES)
    )
    assert full < max(row["model"] for row in rows) < without


def test_the_page_is_what_the_code_writes():
    assert scaling_tables.page(PAGE) == PAGE.read_text(encoding="utf-8")


def test_another_number_is_noticed(tmp_path):
    changed, rows = tmp_path / "scaling.md", tmp_path / "scaling" / "rows.jsonl"
    rows.parent.mkdir()
    rows.write_text(PAGE.with_suffix("").joinpath("rows.jsonl").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    changed.write_text(text.replace("134,515,008", "134,515,009"), encoding="utf-8")
    assert scaling_tables.page(changed) == text
    first, *rest = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    row = json.loads(first)
    rows.write_text("".join([json.dumps({**row, "model": 0.987}) + "\n", *rest]))
    assert scaling_tables.page(changed) != text
