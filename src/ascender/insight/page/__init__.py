"""One self-contained page of a model's attention, taken apart.

view(model, tokenizer, "Once upon a time").save("page.html")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascender.insight.page.build import Page, page
from ascender.insight.page.collect import collect_page_data
from ascender.insight.page.inputs import of_text
from ascender.insight.page.pack import Blobs

__all__ = ["Page", "view"]


def view(
    model: Any, tokenizer: Any, text: str, out: str | Path | None = None, *,
    name: str | None = None, max_tokens: int = 512, first: int | None = None, lang: str = "en",
) -> Page:  # fmt: skip
    """The page of one text, or of its first tokens; a notebook shows it. `out`: also write it
    there. More than `max_tokens` are pooled in blocks."""
    if max_tokens < 2:
        raise ValueError(f"max_tokens = {max_tokens}; expected at least 2")
    blobs = Blobs()
    name = type(model).__name__ if name is None else name
    seen = collect_page_data(
        name, model, tokenizer, of_text(model, tokenizer, text, first), blobs, max_tokens
    )
    made = page([seen], blobs, lang)
    if out is not None:
        made.save(out)
    return made
