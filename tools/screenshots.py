"""Take the screenshots of the documentation again: docs/img/NAME.png, in Chromium.

python tools/screenshots.py        # all; trains a small model first, about half a minute

The model is the tutorial's, the report that of the stored trials of the quick suite. Both stay in
out/screenshots, so that a second call only takes the pictures. Tests take the same pictures of
other pages (tests/project/test_screenshots.py).
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "img"
WORK = ROOT / "out" / "screenshots"
TRAIN = ("train", "--task", "distinct", "--steps", "200", "--every", "50")  # docs/tutorial.md
EXAMPLE = 4  # five prototypes
SIZE = {"width": 1180, "height": 940}
VIEWS = {"view-matrix": "1", "view-flock": "3"}  # picture: key of the view
PLAY = {  # picture: address of the page of `ascender play`
    "play-flock": "#scene=birds&n=64&i=11", "play-task": "#panel=task",
}  # fmt: skip
CELL = {"layer": 1, "head": 0, "row": 40, "col": 14, "pinned": True}
DRAWN = "() => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 50)))"


def view_pictures(browser: Any, page: Path, out: Path, cell: dict[str, Any] = CELL) -> list[Path]:
    """The views of a page of `ascender view`, a cell pinned."""
    tab = browser.new_page(viewport=SIZE, color_scheme="light")
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=all]", state="attached")
    tab.evaluate("(cell) => go(cell)", cell)
    paths = []
    for name, key in VIEWS.items():
        tab.keyboard.press(key)
        tab.evaluate(DRAWN)
        paths.append(out / f"{name}.png")
        tab.screenshot(path=paths[-1])
    tab.close()
    return paths


def report_picture(browser: Any, page: Path, out: Path) -> Path:
    """The beginning of a report's page."""
    tab = browser.new_page(viewport=SIZE, color_scheme="light")
    tab.goto(page.as_uri())
    tab.screenshot(path=out / "report.png")
    tab.close()
    return out / "report.png"


def play_pictures(browser: Any, page: Path, out: Path) -> list[Path]:
    """The page of `ascender play`: a flock that has moved, and sixty episodes."""
    paths = []
    for name, address in PLAY.items():
        tab = browser.new_page(viewport=SIZE, color_scheme="light")
        tab.goto(page.as_uri() + address)
        tab.wait_for_selector("html[data-ready=all]", state="attached")
        tab.evaluate("() => { for (let t = 0; t < 30; t++) step(0.1); refresh(true); }")
        tab.evaluate("() => { if (S.panel === 'task') TaskPanel.next(60); refresh(true); }")
        tab.evaluate(DRAWN)
        paths.append(out / f"{name}.png")
        tab.screenshot(path=paths[-1])
        tab.close()
    return paths


def ascender(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "ascender.cli", *map(str, words)], check=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    run, view, report = WORK / "run", WORK / "view.html", WORK / "report"
    if not (run / "record.json").exists():
        ascender(*TRAIN, "--out", run)
    ascender("view", run, "--example", EXAMPLE, "--out", view)
    ascender("lab", "report", ROOT / "results" / "quick", "--out", report)
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        taken = view_pictures(browser, view, IMAGES)
        taken.append(report_picture(browser, report / "index.html", IMAGES))
        taken += play_pictures(browser, ROOT / "docs" / "flock.html", IMAGES)
        browser.close()
    for path in taken:
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
