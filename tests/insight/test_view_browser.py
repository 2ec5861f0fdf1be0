"""The page in a real Chromium: what is shown is the model's, and nothing else happens."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from ascender.insight import capture, view
from ascender.insight.page.build import page as build
from ascender.insight.page.collect import collect_page_data
from ascender.insight.page.inputs import of_text
from ascender.insight.page.pack import Blobs
from ascender.report.palette import RULES
from support.browser import BROWSER_TESTS, Tab
from support.view_cases import BAD, TEXT, flock_model, model, tokenizer, with_temperatures

pytestmark = BROWSER_TESTS
TERMS = ("base", "align", "sep", "coh", "other", "total", "weights")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    view(model(), tokenizer(), TEXT, path)
    return path


@pytest.fixture(scope="module")
def truth():
    made = model()
    return capture(made, input_ids=tokenizer()(TEXT, return_tensors="pt").input_ids)[1]


@pytest.fixture
def seen(browser, file):
    found = Tab(browser, file)
    yield found
    assert found.troubles == []
    assert [url for url in found.asked if not url.startswith(("file:", "blob:", "data:"))] == []
    found.context.close()


def numbers(seen):
    """Of the card beside the picture, once it is drawn."""
    seen.frame()
    cells = seen.tab.query_selector_all("#cell td[data-term]")
    return {cell.get_attribute("data-term"): float(cell.inner_text()) for cell in cells}


def test_every_number_of_the_page_is_the_models(seen, truth):
    for l, layer in enumerate(truth):
        for h in range(2):
            script = f"() => ALL.map((t) => [...headOf(D.models[0], {l}, {h})[t]])"
            for name, values in zip(TERMS, seen.tab.evaluate(script), strict=True):
                true = getattr(layer.parts, name)[0, h].double().numpy()
                got = np.array(values).reshape(true.shape)
                assert np.abs(got - true).max() < 1e-4, (l, h, name)


def test_a_cell_shows_its_numbers_and_a_click_pins_it(seen, truth):
    tab = seen.tab
    spot = """() => {
        const p = panes[0], [x, y, s] = p.hits.find((hit) => hit.box).box(9, 4);
        const r = p.canvas.getBoundingClientRect();
        return [r.left + x + s / 2, r.top + y + s / 2];
    }"""
    tab.mouse.move(*tab.evaluate(spot))
    shown = numbers(seen)
    for name in shown:
        true = float(getattr(truth[0].parts, name)[0, 0, 9, 4])
        assert shown[name] == pytest.approx(true, abs=1e-4)
    assert set(shown) == set(TERMS) - {"other"}  # there is none in this model
    tab.mouse.move(5, 5)
    assert numbers(seen) == {}
    tab.mouse.click(*tab.evaluate(spot))
    tab.mouse.move(5, 5)
    assert numbers(seen) == shown
    tab.keyboard.press("ArrowDown")
    assert numbers(seen)["base"] == pytest.approx(float(truth[1].parts.base[0, 0, 9, 4]), abs=1e-4)
    tab.keyboard.press("Escape")
    assert numbers(seen) == {}


def test_what_a_flock_leaves_out_is_shown_beside_dense_attention(browser, tmp_path):
    """The chooser of Matrix and Row: numbers of keys outside the flock, the weight they have."""
    view(flock_model(), tokenizer(), TEXT, tmp_path / "page.html")
    seen = Tab(browser, tmp_path / "page.html")
    tab = seen.tab
    row, left_out, missed, weight = tab.evaluate("""() => {
        const [flock, dense] = ["flock", "dense"].map((s) => headOf(D.models[0], 0, 0, s));
        const N = flock.N, e = (j) => i * N + j;
        const i = flock.missed.indexOf(Math.max(...flock.missed));
        const keys = [...Array(N).keys()].filter((j) => dense.V[e(j)] && !flock.V[e(j)]);
        return [i, keys, flock.missed[i], keys.reduce((s, j) => s + dense.weights[e(j)], 0)];
    }""")
    assert len(left_out) > 2
    assert missed == pytest.approx(weight, abs=1e-5)
    assert missed > 1e-3
    tab.evaluate("([row, col]) => go({ row, col, pinned: true })", [row, left_out[0]])
    seen.frame()
    assert set(tab.locator("#cell td[data-term]").all_inner_texts()) == {"–"}
    picture = tab.locator("canvas").first.screenshot()
    tab.select_option("[data-choose=scope]", "dense")
    assert 0 < numbers(seen)["weights"] < 1
    tab.wait_for_timeout(300)
    assert tab.locator("canvas").first.screenshot() != picture
    tab.keyboard.press("2")
    assert numbers(seen)["weights"] > 0
    tab.select_option("[data-choose=scope]", "flock")
    seen.frame()
    assert set(tab.locator("#cell td[data-term]").all_inner_texts()) == {"–"}
    assert seen.troubles == []
    seen.context.close()


def test_models_without_flock_scope_have_no_such_chooser(seen):
    assert seen.tab.locator("[data-choose=scope]").count() == 0


DIGIT = 0.5e-4  # half of the last one shown


def adds_up(shown, tau):
    """Displayed terms add up to the displayed sum, which over the displayed τ is the total."""
    terms = [shown[name] for name in TERMS[:5] if name in shown]
    assert sum(terms) == pytest.approx(shown["sum"], abs=DIGIT * (len(terms) + 1))
    assert shown["sum"] / tau == pytest.approx(shown["total"], abs=DIGIT * (1 + 1 / tau) + 1e-9)


@pytest.fixture(scope="module")
def cooled(tmp_path_factory):
    """A page whose heads divide by temperatures of their own."""
    path = tmp_path_factory.mktemp("page") / "cooled.html"
    view(with_temperatures(model()), tokenizer(), TEXT, path)
    return path


def test_what_is_displayed_adds_up_in_every_head(browser, cooled):
    seen = Tab(browser, cooled)
    taus = set()
    for l in range(3):
        for h in range(2):
            seen.tab.evaluate(f"() => go({{layer: {l}, head: {h}, row: 9, col: 4, pinned: true}})")
            shown = numbers(seen)
            taus.add(shown["tau"])
            adds_up(shown, shown["tau"])
            assert abs(shown["sum"] - shown["total"]) > 1e-3  # which τ alone explains
    assert len(taus) == 2
    assert 1 not in taus
    assert seen.troubles == []
    seen.context.close()


def svg_texts(seen, view):
    """What a view writes, as SVG has it."""
    import xml.etree.ElementTree as tree

    script = f"""() => {{
        const pen = new SvgPen();
        {view}.draw(pen, D.models[0], 900);
        return pen.done(900, 900);
    }}"""
    root = tree.fromstring(seen.tab.evaluate(script))
    return [node.text for node in root.iter() if node.tag.endswith("text")]


def test_rows_and_csv_add_up_too(browser, cooled):
    seen = Tab(browser, cooled)
    seen.tab.evaluate("() => go({layer: 1, head: 1, row: 9})")
    rows = seen.tab.evaluate("() => RowView.csv()")
    named = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert len(named) == 10
    for row in named:
        terms = sum(row[name] for name in TERMS[:5])
        assert terms == pytest.approx(row["sum"], abs=1e-6)
        assert row["sum"] / row["tau"] == pytest.approx(row["total"], abs=1e-5)
    assert seen.tab.evaluate("() => MatrixView.csv()[0]") == rows[0]
    texts = svg_texts(seen, "RowView")
    tau = float(next(t for t in texts if "temperature" in t).split()[-1])
    assert tau == pytest.approx(named[0]["tau"], rel=1e-5)
    at = 0
    for row in named:  # of a key: its weight, total, sum
        at = texts.index(f"{row['weights']:.4f}", at + 1)
        total, added = (float(t) for t in texts[at + 1 : at + 3])
        assert total == pytest.approx(row["total"], abs=2 * DIGIT)
        assert added / tau == pytest.approx(total, abs=DIGIT * (1 + 1 / tau))
    seen.context.close()


def test_views_and_choosers_by_key_and_mouse(seen):
    tab, drawn = seen.tab, {}
    picture = "() => panes[0].canvas.toDataURL()"
    for key, name in zip("1234", ("matrix", "row", "flock", "whatif"), strict=True):
        tab.keyboard.press(key)
        seen.frame()
        assert tab.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        drawn[name] = tab.evaluate(picture)
    assert len(set(drawn.values())) == 4
    tab.click("#tab-row")
    tab.keyboard.press("ArrowRight")
    seen.frame()
    assert tab.input_value("#head") == "1"
    assert tab.evaluate(picture) != drawn["row"]
    tab.keyboard.press("ArrowUp")  # round to the last
    seen.frame()
    assert tab.input_value("#layer") == "2"
    tab.select_option("#layer", "1")
    seen.frame()
    assert "layer 1, head 1" in tab.get_attribute("canvas", "aria-label")
    tab.click("#tokens button:nth-child(3)")
    seen.frame()
    assert "token 2" in tab.get_attribute("canvas", "aria-label")
    tab.keyboard.press("?")
    assert tab.is_visible("#keys")
    tab.keyboard.press("Escape")
    assert not tab.is_visible("#keys")


def test_the_flock_moves_through_the_layers(seen):
    tab = seen.tab
    tab.keyboard.press("3")
    seen.frame()
    first = tab.evaluate("() => panes[0].canvas.toDataURL()")
    tab.evaluate("() => { $('slider').value = 1.5; $('slider').oninput() }")
    seen.frame()
    assert tab.evaluate("() => panes[0].canvas.toDataURL()") != first
    assert tab.evaluate("() => S.layer") == 2
    tab.click("#play")
    tab.wait_for_function("() => !S.playing")
    assert tab.evaluate("() => S.t") == 2


def test_what_if_shows_another_pass(seen):
    tab = seen.tab
    tab.keyboard.press("4")
    for rule in ("align", "sep", "coh", "all"):
        tab.select_option("[data-choose=mute]", rule)
        seen.frame()
        everywhere = tab.evaluate(f"() => [...mutedWeights(D.models[0], 2, 1, '{rule}', false)]")
        alone = tab.evaluate(f"() => [...mutedWeights(D.models[0], 0, 1, '{rule}', true)]")
        N = len(tokenizer()(TEXT).input_ids)
        for A in (everywhere, alone):
            assert np.array(A).reshape(N, N).sum(-1) == pytest.approx(np.ones(N), abs=1e-3)
        first = tab.evaluate(f"() => [...mutedWeights(D.models[0], 0, 1, '{rule}', false)]")
        assert alone == pytest.approx(first, abs=1e-4)  # the first layer is given the same


def test_a_token_that_is_a_script_is_text(seen):
    tab = seen.tab
    assert tab.evaluate("() => window.hacked") is None
    assert BAD in tab.eval_on_selector_all("#tokens button", "all => all.map((b) => b.textContent)")
    assert len(tab.query_selector_all("script")) == 2


def test_files(seen, truth):
    tab, kinds = seen.tab, {}
    for kind in ("png", "svg", "csv"):
        with tab.expect_download() as coming:
            tab.click(f"#save-{kind}")
        assert coming.value.suggested_filename == f"AscenderForCausalLM-matrix-l0-h0.{kind}"
        kinds[kind] = Path(coming.value.path()).read_bytes()
    assert kinds["png"].startswith(b"\x89PNG")
    check_svg(kinds["svg"].decode())
    check_csv(list(csv.DictReader(io.StringIO(kinds["csv"].decode("utf-8-sig")))), truth[0].parts)


def test_files_of_every_view(seen):
    """What would be downloaded, without the downloading."""
    tab = seen.tab
    tab.evaluate("() => { window.got = {}; window.give = (name, b) => { got[name] = b } }")
    for key, name in zip("1234", ("matrix", "row", "flock", "whatif"), strict=True):
        tab.keyboard.press(key)
        seen.frame()
        for kind in ("png", "svg", "csv"):
            file = f"AscenderForCausalLM-{name}-l0-h0.{kind}"
            tab.click(f"#save-{kind}")
            tab.wait_for_function(f"() => got['{file}']")
            text = tab.evaluate(f"() => got['{file}'].text()")
            if kind == "svg":
                check_svg(text)
            elif kind == "csv":
                assert len(list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))) > 10
            else:
                assert len(text) > 4000


def check_svg(text):
    import xml.etree.ElementTree as tree

    root = tree.fromstring(text)
    assert root.tag.endswith("svg")
    assert not [node for node in root.iter() if node.tag.endswith("script")]
    assert len(list(root.iter())) > 20


def check_csv(rows, parts):
    assert len(rows) == int((parts.weights[0, 0] > 0).sum())
    for row in rows[::7]:
        i, j = int(row["i"]), int(row["j"])
        for name in TERMS:
            true = float(getattr(parts, name)[0, 0, i, j])
            assert float(row[name]) == pytest.approx(true, abs=1e-4)
    assert BAD in {row["token_i"] for row in rows}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(browser, file, scheme):
    seen = Tab(browser, file, color_scheme=scheme)
    shapes = (
        "() => { const p = new SvgPen(); RowView.draw(p, D.models[0], 900); return p.done(9, 9) }"
    )
    for rule, colour in RULES.items():  # those of the figures
        assert f'fill="{colour}"' in seen.tab.evaluate(shapes), rule
    card = """() => {
        const one = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        one.drawImage(panes[0].canvas, 0, 0);
        return [...one.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    lit = [sum(seen.tab.evaluate(card)) > 384]
    seen.tab.click("#theme")
    seen.frame()
    lit.append(sum(seen.tab.evaluate(card)) > 384)
    assert lit == ([True, False] if scheme == "light" else [False, True])
    assert seen.troubles == []
    seen.context.close()


def test_a_phone_has_room_for_it(browser, file):
    seen = Tab(browser, file)
    seen.tab.set_viewport_size({"width": 390, "height": 844})
    for key in "1234":
        seen.tab.keyboard.press(key)
        seen.frame()
        assert seen.tab.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert seen.troubles == []
    seen.context.close()


def test_two_models_have_linked_choosers(browser, tmp_path):
    blobs, words = Blobs(), tokenizer()
    pair = {"ours": model(), "plain": model(attention="vanilla", attention_options={})}
    looks = [
        collect_page_data(n, m, words, of_text(m, words, "two flocks"), blobs)
        for n, m in pair.items()
    ]
    seen = Tab(browser, build(looks, blobs, "ko").save(tmp_path / "two.html"))
    seen.tab.keyboard.press("ArrowDown")
    for key in "1234":
        seen.tab.keyboard.press(key)
        seen.frame()
    canvases = seen.tab.query_selector_all("canvas[role=img]")
    labels = [canvas.get_attribute("aria-label") for canvas in canvases]
    assert len(labels) == 2
    assert all("층 1" in label for label in labels)
    ids = words("two flocks", return_tensors="pt").input_ids
    for at, made in enumerate(pair.values()):
        true = capture(made, input_ids=ids)[1][2].parts.weights[0, 1]
        got = torch.tensor(seen.tab.evaluate(f"() => [...headOf(D.models[{at}], 2, 1).weights]"))
        assert got.view_as(true).sub(true).abs().max() < 1e-4
    assert seen.troubles == []
    seen.context.close()


def test_a_pooled_page_opens(browser, tmp_path):
    """Its matrices are deflated, and it says what was pooled."""
    view(model(), tokenizer(), "a longer text of some length", tmp_path / "p.html", max_tokens=9)
    seen = Tab(browser, tmp_path / "p.html")
    assert "28 tokens are pooled into 7 blocks of 4" in seen.text("#remarks")
    assert seen.troubles == []
    seen.context.close()
