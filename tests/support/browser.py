"""A tab of a real Chromium, for tests of the page; the browser is a fixture (tests/insight)."""

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
BROWSER_TESTS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason=f"no browser here: none of {', '.join(NAMES)}"),
]


class Tab:
    """A tab, with everything it complained about and asked for."""

    def __init__(self, browser, file, **kind):
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **kind)
        self.tab = self.context.new_page()
        self.troubles, self.asked = [], []
        self.tab.on("console", lambda m: self.troubles.append(m.text) if m.type != "log" else None)
        self.tab.on("pageerror", lambda e: self.troubles.append(str(e)))
        self.tab.on("request", lambda r: self.asked.append(r.url))
        self.open(file)
        self.tab.wait_for_selector("html[data-ready=all]", state="attached")

    def open(self, file):
        self.tab.goto(file.as_uri())

    def text(self, what):
        return self.tab.inner_text(what)

    def frame(self):
        """After the next picture is drawn."""
        self.tab.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")


class PlayTab(Tab):
    """The page of `ascender play`, without its tour unless that is asked for; `at`: its address."""

    def __init__(self, browser, file, tour=False, at="", **kind):
        self.tour, self.at = tour, at
        super().__init__(browser, file, **kind)

    def open(self, file):
        if not self.tour:
            self.context.add_init_script("localStorage.setItem('ascender-play-tour', '1')")
        self.tab.goto(file.as_uri() + self.at)

    def slide(self, name, value):
        """Move a slider."""
        self.tab.evaluate(
            "([id, v]) => { const s = document.getElementById(id); s.value = v; s.oninput() }",
            [name, value],
        )
        self.frame()
