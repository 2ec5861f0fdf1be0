"""The author's sentences beside what the measurements say: a verdict after each, a table of all
that make a claim, and a list of those that the measurements do not support."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ascender.lab.paper.author import AuthorText, Sentence
from ascender.lab.paper.author_strings import AUTHOR
from ascender.lab.paper.claims_table import ground
from ascender.lab.paper.document import (
    Block,
    Bullets,
    Heading,
    Paragraph,
    TableBlock,
    Text,
    joined_text,
    text,
    verdict_text,
    words,
)
from ascender.lab.paper.facts import Facts, numerals
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import counted, named
from ascender.lab.paper.summary import Found
from ascender.lab.reports.cells import lab_table, verdict_cell
from ascender.lab.reports.strings import STRINGS
from ascender.report.strings import LANGUAGES, Pair, Strings, joined, listed, same
from ascender.report.table import Cell, Table

ALL = Strings(STRINGS | AUTHOR)
SUPPORTED = "supported"
CAPTION = re.compile(r"captions\.(\w+)")  # of a sentence's place
TABLES = {
    "efficiency": ("draft_layers", "draft_training"),
    "quality": ("draft_quality",),
    "interpretability": ("draft_groups", "draft_rules", "draft_agreement"),
}  # by the name of their caption
FEW = ("2", "3")  # models, rules and the like are counted


def marked(sentences: Iterable[Sentence], found: Found, facts: Facts) -> Text:
    """Sentences one after the other, each with its verdicts and the numbers that no row has."""
    return joined_text(*(_marked(one, found, facts) for one in sentences))


def _marked(one: Sentence, found: Found, facts: Facts) -> Text:
    said = [
        joined(STRINGS.pair(f"verdict.{found[n - 1][1].verdict}"), AUTHOR.pair("claim", n=n))
        for n in one.claims
    ]
    said += _strange(one, found, facts)
    if not said:
        return one.text
    return joined_text(one.text, verdict_text(joined(*said, joint="; ")))


def _strange(one: Sentence, found: Found, facts: Facts) -> list[Pair]:
    """That numbers of a sentence are nowhere, where they are."""
    if not (strange := unknown_numbers(one, found, facts)):
        return []
    return [AUTHOR.pair("no_result" if one.claims else "not_shown", numbers=", ".join(strange))]


def unknown_numbers(one: Sentence, found: Found, facts: Facts) -> list[str]:
    """Numbers of a sentence, in either language: of one with a claim those that neither the claim
    nor its result has; of the caption of tables those that are not in them; of another those that
    the paper's own text before the appendix does not print."""
    plain = " ".join(dict.fromkeys(one.text.plain(lang) for lang in LANGUAGES))
    stated = (
        f"{claim.text} {finding.why}" for claim, finding in (found[n - 1] for n in one.claims)
    )
    known = [n.value for text in stated for n in numerals(text)]
    fine: Collection[str] = ()
    if not one.claims:
        known, fine = _shown(one, facts), (*facts.constants, *FEW)
    strange = [n for n in numerals(plain) if not any(n.prints(x) for x in known)]
    return list(dict.fromkeys(n.text for n in strange if n.text not in fine))


def _shown(one: Sentence, facts: Facts) -> list[float]:
    """The values among which the numbers of a sentence without a claim are looked for."""
    caption = CAPTION.match(one.where)
    names = TABLES.get(caption[1], ("",)) if caption else ("",)
    return [x for name in names for x in facts.shown.get(name, ())]


def unsupported(of: Material, own: AuthorText, found: Found) -> list[Sentence]:
    """The sentences whose claim is not supported, or that have an unknown number."""
    return [
        one for one in own.sentences()
        if any(found[n - 1][1].verdict != SUPPORTED for n in one.claims)
        or unknown_numbers(one, found, of.facts)
    ]  # fmt: skip


def author_check(of: Material, own: AuthorText, found: Found) -> list[Block]:
    """The section; nothing where there is no sentence of the author's."""
    sentences = own.sentences()
    if not sentences:
        return []
    blocks: list[Block] = [Heading(1, _say("heading"), "sec:author")]
    wrong = unsupported(of, own, found)
    claiming = [one for one in sentences if one.claims]
    sizes = {"n": counted(of, len(sentences)), "claiming": counted(of, len(claiming)),
             "wrong": counted(of, len(wrong))}  # fmt: skip
    blocks.append(Paragraph(_say("counts", **sizes)))
    if claiming:
        table = _table(of, claiming, found)
        blocks.append(
            TableBlock(table, authored=("place", "sentence", "own_claim"), marked=("sentence",))
        )
    if wrong:
        blocks += [Heading(2, _say("list"), "sec:unsupported"), *_list(of, wrong, found)]
    else:
        blocks.append(Paragraph(_say("none")))
    return blocks


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(AUTHOR[key], **fields)


def _table(of: Material, sentences: Sequence[Sentence], found: Found) -> Table:
    """A row for each claim of a sentence."""
    rows = []
    for one in sentences:
        for n in one.claims:
            claim, finding = found[n - 1]
            rows.append({
                "place": named(one.where),
                "sentence": Cell(one.pair[0], ko=one.pair[1]),
                "own_claim": Cell(f"{n}. {claim.text}", ko=f"{n}. {claim.text_ko}"),
                "verdict": verdict_cell(finding.verdict),
                "ground": ground(of, claim, finding),
            })  # fmt: skip
    words = ("place", "sentence", "own_claim", "verdict", "ground")
    return lab_table("author", rows, strings=ALL, words=words)


def _list(of: Material, wrong: Sequence[Sentence], found: Found) -> list[Block]:
    """Every sentence with why the measurements do not support it."""
    items = []
    for one in wrong:
        reasons = [
            AUTHOR.pair("is", n=str(n), verdict=STRINGS.pair(f"verdict.{found[n - 1][1].verdict}"))
            for n in one.claims
            if found[n - 1][1].verdict != SUPPORTED
        ]
        reasons += _strange(one, found, of.facts)
        why = words(joined(same(" ("), listed(reasons), same(")")))
        items.append(joined_text(words(same(f"{one.where}: ")), one.text, why, joint=""))
    return [Bullets(tuple(items), author=True)]
