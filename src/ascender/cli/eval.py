"""`ascender eval`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ascender.cli.terminal import (
    Json,
    TrustCode,
    check_out,
    count,
    note,
    print_json,
    progress,
    show,
)
from ascender.common.files import write

app = typer.Typer()


@app.command(
    "eval", epilog="Example: ascender eval out/model --tasks gsm8k,sst2 --data-dir data --limit 50"
)
def eval_(
    model: Annotated[str, typer.Argument(help="Folder that save_pretrained wrote, or a Hub name.")],
    tasks: Annotated[
        str,
        typer.Option(help="gsm8k, glue, … (any task of lm-eval).", metavar="NAME,NAME,…"),
    ],
    include_path: Annotated[
        Path | None, typer.Option(help="Folder of lm-eval task files of your own.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of local data: glue/sst2/validation.jsonl, …")
    ] = None,
    adapter: Annotated[Path | None, typer.Option(help="Retrofit adapter for the model.")] = None,
    limit: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="The first N rows of every task.")
    ] = None,
    fewshot: Annotated[
        int | None, typer.Option(min=0, help="Few-shot examples; default: the task's own number.")
    ] = None,
    batch_size: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Rows per batch.")
    ] = 8,
    max_length: Annotated[
        int | None,
        typer.Option(parser=count, metavar="N", help="Most tokens of prompt and answer together."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="File for the results as JSON.")] = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Score a language model on public tasks, with lm-eval.

    GSM8K, MATH (hendrycks_math, minerva_math), GLUE, SuperGLUE, LongBench, SCROLLS, LAMBADA,
    WikiText and the other tasks of lm-eval. For ASCender and any transformers model.
    """
    from ascender.hf.evaluate import evaluate

    check_out(out)
    with progress() as say:
        say(f"scoring {model} on {tasks}")
        rows = evaluate(
            model, [name.strip() for name in tasks.split(",") if name.strip()],
            adapter=adapter, include_path=include_path, data_dir=data_dir, limit=limit,
            fewshot=fewshot, batch_size=batch_size, max_length=max_length, device=device,
            say=note, trust_code=trust_code,
        )  # fmt: skip
    asked = {
        "model": model, "adapter": None if adapter is None else str(adapter), "tasks": tasks,
        "limit": limit, "fewshot": fewshot, "max_length": max_length,
    }  # fmt: skip
    record = {**asked, "versions": _versions(), "rows": [asdict(row) for row in rows]}
    if as_json:
        print_json(record)
    else:
        show(_table(rows))
    if out is not None:
        write(out, json.dumps(record, ensure_ascii=False, indent=2) + "\n")
        note(f"wrote {out}")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("lm_eval", "transformers", "datasets", "torch")}


def _table(rows: list[Any]) -> Table:
    table = Table(title="Scores")
    for heading in ("task", "metric"):
        table.add_column(heading)
    for heading in ("value", "± stderr", "chance", "n"):
        table.add_column(heading, justify="right")
    for row in rows:
        how = "" if row.filter == "none" else f" ({row.filter})"
        arrow = {True: " ↑", False: " ↓", None: ""}[row.higher_is_better]
        numbers = (row.value, row.stderr, row.chance)
        shown = ["–" if x is None else f"{x:.4g}" for x in numbers]
        table.add_row(row.task, row.metric + how + arrow, *shown, str(row.n or "–"))
    return table
