"""The report page in a real Chromium: nothing is wider than the window."""

import pytest

from ascender.lab.reports import SuiteResults, read
from ascender.lab.reports.suite_report import all_tables, suite_page
from ascender.report.page import PageFigure, ReportPage, Section, render
from support import lab_cases as cases
from support.browser import BROWSER_TESTS, CHROMIUM, sync_api

pytestmark = BROWSER_TESTS
OPEN = "() => document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true })"
WIDER = """() => [...document.querySelectorAll(".wide")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.firstChild.className)"""


def unmeasured(records):
    return [{k: v for k, v in r.items() if k != "insight"} for r in records]


@pytest.mark.parametrize(
    "change", [unmeasured, pytest.param(list, marks=pytest.mark.slow)], ids=["not", "measured"]
)
def test_no_table_scrolls_sideways_at_1300_pixels(tmp_path, change):
    found = SuiteResults.of(read(cases.store(tmp_path, change(cases.records()))), 50)
    made = all_tables(found)
    page = tmp_path / "page.html"
    page.write_text(suite_page(found, made, [], [], ["a.csv"], "both"), "utf-8")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1300, "height": 900})
        tab.goto(page.as_uri())
        tab.evaluate(OPEN)
        assert tab.locator(".fold table:visible").count() == len(made) > 4
        assert tab.evaluate(WIDER) == []
        tab.set_viewport_size({"width": 400, "height": 900})
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= 400
        assert tab.evaluate(WIDER)  # a phone scrolls the table, not the page
        browser.close()


def test_a_figure_stays_readable_on_a_phone(tmp_path):
    svg = '<svg width="504pt" height="90pt" viewBox="0 0 504 90"></svg>'
    figure = PageFigure("wide", svg, ("a long caption " * 20,) * 2, ("wide.svg",))
    title = ("Figures", "그림")
    page = ReportPage("page", title, (), (Section(title, (figure,)),))
    (tmp_path / "page.html").write_text(render(page, "en"), "utf-8")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 400, "height": 900})
        tab.goto((tmp_path / "page.html").as_uri())
        wide = "(tag) => document.querySelector(`figure ${tag}`).getBoundingClientRect().width"
        assert tab.evaluate(wide, "svg") > 500  # the figure scrolls, not the page
        assert tab.evaluate(wide, "figcaption") < 400
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= 400
        tab.set_viewport_size({"width": 1300, "height": 900})
        assert tab.evaluate(wide, "svg") == pytest.approx(504 * 1.6, abs=1)
        browser.close()
