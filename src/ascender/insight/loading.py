"""A model to look at, whatever it was saved as."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

import ascender.hf
from ascender.hf.adapter import load_adapter
from ascender.hf.configuration import admit_code
from ascender.hf.evaluate import tokenizer_of
from ascender.own_code import import_code, is_code
from ascender.tasks import Batch, Task, kind_of, task
from ascender.tasks.base import IGNORED

RUN, MODEL = "run.json", "model"  # of `ascender train`
PAIRS = "reads pairs of texts; expected --task, such as --task translation --data-dir DIR"


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer (None: its inputs are no text), and the run it is from (None: it is
    not from `ascender train` or the lab)."""

    name: str
    model: Any
    tokenizer: Any = None
    run: dict[str, Any] | None = None


def load(
    source: str | Path, adapter: str | Path | None = None, say: Callable[[str], None] = print,
    trust_code: bool = False,
) -> Loaded:  # fmt: skip
    """What save_pretrained or `ascender train` wrote, or a name on the Hub; with an adapter, the
    retrofitted model. Code that its files name (module:Class) is used where it is imported
    already, or with `trust_code`, which imports it."""
    folder = Path(source)
    if folder.is_dir() and (folder / MODEL / "config.json").is_file():
        folder = folder / MODEL
    if folder.exists() and not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"no config.json in {folder}; expected what save_pretrained or ascender train wrote"
        )
    where = str(folder) if folder.exists() else str(source)
    model = _model(where, trust_code)
    if adapter is not None:
        load_adapter(model, adapter)
    sheet = folder.parent / RUN
    run = json.loads(sheet.read_text(encoding="utf-8"))["run"] if sheet.is_file() else None
    if trust_code and run and is_code(run.get("task")):
        import_code(run["task"], here=True)
    return Loaded(_name(folder), model.eval(), _tokenizer(where, model, say), run)


def task_for(loaded: Loaded, name: str | None, data_dir: str | Path | None = None) -> Task:
    """A task by name, or the one that the model was trained on; with the options of its training
    where it is that. A model reads only what it has embeddings for."""
    run = loaded.run or {}
    wanted = name or run.get("task")
    if wanted is None:
        raise ValueError(f"no task is known of {loaded.name}; expected --task")
    if name is not None and is_code(name):
        import_code(name)
    kind = kind_of(wanted)  # of code that run.json names: only what is imported already
    options = dict(run.get("options") or {}) if run.get("task") == wanted else {}
    if data_dir is not None and "data_dir" in inspect.signature(kind).parameters:
        options["data_dir"] = str(data_dir)
    made = task(wanted, **options)
    check_fits(loaded, made)
    return made


def source_for(loaded: Loaded) -> Task:
    """pylib for a model that was not trained on it: it reads the text by its own tokenizer."""
    check_text(loaded)
    return task("pylib")


def check_text(loaded: Loaded) -> None:
    """ValueError where a model cannot read a text alone."""
    if loaded.tokenizer is None:
        raise ValueError(
            f"{loaded.name} has no tokenizer, so it reads no text; expected --task "
            + str((loaded.run or {}).get("task", "NAME, a task it was made for"))
        )
    if getattr(loaded.model.config, "is_encoder_decoder", False):
        raise ValueError(f"{loaded.name} is an encoder–decoder, which {PAIRS}")


def check_fits(loaded: Loaded, made: Task) -> None:
    """ValueError where the tokens or vectors of a task are not those of the model."""
    for field in ("vocab_size", "vector_size"):
        has, needs = getattr(loaded.model.config, field, 0) or 0, made.fields()[field] or 0
        if has != needs:
            own = (loaded.run or {}).get("task")
            raise ValueError(
                f"{loaded.name} has {field} = {has} and {made.name} {needs}; expected "
                + (f"--task {own}, which it was trained on" if own else "a task it was made for")
            )


def fed(task: Task, batch: Batch) -> dict[str, Any]:
    """What forward takes of a batch; of a decoder also which of its tokens are padding."""
    given = dict(task.inputs(batch))
    if "decoder_input_ids" in given:
        given.setdefault("decoder_attention_mask", (batch.labels != IGNORED).long())
    return given


def _name(folder: Path) -> str:
    return folder.parent.name if folder.name == MODEL else folder.name


def _model(where: str, trust_code: bool) -> Any:
    try:
        admit_code(where, trust_code)
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
