"""Linear attention: a kernel that is a dot product of features needs no N×M matrix.

    A_ij = f(q_i)·f(k_j) / Σ_{l∈V(i)} f(q_i)·f(k_l)
    out_i = f(q_i)ᵀ S_i / f(q_i)·s_i,   S_i = Σ_{j∈V(i)} f(k_j) v_jᵀ,   s_i = Σ_{j∈V(i)} f(k_j)

Where all rows see the same keys, S is one product; causal, it runs along in chunks; decoding, S
and s are all that is kept, however long the past. Here f(x) = elu(x) + 1 (Katharopoulos et al.
2020, arXiv 2006.16236), of q and k as they are, without 1/√d.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.backends.autograd_utils import backward
from ascender.core.geometry import accum_dtype
from ascender.core.normalizers import NORMALIZERS, Normalizer
from ascender.core.shapes import Keys, Queries
from ascender.nn.baselines.vanilla import repeat_kv
from ascender.nn.call import Call
from ascender.nn.nonfinite import nonfinite_tokens
from ascender.nn.slot import Attention, Unsupported

CHUNK = 64  # about the width of v: then the part inside a chunk costs as much as the rest
FLOOR = 1e-24  # f(q_i)·s_i up to here: nothing is seen

Features = tuple[Float[Tensor, "B H N f"], Float[Tensor, "B G M f"]]  # of queries, of keys
State = tuple[Float[Tensor, "B H f e"], Float[Tensor, "B H f"]]  # S, s


def kernel_attention(
    fq: Float[Tensor, "B H N f"],
    fk: Float[Tensor, "B H M f"],
    v: Float[Tensor, "B H M e"],
    *,
    causal: bool = False,
    mask: Bool[Tensor, "#B #H M"] | None = None,
    state: State | None = None,
) -> tuple[Float[Tensor, "B H N e"], State]:
    """Attention by features f ≥ 0, and the state (S, s) after the last key.

    out_i = f(q_i)ᵀ S_i / f(q_i)·s_i;   0 where f(q_i)·s_i ≤ 1e-24, in outputs and gradients

    `state`: keys that came before, visible to all. `mask`: True = may attend, by key. Causal
    queries are the tail of the keys. Sums are in float32 or better, and so is the state.

    Linear in N, outputs and gradients: nothing is kept but fq, fk and v. A later key changes no
    bit of an earlier row. Scaling a row of fq, or all of fk, changes nothing.
    """
    N, M, acc = fq.shape[-2], fk.shape[-2], accum_dtype(v.dtype)
    if causal and N > M:
        raise ValueError(f"{N} queries on {M} keys; expected causal queries at the keys' tail")
    fq, fk, v1 = fq.to(acc), fk.to(acc), F.pad(v.to(acc), (0, 1), value=1.0)  # s is S's last column
    if mask is not None:
        fk, v1 = (t.masked_fill(~mask[..., None], 0) for t in (fk, v1))
    past = None if state is None else torch.cat([state[0], state[1][..., None]], -1)
    if causal and N > 1:
        S = _sum(fk[..., : M - N, :], v1[..., : M - N, :], past)
        y, S = _Running.apply(fq, fk[..., M - N :, :], v1[..., M - N :, :], S)
    else:
        S = _sum(fk, v1, past)
        y = fq @ S
    out, total = y.split([v.shape[-1], 1], -1)
    out = out / total.masked_fill(total <= FLOOR, torch.inf)
    return out.to(v.dtype), (S[..., :-1], S[..., -1])


def _sum(
    fk: Float[Tensor, "B H M f"], v: Float[Tensor, "B H M e"], past: Tensor | None
) -> Float[Tensor, "B H f e"]:
    S = fk.mT @ v
    return S if past is None else S + past


class _Running(torch.autograd.Function):
    """y_i = f(q_i)ᵀ (S + Σ_{j≤i} f(k_j) v_jᵀ), and the last sum.

    With g the gradient of y, and R_j = Σ_{i≥j} f(q_i) g_iᵀ + the gradient of the last sum:
    df(q_i) = S_i g_i,   df(k_j) = R_j v_j,   dv_j = R_jᵀ f(k_j),   dS = R_0.
    """

    @staticmethod
    def forward(ctx: Any, fq: Tensor, fk: Tensor, v: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(fq, fk, v, S)
        heads = v.shape[:2]
        fq, fk, v, S = (t.flatten(0, 1) for t in (fq, fk, v, S))
        y, S = torch.empty_like(v), S.clone()
        for q_c, k_c, v_c, y_c in _chunks(fq, fk, v, y):
            torch.bmm(q_c, S, out=y_c).baddbmm_((q_c @ k_c.mT).tril_(), v_c)
            S.baddbmm_(k_c.mT, v_c)
        return y.unflatten(0, heads), S.unflatten(0, heads)

    @staticmethod
    @backward
    def backward(ctx: Any, g: Tensor, R: Tensor) -> tuple[Tensor, ...]:
        heads = g.shape[:2]
        fq, fk, v, S, g, R = (t.flatten(0, 1) for t in (*ctx.saved_tensors, g, R))
        dq, dk, dv = torch.empty_like(fq), torch.empty_like(fk), torch.empty_like(v)
        S, R = S.clone(), R.clone()
        for k_c, v_c, g_c, dq_c in _chunks(fk, v, g, dq):
            torch.bmm(g_c, S.mT, out=dq_c).baddbmm_((g_c @ v_c.mT).tril_(), k_c)
            S.baddbmm_(k_c.mT, v_c)
        for q_c, k_c, v_c, g_c, dk_c, dv_c in reversed(_chunks(fq, fk, v, g, dk, dv)):
            torch.bmm(v_c, R.mT, out=dk_c).baddbmm_((v_c @ g_c.mT).triu_(), q_c)
            torch.bmm(k_c, R, out=dv_c).baddbmm_((k_c @ q_c.mT).triu_(), g_c)
            R.baddbmm_(q_c.mT, g_c)
        return tuple(t.unflatten(0, heads) for t in (dq, dk, dv, R))


def _chunks(*tensors: Float[Tensor, "BH N _"]) -> list[tuple[Tensor, ...]]:
    """Their rows, CHUNK at a time, side by side."""
    return list(zip(*(t.split(CHUNK, 1) for t in tensors), strict=True))


def elu_features(x: Float[Tensor, "B H N d"]) -> Float[Tensor, "B H N d"]:
    """f(x) = elu(x) + 1: e^x below 0, x + 1 above. Positive, with f′ = min(f, 1)."""
    return _EluFeatures.apply(x.to(accum_dtype(x.dtype)))


class _EluFeatures(torch.autograd.Function):
    """e^min(x, 0) + max(x, 0), which keeps the digits that (e^x − 1) + 1 loses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        f = x.clamp(max=0).exp_().add_(x.clamp(min=0))
        ctx.save_for_backward(f)
        return f

    @staticmethod
    @backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor]:
        (f,) = ctx.saved_tensors
        return (g * f.clamp(max=1),)


class FeatureAttention(Attention):
    """Attention by a product of features: linear in N, and a state of one size to decode with.

    No scores are ever there: no biases (alibi, t5, shaw, other), windows, dropout, masks that
    differ by query, or normalisers that need scores. Rope turns q and k before f, so features
    stay positive; what Performer estimates then knows positions by their distance, as softmax
    does, and elu + 1 does not.
    """

    serves = ("embed", "rotate")
    softmax_only = True
    repeats = False

    @abstractmethod
    def features(self, q: Queries, k: Keys) -> Features:
        """f(q), up to a factor of the row, and f(k)."""

    def check_fit(self) -> None:
        super().check_fit()
        if self.dropout:
            raise Unsupported(
                f"dropout = {self.dropout}: {self.name} attention has no weights to drop; "
                "expected 0"
            )

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        self._check(call)
        kind, past, vis = call.q.device.type, call.cache, call.vis
        with torch.autocast(kind, enabled=False):
            fq, fk = self.features(self._sharpened(call), call.k)
            out, state = kernel_attention(
                fq, repeat_kv(fk, self.heads), repeat_kv(call.v, self.heads), causal=vis.causal,
                mask=None if vis.mask is None else vis.mask.squeeze(-2),
                state=None if past is None else past.state,
            )  # fmt: skip
        if past is not None:
            past.keep(state, vis.M, vis.mask)
        return out

    def contain(self, call: Call, parts: bool) -> tuple[Any, ...]:
        outputs = super().contain(call, parts)
        if call.cache is not None:
            bad = nonfinite_tokens(call.k, call.v)[:, None, :]
            real = bad if call.vis.mask is None else bad & call.vis.mask.squeeze(-2)
            call.cache.set_nan(real.any(-1))
        return outputs

    def _sharpened(self, call: Call) -> Float[Tensor, "B H N d"]:
        """q times what the normaliser asks for."""
        q, rule = call.q, self.normalizer
        if _sharpens(type(rule)):
            count = call.vis.count
            q = rule.sharpen(q, count if call.cache is None else count + call.cache.real)
        return q if rule.temperature == 1 else q / rule.temperature

    def _check(self, call: Call) -> None:
        if call.other is not None:
            raise Unsupported(
                f"other: {self.name} attention has no scores to add a bias to; expected other=None"
            )
        if not call.vis.by_key_only:
            raise Unsupported(
                f"mask differs by query; {self.name} attention sums the keys once for all rows; "
                "expected padding (B, M), causal=True, or both"
            )

    def new_cache(self) -> StateCache:
        return StateCache()

    def read_cache(self, call: Call, mask: Bool[Tensor, "B n"] | None) -> Call:
        """The new tokens alone: the past is a state."""
        if not isinstance(call.cache, StateCache):
            raise TypeError(
                f"cache is {type(call.cache).__name__}; expected {self.name}.new_cache()"
            )
        if mask is not None:
            mask = mask[:, None, None, :]
        return replace(call, vis=replace(call.vis, mask=mask))


class StateCache:
    """All that decoding remembers: S and s. `len(cache)` is the number of tokens seen so far."""

    def __init__(self) -> None:
        self.length = 0
        self.real: int | Int[Tensor, "B 1 1 1"] = 0  # of them not padding
        self.state: State | None = None

    def __len__(self) -> int:
        return self.length

    def keep(self, state: State, n: int, mask: Bool[Tensor, "B 1 1 n"] | None) -> None:
        """The state n tokens later."""
        self.length += n
        self.real = self.real + (n if mask is None else mask.sum(-1, keepdim=True))
        self.state = state

    def set_nan(self, rows: Bool[Tensor, "B #H"]) -> None:
        """NaN from here on: every later row sees what was not finite."""
        if self.state is not None:
            S, s = self.state
            bad = rows[..., None]
            self.state = S.masked_fill(bad[..., None], torch.nan), s.masked_fill(bad, torch.nan)

    def reorder(self, index: Int[Tensor, "b"]) -> None:
        """Follow the beams: batch row b becomes what row index[b] was."""
        if self.state is not None:
            S, s = self.state
            self.state = S.index_select(0, index), s.index_select(0, index)
        if isinstance(self.real, Tensor):
            self.real = self.real.index_select(0, index)

    @property
    def batch(self) -> int:
        """How many sequences."""
        assert self.state is not None
        return self.state[0].shape[0]

    def nbytes(self) -> int:
        """Memory of the state: the same after every token."""
        return sum(t.numel() * t.element_size() for t in self.state or ())


class LinearAttention(FeatureAttention):
    """f = elu + 1. There is no score to divide by a temperature T: it divides q before f."""

    name = "linear"

    def features(self, q: Queries, k: Keys) -> Features:
        least = q.detach().amax(-1, keepdim=True).clamp(max=0)  # a row far below 0 keeps its digits
        return elu_features(q - least), elu_features(k)

    def check_fit(self) -> None:
        fits = [n for n, kind in NORMALIZERS.items() if kind.softmax and not _sharpens(kind)]
        if not self.normalizer.softmax or _sharpens(type(self.normalizer)):
            raise Unsupported(
                f"normalizer {self.normalizer.name!r} works on the exponents of a softmax, which "
                f"linear attention does not have; expected one of {', '.join(fits)}"
            )
        super().check_fit()


def _sharpens(kind: type[Normalizer]) -> bool:
    return kind.sharpen is not Normalizer.sharpen
