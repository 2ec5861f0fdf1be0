"""A model to look at, whatever it was saved as."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

import ascender.hf
from ascender.hf.adapter import load_adapter
from ascender.hf.evaluate import tokenizer_of

RUN, MODEL = "run.json", "model"  # of `ascender train`


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer (None: its inputs are no text), and the run it is from (None: it is
    not from `ascender train` or the lab)."""

    name: str
    model: Any
    tokenizer: Any = None
    run: dict[str, Any] | None = None


def load(
    source: str | Path, adapter: str | Path | None = None, say: Callable[[str], None] = print
) -> Loaded:
    """What save_pretrained or `ascender train` wrote, or a name on the Hub; with an adapter, the
    retrofitted model."""
    folder = Path(source)
    if folder.is_dir() and (folder / MODEL / "config.json").is_file():
        folder = folder / MODEL
    if folder.exists() and not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"no config.json in {folder}; expected what save_pretrained or ascender train wrote"
        )
    where = str(folder) if folder.exists() else str(source)
    model = _model(where)
    if adapter is not None:
        load_adapter(model, adapter)
    sheet = folder.parent / RUN
    run = json.loads(sheet.read_text(encoding="utf-8"))["run"] if sheet.is_file() else None
    return Loaded(_name(folder), model.eval(), _tokenizer(where, model, say), run)


def _name(folder: Path) -> str:
    return folder.parent.name if folder.name == MODEL else folder.name


def _model(where: str) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(where)
    except OSError as error:
        raise OSError(
            f"no model {where!r}; expected a folder that save_pretrained or ascender train wrote, "
            f"or a name that the Hub gives ({str(error).splitlines()[0]})"
        ) from None
    wanted = (config.architectures or [""])[0]
    kind = getattr(ascender.hf, wanted, None) or getattr(transformers, wanted, None)
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        return (kind or transformers.AutoModel).from_pretrained(where)
    finally:
        if bars:
            transformers.utils.logging.enable_progress_bar()


def _tokenizer(where: str, model: Any, say: Callable[[str], None]) -> Any:
    """None where there is none and bytes would not fit."""
    try:
        return tokenizer_of(where, model.config.vocab_size, say)
    except ValueError:
        return None
