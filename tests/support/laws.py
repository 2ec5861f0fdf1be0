"""The laws that every backend must keep (docs/definition.md, section 7), over cases.py.

A law is a function (case, backend) -> float: how far it is broken, relative to the size of the
output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ascender import LowRank, asc_attention
from support.cases import *  # noqa: F403 (tests of one backend get cases and laws from here)
from support.cases import BY_KEY, BY_QUERY, B, Case, D, H, Z
from support.oracles import visible_oracle

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
    inputs = {**leaves, **numbers}
    grads = {
        n: torch.zeros_like(t) if t.grad is None else t.grad / scale for n, t in inputs.items()
    }
    return {"out": out.detach() * real(case)[..., None], **grads}


def gradients_by_differences(case: Case, backend: str) -> bool:
    """Whether gradients by every leaf and number are finite differences along random directions."""
    names, numbers = list(case.leaves), list(case.numbers)
    inputs = [t.clone().requires_grad_() for t in (*case.leaves.values(), *case.numbers.values())]

    def attention(*tensors: Tensor) -> Tensor:
        leaves = dict(zip(names, tensors, strict=False))
        values = dict(zip(numbers, tensors[len(names) :], strict=True))
        return run(replace(case, leaves=leaves, numbers=values), backend)

    return torch.autograd.gradcheck(attention, inputs, fast_mode=True, atol=1e-6)


def gap(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖ over the whole tensor (‖b‖ at least 1e-3)."""
    a, b = a.detach().double(), b.detach().to(a.device).double()
    return float((a - b).norm() / b.norm().clamp_min(1e-3))


def definition_gap(case: Case, backend: str) -> float:
    """How far a backend is from the definition in float64."""
    return gap(run(case, backend), run(case.to(torch.float64), "dense"))


def calls_of(monkeypatch: Any, module: Any, name: str) -> list[int]:
    """Grows by one with every call of module.name, which runs as before."""
    calls: list[int] = []
    function = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: calls.append(1) or function(*args))
    return calls


def outputs_gap(case: Case, a: Tensor, b: Tensor) -> float:
    """The gap over real rows."""
    return gap(a[real(case)], b[real(case)])


def visible(case: Case) -> Tensor:
    """V, (B, H or 1, N, M), from the loops of the oracle and not from the package."""
    masks = {key: x for key, x in case.masks.items() if key != "mask"}
    if case.flock.get("scope") == "flock":  # members of the flock, not limits of V
        masks = {key: x for key, x in masks.items() if key not in ("window", "n_global")}
    V = torch.from_numpy(visible_oracle(case.N, case.M, **masks))[:, None]
    V = V.to(case.leaves["q"].device)
    return V & case.masks["mask"] if "mask" in case.masks else V


def plain(case: Case, V: Tensor | None = None) -> Tensor:
    """Vanilla attention in float64: softmax over V(i) of (q·k/√d + β)/τ_score, times v."""
    call, V = case.to(torch.float64).call(), visible(case) if V is None else V
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
    alone = torch.cat([run(prefix(case, i), step) for i in rows], 2)
    used, whole = (
        torch.stack([t[:, :, i] for i in rows], 2) for t in (real(case), run(case, backend))
    )
    return gap(alone[used], whole[used])


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
        expected[1, 0] = expected[1, 2] = False
    expected &= V.any(-1)
    got = torch.isnan(run(case.but(**{name: t}), backend))
    return int((got != expected[..., None]).any(-1).sum())
