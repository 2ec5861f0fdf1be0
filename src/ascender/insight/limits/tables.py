"""Tables of the limits, from the summaries of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ascender.common.files import write
from ascender.insight.grouping import mean_interval
from ascender.insight.limits.distance import GUIDE
from ascender.insight.limits.flocks import enough_keys
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.strings import STRINGS
from ascender.report.blocks import fill_blocks
from ascender.report.table import Table, csv_text, markdown


def by_length(model: Mapping[str, Any]) -> Table:
    """The model's own weights at every length."""
    rows = [r for r in model["rows"] if r["normalizer"] == model["own"]]
    columns = (
        *_size_columns(model), "H (nats)", "exp(H)", "exp(H)/L", "largest weight", "Δ",
        "at an edge", "½ range", "at its edge", "N_s/N at 0.06 L", "d̃ / bound at 0.06 L",
        "critical N / L", "largest ‖J‖₂",
    )  # fmt: skip
    cells = [
        (*_sizes(model, r), _n(r["entropy"]), _n(r["support"]), _n(r["share"]), _n(r["largest"]),
         _n(r["delta"]), _percent(r["tight"]), _n(r["half_range"]), _percent(r["tight_range"]),
         _n(r["separable"]), _n(r["distance"] / r["bound"]), _n(r["critical"]), _n(r["spectral"]))
        for r in rows
    ]  # fmt: skip
    return _table("lengths", columns, cells)


def by_normalizer(model: Mapping[str, Any]) -> Table:
    """Every normaliser at the shortest and greatest length, on the same scores."""
    lengths = sorted({r["length"] for r in model["rows"]})
    ends = dict.fromkeys((lengths[0], lengths[-1]))
    growth = {r["normalizer"]: r for r in model["growth"]}
    over = "|V|" if "flocks" in model else "L"
    columns = (
        "normaliser", *(f"exp(H)/L at {n}" for n in ends), f"β of exp(H) ∝ {over}^β",
        *(f"{what} at {lengths[-1]}" for what in (
            "largest weight", "outside the envelope", "N_s/N", "critical N / L", "largest ‖J‖₂",
            "largest |J_jl|")),
    )  # fmt: skip
    cells = []
    for name in dict.fromkeys(r["normalizer"] for r in model["rows"]):
        here = {r["length"]: r for r in model["rows"] if r["normalizer"] == name}
        last, grows = here[lengths[-1]], growth.get(name)
        shown = f"{grows['mean']:.2f} ({grows['low']:.2f} … {grows['high']:.2f})" if grows else "–"
        cells.append((
            name + (" (its own)" if name == model["own"] else ""),
            *(_n(here[n]["share"]) for n in ends), shown, _n(last["largest"]),
            _percent(last["outside"]), _n(last["separable"]), _n(last["critical"]),
            _n(last["spectral"]), _n(last["entry"]),
        ))  # fmt: skip
    return _table("normalizers", columns, cells)


def by_selection(model: Mapping[str, Any]) -> Table:
    """N fixed, and N ∝ L: distance, bound, separable share at the shortest and greatest length."""
    lengths = sorted({r["length"] for r in model["curves"]})
    ends = tuple(dict.fromkeys((lengths[0], lengths[-1])))
    columns = ("N", *(f"{what}, L = {n}" for n in ends for what in ("ᾱ", "d̃", "bound", "N_s/N")))
    at: dict[str, dict[int, Mapping[str, Any]]] = {}
    for n in ends:
        here = [r for r in model["curves"] if r["length"] == n]
        for r in here:
            name = f"{r['N']:.0f}" if r["of"] == "N" else f"{r['share']:g} L"
            at.setdefault(name, {})[n] = r
    cells = []
    for name, rows in sorted(at.items(), key=lambda item: (item[0].endswith("L"), _value(item[0]))):
        cells.append((name, *(
            _n(rows[n][what]) if n in rows else "–"
            for n in ends for what in ("mass", "distance", "bound", "separable")
        )))  # fmt: skip
    return _table("selection", columns, cells)


def by_temperature(model: Mapping[str, Any]) -> Table:
    """The largest ‖J‖₂ of a normaliser with the scores divided by T, and the two bounds."""
    temperatures = sorted({r["T"] for r in model["slopes"]})
    names = list(dict.fromkeys(r["normalizer"] for r in model["slopes"]))
    cell = {(r["normalizer"], r["T"]): r for r in model["slopes"]}
    columns = ("T", "1/(4T)", "1/(2T)", *(f"‖J‖₂, {n}" for n in names), f"|J_jl|, {names[0]}")
    rows = [
        (f"{T:g}", _n(1 / (4 * T)), _n(1 / (2 * T)), *(_n(cell[n, T]["spectral"]) for n in names),
         _n(cell[names[0], T]["entry"]))
        for T in temperatures
    ]  # fmt: skip
    return _table("temperature", columns, rows)


def brief(model: Mapping[str, Any]) -> Table:
    """The model's own weights in a few columns: what a terminal shows."""
    columns = (
        *_size_columns(model), "exp(H)", "exp(H)/L", "largest weight", "N_s/N at 0.06 L",
        "largest ‖J‖₂",
    )  # fmt: skip
    cells = [
        (*_sizes(model, r), *(_n(r[what]) for what in (
            "support", "share", "largest", "separable", "spectral")))
        for r in model["rows"] if r["normalizer"] == model["own"]
    ]  # fmt: skip
    return _table("lengths", columns, cells)


def by_flock(model: Mapping[str, Any]) -> Table:
    """|F|/|V| by layer and length, where it is under 0.06, and from how many visible keys on it
    is, as long as it does not grow."""
    sizes = {(r["layer"], r["length"]): r for r in model["flocks"]}
    lengths = sorted({length for _, length in sizes})
    columns = (
        "layer", "|F|", *(f"|F|/|V| at {n}" for n in lengths), f"under {GUIDE} at",
        f"under {GUIDE} from |V|", f"exp(H)/|V| at {lengths[-1]}",
    )  # fmt: skip
    cells = []
    for layer in sorted({layer for layer, _ in sizes}):
        here = {n: sizes[layer, n] for n in lengths}
        last = here[lengths[-1]]
        within = [str(n) for n in lengths if here[n]["share"] < GUIDE]
        cells.append((
            str(layer), _n(last["keys"]), *(_n(here[n]["share"]) for n in lengths),
            ", ".join(within) or "none",
            "–" if last["keys"] >= last["visible"] else str(enough_keys(last["keys"])),
            _n(last["support"] / last["visible"]),
        ))  # fmt: skip
    return _table("flock", columns, cells)


TABLES = {
    "lengths": by_length, "normalizers": by_normalizer, "selection": by_selection,
    "temperature": by_temperature,
}  # fmt: skip
BRIEF = {"lengths": brief}


def tables_of(model: Mapping[str, Any], short: bool = False) -> dict[str, Callable[..., Table]]:
    """The tables of a model by name: `flock` where it has flock scope, after the first."""
    first, *others = (BRIEF if short else TABLES).items()
    flock = [("flock", by_flock)] if "flocks" in model else []
    return dict([first, *flock, *others])


def _size_columns(model: Mapping[str, Any]) -> tuple[str, ...]:
    return ("tokens", "L = |F|") if "flocks" in model else ("L",)


def _sizes(model: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(row["length"]), *([_n(row["keys"])] if "flocks" in model else []))


def side_by_side(one: Mapping[str, Any], two: Mapping[str, Any]) -> Table:
    """Two models by length, each with its own normaliser."""
    first = "tokens" if "flocks" in one or "flocks" in two else "L"
    columns = (first, *(f"{what}, {m['name']}" for what in ("exp(H)", "exp(H)/L", "N_s/N")
                        for m in (one, two)))  # fmt: skip
    by = [
        {r["length"]: r for r in m["rows"] if r["normalizer"] == m["own"]} for m in (one, two)
    ]  # fmt: skip
    rows = [
        (str(n), *(_n(m[n][what]) for what in ("support", "share", "separable") for m in by))
        for n in sorted(set(by[0]) & set(by[1]))
    ]
    return _table("compare", columns, rows)


def over_seeds(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Table:
    """Two variants by length, mean ± sd over seeds, with the differences paired by seed; the last
    row is of the growth β."""
    columns = ("L", "n", *(f"{what}{of}" for what in ("exp(H)/L", "N_s/N") for of in (
        ", with the rules", ", without", ", difference [95%]")))  # fmt: skip

    def cells(one: Sequence[float], two: Sequence[float]) -> tuple[str, ...]:
        a, b = np.array(one), np.array(two)
        gap, low, high = mean_interval(a - b)
        spread = "" if low is None else f" [{low:+.3f}, {high:+.3f}]"
        means = [f"{x.mean():.3f} ± {x.std(ddof=1) if len(x) > 1 else 0:.3f}" for x in (a, b)]
        return (*means, f"{gap:+.3f}{spread}")

    own = [
        tuple({r["length"]: r for r in m["rows"] if r["normalizer"] == m["own"]} for m in pair)
        for pair in pairs
    ]
    growth = [
        tuple(next(g["mean"] for g in m["growth"] if g["normalizer"] == m["own"]) for m in pair)
        for pair in pairs
    ]
    n = str(len(pairs))
    rows = [
        (str(length), n, *(cell for what in ("share", "separable") for cell in cells(
            *([pair[i][length][what] for pair in own] for i in (0, 1)))))
        for length in own[0][0]
    ]  # fmt: skip
    beta = cells(*([pair[i] for pair in growth] for i in (0, 1)))
    return _table("seeds", columns, (*rows, ("β of exp(H) ∝ L^β", n, *beta, "–", "–", "–")))


def heads_csv(measured: Sequence[Measured]) -> str:
    """Every head of every model, a line each."""
    rows = [{"model": m.name, **asdict(row)} for m in measured for row in m.heads]
    return csv_text(list(rows[0]), [list(row.values()) for row in rows])


def fill_tables(text: str, kept: Mapping[str, Mapping[str, Any]]) -> str:
    """A document with its blocks <!-- limits: NAME TABLE --> up to date. NAME is a file NAME.json
    that --out wrote as limits.json, TABLE one of its tables, or of two models `compare` and
    `verdict`; `seeds` is of all files that NAME matches, with a *."""

    def content(name: str) -> str:
        pattern, table = name.split()
        files = [kept[file] for file in sorted(kept) if fnmatchcase(file, pattern)]
        if not files:
            raise ValueError(f"no {pattern}.json for a table; there is {', '.join(sorted(kept))}")
        return _content(files, table)

    return fill_blocks(text, "limits", content)


def rewrite(page: Path, folder: Path | None = None) -> Path:
    """Fill the tables of a page from the files of a folder; by default that of its name."""
    files = sorted((folder or page.with_suffix("")).glob("*.json"))
    kept = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    return write(page, fill_tables(page.read_text(encoding="utf-8"), kept))


def _table(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table.of_text(name, columns, rows, STRINGS.get(f"title.{name}", ("", "")))


def _content(files: Sequence[Mapping[str, Any]], table: str) -> str:
    first = files[0]
    if table == "seeds":
        return markdown(over_seeds([tuple(file["models"]) for file in files]))
    if table == "verdict":
        return f"{first['verdict']}\n"
    if table == "compare":
        return markdown(side_by_side(*first["models"]))
    return markdown(tables_of(first["models"][0])[table](first["models"][0]))


def _value(name: str) -> float:
    return float(name.removesuffix(" L"))


def _n(x: float) -> str:
    """Three digits or so."""
    if x == 0 or 0.001 <= abs(x) < 1000:
        return f"{x:.3g}"
    return f"{x:.2g}" if abs(x) < 0.001 else f"{x:.0f}"


def _percent(x: float) -> str:
    return f"{100 * x:.2g}%"
