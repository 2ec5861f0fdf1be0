"""Random cases of every kind. No two axes share a size, so a swapped axis cannot pass."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ascender import LowRank, Rules
from ascender.kernels.build import kernels

B, H, N, D, E, Z, A, K = 2, 3, 11, 7, 5, 4, 6, 3
LARGE = 157  # crosses the chunk (128), the block (32) and the size from which flash is used (128)

KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"causal": True},
    "padded right": {"pad": "right"},
    "padded left": {"pad": "left"},
    "padded by head": {"pad": "head"},
    "causal padded right": {"causal": True, "pad": "right"},
    "causal padded left": {"causal": True, "pad": "left"},  # the first rows see nothing
    "window": {"window": 2},
    "window globals": {"window": 2, "n_global": 2},
    "window padded": {"window": 2, "n_global": 1, "pad": "left"},
    "window by head": {"window": 3, "pad": "head"},
    "window causal": {"window": 3, "causal": True},
    "window causal globals": {"window": 3, "n_global": 2, "causal": True, "pad": "right"},
    "cross": {"cross": True, "queries": 5},
    "cross padded": {"cross": True, "queries": 13, "pad": "right"},
    "decode": {"causal": True, "queries": 4},
    "decode padded": {"causal": True, "queries": 4, "pad": "left"},
    "decode window": {"causal": True, "queries": 4, "window": 3, "n_global": 2},
    "tail": {"queries": 4, "pad": "right"},
    "any mask": {"looks": 0.6},  # every query and head its own, some rows empty
}
OPTIONS = (
    "plain", "raw", "local", "scores", "given", "k-per-head", "shared", "key-norm", "bare",
    "float-norm", "one-tau", "low-rank", "key-bias", "grouped", "wide-values", "shared local given",
    "raw local scores", "bare key-norm", "shared given k-per-head", "shared one-tau key-norm",
    "matrix",
)  # fmt: skip
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
NATIVE = (torch.float32, torch.bfloat16) if kernels().library else ()  # what the C kernel takes
# A few times the worst that was measured: 2e-15, 8e-7, 8e-3.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 2e-2}
# One of each layout; the other kinds run in float64.
FEW = (
    "full", "padded by head", "causal padded left", "window globals", "window by head",
    "cross padded", "decode window",
)  # fmt: skip

BY_QUERY = ("q", "z_q", "h_q", "left")
BY_KEY = ("k", "v", "z", "h", "bare", "right", "bias")  # and "matrix" by neither


def serving(
    kind: str, options: str = "plain", dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[str]:
    """The backends besides dense that serve a kind: written out, so that a refusal by mistake
    is not a test that vanishes."""
    short = ["decode", "compact", *(["native"] if dtype in NATIVE else [])]
    long = ["windowed"] if "window" in KINDS[kind] else ["folded", "fused"]
    if "looks" in KINDS[kind] or "matrix" in options:
        long = []
    return [name for name in (*long, *short) if runs_on(device, name, dtype)]


def runs_on(device: str, backend: str, dtype: torch.dtype) -> bool:
    """Whether a backend takes a type on a device at all."""
    if device == "cpu":
        return backend != "fused"
    if backend in ("folded", "fused"):  # the stand-in of a GPU ("meta") has no Triton
        return dtype != torch.float64 and (backend, device) != ("fused", "meta")
    return backend != "native"


def each(*words, without=(), only=tuple(KINDS)):
    """kind × backend × dtype, over the kinds that have all the words and none of the others;
    conftest.py leaves out what a device does not take."""
    combinations = [
        (kind, backend, dtype)
        for kind, spec in KINDS.items()
        if all(word in spec for word in words) and not any(word in spec for word in without)
        for dtype in DTYPES
        for backend in dict.fromkeys(
            ("dense", *serving(kind, dtype=dtype), *serving(kind, dtype=dtype, device="cuda"))
        )
        if kind in only
        and (dtype == torch.float64 or kind in FEW or (backend, dtype) == ("native", torch.float32))
    ]
    assert combinations
    ids = [f"{kind}-{backend}-{str(dtype)[6:]}" for kind, backend, dtype in combinations]
    return pytest.mark.parametrize(("kind", "backend", "dtype"), combinations, ids=ids)


@dataclass(frozen=True)
class Case:
    """leaves: what the tokens are (z and h of the keys; of queries too where they have their own).
    numbers: the rules' numbers, (H,) each. fixed: the rest of Rules. masks: the kind."""

    leaves: dict[str, Tensor]
    numbers: dict[str, Tensor]
    fixed: dict[str, Any]
    masks: dict[str, Any]
    neighbours: str | Tensor = "semantic"
    key_norm: float | None = None  # or a number with a gradient, among the numbers
    flock: dict[str, Any] = field(default_factory=dict)  # scope, affinity, affinity_term

    @property
    def N(self) -> int:
        return self.leaves["q"].shape[2]

    @property
    def M(self) -> int:
        return self.leaves["k"].shape[2]

    def but(self, **leaves: Tensor) -> Case:
        """The same with other tokens."""
        return replace(self, leaves={**self.leaves, **leaves})

    def to(self, dtype: torch.dtype) -> Case:
        """Tokens in a dtype; numbers stay at least float32, as parameters do."""
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        return replace(
            self,
            leaves={name: t.to(dtype) for name, t in self.leaves.items()},
            numbers={name: t.to(wide) for name, t in self.numbers.items()},
        )

    def on(self, device: str) -> Case:
        """The same tensors on a device."""

        def moved(given: dict[str, Any]) -> dict[str, Any]:
            return {n: t.to(device) if isinstance(t, Tensor) else t for n, t in given.items()}

        fields = ("leaves", "numbers", "masks")
        near = self.neighbours if isinstance(self.neighbours, str) else self.neighbours.to(device)
        return replace(self, **{n: moved(getattr(self, n)) for n in fields}, neighbours=near)

    def call(self) -> dict[str, Any]:
        """The arguments of asc_attention."""
        x, numbers = self.leaves, dict(self.numbers)
        call = {name: x[name] for name in ("q", "k", "v")}
        for letter in "zh":
            keys = x[letter]
            if f"{letter}_q" in x:
                call |= {f"{letter}_q": x[f"{letter}_q"], f"{letter}_k": keys}
            elif self.N < self.M:
                call |= {f"{letter}_q": keys[..., self.M - self.N :, :], f"{letter}_k": keys}
            else:
                call[f"{letter}_q"] = keys
        if "left" in x:
            call["other"] = LowRank(x["left"], x["right"])
        if "bias" in x:
            call["other"] = x["bias"].mT
        if "matrix" in x:
            call["other"] = x["matrix"]
        call |= {"bare": x.get("bare"), "key_norm": numbers.pop("key_norm", self.key_norm)}
        if "tau" in numbers:  # one tensor for both kernels
            numbers |= {"tau_sep": numbers["tau"], "tau_coh": numbers.pop("tau")}
        if "affinity_bias" in numbers:
            call["affinity_bias"] = numbers.pop("affinity_bias")
        rules = Rules(**numbers, **self.fixed)
        call |= {"rules": rules, "neighbours": self.neighbours}
        return {**call, **self.masks, **self.flock}


def case(
    kind: str, options: str = "plain", size: int = N, *, seed: int = 0, device: str = "cpu"
) -> Case:
    """A random case in float64 of `size` keys. `options`: words of OPTIONS."""
    words = set(options.split())
    g = torch.Generator().manual_seed(zlib.crc32(f"{kind} {options} {size} {seed}".encode()))
    spec, large = dict(KINDS[kind]), max(1, size // N)
    n = spec.pop("queries", None)
    n, m = (size if n is None else n * large), size
    pad, looks = spec.pop("pad", None), spec.pop("looks", None)
    if "window" in spec:
        spec["window"] *= large

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    own = 1 if "shared" in words else H
    kv = 1 if "grouped" in words else H
    x = {
        "q": randn(B, H, n, D), "k": randn(B, kv, m, D),
        "v": randn(B, kv, m, 23 if "wide-values" in words else E),
        "z": 0.6 * randn(B, own, m, Z), "h": randn(B, own, m, A),
    }  # fmt: skip
    if spec.get("cross"):
        x |= {"z_q": 0.6 * randn(B, own, n, Z), "h_q": randn(B, own, n, A)}
    if "bare" in words:
        x["bare"] = randn(B, kv, m, D)
    if "low-rank" in words:
        x |= {"left": randn(B, H, n, 2), "right": randn(B, 1, m, 2)}
    if "key-bias" in words:
        x["bias"] = randn(B, H, m, 1)  # transposed on the way: (B, H, 1, M)
    if "matrix" in words:
        x["matrix"] = randn(B, H, n, m)
    numbers = _numbers(large, words)
    if words & {"key-norm", "float-norm"}:
        length = torch.tensor([2.1, 2.9, 1.7] if "key-norm" in words else [2.3]).double()
        name = "bare" if "bare" in words else "k"
        x[name] = F.normalize(x[name], dim=-1) * length.view(-1, 1, 1)
        numbers |= {"key_norm": length} if "key-norm" in words else {}
    fixed = {"k": (1, K, 5) if "k-per-head" in words else K, "standardise": "raw" not in words}
    fixed["local_scope"] = "neighbours" if "local" in words else "visible"
    if pad:
        spec["mask"] = _padding(pad, m)
    if looks:
        spec["mask"] = torch.rand(B, H, n, m, generator=g) < looks
        spec["mask"][:, :, 2::5] = False
    near: str | Tensor = "scores" if "scores" in words else "semantic"
    if "given" in words:
        near = torch.randint(-1, m, (B, own, n, 2 * K), generator=g)  # with strangers and repeats
        near = near.to(device)
    return Case(
        {name: t.to(device) for name, t in x.items()},
        {name: t.to(device) for name, t in numbers.items()},
        fixed,
        {name: t.to(device) if isinstance(t, Tensor) else t for name, t in spec.items()},
        near,
        2.3 if "float-norm" in words else None,
    )


def _numbers(large: int, words: set[str]) -> dict[str, Tensor]:
    """One value a head: gates open and shut, a crowd that saturates and one that does not."""
    values = {
        "omega_align": (0.9, 1.7, -0.5), "omega_sep": (1.1, 2.3, 0.6),
        "omega_coh": (0.8, 1.4, -0.6),
        "alpha_align": (0.7, 1.3, 2.1), "alpha_coh": (1.9, 0.8, 1.1), "tau_sep": (0.8, 1.1, 1.6),
        "tau_coh": (1.2, 0.9, 1.5), "delta": (0.1, 0.2, 0.3), "tau_score": (0.9, 1.2, 1.0),
        "kappa": (1.5 * large, 4.0 * large, 60.0 * large),
    }  # fmt: skip
    if "one-tau" in words:
        values["tau"] = values.pop("tau_sep")
        values.pop("tau_coh")
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def _padding(side: str, m: int) -> Tensor:
    """(B, 1 or H, 1, M); the second of the batch is padded, by head all heads differently."""
    mask = torch.ones(B, H if side == "head" else 1, 1, m, dtype=torch.bool)
    cut = m // 3
    if side == "left":
        mask[1, ..., :cut] = False
    elif side == "right":
        mask[1, ..., m - cut :] = False
    else:
        for head in range(H):
            mask[1, head, :, m // (head + 2) :] = False
            mask[0, head, :, : 2 * head] = False
    return mask


def degenerate(x: Case, how: str) -> Case:
    """All tokens equal, all 0, or all 10⁴ times as large; or more neighbours than keys."""
    if how == "equal":
        return x.but(**{name: t[:, :, :1].expand_as(t).clone() for name, t in x.leaves.items()})
    if how == "k > M":
        return replace(x, fixed={**x.fixed, "k": 50})
    return x.but(**{name: (0 if how == "zero" else 1e4) * t for name, t in x.leaves.items()})
