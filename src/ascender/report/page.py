"""One page for every report: a file that needs no network, from page.html.j2 and page.css.

A page is data: a heading, blocks below it, and sections of blocks. Blocks are paragraphs, lists,
links, figures and tables; the template knows each by its class. Everything but the SVG of figures
is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.common.validate import need
from ascender.report.figure import inline_svg
from ascender.report.strings import Pair, in_language, languages
from ascender.report.table import Table

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Paragraph:
    """Text, after a bold label where there is one; `style` is a class of page.css."""

    text: Pair
    style: str = ""
    label: Pair = ("", "")


@dataclass(frozen=True)
class Subheading:
    text: Pair


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Pair, ...]
    style: str = ""


@dataclass(frozen=True)
class Links:
    """A list of links, or with `inline` a line of them."""

    links: tuple[tuple[str, Pair], ...]
    inline: bool = False


@dataclass(frozen=True)
class PageFigure:
    """A figure: its SVG inside the page, and links to its files."""

    name: str
    svg: str
    caption: Pair
    files: tuple[str, ...] = ()


Block = Paragraph | Subheading | Items | Links | PageFigure | Table


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; `folded`: its tables and lists of links open on a click."""

    heading: Pair
    blocks: tuple[Block, ...]
    id: str = ""
    href: str = ""
    folded: bool = False


@dataclass(frozen=True)
class ReportPage:
    """A page; `trials` are what its tables' numbers lead to, `trial_words` the dialog's text."""

    title: str
    heading: Pair
    blocks: tuple[Block, ...]
    sections: tuple[Section, ...]
    above: Pair = ("", "")
    trials: Sequence[Mapping[str, Any]] = ()
    trial_words: Mapping[str, Pair] | None = None


def render(page: ReportPage, lang: str) -> str:
    """The page as HTML, in one language or in both."""
    langs = languages(lang)
    places = {trial["key"]: i for i, trial in enumerate(page.trials)}
    figures: list[str] = []

    def svg(figure: PageFigure) -> str:
        figures.append(figure.name)
        return inline_svg(figure.svg, f"f{len(figures)}", in_language(figure.caption, langs[0]))

    return str(
        environment(HERE, "lab").get_template("page.html.j2").render(
            page=page, langs=langs, svg=svg, pick=in_language,
            places=lambda cell: " ".join(dict.fromkeys(str(places[k]) for k in cell.keys)),
            kind=lambda block: type(block).__name__,
        )
    )  # fmt: skip


def environment(folder: Path, extra: str) -> Any:
    """Jinja with escaping and without undefined names; `extra` is the pip extra that brings it."""
    need("jinja2", extra)
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
