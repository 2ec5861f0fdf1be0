"""One colour a rule and one a variant, whatever else a figure shows."""

import json
from pathlib import Path

import ascender
from ascender import demo
from ascender.core.rules import RULES
from ascender.lab.reports import curve_figures, head_figures
from ascender.lab.store import PACKED, read_packed
from ascender.report import palette

SOURCE = Path(ascender.__file__).parent
RESULTS = Path(__file__).parents[2] / "results"


def test_every_rule_has_its_colour_everywhere():
    assert tuple(palette.RULES) == RULES
    assert curve_figures.RULE_COLOURS is palette.RULES
    assert head_figures.COLOURS is demo.COLOURS is palette.TERMS
    assert len(set(palette.TERMS.values())) == len(palette.TERMS)
    for rule in RULES:
        assert (
            palette.line_style(f"only-{rule}").colour == palette.TERMS[rule] == palette.RULES[rule]
        )


def test_no_other_file_has_a_rules_colour():
    """The page gets them from here (a browser test sees them drawn)."""
    for path in (*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *SOURCE.rglob("*.css")):
        if path.name != "palette.py":
            text = path.read_text("utf-8").lower()
            assert not [c for c in palette.RULES.values() if c.lower() in text], path


def test_a_variants_colour_does_not_depend_on_the_others():
    alone = palette.line_styles(["ascender"])["ascender"].colour
    for others in (["vanilla"], ["no-rules", "shuffled"], [f"v{i}" for i in range(30)]):
        assert palette.line_styles([*others, "ascender"])["ascender"].colour == alone
    assert palette.line_style("vanilla").colour == "#000000"
    assert palette.line_style("nobody has heard of it") == palette.line_style(
        "nobody has heard of it"
    )


def test_variants_of_a_suite_are_told_apart():
    trials = read_packed(RESULTS / PACKED)
    found = sorted(RESULTS.glob("*/suite.json"))
    assert found
    for sheet in found:
        keys = [key for key in json.loads(sheet.read_text("utf-8"))["trials"] if key in trials]
        assert keys, f"{sheet} has no finished trial"
        names = list(dict.fromkeys(trials[key]["run"]["variant"] for key in keys))
        looks = palette.line_styles(names)
        assert len({(x.mark, str(x.line)) for x in looks.values()}) == len(names)
        plain = [looks[name].colour for name in names if name in palette.VARIANTS]
        assert len(set(plain)) == len(plain)
