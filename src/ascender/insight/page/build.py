"""The page as one file: template, styles, scripts and data in one text that needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.insight.page.pack import Blobs
from ascender.insight.page.strings import SHORTCUTS, STRINGS
from ascender.report.page import environment
from ascender.report.palette import TERMS

HERE = Path(__file__).parent
SCRIPTS = (
    "blobs.js", "dom.js", "pen.js", "numbers.js", "matrix.js", "row.js", "flock.js", "whatif.js",
    "task.js", "page.js",
)  # fmt: skip
TALL = 900  # of a page inside a notebook


@dataclass(frozen=True)
class Page:
    """A finished page: `save` it, or let a notebook show it."""

    html: str

    def save(self, path: str | Path) -> Path:
        return write(Path(path), self.html)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads '
            f'allow-modals" style="width:100%;height:{TALL}px;border:0" title="ASCender"></iframe>'
        )


def page(models: Sequence[dict[str, Any]], blobs: Blobs, lang: str = "en") -> Page:
    """One model, or several side by side, as collect_page_data gives them."""
    templates = environment(HERE, "view")
    from markupsafe import Markup

    w = STRINGS.texts(lang)
    static = {name: (HERE / "static" / name).read_text(encoding="utf-8") for name in SCRIPTS}
    css = (HERE / "static" / "page.css").read_text(encoding="utf-8")
    tokens = models[0]["tokens"]
    return Page(
        templates.get_template("template.html.j2").render(
            lang=lang, w=w, title=" | ".join(model["name"] for model in models),
            facts=_facts(models, w), shortcuts=SHORTCUTS,
            apart=not any(token.startswith(" ") for token in tokens), css=Markup(css),
            js=Markup("\n".join(static.values())),
            data=Markup(embedded(
                {"models": models, "blobs": blobs.list, "words": w, "colours": TERMS}
            )),
        )
    )  # fmt: skip


def embedded(value: object) -> str:
    """JSON that may stand inside <script>: no token can end it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _facts(models: Sequence[dict[str, Any]], w: dict[str, str]) -> str:
    lines = [
        w["facts"].format(
            tokens=model["of"], layers=len(model["layers"]),
            heads=max(len(layer["heads"]) for layer in model["layers"]),
        )
        for model in models
    ]  # fmt: skip
    return " | ".join(dict.fromkeys(lines))
