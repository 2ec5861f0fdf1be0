"""One self-contained page of a model's attention, term by term.

view("folder/of/a/model", text="Once upon a time", out="page.html")
view(model, tokenizer, "Once upon a time")          # a notebook shows it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ascender.insight.loading import Loaded, load, task_for
from ascender.insight.page.build import Page, page
from ascender.insight.page.collect import collect_page_data
from ascender.insight.page.inputs import Input, of_task, of_text
from ascender.insight.page.pack import Blobs
from ascender.insight.page.strings import STRINGS

__all__ = ["Page", "view"]


def view(
    model: Any, tokenizer: Any = None, text: str | None = None, out: str | Path | None = None, *,
    task: str | None = None, example: int | None = None, data_dir: str | Path | None = None,
    adapter: str | Path | None = None, compare: str | Path | None = None, name: str | None = None,
    max_tokens: int = 512, first: int | None = None, lang: str = "en", trust_code: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Page:  # fmt: skip
    """The page of one input; a notebook shows it, and `out` also writes it to a file.

    model       a model with its tokenizer, or the folder or Hub name of a saved one
    text, first                what it reads, and how many of its first tokens
    task, example, data_dir    instead: an example of a task's test split; a model of
                               `ascender train` knows its own task
    compare     a second saved model beside it    adapter  a retrofit adapter for the last model
    max_tokens  longer inputs are pooled in blocks
    """
    if max_tokens < 2:
        raise ValueError(f"max_tokens = {max_tokens}; expected at least 2")
    STRINGS.texts(lang)  # an unknown language is an error before any model is loaded
    sources = [model] if compare is None else [model, compare]
    models = [
        load(source, adapter if source is sources[-1] else None, say, trust_code)
        if isinstance(source, str | Path)
        else Loaded(name or type(source).__name__, source, tokenizer)
        for source in sources
    ]
    inputs = [input_of(one, text, first, task, example, data_dir) for one in models]
    blobs = Blobs()
    data = [
        collect_page_data(title, one.model, one.tokenizer, what, blobs, max_tokens, say)
        for title, one, what in zip(_titles(models, adapter), models, inputs, strict=True)
    ]
    result = page(data, blobs, lang)
    if out is not None:
        result.save(out)
    return result


def _titles(models: Sequence[Loaded], adapter: str | Path | None) -> list[str]:
    """By their run where they have one; two that are alike get (A) and (B)."""
    names = [
        model.name if model.run is None else "{variant}, {task}, seed {seed}".format(**model.run)
        for model in models
    ]
    if adapter is not None:
        names[-1] += f" + {Path(adapter).name}"
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({'AB'[at]})" for at, name in enumerate(names)]


def input_of(
    loaded: Loaded, text: str | None, first: int | None, task: str | None, example: int | None,
    data_dir: str | Path | None,
) -> Input:  # fmt: skip
    """What a model reads: a text, or an example of a task."""
    if text is not None:
        return of_text(loaded.model, loaded.tokenizer, text, first)
    if task is None and loaded.run is None:
        raise ValueError(
            f"nothing for {loaded.name} to read; expected --text, --text-file or --task"
        )
    return of_task(task_for(loaded, task, data_dir), example or 0)
