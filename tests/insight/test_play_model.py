"""The page of `ascender play` for a model of one's own, in a real Chromium."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from ascender.hf.retrofit.install import retrofit
from ascender.insight import capture
from ascender.insight.play import play
from support.browser import BROWSER_TESTS, PlayTab
from support.view_cases import BAD, TEXT, flock_model, model, tokenizer

pytestmark = BROWSER_TESTS
TERMS = ("base", "align", "sep", "coh", "aff", "other")


def own_model(kind):
    """Ours, in visible and in flock scope, with other parts of a score, or GPT-2 with rules."""
    if kind == "biased":
        options = {"omega": 0.7, "k": 3, "d_z": 5, "d_a": 3, "qk_norm": True, "window": 6}
        return model(position="alibi", normalizer="ssmax", attention_options=options)
    if kind != "retrofitted":
        return model() if kind == "visible" else flock_model()
    torch.manual_seed(3)
    made = retrofit(GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=32, n_head=2, vocab_size=259)))
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "omega" in name:
                weight.fill_(0.8)
    return made.eval()


@pytest.mark.parametrize("kind", ["visible", "flock", "biased", "retrofitted"])
def test_a_model_of_ones_own_is_shown_as_it_is(browser, tmp_path, kind):
    made, words = own_model(kind), tokenizer()
    play(made, words, TEXT, tmp_path / "own.html")
    seen = PlayTab(browser, tmp_path / "own.html")
    tab = seen.tab
    layers = capture(made, input_ids=words(TEXT, return_tensors="pt").input_ids)[1]
    for l, h in ((0, 0), (2, 1)):
        tab.evaluate(f"() => {{ S.layer = {l}; S.head = {h}; setScene('model', true) }}")
        got = tab.evaluate("""() => ({ ...Object.fromEntries(Object.entries(found.terms).map(
            ([n, t]) => [n, [...t]])), weights: [...found.weights], out: [...found.out],
            near: [...found.near] })""")
        parts = layers[l].parts
        for name in (*TERMS, "weights"):
            true = getattr(parts, name)[0, h].double().flatten().numpy()
            assert np.abs(np.array(got[name]) - true).max() < 1e-4, (l, h, name)
        true = (parts.weights[0, h] @ layers[l].v[0, h]).double().flatten().numpy()
        assert np.abs(np.array(got["out"]) - true).max() < 1e-4
        assert parts.align[0, h].abs().max() > 1e-3
        near = layers[l].geometry.near.expand(1, 2, -1, -1)[0, h]
        assert torch.equal(torch.tensor(got["near"]).bool().view_as(near), near)
    tab.click("#step")
    for key in "13":
        tab.keyboard.press(key)
        seen.frame()
    assert tab.evaluate("() => [S.scene, window.hacked ?? null]") == ["model", None]
    assert BAD in tab.evaluate("() => scene.tokens")
    assert seen.troubles == []
    seen.context.close()


def test_a_causal_model_starts_with_the_token_that_sees_most(browser, tmp_path):
    play(model(), tokenizer(), "two flocks", tmp_path / "own.html")
    seen = PlayTab(browser, tmp_path / "own.html")
    assert seen.tab.evaluate("() => [S.i, S.j, address()]") == [9, 0, ""]
    seen.tab.evaluate("() => { location.hash = 'i=0&j=3' }")
    seen.tab.wait_for_function("() => S.i === 0 && S.j === 3")
    seen.tab.select_option("#choose-scene", "birds")
    seen.frame()
    assert seen.tab.evaluate("() => [S.i, S.j]") == [0, 1]
    assert seen.troubles == []
    seen.context.close()


def test_the_page_says_where_a_text_was_cut(browser, tmp_path):
    play(model(), tokenizer(), "two flocks", tmp_path / "own.html", first=4)
    seen = PlayTab(browser, tmp_path / "own.html", at="#lang=ko")
    assert seen.tab.evaluate("() => scene.note()").endswith("10개 토큰 중 앞의 4개입니다.")
    assert seen.tab.evaluate("() => found.N") == 4
    seen.context.close()
