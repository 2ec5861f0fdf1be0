"""A griffe extension: docstrings as this package writes them, as Markdown.

Examples (>>> …) become blocks of code. A list of arguments or fields,

    k        number of neighbours
    window   how many keys on each side

becomes a list. Formulas are indented and are blocks of code in Markdown too.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ENTRY = re.compile(r"^(\S+(?:, \S+)*) {2,}(\S.*)$")


def listed(lines: list[str], column: int) -> list[str]:
    """`name   text` with indented lines below → an item each; the texts start at a column."""
    items: list[str] = []
    for line in lines:
        if line.startswith(" "):
            items[-1] += f" {line.strip()}"
        else:
            items.append(f"- `{line[:column].strip()}`: {line[column:]}")
    return items


def block(text: str) -> str:
    """One paragraph of a docstring."""
    lines = text.split("\n")
    if lines[0].startswith(">>> "):
        return f"```pycon\n{text}\n```"
    column = next((entry.start(2) for entry in map(ENTRY.match, lines) if entry), 0)
    starts = [line for line in lines if not line.startswith(" ")]
    if column and all(line[column - 1 : column] == " " for line in starts):
        return "\n".join(listed(lines, column))
    return text


def as_markdown(text: str) -> str:
    """A docstring as Markdown.

    as_markdown("A sum.\\n\\n>>> 1 + 1\\n2") is "A sum.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```"
    """
    return "\n\n".join(block(part) for part in re.split(r"\n{2,}", text.strip("\n")))


class Examples(Extension):
    """Applied to every object that has a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
