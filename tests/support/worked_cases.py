"""The worked cases in vectors/ (float64), and any case computed by the oracle."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ascender import asc_attention
from ascender.core.combine import LowRank
from support.laws import gap, visible
from support.oracles import asc_oracle

SDIST = not (Path(__file__).parents[2] / "results").is_dir()  # it has no arrays
in_the_repository = pytest.mark.skipif(SDIST, reason="the sdist leaves the worked cases out")
VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.npz"))
NAMES = [
    "base_neighbours", "causal", "cross", "decode", "flock", "flock_causal", "flock_cross",
    "flock_decode", "flock_everyone", "flock_repeated", "flock_tied", "full", "given_neighbours",
    "local", "local_causal", "other_bias", "padded", "raw", "repeated_causal", "scheduled",
    "scope_all", "window",
]  # fmt: skip
PARTS = ("base", "align", "sep", "coh", "aff", "other", "total", "weights")


def load(name):
    """One vector file: the arrays, and the arguments of asc_oracle that they and `meta` spell."""
    if SDIST:
        pytest.skip("the sdist leaves the worked cases out")
    with np.load(Path(__file__).parent / "vectors" / f"{name}.npz") as file:
        data = {key: file[key] for key in file.files}
    meta = data["meta"] = json.loads(str(data["meta"]))
    call = {key: data[key] for key in ("q", "k", "v", "z_q", "h_q", "z_k", "h_k", "visible")}
    call["rule"] = {key[5:]: data[key] for key in data if key.startswith("rule_")}
    call["other"] = data.get("other")
    call["neighbours"] = data["neighbours"] if meta["neighbours"] == "given" else meta["neighbours"]
    for key in ("cross", "causal", "standardise", "separation_scope", "local_scope"):
        call[key] = meta[key]
    if meta.get("scope") == "flock":
        call |= {key: meta[key] for key in ("scope", "affinity", "affinity_term", "n_global")}
        call["window"] = meta["window"] or 0
    return data, call


def flock_of(x):
    """What the oracle takes of a case in flock scope, or with an affinity."""
    asked = {**x.flock, "affinity_bias": x.numbers.get("affinity_bias")}
    if x.flock.get("scope") == "flock":
        asked |= {"window": x.masks.get("window") or 0, "n_global": x.masks.get("n_global", 0)}
    return asked


FIXED = ("standardise", "separation_scope", "local_scope")


def oracle_of(x):
    """The same case by loops. The oracle knows no `bare`: alignment by the bare keys is attention
    over them with (k − bare)·q/√d as a bias."""
    x = x.on("cpu")
    call, rules = x.call(), x.call()["rules"]
    rule = {name: value for name, value in vars(rules).items() if name not in FIXED}
    rule |= {"k": rules.sizes(), "far": rules.sizes("far")}
    H, other = call["q"].shape[1], call.get("other")
    k, v = (call[name].expand(-1, H, -1, -1) for name in ("k", "v"))
    other = other.dense() if isinstance(other, LowRank) else other
    if call["bare"] is not None:
        other = call["q"] @ (k - call["bare"]).mT / k.shape[-1] ** 0.5
        k = call["bare"]
    return asc_oracle(
        call["q"], k, v, call["z_q"], call["h_q"], call.get("z_k", call["z_q"]),
        call.get("h_k", call["h_q"]), rule, visible(x), other=other,
        neighbours=x.neighbours, cross=x.masks.get("cross", False),
        causal=x.masks.get("causal", False),
        **{name: getattr(rules, name) for name in FIXED}, **flock_of(x),
    )  # fmt: skip


def check_oracle(x, bare=False):
    """Dense attention of a case, every part of it, is what the loops compute; returns that. The
    loops have one kind of keys: `bare`, unrotated ones, enter their sums as `other`."""
    out, parts = asc_attention(**x.call(), return_parts=True)
    expected = oracle_of(x)
    assert gap(out, torch.from_numpy(expected["out"])) < 1e-12
    for part in PARTS:
        if part not in ("base", "other") or not bare:
            assert gap(getattr(parts, part), torch.from_numpy(expected[part])) < 1e-12, part
    return expected
