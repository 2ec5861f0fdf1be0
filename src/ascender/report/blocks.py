"""Marked blocks of documents: what a command writes between two comments.

    <!-- lab: accuracy summary -->
    … replaced by the command, whatever stood here …
    <!-- /lab -->

Everything outside the marks is written by hand and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path


def _pattern(kind: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {kind}: (.+?) -->\n)(.*?)(<!-- /{kind} -->)", re.DOTALL)


def block_names(text: str, kind: str) -> list[str]:
    """The names of a document's blocks of one kind, in order.

    >>> block_names("<!-- lab: quick accuracy -->\\n<!-- /lab -->", "lab")
    ['quick accuracy']
    """
    return [mark[2] for mark in _pattern(kind).finditer(text)]


def fill_blocks(text: str, kind: str, content: Callable[[str], str | None]) -> str:
    """The document with each block's content replaced; None leaves a block as it is."""

    def replacement(mark: re.Match[str]) -> str:
        new = content(mark[2])
        return mark[0] if new is None else f"{mark[1]}{new.rstrip()}\n{mark[4]}"

    return _pattern(kind).sub(replacement, text)


def fill_document(
    path: Path, kind: str, contents: Mapping[str, str], others: Callable[[str], bool] | None = None
) -> str:
    """The text of a document with its blocks up to date. A block that `contents` lacks is an error
    unless `others` says that it belongs to another report; so is a document without any block."""
    text = path.read_text(encoding="utf-8")
    names = [name for name in block_names(text, kind) if others is None or not others(name)]
    missing = [name for name in names if name not in contents]
    if missing or not names:
        asks = ", ".join(missing) or f"nothing (no line <!-- {kind}: NAME -->)"
        expected = f"one of {', '.join(contents)}" if contents else "at least one block"
        raise ValueError(f"{path} asks for {asks}; expected {expected}")
    return fill_blocks(text, kind, contents.get)
