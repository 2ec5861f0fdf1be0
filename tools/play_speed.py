"""Measure how long the page of `ascender play` takes for a frame: a step of the flock, every score
again, and the drawing.

    python tools/play_speed.py docs/flock.html

CPU time of the page's main thread in headless Chromium, and frames a second (at most those of the
display; fewer where other programs use the cores).
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

TOKENS, SECONDS = (64, 128, 256), 5


def measured(page: Page, session: Any) -> tuple[float, float, float]:
    """(frames, seconds, CPU seconds) since the page opened."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    cpu = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    frames, now = page.evaluate("() => [playing.frames, performance.now()]")
    return frames, now / 1000, cpu


def main(file: Path) -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for tokens in TOKENS:
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            page.goto(f"{file.resolve().as_uri()}#n={tokens}&k=16")
            page.wait_for_selector("html[data-ready=all]", state="attached")
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.keyboard.press("Space")
            page.wait_for_timeout(1500)
            before = measured(page, session)
            page.wait_for_timeout(1000 * SECONDS)
            after = measured(page, session)
            frames, seconds, cpu = (b - a for a, b in zip(before, after, strict=True))
            print(
                f"{tokens} tokens: {1000 * cpu / frames:.1f} ms of CPU time a frame, "
                f"{frames / seconds:.0f} frames a second"
            )
            page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    main(parser.parse_args().file)
