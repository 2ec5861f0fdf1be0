"""Attention over index lists in Triton: one program for a query, which does its heads in turn.

What a listed key has by itself stays in the registers of a program; keys and values are gathered
W columns at a time, as often as they are needed, for they stay in the cache of a core. Nothing of
size N×|F| is stored: backward computes the row again, and adds the gradients of keys atomically,
so that their last digits depend on the order. All arithmetic is float32; there is no tl.dot, hence
no TF32. The definition in torch operators is core/backends/flock.py.

    base = q·k/√d    ra = k̃·u    φ = w max(0, a − δ)    rc = −‖z − c‖²/τ_coh     x̃: standardised
    S = (base + fa r̃a − fs φ̃ + fc r̃c + ω_aff g + other)/τ_score        f = ω gate

In backward dx is ∂L/∂x and G = ∂L/∂(the sum before τ_score).
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit

NUMBERS = 11  # by head, in the order of core/backends/native.py, and ω_aff
SLOTS = 16  # a head has in the gradient of the numbers
EPS = tl.constexpr(1e-5)  # core/combine.py
FLOOR = tl.constexpr(1e-12)  # core/geometry.py
TIE, OLD = tl.constexpr(1e-6), tl.constexpr(4096)  # core/neighbours.py
MAX_DISTANCE = tl.constexpr(1024)  # core/affinity.py
ATOMIC = ["DK", "DUNIT", "DV", "DZK", "DHK", "DBIAS"]
WARPS = (8, 4)


@jit
def gather(X, row, ok, first, w, stride, W: tl.constexpr):
    """W columns of rows of X (…, w), as (L, W); 0 where there is none. row · stride comes first:
    triton 3.7.1 does not compile backward with row[:, None] · stride."""
    c = first + tl.arange(0, W)
    mask = ok[:, None] & (c < w)[None, :]
    return tl.load(X + (row * stride)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)


@jit
def vector(X, row, first, w, W: tl.constexpr):
    c = first + tl.arange(0, W)
    return tl.load(X + row * w + c, mask=c < w, other=0.0).to(tl.float32)


@jit
def store(X, row, x, first, w, W: tl.constexpr):
    c = first + tl.arange(0, W)
    tl.store(X + row * w + c, x.to(X.dtype.element_ty), mask=c < w)


@jit
def scatter(X, row, ok, x, first, w, W: tl.constexpr):
    c = first + tl.arange(0, W)
    mask = ok[:, None] & (c < w)[None, :]
    tl.atomic_add(X + (row * w)[:, None] + c[None, :], x, mask=mask, sem="relaxed")


@jit
def inverse_norm(x):
    """1/max(‖x‖, 1e-12) of each row."""
    return 1.0 / tl.maximum(tl.sqrt(tl.sum(x * x, 1)), FLOOR)


@jit
def standard(x, valid, n, STANDARDISE: tl.constexpr):
    """(x̃, 1/√(var + ε)) of a row, or (x, 1)."""
    x = tl.where(valid, x, 0.0)
    scale = tl.sum(x, 0) * 0.0 + 1.0
    if STANDARDISE:
        x = tl.where(valid, x - tl.sum(x, 0) / n, 0.0)
        scale = tl.rsqrt(tl.sum(x * x, 0) / n + EPS)
    return x * scale, scale


@jit
def standard_back(G, f, xs, scale, valid, n, STANDARDISE: tl.constexpr):
    """∂x of f x̃, from G = ∂(f x̃)."""
    if STANDARDISE:
        G = G - tl.sum(G, 0) / n - xs * (tl.sum(G * xs, 0) / n)
    return tl.where(valid, f * scale * G, 0.0)


@jit
def nearest(score, mates, far, size, L: tl.constexpr, CAUSAL: tl.constexpr, TIED: tl.constexpr):
    """N_k(i): the `size` mates that rank highest, of equal ones the earliest in the list."""
    if CAUSAL:
        age = tl.minimum(tl.maximum(far, 0), OLD).to(tl.float32) * TIE
        if TIED:
            score = score - age
        else:
            score = score - age * tl.maximum(1.0, tl.abs(score))
    score = tl.where(mates, score, float("-inf"))
    if L <= 64:
        t = tl.arange(0, L)
        first = (score[None, :] == score[:, None]) & (t[None, :] < t[:, None])
        above = tl.sum(((score[None, :] > score[:, None]) | first).to(tl.int32), 1)
        return mates & (above < size)
    bits = score.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)  # sorts as the numbers do
    edge = tl.sum(order, 0) * 0 - (1 << 31)
    for bit in tl.static_range(31, -1, -1):  # the largest number that `size` of them reach
        step = edge + (1 << bit)
        edge = tl.where(tl.sum((order >= step).to(tl.int32), 0) >= size, step, edge)
    tied = (order == edge).to(tl.int32)
    room = size - tl.sum((order > edge).to(tl.int32), 0)
    return mates & ((order > edge) | ((tied != 0) & (tl.cumsum(tied, 0) <= room)))


@jit
def alignment(K, row, inv, near, valid, D: tl.constexpr, W: tl.constexpr, L: tl.constexpr):
    """(ra, ‖s‖, |N_k|), s the sum over the neighbours of k̃ = inv k."""
    ra = tl.zeros([L], tl.float32)
    square = tl.sum(ra, 0)
    for at in range(0, D, W):
        unit = gather(K, row, valid, at, D, D, W) * inv[:, None]
        s = tl.sum(tl.where(near[:, None], unit, 0.0), 0)
        square += tl.sum(s * s, 0)
        ra += tl.sum(unit * s[None, :], 1)
    length = tl.sqrt(square)
    return ra / tl.maximum(length, FLOOR), length, tl.maximum(tl.sum(near.to(tl.float32), 0), 1.0)


@jit
def keys_back(
    Q, K, UNIT, DQ, DK, DUNIT, row, key, G, dra, ra, length, turn, inv, near, valid,
    D: tl.constexpr, W: tl.constexpr, L: tl.constexpr, ALIGN: tl.constexpr, HAS_UNIT: tl.constexpr,
):  # fmt: skip
    """∂q, ∂k and ∂k̃ of the base score (G) and of alignment: ds = (du − u (u·du))/‖s‖ + turn u."""
    root: tl.constexpr = D**-0.5
    KEYS = UNIT if HAS_UNIT else K
    least = tl.maximum(length, FLOOR)
    if ALIGN:
        along = tl.where(length >= FLOOR, tl.sum(dra * ra, 0), 0.0)
        lies = tl.zeros([L], tl.float32)  # du · k̃
        for at in range(0, D, W):
            unit = gather(KEYS, key, valid, at, D, D, W) * inv[:, None]
            lies += tl.sum(unit * tl.sum(dra[:, None] * unit, 0)[None, :], 1)
        lies = (lies - along * ra) / least + turn * ra  # ds · k̃
        lies = dra * ra + tl.where(near, lies, 0.0)  # ∂k̃ · k̃
        lies = tl.where(inv < 1.0 / FLOOR, lies, 0.0)
    for at in range(0, D, W):
        k = gather(K, key, valid, at, D, D, W)
        store(DQ, row, tl.sum(G[:, None] * k, 0) * root, at, D, W)
        dk = G[:, None] * (vector(Q, row, at, D, W) * root)[None, :]
        if ALIGN:
            unit = gather(KEYS, key, valid, at, D, D, W) * inv[:, None]
            u = tl.sum(tl.where(near[:, None], unit, 0.0), 0) / least
            ds = (tl.sum(dra[:, None] * unit, 0) - u * along) / least + turn * u
            dunit = dra[:, None] * u[None, :] + tl.where(near[:, None], ds[None, :], 0.0)
            if HAS_UNIT:
                scatter(DUNIT, key, valid, dunit, at, D, W)
            else:
                dk += inv[:, None] * (dunit - unit * lies[:, None])
        scatter(DK, key, valid, dk, at, D, W)


@jit
def cohesion(d2, z, member, valid, n, tau, alpha, STANDARDISE: tl.constexpr):
    """(r̃c, its scale, the weights, c, ‖z − c‖², Var, γ)."""
    some = tl.max(member.to(tl.int32), 0) > 0
    low = tl.min(tl.where(member, d2, float("inf")), 0)
    low = tl.where(some, low, 0.0)
    w = tl.where(member, tl.exp((low - d2) / (tau * tau)), 0.0)
    w = w / tl.where(some, tl.sum(w, 0), 1.0)
    c = tl.sum(w[:, None] * z, 0)
    e = tl.sum((z - c[None, :]) * (z - c[None, :]), 1)
    var = tl.sum(w * e, 0)
    gate = tl.where(some, tl.sigmoid(-alpha * var), 0.0)
    x, scale = standard(-e / tau, valid, n, STANDARDISE)
    return x, scale, w, c, e, var, gate


@jit
def _attend(
    Q, K, UNIT, V, ZQ, ZK, HQ, HK, OTHER, BIAS, NUM, LIST, NEAR, P, J, SIZES, OUT,
    GRAD, DQ, DK, DUNIT, DV, DZQ, DZK, DHQ, DHK, DOTHER, DBIAS, DNUM, N, M, length, stride_z,
    H: tl.constexpr, GROUPS: tl.constexpr, ZH: tl.constexpr, AH: tl.constexpr, LH: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, DZ: tl.constexpr, DA: tl.constexpr,
    BL: tl.constexpr, W: tl.constexpr, BZ: tl.constexpr, BA: tl.constexpr,
    HAS_UNIT: tl.constexpr, HAS_OTHER: tl.constexpr, HAS_BIAS: tl.constexpr,
    HAS_NEAR: tl.constexpr, RAW: tl.constexpr, TIED: tl.constexpr, TERM: tl.constexpr,
    STANDARDISE: tl.constexpr, LOCAL: tl.constexpr, CAUSAL: tl.constexpr, CROSS: tl.constexpr,
    ALIGN: tl.constexpr, SEP: tl.constexpr, COH: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """LIST (B, LH, N, length), Q, OUT (B, H, N, ·), K, UNIT, V (B, GROUPS, M, ·), ZQ (B, ZH, N, ·),
    ZK (B, ZH, M, ·), HQ (B, AH, N, ·), HK (B, AH, M, ·), all contiguous, but that a row of ZK has
    stride_z numbers, and that lists need not name the last of the M keys. RAW: UNIT is k̃ times any
    length, forward only. What a call does not have is never read."""
    i, b = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    t = tl.arange(0, BL)
    for h in range(H):
        row = (b * H + h) * N + i
        lrow = (b * LH + h % LH) * N + i
        zh, ah, kv = b * ZH + h % ZH, b * AH + h % AH, b * GROUPS + h // (H // GROUPS)
        key = tl.load(LIST + lrow * length + t, mask=t < length, other=-1)
        valid = key >= 0
        key = tl.where(valid, key, 0).to(tl.int64)
        n = tl.maximum(tl.sum(valid.to(tl.float32), 0), 1.0)
        far = t * 0 + 1
        own = t < 0
        if not CROSS:
            far = tl.load(P + i) - tl.load(J + key)
            own = valid & (far == 0)
        mates = valid & (own == 0)
        number = NUM + h * 11
        oa, os, oc = tl.load(number), tl.load(number + 1), tl.load(number + 2)
        alpha_a, alpha_c = tl.load(number + 3), tl.load(number + 4)
        tau_s, tau_c = tl.load(number + 5), tl.load(number + 6)
        delta, kappa = tl.load(number + 7), tl.load(number + 8)
        tau, omega = tl.load(number + 9), tl.load(number + 10)

        # The base score and `other`.
        S = tl.zeros([BL], tl.float32)
        square = S
        at_k = kv * M + key
        for at in range(0, D, W):
            k = gather(K, at_k, valid, at, D, D, W)
            S += tl.sum(vector(Q, row, at, D, W)[None, :] * k, 1)
            square += tl.sum(k * k, 1)
        S = S * D**-0.5
        if HAS_OTHER:
            S += tl.load(OTHER + row * length + t, mask=t < length, other=0.0)

        # Affinity: the cosine a, g, and the neighbours that rank highest.
        hq, hk = vector(HQ, ah * N + i, 0, DA, BA), gather(HK, ah * M + key, valid, 0, DA, DA, BA)
        inv_q = 1.0 / tl.maximum(tl.sqrt(tl.sum(hq * hq, 0)), FLOOR)
        inv_k = inverse_norm(hk)
        dot = tl.sum(hq[None, :] * hk, 1)
        cos = dot * inv_q * inv_k
        root_a: tl.constexpr = DA**-0.5
        g = dot * root_a
        place = tl.minimum(tl.maximum(far, -MAX_DISTANCE), MAX_DISTANCE) + MAX_DISTANCE
        if HAS_BIAS:
            g += tl.load(BIAS + place)
        if HAS_NEAR:
            near = mates & (tl.load(NEAR + lrow * length + t, mask=t < length, other=0) != 0)
        else:
            rank = cos if TIED else g
            near = nearest(rank, mates, far, tl.load(SIZES + h), BL, CAUSAL, TIED)
        if TERM:
            S += omega * g

        inv = tl.full([BL], 1.0, tl.float32)
        ra = inv * 0.0
        len_a = tl.sum(ra, 0)
        if ALIGN:
            if HAS_UNIT:
                if RAW:
                    square = tl.zeros([BL], tl.float32)
                    for at in range(0, D, W):
                        k = gather(UNIT, at_k, valid, at, D, D, W)
                        square += tl.sum(k * k, 1)
                    inv = 1.0 / tl.maximum(tl.sqrt(square), FLOOR)
                ra, len_a, count = alignment(UNIT, at_k, inv, near, valid, D, W, BL)
            else:
                inv = 1.0 / tl.maximum(tl.sqrt(square), FLOOR)
                ra, len_a, count = alignment(K, at_k, inv, near, valid, D, W, BL)
            var_a = 1.0 - (len_a / count) * (len_a / count)
            gamma_a = tl.sigmoid(-alpha_a * var_a)
            xa, isa = standard(ra, valid, n, STANDARDISE)
            S += oa * gamma_a * xa
        if SEP or COH:
            zq = vector(ZQ, zh * N + i, 0, DZ, BZ)
            z = gather(ZK, zh * M + key, valid, 0, DZ, stride_z, BZ)
            d2 = tl.sum((zq[None, :] - z) * (zq[None, :] - z), 1)
        if SEP:
            crowd = near if LOCAL else mates
            ws = tl.exp(-d2 / (tau_s * tau_s))
            rho = tl.sum(tl.where(crowd, ws, 0.0), 0)
            eta = tl.minimum(rho / kappa, 1.0)
            over = tl.where(near, tl.maximum(cos - delta, 0.0), 0.0)
            xs, iss = standard(ws * over, valid, n, STANDARDISE)
            S -= os * eta * xs
        if COH:
            member = (near | own) if LOCAL else valid
            xc, isc, wc, c, e, var_c, gamma_c = cohesion(
                d2, z, member, valid, n, tau_c, alpha_c, STANDARDISE
            )
            S += oc * gamma_c * xc

        S = tl.where(valid, S / tau, float("-inf"))
        top = tl.max(S, 0)
        A = tl.where(valid, tl.exp(S - tl.where(top == float("-inf"), 0.0, top)), 0.0)
        mass = tl.sum(A, 0)
        A = A / tl.where(mass > 0.0, mass, 1.0)
        if not BACKWARD:
            for at in range(0, E, W):
                v = gather(V, at_k, valid, at, E, E, W)
                store(OUT, row, tl.sum(A[:, None] * v, 0), at, E, W)
        else:
            dA = tl.zeros([BL], tl.float32)
            for at in range(0, E, W):
                go = vector(GRAD, row, at, E, W)
                dA += tl.sum(go[None, :] * gather(V, at_k, valid, at, E, E, W), 1)
                scatter(DV, at_k, valid, A[:, None] * go[None, :], at, E, W)
            G = A * (dA - tl.sum(A * dA, 0)) / tau
            slot = DNUM + row * 16
            tl.store(slot + 9, -tl.sum(G * tl.where(valid, S, 0.0), 0))
            if HAS_OTHER:
                tl.store(DOTHER + row * length + t, G, mask=t < length)
            dg = G * 0.0
            dcos = G * 0.0
            if TERM:
                tl.store(slot + 10, tl.sum(G * g, 0))
                dg = omega * G

            dra = G * 0.0
            turn = tl.sum(dra, 0)
            if ALIGN:
                df = tl.sum(G * xa, 0)
                dy = df * oa * gamma_a * (1.0 - gamma_a)
                tl.store(slot, df * gamma_a)
                tl.store(slot + 3, -var_a * dy)
                dra = standard_back(G, oa * gamma_a, xa, isa, valid, n, STANDARDISE)
                turn = alpha_a * dy * 2.0 * len_a / (count * count)
            keys_back(
                Q, K, UNIT, DQ, DK, DUNIT, row, at_k, G, dra, ra, len_a, turn, inv, near, valid,
                D, W, BL, ALIGN, HAS_UNIT,
            )  # fmt: skip

            if SEP or COH:
                dd2 = G * 0.0
                dz = tl.zeros([BL, BZ], tl.float32)
            if SEP:
                df = -tl.sum(G * xs, 0)
                tl.store(slot + 1, df * eta)
                acts = (rho < kappa).to(tl.float32)
                drho = acts * df * os / kappa
                tl.store(slot + 8, -drho * rho / kappa)
                dphi = -standard_back(G, os * eta, xs, iss, valid, n, STANDARDISE)
                dcos = tl.where(over > 0.0, dphi * ws, 0.0)
                tl.store(slot + 7, -tl.sum(dcos, 0))
                dws = (dphi * over + tl.where(crowd, drho, 0.0)) * ws / (tau_s * tau_s)
                dd2 -= dws
                tl.store(slot + 5, 2.0 * tl.sum(dws * d2, 0) / tau_s)
            if COH:
                df = tl.sum(G * xc, 0)
                dy = df * oc * gamma_c * (1.0 - gamma_c)
                tl.store(slot + 2, df * gamma_c)
                tl.store(slot + 4, -var_c * dy)
                drc = standard_back(G, oc * gamma_c, xc, isc, valid, n, STANDARDISE)
                de = -alpha_c * dy * wc - drc / tau_c
                apart = z - c[None, :]
                dc = -2.0 * tl.sum(de[:, None] * apart, 0)
                dwc = -alpha_c * dy * e + tl.sum(z * dc[None, :], 1)
                dl = wc * (dwc - tl.sum(wc * dwc, 0)) / (tau_c * tau_c)
                dtau = tl.sum(drc * e, 0) / (tau_c * tau_c) + 2.0 * tl.sum(dl * d2, 0) / tau_c
                tl.store(slot + 6, dtau)
                dd2 -= dl
                dz += 2.0 * de[:, None] * apart + wc[:, None] * dc[None, :]
            if SEP or COH:
                step = 2.0 * dd2[:, None] * (zq[None, :] - z)
                store(DZQ, row, tl.sum(step, 0), 0, DZ, BZ)
                scatter(DZK, zh * M + key, valid, dz - step, 0, DZ, BZ)
            if SEP or TERM:
                a, x = hq * inv_q, hk * inv_k[:, None]
                in_q = tl.where(inv_q < 1.0 / FLOOR, tl.sum(dcos * cos, 0), 0.0)
                in_k = tl.where(inv_k < 1.0 / FLOOR, dcos * cos, 0.0)
                dhq = inv_q * (tl.sum(dcos[:, None] * x, 0) - in_q * a)
                dhk = inv_k[:, None] * (dcos[:, None] * a[None, :] - in_k[:, None] * x)
                dhq += tl.sum(dg[:, None] * hk, 0) * root_a
                dhk += dg[:, None] * (hq * root_a)[None, :]
                store(DHQ, row, dhq, 0, DA, BA)
                scatter(DHK, ah * M + key, valid, dhk, 0, DA, BA)
                if HAS_BIAS and TERM:
                    tl.atomic_add(DBIAS + place, dg, mask=valid, sem="relaxed")


def suitable(configs, named_args, **given):
    """Lists beyond 128 need all warps: with four, backward spills."""
    length = (named_args | given)["BL"]
    return [c for c in configs if c.num_warps == WARPS[0] or length <= 128]


attend = triton.autotune(
    configs=first_or_all([triton.Config({}, num_warps=w, num_stages=1) for w in WARPS]),
    key=["BL", "D", "E", "BACKWARD"], reset_to_zero=ATOMIC,
    prune_configs_by={"early_config_prune": suitable},
)(_attend)  # fmt: skip
