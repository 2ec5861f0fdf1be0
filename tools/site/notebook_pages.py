"""Pages of the site that are made of docs/notebooks/*.ipynb: cells and their stored outputs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from repo_pages import DOCS, on_the_site

NOTEBOOKS = DOCS / "notebooks"


def joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def outputs(cell: dict[str, Any], name: str, pictures: dict[str, bytes]) -> list[str]:
    """A code cell's outputs as Markdown; its pictures are added to `pictures`."""
    parts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            file = f"{name}-{len(pictures)}.png"
            pictures[f"notebooks/{file}"] = base64.b64decode(joined(data["image/png"]))
            parts.append(f"![Output of the cell above]({file})")
        else:
            text = joined(output.get("text") or data.get("text/plain", "")).rstrip()
            parts.append(f"``````text\n{text}\n``````")
    return parts


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """(Markdown, pictures by their place on the site) of a notebook."""
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(on_the_site(f"docs/notebooks/{path.name}", source))
        else:
            parts.append(f"``````python\n{source}\n``````")
            parts += outputs(cell, path.stem, pictures)
    download = f"*This page is a notebook: [{path.name}]({path.name}).*"
    parts.insert(1, download)
    return "\n\n".join(parts) + "\n", pictures


def notebook_pages() -> tuple[dict[str, str], dict[str, bytes]]:
    """(Markdown, pictures), by place on the site."""
    pages: dict[str, str] = {}
    pictures: dict[str, bytes] = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text, files = notebook_page(path)
        pages[f"notebooks/{path.stem}.md"] = text
        pictures |= files
    return pages, pictures
