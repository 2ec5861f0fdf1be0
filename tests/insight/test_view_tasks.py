"""The page of a task's example, in a real Chromium: pictures, groups, true and predicted labels."""

import numpy as np
import pytest
import torch
from test_view_browser import numbers, svg_texts

from ascender.hf import (
    AscenderConfig,
    AscenderForSequenceClassification,
    AscenderForTokenClassification,
)
from ascender.insight.page.build import page as build
from ascender.insight.page.collect import collect_page_data
from ascender.insight.page.inputs import of_task
from ascender.insight.page.pack import Blobs
from ascender.tasks import Batch, Display, Drawn, task
from support.browser import BROWSER_TESTS, Tab
from support.view_cases import BAD

pytestmark = BROWSER_TESTS

HEADS = {"token": AscenderForTokenClassification, "sequence": AscenderForSequenceClassification}


def small(made):
    """A model that fits a task."""
    torch.manual_seed(3)
    few = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.5)
    config = AscenderConfig(
        **made.fields(), **few, position=made.position,
        attention_options={"k": 3, "d_z": 5, "d_a": 3},
    )  # fmt: skip
    return HEADS[made.head](config).eval()


@pytest.fixture
def opened(browser):
    def of(made, path, index=0, most=512, lang="en"):
        """(the tab, what the model was given, what it told) of a test example."""
        model, blobs, what = small(made), Blobs(), of_task(made, index)
        seen = collect_page_data(made.name, model, None, what, blobs, most)
        with torch.no_grad():
            logits = model(**what.inputs).logits[0]
        return Tab(browser, build([seen], blobs, lang).save(path)), what, logits

    return of


def pixels(seen, canvas):
    """Grey levels of a canvas, as it is stored."""
    script = f"""() => {{
        const c = {canvas}, a = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return [c.height, c.width, [...a].filter((_, i) => i % 4 === 0)];
    }}"""
    h, w, grey = seen.tab.evaluate(script)
    return np.array(grey).reshape(h, w)


def test_images_groups_and_labels_of_tokens(opened, tmp_path):
    made = task("fewshot-digits", ways=3, unlabelled=2)
    seen, what, logits = opened(made, tmp_path / "few.html")
    images, N = what.inputs["vectors"][0].reshape(-1, 8, 8).numpy(), len(what.tokens)
    assert len(seen.tab.query_selector_all("#tokens canvas")) == N == 10
    for i in (0, N - 1):
        shown = pixels(seen, f"document.querySelectorAll('#tokens canvas')[{i}]")
        assert shown == pytest.approx(np.rint(255 * images[i]))
    colours = seen.tab.evaluate(
        "() => [...$('tokens').children].map((b) => b.style.getPropertyValue('--group'))"
    )
    groups = what.display.groups
    for i in range(N):
        for j in range(N):
            assert (colours[i] == colours[j]) == (groups[i] == groups[j])
    query, told = what.target[-1], int(logits[-1].argmax())
    p = float(logits[-1].softmax(-1)[told])
    mark = "✓" if told == query else "✗"
    assert seen.text("#answer") == (
        f"at 9 “?” · group: {groups[-1]} · true: {query + 1} · predicted: {told + 1} "
        f"({p:.2f}) {mark}"
    )
    seen.tab.click("#tokens button:nth-child(1)")
    seen.frame()
    assert "true" not in seen.text("#answer")  # nothing is asked there
    drawn = """() => [MatrixView, RowView, FlockView].map((view) => {
        const pen = new SvgPen();
        view.draw(pen, D.models[0], 900);
        return pen.out.filter((node) => node.startsWith("<image")).length;
    })"""
    matrices, row, flock = seen.tab.evaluate(drawn)
    assert (row, flock) == (N, N)
    assert matrices >= 6 * 2 * N  # along both sides of six terms
    assert seen.troubles == []
    seen.context.close()


def test_matrices_in_the_order_of_the_groups(opened, tmp_path):
    made = task("grouping", crowd=12, most=3)
    seen, what, _ = opened(made, tmp_path / "groups.html")
    seen.tab.select_option("[data-choose=order]", "group")
    seen.frame()
    order = seen.tab.evaluate("() => orderOf(D.models[0])")
    assert sorted(order) == list(range(12))
    assert [what.display.groups[i] for i in order] == sorted(what.display.groups)
    spot = f"""() => {{
        const p = panes[0], [x, y, s] = p.hits.find((hit) => hit.box).box({order[7]}, {order[2]});
        const b = p.hits.find((hit) => hit.box), r = p.canvas.getBoundingClientRect();
        return [r.left + x + s / 2, r.top + y + s / 2, (x - b.x) / s, (y - b.y) / s];
    }}"""
    x, y, column, row = seen.tab.evaluate(spot)
    assert (column, row) == pytest.approx((2, 7), abs=1e-6)
    seen.tab.mouse.move(x, y)  # a cell is of its tokens wherever it stands
    shown = numbers(seen)
    true = seen.tab.evaluate(f"() => headOf(D.models[0], 0, 0).weights[{12 * order[7] + order[2]}]")
    assert shown["weights"] == pytest.approx(true, abs=1e-4)
    letters = [t for t in svg_texts(seen, "FlockView") if t in what.display.group_names]
    assert len(letters) >= len(set(what.display.groups))
    right = seen.tab.evaluate("() => [...$('tokens').children].map((b) => b.dataset.right ?? null)")
    assert [r is None for r in right] == [due is None for due in what.target]
    assert seen.troubles == []
    seen.context.close()


@pytest.mark.parametrize(("most", "lang"), [(512, "ko"), (10, "en")])
def test_pixels_of_one_picture(opened, tmp_path, most, lang):
    seen, what, logits = opened(task("digits"), tmp_path / "p.html", 1, most, lang)
    image = what.inputs["input_ids"][0].view(8, 8).numpy() / 16
    assert pixels(seen, "whole(D.models[0])") == pytest.approx(np.rint(255 * image))
    due = {"ko": "정답", "en": "true"}[lang]
    assert f"{due}: {what.target[0]} " in seen.text("#answer")
    assert f": {int(logits.argmax())} (" in seen.text("#answer")
    size = 1 if most > 64 else 7  # tokens a block
    box = seen.tab.evaluate("() => $('whole').getBoundingClientRect().toJSON()")
    seen.tab.mouse.click(box["left"] + box["width"] * 2.5 / 8, box["top"] + box["height"] * 1.5 / 8)
    assert seen.tab.evaluate("() => S.row") == 10 // size
    assert len(seen.tab.query_selector_all("#tokens canvas")) == (64 if size == 1 else 0)
    seen.tab.keyboard.press("2")
    seen.frame()
    assert seen.troubles == []
    seen.context.close()


class Hostile(Drawn):
    """Everything that a file can name is out to hurt."""

    name, head, position, length = BAD, "token", "none", 5
    vocab_size, num_labels = 3, 2
    bad = ("javascript:window.hacked=1", BAD)

    def draw(self, rng, n):
        ids = torch.from_numpy(rng.integers(0, 3, (n, 5)))
        return Batch({"input_ids": ids}, ids % 2, torch.zeros(n, dtype=torch.long))

    def display(self, one):
        return Display([*self.bad] * 2 + [BAD], self.bad, [0, 1, 0, 1, 1], self.bad)

    def example(self):
        return ""

    chance = 0.5


def test_names_of_a_task_are_text(opened, tmp_path):
    seen, _, _ = opened(Hostile(), tmp_path / "bad.html")
    for key in "1234":
        seen.tab.keyboard.press(key)
        seen.frame()
    assert "group: javascript:window.hacked=1" in seen.text("#answer") or BAD in seen.text(
        "#answer"
    )
    assert seen.tab.evaluate("() => window.hacked") is None
    assert seen.tab.query_selector_all("a, iframe, img, object, embed, form, area") == []
    assert len(seen.tab.query_selector_all("script")) == 2
    given = """() => [...document.querySelectorAll("*")].flatMap((n) => [...n.attributes])
        .filter((a) => /^(href|src|on|action)/.test(a.name)).length"""
    assert seen.tab.evaluate(given) == 0
    assert seen.troubles == []
    seen.context.close()
