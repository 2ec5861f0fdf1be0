"""The page as one file, and the trained models that it runs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from ascender.common.validate import need
from ascender.demo import NUMBERS, TOKENS, VECTORS
from ascender.insight.page import build
from ascender.insight.page.build import Page, embedded
from ascender.insight.page.pack import Blobs
from ascender.insight.play.strings import SHORTCUTS, STRINGS
from ascender.report.page import environment
from ascender.report.palette import SERIES, TERMS, VARIANTS
from ascender.report.strings import LANGUAGES

HERE = Path(__file__).parent
MODELS = HERE / "fewshot_digits.safetensors"  # written by tools/play_models.py
SHARED = ("blobs.js", "dom.js", "pen.js")  # with the page of `ascender view`
SCRIPTS = (
    "rules.js", "scenes.js", "csv.js", "digits.js", "bars.js", "flock.js", "why.js", "drawing.js",
    "task.js", "state.js", "tour.js", "app.js",
)  # fmt: skip
PANELS = ("flock", "task", "why")


def play_page(blobs: Blobs, own: dict[str, Any] | None = None, lang: str = "en") -> Page:
    """`own`: the heads of a model, as collect.collect_heads gives them."""
    templates = environment(HERE, "view")
    from markupsafe import Markup

    words = {one: STRINGS.texts(one) for one in LANGUAGES}
    data = {
        "languages": words, "lang": lang, "colours": TERMS, "series": SERIES,
        "variants": {name: VARIANTS[name] for name in ("ascender", "vanilla")},
        "blobs": blobs.list, "own": own, "five": _five(), "fewshot": _fewshot(),
    }  # fmt: skip
    return Page(
        templates.get_template("template.html.j2").render(
            lang=lang, w=words[lang], panels=PANELS, shortcuts=SHORTCUTS,
            name="" if own is None else own["name"],
            css=Markup(_text(build.HERE, "page.css") + _text(HERE, "play.css")),
            js=Markup("\n".join(
                [*(_text(build.HERE, s) for s in SHARED), *(_text(HERE, s) for s in SCRIPTS)]
            )),
            data=Markup(embedded(data)),
        )
    )  # fmt: skip


def _text(folder: Path, name: str) -> str:
    return (folder / "static" / name).read_text(encoding="utf-8")


def _five() -> dict[str, Any]:
    """The five words of `ascender demo`."""
    flat = {name: [x for row in rows for x in row] for name, rows in VECTORS.items()}
    flat = {"q": flat["q"], "k": flat["k"], "v": flat["v"], "z": flat["z_q"], "h": flat["h_q"]}
    return {"tokens": TOKENS, "vectors": flat, "rules": NUMBERS}


def _fewshot() -> dict[str, Any]:
    """Weights as one run of float16, where each tensor starts, held-out pictures, the record."""
    need("safetensors", "view")
    from safetensors import safe_open

    tensors, pieces, at = [], [], 0
    with safe_open(MODELS, "np") as file:
        record = json.loads(file.metadata()["record"])
        images, kinds = (_base64(file.get_tensor(name)) for name in ("images", "kinds"))
        for name in sorted(set(file.keys()) - {"images", "kinds"}):
            x = np.ascontiguousarray(file.get_tensor(name), dtype="<f2")
            tensors.append([name, list(x.shape), at])
            pieces.append(x.tobytes())
            at += len(pieces[-1])
    weights = base64.b64encode(b"".join(pieces)).decode("ascii")
    return {
        "record": record,
        "tensors": tensors,
        "weights": weights,
        "images": images,
        "kinds": kinds,
    }


def _base64(x: np.ndarray) -> str:
    return base64.b64encode(x.astype(np.uint8).tobytes()).decode("ascii")
