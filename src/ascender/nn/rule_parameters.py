"""The options of a module that has the three rules, and the numbers that it learns.

The options are the annotated attributes of RuleOptions, with their defaults: the constructors of
AscenderAttention and RuleAdapter, the options of a config and of a variant are read from there.
The learned numbers are the fields of core.rules.Rules that are declared so.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ascender.common.validate import check_choice, check_flag, check_int, check_number
from ascender.core.checks import check_affinity, check_neighbours
from ascender.core.rules import LEARNED, NOT_LEARNED, RULES, Rules
from ascender.core.scope import SCOPES
from ascender.kernels import gpu

PER_HEAD = ("per_head", "shared")
ROLES = (*RULES, "all", "none")
OPEN_GATES = {"alpha_align": 0.0, "alpha_coh": 0.0, "kappa": 1e-12}  # η = 1 wherever ρ > 0


class RuleOptions:
    """The options of the rules, for every module that has them. A subclass may have other defaults.

    d_z, d_a          widths of latent coordinates z and semantic projections h
    k                 neighbours: one number, or one a head
    geometry          "per_head", or "shared": one U, P and kernel width τ for all heads (cheaper)
    numbers           "per_head", or "shared": one ω, α, δ, κ and τ_score for all heads
    neighbours        N_k(i) by "semantic" similarity or by base "scores"
    standardise       False: the biases are not standardised by row
    separation_scope  separation acts on "neighbours" or on "all" flockmates
    local_scope       the crowd and the centre are of all "visible" tokens or of the "neighbours"
    roles             None (every rule in every head), or one of align, sep, coh, all, none a head
    gates             False: γ = ½ (its largest, at α = 0) and η = 1 for every token; α and κ are
                      not learned
    omega, tau        where ω and the kernel widths τ_sep, τ_coh start
    scope             a query attends to everything "visible", or to its "flock" only: itself,
                      `window` and `n_global`, and the `far` other keys of highest affinity
    far               how many far keys: one number, or one a head
    affinity          what ranks keys: "tied" (the cosine of h = x P) or "query-key" (g, from x P
                      and x P_k). None: tied in visible scope, query-key in flock scope
    affinity_term     whether ω_aff · g is a term of the score. None: in flock scope
    affinity_bias     buckets of a learned bias of g by distance, 0 for none
    affinity_heads    how many P: 1, one a KV head or one a head. None: 1 in flock scope (one list a
                      layer), in visible scope as `geometry` says
    """

    d_z: int = 16
    d_a: int = 16
    k: int | Sequence[int] = Rules.k  # type: ignore[assignment]
    geometry: str = "per_head"
    numbers: str = "per_head"
    neighbours: str | Tensor = "semantic"
    standardise: bool = Rules.standardise
    separation_scope: str = Rules.separation_scope
    local_scope: str = Rules.local_scope
    roles: Sequence[str] | None = None
    gates: bool = True
    omega: float = 0.1
    tau: float = 1.0
    scope: str = "visible"
    far: int | Sequence[int] = Rules.far  # type: ignore[assignment]
    affinity: str | None = None
    affinity_term: bool | None = None
    affinity_bias: int = 0
    affinity_heads: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """The signature of a subclass' constructor shows the options and its own defaults."""
        super().__init_subclass__(**kwargs)
        if "__init__" not in vars(cls):
            return
        own = inspect.signature(cls.__init__)
        *named, last = own.parameters.values()
        if last.kind is last.VAR_KEYWORD:
            rules = [
                last.replace(name=n, kind=last.KEYWORD_ONLY, default=getattr(cls, n), annotation=a)
                for n, a in OPTIONS.items()
                if n not in own.parameters
            ]
            first = [p for p in named if p.kind is not p.KEYWORD_ONLY]
            signature = own.replace(parameters=[*first, *rules, *named[len(first) :], last])
            cls.__init__.__signature__ = signature  # type: ignore[attr-defined]

    def set_options(self, heads: int, options: dict[str, Any]) -> None:
        """Take the options of the rules out of these, check them and keep them as attributes."""
        for name in OPTIONS:
            setattr(self, name, options.pop(name, getattr(self, name)))
        check_int("d_z", self.d_z, 1)
        check_int("d_a", self.d_a, 1)
        for name in ("geometry", "numbers"):
            if (choice := getattr(self, name)) not in PER_HEAD:
                raise ValueError(
                    f"unknown {name} {choice!r}; expected one of {', '.join(PER_HEAD)}"
                )
        for name in ("standardise", "gates"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.neighbours, Tensor):
            check_neighbours(self.neighbours, 1, heads, 1)
        check_number("omega", self.omega, "a number, where every head's ω starts")
        check_number("tau", self.tau, "a number > 0", math.ulp(0.0))
        for name in ("k", "far"):
            size = getattr(self, name)
            if isinstance(size, Iterable) and not isinstance(size, str):
                setattr(self, name, tuple(size))
        self._set_affinity(heads)
        if self.roles is not None:
            check_roles(self.roles, heads)
            self.roles = tuple(self.roles)

    def _set_affinity(self, heads: int) -> None:
        """Scope and affinity: what is None is as the scope says."""
        check_choice("scope", self.scope, SCOPES)
        flock = self.scope == "flock"
        if not flock and self.far != Rules.far:
            raise ValueError(f"far = {self.far} with scope={self.scope!r}; expected scope='flock'")
        if self.affinity is None:
            self.affinity = "query-key" if flock else "tied"
        if self.affinity_term is None:
            self.affinity_term = flock
        check_int("affinity_bias", self.affinity_bias, 0)
        bias = torch.empty(self.affinity_bias) if self.affinity_bias else None
        check_affinity(self.affinity, self.affinity_term, bias)
        if self.affinity_heads is None:
            self.affinity_heads = 1 if flock or self.geometry == "shared" else heads
        check_int("affinity_heads", self.affinity_heads, 1)
        if heads % self.affinity_heads:
            raise ValueError(
                f"affinity_heads = {self.affinity_heads}; expected a divisor of heads = {heads}"
            )


OPTIONS: dict[str, Any] = dict(RuleOptions.__annotations__)


class RuleParameters(RuleOptions):
    """For a module that learns the rules' numbers: ω, α and δ as they are; τ, κ and τ_score, which
    are positive, as logarithms. λ are plain floats that a schedule sets."""

    lam_align: float = 1.0
    lam_sep: float = 1.0
    lam_coh: float = 1.0

    def make_maps(self, source: int, heads: int) -> tuple[nn.Linear, nn.Linear]:
        """(U, P): the maps from tokens of a width to z and h."""
        spaces = 1 if self.geometry == "shared" else heads
        U = nn.Linear(source, spaces * self.d_z, bias=False)
        return U, self.make_affinity_map(source)

    def make_affinity_map(self, source: int) -> nn.Linear:
        """P, or P_k: the map from tokens of a width to h."""
        assert self.affinity_heads is not None
        return nn.Linear(source, self.affinity_heads * self.d_a, bias=False)

    def make_numbers(self, heads: int) -> None:
        """The learned numbers, at their start."""
        sizes = {
            "head": 1 if self.numbers == "shared" else heads,
            "space": 1 if self.geometry == "shared" else heads,
        }
        for name, parameter in self._learned():
            setattr(
                self, parameter, nn.Parameter(torch.empty(sizes[LEARNED[name].get("per", "head")]))
            )
        self.reset_numbers()
        self.rules().check_heads(heads)  # wrong options fail now, not at the first call

    def _learned(self) -> Iterator[tuple[str, str]]:
        """(name in Rules, name of the parameter) of every number that is learned."""
        for name, how in LEARNED.items():
            off = "of" in how and not getattr(self, how["of"])
            if not off and (self.gates or not how.get("gate")):
                yield name, f"log_{name}" if how["learned_as"] == "log" else name

    def reset_numbers(self) -> None:
        """The learned numbers as they start."""
        starts = {f"omega_{rule}": self.omega for rule in RULES}
        starts |= {"tau_sep": self.tau, "tau_coh": self.tau}
        for name, parameter in self._learned():
            start = starts.get(name, getattr(Rules, name))
            value = math.log(start) if parameter.startswith("log_") else start
            nn.init.constant_(getattr(self, parameter), value)

    def rules(self) -> Rules:
        """The numbers as they are now."""
        numbers: dict[str, Any] = {} if self.gates else dict(OPEN_GATES)
        for name, parameter in self._learned():
            value = getattr(self, parameter)
            numbers[name] = value.exp() if parameter.startswith("log_") else value
        if self.roles is not None:
            for rule in RULES:
                omega = numbers[f"omega_{rule}"]
                own = gpu.filled([float(role in (rule, "all")) for role in self.roles], omega)
                numbers[f"omega_{rule}"] = omega * own
        return Rules(**numbers, **{name: getattr(self, name) for name in NOT_LEARNED})

    def version(self) -> tuple[Any, ...]:
        """Differs where rules() would."""
        learned = [p for p in vars(self)["_parameters"].values() if p is not None]
        plain = (getattr(self, name) for name in (*NOT_LEARNED, "roles"))
        return (*plain, *((id(p), p._version) for p in learned))


def reset_coordinates(U: nn.Linear, d_z: int) -> None:
    """Entries of variance 1/(dim · d_z), so that tokens of unit variance lie about √2 apart."""
    nn.init.normal_(U.weight, std=(U.in_features * d_z) ** -0.5)


def check_roles(roles: Any, heads: int) -> None:
    if isinstance(roles, str) or not isinstance(roles, Sequence):
        raise TypeError(f"roles = {roles!r}; expected a list of one a head ({heads})")
    if len(roles) != heads:
        raise ValueError(f"roles has {len(roles)} entries; expected one a head ({heads})")
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}; expected one of {', '.join(ROLES)}")
