"""How a row of scores S_i becomes weights A_i over V(i).

    softmax     A_ij ∝ exp(S_ij / T)
    ssmax       softmax with q_i times s·log n_i           n_i = |V(i)|, s > 0 learned, one a head
    length      softmax with q_i times log n_i / log n₀
    topk        softmax over the `size` largest S_ij of the row, a number of keys or a share of n_i
    sparsemax   A_ij = max(0, S_ij − τ_i)                  τ_i makes the row sum to 1
    entmax15    A_ij = max(0, S_ij/2 − τ_i)²               likewise

Each takes a `temperature` T, by which the whole score is divided first; T = 1 changes nothing. A
learned T is `Rules.tau_score`.

Laws: a row is ≥ 0 and sums to 1, 0 outside V(i); a row that sees nothing is 0, never NaN; adding a
number to a whole row of scores changes nothing (backends leave such numbers out); heads are alike
in `weights`. A −inf among the visible scores hides its key; a NaN makes only its own row NaN.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from ascender.common.validate import (
    check_int,
    check_number,
    check_options,
    check_positive,
    lookup,
)
from ascender.core.geometry import accum_dtype
from ascender.core.rules import Rules, warn_cool
from ascender.core.shapes import Counts, Queries, Scores, Visible
from ascender.core.softmax import masked_softmax

FAR = -3.0  # below the largest score by this much (2 would do), sparsemax and entmax15 give 0


class Normalizer(nn.Module):
    """Softmax, unless a subclass says otherwise: `sharpen` rescales the base score's rows,
    `temperature` divides the whole score, `weights` turns scores into weights.

    softmax    whether `weights` is the softmax. If not, it needs whole rows of scores, which
               only some backends provide
    """

    name: str = "softmax"
    temperature: float = 1.0
    softmax: bool = True

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        warn_cool("temperature", temperature)
        self.temperature = float(temperature)

    def sharpen(self, q: Queries, n: Counts) -> Queries:
        """q, each row times what the length n = |V(i)| asks for."""
        return q

    def weights(self, total: Scores, visible: Visible) -> Scores:
        """A from S, over the visible keys."""
        s, shown = _hide(total, visible)
        return masked_softmax(s, shown).to(total.dtype)

    def forward(self, total: Tensor, visible: Tensor) -> Tensor:
        return self.weights(total, visible)

    def extra_repr(self) -> str:
        T = f"temperature={self.temperature:g}"
        return ", ".join([*self.own_repr(), *([T] if self.temperature != 1 else [])])

    def own_repr(self) -> list[str]:
        """Its own options, as its repr shows them."""
        return []


class Softmax(Normalizer):
    """A_ij ∝ exp(S_ij / T)."""


class ScalableSoftmax(Normalizer):
    """Softmax with q_i times s·log n_i: a key that stands out keeps its weight however many keys
    there are (SSMax, arXiv 2501.19399). s starts at the value of the paper's first figure.

    One visible key: log 1 = 0, and the weight is 1 whatever the score.
    """

    name = "ssmax"

    def __init__(self, heads: int, s: float = 0.43, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        check_int("heads", heads, 1)
        check_positive("s", s)
        self.s = s
        self.log_s = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.log_s, math.log(self.s))

    def sharpen(self, q: Queries, n: Counts) -> Queries:
        if q.shape[1] != self.log_s.numel():
            raise ValueError(f"ssmax has {self.log_s.numel()} heads; expected {q.shape[1]} as q")
        s = self.log_s.to(accum_dtype(q.dtype)).exp().view(-1, 1, 1)
        return _times(q, s * _log(n, q))

    def own_repr(self) -> list[str]:
        return [f"heads={self.log_s.numel()}"]


class LengthAware(Normalizer):
    """Softmax with q_i times log n_i / log n₀, n₀ = `reference`: nothing is learned, and nothing
    changes where n_i = n₀. The log n scale is Chiang & Cholak's (arXiv 2202.12172); the base n₀,
    which keeps the entropy of a row about what it was at n₀, is Su's (kexue.fm/archives/8823)."""

    name = "length"

    def __init__(self, reference: int = 512, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        check_int("reference", reference, 2)
        self.reference = reference

    def sharpen(self, q: Queries, n: Counts) -> Queries:
        return _times(q, _log(n, q) / math.log(self.reference))

    def own_repr(self) -> list[str]:
        return [f"reference={self.reference}"]


class TopK(Normalizer):
    """Softmax over the `size` largest scores of a row; the others have weight 0 and no gradient.
    Never more than `size`: of keys tied at the edge the earliest stay.

    size    an int: as many keys. A float in (0, 1): that share of the keys that the row sees,
            rounded down, at least one: 0.06 is 6 of 100 keys
    """

    name = "topk"
    softmax = False

    def __init__(self, size: int | float = 32, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        if isinstance(size, float):
            expected = "an int ≥ 1, or a share of the keys in (0, 1) such as 0.06"
            check_number("size", size, expected, math.ulp(0.0), 1)
        else:
            check_int("size", size, 1, ", or a share of the keys in (0, 1) such as 0.06")
        self.size = size

    def sizes(self, n: Counts) -> int | Counts:
        """How many keys each row keeps, of n_i."""
        if not isinstance(self.size, float):
            return self.size
        return (n * self.size + 1e-6).floor().clamp_min(1).long()  # 0.29 · 100 is 28.999…

    def weights(self, total: Scores, visible: Visible) -> Scores:
        s, shown = _hide(total, visible)
        keep = largest(s.detach(), self.sizes(shown.sum(-1, keepdim=True)))
        return masked_softmax(s, shown & keep).to(total.dtype)

    def own_repr(self) -> list[str]:
        return [f"size={self.size}"]


class Sparsemax(Normalizer):
    """The point of the simplex nearest to S_i, max(0, S_ij − τ_i) (arXiv 1602.02068)."""

    name = "sparsemax"
    softmax = False

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        _entmax()  # said now, not at the first call

    def weights(self, total: Scores, visible: Visible) -> Scores:
        return _sparse(getattr(_entmax(), self.name), total, visible)


class Entmax15(Sparsemax):
    """Halfway between softmax and sparsemax, max(0, S_ij/2 − τ_i)² (arXiv 1905.05702)."""

    name = "entmax15"


NORMALIZERS: dict[str, type[Normalizer]] = {
    "softmax": Softmax,
    "ssmax": ScalableSoftmax,
    "length": LengthAware,
    "topk": TopK,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
}


def normalizer(which: str | Normalizer | None, *, heads: int, **options: Any) -> Normalizer:
    """One by its name; `heads` goes to those that learn a number a head. None is softmax, and a
    Normalizer is itself.

    >>> normalizer("topk", heads=4, size=8)
    TopK(size=8)
    """
    if isinstance(which, Normalizer):
        if options:
            raise TypeError(f"{which} with {options}; expected its options where it was made")
        return which
    name = "softmax" if which is None else which
    kind = lookup("normalizer", name, NORMALIZERS)
    check_options(str(name), options, normalizer_options(str(name)))
    learns = "heads" in inspect.signature(kind).parameters
    return kind(**({"heads": heads} if learns else {}), **options)


def normalizer_options(name: str) -> list[str]:
    """What a normaliser takes beyond the number of heads."""
    takes = inspect.signature(lookup("normalizer", name, NORMALIZERS)).parameters
    return [option for option in takes if option != "heads"]


def apply_normalizer(
    normalizer: Normalizer | None, q: Queries, rules: Rules, count: Callable[[], Counts]
) -> tuple[Queries, Rules, Normalizer | None]:
    """(q, rules, normalise) of a Flock under a normaliser: q sharpened, τ_score times T, and who
    turns scores into weights (None: the softmax that every backend has). `count`: how many keys
    each row attends to."""
    if normalizer is None:
        return q, rules, None
    if not isinstance(normalizer, Normalizer):
        raise TypeError(
            f"normalizer is {normalizer!r}; expected a Normalizer, such as "
            "ascender.core.normalizers.normalizer('topk', heads=…), or None"
        )
    if type(normalizer).sharpen is not Normalizer.sharpen:  # else n need not be counted
        q = normalizer.sharpen(q, count())
    if normalizer.temperature != 1:
        rules = replace(rules, tau_score=rules.tau_score * normalizer.temperature)
    return q, rules, None if normalizer.softmax else normalizer


def largest(s: Scores, size: int | Counts) -> Bool[Tensor, "B H N M"]:
    """The `size` largest of each row; of those tied at the edge the earliest. NaN is largest."""
    if isinstance(size, Tensor):
        size = size.clamp_max(s.shape[-1])
        top = s.topk(int(size.max()) if size.numel() else 1).values
        edge = top.gather(-1, size.expand(*s.shape[:-1], 1) - 1)
    else:
        edge = s.topk(min(size, s.shape[-1]), sorted=False).values.amin(-1, keepdim=True)
    above, tied = ~(s <= edge), s == edge
    room = size - above.sum(-1, keepdim=True)
    return above | (tied & (tied.cumsum(-1) <= room))


def _hide(total: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """(S in at least float32 and −inf where hidden, where it is not)."""
    s = total.to(accum_dtype(total.dtype)).masked_fill(~visible, -torch.inf)
    return s, s != -torch.inf


def _sparse(project: Any, total: Tensor, visible: Tensor) -> Tensor:
    """A projection of entmax over V(i). It is given finite rows, measured from their largest
    score: what lies FAR below has weight 0 and no gradient, and hidden keys are put there."""
    s, shown = _hide(total, visible)
    top = s.detach().amax(-1, keepdim=True)
    x = (s - top.masked_fill(top == -torch.inf, 0)).clamp_min(FAR)
    nonfinite = x.isnan().any(-1, keepdim=True)  # entmax would look outside its arrays
    weights = project(x.masked_fill(nonfinite, 0), dim=-1).masked_fill(~shown, 0)
    return weights.masked_fill(nonfinite & shown, torch.nan).to(total.dtype)


def _log(n: Tensor, q: Tensor) -> Tensor:
    """log n; 0 for a row that sees nothing, which has no scores to scale."""
    return n.clamp_min(1).to(accum_dtype(q.dtype)).log()


def _times(q: Tensor, scale: Tensor) -> Tensor:
    return (q.to(scale.dtype) * scale).to(q.dtype)


def _entmax() -> Any:
    try:
        import entmax
    except ImportError as error:
        raise ImportError(
            "sparsemax and entmax15 need entmax; expected after "
            'pip install "ascender-attention[normalizers]"'
        ) from error
    return entmax
