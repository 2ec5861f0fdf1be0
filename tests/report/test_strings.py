"""Every string in both languages, with the same fields."""

import re

import pytest

from ascender.insight.limits.strings import STRINGS as LIMITS
from ascender.insight.page.strings import STRINGS as VIEW
from ascender.lab.reports.strings import STRINGS as LAB
from ascender.report.strings import Strings, joined, languages

KOREAN = re.compile("[가-힣]")
PROSE = ("title", "note", "caption", "remark", "advice", "opening", "definition")


@pytest.mark.parametrize("strings", [LAB, LIMITS, VIEW], ids=["lab", "limits", "view"])
def test_every_string_has_both_languages(strings):
    for key, (en, ko) in strings.items():
        assert en, key
        assert not KOREAN.search(en), key
        if key.split(".")[0] in PROSE:
            assert KOREAN.search(ko), key
        if not key.startswith("definition."):  # formulas have braces of their own
            assert sorted(re.findall(r"\{\w+\}", en)) == sorted(re.findall(r"\{\w+\}", ko)), key


def test_lookup_fills_fields_and_names_the_nearest_key():
    strings = Strings(
        {"note.won": ("{n} of {of}", "{of} 중 {n}"), "note.set": ("{0, 1}", "{0, 1}")}
    )
    assert strings.text("note.won", "ko", n=2, of=("tasks", "과제")) == "과제 중 2"
    assert strings.text("note.set", "en") == "{0, 1}"
    assert strings.section("note") == {"won": strings["note.won"], "set": strings["note.set"]}
    with pytest.raises(ValueError, match=r"did you mean 'note\.won'"):
        strings.text("note.wn", "en")


def test_languages():
    assert languages("both") == ("en", "ko")
    assert joined(("a", "가"), ("b", "나"), joint=" ") == ("a b", "가 나")
    with pytest.raises(ValueError, match="unknown lang 'fr'; expected one of en, ko, both"):
        languages("fr")
