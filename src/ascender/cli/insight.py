"""`ascender insight`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ascender.cli.terminal import (
    Json,
    TrustCode,
    check_out,
    count,
    import_named,
    note,
    print_json,
    progress,
    show,
)

app = typer.Typer()
SOURCE = "pylib"  # which a model with a tokenizer of its own reads by that

# What a terminal has no room for; the files have it.
LEFT_OUT = ("task", "interval", "chance_ari", "p", "share_align", "share_sep", "share_coh",
            "share_other")  # fmt: skip


@app.command(
    epilog="Example: ascender insight runs/a0 runs/a1 --against runs/v0 --against runs/v1 --out out"
)
def insight(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL …",
            help="Folders of `ascender train` or save_pretrained; several: seeds of one variant.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(help="Whose test examples they read; else what they were trained on."),
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="A model of the variant to compare with; repeatable.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="Retrofit adapter for the models, not for --against.")
    ] = None,
    examples: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Of the task's test.")
    ] = 32,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, figures, a page.")] = None,
    lang: Annotated[str, typer.Option(help="Headings and captions: en, ko or both.")] = "en",
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """What each rule does in each head, which roles heads have, which groups of tokens are found.

    Contributions of the rules (share of score variance, attention moved when muted), roles of
    heads and their agreement between seeds, and NMI and ARI of clusters of coordinates, neighbours,
    attention and states against the task's true groups; of pylib: classes of Python's tokens.
    """
    from ascender.lab.reports import insight_report
    from ascender.report.strings import in_language, languages
    from ascender.report.terminal import rich_table

    languages(lang)
    check_out(out, folder=True)
    import_named(task)
    groups = [_loaded(models, adapter, task, data_dir, trust_code)]
    if against:
        groups.append(_loaded(against, None, task, data_dir, trust_code))
    if len({group[0].variant for group in groups}) < len(groups):
        raise ValueError(
            f"--against is {groups[0][0].variant} like the models; expected another variant"
        )
    tasks = list(dict.fromkeys(m.task.name for group in groups for m in group))
    if len(tasks) > 1:
        raise ValueError(f"models of {' and '.join(tasks)}; expected models of one task")
    with progress() as say:
        found = [_measured(group, examples, say) for group in groups]
    names = {group[0].variant: [m.name for m in group] for group in groups}
    baseline = found[-1].variant if against else ""
    tables = insight_report.tables_of(found, baseline)
    if out is not None:
        paths = insight_report.save(found, out, baseline, names, lang)
        note(f"wrote {len(paths)} files to {out}; open {paths[-1]}")
    if as_json:
        print_json(insight_report.as_json(found, tables, names))
        return
    one_lang = "ko" if lang == "ko" else "en"
    for one in tables:
        show(rich_table(one, one_lang, leave_out=LEFT_OUT))
    for pair in insight_report.advice(found, groups[0][0].name):
        typer.echo(in_language(pair, one_lang))


class _Given(NamedTuple):
    """A model, what it reads, by which tokenizer (None: the task's), and what it is called."""

    name: str
    variant: str
    seed: int
    model: Any
    task: Any
    tokenizer: Any


def _loaded(
    folders: Sequence[Path],
    adapter: Path | None,
    task: str | None,
    data_dir: Path | None,
    trust_code: bool,
) -> list[_Given]:
    """Models that are seeds of one variant."""
    from ascender.insight.loading import load, source_for, task_for
    from ascender.tasks import kind_of

    found = []
    for i, folder in enumerate(folders):
        loaded = load(folder, adapter, note, trust_code)
        run = loaded.run or {}
        if task == SOURCE and run.get("task") != SOURCE:
            made, tokenizer = source_for(loaded), loaded.tokenizer
        elif task is not None and task != run.get("task"):
            kind_of(task)
            raise ValueError(
                f"{loaded.name} was not trained on {task}; expected --task "
                f"{run.get('task', SOURCE)}"
            )
        else:
            made, tokenizer = task_for(loaded, task, data_dir), None
        name = loaded.name if adapter is None else f"{loaded.name} + {adapter.name}"
        variant = str(run.get("variant", name))
        seed = int(run.get("seed", i))
        found.append(_Given(loaded.name, variant, seed, loaded.model, made, tokenizer))
    variants, seeds = list(dict.fromkeys(m.variant for m in found)), [m.seed for m in found]
    if len(variants) > 1:
        raise ValueError(
            f"models of {' and '.join(variants)}; expected seeds of one variant, others with "
            "--against"
        )
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"models of seeds {seeds}; expected each seed once")
    return found


def _measured(group: Sequence[_Given], n: int, say: Callable[[str], None]) -> Any:
    from ascender.insight import measure
    from ascender.lab.reports.model_insight import ModelInsight

    found = []
    for m in group:
        say(f"measuring {m.name}")
        found.append(measure(m.model, m.task, m.tokenizer, n, say=say))
    seeds = tuple(m.seed for m in group)
    return ModelInsight(group[0].task.name, group[0].variant, seeds, (), tuple(found))
