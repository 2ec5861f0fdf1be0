"""Which numbers a paper may print: those of the rows, of their settings, of the decision rules,
and constants of the method. Any other number is an error of the build.

    a Cell with data          each number in its text is one of its values, rounded as printed; its
                              trials are in the rows, or its values in the records or derived
    a Cell with trials only   counts of these trials
    a Cell without either     a name or a setting that the records or the criteria hold
    digits in a sentence      a constant of the method
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from ascender.common.files import reason
from ascender.lab.paper.document import (
    Block,
    Bullets,
    Formula,
    Paragraph,
    Quote,
    Span,
    TableBlock,
    texts_of,
)
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import costs as layer_costs
from ascender.report.strings import LANGUAGES, in_language
from ascender.report.table import Cell, Table

LARGE = ("key", "curve", "scores", "insight", "maps")  # of a record: not settings
# A numeral: not within a word such as z2, and with the unit that scales it.
NUMERAL = re.compile(
    r"(?<![\w.,])(?P<sign>[−+-]?)(?P<digits>\d[\d,]*(?:\.\d+)?(?:e[+−-]?\d{1,2}(?!\w))?)(?P<unit>[kMGT%]?)"
)
SCRIPT = re.compile(r"[\^_]\{?\d\}?")  # of mathematics: a square, an index
POWER = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "%": 0.01}


@dataclass(frozen=True)
class Numeral:
    """A number as it is printed, its value, and half of its last place."""

    text: str
    value: float
    half: float

    def prints(self, x: float) -> bool:
        """Whether x is rounded to it; the sign may stand in the words around it."""
        slack = self.half * (1 + 1e-9) + 1e-12 * abs(x)
        return min(abs(self.value - x), abs(abs(self.value) - abs(x))) <= slack


def numerals(text: str) -> list[Numeral]:
    """The numbers in a text.

    >>> [(n.text, n.value) for n in numerals("+0.0065 of sst2, 1,024 and 1.2M (−21%)")]
    [('+0.0065', 0.0065), ('1,024', 1024.0), ('1.2M', 1200000.0), ('−21%', -0.21)]
    """
    found = []
    for match in NUMERAL.finditer(text):
        digits = match["digits"].rstrip(",").replace(",", "").replace("−", "-")
        mantissa, _, exponent = digits.partition("e")
        places = len(mantissa.partition(".")[2])
        power = POWER[match["unit"]] * 10.0 ** int(exponent or 0)
        sign = -1.0 if match["sign"] in ("−", "-") and match["sign"] else 1.0
        value = sign * float(mantissa) * power
        found.append(Numeral(match[0].rstrip(","), value, 0.5 * power * 10.0**-places))
    return found


@dataclass
class Facts:
    """Everything that the build knows, and a list of what was printed.

    trials      keys of the rows
    names       texts of the records and criteria, for names and settings
    constants   of the method: what is printed → where it is from
    shown       values that our own sentences and tables print: by table, and of all as ""
    """

    trials: frozenset[str] = frozenset()
    names: str = ""
    constants: dict[str, str] = field(default_factory=dict)
    shown: dict[str, tuple[float, ...]] = field(default_factory=dict)
    _values: list[float] = field(default_factory=list)
    _exact: set[float] = field(default_factory=set)

    @classmethod
    def of(
        cls, suites: Mapping[str, SuiteResults], claims: Sequence[Any] = (), more: Any = None
    ) -> Facts:
        """Of the suites' records, rules, costs and the claims; `more`: any JSON beside them."""
        records = [r for results in suites.values() for r in results.source.records]
        small = [{k: v for k, v in r.items() if k not in LARGE} for r in records]
        for one in small:
            one["test"] = {k: v for k, v in one["test"].items() if k != "scores"}
        sheets = [{**asdict(results.sheet), "trials": ()} for results in suites.values()]
        costs = [
            cell.data for results in suites.values() for cell in cells_of(layer_costs(results))
        ]
        costed = [c.variant for results in suites.values() for c in results.source.costs]
        tasks = [results.tasks for results in suites.values()]
        facts = cls(frozenset(r["key"] for r in records), constants=method_constants())
        facts.learn(
            [small, sheets, costs, costed, tasks, [asdict(claim) for claim in claims], more]
        )
        return facts

    def learn(self, content: Any) -> None:
        """Names and numbers of JSON-like content: records, settings, criteria, a file."""
        texts: set[str] = set()
        values: set[float] = set()
        for leaf in _leaves(content):
            if isinstance(leaf, str):
                texts.add(leaf)
                values.update(n.value for n in numerals(leaf))
            elif isinstance(leaf, int | float) and not isinstance(leaf, bool) and isfinite(leaf):
                values.add(float(leaf))
        self.names = "\n".join([self.names, *sorted(texts)])
        self._exact |= values
        self._values = sorted(self._exact)

    def derive(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Numbers computed from what is known, such as a ratio of two costs: they may be printed.
        Returns them, for the data of a Cell."""
        self.learn(list(values.values()))
        return values

    def constant(self, text: str, source: str) -> None:
        """A number of the method that sentences may have, and the code it is from."""
        self.constants[text] = source

    def knows(self, value: float) -> bool:
        at = bisect_left(self._values, value - 1e-9 * abs(value))
        return at < len(self._values) and abs(self._values[at] - value) <= 1e-9 * abs(value)

    def known_name(self, text: str) -> bool:
        """Whether a text is one of the records' or criteria's, or its numbers are settings."""
        return text in self.names or all(self.has(n) for n in numerals(text))

    def has(self, n: Numeral) -> bool:
        """Whether some known value is printed so, of either sign."""
        for value in (n.value, -n.value):
            at = bisect_left(self._values, value - n.half * (1 + 1e-9))
            if at < len(self._values) and n.prints(self._values[at]):
                return True
        return n.text in self.constants


def method_constants() -> dict[str, str]:
    """What sentences about the method say in digits, from the code that has it."""
    from ascender.insight import roles
    from ascender.lab import stats

    return {
        "0": "the number nought", "1": "the number one",
        f"{stats.LEVEL:.0%}": "lab.stats.LEVEL",
        f"{roles.STRUCTURE:g}": "insight.roles.STRUCTURE",
        f"{roles.NAMED:.0%}": "insight.roles.NAMED",
        f"{roles.DRAWS:,}": "insight.roles.DRAWS",
    }  # fmt: skip


def cells_of(table: Table) -> list[Cell]:
    return [cell for row in table.rows for cell in row]


def _leaves(content: Any) -> Iterator[Any]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _leaves(name)
            yield from _leaves(value)
    elif isinstance(content, list | tuple | set | frozenset):
        for one in content:
            yield from _leaves(one)
    elif content is not None:
        yield content


class Unknown(ValueError):
    """A number that is not in the rows."""


def problem(cell: Cell, text: str, facts: Facts) -> str:
    """Why a cell may not be printed; "" where it may."""
    there = numerals(text)
    stray = [key for key in cell.keys if key not in facts.trials]
    if stray:
        return f"its trial {stray[0]} is not in the rows"
    if not there:
        return ""
    values = [float(x) for x in cell.data.values() if isinstance(x, int | float)]
    if values:
        wrong = [n.text for n in there if not any(n.prints(x) for x in values)]
        if wrong and not facts.known_name(text):
            return f"{wrong[0]} is none of its values {values}"
        if not cell.keys and not all(facts.knows(x) for x in values):
            unknown = next(x for x in values if not facts.knows(x))
            return f"{unknown} has no trials and is not in the records or criteria"
        return ""
    if cell.keys or facts.known_name(text):
        return ""
    return "no row, setting or criterion has it"


def shown(blocks: Iterable[Block]) -> dict[str, tuple[float, ...]]:
    """The values that blocks print as numbers of the rows, by table, and of all blocks as ""."""
    found: dict[str, set[float]] = {"": set()}
    for block in blocks:
        name = block.table.name if isinstance(block, TableBlock) else ""
        for _, text, cell in printed(block, LANGUAGES[0]):
            if cell is not None and (cell.data or cell.keys):
                values = {float(x) for x in cell.data.values() if isinstance(x, int | float)}
                values |= set() if values else {n.value for n in numerals(text)}
                found.setdefault(name, set()).update(values)
                found[""] |= values
    return {name: tuple(sorted(values)) for name, values in found.items()}


def check(blocks: Iterable[Block], facts: Facts, lang: str) -> None:
    """Unknown where a block prints a number that is not in the rows, the records or the method."""
    for block in blocks:
        for where, text, cell in printed(block, lang):
            if cell is not None:
                why = problem(cell, text, facts)
            else:
                strange = [n.text for n in numerals(text) if n.text not in facts.constants]
                why = f"{strange[0]} is no constant of the method" if strange else ""
            if why:
                raise Unknown(
                    f"{where} has {reason(text, 80)!r}: {why}; expected numbers of the stored "
                    "trials only"
                )


def printed(block: Block, lang: str) -> Iterator[tuple[str, str, Cell | None]]:
    """(where, text, cell) of everything in a block but the author's own words; words that stand
    side by side are one text."""
    if isinstance(block, Paragraph | Quote | Bullets) and block.author:
        return
    if isinstance(block, Formula):
        yield "a formula", SCRIPT.sub("", block.latex), None
    for sentence in texts_of(block):
        where = f"the sentence “{sentence.plain(lang)[:60]}…”"
        for span in merged(sentence.spans(lang)):
            if span.style not in ("cite", "ref"):
                plain = SCRIPT.sub("", span.text) if span.style == "math" else span.text
                yield where, plain, span.cell
    if isinstance(block, TableBlock):
        for row in block.table.rows:
            for column, cell in zip(block.table.columns, row, strict=True):
                if column.name not in block.authored:
                    where = f"table {block.table.name}, column {column.name}"
                    yield where, in_language(cell.pair, lang), cell
        for column in block.table.columns:
            yield f"table {block.table.name}, heading", in_language(column.heading, lang), None


def merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one style that print no cell, put together."""
    out: list[Span] = []
    for span in spans:
        last = out[-1] if out else None
        if last and last.cell is None and span.cell is None and last.style == span.style:
            out[-1] = Span(last.text + span.text, last.style)
        else:
            out.append(span)
    return out


def rows_of_numbers(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Every printed number: where, as printed, its values in full and its trials."""
    rows = []
    for block in blocks:
        for where, text, cell in printed(block, LANGUAGES[0]):
            if cell is not None and numerals(text) and (cell.data or cell.keys):
                rows.append({
                    "where": where, "printed": text,
                    "values": json.dumps(dict(cell.data), ensure_ascii=False),
                    "trials": " ".join(cell.keys),
                })  # fmt: skip
    return rows
