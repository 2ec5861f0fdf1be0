"""The rules' numbers as a module learns them: one a head, or one for all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ascender.common.validate import check_int, check_number
from ascender.core.rules import RULES, Rules

BY_HEAD = ("per_head", "shared")
OF_GATES = ("alpha_align", "alpha_coh", "log_kappa")
OPEN = {"alpha_align": 0.0, "alpha_coh": 0.0, "kappa": 1e-12}  # η = 1 in any crowd that is there


class RuleParameters:
    """For a module that owns them: ω, α and δ as they are; τ, κ and τ_score, which are positive,
    as logarithms. λ are plain floats that a schedule sets.

    roles   None (every rule in every head), or one of align, sep, coh, all, none a head
    gates   False: γ = ½ (its largest, at α = 0) and η = 1 for every token, and α and κ do not learn
    """

    k: int | tuple[int, ...]
    roles: Sequence[str] | None = None
    gates: bool = True
    standardise: bool = True
    separation_scope: str = "neighbours"
    local_scope: str = "visible"
    lam_align: float = 1.0
    lam_sep: float = 1.0
    lam_coh: float = 1.0
    omega_align: Tensor
    omega_sep: Tensor
    omega_coh: Tensor
    alpha_align: Tensor
    alpha_coh: Tensor
    log_tau_sep: Tensor
    log_tau_coh: Tensor
    delta: Tensor
    log_kappa: Tensor
    log_tau_score: Tensor

    def make_numbers(self, omega: float, size: int, spaces: int, tau: float = 1.0) -> None:
        """`size` values of each, `spaces` of the kernel widths, which start at `tau`;
        reset_numbers fills them."""
        check_number("omega", omega, "a number, where every head's ω starts")
        check_number("tau", tau, "a number > 0", math.ulp(0.0))
        self.omega, self.tau = omega, tau
        for name in self.starts():
            width = spaces if name in ("log_tau_sep", "log_tau_coh") else size
            setattr(self, name, nn.Parameter(torch.empty(width)))
        self.reset_numbers()

    def starts(self) -> dict[str, float]:
        """Where the learned numbers start."""
        found = {
            **{f"omega_{rule}": self.omega for rule in RULES},
            "alpha_align": 1.0, "alpha_coh": 1.0,
            "log_tau_sep": math.log(self.tau), "log_tau_coh": math.log(self.tau),
            "delta": 0.2, "log_kappa": math.log(32.0), "log_tau_score": 0.0,
        }  # fmt: skip
        return found if self.gates else {n: x for n, x in found.items() if n not in OF_GATES}

    def reset_numbers(self) -> None:
        """The numbers as they start."""
        for name, value in self.starts().items():
            nn.init.constant_(getattr(self, name), value)

    def _omega(self, rule: str) -> Tensor:
        """ω, 0 in the heads that have another role."""
        omega: Tensor = getattr(self, f"omega_{rule}")
        if self.roles is None:
            return omega
        return omega * omega.new_tensor([role in (rule, "all") for role in self.roles])

    def rules(self) -> Rules:
        """The numbers as they are now."""
        gates: dict[str, Any] = OPEN
        if self.gates:
            gates = {"alpha_align": self.alpha_align, "alpha_coh": self.alpha_coh,
                     "kappa": self.log_kappa.exp()}  # fmt: skip
        return Rules(
            **{f"omega_{rule}": self._omega(rule) for rule in RULES}, **gates,
            tau_sep=self.log_tau_sep.exp(), tau_coh=self.log_tau_coh.exp(),
            delta=self.delta, tau_score=self.log_tau_score.exp(),
            k=self.k, lam_align=self.lam_align, lam_sep=self.lam_sep, lam_coh=self.lam_coh,
            standardise=self.standardise, separation_scope=self.separation_scope,
            local_scope=self.local_scope,
        )  # fmt: skip

    def stamp(self) -> tuple[Any, ...]:
        """Differs where rules() would."""
        learned = [p for p in vars(self)["_parameters"].values() if p is not None]
        return (
            self.lam_align, self.lam_sep, self.lam_coh, self.k, self.roles, self.standardise,
            self.separation_scope, self.local_scope, *((id(p), p._version) for p in learned),
        )  # fmt: skip


def start_coordinates(U: nn.Linear, d_z: int) -> None:
    """Entries of variance 1/(dim · d_z), so that tokens of unit variance lie about √2 apart."""
    nn.init.normal_(U.weight, std=(U.in_features * d_z) ** -0.5)


def counts(k: Any) -> Any:
    """k as a module keeps it: one, or a tuple of one a head. Rules checks what is in it."""
    return tuple(k) if isinstance(k, Iterable) and not isinstance(k, str) else k


def check_widths(d_z: int, d_a: int) -> None:
    check_int("d_z", d_z, 1)
    check_int("d_a", d_a, 1)


def check_heads(heads: int, geometry: str, numbers: str, roles: Sequence[str] | None) -> None:
    """What may differ by head."""
    for name, choice in (("geometry", geometry), ("numbers", numbers)):
        if choice not in BY_HEAD:
            raise ValueError(f"unknown {name} {choice!r}; expected one of {', '.join(BY_HEAD)}")
    if roles is not None:
        allowed = (*RULES, "all", "none")
        if isinstance(roles, str) or not isinstance(roles, Sequence):
            raise TypeError(f"roles = {roles!r}; expected a list of one a head ({heads})")
        if len(roles) != heads:
            raise ValueError(f"roles has {len(roles)} entries; expected one a head ({heads})")
        for role in roles:
            if role not in allowed:
                raise ValueError(f"unknown role {role!r}; expected one of {', '.join(allowed)}")
