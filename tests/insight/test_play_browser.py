"""The page of `ascender play` in a real Chromium: panels, keys, files, the address, phones."""

import csv
import io
import xml.etree.ElementTree as tree
from pathlib import Path

import numpy as np
import pytest

from ascender.core.rules import RULES
from ascender.insight.play import play
from ascender.insight.play.strings import STRINGS
from ascender.measure.flops import native_products
from support.browser import BROWSER_TESTS, PlayTab
from support.view_cases import BAD

pytestmark = BROWSER_TESTS
PANELS = ("flock", "task", "why")
SPOT = """(i) => {
    const b = hits.find((h) => h.i === i), r = $("picture").getBoundingClientRect();
    return [r.left + b.x + b.w / 2, r.top + b.y + b.h / 2];
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "flock.html"
    play(out=path)
    return path


@pytest.fixture(scope="module")
def page(browser, file):
    found = PlayTab(browser, file)
    yield found
    assert [url for url in found.asked if not url.startswith(("file:", "blob:", "data:"))] == []
    found.context.close()


@pytest.fixture
def seen(page):
    """The page as it opens."""
    page.tab.set_viewport_size({"width": 1200, "height": 900})
    page.tab.evaluate("""() => {
        playing(false);
        [own, scene, TaskPanel.drawn] = [null, null, null];
        Drawing.ink.fill(0);
        $("keys").close();
        window.givenBefore ??= give;
        give = givenBefore;
        delete document.documentElement.dataset.theme;
        history.replaceState(null, "", "#");
        openAddress();
        document.activeElement.blur();
    }""")
    page.frame()
    yield page
    assert page.troubles == []


def picture(seen):
    seen.frame()
    return seen.tab.evaluate("() => document.getElementById('picture').toDataURL()")


def test_panels_by_key_and_tab_draw_something_of_their_own(seen):
    drawn = {}
    for key, name in zip("123", PANELS, strict=True):
        seen.tab.keyboard.press(key)
        drawn[name] = picture(seen)
        assert seen.tab.get_attribute(f"#tab-{name}", "aria-selected") == "true"
    assert len(set(drawn.values())) == 3
    seen.tab.click("#tab-flock")
    seen.tab.keyboard.press("ArrowRight")
    seen.frame()
    assert seen.tab.evaluate("() => [S.panel, document.activeElement.id]") == ["task", "tab-task"]


def test_keys_move_step_and_play(seen):
    tab = seen.tab
    first = picture(seen)
    tab.keyboard.press("]")
    tab.keyboard.press(".")
    assert tab.evaluate("() => [S.i, S.j]") == [1, 2]
    assert picture(seen) != first
    tab.keyboard.press("s")
    seen.frame()
    assert tab.evaluate("() => scene.steps") == 1
    tab.keyboard.press("Space")
    tab.wait_for_function("() => scene.steps > 3")
    tab.keyboard.press("Space")
    tab.keyboard.press("r")
    seen.frame()
    assert tab.evaluate("() => [S.playing, scene.steps]") == [False, 0]
    tab.keyboard.press("f")
    seen.frame()
    assert tab.is_checked("#set-flock_scope")
    tab.keyboard.press("?")
    assert tab.is_visible("#keys")


def test_a_click_chooses_a_token_and_with_shift_a_key(seen):
    tab = seen.tab
    tab.mouse.click(*tab.evaluate(SPOT, 9))
    seen.frame()
    assert tab.evaluate("() => S.i") == 9
    assert "9" in tab.inner_text("#numbers")
    tab.keyboard.down("Shift")
    tab.mouse.click(*tab.evaluate(SPOT, 20))
    tab.keyboard.up("Shift")
    seen.frame()
    assert tab.evaluate("() => [S.i, S.j]") == [9, 20]


def test_a_token_is_dragged_and_the_numbers_follow(seen):
    tab = seen.tab
    before = tab.evaluate("() => [...found.weights]")
    x, y = tab.evaluate(SPOT, 9)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 60, y - 40, steps=5)
    tab.mouse.up()
    seen.frame()
    assert np.abs(np.subtract(tab.evaluate(SPOT, 9), [x + 60, y - 40])).max() < 2
    assert tab.evaluate("() => [S.i, scene.steps]") == [0, 0]  # moved, not chosen
    assert tab.evaluate("() => [...found.weights]") != before
    tab.focus("#picture")
    x, y = tab.evaluate(SPOT, 0)
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    seen.frame()
    assert np.abs(np.subtract(tab.evaluate(SPOT, 0), [x + 8, y + 8])).max() < 1
    tab.keyboard.press("r")
    seen.frame()
    assert tab.evaluate("() => [...found.weights]") == before


def test_a_finger_drags_a_token_and_a_tap_chooses_one(browser, file):
    seen = PlayTab(browser, file, has_touch=True)
    touch = seen.context.new_cdp_session(seen.tab)

    def finger(kind, *at):
        points = [{"x": at[0], "y": at[1]}] if at else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        seen.frame()

    x, y = seen.tab.evaluate(SPOT, 9)
    for kind, *at in (
        ("touchStart", x, y), ("touchMove", x, y + 30), ("touchMove", x, y + 60), ("touchEnd",),
    ):  # fmt: skip
        finger(kind, *at)
    assert np.abs(np.subtract(seen.tab.evaluate(SPOT, 9), [x, y + 60])).max() < 2
    assert seen.tab.evaluate("() => [S.i, scrollY]") == [0, 0]
    seen.tab.touchscreen.tap(*seen.tab.evaluate(SPOT, 9))
    seen.frame()
    assert seen.tab.evaluate("() => S.i") == 9
    assert seen.troubles == []
    seen.context.close()


def test_sliders_recompute_at_once_and_zero_is_plain_attention(seen):
    tab = seen.tab
    before = tab.evaluate("() => [...found.weights]")
    seen.slide("tau_coh", 2.5)
    assert tab.evaluate("() => [...found.weights]") != before
    tab.click("#off")
    seen.frame()
    gap = "() => Math.max(...found.weights.map((x, e) => Math.abs(x - withoutThem().weights[e])))"
    assert tab.evaluate(gap) == 0
    base = "() => Math.max(...found.total.map((x, e) => Math.abs(x - found.terms.base[e])))"
    assert tab.evaluate(base) == 0
    tab.click("#defaults")
    seen.frame()
    assert tab.evaluate("() => [...found.weights]") == before


def test_the_address_holds_what_is_seen(browser, seen, file):
    tab = seen.tab
    tab.select_option("#choose-scene", "kinds")
    seen.frame()
    tab.select_option("#choose-tokens", "32")
    seen.slide("omega_sep", 2.5)
    seen.slide("k", 5)
    tab.keyboard.press("]")
    tab.keyboard.press("3")
    tab.keyboard.press("l")
    tab.wait_for_function("() => location.hash.includes('lang=ko')")
    state = "() => [S.panel, S.scene, S.n, S.i, S.lang, found.rules.omega_sep, found.rules.k]"
    assert tab.evaluate(state) == ["why", "kinds", 32, 1, "ko", 2.5, 5]
    weights = tab.evaluate("() => [...found.weights]")
    other = PlayTab(browser, file, at=tab.evaluate("() => location.hash"))
    assert other.tab.evaluate(state) == tab.evaluate(state)
    assert other.tab.evaluate("() => [...found.weights]") == weights
    assert other.troubles == []
    other.context.close()


@pytest.mark.parametrize("at", [
    "#panel=none&n=7&k=x&omega_sep=1e9&i=-3&scene=model&lang=xx&theme=red&models=99",
    "#i=999&j=999&layer=9&head=9&scene=digits", "#%%%&==&n",
])  # fmt: skip
def test_a_broken_address_still_opens(browser, file, at):
    seen = PlayTab(browser, file, at=at)
    assert seen.tab.evaluate("() => found.weights.every(Number.isFinite)")
    assert seen.troubles == []
    seen.context.close()


def test_both_models_answer_and_accuracy_runs(seen):
    tab = seen.tab
    tab.keyboard.press("2")
    seen.frame()
    tab.click("#hundred")
    seen.frame()
    history = tab.evaluate("() => TaskPanel.history")
    assert len(history) == 101
    for name in ("ascender", "vanilla"):  # chance is a third
        assert np.mean([h[name] == h["answer"] for h in history]) > 0.85
    tab.evaluate("() => TaskPanel.next(0)")
    assert tab.evaluate("() => TaskPanel.history.length") == 101
    held = tab.inner_text("#heldout")
    for one in tab.evaluate("() => Digits.record.models"):
        assert f"{100 * one['accuracy']:.1f}%" in held
    tab.click("#to-flock")
    seen.frame()
    assert tab.evaluate("() => [S.panel, S.scene, found.N, scene.tokens.at(-1)]") == [
        "flock", "digits", 10, "?",
    ]  # fmt: skip


def test_a_drawn_digit_is_asked_about_and_not_scored(seen):
    tab = seen.tab
    tab.keyboard.press("2")
    seen.frame()
    before = tab.evaluate("() => [...TaskPanel.said.e.pictures.at(-1)]")
    box = tab.locator("#draw").bounding_box()
    tab.mouse.move(box["x"] + 96, box["y"] + 20)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 96, box["y"] + 170, steps=6)
    tab.mouse.up()
    seen.frame()
    drawn = tab.evaluate("() => TaskPanel.said.e.pictures.at(-1)")
    shades = np.array(list(drawn.values()) if isinstance(drawn, dict) else drawn).reshape(8, 8)
    assert shades.max() > 0.6
    assert (shades.sum(1) > 0.9).all()  # as tall as the field
    assert (shades[:, 0] == 0).all()
    assert tab.evaluate("() => [TaskPanel.said.e.answer, TaskPanel.history.length]") == [None, 1]
    tab.click("#wipe")
    seen.frame()
    assert tab.evaluate("() => [...TaskPanel.said.e.pictures.at(-1)]") == before
    tab.focus("#draw")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Space")
    assert tab.evaluate("() => Drawing.ink.reduce((a, b) => a + b)") == 16
    assert tab.evaluate("() => S.panel") == "task"


DROP = """([name, text]) => {
    [window.before, $("trouble").textContent] = [own, ""];
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], name));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
}"""
TAKEN = "() => own !== before || $('trouble').textContent"


def drop(seen, text, name="own.csv"):
    """A file dropped onto the page."""
    seen.tab.evaluate(DROP, [name, text])
    seen.tab.wait_for_function(TAKEN)
    seen.frame()


def test_a_csv_is_opened_by_the_button_too(seen, tmp_path):
    (tmp_path / "own.csv").write_text("x,y\n1,2\n3,5\n4,1\n", "utf-8")
    seen.tab.evaluate("() => { window.before = own }")
    with seen.tab.expect_file_chooser() as chooser:
        seen.tab.click("#csv")
    chooser.value.set_files(tmp_path / "own.csv")
    seen.tab.wait_for_function(TAKEN)
    seen.frame()
    assert seen.tab.evaluate("() => [S.scene, found.N, scene.note()]")[:2] == ["csv", 3]


def test_a_csv_of_two_columns_is_points_and_of_more_is_projected(seen):
    tab = seen.tab
    drop(seen, "name,x,y\n" + "\n".join(f"p{i},{i},{(7 * i) % 5}" for i in range(12)))
    assert tab.evaluate("() => [S.panel, S.scene, found.N, scene.tokens[3]]") == [
        "flock", "csv", 12, "p3",
    ]  # fmt: skip
    x = np.array(tab.evaluate("() => [...scene.call.z].filter((_, e) => e % 2 === 0)"))
    assert np.allclose(np.diff(x), np.diff(x)[0])  # the column, scaled
    rows = np.random.default_rng(0).normal(size=(30, 2)) @ [[3, 1, 0.2, 0], [0, 1, -1, 2]]
    drop(seen, "a;b;c;d\n" + "\n".join(";".join(map(str, row)) for row in rows))
    z = np.array(tab.evaluate("() => [...scene.call.z]")).reshape(30, 2)
    own = (rows - rows.mean(0)) / rows.std(0)
    left, scale, _ = np.linalg.svd(own, full_matrices=False)
    true = left[:, :2] * scale[:2]
    for a in range(2):
        assert abs(np.corrcoef(z[:, a], true[:, a])[0, 1]) > 0.999
    assert "100%" in tab.evaluate("() => scene.note()")
    drop(seen, "x,y,vx,vy\n0,0,1,0\n1,0,0,2\n0,1,-1,0\n")
    assert np.allclose(tab.evaluate("() => [...scene.call.k]"), [1, 0, 0, 1, -1, 0], atol=1e-12)


def test_a_file_dropped_on_the_page_is_read(seen):
    seen.tab.evaluate("""() => {
        const files = new DataTransfer();
        files.items.add(new File(["x,y\\n1,2\\n3,4\\n5,7"], "own.csv"));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true }));
    }""")
    seen.tab.wait_for_function("() => S.scene === 'csv' && found.N === 3")


@pytest.mark.parametrize(("text", "expected"), [
    ("a,b\nx,y\n", "0 columns of numbers; expected at least 2"), ("", "is empty"),
    ("n\n1\n2\n", "1 columns of numbers"),
])  # fmt: skip
def test_a_csv_without_points_says_what_is_expected(seen, text, expected):
    drop(seen, text, "<b>bad</b>.csv")
    assert f"<b>bad</b>.csv {'has ' if 'columns' in expected else ''}{expected}" in seen.text(
        "#trouble"
    )
    assert seen.tab.evaluate("() => S.scene") == "birds"


def test_names_in_a_csv_are_text(seen):
    drop(seen, f'name,x,y\n"{BAD}",1,2\n"<img src=x onerror=hacked=1>",3,4\nc,5,7\n')
    for key in "13":
        seen.tab.keyboard.press(key)
        seen.frame()
    assert seen.tab.evaluate("() => window.hacked") is None
    assert seen.tab.locator("img").count() == 0
    assert BAD in seen.tab.evaluate("() => scene.tokens")
    assert "</script>" in seen.tab.inner_text("#choose-token_i")


def test_why_tells_what_flock_scope_drops(seen):
    tab = seen.tab
    tab.keyboard.press("3")
    seen.frame()
    n = tab.evaluate("""() => { const n = WhyPanel.numbers(); return {
        dropped: n.dropped, row: n.row, missed: n.missed, weights: [...n.whole.weights],
        F: [...n.flock.V], few: n.few, all: n.all, N: found.N, c: scene.call,
        inside: n.flock.rules.far }; }""")
    N, A = n["N"], np.array(n["weights"]).reshape(n["N"], -1)
    assert len(n["row"]) - len(n["dropped"]) == 1 + n["inside"]
    assert n["missed"] == pytest.approx(A[0, n["dropped"]].sum(), abs=1e-9)
    c = n["c"]
    products = native_products(1, 1, c["d"], c["e"], c["dz"], RULES, False)
    assert n["few"]["attend"] == 2 * sum(n["F"]) * products
    assert n["all"]["attend"] == 2 * N * N * products
    assert n["few"]["search"] == 2 * N * N * c["da"]
    tab.check("#set-flock_scope")
    tab.select_option("#choose-token_j", str(n["dropped"][0]))
    seen.frame()
    assert tab.evaluate("() => found.weights[S.j]") == 0
    texts = svg_texts(tab, "WhyPanel")
    assert STRINGS.text("dropped_pair", "en").split()[0] in " ".join(texts)


def svg_texts(tab, panel):
    root = tree.fromstring(
        tab.evaluate(f"""() => {{
        const pen = new SvgPen(); {panel}.draw(pen, 900); return pen.done(900, 900); }}""")
    )
    assert not [node for node in root.iter() if node.tag.endswith("script")]
    return [node.text for node in root.iter() if node.tag.endswith("text")]


def test_files_of_every_panel(seen):
    tab = seen.tab
    tab.evaluate("() => { window.got = {}; window.give = (name, b) => { got[name] = b } }")
    for key, name in zip("123", ("flock-birds", "task", "why-birds"), strict=True):
        tab.keyboard.press(key)
        seen.frame()
        for kind in ("png", "svg", "csv"):
            tab.click(f"#save-{kind}")
            tab.wait_for_function(f"() => got['ascender-{name}.{kind}']")
            text = tab.evaluate(f"() => got['ascender-{name}.{kind}'].text()")
            if kind == "svg":
                assert len(list(tree.fromstring(text).iter())) > 20
            elif kind == "csv":
                rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
                assert len(rows) == (1 if name == "task" else 64)
            else:
                assert len(text) > 4000
    weights = [float(row["weight"]) for row in rows]
    assert sum(weights) == pytest.approx(1)


def test_a_picture_is_downloaded(seen):
    with seen.tab.expect_download() as coming:
        seen.tab.click("#save-svg")
    assert coming.value.suggested_filename == "ascender-flock-birds.svg"
    assert Path(coming.value.path()).read_bytes().startswith(b"<svg")


def test_the_tour_has_five_steps_and_stays_away_once_seen(browser, file):
    seen = PlayTab(browser, file, tour=True)
    tab = seen.tab
    titles = []
    for _ in range(5):
        titles.append(tab.inner_text("#tour h2"))
        assert tab.locator(".told").count() == 1
        tab.click("#tour-next")
        seen.frame()
    assert len(set(titles)) == 5
    assert not tab.is_visible("#tour")
    tab.reload()
    tab.wait_for_selector("html[data-ready=all]", state="attached")
    assert not tab.is_visible("#tour")
    tab.click("#guide")
    assert tab.is_visible("#tour")
    tab.keyboard.press("Escape")
    assert not tab.is_visible("#tour")
    assert seen.troubles == []
    seen.context.close()


def test_korean_and_english_by_one_key(seen):
    tab = seen.tab
    assert tab.inner_text("#tab-why") == "Why"
    tab.keyboard.press("l")
    seen.frame()
    assert tab.inner_text("#tab-why") == "이유"
    assert tab.get_attribute("html", "lang") == "ko"
    for key in "123":
        tab.keyboard.press(key)
        seen.frame()
        words = set(tab.inner_text("body").split())
        assert not words & {"Rules", "Scene", "undefined", "accuracy", "NaN"}
    assert "undefined" not in " ".join(filter(None, svg_texts(tab, "TaskPanel")))


def test_reduced_motion_jumps_instead_of_flowing(browser, file):
    seen = PlayTab(browser, file, reduced_motion="reduce")
    seen.tab.keyboard.press("Space")
    seen.tab.wait_for_function("() => playing.frames >= 10")
    assert seen.tab.evaluate("() => scene.steps") <= 2
    seen.tab.keyboard.press("Space")
    assert seen.troubles == []
    seen.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(browser, file, scheme):
    seen = PlayTab(browser, file, color_scheme=scheme)
    corner = """() => {
        const one = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        one.drawImage($("picture"), 0, 0);
        return [...one.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    seen.tab.keyboard.press("3")
    seen.frame()
    lit = [sum(seen.tab.evaluate(corner)) > 384]
    seen.tab.click("#theme")
    seen.frame()
    lit.append(sum(seen.tab.evaluate(corner)) > 384)
    assert lit == ([True, False] if scheme == "light" else [False, True])
    seen.context.close()


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_phone_has_room_for_it(browser, file, lang):
    seen = PlayTab(browser, file, at=f"#lang={lang}")
    seen.tab.set_viewport_size({"width": 390, "height": 844})
    for key in "123":
        seen.tab.keyboard.press(key)
        seen.frame()
        assert seen.tab.evaluate("() => document.documentElement.scrollWidth") <= 390
    seen.tab.keyboard.press("1")
    seen.frame()
    seen.tab.evaluate("() => $('kappa').scrollIntoView({ block: 'end' })")
    box = seen.tab.locator("#picture").bounding_box()
    slider = seen.tab.locator("#kappa").bounding_box()
    assert 0 <= box["y"] < box["y"] + box["height"] <= slider["y"]  # the flock beside its sliders
    seen.tab.click("#guide")
    assert seen.tab.locator("#tour").bounding_box()["width"] < 390
    assert seen.troubles == []
    seen.context.close()
