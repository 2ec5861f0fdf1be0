"""Every link of every page leads somewhere: files, anchors, paths and names in the text."""

import json
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
PATH = re.compile(r"`((?:src|tests|docs|tools|experiments|examples)/[\w./-]+\.\w+)[`:]")
MODULE = re.compile(r"`(ascender(?:\.\w+)+)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
CODE = re.compile(r"^(`{3,}).*?^\1$", re.M | re.S)


def read(path):
    """A page; of a notebook the text of its Markdown cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them; tools/site makes the same."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", CODE.sub("", read(path)))
    found = {}
    for heading in HEADING.findall(text):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return set(found)


MARKDOWN = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb"),
     *ROOT.glob(".github/*.md")]
)  # fmt: skip


def broken(page, text):
    """Relative links, paths and module names of a page that lead nowhere."""
    missing = []
    for link, anchor in LINK.findall(CODE.sub("", text)):
        to = page.parent / link.replace("\\", "") if link else page
        if "://" not in link and not to.exists():
            missing.append(link)
        elif anchor and to.suffix in (".md", ".ipynb") and anchor[1:] not in anchors(to):
            missing.append(link + anchor)
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    for name in MODULE.findall(text) if page.name != "notation.md" else ():  # has its own test
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    return missing


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page):
    text = read(page)
    if page.name == "CHANGELOG.md":  # older releases name what was there then
        text = text.split("\n## ")[0]
    assert broken(page, text) == []


def test_a_broken_link_is_found():
    text = "[a](docs/nowhere.md) [b](docs/tasks.md#x) [c](docs/tasks.md) "
    text += "`src/ascender/nowhere.py` `ascender.nowhere`"
    found = ["docs/nowhere.md", "docs/tasks.md#x", "src/ascender/nowhere.py", "ascender.nowhere"]
    assert broken(ROOT / "README.md", text) == found
