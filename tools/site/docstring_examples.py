"""A griffe extension: docstrings as this package writes them, as Markdown.

Examples (>>> …) become blocks of code. A list of arguments or fields,

    k        number of neighbours
    window   how many keys on each side

becomes a list. Formulas are indented and are blocks of code in Markdown too. The settings of a run
have their help texts as such a list, and plain defaults in the signature.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import ExprCall, Extension, Function, Object, Parameter

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
    """Applied to every object that has a docstring, and to the settings of a run."""

    def __init__(self) -> None:
        self.help: dict[int, str] = {}  # by parameter: a derived class shares those of its base

    def default_alone(self, parameter: Parameter) -> None:
        """Of a field `setting(default, help)`: the default; the help is kept."""
        call = parameter.default
        if isinstance(call, ExprCall) and str(call.function) == "setting":
            default, text = call.arguments[:2]
            parameter.default = None if str(default) == "REQUIRED" else default
            self.help[id(parameter)] = ast.literal_eval(str(text))

    def on_function(self, *, func: Function, **_: Any) -> None:
        if func.name != "__init__" or func.parent is None or func.parent.docstring is None:
            return
        for parameter in func.parameters:
            self.default_alone(parameter)
        items = [f"- `{p.name}`: {self.help[id(p)]}" for p in func.parameters if id(p) in self.help]
        func.parent.docstring.value += "\n\n" + "\n".join(items) if items else ""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
