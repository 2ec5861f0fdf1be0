"""A model's scores on public tasks, by lm-eval (extra `[eval]`).

    scores = evaluate("folder/of/a/model", ["gsm8k", "sst2"], data_dir=Path("data"), limit=50)

The folder is anything that save_pretrained wrote: ours, a transformers model, or one of those
with an adapter beside it. Prompts, answers and metrics are lm-eval's own, so that the numbers
compare with other people's.
"""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.common.files import reason

ALIASES = {  # what people call them → lm-eval's names, where they differ
    "super_glue": ("super-glue-lm-eval-v1",),
    "superglue": ("super-glue-lm-eval-v1",),
    "math": ("hendrycks_math",),
    "minerva_math": tuple(
        f"minerva_math_{part}"
        for part in (
            "algebra", "counting_and_prob", "geometry", "intermediate_algebra", "num_theory",
            "prealgebra", "precalc",
        )
    ),
    "scrolls": tuple(
        f"scrolls_{part}"
        for part in (
            "contractnli", "govreport", "narrativeqa", "qasper", "qmsum", "quality", "summscreenfd",
        )
    ),
}  # fmt: skip
KNOWN = (
    "gsm8k", "hendrycks_math", "minerva_math", "glue", "super_glue", "longbench", "scrolls",
    "lambada", "wikitext",
)  # fmt: skip
SEED = 1234  # lm-eval's own
BOOTSTRAPS = 200  # for the stderr of metrics that are no means


@dataclass(frozen=True)
class TaskScore:
    """One number. `filter`: how the answer was read out of the text; `chance`: what guessing
    gives, where it is known (one of c choices: 1/c, over the rows)."""

    task: str
    metric: str
    filter: str
    value: float
    stderr: float | None
    n: int | None
    chance: float | None
    higher_is_better: bool | None


def evaluate(
    model: str | Path | Any, tasks: Sequence[str], *, tokenizer: Any = None,
    adapter: Path | None = None, include_path: Path | None = None, data_dir: Path | None = None,
    limit: int | None = None, fewshot: int | None = None, batch_size: int = 8,
    max_length: int | None = None, device: str = "cpu", say: Callable[[str], None] = print,
    trust_code: bool = False,
) -> list[TaskScore]:  # fmt: skip
    """The scores of a model (a folder, a name on the Hub, or a model with its tokenizer).

    include_path  a folder of lm-eval task files of your own
    data_dir      a folder of local data (ascender.hf.local_data)
    limit         the first so many rows of every task
    fewshot       worked examples in front of a question, where not the task's own number
    max_length    tokens of context and answer together; longer contexts lose their beginning
    trust_code    import the attention that the model names by module:Class
    """
    lm_eval = _lm_eval()
    from transformers import set_seed

    from ascender.hf.local_data import data_from
    from ascender.hf.source import find_model
    from ascender.measure.device import check

    check(device)
    if isinstance(model, str | Path):
        find_model(model)  # before lm-eval reads its task files, for a quarter of a minute
    manager, names = find(tasks, include_path, say)
    if isinstance(model, str | Path):
        model, tokenizer = load(str(model), tokenizer, adapter, say, trust_code)
    with redirect_stdout(sys.stderr), _quiet():
        with data_from(data_dir, say):
            loaded = _loaded(manager, names)
        lm = _harness(model.to(device).eval(), tokenizer, batch_size, max_length)
        _prepare(loaded["tasks"].values(), fewshot, lm)
        set_seed(SEED)
        results = lm_eval.evaluator.evaluate(
            lm, loaded, limit=limit, bootstrap_iters=BOOTSTRAPS, log_samples=False
        )
    return scores(results, {n: chance(t, limit) for n, t in loaded["tasks"].items()})


def _lm_eval() -> Any:
    try:
        import lm_eval
        import lm_eval.evaluator
        import lm_eval.models.huggingface
        import lm_eval.tasks
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f'evaluation needs {missing.name}; expected: pip install "ascender-attention[eval]"',
            name=missing.name,
        ) from None
    from ascender.hf import squad_metrics

    squad_metrics.put_in_place()
    return lm_eval


def find(
    tasks: Sequence[str], include_path: Path | None = None, say: Callable[[str], None] = print
) -> tuple[Any, list[str]]:
    """(lm-eval's task manager, its names for these tasks). It reads every task file there is, for
    a quarter of a minute; so first only the folders of the tasks in KNOWN. A tag that others
    share, such as math_word_problems, is not whole there."""
    manager = _lm_eval().tasks.TaskManager
    if include_path is not None and not include_path.is_dir():
        raise FileNotFoundError(f"no folder {include_path}; expected one with lm-eval task files")
    own = [] if include_path is None else [include_path]
    everything = Path(_lm_eval().tasks.__file__).parent
    with _quiet():
        folders = [everything / name for name in KNOWN if (everything / name).is_dir()]
        few = manager(include_path=[*folders, *own], include_defaults=False)
        whole = {*KNOWN, *ALIASES, *few.all_subtasks, *few.all_groups}
        if set(tasks) <= whole:
            return few, resolve(tasks, few.all_tasks)
        say("looking through all of lm-eval's task files, which takes a while")
        full = manager(include_path=own or None)
    return full, resolve(tasks, full.all_tasks)


def resolve(tasks: Iterable[str], known: Sequence[str]) -> list[str]:
    """lm-eval's names for these, each once; a name that nobody knows gets the nearest ones."""
    names: dict[str, None] = {}
    for task in tasks:
        for name in (task,) if task in known else ALIASES.get(task, (task,)):
            if name not in known:
                near = difflib.get_close_matches(task, [*KNOWN, *known], n=4, cutoff=0.5)
                raise ValueError(f"unknown task {task!r}; expected one of {_list(near or KNOWN)}")
            names[name] = None
    if not names:
        raise ValueError(f"no tasks; expected some of {_list(KNOWN)}")
    return list(names)


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) + ", … (lm-eval's own names)"


def load(
    source: str, tokenizer: Any, adapter: Path | None, say: Callable[[str], None],
    trust_code: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(model, tokenizer) of a folder or a Hub name; byte tokens where there is no tokenizer."""
    from ascender.hf.source import load_model, tokenizer_of

    where, model = load_model(source, adapter, trust_code, _generating_class)
    return model, tokenizer or tokenizer_of(where, model.config.vocab_size, say)


def _generating_class(config: Any, where: str) -> Any:
    """The Auto class of a language model that can generate."""
    import transformers

    kinds = config.architectures or []
    if kinds and not any("LMHead" in k or k.endswith(ENDINGS) for k in kinds):
        raise ValueError(
            f"{where} holds {', '.join(kinds)}; expected a language model that writes: "
            "…ForCausalLM or …ForConditionalGeneration"
        )
    if config.is_encoder_decoder:
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM


ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "DoubleHeadsModel")


def _loaded(manager: Any, names: list[str]) -> Any:
    try:
        return manager.load(names)
    except ImportError as missing:
        raise ImportError(f"{', '.join(names)}: lm-eval needs more for these: {missing}") from None
    except (OSError, ValueError):
        raise
    except Exception as error:  # SCROLLS and others fetch rows and metrics in their own way
        raise OSError(
            f"{', '.join(names)}: lm-eval cannot load these ({type(error).__name__}: "
            f"{reason(error)}); expected a network, as they fetch their files themselves"
        ) from error


def _harness(model: Any, tokenizer: Any, batch_size: int, max_length: int | None) -> Any:
    from lm_eval.models.huggingface import HFLM

    backend = "seq2seq" if model.config.is_encoder_decoder else "causal"
    return HFLM(
        pretrained=model, tokenizer=tokenizer, backend=backend, batch_size=batch_size,
        max_length=max_length,
    )  # fmt: skip


def _prepare(tasks: Iterable[Any], fewshot: int | None, lm: Any) -> None:
    """Worked examples, the same ones every time; and a decoder has one row of tokens for the
    question and the answer."""
    for task in tasks:
        own = task.get_config("num_fewshot")
        if fewshot is not None and own != 0:  # a task's own 0 means that it has its examples inside
            task.set_config("num_fewshot", fewshot)
        elif own is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(SEED)
        if task.OUTPUT_TYPE != "generate_until" or lm.backend != "causal":
            continue
        answer = (task.config.generation_kwargs or {}).get("max_gen_toks", lm.max_gen_toks)
        if lm.max_length <= answer:
            raise ValueError(
                f"max_length = {lm.max_length}; expected more than the {answer} tokens that an "
                f"answer of {task.config.task} may have (--max-length)"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what lm-eval and datasets say about themselves; progress stays."""
    import datasets

    log = logging.getLogger("lm_eval")
    level, bars = log.level, datasets.are_progress_bars_disabled()
    log.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        log.setLevel(level)
        if not bars:
            datasets.enable_progress_bars()


def chance(task: Any, limit: int | None) -> float | None:
    """mean over rows of 1/(number of choices), or None where answers are free text."""
    if task.OUTPUT_TYPE != "multiple_choice":
        return None
    rows = task.eval_docs
    n = len(rows) if limit is None else min(limit, len(rows))
    each = [1 / len(task.doc_to_choice(rows[i])) for i in range(n)]
    return sum(each) / len(each) if each else None


def scores(results: Any, chances: dict[str, float | None]) -> list[TaskScore]:
    """lm-eval's results as rows, groups last."""
    rows = []
    for task, numbers in results["results"].items():
        n = results["n-samples"].get(task, {}).get("effective", numbers.get("sample_len"))
        for key, value in numbers.items():
            metric, comma, how = key.partition(",")
            if not comma or metric.endswith("_stderr"):
                continue
            stderr = numbers.get(f"{metric}_stderr,{how}")
            rows.append(
                TaskScore(
                    task=task, metric=metric, filter=how, value=float(value),
                    stderr=float(stderr) if isinstance(stderr, int | float) else None, n=n,
                    chance=chances.get(task) if metric in ("acc", "acc_norm") else None,
                    higher_is_better=results["higher_is_better"].get(task, {}).get(metric),
                )
            )  # fmt: skip
    return rows
