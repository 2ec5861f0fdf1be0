"""The main body of the paper, in the draft's order: introduction, method with its formula, what was
run, the claims, efficiency, quality, interpretability, length, conclusion, and the checklist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ascender.lab.paper.author import AuthorText
from ascender.lab.paper.author_check import author_check, marked
from ascender.lab.paper.author_strings import AUTHOR
from ascender.lab.paper.body_strings import BODY
from ascender.lab.paper.checklist import checklist
from ascender.lab.paper.claims_table import claims_table
from ascender.lab.paper.document import (
    Block,
    Bullets,
    FigureBlock,
    Formula,
    Heading,
    Paragraph,
    Quote,
    TableBlock,
    Text,
    text,
)
from ascender.lab.paper.draft_tables import (
    agreement,
    contributions,
    groups,
    in_order,
    layer_efficiency,
    quality,
    trial_efficiency,
)
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import between, count, counted, in_a_row, named, records_of
from ascender.lab.paper.paper_figures import NUMBERS
from ascender.lab.paper.summary import Found, abstract, claim_counts, conclusion
from ascender.lab.reports.length_figures import at_lengths
from ascender.report.table import Cell, Table

FORMULA = r"""\begin{aligned}
S_{ij} &= \Bigl(\, q_i \cdot k_j / \sqrt{d}
 + \lambda_a \omega_a \gamma_i \, \tilde r^{\,\mathrm{align}}_{ij}
 + \lambda_s \omega_s \eta_i \, \tilde r^{\,\mathrm{sep}}_{ij}
 + \lambda_c \omega_c \gamma_i \, \tilde r^{\,\mathrm{coh}}_{ij}
 + \beta_{ij} \Bigr) / \tau \\
A_i &= \operatorname{softmax}_{j \in V(i)} S_{ij}
\end{aligned}"""
Drawn = Mapping[str, Sequence[FigureBlock]]
Captions = Mapping[str, Text]


def opening(of: Material, found: Found, own: AuthorText) -> list[Block]:
    """The abstract: the author's, then ours, which is made of the claims that hold."""
    ours = abstract(of, found)
    if not own.abstract:
        return ours
    return [
        Paragraph(marked(own.abstract, found, of.facts), author=True),
        Paragraph(text("**{said}**", said=AUTHOR["ours"])), *ours,
    ]  # fmt: skip


def body(of: Material, found: Found, own: AuthorText, drawn: Drawn) -> list[Block]:
    """Everything between the abstract and the references."""
    captions = {name: marked(said, found, of.facts) for name, said in own.captions.items() if said}
    figures = {name: _figure(drawn[name], name, captions) for name in NUMBERS}
    return [
        *_introduction(of), *_method(), *figures["maps"], *_setup(of),
        Heading(1, _say("results"), "sec:results"), *_claims(of, found),
        *_efficiency(of, captions), *figures["pareto"], *_quality(of, captions), *figures["deltas"],
        *_interpretability(of, captions), *figures["heads"],
        Heading(2, _say("length"), "sec:length"), *_no_lengths(of, drawn), *figures["length"],
        *_conclusion(of, found, own), *author_check(of, own, found), *checklist(of),
    ]  # fmt: skip


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(BODY[key], **fields)


def _introduction(of: Material) -> list[Block]:
    records = records_of(of)
    return [
        Heading(1, _say("introduction"), "sec:introduction"),
        Paragraph(_say("introduction.idea")),
        Paragraph(_say("introduction.this", trials=count(len(records), records))),
    ]


def _method() -> list[Block]:
    rules = tuple(_say(f"method.{rule}") for rule in ("align", "sep", "coh"))
    return [
        Heading(1, _say("method"), "sec:method"),
        Paragraph(_say("method.score")), Formula(FORMULA, "eq:score"),
        Paragraph(_say("method.symbols")), Bullets(rules), Paragraph(_say("method.more")),
    ]  # fmt: skip


def _setup(of: Material) -> list[Block]:
    records = records_of(of)
    tested = records_of(of, tuning=False) or records
    runs = [r["run"] for r in records.values()]
    tasks = list(dict.fromkeys(run["task"] for run in runs))
    seeds = [len(c.records) for results in in_order(of) for c in results.conditions]
    sizes = {
        **{n: between((r["run"][n] for r in tested.values()), tested)
           for n in ("layers", "hidden")},
        **{n: between((r[n] for r in tested.values()), tested) for n in ("parameters", "steps")},
        "seeds": between(seeds, tested),
    }  # fmt: skip
    return [
        Heading(1, _say("setup"), "sec:setup"),
        Paragraph(_say(
            "setup.runs", suites=counted(of, len(of.suites)), tasks=count(len(tasks), records),
            names=in_a_row(tasks), trials=count(len(records), records), **sizes,
        )),
        Paragraph(_say("setup.judged")),
    ]  # fmt: skip


def _claims(of: Material, found: Found) -> list[Block]:
    blocks: list[Block] = [Heading(2, _say("claims"), "sec:claims")]
    if not found:
        return [*blocks, Paragraph(_say("claims.none"))]
    said = _say("claims.said", n=counted(of, len(found)), **claim_counts(of, found))
    return [*blocks, Paragraph(said), TableBlock(claims_table(of, found))]


def _efficiency(of: Material, captions: Captions) -> list[Block]:
    layers, training = layer_efficiency(of), trial_efficiency(of)
    none = [] if layers.rows else [Paragraph(_say("efficiency.no_layers"))]
    return [
        Heading(2, _say("efficiency"), "sec:efficiency"), Paragraph(_say("efficiency.said")),
        *none, *_tables([layers, training], captions.get("efficiency")),
    ]  # fmt: skip


def _quality(of: Material, captions: Captions) -> list[Block]:
    table = quality(of)
    lead = Paragraph(_say("quality.said" if table.rows else "quality.none"))
    shown = _tables([table], captions.get("quality"))
    return [Heading(2, _say("quality"), "sec:quality"), lead, *shown]


def _interpretability(of: Material, captions: Captions) -> list[Block]:
    tables = [groups(of), contributions(of), agreement(of)]
    there = any(table.rows for table in tables)
    lead = Paragraph(_say("interpretability.said" if there else "interpretability.none"))
    shown = _tables(tables, captions.get("interpretability"))
    return [Heading(2, _say("interpretability"), "sec:interpretability"), lead, *shown]


def _no_lengths(of: Material, drawn: Drawn) -> list[Block]:
    """That figure 5 has costs only, where that is so."""
    if not drawn["length"] or any(map(at_lengths, in_order(of))):
        return []
    return [Paragraph(_say("missing.lengths", n=named(NUMBERS["length"])))]


def _conclusion(of: Material, found: Found, own: AuthorText) -> list[Block]:
    theirs: list[Block] = []
    if own.conclusion:
        theirs = [
            Paragraph(marked(own.conclusion, found, of.facts), author=True),
            Paragraph(text("**{said}**", said=AUTHOR["ours"])),
        ]
    return [Heading(1, _say("conclusion"), "sec:conclusion"), *theirs, *conclusion(of, found)]


# --- tables and figures with the author's captions, which are printed without them too


def _tables(tables: Sequence[Table], caption: Text | None) -> list[Block]:
    """Those with rows; the first has the author's caption."""
    there = [table for table in tables if table.rows]
    if caption is not None and not there:
        return [Quote(caption, author=True)]
    return [TableBlock(table, author=None if i else caption) for i, table in enumerate(there)]


def _figure(parts: Sequence[FigureBlock], name: str, captions: Captions) -> list[Block]:
    """A sentence that leads to the figure, or that says why there is none."""
    caption = captions.get(f"figure{NUMBERS[name]}")
    if not parts:
        own = [] if caption is None else [Quote(caption, author=True)]
        return [Paragraph(_say(f"missing.{name}", n=named(NUMBERS[name]))), *own]
    return [Paragraph(_say(f"{name}.why")), replace(parts[0], author=caption), *parts[1:]]
