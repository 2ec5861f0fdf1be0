"""From a captured attention to what the page recomputes it from.

    base_ij, affinity_ij = L_i · R_j             separation_ij = g_i, and x_ij for j ∈ N_k(i)
    alignment_ij = f_i (k̃_j · u_i) + g_i         cohesion_ij   = −f_i ‖z_j − c_i‖² + g_i
    total = Σ / τ                                weights       = softmax over V(i)

f and g are what standardising, gating and ω, λ come to in a row. Rows and columns instead of
matrices: 512 tokens take some kB a head. A term that is not of its form (a normaliser, Shaw's
positions, an affinity that depends on the distance, pooled blocks) is written as a matrix; without
the affinity term it has no entry. A head of flock scope also has `dense`, the same head attending
to everything visible, and `missed`, by row the weight that dense attention has outside the flock.
Law: what the page shows equals Parts to CLOSE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from ascender.core.rules import RULES
from ascender.insight.capture import Geometry, Layer
from ascender.insight.contribution import TERMS, WITHOUT
from ascender.insight.page.pack import NONE, Blobs, shown
from ascender.insight.page.pooling import Pooling

CLOSE = 2e-5  # of the largest entry of a term, or of 1
WIDE = 256  # tokens above which a matrix is written in 16 bits
Form = tuple[dict[str, Any], np.ndarray]


def numbers(t: Tensor) -> np.ndarray:
    """In float64."""
    return t.detach().double().cpu().numpy()


def _of_head(t: Tensor, h: int) -> np.ndarray:
    """The first example of a head; heads may share one."""
    return numbers(t[0, min(h, t.shape[1] - 1)])


def layer_data(layer: Layer, pooling: Pooling, blobs: Blobs) -> dict[str, Any]:
    """One layer of the page."""
    heads = [_head(layer, h, pooling, blobs) for h in range(layer.parts.weights.shape[1])]
    if layer.dense is not None and layer.missed is not None:
        for h, head in enumerate(heads):
            missed = pooling.rows(numbers(layer.missed[0, h])[:, None])[:, 0]
            head["dense"] = _head(layer.dense, h, pooling, blobs)
            head["missed"] = blobs.put(missed, "f4")
    return {"name": layer.name, "heads": heads}


def _head(layer: Layer, h: int, pooling: Pooling, blobs: Blobs) -> dict[str, Any]:
    V = layer.visible[0, h].cpu().numpy()
    terms = TERMS if layer.parts.aff.any() else WITHOUT
    parts = {name: numbers(getattr(layer.parts, name)[0, h]) for name in (*terms, "total")}
    A = numbers(layer.parts.weights[0, h])
    added = np.sum([parts[name] for name in terms], 0)
    tau = float(layer.tau[h])
    data: dict[str, Any] = {"tau": tau, "mask": packed_mask(pooling.any(V), blobs)}
    data |= _surroundings(layer.geometry, h, pooling, blobs)
    if pooling.size == 1:
        data |= _terms(layer, h, parts, V, data.get("near"), blobs)
        if not _close(_softmax(added / tau, V), A):
            data["weights"] = _matrix(A, blobs)
    else:
        parts = {name: pooling.mean(x, V) for name, x in parts.items()}
        data |= {n: _matrix(parts[n], blobs) if parts[n].any() else None for n in terms}
        data["weights"] = _matrix(pooling.share(A), blobs)
    named = np.abs(np.stack(list(parts.values())))
    data["scale"] = float(f"{np.quantile(named, 0.999):.4g}") if named.any() else 1.0
    return data


def _surroundings(
    geometry: Geometry | None, h: int, pooling: Pooling, blobs: Blobs
) -> dict[str, Any]:
    """N_k, the gates, ρ and ‖z − c‖ of every row."""
    if geometry is None:
        return {}
    near = _of_head(geometry.near, h) > 0
    row: dict[str, np.ndarray] = {f"gate_{r}": _of_head(geometry.gates[r], h)[:, 0] for r in RULES}
    row |= {"rho": _of_head(geometry.rho, h)[:, 0], "away": _of_head(geometry.away, h)}
    data = {name: blobs.put(pooling.rows(x[:, None])[:, 0], "f4") for name, x in row.items()}
    return {**data, "near": blobs.put(_lists(pooling.any(near)), "u2")}


def _terms(
    layer: Layer, h: int, parts: dict[str, np.ndarray], V: np.ndarray, near: int | None,
    blobs: Blobs,
) -> dict[str, Any]:  # fmt: skip
    """Every term in the first form that gives it back."""
    q, k = numbers(layer.q[0, h]), numbers(layer.k[0, h])
    ways: dict[str, list[Callable[[], Form | None]]] = {name: [] for name in parts}
    ways["base"].append(lambda: _product(parts["base"], q, k, V, blobs))
    ways["other"].append(lambda: _by_place(parts["other"], V, blobs))
    g = layer.geometry
    if g is not None:
        z, c = (_of_head(t, h) for t in (g.z, g.c))
        of_h = g.near[0, min(h, g.near.shape[1] - 1)].cpu().numpy()
        keys = numbers(g.keys[0, h])
        ways["align"].append(lambda: _heading(parts["align"], keys, k, of_h, V, blobs))
        ways["sep"].append(lambda: _apart(parts["sep"], of_h, V, blobs))
        ways["coh"].append(lambda: _centred(parts["coh"], z, c, V, blobs))
        if "aff" in parts and g.affinity is not None:
            x, y = (_of_head(t, h) for t in g.affinity)
            ways["aff"].append(lambda: _product(parts["aff"], x, y, V, blobs))
    return {n: _first(parts[n], V, ways[n], blobs) for n in parts if n != "total"}


def _first(
    term: np.ndarray, V: np.ndarray, ways: list[Callable[[], Form | None]], blobs: Blobs
) -> dict[str, Any] | None:
    if not term.any():
        return None
    for way in ways:
        packed = way()
        if packed is not None and _close(np.where(V, packed[1], 0), term):
            return packed[0]
    return _matrix(term, blobs)


def _close(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(np.abs(x - y).max(initial=0) <= CLOSE * max(1.0, float(np.abs(y).max(initial=0))))


def _product(
    term: np.ndarray, q: np.ndarray, k: np.ndarray, V: np.ndarray, blobs: Blobs
) -> Form | None:
    """L · R with L = q times what the row makes of it: 1/√d, a normaliser's sharpening."""
    x = np.where(V, q @ k.T, 0)
    f = (x * term).sum(-1, keepdims=True) / np.maximum((x * x).sum(-1, keepdims=True), 1e-300)
    L, R = shown(f * q, "i3"), shown(k, "i3")
    return {"L": blobs.put(f * q, "i3"), "R": blobs.put(k, "i3")}, L @ R.T


def _affine(x: np.ndarray, term: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f, g of each row with term = f x + g over V(i), by least squares."""
    n = np.maximum(V.sum(-1, keepdims=True), 1)
    mx, mt = (np.where(V, y, 0).sum(-1, keepdims=True) / n for y in (x, term))
    dx, dt = np.where(V, x - mx, 0), np.where(V, term - mt, 0)
    var = (dx * dx).sum(-1, keepdims=True)
    f = np.where(var > 1e-20, (dx * dt).sum(-1, keepdims=True) / np.maximum(var, 1e-20), 0)
    return f, mt - f * mx


def _with_rows(
    form: dict[str, Any], x: np.ndarray, term: np.ndarray, V: np.ndarray, blobs: Blobs
) -> Form:
    f, g = (shown(t, "f4") for t in _affine(x, term, V))
    return {**form, "f": blobs.put(f[:, 0], "f4"), "g": blobs.put(g[:, 0], "f4")}, f * x + g


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def _heading(
    term: np.ndarray, keys: np.ndarray, k: np.ndarray, near: np.ndarray, V: np.ndarray,
    blobs: Blobs,
) -> Form | None:  # fmt: skip
    """k̃_j · u_i with u_i from N_k(i); k̃ from R where nothing was rotated."""
    own = _unit(shown(k, "i3"))
    same = bool(np.abs(own - keys).max(initial=0) < 1e-6)
    known = own if same else shown(keys, "i3")
    u = _unit(near.astype(np.float64) @ known)
    form = {"keys": None if same else blobs.put(keys, "i3")}
    return _with_rows(form, u @ known.T, term, V, blobs)


def _centred(
    term: np.ndarray, z: np.ndarray, c: np.ndarray, V: np.ndarray, blobs: Blobs
) -> Form | None:
    """−‖z_j − c_i‖²."""
    a, b = shown(z, "i3"), shown(c, "i3")
    x = -((b[:, None] - a[None]) ** 2).sum(-1)
    return _with_rows({"z": blobs.put(z, "i3"), "c": blobs.put(c, "i3")}, x, term, V, blobs)


def _apart(term: np.ndarray, near: np.ndarray, V: np.ndarray, blobs: Blobs) -> Form | None:
    """g_i outside N_k(i), written out inside."""
    rest = V & ~near
    n = rest.sum(-1)
    g = shown(np.where(rest, term, 0).sum(-1) / np.maximum(n, 1), "f4")
    lists = _lists(near)
    inside = np.take_along_axis(term, np.where(lists == NONE, 0, lists), 1)
    x = np.where(lists == NONE, 0, inside)
    form = {"g": blobs.put(g, "f4"), "x": blobs.put(x, "i3")}
    return form, np.where(near, term, g[:, None])


def _by_place(term: np.ndarray, V: np.ndarray, blobs: Blobs) -> Form | None:
    """t_{j−i} (ALiBi, T5), or t_j (ALiBi without what a row cannot tell)."""
    N, M = term.shape
    at = np.arange(M)[None] - np.arange(N)[:, None] + N - 1
    for name, place in (("diagonal", at), ("column", np.broadcast_to(np.arange(M), (N, M)))):
        t = np.zeros(N + M)
        t[place[V]] = term[V]
        t = shown(t, "f4")
        if _close(np.where(V, t[place], 0), term):
            return {name: blobs.put(t, "f4")}, t[place]
    return None


def _matrix(x: np.ndarray, blobs: Blobs) -> dict[str, Any]:
    return {"matrix": blobs.put(x, "i2" if len(x) > WIDE else "i3")}


def packed_mask(V: np.ndarray, blobs: Blobs) -> str | int:
    """all, causal, or where it is written."""
    if V.all():
        return "all"
    if np.array_equal(V, np.tril(np.ones_like(V), V.shape[1] - V.shape[0])):
        return "causal"
    return blobs.put(V, "b1")


def _lists(near: np.ndarray) -> np.ndarray:
    """A boolean matrix as the indices of each row, 65535 where there are fewer."""
    most = max(int(near.sum(-1).max(initial=0)), 1)
    order = np.argsort(~near, axis=-1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(near, order, 1), order, NONE)


def _softmax(total: np.ndarray, V: np.ndarray) -> np.ndarray:
    top = np.where(V, total, -np.inf).max(-1, keepdims=True)
    e = np.where(V, np.exp(np.where(V, total - np.where(np.isfinite(top), top, 0), 0)), 0)
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
