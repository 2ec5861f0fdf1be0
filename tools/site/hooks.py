"""What mkdocs calls while it builds the site (mkdocs.yml): pages that are not files of docs/."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from api_pages import PAGES, api_pages  # noqa: E402
from command_pages import command_pages  # noqa: E402
from notebook_pages import notebook_pages  # noqa: E402
from repo_pages import repo_pages, rewritten  # noqa: E402

GENERATED: set[str] = set()
REFERENCE = "API"  # the heading in mkdocs.yml under which the API pages are listed
WIDE = ("results", "benchmark", "compatibility", "limits", "scaling", "retrofit")


def on_config(config: Any) -> Any:
    """The API pages in the navigation."""
    for section in config.nav:
        for items in section.values():
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict) and REFERENCE in item:
                    item[REFERENCE] = [f"reference/{name}.md" for name in PAGES]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Pages of the README, of linked files, of notebooks, of docstrings and of commands."""
    notebooks, pictures = notebook_pages()
    pages = {**repo_pages(), **api_pages(), **command_pages(), **notebooks}
    GENERATED.clear()
    GENERATED.update(pages)
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    for uri, data in pictures.items():
        files.append(File.generated(config, uri, content=data))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links; and room for wide tables, where a column of links beside them has to go."""
    uri = page.file.src_uri
    hidden = ["navigation"] if uri.startswith("index.") else []
    if uri.startswith(WIDE):
        hidden = ["toc"]
    page.meta.setdefault("hide", hidden)
    return markdown if uri in GENERATED else rewritten(uri, markdown)


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Korean pages have Korean buttons, and say so to browsers."""
    korean = page.file.src_uri.endswith(".ko.md")
    config.theme["language"] = "ko" if korean else "en"
    return context


def on_post_build(config: Any) -> None:
    """No script names a server: the theme would load what no page here uses (diagrams)."""
    for script in Path(config.site_dir).glob("assets/javascripts/bundle*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(re.sub(r"https://unpkg\.com/[\w@./-]*", "", text), encoding="utf-8")
