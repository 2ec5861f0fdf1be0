"""A page to play with: tokens as a flock, a trained model, and why a pair attends.

play(out="flock.html")                              # birds, words, digits, your own CSV
play("folder/of/a/model", text="Once upon a time")  # also every head of a model of your own
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascender.insight.page.build import Page
from ascender.insight.page.pack import Blobs
from ascender.insight.play.build import play_page
from ascender.insight.play.strings import STRINGS

__all__ = ["play"]


def play(
    model: Any = None, tokenizer: Any = None, text: str | None = None,
    out: str | Path | None = None, *, layer: int | None = None, first: int | None = None,
    task: str | None = None, example: int | None = None, data_dir: str | Path | None = None,
    adapter: str | Path | None = None, lang: str = "en", trust_code: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Page:  # fmt: skip
    """The page; a notebook shows it, and `out` also writes it to a file. With a model: also its
    coordinates, headings and terms while it reads a text or an example of a task.

    model       a model with its tokenizer, or the folder or Hub name of a saved one
    text, first                what it reads, and how many of its first tokens (at most 256)
    task, example, data_dir    instead: an example of a task's test split
    layer       one layer only    adapter   a retrofit adapter for the model
    """
    STRINGS.texts(lang)  # an unknown language is an error before any model is loaded
    blobs, own = Blobs(), None
    if model is not None:
        from ascender.insight.loading import Loaded, load
        from ascender.insight.page import input_of
        from ascender.insight.play.collect import MOST, collect_heads

        if isinstance(model, str | Path):
            loaded = load(model, adapter, say, trust_code)
        else:
            loaded = Loaded(type(model).__name__, model, tokenizer)
        most = MOST if first is None else min(first, MOST)
        what = input_of(loaded, text, most, task, example, data_dir)
        own = collect_heads(loaded.name, loaded.model, what, blobs, layer)
    else:
        _check_nothing_to_read(text=text, task=task, example=example, adapter=adapter, layer=layer,
                               first=first)  # fmt: skip
    result = play_page(blobs, own, lang)
    if out is not None:
        result.save(out)
    return result


def _check_nothing_to_read(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} = {value!r} without a model; expected a model too")
