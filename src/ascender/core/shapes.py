"""Shapes that many signatures share. B batch, H heads, G key heads, N queries, M keys, d width of
queries and keys, e of values. A leading # broadcasts."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

Queries = Float[Tensor, "B H N d"]
Keys = Float[Tensor, "B G M d"]
Values = Float[Tensor, "B G M e"]
Outputs = Float[Tensor, "B H N e"]
Scores = Float[Tensor, "B H N M"]
Visible = Bool[Tensor, "#B #H N M"]
Counts = Int[Tensor, "#B #H #N 1"]  # one number a row
Tokens = Float[Tensor, "B N dim"]
TokenPositions = Int[Tensor, "*b N"]  # of all sequences, or of each
QueryPositions = Int[Tensor, "N"]
KeyPositions = Int[Tensor, "M"]
