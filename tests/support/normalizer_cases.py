"""The cases of the laws under every normaliser, broken ones among them."""

from dataclasses import dataclass, replace

import pytest
import torch

from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, backends_for
from ascender.core.normalizers import (
    NORMALIZERS,
    LengthAware,
    Normalizer,
    TopK,
    normalizer,
)
from support.laws import (
    TOLERANCE,
    Case,
    H,
    case,
    gradients,
    serving,
)

OFF = {"lam_align": 0.0, "lam_sep": 0.0, "lam_coh": 0.0}  # vanilla scores
EXACT = TOLERANCE[torch.float64]
SPARSE = ("topk", "sparsemax", "entmax15")


def make(name):
    """One of each, with options that matter at the sizes of the laws."""
    options = {"softmax": {"temperature": 0.7}, "length": {"reference": 6}, "topk": {"size": 3}}
    norm = normalizer(name, heads=H, **options.get(name, {}))
    if name == "ssmax":
        with torch.no_grad():
            norm.log_s.copy_(torch.tensor([0.4, 0.9, 1.6]).log())
    return norm


@dataclass(frozen=True)
class Under(Case):
    """A case of the laws under a normaliser."""

    normalizer: Normalizer | None = None

    def call(self):
        return {**super().call(), "normalizer": self.normalizer}


def under(norm, kind, options="plain", **sizes):
    norm = make(norm) if isinstance(norm, str) else norm
    return Under(**vars(case(kind, options, **sizes)), normalizer=norm)


def able(kind):
    """The backends that a normaliser runs on."""
    return backends_for("columns" if kind.softmax else "rows")


ROWS = ("dense", "decode")


def everywhere(*kinds, among=tuple(BACKENDS)):
    """normaliser × kind × backend, over the backends that have both."""
    combinations = [
        (name, kind, backend)
        for name in NORMALIZERS
        for kind in kinds
        for backend in ("dense", *serving(kind))
        if backend in able(NORMALIZERS[name]) and backend in among
    ]
    ids = map("-".join, combinations)
    return pytest.mark.parametrize(("name", "kind", "backend"), combinations, ids=ids)


class Blind(Normalizer):
    """A broken one: softmax over everything."""

    name, softmax = "blind", False

    def weights(self, total, visible):
        return torch.softmax(total, -1)


class Whole(LengthAware):
    """A broken one: n = M instead of |V(i)|."""

    def sharpen(self, q, n):
        return super().sharpen(q, torch.full_like(n, int(n.max())))


def vanilla(kind, options="plain", **sizes):
    """(case without rules and at τ_score 1, its Visibility)."""
    x = under(TopK(4), kind, options, **sizes)
    one = {**x.numbers, "tau_score": torch.ones_like(x.numbers["tau_score"])}
    x = replace(x, fixed={**x.fixed, **OFF}, numbers=one)
    return x, build_flock(**x.call()).vis


def with_s(x, backend):
    """The gradients of laws.py, and that by log s."""
    x.normalizer.zero_grad()
    found = gradients(x, backend)
    return found, getattr(getattr(x.normalizer, "log_s", None), "grad", None)
