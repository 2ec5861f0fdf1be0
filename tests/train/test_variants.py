"""Variants by name: every option of the attention, its position and its normaliser is a piece, and
what does not fit is named before anything is built."""

import json

import pytest
import torch

from ascender.hf import AscenderConfig
from ascender.nn.module import AscenderAttention
from ascender.nn.rule_parameters import LEARNED
from ascender.train import Run, variant
from ascender.train.folder import plain


@pytest.fixture(autouse=True)
def as_users_see_it(monkeypatch):
    """Without the checks of shapes that only tests have: they would refuse wrong types first."""
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)


def attention_of(name, task="distinct"):
    """The attention of a run's first layer."""
    run = Run.of(task, variant=name, hidden=16, layers=1, heads=4)
    config = run.config(run.make_task())
    again = AscenderConfig(**json.loads(json.dumps(config.to_dict())))
    return again.make_attention(again.make_position())


@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_number_is_a_piece(name):
    more = "+affinity_term=True" if name == "omega_aff" else ""
    for text, want in (("0.5", [0.5] * 4), ("[0.1,0.2,0.4,0.3]", [0.1, 0.2, 0.4, 0.3])):
        rules = attention_of(f"ascender+{name}={text}{more}").rules()
        assert torch.allclose(getattr(rules, name), torch.tensor(want)), name


def test_pieces_of_position_and_normalizer():
    both = attention_of("vanilla+clip=3+size=0.06+topk+shaw+temperature=2")
    assert (both.position.clip, both.normalizer.size, both.normalizer.temperature) == (3, 0.06, 2)
    assert attention_of("vanilla+topk+size=7").normalizer.size == 7
    assert attention_of("ascender+temperature=0.5").normalizer.temperature == 0.5
    assert attention_of("ascender+rope+base=500.0").position.base == 500
    assert attention_of("ascender+ssmax+s=0.3+tau_score=0.7").normalizer.s == 0.3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ascender+tau_sep=wide", "tau_sep = 'wide'; expected a number > 0, or a list of 4"),
        ("ascender+tau_sep=-1", "tau_sep = -1; expected a number > 0"),
        ("ascender+omega_align=[0.1,0]", r"omega_align has 2 values; expected 1 or 4 \(one a head"),
        ("ascender+delta=[0,0,true,0]", r"delta\[2\] = True; expected a number"),
        ("ascender+kappa=NaN", "kappa = nan; expected a number > 0"),
        ("ascender+kapa=3", "no option 'kapa'.*'kappa'"),
        ("vanilla+tau_sep=1", "vanilla attention has no option 'tau_sep'"),
        ("vanilla+shaw+clip=far", "clip = 'far'; expected an int ≥ 0"),
        ("vanilla+clip=3", "clip = 3 in variant 'vanilla.clip=3' is an option of shaw; expected"),
        ("vanilla+size=3", "size = 3.*is an option of topk; expected it after .topk"),
        ("vanilla+topk=3", r"topk=3 in variant.*expected vanilla.topk.size=3"),
        ("vanilla+topk+size=0", "size = 0; expected an int ≥ 1, or a share"),
        ("vanilla+topk+size=2.5", r"size = 2.5; expected an int ≥ 1, or a share.*\(0, 1\)"),
        ("vanilla+temperature=hot", "temperature = 'hot'; expected a positive number"),
        ("vanilla+t5+buckets=many", "buckets = 'many'; expected an int"),
        ("ascender+rope+factor=[2]", r"factor = \[2\]; expected a positive number"),
        ("ascender+backend=flush", "unknown backend 'flush'"),
    ],
)
def test_a_piece_that_does_not_fit_is_named(name, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        Run.of("distinct", variant=name)


def test_flash_and_dense_are_ascender_computed_otherwise():
    """The same parameters and outputs as ascender, each on its backend."""
    made = {name: attention_of(name) for name in ("ascender", "flash", "dense")}
    x = torch.randn(2, 40, 16)
    for name, backend in (("ascender", "auto"), ("flash", "folded"), ("dense", "dense")):
        assert made[name].backend == backend
        made[name].load_state_dict(made["ascender"].state_dict())
        for causal in (False, True):
            want = made["ascender"](x, causal=causal)
            assert torch.allclose(made[name](x, causal=causal), want, atol=1e-5)
            cache = made[name].new_cache()
            steps = [made[name](x[:, i : i + 1], cache=cache) for i in range(40)]
        assert torch.allclose(torch.cat(steps, 1), want, atol=1e-5)


def test_pieces_survive_the_file_of_a_run():
    name = "ascender+omega_align=[0.1,0,0.2,0.1]+tau_sep=0.5"
    run = Run.of("distinct", variant=name)
    again = Run(**json.loads(json.dumps(plain(run))))
    assert (again.key, again.variant) == (run.key, name)
    assert variant(name).options == {"omega_align": [0.1, 0, 0.2, 0.1], "tau_sep": 0.5}


def test_options_are_fields_of_the_config(tmp_path):
    """By name or in attention_options: one place holds them, and JSON brings them back."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = AscenderConfig(**sizes, tau_sep=0.5, omega_align=[0.1, 0, 0.2, 0.1], k=3)
    same = {"tau_sep": 0.5, "omega_align": [0.1, 0, 0.2, 0.1], "k": 3}
    assert config.attention_options == same
    assert config.to_dict() == AscenderConfig(**sizes, attention_options=same).to_dict()
    config.save_pretrained(tmp_path)
    for loaded in (AscenderConfig.from_pretrained(tmp_path), config):
        assert (loaded.tau_sep, loaded.k) == (0.5, 3)
        made = loaded.make_attention(loaded.make_position())
        assert made.rules().omega_align.tolist() == pytest.approx([0.1, 0, 0.2, 0.1])
    assert not hasattr(config, "tau_coh")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tau_sep": "wide"}, "tau_sep = 'wide'; expected a number > 0"),
        ({"tau_sop": 1.0}, "unknown field 'tau_sop'.*tau_sep"),
        ({"omega_coh": [1.0] * 3}, "omega_coh has 3 values; expected 1 or 4"),
        ({"k": 3, "attention_options": {"k": 4}}, "k = 3, and attention_options has it too"),
        ({"attention_options": [1]}, r"attention_options = \[1\]; expected options by name"),
        ({"attention_options": {"tau_sep": {}}}, r"tau_sep = \{\}; expected a number > 0"),
        ({"position": "shaw", "position_options": {"clip": "x"}}, "clip = 'x'; expected an int"),
        ({"normalizer": "topk", "normalizer_options": {"size": [2]}}, r"size = \[2\]; expected"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_the_config_is_named(fields, words):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    with pytest.raises(Exception, match=f"(?s){words}"):
        AscenderConfig(**sizes, **fields)


def test_every_wrong_type_is_named():
    """Nothing is passed on to torch that torch would refuse in its own words."""
    wrong = ["a", {"a": 1}, [[1.0] * 4], [], float("nan"), object]
    for name in LEARNED:
        for value in wrong:
            with pytest.raises(ValueError, match=f"{name}.*expected"):
                AscenderAttention(16, 4, affinity_term=True, **{name: value})
