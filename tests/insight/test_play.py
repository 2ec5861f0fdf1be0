"""`ascender play`: the file in docs, the models inside, the command. The page itself is tested in
test_play_numbers.py and test_play_browser.py."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from ascender.insight.play import play
from ascender.insight.play.build import MODELS, SCRIPTS, SHARED
from ascender.insight.play.strings import STRINGS
from ascender.tasks import task
from support.view_cases import BAD, TEXT, model, tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored():
    with safe_open(MODELS, "pt") as file:
        names = list(file.keys())
        return json.loads(file.metadata()["record"]), {n: file.get_tensor(n) for n in names}


def test_the_file_in_docs_is_what_the_command_writes():
    written = (ROOT / "docs" / "flock.html").read_text(encoding="utf-8")
    assert written == play().html, "docs/flock.html; expected: ascender play --out docs/flock.html"


def test_it_is_one_file_of_a_few_hundred_kilobytes_that_asks_for_nothing():
    html = play().html
    assert 300_000 < len(html.encode()) < 700_000
    assert "default-src 'none'" in html
    for word in ("http://", "https://", "<link", "src="):
        assert word not in html.replace("http://www.w3.org/2000/svg", "")


def test_both_languages_are_inside_and_the_first_one_is_chosen():
    html = play(lang="ko").html
    assert '<html lang="ko">' in html
    assert STRINGS.text("intro", "ko") in html
    assert json.dumps(STRINGS.text("why_row", "en"))[1:-1] in html
    with pytest.raises(ValueError, match=r"lang 'kr'.*expected"):
        play(lang="kr")


def test_every_string_is_used_and_every_word_of_the_page_is_a_string():
    """Keys in quotes, in the template or made from parts."""
    folder = MODELS.parent
    code = "".join((folder / "static" / name).read_text(encoding="utf-8") for name in SCRIPTS)
    code += "".join(
        (folder.parent / "page" / "static" / n).read_text(encoding="utf-8") for n in SHARED
    )
    code += (folder / "template.html.j2").read_text(encoding="utf-8")
    code += (folder / "strings.py").read_text(encoding="utf-8").split("SHORTCUTS = ")[1]
    made = ("scene_", "links_", "tour_", "gate_", "about_", "slider_", "key_")
    for key in STRINGS:
        used = any(f"{a}{key}{b}" in code for a, b in ('""', ".,", "..", ".)", ". ", ".}", ".;"))
        plain = key in ("align", "sep", "coh", "aff", "other", "base", "flock", "task", "why",
                        "ascender", "vanilla", "first", "cut")  # fmt: skip
        assert used or plain or key.startswith(made) or f"W.{key}" in code or f"w.{key}" in code, (
            key
        )


def test_the_models_were_trained_alike_and_their_scores_are_stored(stored):
    record, tensors = stored
    assert {(m["variant"], m["seed"]) for m in record["models"]} == {
        (variant, seed) for variant in ("ascender", "vanilla") for seed in (0, 1)
    }
    assert {m["n"] for m in record["models"]} == {1000}
    for m in record["models"]:
        own = [t for n, t in tensors.items() if n.startswith(f"{m['variant']}-{m['seed']}/")]
        assert sum(t.numel() for t in own) == m["parameters"] < 50_000
        assert {t.dtype for t in own} == {torch.float16}
    for d in record["differences"]:
        a, v = (
            next(m["accuracy"] for m in record["models"] if m["variant"] == n
                 and m["seed"] == d["seed"]) for n in ("ascender", "vanilla")
        )  # fmt: skip
        assert d["mean"] == pytest.approx(a - v)
        assert d["low"] < d["mean"] < d["high"]


def test_the_pictures_are_the_tasks_held_out_ones(stored):
    record, tensors = stored
    data = task(record["task"], **record["options"])
    held = sorted(i for at in data.of["test"] for i in at.tolist())
    assert torch.equal(tensors["images"].float() / 16, torch.from_numpy(data.images[held]))
    assert not set(held) & {i for at in data.of["train"] for i in at.tolist()}


def test_a_model_of_ones_own_is_inside_and_its_tokens_are_escaped():
    html = play(model(), tokenizer(), TEXT).html
    assert html.count("</script>") == 2
    assert BAD not in html
    assert '"dz":5' in html
    one = play(model(), tokenizer(), TEXT, layer=1).html
    assert len(one) < len(html)


@pytest.mark.parametrize(("given", "says"), [
    ({"model": True, "layer": 7}, "layer = 7; expected a layer with rules, 0 … 2"),
    ({"model": True, "text": None}, "nothing for .* to read; expected"),
    ({"model": "vanilla"}, "has no self-attention with the rules"),
    ({"layer": 1}, "layer = 1 without a model; expected a model"),
])  # fmt: skip
def test_errors_say_what_is_expected(given, says):
    given = {"text": TEXT, **given} if given.get("model") else given
    kind = given.pop("model", None)
    if kind is not None:
        fields = {} if kind is True else {"attention": kind, "attention_options": {}}
        given |= {"model": model(**fields), "tokenizer": tokenizer()}
    with pytest.raises(ValueError, match=says):
        play(**given)


def test_the_command_writes_the_page(tmp_path, capsys):
    from ascender.cli import app

    out = tmp_path / "own.html"
    app(["play", "--out", str(out), "--lang", "ko", "--json"], standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert said == {"page": str(out), "bytes": out.stat().st_size}


def test_a_normaliser_that_the_page_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"another normaliser than the softmax.*expected softmax"):
        play(model(normalizer="sparsemax"), tokenizer(), TEXT)
