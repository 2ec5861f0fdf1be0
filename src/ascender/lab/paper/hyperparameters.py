"""Appendix A: every hyper-parameter, from the records and from what the code adds to them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from ascender.core.rules import RULES
from ascender.core.schedule import Adaptive, Ramp
from ascender.hf import AscenderConfig
from ascender.lab.judge import Record
from ascender.lab.paper.document import (
    Block,
    Bullets,
    Heading,
    Paragraph,
    TableBlock,
    Text,
    text,
)
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import (
    between,
    count,
    counted,
    in_a_row,
    kind_of_task,
    named,
    records_of,
    setting,
)
from ascender.lab.paper.settings_strings import SETTINGS
from ascender.lab.paper.settings_tables import (
    Records,
    code_number,
    has_rules,
    plain,
    rule_options,
    shared_settings,
    task_data,
    task_settings,
    variant_of,
    variants,
)
from ascender.lab.reports.strings import STRINGS
from ascender.report.table import Cell
from ascender.tasks.answers import Answers
from ascender.train import Run
from ascender.train.loop import BETAS
from ascender.train.record import versions
from ascender.train.variants import variant

PACKAGE = "ascender-attention"


def hyperparameters(of: Material) -> list[Block]:
    """The appendix."""
    records = records_of(of)
    blocks: list[Block] = [
        Heading(1, _say("heading"), "app:settings"),
        Paragraph(_intro(of, records)),
        Heading(2, _say("optimiser")),
        Paragraph(_model(of, records)),
        Paragraph(_adam(of)),
        TableBlock(shared_settings(of, records)),
        TableBlock(task_settings(of)),
        TableBlock(task_data(of)),
        Heading(2, _say("schedules")),
        Bullets(tuple(_schedules(of, records))),
        Heading(2, _say("masks")),
        Paragraph(_masks(records)),
        Paragraph(_cache(of, records)),
        TableBlock(variants(of, records)),
        TableBlock(rule_options(of)),
    ]
    return blocks


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(SETTINGS[key], **fields)


def _intro(of: Material, records: Records) -> Text:
    made = dict.fromkeys(f"{PACKAGE} {r['versions'].get(PACKAGE, '–')}" for r in records.values())
    now = f"{PACKAGE} {versions()[PACKAGE]}"
    of.facts.learn([now, *made])
    return _say(
        "intro", n=count(len(records), records), version=named(now), versions=in_a_row(list(made))
    )


def _model(of: Material, records: Records) -> Text:
    inner = []
    for hidden in {r["run"]["hidden"] for r in records.values()}:
        config = AscenderConfig(hidden_size=hidden, num_attention_heads=1, num_hidden_layers=1)
        inner.append(float(config.intermediate_size or 0))
    of.facts.learn(inner)
    return _say("model", norm_eps=code_number(of, AscenderConfig.norm_eps), inner=between(inner))


def _adam(of: Material) -> Text:
    eps = inspect.signature(torch.optim.AdamW).parameters["eps"].default
    one, two = (code_number(of, beta) for beta in BETAS)
    return _say("adam", beta_one=one, beta_two=two, eps=code_number(of, eps))


def _schedules(of: Material, records: Records) -> Iterator[Text]:
    """λ of the rules by schedule, of the variants that have them; flock scope; losses."""
    ruled = {k: r for k, r in records.items() if has_rules(variant_of(r))}
    groups: dict[str, list[str]] = {}
    for key, r in ruled.items():
        groups.setdefault(r["run"]["schedule"], []).append(key)
    for name, keys in groups.items():
        schedule = _schedule(ruled[keys[0]])
        if schedule is not None:
            said = [_ramp(of, rule, getattr(schedule, rule)) for rule in RULES]
            yield _say("schedule", name=named(name), n=count(len(keys), keys), ramps=in_a_row(said))
    flock = {k: r for k, r in records.items() if variant_of(r).options.get("scope") == "flock"}
    for share in sorted({setting(r["run"], "visible_share") for r in flock.values()}):
        keys = [k for k, r in flock.items() if setting(r["run"], "visible_share") == share]
        yield _say("visible_share", share=_percent(of, share), n=count(len(keys), keys))
    with_losses = {k: r for k, r in records.items() if r["run"].get("losses")}
    kinds = dict.fromkeys(plain(r["run"]["losses"]) for r in with_losses.values())
    if not kinds:
        yield _say("no_losses")
        return
    n = count(len(with_losses), with_losses)
    yield _say("losses", losses=in_a_row(list(kinds), "; "), n=n)


def _schedule(record: Record) -> Any:
    """The schedule of a run, of all rules; None where the run cannot be made here."""
    try:
        schedule = Run(**{**record["run"], "variant": "ascender"}).make_schedule()
    except (TypeError, ValueError):
        return None
    return schedule.schedule if isinstance(schedule, Adaptive) else schedule


def _ramp(of: Material, rule: str, ramp: Ramp) -> Text:
    en, ko = STRINGS[f"axis.{rule}"]
    name = named(f"λ ({en})", f"λ({ko})")
    to = code_number(of, ramp.to)
    if not ramp.start and (ramp.shape == "constant" or not ramp.length):
        return _say("at_once", rule=name, to=to)
    at = {"start": _percent(of, ramp.start), "length": _percent(of, ramp.length)}
    return _say("ramp", rule=name, shape=named(ramp.shape), to=to, **at)


def _percent(of: Material, share: float) -> Cell:
    """A share of the steps; an int is a number of steps."""
    of.facts.learn([share])
    if isinstance(share, int):
        return Cell(f"{share:,}", (), {"steps": share})
    return Cell(f"{100 * share:g}%", (), {"share": share})


def _masks(records: Records) -> Text:
    tasks = dict.fromkeys(r["run"]["task"] for r in records.values())
    kinds = {task: kind_of_task(task) for task in tasks}
    causal = [t for t, kind in kinds.items() if kind is not None and kind.head in CAUSAL]
    full = [t for t, kind in kinds.items() if kind is not None and kind.head not in CAUSAL]
    none = text(SETTINGS["none"])
    return _say("mask", causal=in_a_row(causal or [none]), full=in_a_row(full or [none]))


CAUSAL = ("causal", "seq2seq")


def _cache(of: Material, records: Records) -> Text:
    tasks = dict.fromkeys(r["run"]["task"] for r in records.values())
    kinds = {task: kind_of_task(task) for task in tasks}
    written = [t for t, kind in kinds.items() if kind is not None and issubclass(kind, Answers)]
    names = dict.fromkeys(r["run"]["variant"] for r in records.values())
    sharing = [name for name in names if variant(name).share > 1]
    none = text(SETTINGS["none"])
    shared: dict[str, Cell | Text] = {
        "shared": counted(of, len(sharing)), "names": in_a_row(sharing or [none])
    }  # fmt: skip
    if written:
        return _say("cache_written", tasks=in_a_row(written), **shared)
    return _say("cache", **shared)
