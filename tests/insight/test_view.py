"""The page: what it carries gives the model's numbers back, in little room, and nothing escapes."""

import base64
import json

import numpy as np
import pytest
import torch
import transformers

from ascender.core.normalizers import Softmax
from ascender.hf import AscenderConfig, AscenderModel
from ascender.hf.retrofit.install import retrofit
from ascender.insight import Geometry, capture, muted, view
from ascender.insight.page import outcome
from ascender.insight.page.build import embedded
from ascender.insight.page.collect import passing
from ascender.insight.page.data import layer_data
from ascender.insight.page.inputs import of_task, pieces
from ascender.insight.page.pack import Blobs, shown
from ascender.insight.page.plane import Planes
from ascender.insight.page.pooling import Pooling
from ascender.insight.page.strings import STRINGS
from ascender.nn.baselines.vanilla import Vanilla
from ascender.tasks import task
from support.view_cases import BAD, TEXT, Reader, data_of, model, tokenizer, with_temperatures

NAMES = ("base", "align", "sep", "coh", "other", "total", "weights")


@pytest.fixture(scope="module")
def html():
    """The page of TEXT."""
    return view(model(), tokenizer(), TEXT, name="<b>&name").html


def differs(reader, layers):
    """The largest difference between a page and the captured Parts."""
    worst = 0.0
    for l, layer in enumerate(layers):
        for h in range(layer.parts.weights.shape[1]):
            read = reader.head(l, h)
            for name in NAMES:
                true = getattr(layer.parts, name)[0, h].double().numpy()
                worst = max(worst, float(np.abs(read[name] - true).max()))
    return worst


def ours(**options):
    few = {"omega": 0.7, "k": 3, "d_z": 5, "d_a": 3}
    return {"attention_options": {**few, **options}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"position": "none"},
        {"position": "alibi"},
        {"position": "t5"},
        {"position": "shaw"},
        {"normalizer": "sparsemax"},
        {"normalizer": "ssmax"},
        ours(standardise=False),
        ours(separation_scope="all"),
        ours(local_scope="neighbours"),
        ours(geometry="shared", window=2),
        ours(qk_norm=True),
        {"attention": "vanilla", "attention_options": {}},
    ],
    ids=str,
)
def test_a_page_gives_the_numbers_of_the_model_back(fields):
    made, words_of = model(**fields), tokenizer()
    reader = Reader(view(made, words_of, TEXT).html)
    _, layers = capture(made, input_ids=words_of(TEXT, return_tensors="pt").input_ids)
    assert differs(reader, layers) < 1e-4
    layers[1].parts.sep[0, 1, 7, 2] += 3e-4  # and would show if it did not
    assert differs(reader, layers) > 1e-4


@pytest.mark.parametrize("kind", ["ascender", "vanilla"])
def test_a_layer_knows_its_temperature(kind):
    made = with_temperatures(model(attention=kind, attention_options={}))
    for attention in made.modules():
        if isinstance(attention, Vanilla):
            attention.normalizer = Softmax(temperature=0.6)
    ids = tokenizer()(TEXT, return_tensors="pt").input_ids
    for layer in capture(made, input_ids=ids)[1]:
        added = torch.stack(list(layer.parts.terms().values())).sum(0)
        assert (layer.tau - 1).abs().min() > 0.1
        assert added / layer.tau.view(-1, 1, 1) == pytest.approx(layer.parts.total, abs=1e-5)


def test_terms_are_written_in_few_numbers(html):
    """Rows and columns, not matrices, where a term has that form."""
    head = data_of(html)["models"][0]["layers"][1]["heads"][0]
    assert set(head["base"]) == {"L", "R"}
    assert set(head["align"]) == {"keys", "f", "g"}
    assert set(head["sep"]) == {"g", "x"}
    assert set(head["coh"]) == {"z", "c", "f", "g"}
    assert head["mask"] == "causal"
    assert "weights" not in head
    other = data_of(view(model(position="t5"), tokenizer(), TEXT).html)["models"][0]["layers"][0]
    assert "diagonal" in other["heads"][0]["other"]


def test_retrofitted_and_plain_models():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=259, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1,
    )  # fmt: skip
    llama = transformers.LlamaForCausalLM(config).eval()
    ids = tokenizer()(TEXT, return_tensors="pt").input_ids
    plain = Reader(view(llama, tokenizer(), TEXT).html)
    assert differs(plain, capture(llama, input_ids=ids)[1]) < 1e-4
    assert not plain.data["models"][0]["rules"]
    assert plain.data["models"][0]["mutes"] == {}
    assert [word for word, _ in plain.data["models"][0]["remarks"]] == ["plain"]
    retrofit(llama, {"omega": 0.5, "k": 2})
    full = Reader(view(llama, tokenizer(), TEXT).html)
    assert differs(full, capture(llama, input_ids=ids)[1]) < 1e-4
    assert full.data["models"][0]["rules"]


@pytest.mark.parametrize(
    ("kind", "words", "shifted"),
    [
        ("GPT2LMHeadModel", True, True),
        ("GPT2DoubleHeadsModel", True, True),
        ("GPT2ForSequenceClassification", False, False),
        ("BertForMaskedLM", True, False),
    ],
)
def test_outcomes_are_tokens_by_what_the_model_is_not_by_its_name(kind, words, shifted):
    torch.manual_seed(1)
    made = getattr(transformers, kind)
    few = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 259}
    one = made(made.config_class(**few, pad_token_id=0)).eval()
    found = data_of(view(one, tokenizer(), TEXT).html)["models"][0]["outcome"]
    assert found["next"] is shifted
    assert all(name == id for id, name in found["names"].items()) is not words


def test_512_tokens_of_6_layers_and_8_heads_stay_under_30_mb(html):
    """One layer is measured; equal arrays aside, six take six times as much."""
    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=258, hidden_size=512, num_hidden_layers=1, num_attention_heads=8,
        is_decoder=True, position="rope",
    )  # fmt: skip
    one, blobs = AscenderModel(config).eval(), Blobs()
    ids = torch.randint(258, (1, 512))
    planes = Planes(Pooling(512))

    def take(layer):
        layer_data(layer, Pooling(512), blobs)
        planes.add(layer.geometry)

    passing(one, {"input_ids": ids}, take)
    planes.data(blobs)
    moved = 4 * 8 * 512 * 4 * 4 / 3  # of four muted passes
    each = sum(len(blob["d"]) for blob in blobs.list) + moved
    assert each > 1e6
    assert 6 * each + 2 * len(html) < 30e6


def test_whole_numbers_with_a_scale_are_close():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 13)) * 10.0 ** rng.integers(-6, 6, (7, 1))
    top = np.abs(x).max(-1, keepdims=True)
    assert (np.abs(shown(x, "i3") - x) <= top * 2.0**-23).all()
    assert (np.abs(shown(x, "i2") - x) <= top * 2.0**-15).all()
    assert (np.abs(shown(x, "i2") - x) > top * 2.0**-23).any()
    assert (shown(np.zeros((2, 3)), "i3") == 0).all()


def test_equal_arrays_are_written_once():
    blobs = Blobs()
    x = np.arange(12.0).reshape(3, 4)
    assert blobs.put(x, "f4") == blobs.put(x.copy(), "f4")
    assert blobs.put(x.reshape(4, 3), "f4") != blobs.put(x, "f4")
    assert blobs.put(x + 1, "f4") == len(blobs.list) - 1
    assert base64.b64decode(blobs.list[0]["d"])


# Pooling


def test_pooled_blocks_are_means_over_pairs_that_see_each_other():
    rng = np.random.default_rng(3)
    N, size = 11, 3
    x, V = rng.standard_normal((N, N)), np.tril(np.ones((N, N), bool))
    pooling = Pooling(N, size)
    blocks = [list(range(a, min(a + size, N))) for a in range(0, N, size)]
    for I, rows in enumerate(blocks):
        for J, cols in enumerate(blocks):
            pairs = [x[i, j] for i in rows for j in cols if V[i, j]]
            assert pooling.mean(x, V)[I, J] == pytest.approx(np.mean(pairs) if pairs else 0)
            assert pooling.any(V)[I, J] == bool(pairs)
    A = np.where(V, np.exp(x), 0)
    A /= A.sum(-1, keepdims=True)
    assert pooling.share(A).sum(-1) == pytest.approx(np.ones(len(blocks)))
    assert pooling.labels(list("abcdefghijk")) == ["a … c", "d … f", "g … i", "j … k"]


@pytest.mark.parametrize(("tokens", "most", "size"), [(7, 8, 1), (9, 8, 2), (600, 512, 4)])
def test_only_longer_inputs_are_pooled(tokens, most, size):
    assert Pooling.fitting(tokens, most).size == size


def test_a_pooled_page_says_so_and_adds_up():
    made, text = model(), "the quick brown fox"
    seen = Reader(view(made, tokenizer(), text, max_tokens=5).html)
    page = seen.data["models"][0]
    assert ["pooled", {"of": 19, "size": 4, "blocks": 5}] in page["remarks"]
    assert len(page["tokens"]) == 5
    _, layers = capture(made, input_ids=tokenizer()(text, return_tensors="pt").input_ids)
    pooling, parts = Pooling(19, 4), layers[2].parts
    V = layers[2].visible[0, 1].numpy()
    read = seen.head(2, 1)
    for name in ("base", "coh", "total"):
        true = pooling.mean(getattr(parts, name)[0, 1].double().numpy(), V)
        assert read[name] == pytest.approx(true, abs=1e-4)
    assert read["weights"].sum(-1) == pytest.approx(np.ones(5), abs=1e-4)


# The flock and the output


def geometry(z):
    """Tokens at z, all else of no matter."""
    near, row = torch.zeros(1, 1, 7, 7, dtype=torch.bool), torch.zeros(1, 1, 7, 1)
    return Geometry(z=z, c=z, h=z, u=z, near=near, gates={}, rho=row, keys=z)


def test_a_plane_keeps_distances_where_all_is_in_one():
    """Coordinates of two dimensions, turned into five: the page has them back, up to a turn."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0][:2]
    flat = rng.standard_normal((2, 7, 2)) * [3, 1]
    planes, blobs = Planes(Pooling(7)), Blobs()
    for points in flat:
        z = torch.from_numpy((points @ turn)[None, None] + 4)
        planes.add(geometry(z))
    for points, heads in zip(flat, planes.data(blobs), strict=True):
        got = np.frombuffer(base64.b64decode(blobs.list[heads[0]["z"]]["d"]), "<f4").reshape(7, 2)
        far = np.linalg.norm(points[:, None] - points[None], axis=-1)
        assert np.linalg.norm(got[:, None] - got[None], axis=-1) == pytest.approx(far, abs=1e-4)
        assert heads[0]["share"] == pytest.approx(1)


def test_what_if_is_another_pass_of_the_model(html):
    made, words_of, reader = model(), tokenizer(), Reader(html)
    page = reader.data["models"][0]
    ids = words_of(TEXT, return_tensors="pt").input_ids
    assert page["outcome"]["runs"] == ["as_is", "no_align", "no_sep", "no_coh", "no_all"]
    with torch.no_grad(), muted(made, "coh"):
        p = torch.softmax(made(input_ids=ids).logits[0].double(), -1)
        _, layers = capture(made, input_ids=ids)
    before = capture(made, input_ids=ids)[1]
    for i, row in enumerate(page["outcome"]["rows"]):
        assert row["p"][3] == pytest.approx(p[i, row["ids"]].tolist(), rel=1e-3)
        assert int(p[i].argmax()) in row["ids"]
    A, B = (run[2].parts.weights[0, 1].double().numpy() for run in (before, layers))
    place = page["mutes"]["coh"][2][1]
    assert reader.array(place["moved"])[0] == pytest.approx(np.abs(A - B).sum(-1) / 2, abs=1e-5)
    assert reader.array(place["weights"]) == pytest.approx(B, abs=1e-4)
    assert np.abs(A - B).max() > 1e-3


def test_outputs_of_every_kind():
    from types import SimpleNamespace

    places = np.arange(3)
    number = outcome.logits_of(SimpleNamespace(logits=torch.tensor([[0.7]])), places)
    told = outcome.outcome({"as_is": number, "no_sep": number}, str, False)
    assert told["kind"] == "number"
    assert told["values"] == [[0.7], [0.7]]
    x = torch.ones(1, 3, 4)
    runs = {"as_is": x, "no_sep": x * 1.5}
    states = {
        n: outcome.logits_of(SimpleNamespace(last_hidden_state=t), places) for n, t in runs.items()
    }
    assert outcome.outcome(states, str, False)["moved"] == [[0, 0, 0], [0.5, 0.5, 0.5]]
    assert (
        outcome.outcome({"as_is": outcome.logits_of(SimpleNamespace(), places)}, str, False) is None
    )


# Tokens


def test_a_token_cannot_leave_its_place(html):
    assert BAD not in html
    assert html.count("</script>") == 2
    assert "<b>&name" not in html
    assert BAD in data_of(html)["models"][0]["tokens"]
    assert "<" not in embedded([BAD, "\u2028", "<!--"])
    assert json.loads(embedded([BAD, "\u2028", "a&b"])) == [BAD, "\u2028", "a&b"]


def test_nothing_is_fetched(html):
    for sign in ("http://", "https://", "@import", "url(", "<link", "<img"):
        assert sign not in html.replace("http://www.w3.org/2000/svg", "")


def test_tokens_as_people_read_them():
    assert pieces(tokenizer(), [97, 32, 10, 0]) == ["a", " ", "⏎", "\\x00"]
    assert pieces(tokenizer(), [258]) == [BAD]


def test_both_languages_have_every_word():
    assert all(len(pair) == 2 and all(pair) for pair in STRINGS.values())
    assert STRINGS.texts("ko")["align"] == "정렬"
    assert '<html lang="ko">' in view(model(), tokenizer(), "ab", lang="ko").html


def test_a_page_in_a_notebook():
    page = view(model(), tokenizer(), "ab")
    shown_there = page._repr_html_()
    assert shown_there.startswith("<iframe srcdoc=")
    assert "<script" not in shown_there


# Examples of tasks


def test_an_example_of_a_task():
    numbers = of_task(task("distinct", crowd=13), 2)
    assert numbers.inputs["vectors"].shape == (1, 13, 16)
    assert numbers.tokens[-1] == "12"
    assert numbers.target is not None
    short = of_task(task("listops-short"), 1)
    assert short.inputs["input_ids"].shape == (1, len(short.tokens))
    assert bool(short.inputs["attention_mask"].all())
    with pytest.raises(ValueError, match="example = 1000; expected one of the 1000 of distinct"):
        of_task(task("distinct"), 1000)
    with pytest.raises(ValueError, match="example = -1; expected a number from 0"):
        of_task(task("distinct"), -1)


def test_what_should_come_out_is_among_what_is_told():
    """Of a task's example, and of a text: there it is the next token, whatever the class of the
    model is called."""
    made = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=259, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    ).eval()
    told = data_of(view(made, tokenizer(), "boids").html)["models"][0]["outcome"]
    assert told["next"]
    assert told["target"] == [*b"oids", None]
    for row, due in zip(told["rows"], told["target"], strict=True):
        assert due is None or due in row["ids"]
    assert [told["names"][str(due)] for due in told["target"][:4]] == list("oids")
    assert of_task(task("distinct"), 0).target == [
        task("distinct").eval_batches("test", 1).__next__().labels
    ]
    recall = of_task(task("recall"), 0)
    at = next(i for i, due in enumerate(recall.target) if due is not None)
    assert recall.tokens[at + 1] == recall.display.classes[recall.target[at]]  # told a row before
