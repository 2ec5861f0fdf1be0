"""Pages of the site that are made of files of the repository: the README, files that pages link to.

A page of docs/ may link to any file of the repository. On the site such a link leads to a page made
of that file: Markdown as it is, code as a block, a folder as a list of its files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
START = {"README.md": "index.md", "README.ko.md": "index.ko.md"}  # the site's first pages
LINK = re.compile(r"(?<=\]\()([^)\s#]+)((?:#[^)\s]*)?)(?=\))")
LEXERS = {".py": "python", ".j2": "jinja", ".toml": "toml", ".c": "c", ".yml": "yaml"}
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"


def place(path: str) -> str:
    """Where the site has a file of the repository.

    README.md → index.md, docs/tasks.md → tasks.md, src/a.py → code/src/a.py.md
    """
    if path in START:
        return START[path]
    if path.startswith("docs/") and not (ROOT / path).is_dir():
        return path.removeprefix("docs/")
    return f"code/{path}" if path.endswith(".md") else f"code/{path}.md"


def target(page: str, link: str) -> str | None:
    """The file or folder of the repository that a relative link of a page leads to."""
    if "://" in link or link.startswith(("/", "mailto:")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link.replace("\\", "")))
    return None if path.startswith("..") or not (ROOT / path).exists() else path


def on_the_site(page: str, text: str) -> str:
    """The Markdown of a file of the repository with its links as they are on the site."""
    here = posixpath.dirname(place(page))

    def moved(match: re.Match[str]) -> str:
        path = target(page, match[1])
        if path is None:
            return match[0]
        return posixpath.relpath(place(path), here or ".") + match[2]

    return LINK.sub(moved, text)


def linked(page: str, text: str) -> list[str]:
    """Files and folders outside docs/ that a page links to."""
    found = (target(page, match[1]) for match in LINK.finditer(text))
    outside = [path for path in found if path and path not in START]
    return [path for path in outside if not path.startswith("docs/") or (ROOT / path).is_dir()]


def text_of(path: str) -> str:
    """The page of a file or folder outside docs/."""
    file = ROOT / path
    if path.endswith(".md"):
        return on_the_site(path, file.read_text(encoding="utf-8"))
    if file.is_dir():
        names = sorted(p.name + "/" * p.is_dir() for p in file.iterdir() if p.name[0] not in "._")
        body = "\n".join(f"- `{name}`" for name in names)
    else:
        lexer = LEXERS.get(file.suffix, "text")
        body = f"``````{lexer}\n{file.read_text(encoding='utf-8')}``````"
    return f"{HIDDEN}# {path}\n\n{body}\n"


def repo_pages() -> dict[str, str]:
    """Place on the site → Markdown, of the READMEs and of every file that pages link to."""
    pages = {place(path): text_of(path) for path in START}
    todo = [(path, (ROOT / path).read_text(encoding="utf-8")) for path in START]
    todo += [(f"docs/{p.relative_to(DOCS).as_posix()}", p.read_text(encoding="utf-8"))
             for p in DOCS.rglob("*.md")]  # fmt: skip
    while todo:
        for path in linked(*todo.pop()):
            if place(path) not in pages:
                pages[place(path)] = text_of(path)
                if path.endswith(".md"):
                    todo.append((path, (ROOT / path).read_text(encoding="utf-8")))
    return pages


def rewritten(docs_page: str, text: str) -> str:
    """A page of docs/ with its links outside as they are on the site."""
    return on_the_site(f"docs/{docs_page}", text)
