"""Limits of normalisation in flock scope: how large a flock is beside the advice N < 0.06 L, and
that everything else is measured inside it."""

import json
from types import SimpleNamespace

import pytest
import torch

import ascender
from ascender.hf import AscenderConfig, AscenderForMaskedLM
from ascender.hf.tokens import bytes_tokenizer
from ascender.insight import capture, limits
from ascender.insight.contribution import rows_of
from ascender.insight.limits import figures, head_metrics, measure
from ascender.insight.limits.flocks import FlockSize, enough_keys
from ascender.insight.limits.measure import Measured, measured_rows
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.summary import advice, compared, growth, of, summary, verdict
from ascender.insight.limits.tables import TABLES, side_by_side, tables_of
from ascender.report.table import markdown
from support.limits_cases import HEADS, LAYERS, LENGTHS, in_flock_scope, make_model

pytestmark = pytest.mark.usefixtures("unchecked_module")

VISIBLE = 38  # the mean of the five last rows of 40 tokens: 36 … 40


@pytest.fixture(scope="module")
def flocked(inputs):
    return measure(in_flock_scope(), inputs, name="ours", normalizers=["softmax"])


def test_sizes_are_counted_by_length_and_layer(flocked):
    assert [(size.length, size.layer) for size in flocked.flocks] == [
        (length, layer) for length in LENGTHS for layer in range(LAYERS)
    ]
    for size in flocked.flocks[LAYERS:]:  # itself, window 1, the first token, two far keys
        assert (size.visible, size.keys) == (VISIBLE, 5)
        assert size.share == pytest.approx(sum(5 / v for v in range(36, 41)) / 5)
        assert not size.within


def test_everything_else_ranges_over_the_flock(flocked, inputs):
    """Against a pass of one's own: the last rows, whose weights are those of five keys."""
    _, layers = capture(in_flock_scope(), **inputs[40])
    A = layers[1].parts.weights[:, 2, -5:].double()
    assert ((A > 0).sum(-1) == 5).all()
    H = torch.special.entr(A).sum(-1)
    row = next(r for r in of(flocked) if (r.length, r.layer, r.head) == (40, 1, 2))
    assert row.keys == 5
    assert row.entropy == pytest.approx(H.mean().item(), rel=1e-6)
    assert row.share == pytest.approx((H.exp() / 5).mean().item(), rel=1e-6)
    assert all(r.outside == 0 and r.distance <= r.bound + 1e-6 for r in of(flocked))
    shares = head_metrics(in_flock_scope(), inputs[40], rows=5)["share"]
    assert shares[1][2] == pytest.approx(row.share, abs=1e-5)


def test_a_flock_of_everyone_is_measured_as_visible_scope(inputs):
    """The last rows, not the largest flocks, are chosen; and nothing more is said of L."""
    model = in_flock_scope(far=99)
    everyone = measure(model, inputs, normalizers=["softmax"])
    for layer in model.modules():
        if hasattr(layer, "visible_phase"):
            layer.visible_phase = True
    visible = measure(model, inputs, normalizers=["softmax"])
    assert visible.flocks == []
    for a, b in zip(everyone.heads, visible.heads, strict=True):
        assert (a.normalizer, a.keys) == (b.normalizer, b.keys)
        numbers = [[x for x in vars(row).values() if isinstance(x, float)] for row in (a, b)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-5)
    assert {size.share for size in everyone.flocks} == {1.0}
    assert "lower far or window" in advice(everyone)[1][0]


def test_globals_do_not_stand_for_all_rows(inputs):
    """Without a causal mask the rows of global tokens see the most and choose nothing."""
    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=258, hidden_size=24, num_hidden_layers=1, num_attention_heads=HEADS,
        attention_options={"scope": "flock", "far": 2, "window": 1, "n_global": 2},
    )  # fmt: skip
    model = AscenderForMaskedLM(config).eval()
    _, layers = capture(model, **inputs[40])
    sample = measured_rows(layers[0], rows_of(layers)[0], 5)
    assert sample.L.max() == 7
    assert (sample.V == 40).all()
    whole = measure(in_flock_scope(), {4: {"input_ids": inputs[16]["input_ids"][:, :4]}})
    assert whole.flocks[0].visible == 4  # where no flock is smaller than V: the last row


def test_layers_of_visible_scope_have_no_flock(inputs):
    mixed = measure(in_flock_scope(plain_layers=[0]), inputs, normalizers=["softmax"])
    assert {size.layer for size in mixed.flocks} == {1}
    assert [r.keys for r in of(mixed) if r.length == 40] == [VISIBLE] * HEADS + [5] * HEADS
    lines = guideline(of(mixed), mixed.flocks)
    assert any(
        line.startswith(f"L = 40: {HEADS} of {HEADS} heads use N = exp(H)") for line in lines
    )
    assert "L = 40: flocks of 1 of 1 layers hold N = |F| ≥ 0.06 |V| keys" in lines[-1]
    assert lines[-1].endswith("the largest is 0.13 |V|, in layer 1")


def test_a_retrofitted_model(inputs):
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=258, hidden_size=24, intermediate_size=32, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model = ascender.retrofit(model, scope="flock", far=3, window=2, n_global=1)
    found = measure(model, {40: inputs[40]}, normalizers=["softmax"])
    assert [(size.visible, size.keys) for size in found.flocks] == [(VISIBLE, 7)] * LAYERS
    assert {r.keys for r in of(found)} == {7.0}


@pytest.mark.parametrize(
    ("keys", "visible", "seen", "do"),
    [
        (3, 60, "flock of 3 of 60 visible keys (|F|/|V| = 0.05, under 0.06 in 1 of 1 layers)",
         "Every flock holds fewer than 0.06"),
        (6, 60, "under 0.06 in 0 of 1 layers", "texts of 101 visible keys or more"),
        (60, 60, "flock of 60 of 60", "every visible key"),
    ],
)  # fmt: skip
def test_what_is_said_and_what_to_do(keys, visible, seen, do):
    rows = [
        SimpleNamespace(normalizer="softmax", layer=0, head=h, length=64, keys=keys, share=0.5,
                        support=keys / 2, temperature=1.0) for h in (0, 1)
    ]  # fmt: skip
    size = FlockSize(64, 0, visible, keys, keys / visible, keys / 2)
    found = advice(Measured("m", "softmax", ("a",), rows, flocks=[size]))
    assert seen in found[0][0]
    assert do in found[1][0]
    assert all(ko and ko != en for en, ko in found)


@pytest.mark.parametrize("keys", [1, 3, 5, 6, 13, 50])
def test_enough_keys_are_the_least(keys):
    n = enough_keys(keys)
    assert keys < 0.06 * n
    assert keys >= 0.06 * (n - 1) - 1e-9


def test_growth_is_over_the_visible_keys(flocked):
    """|F| is the same at both lengths: of L there would be no slope."""
    assert {r.keys for r in of(flocked)} == {5.0}
    betas = growth(flocked)
    assert len(betas) == LAYERS * HEADS
    assert all(abs(beta) < 1.5 for beta in betas.values())


def test_tables_say_which_length_is_which(flocked, found):
    kept, plain = summary(flocked), summary(found)
    assert list(tables_of(kept)) == ["lengths", "flock", *list(TABLES)[1:]]
    assert list(tables_of(kept, short=True)) == ["lengths", "flock"]
    assert list(tables_of(plain)) == list(TABLES)
    assert "flocks" not in plain
    lines = markdown(tables_of(kept)["flock"](kept)).splitlines()
    assert lines[0].startswith(r"| layer | \|F\| | \|F\|/\|V\| at 16 | \|F\|/\|V\| at 40 |")
    assert lines[2].split(" | ")[:6] == ["| 0", "5", "0.323", "0.132", "none", "84"]
    assert markdown(TABLES["lengths"](kept)).startswith(r"| tokens | L = \|F\| | H (nats)")
    assert markdown(TABLES["lengths"](plain)).startswith("| L | H (nats)")
    assert markdown(side_by_side(kept, plain)).startswith("| tokens |")
    assert Measured.of(json.loads(json.dumps(flocked.asdict()))) == flocked
    old = {k: v for k, v in found.asdict().items() if k != "flocks"}  # stored by older versions
    assert Measured.of(json.loads(json.dumps(old))) == found


def test_two_scopes_compared(flocked, found):
    said = verdict(compared(flocked, found))
    assert " of its flock (exp(H)/L" in said
    assert f" of its keys ({LAYERS * HEADS} heads)" in said
    assert "exp(H) grows as |V|^β" in said
    assert "flock" not in verdict(compared(found, found))


@pytest.mark.parametrize("name", figures.FIGURES)
def test_figures_of_a_flock(name, flocked):
    drawn = figures.FIGURES[name](flocked)
    if name == "support":
        lines = {line.get_label(): line for line in drawn.get_axes()[0].lines}
        assert list(lines["L"].get_ydata()) == [5, 5]
        assert lines["L"].get_xdata()[-1] == VISIBLE
        assert lines["0.06 |V|"].get_ydata()[-1] == pytest.approx(0.06 * VISIBLE)


def test_the_command(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from ascender.cli import app

    monkeypatch.setattr(figures, "FIGURES", {"support": figures.support})
    in_flock_scope().save_pretrained(tmp_path / "m")
    bytes_tokenizer().save_pretrained(tmp_path / "m")
    given = ["limits", str(tmp_path / "m"), "--lengths", "16,40", "--normalizers", "topk"]
    done = CliRunner().invoke(app, [*given, "--batch", "2", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.stderr
    assert "Flock size and the advice N < 0.06 L" in done.stdout
    assert "|F|/|V| at 40" in done.stdout
    *_, seen, do = done.stdout.splitlines()
    assert "a flock of 5 of 38 visible keys" in seen
    assert "texts of 84 visible keys or more" in do
    assert "flocks of 2 of 2 layers hold N = |F|" in done.stderr
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "Flock size and the advice" in page
    assert "N = |F| with L = |V|" in page
    stored = json.loads((tmp_path / "out" / "limits.json").read_text("utf-8"))["models"][0]
    assert [size["keys"] for size in stored["flocks"]] == [5.0] * 4


def test_a_flock_of_one_key_leaves_nothing_out(inputs):
    alone = in_flock_scope(far=0, window=0, n_global=0)
    with pytest.raises(ValueError, match="attends to 1 key; expected at least 2"):
        measure(alone, inputs)
    assert limits.measure(make_model(), {16: inputs[16]}, normalizers=["topk"]).flocks == []
