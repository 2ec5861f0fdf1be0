"""index.html and the files beside it: one page, no network, opens from disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.insight.limits import figures, tables
from ascender.insight.limits.advice import advice
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.strings import CAPTIONS, DEFINITIONS, TITLES, langs, pick
from ascender.insight.limits.summary import compared, of, summary, verdict

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --card: #f6f8fa; --line: #d1d9e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9da7b3; --paper: #0d1117; --card: #161b22; --line: #30363d; } }
body { margin: 0 auto; padding: 1rem .9rem 4rem; max-width: 72rem; font: 16px/1.55 system-ui, "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic", sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); } h3 { font-size: 1rem; }
.said { font-size: 1.1rem; max-width: 60rem; } .soft, figcaption { color: var(--soft); font-size: .875rem; } figcaption span, li span, p span { display: block; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; white-space: nowrap; } thead th { border-bottom: 2px solid var(--line); }
th:first-child, td:first-child { text-align: left; } tbody tr:hover { background: var(--card); }
figure { margin: 1.25rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
"""  # noqa: E501


def report(
    measured: Measured, out: Path, other: Measured | None = None, lang: str = "en",
    asked: dict[str, Any] | None = None, paired: bool = False,
) -> list[Path]:  # fmt: skip
    """limits.json and limits.md (means over heads), rows.json and heads.csv (every head), figures,
    index.html."""
    both, models = langs(lang), [measured, *([other] if other else [])]
    kept = [summary(m) for m in models]
    said = None if other is None else verdict(compared(measured, other, paired))
    written = [
        write(out / "limits.json", _json({"asked": asked or {}, "models": kept, "verdict": said})),
        write(out / "rows.json", json.dumps([m.asdict() for m in models])),
        write(out / "heads.csv", tables.heads_csv(models)),
        write(out / "limits.md", document(kept, said, advice(measured))),
    ]
    drawn: list[tuple[str, str]] = []
    with figures.style():
        for i, m in enumerate(models):
            for name, draw in figures.FIGURES.items():
                label = name if i == 0 else f"{name}-other"
                written += figures.save(draw(m, lang), out, label)
                drawn.append((name, label))
        if other is not None:
            written += figures.save(figures.compare(measured, other, lang), out, "compare")
            drawn.insert(0, ("compare", "compare"))
    text = _page(models, kept, said, drawn, out, both)
    return [*written, write(out / "index.html", text)]


def document(
    kept: Sequence[dict[str, Any]], said: str | None, advised: Sequence[tuple[str, str]] = ()
) -> str:
    """The tables as Markdown, at the end what was seen and what to do."""
    parts = ["# Limits of normalisation\n"]
    if said is not None:
        parts += [said + "\n", tables.markdown(tables.side_by_side(*kept))]
    for found in kept:
        parts.append(f"## {escape(found['name'])}\n")
        for name, table in tables.TABLES.items():
            parts += [f"{pick(TITLES[name], 'en')}\n", tables.markdown(table(found))]
    parts += [f"{pick(pair, 'en')}\n" for pair in advised]
    return "\n".join(parts)


def _page(
    models: Sequence[Measured], kept: Sequence[dict[str, Any]], said: str | None,
    drawn: Sequence[tuple[str, str]], out: Path, both: Sequence[str],
) -> str:  # fmt: skip
    def title(name: str) -> str:
        return " · ".join(escape(pick(TITLES[name], one)) for one in both)

    names = escape(" · ".join(m.name for m in models))
    body = [f"<h1>{title('page')}</h1><p class=soft>ASCender · {names} · arXiv 2508.17821</p>"]
    body += [f"<p class=said>{_each(pair, both)}</p>" for pair in advice(models[0])]
    if said is not None:
        body.append(f"<h2>{title('compare')}</h2><p>{escape(said)}</p>")
        body.append(tables.html(tables.side_by_side(*kept)))
    for m, found in zip(models, kept, strict=True):
        told = guideline(of(m))
        lines = "".join(f"<li>{escape(line)}</li>" for line in told) or f"<li>{title('none')}</li>"
        body.append(f"<h2>{escape(m.name)}</h2><h3>{title('warnings')}</h3><ul>{lines}</ul>")
        for name, table in tables.TABLES.items():
            body.append(f"<h3>{title(name)}</h3>{tables.html(table(found))}")
    body.append(f"<h2>{title('figures')}</h2>")
    body += [_figure(kind, out / f"{label}.svg", both, label) for kind, label in drawn]
    items = "".join(f"<li>{_each(pair, both)}</li>" for pair in DEFINITIONS)
    body.append(f"<h2>{title('definitions')}</h2><ul class=soft>{items}</ul>")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html>\n<html lang="{both[0]}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title('page')} · {names}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _figure(kind: str, svg: Path, both: Sequence[str], label: str) -> str:
    data = base64.b64encode(svg.read_bytes()).decode()
    model = " (2)" if label.endswith("-other") else ""
    return (
        f'<figure><img alt="{kind}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{_each(CAPTIONS[kind], both)}{model}</figcaption></figure>"
    )


def _each(pair: tuple[str, str], both: Sequence[str]) -> str:
    return "".join(f'<span lang="{one}">{escape(pick(pair, one))}</span>' for one in both)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
