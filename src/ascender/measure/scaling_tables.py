"""The tables of docs/scaling.md: from the formulas of scaling.py, and one from stored rows.

python -m ascender.measure.scaling_tables --into docs/scaling.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ascender.measure import scaling as sc
from ascender.measure.scaling import MODELS, FlockShape, ModelShape
from ascender.report.blocks import fill_document
from ascender.report.table import Table, markdown

CONTEXTS = (1 << 15, 1 << 17, 1 << 20)
BYTES = 2  # per number, in bfloat16
REQUEST = 8  # bytes of a requested position, an int64
FLOCK = FlockShape()
RULES = FlockShape(rules=True, term=True)
PROCESSES = (2, 8, 64, 512)


def cases() -> Iterator[tuple[ModelShape, int]]:
    return ((model, N) for model in MODELS for N in CONTEXTS)


def context(N: int) -> str:
    return f"{N >> 10}k" if N < 1 << 20 else f"{N >> 20}M"


def short(x: float) -> str:
    """Three digits, without an exponent."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def table(name: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown(Table.of_text(name, headings, rows))


def shapes() -> str:
    rows = [
        (m.name, f"{m.parameters:,}", *map(str, (m.layers, m.dim, m.heads, m.kv_heads, m.head_dim)))
        for m in MODELS
    ]
    return table("shapes", ("model", "parameters", "layers", "D", "H", "G", "d"), rows)


def prefill() -> str:
    rows = []
    for m, N in cases():
        f = sc.prefill_flops(m, FLOCK, N)
        flock = f["index"] + f["listed"]
        whole = (f["weights"] + flock) / (f["weights"] + f["dense"])
        giga = (short(f[name] / 1e9) for name in ("weights", "dense", "index", "listed"))
        rows.append((m.name, context(N), *giga, short(flock / f["dense"]), short(whole)))
    heads = ("model", "context", "weights", "dense attention", "index", "flocks",
             "attention: flock/dense", "model: flock/dense")  # fmt: skip
    return table("prefill", heads, rows)


def decoding() -> str:
    rows = []
    for m, M in cases():
        dense, flock = (m.layers * BYTES * sc.decode_reads(m, of, M) / 1e6 for of in (None, FLOCK))
        f, weights = sc.decode_flops(m, FLOCK, M), BYTES * m.multiplied / 1e6
        rows.append((
            m.name, context(M), short(f["dense"] / 1e9),
            short((f["index"] + f["listed"]) / 1e9), short(weights), short(dense), short(flock),
            short(flock / dense), short((weights + flock) / (weights + dense)),
        ))  # fmt: skip
    heads = ("model", "context", "GFLOP dense", "GFLOP flock", "MB weights", "MB cache, dense",
             "MB cache, flock", "cache: flock/dense", "with weights: flock/dense")  # fmt: skip
    return table("decoding", heads, rows)


def memory() -> str:
    rows = []
    for m in MODELS:
        numbers = [sc.cache_numbers(m, of) for of in (None, FLOCK, RULES)]
        at = [short(m.layers * BYTES * n * CONTEXTS[-1] / 1e9) for n in numbers]
        more = [f"{n / numbers[0]:.3f}" for n in numbers[1:]]
        rows.append((m.name, *map(str, numbers), *more, *at))
    heads = ("model", "dense", "flock", "flock and rules", "flock/dense", "with rules/dense",
             "GB at 1M, dense", "flock", "with rules")  # fmt: skip
    return table("memory", heads, rows)


def with_rules() -> str:
    """What the rules and the affinity term add, at one context."""
    N, rows = CONTEXTS[1], []
    for m in MODELS:
        plain, full = (sc.prefill_flops(m, of, N) for of in (FLOCK, RULES))
        attention = [f["index"] + f["listed"] for f in (plain, full)]
        reads = [sc.decode_reads(m, of, N) for of in (None, FLOCK, RULES)]
        rows.append((
            m.name, *(short(a / plain["dense"]) for a in attention),
            *(short(r / reads[0]) for r in reads[1:]),
            *(f"{sc.break_even(m, of):.3f}" for of in (FLOCK, RULES)),
        ))  # fmt: skip
    heads = ("model", "FLOPs flock/dense", "with rules", "bytes at decoding flock/dense",
             "with rules", "break-even share of rows", "with rules")  # fmt: skip
    return table("rules", heads, rows)


def widths() -> str:
    """By the width of the index and the number of far keys, for one model."""
    m, rows = MODELS[3], []
    for N in CONTEXTS[1:]:
        for d_a in (16, 64, 128):
            for far in (256, 2048):
                flock = replace(FLOCK, d_a=d_a, far=far)
                f = sc.prefill_flops(m, flock, N)
                reads = [sc.decode_reads(m, of, N) for of in (None, flock)]
                ratio = (f["index"] + f["listed"]) / f["dense"]
                share = f["index"] / (f["index"] + f["listed"])
                rows.append((context(N), str(d_a), str(far), short(ratio), short(share),
                             short(reads[1] / reads[0])))  # fmt: skip
    heads = ("context", "d_a", "far keys", "FLOPs flock/dense", "of which index",
             "bytes at decoding flock/dense")  # fmt: skip
    return table("widths", heads, rows)


def exchange() -> str:
    """Bytes of a token's K, V and index that later processes receive, for one model."""
    m, N, rows = MODELS[3], CONTEXTS[1], []
    for far in (32, 256, 2048):
        flock = replace(FLOCK, far=far)
        for P in PROCESSES:
            every = sc.remote_rows(N, P)
            chosen = sc.expected_rows(N, P, far)
            dense = _kilobytes(sc.exchanged(m, None, N, P), N)
            most, random = (_kilobytes(sc.exchanged(m, flock, N, P, r), N) for r in (every, chosen))
            rows.append((
                str(far), str(P), short(dense), short(random), short(most),
                f"{chosen / every:.3f}", short(random / dense), short(most / dense),
            ))  # fmt: skip
    heads = ("far keys", "processes", "dense", "flock, random choice", "flock, every row",
             "rows asked for, random choice", "random/dense", "every row/dense")  # fmt: skip
    return table("exchange", heads, rows)


def _kilobytes(numbers: dict[str, float], N: int) -> float:
    """A token, of one layer."""
    payload = (numbers["index"] + numbers["rows"]) * BYTES
    return (payload + numbers["requests"] * REQUEST) / N / 1e3


def decode_exchange() -> str:
    M, P, rows = CONTEXTS[1], 8, []
    for m in MODELS:
        dense, flock = (
            m.layers * BYTES * sc.decode_exchanged(m, of, M, P) / 1e6 for of in (None, FLOCK)
        )
        rows.append((m.name, short(dense), short(flock), short(flock / dense)))
    return table("decode-exchange", ("model", "MB dense", "MB flock", "flock/dense"), rows)


def measured_rows(stored: Path) -> str:
    """The share of rows that trained flocks ask for, as experiments/context_rows.py measured it."""
    measured = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    processes = sorted({row["processes"] for row in measured})
    rows = []
    for far, layer in sorted({(row["far"], row["layer"]) for row in measured}):
        at = {r["processes"]: r for r in measured if (r["far"], r["layer"]) == (far, layer)}
        shares = (f"{at[P]['model']:.3f} ({at[P]['random']:.3f})" for P in processes)
        rows.append((str(far), str(layer), *shares))
    return table("measured", ("far keys", "layer", *(f"P = {P}" for P in processes)), rows)


def tables(stored: Path) -> dict[str, str]:
    """Every block of the page."""
    return {
        "shapes": shapes(), "prefill": prefill(), "decoding": decoding(), "memory": memory(),
        "rules": with_rules(), "widths": widths(), "exchange": exchange(),
        "measured": measured_rows(stored), "decode-exchange": decode_exchange(),
    }  # fmt: skip


def page(path: Path) -> str:
    """The page with its tables up to date; the stored rows are in the folder next to it."""
    return fill_document(path, "scaling", tables(path.parent / path.stem / "rows.jsonl"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of a page on scaling.")
    parser.add_argument("--into", type=Path, required=True, help="the page, docs/scaling.md")
    path = parser.parse_args().into
    path.write_text(page(path), encoding="utf-8")


if __name__ == "__main__":
    main()
