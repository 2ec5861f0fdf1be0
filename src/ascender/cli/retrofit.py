"""`ascender retrofit`: flock scope for a pretrained language model; trains its index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer import Argument, Option, Typer, echo

from ascender.cli import terminal
from ascender.cli.terminal import check_out, note, number, print_json, show
from ascender.common.files import read_text, write

if TYPE_CHECKING:
    from ascender.hf.retrofit.distil import IndexReport

app = Typer()
REPORT = "index.json"
EVERY = 25  # steps between lines where there is no terminal


@app.command(
    epilog="Example: ascender retrofit weights/stories15M --texts stories.jsonl --far 32 --out out"
)
def retrofit(
    model: Annotated[str, Argument(help="Folder of a causal language model, or a Hub name.")],
    texts: Annotated[Path, Option(help="Training text: UTF-8, or .jsonl with a field text.")],
    out: Annotated[Path, Option(help="Folder for the adapter and index.json.")],
    far: Annotated[int, number("Far keys per token, chosen by the index.")] = 32,
    window: Annotated[int, number("Preceding keys that are always attended to.", least=0)] = 8,
    n_global: Annotated[
        int, number("First keys that are always attended to.", "--globals", least=0)
    ] = 1,
    length: Annotated[
        int | None, number("Tokens per block, as the model will be used; default: up to 512.")
    ] = None,
    steps: Annotated[int, number("Optimiser steps.")] = 300,
    batch: Annotated[int, number("Blocks per step.")] = 8,
    rate: Annotated[float, Option(help="Learning rate of P_q and P_k.")] = 1e-3,
    bias_rate: Annotated[float, Option(help="Learning rate of the bias by distance.")] = 3e-2,
    seed: Annotated[int, number("Seed of the order of the blocks.", least=0)] = 0,
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """Give a pretrained language model flock scope: each token attends to a few keys only.

    The model's weights do not change. A small index per layer is trained to choose the keys that
    its attention uses; ascender.load_adapter(model, OUT) loads it. The table has the share of the
    attention mass on the chosen keys. Measure perplexity too (docs/retrofit.md).
    """
    check_out(out, folder=True)
    corpus = read_texts(texts)
    import transformers

    import ascender
    from ascender.hf.source import load_model, tokenizer_of

    where, loaded = load_model(
        model, None, trust_code, lambda *_: transformers.AutoModelForCausalLM
    )
    tokenizer = tokenizer_of(where, loaded.config.vocab_size, note)
    ascender.retrofit(loaded.eval(), scope="flock", far=far, window=window, n_global=n_global)
    with distilling() as step:
        report = ascender.distil_index(
            loaded, corpus, tokenizer=tokenizer, length=length, steps=steps, batch=batch,
            rate=rate, bias_rate=bias_rate, seed=seed, progress=step,
        )  # fmt: skip
    ascender.save_adapter(loaded, out)
    write(out / REPORT, json.dumps(report.record(), indent=1) + "\n")
    if as_json:
        print_json(report.record())
    else:
        show(table(report))
        echo(f"wrote {out} ({report.seconds:.0f} s)")


def read_texts(path: Path) -> list[str]:
    """The texts of a file: the field text of every line of a .jsonl, else the whole."""
    whole = read_text(path)
    if path.suffix != ".jsonl":
        return [whole]
    texts = []
    for i, line in enumerate(whole.splitlines(), 1):
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {i}: {error.msg}; expected a JSON object") from None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise ValueError(f"{path}, line {i} has no text; expected an object with a field text")
        texts.append(row["text"])
    return texts


@contextmanager
def distilling() -> Iterator[Any]:
    """progress(step, steps, loss): a bar on a terminal, elsewhere a line every EVERY steps."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield (
            lambda step, steps, loss: (
                note(f"step {step}/{steps}  loss {loss:.4f}")
                if step % EVERY == 0 or step == steps
                else None
            )
        )
        return
    columns = (
        TextColumn("distilling"), BarColumn(), MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("distilling", total=None, loss=float("nan"))
        yield lambda step, steps, loss: bar.update(task, completed=step, total=steps, loss=loss)


def table(report: IndexReport) -> Table:
    """Recall of attention mass by layer."""
    recall = Table(title=f"Attention mass on the flock: {report.far} far keys, window and globals")
    for heading in ("layer", "index at start", "index trained", "oracle"):
        recall.add_column(heading, justify="right")
    for row in report.layers:
        shares = (f"{x:.3f}" for x in (row.start, row.trained, row.oracle))
        recall.add_row(str(row.layer), *shares)
    return recall
