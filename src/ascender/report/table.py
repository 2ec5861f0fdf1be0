"""One table for every report, and its formats: Markdown, CSV, LaTeX (booktabs).

HTML is written by the page's template (page.html.j2), the terminal's form by terminal.py.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ascender.report.strings import Pair, in_language


class Column(NamedTuple):
    """A column: its name in CSV, its heading, whether it holds words (aligned left), and whether
    its cells name the row."""

    name: str
    heading: Pair
    words: bool = False
    names_row: bool = False


@dataclass(frozen=True)
class Cell:
    """One cell.

    text   as it is read
    keys   of the trials behind it
    data   the numbers in full, for CSV
    ko     as it is read in Korean, where that differs
    code   what a program reads where the text is translated, such as a verdict's name
    """

    text: str
    keys: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    ko: str = ""
    code: str = ""

    @property
    def value(self) -> str:
        """The code, or the text where there is none."""
        return self.code or self.text

    @property
    def pair(self) -> Pair:
        return self.text, self.ko or self.text


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, with a title and notes in both languages."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: Pair = ("", "")
    notes: tuple[Pair, ...] = ()

    @classmethod
    def of_text(
        cls, name: str, headings: Sequence[str], rows: Iterable[Sequence[str]],
        title: Pair = ("", ""), notes: Sequence[str] = (),
    ) -> Table:  # fmt: skip
        """A table of English text whose first column names the rows."""
        columns = tuple(Column(h, (h, h), i == 0, i == 0) for i, h in enumerate(headings))
        cells = tuple(tuple(Cell(text) for text in row) for row in rows)
        return cls(name, columns, cells, title, tuple((note, note) for note in notes))

    def index(self, column: str) -> int:
        return [c.name for c in self.columns].index(column)

    def column(self, name: str) -> list[Cell]:
        at = self.index(name)
        return [row[at] for row in self.rows]

    def records(self) -> list[dict[str, Cell]]:
        """The rows, each by column name."""
        names = [c.name for c in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def headings(self, lang: str) -> list[str]:
        return [in_language(c.heading, lang) for c in self.columns]

    def texts(self, lang: str) -> list[list[str]]:
        return [[in_language(cell.pair, lang) for cell in row] for row in self.rows]


def markdown(table: Table, lang: str = "en") -> str:
    """The grid, then the notes, without a heading."""
    lines = [table.headings(lang), *table.texts(lang)]
    rows = [[markdown_text(text) for text in line] for line in lines]
    rows.insert(1, ["---" if c.words else "---:" for c in table.columns])
    grid = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    notes = [markdown_text(in_language(note, lang)) for note in table.notes]
    return grid + "".join(f"\n{note}\n" for note in notes)


def markdown_section(table: Table, lang: str = "en") -> str:
    """The same under its title."""
    return f"## {in_language(table.title, lang)}\n\n{markdown(table, lang)}"


def markdown_text(text: str) -> str:
    text = html.escape(text, quote=False)
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", text).replace("\n", " ")


def as_csv(table: Table) -> str:
    """Numbers in full, a column each, named in English whatever the language; the trials last."""
    parts = {
        c.name: list(dict.fromkeys(k for row in table.rows for k in row[i].data))
        for i, c in enumerate(table.columns)
    }
    head = [f"{name}_{k}" if k else name for name, keys in parts.items() for k in keys or [""]]
    lines = []
    for row in table.rows:
        line = []
        for c, cell in zip(table.columns, row, strict=True):
            keys = parts[c.name]
            values = [cell.data.get(k) for k in keys] if keys else [cell.value]
            line += ["" if v is None else v for v in values]
        trials = dict.fromkeys(key for cell in row for key in cell.keys)
        lines.append([*line, " ".join(trials)])
    return csv_text([*head, "trials"], lines)


def csv_text(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return out.getvalue()


LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "−": r"$-$", "×": r"$\times$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "Δ": r"$\Delta$",
    "ε": r"$\varepsilon$", "η": r"$\eta$", "θ": r"$\theta$", "κ": r"$\kappa$",
    "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "φ": r"$\varphi$", "ω": r"$\omega$", "→": r"$\to$", "∈": r"$\in$", "≈": r"$\approx$",
    "√": r"$\surd$", "‖": r"$\Vert$", "∞": r"$\infty$", "²": r"$^2$",
    "–": "--", "—": "---", "…": r"\ldots{}",
    "“": "``", "”": "''", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\n": " ",
    "[": "{[}", "]": "{]}", "·": r"$\cdot$", "≥": r"$\geq$", "≤": r"$\leq$",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Text with every special character escaped.

    >>> latex_text("50% of a_b & c")
    '50\\\\% of a\\\\_b \\\\& c'
    """
    return "".join(LATEX.get(sign, sign) for sign in text)


def latex(table: Table, lang: str = "en") -> str:
    r"""A table* of booktabs rules; needs \usepackage{booktabs}, and kotex where it is Korean."""
    needs = r"\usepackage{booktabs,graphicx}" + (r", \usepackage{kotex}" if lang == "ko" else "")
    align = "".join("l" if c.words else "r" for c in table.columns)
    lines: list[str] = []
    previous = None
    for row, texts in zip(table.rows, table.texts(lang), strict=True):
        if previous not in (None, row[0].text):
            lines.append(r"\midrule")
        previous = row[0].text
        lines.append(" & ".join(latex_text(text) for text in texts) + r" \\")
    head = " & ".join(latex_text(text) for text in table.headings(lang)) + r" \\"
    notes = " ".join(in_language(note, lang) for note in table.notes)
    caption = latex_text(f"{in_language(table.title, lang)}. {notes}")
    return "\n".join([
        f"% needs {needs}", r"\begin{table*}[t]", r"\centering\small", rf"\caption{{{caption}}}",
        rf"\label{{tab:{table.name}}}", r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule",
        r"\end{tabular}}", r"\end{table*}", "",
    ])  # fmt: skip
