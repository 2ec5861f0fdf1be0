"""The options of the rules are defined once; the parameters keep the names of saved weights."""

import inspect
import warnings

import pytest
import torch

from ascender.core.normalizers import normalizer
from ascender.core.rules import Rules
from ascender.hf.retrofit.install import DEFAULTS
from ascender.hf.retrofit.rule_adapter import RuleAdapter
from ascender.nn.baselines.shuffled import Shuffled
from ascender.nn.module import AscenderAttention
from ascender.nn.rule_parameters import LEARNED, OPTIONS, default
from ascender.nn.slot import options_of

NUMBERS = [
    "omega_align", "omega_sep", "omega_coh", "alpha_align", "alpha_coh", "log_tau_sep",
    "log_tau_coh", "delta", "log_kappa", "log_tau_score",
]  # fmt: skip


@pytest.mark.parametrize("kind", [AscenderAttention, Shuffled, RuleAdapter])
def test_every_module_shows_the_options_with_its_defaults(kind):
    shown = inspect.signature(kind).parameters
    assert {name: shown[name].default for name in OPTIONS} == {n: default(kind, n) for n in OPTIONS}
    assert (shown["omega"].default, shown["geometry"].default) == (
        (0.0, "shared") if kind is RuleAdapter else (0.1, "per_head")
    )
    made = kind(12, 3, gates=False, tau=2.0, k=[1, 2, 3]).rules()
    assert (made.alpha_align, made.k) == (0.0, (1, 2, 3))
    assert torch.allclose(made.tau_sep, torch.tensor(2.0))


def test_options_of_variants_and_retrofits_are_these():
    assert set(OPTIONS) < set(options_of(AscenderAttention))
    assert set(DEFAULTS) == {*OPTIONS, "backend", "window", "n_global"}


def test_parameters_keep_their_names():
    W = [f"W_{letter}.weight" for letter in "QKVO"]
    ours = AscenderAttention(12, 3, qk_norm=True).state_dict()
    assert list(ours) == ["log_gain", *NUMBERS, *W, "U.weight", "P.weight"]
    assert list(RuleAdapter(12, 3).state_dict()) == [*NUMBERS, "U.weight", "P.weight"]
    ungated = [n for n in NUMBERS if n not in ("alpha_align", "alpha_coh", "log_kappa")]
    kept = RuleAdapter(12, 3, gates=False, numbers="shared").state_dict()
    assert list(kept) == [*ungated, "U.weight", "P.weight"]
    assert kept["delta"].shape == (1,)


@pytest.mark.parametrize("kind", [AscenderAttention, RuleAdapter])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gates": 1}, "gates = 1; expected True or False"),
        (
            {"geometry": "shred"},
            "unknown geometry 'shred'.*expected one of per_head, shared",
        ),
        ({"neighbours": "near"}, "unknown neighbours 'near'"),
        ({"k": [1, 2]}, "k has 2 values; expected 1 or one a head"),
        ({"backend": "fold"}, "unknown backend 'fold'"),
        ({"tau": 0}, "tau = 0; expected a number > 0"),
        ({"kappa": [1, 2, 0]}, r"kappa\[2\] = 0; expected a number > 0"),
        ({"delta": "low"}, r"delta = 'low'; expected a number, or a list of 3 \(one a head\)"),
        ({"omega_align": [1, 2]}, r"omega_align has 2 values; expected 1 or 3 \(one a head\)"),
        ({"omega_sep": [1, None, 2]}, r"omega_sep\[1\] = None; expected a number"),
        ({"numbers": "shared", "delta": [1, 2, 3]}, "delta has 3 values; expected 1, which all"),
        ({"geometry": "shared", "tau": [1, 2, 3]}, "tau has 3 values; expected 1, which all heads"),
        ({"gates": False, "kappa": 2.0}, "kappa = 2.0 with gates=False, where it is not learned"),
        ({"gates": False, "alpha": 2.0}, "alpha = 2.0 with gates=False"),
        ({"omega_aff": 2.0}, "omega_aff = 2.0 with affinity_term=False"),
    ],
)
def test_wrong_options_fail_where_they_are_given(kind, options, words):
    with pytest.raises(ValueError, match=words):
        kind(12, 3, **options)


@pytest.mark.parametrize("kind", [AscenderAttention, RuleAdapter])
@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_number_starts_where_its_option_says(kind, name):
    """One value or one a head; the others start as ever, and so after reset_numbers."""
    more = {"geometry": "per_head", "affinity_term": True}
    usual = kind(12, 3, **more).rules()
    for start in (0.7, [0.25, 0.5, 0.125]):
        module = kind(12, 3, **more, **{name: start})
        for _ in range(2):
            rules = module.rules()
            assert torch.allclose(getattr(rules, name), torch.tensor(start).expand(3))
            for other in set(LEARNED) - {name}:
                assert torch.equal(getattr(rules, other), getattr(usual, other))
            torch.nn.init.zeros_(dict(module.named_parameters())[parameter_of(module, name)])
            module.reset_numbers()


def parameter_of(module, name):
    return name if name in dict(module.named_parameters()) else f"log_{name}"


def test_one_option_starts_several_numbers_unless_theirs_say_otherwise():
    made = AscenderAttention(12, 3, omega=[1, 2, 3], omega_sep=0, tau=2, tau_coh=4, alpha=5).rules()
    shown = {
        "omega_align": [1, 2, 3], "omega_sep": [0, 0, 0], "omega_coh": [1, 2, 3],
        "tau_sep": [2, 2, 2], "tau_coh": [4, 4, 4], "alpha_align": [5, 5, 5],
        "alpha_coh": [5, 5, 5],
    }  # fmt: skip
    for name, want in shown.items():
        assert torch.allclose(getattr(made, name), torch.tensor(want, dtype=torch.float32)), name


def test_the_start_changes_what_is_computed():
    """Each option reaches the scores: the output differs from that of the defaults."""
    x = torch.randn(2, 9, 12)
    starts = {
        "omega_align": 2.0, "omega_sep": 2.0, "omega_coh": 2.0, "omega_aff": 2.0, "kappa": 2.0,
        "alpha_align": 9.0, "alpha_coh": 9.0, "tau_sep": 0.3, "tau_coh": 0.3, "delta": -0.5,
        "tau_score": 0.5,
    }  # fmt: skip
    assert set(starts) == set(LEARNED)
    for name, start in starts.items():
        torch.manual_seed(0)
        usual = AscenderAttention(12, 3, k=3, affinity_term=True)
        torch.manual_seed(0)
        other = AscenderAttention(12, 3, k=3, affinity_term=True, **{name: start})
        assert not torch.allclose(usual(x), other(x), atol=1e-5), name


@pytest.mark.parametrize(
    "make",
    [
        lambda T: AscenderAttention(12, heads=2, tau_score=T),
        lambda T: AscenderAttention(12, heads=2, tau_score=[1.0, T]),
        lambda T: Rules(tau_score=T),
        lambda T: normalizer("softmax", heads=2, temperature=T),
    ],
)
def test_a_temperature_below_a_tenth_warns_at_once(make):
    with pytest.warns(UserWarning, match=r"0\.09; expected at least 0\.1"):
        make(0.09)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(0.1)
