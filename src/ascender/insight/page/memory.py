"""How much memory a page takes to make, known before the work.

    one layer, written out       N² · ((60 with rules, 32 without) · H + 60) bytes
    kept of every layer          12 · L · H · T² bytes, T tokens or blocks that are drawn

The first line is fitted to the peak of `collect_page_data` on a CPU: with rules at N = 1000
(2, 4, 8 heads) and 2000 (4 heads), without at 1000 and 2000 (4 heads; that the 60 is the same
there is assumed). The second is counted, not measured: weights in float32, and as much again twice
for what is packed.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import torch

from ascender.insight.capture import has_rules
from ascender.insight.page.pooling import Pooling
from ascender.measure.memory import available
from ascender.nn.slot import Attention

RULED, PLAIN, HEAD, KEPT = 60, 32, 60, 12  # bytes a pair of tokens


def check_memory(name: str, model: Any, pooling: Pooling) -> None:
    """ValueError where the attention of so many tokens cannot be written out here."""
    N, T = pooling.tokens, len(pooling.starts)
    layers, heads = _size(model)
    pair = (RULED if has_rules(model) else PLAIN) * heads + HEAD
    whole, kept = N * N * pair, KEPT * layers * heads * T * T
    free = free_memory(next(model.parameters()).device)
    if whole + kept <= free:
        return
    if kept > free / 2:  # so many are drawn that pooling, not cutting, is what helps
        raise ValueError(
            f"{name}: {T} tokens are drawn of {layers} layers of {heads} heads, about "
            f"{_gb(whole + kept)}, and {_gb(free)} are free; expected fewer (--max-tokens, "
            "max_tokens), the rest is pooled"
        )
    fits = isqrt(int(free - kept) // pair)
    most = fits // 100 * 100 or fits
    raise ValueError(
        f"{name}: {N} tokens; every term of {heads} heads takes about {_gb(whole + kept)}, and "
        f"{_gb(free)} are free; expected at most {most} tokens here: a shorter example, or the "
        f"start of the text (--first {most}, first={most})"
    )


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated, by the machine, its container and the device."""
    free = available()
    return free if device.type != "cuda" else min(free, torch.cuda.mem_get_info(device)[0])


def _size(model: Any) -> tuple[int, int]:
    """(layers, heads of the widest)."""
    ours = [m.heads for m in model.modules() if isinstance(m, Attention)]
    if ours:
        return len(ours), max(ours)
    config = getattr(model, "config", None)
    layers, heads = (
        getattr(config, f"num_{of}", None) for of in ("hidden_layers", "attention_heads")
    )
    return layers or 1, heads or 1


def _gb(number: float) -> str:
    return f"{number / 1e9:.1f} GB"
