"""Text of a document as LaTeX: every character escaped, styles as macros of the preamble
(latex.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ascender.lab.paper.document import Span, Style, Text
from ascender.report.table import latex_text

BREAKS = re.compile(r"(?<=\w)([+=/:]|\\_|[,.-](?!\d))(?=\w)")  # after these a name may be broken
BREAK = r"\allowbreak{}"
KEPT = {"--": "-{}-", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}"}
LIGATURES = re.compile('(--|["`])')


def inline(text: Text, lang: str) -> str:
    """A sentence.

    >>> from ascender.lab.paper.document import text
    >>> print(inline(text("50% of $x_1$ in `a/b` [@vaswani2017], Table [#tab:x]"), "en"))
    50\\% of $x_1$ in \\code{a/\\allowbreak{}b} \\citep{vaswani2017}, Table~\\ref{tab:x}
    """
    spans = text.spans(lang)
    said = "".join(STYLES[span.style](span) for span in spans)
    return said.replace(r" \ref{", r"~\ref{")


def plain(text: str, breaks: bool = True) -> str:
    """Characters as they are; `breaks`: a long name may be broken where it has signs.

    >>> print(plain("a_b+c"), plain("50%", breaks=False))
    a\\_\\allowbreak{}b+\\allowbreak{}c 50\\%
    >>> print(plain('run --out "x"'))
    run -{}-out \\textquotedbl{}x\\textquotedbl{}
    """
    pieces = LIGATURES.split(text)  # signs that TeX would make others of, at the odd places
    said = "".join(KEPT[x] if i % 2 else latex_text(x) for i, x in enumerate(pieces))
    return BREAKS.sub(lambda match: match[1] + BREAK, said) if breaks else said


def _words(span: Span) -> str:
    return plain(span.text, breaks=span.cell is not None and not any(span.cell.data))


def _cite(span: Span) -> str:
    keys = (key.strip().lstrip("@") for key in span.text.split(";"))
    return rf"\citep{{{','.join(keys)}}}"


STYLES: Mapping[Style, Callable[[Span], str]] = {
    "words": _words,
    "math": lambda span: f"${span.text}$",
    "code": lambda span: rf"\code{{{plain(span.text)}}}",
    "strong": lambda span: rf"\textbf{{{plain(span.text, breaks=False)}}}",
    "cite": _cite,
    "ref": lambda span: rf"\ref{{{span.text}}}",
    "verdict": lambda span: rf"\verdict{{{plain(span.text, breaks=False)}}}",
}
