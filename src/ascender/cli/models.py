"""Commands on saved models: `ascender eval`, `view`, `insight` and `limits`."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from typer import Argument, Option, Typer, echo

from ascender.cli import terminal
from ascender.cli.terminal import check_out, import_named, note, number, print_json, progress, show
from ascender.common.files import read_text, write

app = Typer()
# Columns of `insight` that a terminal has no room for; the files have them.
LEFT_OUT = ("task", "interval", "chance_ari", "p", "share_align", "share_sep", "share_coh",
            "share_aff", "share_other")  # fmt: skip
VERSIONS = ("lm_eval", "transformers", "datasets", "torch")
FOLDER = "Folder of save_pretrained or ascender train, or a Hub name."
SEEDS = "Folders of ascender train or save_pretrained; several are seeds of one variant."
Task = Annotated[str | None, Option(help="Task of the examples; default: the model's own.")]


@app.command(
    "eval", epilog="Example: ascender eval out/model --tasks gsm8k,sst2 --data-dir data --limit 50"
)
def eval_(
    model: Annotated[str, Argument(help=FOLDER)],
    tasks: Annotated[str, Option(help="gsm8k, glue, … (of lm-eval).", metavar="NAME,NAME,…")],
    include_path: Annotated[Path | None, Option(help="Folder of your own task files.")] = None,
    data_dir: terminal.DataDir = None,
    adapter: terminal.Adapter = None,
    limit: Annotated[int | None, number("The first N rows of every task.")] = None,
    fewshot: Annotated[
        int | None, number("Few-shot examples; default: the task's.", least=0)
    ] = None,
    batch_size: Annotated[int, number("Rows per batch.")] = 8,
    max_length: Annotated[int | None, number("Most tokens of prompt and answer together.")] = None,
    device: Annotated[str, Option(help="cpu, cuda, cuda:1, …")] = "cpu",
    out: Annotated[Path | None, Option(help="File for the results as JSON.")] = None,
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """Score a language model on public tasks, with lm-eval.

    GSM8K, MATH (hendrycks_math, minerva_math), GLUE, SuperGLUE, LongBench, SCROLLS, LAMBADA,
    WikiText and the other tasks of lm-eval. For ASCender and any transformers model.
    """
    from ascender.hf.evaluate import evaluate

    check_out(out)
    shared = {"limit": limit, "fewshot": fewshot, "max_length": max_length}
    with progress() as say:
        say(f"scoring {model} on {tasks}")
        rows = evaluate(
            model, [name.strip() for name in tasks.split(",") if name.strip()],
            adapter=adapter, include_path=include_path, data_dir=data_dir, batch_size=batch_size,
            device=device, say=note, trust_code=trust_code, **shared,
        )  # fmt: skip
    record = {
        "model": model, "adapter": None if adapter is None else str(adapter), "tasks": tasks,
        **shared, "versions": {name: version(name) for name in VERSIONS},
        "rows": [asdict(row) for row in rows],
    }  # fmt: skip
    if as_json:
        print_json(record)
    else:
        show(_scores(rows))
    if out is not None:
        write(out, json.dumps(record, ensure_ascii=False, indent=2) + "\n")
        note(f"wrote {out}")


def _scores(rows: list[Any]) -> Table:
    table = Table("task", "metric", title="Scores")
    for heading in ("value", "± stderr", "chance", "n"):
        table.add_column(heading, justify="right")
    for row in rows:
        how = "" if row.filter == "none" else f" ({row.filter})"
        arrow = {True: " ↑", False: " ↓", None: ""}[row.higher_is_better]
        numbers = ("–" if x is None else f"{x:.4g}" for x in (row.value, row.stderr, row.chance))
        table.add_row(row.task, row.metric + how + arrow, *numbers, str(row.n or "–"))
    return table


@app.command(epilog='Example: ascender view out/model --text "Once upon a time" --out page.html')
def view(
    models: Annotated[list[str], Argument(metavar="MODEL", show_default=False, help=FOLDER)],
    out: Annotated[Path, Option(help="The HTML file.")] = Path("page.html"),
    text: Annotated[str | None, Option(help="Input text.")] = None,
    text_file: Annotated[Path | None, Option(help="Input text from a file (UTF-8).")] = None,
    task: Task = None,
    example: Annotated[int | None, Option(metavar="I", help="Test example, from 0.")] = None,
    data_dir: terminal.DataDir = None,
    adapter: terminal.Adapter = None,
    compare: Annotated[bool, Option("--compare", help="Two models side by side.")] = False,
    max_tokens: Annotated[int, number("Pool longer inputs into blocks.")] = 512,
    first: Annotated[int | None, number("Read only the first N tokens.")] = None,
    lang: Annotated[str, Option(help="Language of the page: en or ko.")] = "en",
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """Write one HTML page with every term of every head's attention scores.

    Matrices of the terms, single rows, tokens at their latent coordinates, and the model with a
    rule muted. For ASCender models, retrofitted models and plain transformers models (base scores
    and weights). The page needs no network. With --compare A B, an adapter is for B.
    """
    check_out(out)
    if len(models) != (2 if compare else 1):
        wanted = "two models with --compare" if compare else "one model, or --compare A B"
        raise ValueError(f"{len(models)} models; expected {wanted}")
    check_one_input(text, text_file, task, example, first)
    from ascender import insight

    with progress() as say:
        import_named(task)
        insight.view(
            models[0], text=text if text_file is None else read_text(text_file), out=out, task=task,
            example=example, data_dir=data_dir, adapter=adapter, max_tokens=max_tokens,
            compare=models[1] if compare else None, first=first, lang=lang, trust_code=trust_code,
            say=say,
        )  # fmt: skip
    size = out.stat().st_size
    if as_json:
        print_json({"page": str(out), "bytes": size})
    else:
        echo(f"{out} ({size / 1e6:.1f} MB)")


def check_one_input(
    text: str | None, text_file: Path | None, task: str | None, example: int | None,
    first: int | None,
) -> None:  # fmt: skip
    """ValueError for options of `view` that exclude each other."""
    if text is not None and text_file is not None:
        raise ValueError("both --text and --text-file; expected one of them")
    option = "--text" if text is not None else "--text-file" if text_file is not None else None
    if option is not None and (task is not None or example is not None):
        raise ValueError(f"both {option} and --task or --example; expected one of them")
    if option is None and first is not None:
        raise ValueError(f"--first {first} without a text; expected --text or --text-file with it")


@app.command(
    epilog="Example: ascender insight runs/a0 runs/a1 --against runs/v0 --against runs/v1 --out out"
)
def insight(
    models: Annotated[list[Path], Argument(metavar="MODEL …", help=SEEDS)],
    task: Task = None,
    against: Annotated[
        list[Path] | None, Option(help="A model of the variant to compare with; repeatable.")
    ] = None,
    adapter: terminal.Adapter = None,
    examples: Annotated[int, number("Number of test examples.")] = 32,
    data_dir: terminal.DataDir = None,
    out: terminal.OutFolder = None,
    lang: terminal.Lang = "en",
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """What each rule does in each head, whether heads have roles, whether groups are recovered.

    Contributions of the rules (share of score variance, attention moved when muted), roles of
    heads and their agreement between seeds, and NMI and ARI of clusters of coordinates, neighbours,
    attention and states against the task's true groups (for pylib: classes of Python tokens). An
    adapter is for the models, not for --against.
    """
    from ascender import lab
    from ascender.report.strings import in_language, languages
    from ascender.report.terminal import rich_table

    languages(lang)
    check_out(out, folder=True)
    import_named(task)
    with progress() as say:
        result = lab.compare_models(
            models, against or (), task=task, adapter=adapter, examples=examples,
            data_dir=data_dir, out=out, lang=lang, trust_code=trust_code, say=say,
        )  # fmt: skip
    if result.files:
        note(f"wrote {len(result.files)} files to {out}; open {result.files[-1]}")
    if as_json:
        print_json(result.record())
        return
    one_lang = "ko" if lang == "ko" else "en"
    for one in result.tables():
        show(rich_table(one, one_lang, leave_out=LEFT_OUT))
    for pair in result.advice():
        echo(in_language(pair, one_lang))


@app.command(epilog="Example: ascender limits runs/a0 --task pylib --compare muted --out limits")
def limits(
    model: Annotated[str, Argument(help=FOLDER)],
    text_file: Annotated[
        Path | None, Option(help="Input text; default: Python's standard library.")
    ] = None,
    lengths: terminal.Lengths = None,
    normalizers: Annotated[
        str | None, Option(metavar="NAME,NAME,…", help="Compare with these; default: all.")
    ] = None,
    adapter: terminal.Adapter = None,
    task: Annotated[str | None, Option(help="Use a task's examples, not a text.")] = None,
    data_dir: terminal.DataDir = None,
    compare: Annotated[
        str | None, Option(help="A second model, or 'muted': this model without its rules.")
    ] = None,
    batch: Annotated[int, number("Number of sequences.")] = 4,
    lang: terminal.Lang = "en",
    out: terminal.OutFolder = None,
    all_tables: Annotated[bool, Option("--tables", help="Print every table.")] = False,
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """Compare a model's attention with the limits of normalisation (arXiv 2508.17821).

    Entropy and effective support by context length, the 1/L envelope, the distance between
    selected and unselected keys, the share that stays separable, and the Jacobian by temperature,
    for every layer and head and each normaliser. In flock scope also how large the flocks are.
    """
    from ascender.insight import limits as study
    from ascender.report.strings import languages

    languages(lang)
    check_out(out, folder=True)
    with progress() as say:
        import_named(task)
        result = study.run(
            model, text=text_file, lengths=terminal.parse_lengths(lengths),
            normalizers=None if normalizers is None else normalizers.split(","), adapter=adapter,
            task=task, data_dir=data_dir, compare=compare, batch=batch, lang=lang, out=out,
            trust_code=trust_code, say=say,
        )  # fmt: skip
    _show_limits(result, "ko" if lang == "ko" else "en", all_tables, as_json)
    if result.files:
        note(f"wrote {len(result.files)} files; {result.files[-1]}")


def _show_limits(result: Any, lang: str, all_tables: bool, as_json: bool) -> None:
    """One short table per model (or all tables), the comparison, warnings and advice."""
    from ascender.insight.limits import tables
    from ascender.insight.limits.strings import STRINGS
    from ascender.report.terminal import rich_table

    record = result.record(lang)
    if as_json:
        print_json(record)
        return
    for model in record["models"]:
        for name, table in tables.tables_of(model, short=not all_tables).items():
            title = f"{model['name']}: {STRINGS.text(f'title.{name}', lang)}"
            show(rich_table(table(model), lang, title, width=terminal.WIDTH))
    if record["verdict"] is not None:
        show(rich_table(tables.side_by_side(*record["models"]), lang, width=terminal.WIDTH))
        echo(record["verdict"])
    for name, lines in record["warnings"].items():
        for line in lines if all_tables else lines[-1:]:
            note(f"warning: {name}: {line}")
    for line in record["advice"]:
        echo(line)
