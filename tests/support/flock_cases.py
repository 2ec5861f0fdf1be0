"""Random cases in flock scope: those of cases.py, with far keys, affinity and its term.

Window and globals of a kind are members of the flock here, not limits of what is visible.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import torch
from torch import Tensor

from ascender.core.checks import build_flock
from support.cases import KINDS, LARGE, NATIVE, B, Case, N, case

FAR = (2, 4, 0)  # by head: one of them has none but its window
# Of flock scope, beside those of cases.OPTIONS: "tied" (else h of queries and of keys are two),
# "far-per-head", "no-term", "distance" (a bias by distance).
FLOCK_OPTIONS = (
    "shared", "plain", "shared tied", "tied no-term", "shared far-per-head", "shared distance",
    "distance far-per-head k-per-head", "shared no-term", "scores", "given", "shared given tied",
    "raw local", "shared local", "scores far-per-head local", "bare key-norm", "low-rank grouped",
    "key-bias shared", "matrix tied", "one-tau wide-values", "raw distance",
)  # fmt: skip


def flocked(
    kind: str, options: str = "shared", size: int = N, *, seed: int = 0, device: str = "cpu"
) -> Case:
    """A case of cases.py in flock scope."""
    words = set(options.split())
    x = case(kind, options, size, seed=seed, device=device)
    g = torch.Generator().manual_seed(zlib.crc32(f"flock {kind} {options} {size} {seed}".encode()))
    large = max(1, size // N)
    flock = {"scope": "flock", "affinity": "tied" if "tied" in words else "query-key"}
    flock["affinity_term"] = "no-term" not in words
    far: int | tuple[int, ...] = 3 * large
    if "far-per-head" in words and not x.masks.get("cross"):
        far = tuple(m * large for m in FAR)
    elif "far-per-head" in words:  # with no far key a flock of a cross-attention is empty
        far = (2 * large, 4 * large, large)
    leaves, numbers = dict(x.leaves), dict(x.numbers)
    if "tied" not in words and "h_q" not in leaves:
        own = leaves["h"].shape[1]
        width = leaves["h"].shape[3]
        leaves["h_q"] = torch.randn(B, own, x.N, width, generator=g, dtype=torch.float64).to(device)
    numbers["omega_aff"] = torch.tensor([1.0, 0.4, -0.7], dtype=torch.float64, device=device)
    if "distance" in words and not x.masks.get("cross"):
        bias = torch.randn(8, generator=g, dtype=torch.float64)
        numbers["affinity_bias"] = bias.to(device)
    fixed = {**x.fixed, "far": far}
    return replace(x, leaves=leaves, numbers=numbers, fixed=fixed, flock=flock)


def flock_serving(dtype: torch.dtype = torch.float64, device: str = "cpu") -> list[str]:
    """The backends besides dense that serve flock scope, written out as in cases.serving."""
    native = dtype in NATIVE and device == "cpu"
    return ["flock", "compact", "decode", *(["native"] if native else [])]


def lists(x: Case) -> tuple[list, list]:
    """(L_m(i), N_k(i)) of every row as sets, [b][h][i]."""
    flock = build_flock(**x.call()).repeat_kv()
    H = flock.q.shape[1]
    return tuple(_sets(t.expand(B, H, -1, -1)) for t in (flock.far, flock.members))


def _sets(index: Tensor) -> list:
    if index.ndim > 1:
        return [_sets(t) for t in index]
    return sorted(j for j in index.tolist() if j >= 0)


__all__ = ["FAR", "FLOCK_OPTIONS", "KINDS", "LARGE", "flock_serving", "flocked", "lists"]
