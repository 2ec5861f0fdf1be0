"""The options of the rules are defined once; the parameters keep the names of saved weights."""

import inspect

import pytest
import torch

from ascender.hf.retrofit.install import DEFAULTS
from ascender.hf.retrofit.rule_adapter import RuleAdapter
from ascender.nn.baselines.shuffled import Shuffled
from ascender.nn.module import AscenderAttention
from ascender.nn.rule_parameters import OPTIONS
from ascender.nn.slot import options_of

NUMBERS = [
    "omega_align", "omega_sep", "omega_coh", "alpha_align", "alpha_coh", "log_tau_sep",
    "log_tau_coh", "delta", "log_kappa", "log_tau_score",
]  # fmt: skip


@pytest.mark.parametrize("kind", [AscenderAttention, Shuffled, RuleAdapter])
def test_every_module_shows_the_options_with_its_defaults(kind):
    shown = inspect.signature(kind).parameters
    assert {name: shown[name].default for name in OPTIONS} == {n: getattr(kind, n) for n in OPTIONS}
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
        ({"geometry": "shred"}, "unknown geometry 'shred'; expected one of per_head, shared"),
        ({"neighbours": "near"}, "unknown neighbours 'near'"),
        ({"k": [1, 2]}, "k has 2 values; expected 1 or one a head"),
        ({"backend": "fold"}, "unknown backend 'fold'"),
        ({"tau": 0}, "tau = 0; expected a number > 0"),
    ],
)
def test_wrong_options_fail_where_they_are_given(kind, options, words):
    with pytest.raises(ValueError, match=words):
        kind(12, 3, **options)
