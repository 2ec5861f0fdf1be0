"""The pictures of the documentation are those that tools/screenshots.py takes."""

import re
import runpy
from pathlib import Path

import pytest

from support.browser import BROWSER_TESTS, CHROMIUM, sync_api

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "screenshots.py"))
NAMES = (*TOOL["VIEWS"], "report", *TOOL["PLAY"])


def size(path):
    """Width and height of a PNG."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_there_and_shown(name):
    path = ROOT / "docs" / "img" / f"{name}.png"
    assert size(path) == tuple(TOOL["SIZE"].values())
    pages = [page.read_text("utf-8") for page in ROOT.glob("docs/**/*.md")]
    assert any(re.search(rf"img/{name}\.png", page) for page in pages)


def test_the_model_is_that_of_the_tutorial():
    assert " ".join(("ascender", *TOOL["TRAIN"])) in (ROOT / "docs/tutorial.md").read_text("utf-8")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.browser
@BROWSER_TESTS[1]
def test_the_pictures_can_be_taken_again(browser, tmp_path):
    """Of a small model, and of a page that stands for a report."""
    from ascender.insight import view
    from support.view_cases import TEXT, model, tokenizer

    view(model(), tokenizer(), TEXT, tmp_path / "view.html")
    cell = {"layer": 0, "head": 0, "row": 9, "col": 4, "pinned": True}
    paths = TOOL["view_pictures"](browser, tmp_path / "view.html", tmp_path, cell)
    (tmp_path / "report.html").write_text("<!doctype html><h1>1 won</h1>", "utf-8")
    paths.append(TOOL["report_picture"](browser, tmp_path / "report.html", tmp_path))
    paths += TOOL["play_pictures"](browser, ROOT / "docs" / "flock.html", tmp_path)
    assert [path.stem for path in paths] == list(NAMES)
    assert len({path.read_bytes() for path in paths}) == len(NAMES)
    assert all(size(path) == tuple(TOOL["SIZE"].values()) for path in paths)
    assert paths[0].stat().st_size > 30_000
