"""Packed sequences on a GPU with Triton: the passes read cu_seqlens directly (fused.py), and row
variances come from moments of chunks of T tokens, none of which spans two sequences:

    tokens     a0 a1 a2 a3 a4 b0 c0 c1 …           T = 4
    chunks     a0 a1 a2 a3 | a4 · · · | b0 · · · | c0 c1 … | · · · ·

Σ ⌈n_s/T⌉ ≤ ⌊total/T⌋ + sequences, so that the host need not know how many chunks there are.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.backends.folded import chunk_sums
from ascender.core.visibility import Visibility

CHUNK = 64  # tokens: their d×d moments are as many numbers at d = 64


class Chunks:
    """Where packed tokens stand in chunks. `sequence`: that of each chunk; `begins`: which chunks
    are the first of theirs."""

    def __init__(self, vis: Visibility) -> None:
        assert vis.cu is not None
        cu = vis.cu.long()
        count = (cu.diff() + CHUNK - 1) // CHUNK
        end = count.cumsum(0)
        first, sequences = end - count, cu.numel() - 1
        self.chunks, self.sequences = vis.M // CHUNK + sequences, sequences
        self.slot = first[vis.sequence] * CHUNK + vis.j - vis.start
        each = torch.arange(self.chunks, device=cu.device)
        self.sequence = torch.searchsorted(end, each, right=True).clamp_max(sequences - 1)
        self.begins = each == first[self.sequence]

    def into(self, t: Float[Tensor, "B h N w"]) -> Float[Tensor, "B h C T w"]:
        """The tokens in their chunks, 0 elsewhere."""
        places = t.new_zeros(*t.shape[:2], self.chunks * CHUNK, t.shape[-1])
        return places.index_copy(-2, self.slot, t).unflatten(-2, (self.chunks, CHUNK))

    def before(self, moment: Float[Tensor, "B h C r w"]) -> Float[Tensor, "B h C r w"]:
        """Sums over the chunks of the same sequence before each chunk."""
        from ascender.kernels.gpu.running_sums import running_sums

        return running_sums(moment.flatten(0, 1).flatten(2), self.begins).view_as(moment)

    def whole(self, moment: Float[Tensor, "B h C r w"]) -> Float[Tensor, "B h C r w"]:
        """Sums over all chunks of the same sequence."""
        shape = (*moment.shape[:2], self.sequences, *moment.shape[3:])
        total = moment.new_zeros(shape).index_add(2, self.sequence, moment)
        return total.index_select(2, self.sequence)


def packed_row_var(
    chunks: Chunks, x: Float[Tensor, "1 h N w"], y: Float[Tensor, "1 G N w"], causal: bool,
    count: Float[Tensor, "1 1 N 1"],
) -> Float[Tensor, "1 H N 1"]:  # fmt: skip
    """The population variance over j ∈ V(i) of x_i·y_j; y is measured from the first key of its
    sequence."""
    H = max(x.shape[1], y.shape[1])
    rows, own = chunks.into(x.expand(-1, H, -1, -1)), chunks.into(y)
    others = chunks.before if causal else chunks.whole
    first = others(own.sum(-2, keepdim=True))
    second = others(own.transpose(-1, -2) @ own)
    sums = chunk_sums(rows, own, first, second, causal)
    total, square = (t.index_select(-1, chunks.slot).unsqueeze(-1) for t in sums)
    n = count.clamp_min(1)
    return (square / n - (total / n).square()).clamp_min(0)
