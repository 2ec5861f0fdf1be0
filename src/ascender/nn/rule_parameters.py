"""The options of a module that has the three rules, and the numbers that it learns.

The options are the annotated attributes of RuleOptions, with their defaults, and the start of every
learned number: the constructors of AscenderAttention and RuleAdapter, the options of a config and
of a variant are read from there. The learned numbers are the fields of core.rules.Rules that are
declared so.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ascender.common.validate import check_by_head, check_choice, check_flag, check_int
from ascender.core.checks import check_affinity, check_neighbours
from ascender.core.rules import LEARNED, NOT_LEARNED, RULES, Rules, warn_cool
from ascender.core.scope import SCOPES
from ascender.kernels import gpu

PER_HEAD = ("per_head", "shared")
ROLES = (*RULES, "all", "none")
OPEN_GATES = {"alpha_align": 0.0, "alpha_coh": 0.0, "kappa": 1e-12}  # η = 1 wherever ρ > 0
# Learned numbers that start as one option says, unless an option of their own name does.
TOGETHER = {
    **{f"omega_{rule}": "omega" for rule in RULES}, "tau_sep": "tau", "tau_coh": "tau",
    "alpha_align": "alpha", "alpha_coh": "alpha",
}  # fmt: skip
Start = float | Sequence[float]  # where a learned number starts: one value, or one a head


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
    omega, tau, alpha   where ω of the rules, the kernel widths τ_sep and τ_coh, and the sharpness
                      α of both gates start: one value, or a list of one a head
    omega_align, omega_sep, omega_coh, tau_sep, tau_coh, alpha_align, alpha_coh, delta, kappa,
    tau_score, omega_aff   where one number starts (core.rules.Rules), likewise. None: as omega,
                      tau or alpha say, else Rules' own default
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
    omega: Start = Rules.omega_align  # type: ignore[assignment]
    tau: Start = Rules.tau_sep  # type: ignore[assignment]
    alpha: Start = Rules.alpha_align  # type: ignore[assignment]
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
                last.replace(name=n, kind=last.KEYWORD_ONLY, default=default(cls, n), annotation=a)
                for n, a in OPTIONS.items()
                if n not in own.parameters
            ]
            first = [p for p in named if p.kind is not p.KEYWORD_ONLY]
            signature = own.replace(parameters=[*first, *rules, *named[len(first) :], last])
            cls.__init__.__signature__ = signature  # type: ignore[attr-defined]

    def set_options(self, heads: int, options: dict[str, Any]) -> None:
        """Take the options of the rules out of these, check them and keep them as attributes."""
        for name in RuleOptions.__annotations__:
            setattr(self, name, options.pop(name, getattr(self, name)))
        self.starts = {name: options.pop(name, None) for name in LEARNED}
        check_int("d_z", self.d_z, 1)
        check_int("d_a", self.d_a, 1)
        for name in ("geometry", "numbers"):
            check_choice(name, getattr(self, name), PER_HEAD)
        for name in ("standardise", "gates"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.neighbours, Tensor):
            check_neighbours(self.neighbours, 1, heads, 1)
        for name in ("k", "far"):
            size = getattr(self, name)
            if isinstance(size, Iterable) and not isinstance(size, str):
                setattr(self, name, tuple(size))
        self._set_affinity(heads)
        self._check_starts(heads)
        if self.roles is not None:
            check_roles(self.roles, heads)
            self.roles = tuple(self.roles)

    def _check_starts(self, heads: int) -> None:
        """Where the learned numbers start; nothing may start that is not learned."""
        for name, start in self.starts.items():
            if start is not None:
                self._check_learned(name, name, start)
                self._check_start(name, name, start, heads)
        for name, together in TOGETHER.items():
            start = getattr(self, together)
            self._check_start(together, name, start, heads)
            if start != getattr(type(self), together):
                self._check_learned(together, name, start)

    def _check_start(self, option: str, name: str, start: Any, heads: int) -> None:
        positive = LEARNED[name]["learned_as"] == "log"
        one = "a number > 0" if positive else "a number"
        low = math.ulp(0.0) if positive else -math.inf
        check_by_head(option, start, self._size(name, heads), one, low)
        if name == "tau_score":
            warn_cool(option, min(start) if isinstance(start, Sequence) else start)

    def _check_learned(self, option: str, name: str, start: Any) -> None:
        for needs in self._needs(name):
            if not getattr(self, needs):
                raise ValueError(
                    f"{option} = {start!r} with {needs}=False, where it is not learned; expected "
                    f"{needs}=True"
                )

    @staticmethod
    def _needs(name: str) -> Iterator[str]:
        """The options without which a number is not learned."""
        if "of" in LEARNED[name]:
            yield LEARNED[name]["of"]
        if LEARNED[name].get("gate"):
            yield "gates"

    def _size(self, name: str, heads: int) -> int:
        """How many values a learned number has: one a head or, shared, one."""
        option = {"head": self.numbers, "space": self.geometry}[LEARNED[name].get("per", "head")]
        return 1 if option == "shared" else heads

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


OPTIONS: dict[str, Any] = {
    **RuleOptions.__annotations__, **dict.fromkeys(LEARNED, "Start | None"),
}  # fmt: skip


def default(kind: type[RuleOptions], option: str) -> Any:
    """The default of an option of a module; None where another option sets the initial value."""
    return getattr(kind, option) if option in RuleOptions.__annotations__ else None


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
        for name, parameter in self._learned():
            setattr(self, parameter, nn.Parameter(torch.empty(self._size(name, heads))))
        self.reset_numbers()
        self.rules().check_heads(heads)  # wrong options fail now, not at the first call

    def _learned(self) -> Iterator[tuple[str, str]]:
        """(name in Rules, name of the parameter) of every number that is learned."""
        for name, how in LEARNED.items():
            if all(getattr(self, needs) for needs in self._needs(name)):
                yield name, f"log_{name}" if how["learned_as"] == "log" else name

    def reset_numbers(self) -> None:
        """The learned numbers as they start."""
        for name, parameter in self._learned():
            values = self._start(name)
            if parameter.startswith("log_"):
                values = [math.log(value) for value in values]
            learned = getattr(self, parameter)
            with torch.no_grad():
                learned.copy_(learned.new_tensor(values).expand_as(learned))

    def _start(self, name: str) -> list[float]:
        """Where a number starts: one value, or one a head."""
        start = self.starts[name]
        if start is None:
            start = getattr(self, TOGETHER[name]) if name in TOGETHER else getattr(Rules, name)
        return list(start) if isinstance(start, Sequence) else [start]

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
