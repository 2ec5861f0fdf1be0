"""Random cases of every kind, and the laws that every backend must keep (SPEC section 7).

A law is a function (case, backend) -> float: how far it is broken, relative to the size of the
output. No two axes share a size, so a swapped axis cannot pass.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ascender import LowRank, Rules, asc_attention
from oracles import visible_oracle

B, H, N, D, E, Z, A, K = 2, 3, 11, 7, 5, 4, 6, 3
LARGE = 157  # crosses the chunk (128), the block (64) and the size from which flash is used (128)

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
# A few times the worst that was measured: 2e-15, 8e-7, 8e-3.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 2e-2}
# One of each layout; the other kinds run in float64.
FEW = (
    "full", "padded by head", "causal padded left", "window globals", "window by head",
    "cross padded", "decode window",
)  # fmt: skip

BY_QUERY = ("q", "z_q", "h_q", "left")
BY_KEY = ("k", "v", "z", "h", "bare", "right", "bias")  # and "matrix" by neither


def serving(kind: str, options: str = "plain") -> list[str]:
    """The backends besides dense that serve a kind: written out, so that a refusal by mistake
    is not a test that vanishes."""
    if "looks" in KINDS[kind] or "matrix" in options:
        return ["decode", "compact"]
    return ["windowed" if "window" in KINDS[kind] else "folded", "decode", "compact"]


def each(*words, without=(), only=tuple(KINDS)):
    """kind × backend × dtype, over the kinds that have all the words and none of the others."""
    found = [
        (kind, backend, dtype)
        for kind, spec in KINDS.items()
        if all(word in spec for word in words) and not any(word in spec for word in without)
        for backend in ("dense", *serving(kind))
        for dtype in DTYPES
        if kind in only and (dtype == torch.float64 or kind in FEW)
    ]
    assert found
    ids = [f"{kind}-{backend}-{str(dtype)[6:]}" for kind, backend, dtype in found]
    return pytest.mark.parametrize(("kind", "backend", "dtype"), found, ids=ids)


@dataclass(frozen=True)
class Case:
    """leaves: what the tokens are (z and h of the keys; of the queries too only in cross).
    numbers: the rules' numbers, (H,) each. fixed: the rest of Rules. masks: the kind."""

    leaves: dict[str, Tensor]
    numbers: dict[str, Tensor]
    fixed: dict[str, Any]
    masks: dict[str, Any]
    neighbours: str | Tensor = "semantic"
    key_norm: float | None = None  # or a number with a gradient, among the numbers

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

    def call(self) -> dict[str, Any]:
        """The arguments of asc_attention."""
        x, numbers = self.leaves, dict(self.numbers)
        call = {name: x[name] for name in ("q", "k", "v")}
        for letter in "zh":
            keys = x[letter]
            if self.masks.get("cross"):
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
        rules = Rules(**numbers, **self.fixed)
        return {**call, "rules": rules, "neighbours": self.neighbours, **self.masks}


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


# Running a case.


def run(case: Case, backend: str) -> Tensor:
    return asc_attention(**case.call(), backend=backend)


def padding(case: Case) -> Tensor | None:
    """The mask as (B, 1 or H, M), where it is the same for every query."""
    mask = case.masks.get("mask")
    return mask[..., 0, :] if mask is not None and mask.shape[-2] == 1 else None


def real(case: Case) -> Tensor:
    """The rows that are somebody's, (B, H, N): a padded query's row is computed, but not used."""
    rows = torch.ones(B, H, case.N, dtype=torch.bool, device=case.leaves["q"].device)
    if padding(case) is not None and not case.masks.get("cross"):
        rows = rows & padding(case)[..., case.M - case.N :]
    return rows


def cotangent(case: Case, width: int) -> Tensor:
    """A fixed random direction to differentiate along; two rows in seven do not count."""
    g = torch.Generator().manual_seed(7)
    w = torch.randn(B, H, case.N, width, generator=g, dtype=torch.float64)
    w[..., ::7, :] = 0
    w[..., 3::7, :] = 0
    return w.to(case.leaves["q"]) * real(case)[..., None]


def gradients(case: Case, backend: str, scale: float = 1.0) -> dict[str, Tensor]:
    """The output (of real rows), and the gradient by every leaf and every number, by name; of a
    loss `scale` times as large, divided by that again."""
    leaves = {name: t.detach().clone().requires_grad_() for name, t in case.leaves.items()}
    numbers = {name: t.detach().clone().requires_grad_() for name, t in case.numbers.items()}
    out = run(replace(case, leaves=leaves, numbers=numbers), backend)
    out.backward(scale * cotangent(case, out.shape[-1]))
    found = {**leaves, **numbers}
    grads = {n: torch.zeros_like(t) if t.grad is None else t.grad / scale for n, t in found.items()}
    return {"out": out.detach() * real(case)[..., None], **grads}


def gap(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖ over the whole tensor (‖b‖ at least 1e-3)."""
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).norm() / b.norm().clamp_min(1e-3))


def outputs_gap(case: Case, a: Tensor, b: Tensor) -> float:
    """The gap over real rows."""
    return gap(a[real(case)], b[real(case)])


def visible(case: Case) -> Tensor:
    """V, (B, H or 1, N, M), from the loops of the oracle and not from the package."""
    masks = {key: x for key, x in case.masks.items() if key != "mask"}
    V = torch.from_numpy(visible_oracle(case.N, case.M, **masks))[:, None]
    V = V.to(case.leaves["q"].device)
    return V & case.masks["mask"] if "mask" in case.masks else V


def plain(case: Case) -> Tensor:
    """Vanilla attention in float64: softmax over V(i) of (q·k/√d + β)/τ_score, times v."""
    call, V = case.to(torch.float64).call(), visible(case)
    other = call.get("other", 0.0)
    s = call["q"] @ call["k"].mT / D**0.5 + (other.dense() if isinstance(other, LowRank) else other)
    s = (s / call["rules"].tau_score.view(-1, 1, 1)).masked_fill(~V, -torch.inf)
    return torch.softmax(s, -1).nan_to_num(0) @ call["v"]


# The laws.


def leak_from_unseen(case: Case, backend: str, among: slice = slice(None)) -> float:
    """Replacing token j changes no row that does not see j (but j's own): causal, no row before
    j; in a window, none further off."""
    worst, out, V = 0.0, run(case, backend), visible(case).expand(B, H, -1, -1)
    first = case.M - case.N
    for j in range(case.M)[among]:
        new, blind = {}, ~V[..., j]
        for name, t in case.leaves.items():
            here = j - first if name in BY_QUERY else j
            if here >= 0:
                new[name] = t.clone()
                new[name][:, :, here] = 1 - 2 * t[:, :, here]
        if j >= first:
            blind[..., j - first] = False
        changed = run(case.but(**new), backend)
        worst = max(worst, gap(changed[blind], out[blind]))
    return worst


def leak_from_padding(case: Case, backend: str, hidden: Tensor | None = None) -> float:
    """Padding: replacing every masked token changes no row of a token that is not masked."""
    if hidden is None:
        hidden = ~padding(case)
    new = {}
    for name in set(BY_KEY) & set(case.leaves):
        t = case.leaves[name]
        where = hidden if hidden.shape[1] in (1, t.shape[1]) else hidden.all(1, keepdim=True)
        new[name] = torch.where(where[..., None], 30 * t.flip(-2) + 7, t)
    kept = torch.ones(B, H, case.N, dtype=torch.bool, device=hidden.device)
    if not case.masks.get("cross"):
        kept = kept & ~hidden[..., case.M - case.N :]
    return gap(run(case.but(**new), backend)[kept], run(case, backend)[kept])


def not_vanilla(case: Case, backend: str, numbers: dict[str, Any] | None = None) -> float:
    """Zero is vanilla: ω = 0 (learned or not) and λ = 0 are plain attention."""
    names = ("align", "sep", "coh")
    zero = torch.zeros_like(case.numbers["omega_sep"])
    off = [({f"omega_{r}": zero for r in names}, {}), ({}, {f"lam_{r}": 0.0 for r in names})]
    if numbers is not None:
        off = [(numbers, {})]
    expected = plain(case)
    return max(
        outputs_gap(
            case,
            run(replace(case, numbers={**case.numbers, **n}, fixed={**case.fixed, **f}), backend),
            expected,
        )
        for n, f in off
    )


def moved(case: Case, how: str) -> Case:
    """The flock shifted or rotated as one, or every h scaled by a positive number of its own."""
    g = torch.Generator().manual_seed(11)
    turn = torch.linalg.qr(torch.randn(Z, Z, generator=g, dtype=torch.float64))[0]
    shift = 3 * torch.randn(Z, generator=g, dtype=torch.float64)
    new = {}
    for name in {"z", "z_q", "h", "h_q"} & set(case.leaves):
        t = case.leaves[name]
        if name[0] == "z" and how == "shift":
            new[name] = t + shift.to(t.device, t.dtype)
        if name[0] == "z" and how == "rotate":
            new[name] = (t.double() @ turn.to(t.device)).to(t.dtype)
        if name[0] == "h" and how == "scale":  # powers of 2: exact in every dtype
            power = torch.randint(-3, 4, t.shape[:3], generator=g)[..., None].to(t.device)
            new[name] = t * 2.0**power
    return case.but(**new)


def moved_apart(case: Case, backend: str, *hows: str) -> float:
    """Flock moves as one: shifting or rotating every z, or scaling any h, changes nothing."""
    out = run(case, backend)
    return max(outputs_gap(case, run(moved(case, how), backend), out) for how in hows)


def shuffled(case: Case, backend: str) -> float:
    """Permutation: permuting tokens permutes outputs (in cross-attention: those of queries)."""
    g = torch.Generator().manual_seed(13)
    keys = torch.randperm(case.M, generator=g).to(case.leaves["q"].device)
    rows = torch.randperm(case.N, generator=g).to(keys) if case.masks.get("cross") else keys
    new = {}
    for name, t in case.leaves.items():
        new[name] = t[:, :, rows if name in BY_QUERY else keys]
    masks, near = dict(case.masks), case.neighbours
    if "mask" in masks:
        masks["mask"] = masks["mask"][..., keys]
        if masks["mask"].shape[-2] > 1:
            masks["mask"] = masks["mask"][..., rows, :]
    if isinstance(near, Tensor):
        place = torch.cat([keys.argsort(), keys.new_tensor([-1])])  # −1 stays −1
        near = place[near[:, :, rows]]
    other = replace(case.but(**new), masks=masks, neighbours=near)
    return outputs_gap(other, run(other, backend), run(case, backend)[:, :, rows])


def prefix(case: Case, i: int) -> Case:
    """Row i alone, against the keys up to its own."""
    end = i + case.M - case.N + 1
    new = {}
    for name, t in case.leaves.items():
        new[name] = t[:, :, i : i + 1] if name in BY_QUERY else t[:, :, :end]
    masks, near = dict(case.masks), case.neighbours
    if "mask" in masks:
        masks["mask"] = masks["mask"][..., :end]
    if isinstance(near, Tensor):
        near = near[:, :, i : i + 1]
    return replace(case, leaves=new, masks=masks, neighbours=near)


def prefill_apart(case: Case, backend: str, step: str = "decode") -> float:
    """Decode equals prefill: rows one at a time against their past equal the full pass."""
    rows = sorted({0, 1, case.N // 2, case.N - 1})
    alone, used = torch.cat([run(prefix(case, i), step) for i in rows], 2), real(case)[:, :, rows]
    return gap(alone[used], run(case, backend)[:, :, rows][used])


def all_finite(case: Case, backend: str) -> bool:
    """Finite: outputs and every gradient."""
    return all(bool(torch.isfinite(t).all()) for t in gradients(case, backend).values())


def spoilt_wrongly(case: Case, backend: str, name: str, token: int) -> int:
    """NaN in one token of head 1 (or of the head that all share) of the second of the batch:
    the rows that see it are NaN, no other is, nor a row that sees nothing. The number of rows
    that are wrong."""
    t, V = case.leaves[name].clone(), visible(case).expand(B, H, -1, -1)
    t[1, min(1, t.shape[1] - 1), token, -1] = torch.nan
    expected = torch.zeros_like(V[..., 0])
    if name in BY_KEY:
        expected[1] = V[1, ..., token]
    cross = bool(case.masks.get("cross"))
    own = token if name in BY_QUERY else token - case.M + case.N
    if name in BY_QUERY or (name in ("z", "h") and not cross and own >= 0):
        expected[1, :, own] = True  # as a query
    if t.shape[1] > 1:
        expected[1, [0, 2]] = False
    expected &= V.any(-1)
    got = torch.isnan(run(case.but(**{name: t}), backend))
    return int((got != expected[..., None]).any(-1).sum())
