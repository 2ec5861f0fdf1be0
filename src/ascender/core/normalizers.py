"""How a row of scores S_i becomes weights A_i over V(i).

    softmax     A_ij ∝ exp(S_ij / T)
    ssmax       softmax with q_i times s·log n_i           n_i = |V(i)|, s > 0 learned, one a head
    length      softmax with q_i times log n_i / log n₀
    topk        softmax over the `size` largest S_ij of the row
    sparsemax   A_ij = max(0, S_ij − τ_i)                  τ_i makes the row sum to 1
    entmax15    A_ij = max(0, S_ij/2 − τ_i)²               likewise

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

from ascender.common.validate import check_int, check_options, check_positive, lookup
from ascender.core.geometry import accum_dtype
from ascender.core.rules import Rules
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

    def sharpen(self, q: Queries, n: Counts) -> Queries:
        """q, each row times what the length n = |V(i)| asks for."""
        return q

    def weights(self, total: Scores, visible: Visible) -> Scores:
        """A from S, over the visible keys."""
        s, shown = _hide(total, visible)
        return masked_softmax(s, shown).to(total.dtype)

    def forward(self, total: Tensor, visible: Tensor) -> Tensor:
        return self.weights(total, visible)


class Softmax(Normalizer):
    """A_ij ∝ exp(S_ij / T). T = 1 is the plain one; a learned T is `Rules.tau_score`."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        self.temperature = float(temperature)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


class ScalableSoftmax(Normalizer):
    """Softmax with q_i times s·log n_i: a key that stands out keeps its weight however many keys
    there are (SSMax, arXiv 2501.19399). s starts at the value of the paper's first figure.

    One visible key: log 1 = 0, and the weight is 1 whatever the score.
    """

    name = "ssmax"

    def __init__(self, heads: int, s: float = 0.43) -> None:
        super().__init__()
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

    def extra_repr(self) -> str:
        return f"heads={self.log_s.numel()}"


class LengthAware(Normalizer):
    """Softmax with q_i times log n_i / log n₀, n₀ = `reference`: nothing is learned, and nothing
    changes where n_i = n₀. The log n scale is Chiang & Cholak's (arXiv 2202.12172); the base n₀,
    which keeps the entropy of a row about what it was at n₀, is Su's (kexue.fm/archives/8823)."""

    name = "length"

    def __init__(self, reference: int = 512) -> None:
        super().__init__()
        check_int("reference", reference, 2)
        self.reference = reference

    def sharpen(self, q: Queries, n: Counts) -> Queries:
        return _times(q, _log(n, q) / math.log(self.reference))

    def extra_repr(self) -> str:
        return f"reference={self.reference}"


class TopK(Normalizer):
    """Softmax over the `size` largest scores of a row; the others have weight 0 and no gradient.
    Never more than `size`: of keys tied at the edge the earliest stay."""

    name = "topk"
    softmax = False

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        check_int("size", size, 1)
        self.size = size

    def weights(self, total: Scores, visible: Visible) -> Scores:
        s, shown = _hide(total, visible)
        return masked_softmax(s, shown & largest(s.detach(), self.size)).to(total.dtype)

    def extra_repr(self) -> str:
        return f"size={self.size}"


class Sparsemax(Normalizer):
    """The point of the simplex nearest to S_i, max(0, S_ij − τ_i) (arXiv 1602.02068)."""

    name = "sparsemax"
    softmax = False

    def __init__(self) -> None:
        super().__init__()
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
    kind = lookup("normalizer", "softmax" if which is None else which, NORMALIZERS)
    allowed = list(inspect.signature(kind).parameters)
    check_options(str(which), options, [name for name in allowed if name != "heads"])
    return kind(**({"heads": heads} if "heads" in allowed else {}), **options)


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


def largest(s: Scores, size: int) -> Bool[Tensor, "B H N M"]:
    """The `size` largest of each row; of those tied at the edge the earliest. NaN is largest."""
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
