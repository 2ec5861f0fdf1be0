"""Tests of every combination of attention, position, normaliser and kind of pass.

A combination either runs and keeps the laws, or raises an error that names one that does work:

    visibility   changing token j changes no row that may not see j (causal, padded, window)
    definition   the pass equals the definition with N×M matrices, where there is one
    decoding     rows one at a time against a cache equal the full pass, padding included
    effect       the position and the normaliser change the output: none is ignored
    finite       outputs and gradients; every learned number of either gets a gradient
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.common.files import write
from ascender.common.user_code import import_code, is_code
from ascender.core.neighbours import graph
from ascender.core.normalizers import NORMALIZERS, normalizer
from ascender.nn.baselines import ATTENTIONS, attention_kind
from ascender.nn.baselines.graph import GraphBias
from ascender.nn.positions import POSITIONS
from ascender.nn.slot import Attention

MODES = ("full", "causal", "padded", "window", "decode")
DIM, HEADS, TOKENS, WINDOW = 12, 3, 11, 2
CLOSE = 1e-9
SMALL: dict[str, dict[str, Any]] = {"bigbird": {"block": 2}}  # so that a pattern shows
SHARP: dict[str, dict[str, Any]] = {  # settings at which a short row shows the difference
    "softmax": {"temperature": 0.5},
    "topk": {"size": 2},
}


class LawBroken(AssertionError):
    """A combination that runs and breaks a law."""


@dataclass(frozen=True)
class CompatCell:
    attention: str
    position: str
    normalizer: str
    mode: str


@dataclass(frozen=True)
class Verdict:
    cell: CompatCell
    runs: bool
    why: str = ""  # the refusal


def cells(
    attentions: Iterable[str] = ATTENTIONS, positions: Iterable[str] = POSITIONS,
    normalizers: Iterable[str] = NORMALIZERS, modes: Iterable[str] = MODES,
) -> Iterator[CompatCell]:  # fmt: skip
    """The table's cells, row by row."""
    return (CompatCell(*names) for names in product(attentions, positions, normalizers, modes))


@overload
def check(what: CompatCell, make: Callable[..., Attention] | None = None) -> Verdict: ...


@overload
def check(what: str | type[Attention]) -> list[Verdict]: ...


def check(
    what: CompatCell | str | type[Attention], make: Callable[..., Attention] | None = None
) -> Verdict | list[Verdict]:
    """Try a cell (`make`: with an attention that is in no registry), or every cell of an attention:
    a registered name, a class, or module:Class."""
    if isinstance(what, CompatCell):
        return _check(what, make)
    if isinstance(what, str):
        if is_code(what):
            import_code(what)
        attention_kind(what)
        return [_check(cell) for cell in cells([what])]
    return [_check(cell, what) for cell in cells([what.__name__])]


def _check(cell: CompatCell, make: Callable[..., Attention] | None = None) -> Verdict:
    try:
        module = build(cell, make)
        check_visibility(module, cell)
        if cell.mode == "decode":
            check_decoding(module, cell)
    except ValueError as refusal:
        return Verdict(cell, False, str(refusal))
    if cell.mode != "decode":
        check_definition(module, cell)
        check_effect(module, cell, make)
        check_finite(module, cell)
    return Verdict(cell, True)


def build(cell: CompatCell, make: Callable[..., Attention] | None = None) -> Attention:
    """A small module of the cell, with no number left at a start that would hide it."""
    torch.manual_seed(0)
    options = dict(SMALL.get(cell.attention, {}))
    if cell.mode == "window":
        options.update(window=WINDOW, n_global=1)
    module = (make or attention_kind(cell.attention))(
        DIM, HEADS, position=cell.position, **options,
        normalizer=normalizer(cell.normalizer, heads=HEADS, **SHARP.get(cell.normalizer, {})),
    )  # fmt: skip
    module = module.double().eval()
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    return module


def tokens(n: int = TOKENS, batch: int = 2) -> Float[Tensor, "B N dim"]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(batch, n, DIM, generator=g, dtype=torch.float64)


def run(module: Attention, x: Float[Tensor, "B N dim"], cell: CompatCell, **more: Any) -> Any:
    """The pass of a mode; decoding is compared with the causal one."""
    options: dict[str, Any] = {"causal": cell.mode in ("causal", "decode")}
    if cell.mode == "padded":
        options["mask"] = padding(x)
    if isinstance(module, GraphBias):
        ring = torch.arange(x.shape[1])
        options["neighbours"] = graph(torch.stack([ring[:-1], ring[1:]]), x.shape[1])
    return module(x, **options, **more)


def padding(x: Tensor) -> Bool[Tensor, "B N"]:
    """The first three tokens and the last are not there."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    real[:, :3] = real[:, -1] = False
    return real


def may_see(module: Attention, cell: CompatCell) -> Bool[Tensor, "N N"]:
    """Which rows may change with which tokens."""
    i, j = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    if cell.mode in ("causal", "decode"):
        visible = j <= i
    elif cell.mode == "padded":
        visible = padding(tokens())[:1].expand(TOKENS, -1)
    elif cell.mode == "window":
        visible = module.pattern(i[:, 0], j).any(0)
    return visible | (i == j)


@torch.no_grad()
def check_visibility(module: Attention, cell: CompatCell) -> None:
    x = tokens(batch=1)
    changed = x.repeat(TOKENS + 1, 1, 1)
    every = torch.arange(TOKENS)
    changed[every, every] = 1 - 2 * changed[every, every]
    y = run(module, changed, cell)
    moved = ((y[:-1] - y[-1:]).abs().amax(-1) > CLOSE).T  # [row, token]
    rows = padding(x)[0] if cell.mode == "padded" else torch.ones(TOKENS, dtype=torch.bool)
    leak = moved & ~may_see(module, cell) & rows[:, None]
    if bool(leak.any()):
        i, j = leak.nonzero()[0].tolist()
        raise LawBroken(f"{cell}: row {i} changes with token {j}, which it may not see")
    if not bool(moved[-2, :-2].any()):
        raise LawBroken(f"{cell}: row {TOKENS - 2} attends to no other token")


@torch.no_grad()
def check_definition(module: Attention, cell: CompatCell) -> None:
    if type(module).parts is Attention.parts:
        return
    x = tokens()
    worst = (run(module, x, cell) - run(module, x, cell, return_parts=True)[0]).abs().max()
    if not float(worst) < CLOSE:
        raise LawBroken(f"{cell}: the pass is {float(worst):.1e} from its definition")


def check_decoding(module: Attention, cell: CompatCell) -> None:
    x, cut = tokens(), 4
    for real in (None, padding(x) | (torch.arange(TOKENS) == TOKENS - 1)):
        cache, got = module.new_cache(), []
        with torch.no_grad():
            want = run(module, x, cell, mask=real)
            for a, b in [(0, cut), *((i, i + 1) for i in range(cut, TOKENS))]:
                mask = None if real is None else real[:, a:b]
                got.append(module(x[:, a:b], cache=cache, mask=mask))
        rows = slice(None) if real is None else real[0]
        worst = (torch.cat(got, 1) - want)[:, rows].abs().max()
        if not float(worst) < CLOSE:
            raise LawBroken(f"{cell}: decoding is {float(worst):.1e} from the full pass")


@torch.no_grad()
def check_effect(
    module: Attention, cell: CompatCell, make: Callable[..., Attention] | None
) -> None:
    """Compared with the same module without its position, and with a plain softmax."""
    x = tokens()
    y = run(module, x, cell)
    for name, plain in (
        ("position", POSITIONS["none"]()),
        ("normalizer", NORMALIZERS["softmax"]()),
    ):
        if name == "position" and cell.position == "none":
            continue
        without = build(cell, make)
        setattr(without, name, plain)
        if float((run(without, x, cell) - y).abs().max()) < 1e-6:
            raise LawBroken(f"{cell}: the {name} changes nothing")


def check_finite(module: Attention, cell: CompatCell) -> None:
    x = tokens().requires_grad_()
    y = run(module, x, cell)
    y.square().sum().backward()
    owners = {"position": module.position, "normalizer": module.normalizer}
    for name, owner in owners.items():
        for number, p in owner.named_parameters():
            if p.grad is None or not bool((p.grad != 0).any()):
                raise LawBroken(f"{cell}: {name}.{number} gets no gradient")
    tensors = [y, x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]
    if not all(bool(t.isfinite().all()) for t in tensors if t is not None):
        raise LawBroken(f"{cell}: outputs or gradients that are not finite")


# The table that the package ships; `ascender list compat --check --write .` makes it again.

STORED = "compat.json"
PAGE = "compatibility.md"


def stored() -> dict[str, Any]:
    """The table as shipped: attention → position → normaliser → modes and refusals."""
    kept = json.loads(files("ascender.nn").joinpath(STORED).read_text("utf-8"))
    for entry in _entries(kept["table"]):
        entry["refuses"] = {mode: kept["reasons"][i] for mode, i in entry["refuses"].items()}
    table: dict[str, Any] = kept["table"]
    return table


def _entries(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (entry for rows in table.values() for row in rows.values() for entry in row.values())


def tried(attentions: Iterable[str], say: Callable[[str], None]) -> Iterator[Verdict]:
    """Every cell of these, with a word on the way."""
    for name in attentions:
        say(f"trying {name}")
        yield from check(name)


def table(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Verdicts as the table: the modes that run, and why the others do not."""
    table: dict[str, Any] = {}
    for v in verdicts:
        c = v.cell
        row = table.setdefault(c.attention, {}).setdefault(c.position, {})
        entry = row.setdefault(c.normalizer, {"runs": [], "refuses": {}})
        if v.runs:
            entry["runs"].append(c.mode)
        else:
            entry["refuses"][c.mode] = v.why
    return table


def letters(entry: dict[str, Any]) -> str:
    """FCPWD, what runs of it, or —."""
    return "".join(mode[0].upper() for mode in entry["runs"]) or "—"


def page(table: dict[str, Any]) -> str:
    """The table in Markdown."""
    lines = [PREAMBLE]
    for attention, rows in table.items():
        names = list(next(iter(rows.values())))
        lines += [f"## {attention}", "", f"| position | {' | '.join(names)} |"]
        lines.append("|---" * (len(names) + 1) + "|")
        reasons: dict[str, None] = {}
        for position, row in rows.items():
            lines.append(f"| {position} | {' | '.join(letters(e) for e in row.values())} |")
            for entry in row.values():
                reasons.update(dict.fromkeys(entry["refuses"].values()))
        if reasons:
            lines += ["", "Other combinations raise:", "", *(f"- {text}" for text in reasons)]
        lines.append("")
    return "\n".join(lines)


def save(table: dict[str, Any], root: Path) -> list[Path]:
    """The table and its page, where a checkout of the project has them."""
    reasons = list(dict.fromkeys(why for e in _entries(table) for why in e["refuses"].values()))
    kept = deepcopy(table)
    for entry in _entries(kept):
        entry["refuses"] = {mode: reasons.index(why) for mode, why in entry["refuses"].items()}
    text = json.dumps({"reasons": reasons, "table": kept}, ensure_ascii=False, indent=1) + "\n"
    return [
        write(root / "src" / "ascender" / "nn" / STORED, text),
        write(root / "docs" / PAGE, page(table)),
    ]


PREAMBLE = """# Compatibility

Which attention (one table each) runs with which position (rows) and normaliser (columns). A cell
lists the kinds of pass that are supported: F full, C causal, P padded, W window, D decoding with a
cache; — none. Every other combination raises one of the errors below the table.

Each supported combination is tested at a small size (`src/ascender/nn/compat.py`): no row depends
on tokens that it may not see, the pass equals the dense definition where there is one, decoding
equals the full pass, outputs and gradients are finite, and position and normaliser both change the
output, so that none is silently ignored. `ascender list compat --check --write .` runs these tests
and writes this page; a test repeats it and compares.
"""
