"""The site: every public name has a place in it, it builds without a warning, and a page of it asks
nobody for anything."""

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import ascender
from support.browser import CHROMIUM

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["'](?:https?:)?//""")


@pytest.fixture(scope="module")
def tools():
    """tools/site on Python's path."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    yield importlib.import_module
    sys.path.remove(str(ROOT / "tools" / "site"))


def test_every_public_name_is_on_a_page_of_the_reference(tools):
    listed = [path for _, _, paths in tools("api_pages").PAGES.values() for path in paths]
    assert len(listed) == len(set(listed))
    for path in listed:
        thing = pkgutil.resolve_name(path)
        assert f"{thing.__module__}.{thing.__qualname__}" == path
        assert thing.__doc__, f"{path} has no docstring"
    members = tools("api_pages").MEMBERS
    assert set(members) <= set(listed)
    for path, names in members.items():
        for name in names:
            assert hasattr(pkgutil.resolve_name(path), name), (path, name)
    assert set(ascender.__all__) <= {path.rpartition(".")[2] for path in listed}


def test_every_command_is_on_the_page_of_commands(tools):
    typer = pytest.importorskip("typer")
    from ascender.cli import app

    page = tools("command_pages").command_pages()["reference/commands.md"]
    groups = typer.main.get_command(app).commands
    for name, command in groups.items():
        assert f"## ascender {name}\n" in page
        for below in getattr(command, "commands", {}):
            assert f"### ascender {name} {below}\n" in page
    assert "| `--variant" in page
    assert "```sh\nascender lab run quick" in page


def test_links_outside_the_docs_lead_to_pages_of_the_site(tools):
    pages = tools("repo_pages")
    text = "[a](../README.md#install) [b](../src/ascender/demo.py) [c](tasks.md) [d](results)"
    there = "[a](index.md#install) [b](code/src/ascender/demo.py.md) [c](tasks.md) "
    assert pages.rewritten("using.md", text) == there + "[d](code/docs/results.md)"
    made = pages.repo_pages()
    assert {"index.md", "index.ko.md", "code/CONTRIBUTING.md"} <= set(made)
    assert "](definition.md)" in made["index.md"]
    assert "softmax" in made["code/src/ascender/core/softmax.py.md"]


def test_docstrings_are_markdown(tools):
    pytest.importorskip("griffe")
    as_markdown = tools("docstring_examples").as_markdown
    assert as_markdown("Sum.\n\n>>> 1 + 1\n2\n") == "Sum.\n\n```pycon\n>>> 1 + 1\n2\n```"
    listed = "Sum.\n\na      one number,\n       the first\nb, c   two more"
    assert as_markdown(listed) == "Sum.\n\n- `a`: one number, the first\n- `b, c`: two more"
    assert as_markdown("a      one\nlonger the") == "- `a`: one\n- `longer`: the"
    for same in ("Sum.\n\n    a + b      c", "Text of\nmany words.  And more"):
        assert as_markdown(same) == same


def test_the_settings_of_a_run_have_defaults_and_texts(tools):
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions(tools("docstring_examples").Examples)
    found = griffe.load("ascender", search_paths=[ROOT / "src"], extensions=extensions)
    run = found["train.run.Run"]
    defaults = {p.name: p.default and str(p.default) for p in run.parameters}
    assert (defaults["task"], defaults["steps"]) == (None, "1000")
    assert "- `seed`: Seed of the weights" in run.docstring.value
    assert run.docstring.value.count("- `seed`") == 1


def test_a_notebook_becomes_a_page(tools):
    text, pictures = tools("notebook_pages").notebook_page(
        ROOT / "docs" / "notebooks" / "five_tokens.ipynb"
    )
    assert text.startswith("# From five tokens to a sentence")
    assert "](../definition.md)" in text
    assert len(pictures) == text.count("![Output")
    assert all(data.startswith(b"\x89PNG") for data in pictures.values())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: a broken link, anchor or name of the API is an error."""
    pytest.importorskip("material", reason="needs the extra docs")
    pytest.importorskip("mkdocstrings_handlers.python")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    out = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(out), strict=True))
    return out


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assert not LOADED.search(page.read_text("utf-8")), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet
    text = (site / "reference" / "attention.html").read_text("utf-8")
    assert "AscenderAttention" in text
    assert 'lang="ko"' in (site / "definition.ko.html").read_text("utf-8").split("<body")[0]
    assert 'lang="en"' in (site / "definition.html").read_text("utf-8").split("<body")[0]


WIDER = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1)
    .map((e) => [e.innerText.slice(0, 60), e.scrollWidth, e.clientWidth])"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser here")
def test_pages_open_from_disk_and_ask_nobody(site):
    """Without errors; no table and no page scrolls sideways, on a phone no page does."""
    from playwright.sync_api import sync_playwright

    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) > 60

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1300, "height": 900})
        asked, troubles, wide = [], [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        for page in pages:
            tab.goto(page.as_uri(), wait_until="load")
            for width in (400, 1300):
                tab.set_viewport_size({"width": width, "height": 900})
                if tab.evaluate("() => document.documentElement.scrollWidth") > width:
                    wide.append((page.name, width))
            wide += [(page.name, *table) for table in tab.evaluate(WIDER)]
        browser.close()
    assert [u for u in asked if not u.startswith(("file:", "data:", "blob:"))] == []
    assert troubles == []
    assert wide == []
