"""A table as a value, and how it is written: Markdown, CSV, LaTeX (booktabs), HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ascender.lab.reports.strings import AXES, COLUMNS, NOTES, TITLES, VERDICTS, pick

OF_MODELS = ("contribution", "roles", "grouping")  # what was measured of trained models

# columns of words: set left
NAMES = ("task", "variant", "metric", "of", "role", "against", "paper_claim", "suite", "ground")


@dataclass(frozen=True)
class Cell:
    """What stands in a place.

    text   as it is read; a verdict's name is translated
    keys   of the trials behind it
    data   the numbers in full, for CSV
    ko     as it is read in Korean, where that differs
    """

    text: str
    keys: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    ko: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns (words.COLUMNS); `name` has a title and a note there."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    baseline: str = ""

    def title(self, lang: str) -> str:
        return TITLES[self.name][lang]

    def note(self, lang: str) -> str:
        return NOTES[self.name][lang].format(baseline=self.baseline)

    def heads(self, lang: str) -> list[str]:
        return [pick(COLUMNS[c], lang, baseline=self.baseline) for c in self.columns]

    def texts(self, lang: str) -> list[list[str]]:
        return [
            [self._said(c, cell, lang) for c, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def _said(self, column: str, cell: Cell, lang: str) -> str:
        if column == "verdict" and cell.text in VERDICTS:
            return pick(VERDICTS[cell.text], lang)
        if self.name in OF_MODELS and column in ("of", "role"):  # in the words of their figures
            return " + ".join(_named(part, lang) for part in cell.text.split("+"))
        return cell.ko if lang == "ko" and cell.ko else cell.text


def _named(part: str, lang: str) -> str:
    pair = AXES.get(part) or AXES.get(f"of_{part}")
    return pick(pair, lang) if pair else part


def markdown(table: Table, lang: str) -> str:
    """With a heading and a note."""
    lines = [table.heads(lang), ["---" if c in NAMES else "---:" for c in table.columns]]
    lines += [[_md(text) for text in row] for row in table.texts(lang)]
    lines[0] = [_md(text) for text in lines[0]]
    grid = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## {table.title(lang)}\n\n{grid}\n\n{_md(table.note(lang))}\n"


def _md(text: str) -> str:
    text = html.escape(text, quote=False)
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", text).replace("\n", " ")


def as_csv(table: Table) -> str:
    """Numbers in full, a column each, named in English whatever the language; the keys last."""
    parts = {
        c: list(dict.fromkeys(k for row in table.rows for k in row[i].data))
        for i, c in enumerate(table.columns)
    }
    head = [f"{c}_{k}" if k else c for c in table.columns for k in parts[c] or [""]]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*head, "trials"])
    for row in table.rows:
        line = []
        for c, cell in zip(table.columns, row, strict=True):
            values = [cell.data.get(k) for k in parts[c]] if parts[c] else [cell.text]
            line += ["" if v is None else v for v in values]
        keys = dict.fromkeys(key for cell in row for key in cell.keys)
        writer.writerow([*line, " ".join(keys)])
    return out.getvalue()


SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "−": r"$-$", "×": r"$\times$",
    "δ": r"$\delta$", "ω": r"$\omega$", "α": r"$\alpha$", "–": "--", "—": "---", "…": r"\ldots{}",
    "“": "``", "”": "''", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\n": " ",
    "[": "{[}", "]": "{]}", "·": r"$\cdot$", "≥": r"$\geq$", "≤": r"$\leq$",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Every sign as TeX prints it.

    >>> latex_text("50% of a_b & c")
    '50\\\\% of a\\\\_b \\\\& c'
    """
    return "".join(SIGNS.get(sign, sign) for sign in text)


def latex(table: Table, lang: str) -> str:
    r"""A table* of booktabs rules; needs \usepackage{booktabs}, and kotex where it is Korean."""
    needs = r"\usepackage{booktabs,graphicx}" + (r", \usepackage{kotex}" if lang == "ko" else "")
    spec = "".join("l" if c in NAMES else "r" for c in table.columns)
    lines, before = [], None
    for row, texts in zip(table.rows, table.texts(lang), strict=True):
        if before not in (None, row[0].text):
            lines.append(r"\midrule")
        before = row[0].text
        lines.append(" & ".join(latex_text(text) for text in texts) + r" \\")
    head = " & ".join(latex_text(text) for text in table.heads(lang)) + r" \\"
    return "\n".join([
        f"% needs {needs}", r"\begin{table*}[t]", r"\centering\small",
        rf"\caption{{{latex_text(table.title(lang) + '. ' + table.note(lang))}}}",
        rf"\label{{tab:{table.name}}}", r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule",
        r"\end{tabular}}", r"\end{table*}", "",
    ])  # fmt: skip


def as_html(table: Table, langs: tuple[str, ...], place: Callable[[str], int]) -> str:
    """Every number a button that carries the places of its trials in the page's list."""
    heads = zip(*(table.heads(lang) for lang in langs), strict=True)
    top = "".join(f"<th{_side(c)}>{_both(h, langs)}</th>"
                  for c, h in zip(table.columns, heads, strict=True))  # fmt: skip
    body = []
    both = zip(*(table.texts(lang) for lang in langs), strict=True)
    before = None
    for row, texts in zip(table.rows, both, strict=True):
        cells = []
        for c, cell, said in zip(table.columns, row, zip(*texts, strict=True), strict=True):
            inner = _both(said, langs, " · ")
            if cell.keys and cell.text:
                at = " ".join(str(place(key)) for key in cell.keys)
                mark = f" v-{cell.text}" if c == "verdict" and cell.text in VERDICTS else ""
                inner = f'<button type="button" class="n{mark}" data-t="{at}">{inner}</button>'
            tag = 'th scope="row"' if c in NAMES[:2] else "td"
            cells.append(f"<{tag}{_side(c)}>{inner}</{tag.split()[0]}>")
        start = ' class="first"' if before not in (None, row[0].text) else ""
        before = row[0].text
        body.append(f"<tr{start}>{''.join(cells)}</tr>")
    rows = "\n".join(body)
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"


def _side(column: str) -> str:
    return ' class="l"' if column in NAMES else ""


def _both(texts: tuple[str, ...], langs: tuple[str, ...], joint: str = "<br>") -> str:
    """A text, or two where they differ."""
    once = dict(zip(texts, langs, strict=True)) if len(set(texts)) > 1 else {texts[0]: ""}
    spans = [
        f'<span lang="{lang}">{html.escape(text)}</span>' if lang else html.escape(text)
        for text, lang in once.items()
    ]
    return joint.join(spans)
