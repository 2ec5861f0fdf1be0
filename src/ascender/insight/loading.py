"""Load a saved model for inspection, with its tokenizer and the task it was trained on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.common.files import Damaged, checked, read_json
from ascender.common.user_code import import_code, is_code
from ascender.hf.source import MODEL, load_model, tokenizer_of
from ascender.tasks import Batch, Task, code_named, kind_of, task
from ascender.tasks.base import IGNORED

RUN = "run.json"  # of `ascender train`
PAIRS = "reads pairs of texts; expected --task, such as --task translation --data-dir DIR"


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer (None: its inputs are no text), and the run it is from (None: it is
    not from `ascender train` or the lab)."""

    name: str
    model: Any
    tokenizer: Any = None
    run: dict[str, Any] | None = None
    sheet: Path | None = None  # the file that says which run


def load(
    source: str | Path, adapter: str | Path | None = None, say: Callable[[str], None] = print,
    trust_code: bool = False,
) -> Loaded:  # fmt: skip
    """What save_pretrained or `ascender train` wrote, or a name on the Hub; with an adapter, the
    retrofitted model. Code that its files name (module:Class) is used where it is imported
    already, or with `trust_code`, which imports it."""
    where, model = load_model(source, adapter, trust_code)
    folder = Path(where)
    sheet = folder.parent / RUN
    run = _run(sheet)
    if trust_code and run:
        if is_code(run["task"]):
            import_code(run["task"], here=True)
        for name in code_named(run["task"], run["options"]):
            import_code(name, here=True)
    return Loaded(_name(folder), model.eval(), _tokenizer(where, model, say), run, sheet)


def _run(sheet: Path) -> dict[str, Any] | None:
    """The run that a model is from, where it lies in the folder of one."""
    if not sheet.is_file():
        return None
    expected = "what ascender train wrote"
    run = read_json(sheet, expected, run=dict)["run"]
    return checked(run, sheet, expected, task=str, variant=str, seed=int, options=dict)


def task_for(loaded: Loaded, name: str | None, data_dir: str | Path | None = None) -> Task:
    """A task by name, or the one that the model was trained on; with the options of its training
    where it is that. A model reads only what it has embeddings for."""
    run = loaded.run or {}
    wanted = name or run.get("task")
    if wanted is None:
        raise ValueError(f"no task is known of {loaded.name}; expected --task")
    if name is not None and is_code(name):
        import_code(name)
    options = dict(run.get("options") or {}) if run.get("task") == wanted else {}
    try:
        kind = kind_of(wanted)  # of code that run.json names: only what is imported already
        if data_dir is not None and "data_dir" in inspect.signature(kind).parameters:
            options["data_dir"] = str(data_dir)
        result = task(wanted, **options)
    except (ValueError, TypeError) as error:
        if name is not None or loaded.sheet is None:
            raise
        raise ValueError(f"the task of {loaded.sheet}: {error}") from error
    check_fits(loaded, result)
    if "neighbours" in (getattr(loaded.model.config, "attention_options", None) or {}):
        result.hide_lists()  # as in its training (train.Run.make_task)
    return result


def source_for(loaded: Loaded) -> Task:
    """pylib for a model that was not trained on it: it reads the text by its own tokenizer."""
    check_text(loaded)
    return task("pylib")


def check_text(loaded: Loaded) -> None:
    """ValueError where a model cannot read a text alone."""
    if loaded.tokenizer is None:
        raise ValueError(
            f"{loaded.name} has no tokenizer, so it reads no text; expected --task "
            + str((loaded.run or {}).get("task", "NAME, a task it was built for"))
        )
    if getattr(loaded.model.config, "is_encoder_decoder", False):
        raise ValueError(f"{loaded.name} is an encoder–decoder, which {PAIRS}")


def check_fits(loaded: Loaded, task: Task) -> None:
    """ValueError where the tokens or vectors of a task are not those of the model."""
    for field in ("vocab_size", "vector_size"):
        has, needs = getattr(loaded.model.config, field, 0) or 0, task.fields()[field] or 0
        if has != needs:
            own = (loaded.run or {}).get("task")
            raise ValueError(
                f"{loaded.name} has {field} = {has} and {task.name} {needs}; expected "
                + (f"--task {own}, which it was trained on" if own else "a task it was built for")
            )


def fed(task: Task, batch: Batch) -> dict[str, Any]:
    """What forward takes of a batch; of a decoder also which of its tokens are padding."""
    given = dict(task.inputs(batch))
    if "decoder_input_ids" in given:
        given.setdefault("decoder_attention_mask", (batch.labels != IGNORED).long())
    return given


def _name(folder: Path) -> str:
    return folder.parent.name if folder.name == MODEL else folder.name


def _tokenizer(where: str, model: Any, say: Callable[[str], None]) -> Any:
    """None where there is none and bytes would not fit."""
    try:
        return tokenizer_of(where, model.config.vocab_size, say)
    except Damaged:
        raise
    except ValueError:
        return None
