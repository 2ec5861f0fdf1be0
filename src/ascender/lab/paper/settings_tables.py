"""The tables of appendix A: settings, tasks, variants and the options of the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from ascender.core.rules import LEARNED, RULES, Rules
from ascender.lab.judge import Record
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import (
    between,
    count,
    kind_of_task,
    named,
    records_of,
    setting,
    short_number,
    varied,
)
from ascender.lab.paper.settings_strings import SETTINGS
from ascender.lab.reports.cells import NONE, lab_table, number_cell, short
from ascender.lab.reports.strings import STRINGS
from ascender.nn.rule_parameters import OPTIONS, RuleOptions, default
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table
from ascender.train.settings import Settings
from ascender.train.variants import Variant, variant

ALL = Strings(STRINGS | SETTINGS)
HELP = {f.name: str(f.metadata.get("help", "")) for f in fields(Settings)}
OWN = ("task", "variant", "seed", "options")
Records = Mapping[str, Record]


def plain(value: Any) -> str:
    """A setting as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def setting_cell(of: Material, value: Any, trials: Iterable[str] = ()) -> Cell:
    """A number with its trials, or a word."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(short_number(value), tuple(trials), {"value": value})
    of.facts.learn([plain(value)])
    return named(plain(value))


def code_number(of: Material, value: float) -> Cell:
    """A number of the code."""
    of.facts.learn([value])
    return Cell(short_number(value), (), {"value": value})


def shared_settings(of: Material, records: Records) -> Table:
    """A row a setting that has one value in all trials."""
    different, runs = varied(r["run"] for r in records.values()), list(records.values())
    of.facts.learn(list(HELP.values()))
    rows = []
    for name in HELP:
        if name not in (*OWN, *different):
            value = setting(runs[0]["run"], name)
            meaning = Cell(HELP[name], ko=SETTINGS.get(f"ko.{name}", ("", HELP[name]))[1])
            cell = NONE if value is None else setting_cell(of, value, records)
            rows.append({"setting": named(name), "value": cell, "meaning": meaning})
    return lab_table("shared_settings", rows, strings=ALL, words=("setting", "meaning"))


def task_settings(of: Material) -> Table:
    """A row for each set of values of the settings that differ, by task."""
    records = records_of(of, tuning=False) or records_of(of)
    names = varied(r["run"] for r in records.values())
    groups: dict[tuple[str, ...], list[str]] = {}
    for key, r in records.items():
        run = r["run"]
        values = [plain(setting(run, n)) for n in names]
        groups.setdefault((run["task"], _options(run), *values), []).append(key)
    rows = []
    for (task, options, *_), keys in sorted(groups.items(), key=lambda item: item[0][:2]):
        kinds = dict.fromkeys(variant_of(records[k]).attention for k in keys)
        run = records[keys[0]]["run"]
        rows.append({
            "task": named(task), "options": named(options), "attention": named(", ".join(kinds)),
            "trials": count(len(keys), keys),
            **{n: setting_cell(of, setting(run, n), keys) for n in names},
        })  # fmt: skip
    strings = Strings(ALL | {f"column.{n}": (n, n) for n in names})
    return lab_table("task_settings", rows, strings=strings, words=WORDS)


WORDS = ("task", "options", "attention", "head", "position", "normalizer", "off", "metric",
         "variant", "setting", "learned")  # fmt: skip


def _options(run: Mapping[str, Any]) -> str:
    return ", ".join(f"{n}={plain(x)}" for n, x in run.get("options", {}).items()) or "–"


def task_data(of: Material) -> Table:
    """A row a task and its options."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in records_of(of).values():
        groups.setdefault((r["run"]["task"], _options(r["run"])), []).append(r)
    rows = []
    for (task, options), records in sorted(groups.items()):
        kind, keys = kind_of_task(task), [r["key"] for r in records]
        of.facts.learn([options])
        rows.append({
            "task": named(task), "options": named(options),
            "head": NONE if kind is None else named(kind.head),
            "position": NONE if kind is None else named(kind.position),
            "metric": named(f"{records[0]['metric']} {'↑' if records[0]['higher'] else '↓'}"),
            "chance": number_cell(records[0]["chance"], (keys[0],)),
            "test_n": between((r["test"]["n"] for r in records), keys),
            "read": number_cell(float(max(r["tokens"] for r in records)), tuple(keys), short),
        })  # fmt: skip
    return lab_table("task_data", rows, strings=ALL, words=WORDS)


def variant_of(record: Record) -> Variant:
    return variant(record["run"]["variant"])


def has_rules(v: Variant) -> bool:
    """Whether it has a rule that is not off."""
    return v.attention in ("ascender", "shuffled") and len(v.mute) < len(RULES)


def variants(of: Material, records: Records) -> Table:
    """A row a variant."""
    groups: dict[str, list[str]] = {}
    for key, r in records.items():
        groups.setdefault(r["run"]["variant"], []).append(key)
    rows = []
    for name, keys in groups.items():
        v = variant(name)
        own = ({"roles": True} if v.roles else {}) | ({"share": v.share} if v.share > 1 else {})
        options = {**v.options, **own, **({"half": v.half} if v.half else {})}
        said = ", ".join(f"{n}={plain(x)}" for n, x in options.items()) or "–"
        of.facts.learn([said, v.normalizer])
        rows.append({
            "variant": named(name), "attention": named(v.attention), "options": named(said),
            "position": named(v.position or "–"),
            "normalizer": named("–" if v.normalizer == "softmax" else v.normalizer),
            "off": named(", ".join(v.mute) or "–"),
            "parameters": between((records[k]["parameters"] for k in keys), keys),
            "trials": count(len(keys), keys),
        })  # fmt: skip
    return lab_table("variants", rows, strings=ALL, words=WORDS)


def rule_options(of: Material) -> Table:
    """A row an option of the rules and a row a number that they learn."""
    numbers = {f.name: f for f in fields(Rules) if f.name in LEARNED}
    rows = []
    for name in dict.fromkeys((*OPTIONS, *numbers)):
        learned, value = NONE, default(RuleOptions, name)
        if name in numbers:
            en, ko = SETTINGS[f"learned.{LEARNED[name]['learned_as']}"]
            learned, value = Cell(en, ko=ko), numbers[name].default
        rows.append({"setting": named(name), "value": _code_value(of, value), "learned": learned})
    return lab_table("rule_options", rows, strings=ALL, words=WORDS)


def _code_value(of: Material, value: Any) -> Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return code_number(of, value)
    return setting_cell(of, value)
