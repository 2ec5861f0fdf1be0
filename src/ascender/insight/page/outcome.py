"""What a model says, and how that changes when rules are muted.

a row for every position (tokens, labels of tokens), or one (a class, a number)
entries: the likeliest by any of the runs, with their probability in each
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ascender.insight.page.data import numbers

BEST = 4  # of the model as it is; of each other run, the first
STATES = ("encoder_last_hidden_state", "last_hidden_state")


def logits_of(output: Any, places: np.ndarray) -> dict[str, Tensor]:
    """Of one pass, what is compared: logits (rows, classes), or states (rows, width)."""
    logits = getattr(output, "logits", None)
    if getattr(output, "encoder_last_hidden_state", None) is not None:
        logits = None  # of the decoder's tokens, which are not shown
    if logits is not None and logits.shape[-1] == 1:
        return {"number": logits[0].reshape(-1, 1).double()}
    if logits is not None and logits.ndim == 2:
        return {"logits": logits[:1].double()}
    at = torch.from_numpy(places)
    if logits is not None and logits.ndim == 3:
        at = at[at < logits.shape[1]]
        return {"logits": logits[0, at].double()}
    for name in STATES:
        states = getattr(output, name, None)
        if states is not None:
            return {"states": states[0, at].double()}
    return {}


def outcome(
    runs: dict[str, dict[str, Tensor]], name_of: Callable[[int], str], shifted: bool,
    target: Sequence[float | None] | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """Runs by name, the first as the model is. `shifted`: a row tells the next token. `target`:
    what each row should tell, a class or a number."""
    first = next(iter(runs.values()))
    if "logits" in first:
        logits = torch.stack([run["logits"] for run in runs.values()])
        due = _due(target, logits.shape[1])
        shown = _probabilities(logits, name_of, due)
        return {**shown, "runs": list(runs), "next": shifted, "target": due}
    if "number" in first:
        values = [[_short(x) for x in numbers(run["number"])[:, 0]] for run in runs.values()]
        return {"kind": "number", "runs": list(runs), "values": values,
                "target": _due(target, len(values[0]))}  # fmt: skip
    if "states" in first:
        states = [run["states"] for run in runs.values()]
        moved = [_moved(states[0], y) for y in states]
        return {"kind": "states", "runs": list(runs), "moved": moved}
    return None


def _due(target: Sequence[float | None] | None, rows: int) -> list[float | None] | None:
    """None where the target is not of these rows."""
    if target is None or len(target) != rows or all(one is None for one in target):
        return None
    return list(target)


def _probabilities(
    logits: Tensor, name_of: Callable[[int], str], target: Sequence[float | None] | None
) -> dict[str, Any]:
    """logits (runs, rows, classes); the target is among the entries of its row."""
    p = torch.softmax(logits, -1)
    best = p[0].topk(min(BEST, p.shape[-1]), -1).indices
    firsts = p.argmax(-1).T
    names: dict[int, str] = {}
    rows = []
    for i in range(p.shape[1]):
        due = [] if target is None or target[i] is None else [target[i]]
        ids = [int(c) for c in dict.fromkeys([*best[i].tolist(), *firsts[i].tolist(), *due])]
        names |= {c: name_of(c) for c in ids if c not in names}
        rows.append({"ids": ids, "p": [[_short(x) for x in run] for run in p[:, i, ids].tolist()]})
    log_p = torch.log_softmax(logits, -1)
    kl = (p[0] * (log_p[0] - log_p)).sum(-1).clamp_min(0)  # of each run from the first
    return {
        "kind": "classes", "rows": rows, "names": {str(c): text for c, text in names.items()},
        "kl": [[_short(x) for x in run] for run in kl.tolist()],
    }  # fmt: skip


def _moved(x: Tensor, y: Tensor) -> list[float]:
    """‖y − x‖ / ‖x‖ of every row."""
    far = torch.linalg.vector_norm(y - x, dim=-1)
    return [
        _short(v) for v in (far / torch.linalg.vector_norm(x, dim=-1).clamp_min(1e-12)).tolist()
    ]


def _short(x: float) -> float:
    return float(f"{x:.5g}")
