"""The slow truth: the definition of ASCender as loops over b, h, i, j in float64.

S_ij = ( q_i·k_j/√d + λ_a ω_a γ_i r̃^align_ij + λ_s ω_s η_i r̃^sep_ij + λ_c ω_c γ_i r̃^coh_ij
         + ω_aff g_ij + β^other_ij ) / τ_score,    A_i = softmax over V(i),    out = A v

In flock scope F(i) takes the place of V(i) once it is chosen.

Nothing here is shared with the package, nothing is fast, and nothing is clever. One row i is
computed from the tokens in V(i) alone: a token outside V(i) is never read.
"""

import math

import numpy as np

EPS_NORM = 1e-12
EPS_VAR = 1e-5


def visible_oracle(N, M, causal=False, window=None, n_global=0, pad=None, cross=False):
    """V(i) as a bool array (B or 1, N, M): j is visible to i where every mask allows it.

    p(i) = i + (M − N); causal: j ≤ p(i); padding: pad[b, j] (True = real token);
    window w: |p(i) − j| ≤ w, or j or p(i) is one of the g leading global tokens.
    In cross-attention a query has no position among the keys: only padding can mask.
    """
    if cross and (causal or window is not None):
        raise ValueError("cross-attention has no p(i); expected causal=False and window=None")
    B = 1 if pad is None else len(pad)
    visible = np.zeros((B, N, M), dtype=bool)
    for b in range(B):
        for i in range(N):
            p = i + (M - N)
            for j in range(M):
                allowed = True
                if pad is not None and not pad[b][j]:
                    allowed = False
                if causal and not j <= p:
                    allowed = False
                if window is not None:
                    is_global = 0 <= j < n_global or 0 <= p < n_global
                    if not (abs(p - j) <= window or is_global):
                        allowed = False
                visible[b, i, j] = allowed
    return visible


def _unit(x):
    """x/‖x‖, the norm floored at 1e-12."""
    return x / max(math.sqrt(float(x @ x)), EPS_NORM)


def _squared(x, y):
    """‖x − y‖²."""
    return float((x - y) @ (x - y))


def _sigmoid(x):
    """σ(x) = 1/(1 + e^−x), written so that the exponential never overflows."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _standardised(r):
    """r̃_j = (r_j − mean)/√(var + 1e-5), mean and population variance over the row's V(i)."""
    mean = sum(r.values()) / len(r)
    var = sum((x - mean) ** 2 for x in r.values()) / len(r)
    return {j: (x - mean) / math.sqrt(var + EPS_VAR) for j, x in r.items()}


def _top(P, value, k, p=None):
    """N_k(i): the k members of P with the largest value; between equals the lower index. In
    causal attention (p: the position of i) the ranking takes 1e-6 · max(1, |value|) off for every
    step back in time, up to 4096, so that between equals the most recent are chosen."""

    def rank(j):
        age = 0 if p is None else min(p - j, 4096)
        return value[j] - 1e-6 * max(1.0, abs(value[j])) * age

    return sorted(P, key=lambda j: (-rank(j), j))[:k]


def _given(P, indices):
    """N_k(i): the indices that are members of P, each once; −1 and strangers are dropped."""
    return sorted({int(j) for j in indices} & set(P))


def _bucket(distance, causal, buckets):
    """T5's bucket of the distance p(i) − j, as far as 1024: causal, all the buckets for the past;
    else the first half for j ≤ p(i) and the second for j > p(i). In each of b buckets, the first
    b/2 are a distance each and the others grow with its logarithm."""
    b = buckets if causal else buckets // 2
    n = max(distance, 0) if causal else abs(distance)
    single = b // 2
    if n >= single:
        grown = math.log(n / single) / math.log(1024 / single) * (b - single)
        n = min(single + int(grown), b - 1)
    return n if causal or distance >= 0 else n + b


def _affinity(h_q, h_k, V, p, bias, causal):
    """g_j = h^q·h^k_j/√d_a, and b[bucket(p − j)] where there is a bias."""
    g = {j: float(h_q @ h_k[j]) / math.sqrt(len(h_q)) for j in V}
    if bias is None:
        return g
    return {j: g[j] + float(bias[_bucket(p - j, causal, len(bias))]) for j in V}


def _choose(among, listed, value, size, p):
    """The members of `among` that a given list names, or else the `size` of largest value."""
    return _top(among, value, size, p) if listed is None else _given(among, listed)


def _near(V, p, window, n_global, cross):
    """Who is in F(i) without being chosen: i itself, its window, the globals. In cross-attention
    there is nobody."""
    if cross:
        return []
    return [j for j in V if abs(p - j) <= window or j < n_global]


def _alignment(k, V, N_k, alpha):
    """u = s/‖s‖, s = Σ_{N_k} k̃_l;  Var = 1 − ‖s/|N_k|‖²;  γ = σ(−α Var);  r_j = k̃_j·u.

    N_k empty: everything is 0.
    """
    if not N_k:
        return np.zeros(k.shape[1]), 0.0, 0.0, {j: 0.0 for j in V}
    s = sum(_unit(k[j]) for j in N_k)
    u = _unit(s)
    Var = 1 - float(s @ s) / len(N_k) ** 2
    return u, Var, _sigmoid(-alpha * Var), {j: float(_unit(k[j]) @ u) for j in V}


def _separation(z_i, z, a, V, near, penalised, tau, delta, kappa):
    """ρ = Σ_{near} w_l;  η = min(1, ρ/κ);  φ_j = w_j max(0, a_j − δ) where penalised;  r = −φ."""
    w = {j: math.exp(-_squared(z_i, z[j]) / tau**2) for j in V}
    rho = sum(w[j] for j in near)
    phi = {j: w[j] * max(0.0, a[j] - delta) if j in penalised else 0.0 for j in V}
    return rho, min(1.0, rho / kappa), phi, {j: -phi[j] for j in V}


def _cohesion(z_i, z, V, near, tau, alpha):
    """c = Σ_{near} w_l z_l / Σ w_l;  Var = Σ w_l ‖z_l − c‖² / Σ w_l;  γ = σ(−α Var);
    r_j = −‖z_j − c‖²/τ.  Nobody near: everything is 0.

    w_l = exp(−‖z_i − z_l‖²/τ²) is taken relative to its largest member: the factor cancels, and a
    row that is far from everybody does not become 0/0.
    """
    if not near:
        return np.zeros(z.shape[1]), 0.0, 0.0, {j: 0.0 for j in V}
    closest = min(_squared(z_i, z[j]) for j in near)
    w = {j: math.exp(-(_squared(z_i, z[j]) - closest) / tau**2) for j in near}
    c = sum(w[j] * z[j] for j in near) / sum(w.values())
    Var = sum(w[j] * _squared(z[j], c) for j in near) / sum(w.values())
    return c, Var, _sigmoid(-alpha * Var), {j: -_squared(z[j], c) / tau for j in V}


def asc_oracle(
    q, k, v, z_q, h_q, z_k, h_k, rule, visible, other=None, neighbours="semantic", cross=False,
    standardise=True, separation_scope="neighbours", local_scope="visible", causal=False,
    scope="visible", affinity="tied", affinity_term=False, affinity_bias=None, window=0, n_global=0,
):  # fmt: skip
    """Attention with the three rules, row by row.

    q (B,H,N,d); k (B,H,M,d); v (B,H,M,d_v); z and h (B, H or 1, N or M, ·); visible (B or 1,N,M) or
    (B,H,N,M); `rule` has one number a head (or one for all) under omega_*, alpha_*, tau_sep,
    tau_coh, delta, kappa, tau_score, k, lam_*. `neighbours` is "semantic", "scores" or indices
    (B,H,N,K) or (B,N,K), −1 = none; all of a given list counts, rule["k"] does not cut it.
    `causal` says how ties are ranked; what is hidden, `visible` says.

    scope "flock": a row attends to F(i) only; window and n_global are members of F(i), rule["far"]
    is m. affinity "query-key" ranks by g instead of the cosine; affinity_term adds
    rule["omega_aff"] · g; affinity_bias has a number a bucket of the distance.

    Returns a dict: out; weights, base, align, sep, coh, aff, other, total, phi (B,H,N,M), 0 outside
    V(i) or F(i), the terms before the division by τ_score and total after it; flock, F (or V) as
    bool; gamma_align, eta, gamma_coh, rho, var_align, var_coh, has_centre (B,H,N); u (B,H,N,d);
    c (B,H,N,d_z); cross; members[b][h][i] = N_k(i) and far[b][h][i] = L_m(i) as lists. A row with
    V(i) or F(i) empty is 0 throughout.
    """
    if separation_scope not in ("neighbours", "all"):
        raise ValueError(f"unknown separation_scope {separation_scope!r}; expected neighbours, all")
    if local_scope not in ("visible", "neighbours"):
        raise ValueError(f"unknown local_scope {local_scope!r}; expected visible, neighbours")
    if scope not in ("visible", "flock") or affinity not in ("tied", "query-key"):
        raise ValueError(f"unknown scope {scope!r} or affinity {affinity!r}")
    if isinstance(neighbours, str) and neighbours not in ("semantic", "scores"):
        raise ValueError(f"unknown neighbours {neighbours!r}; expected semantic, scores or indices")

    q, k, v, z_q, h_q, z_k, h_k = (np.asarray(x, np.float64) for x in (q, k, v, z_q, h_q, z_k, h_k))
    (B, H, N, d), M = q.shape, k.shape[2]
    z_q, h_q, z_k, h_k = (np.broadcast_to(x, (B, H, *x.shape[2:])) for x in (z_q, h_q, z_k, h_k))
    visible = np.asarray(visible, bool)
    visible = np.broadcast_to(visible[:, None] if visible.ndim == 3 else visible, (B, H, N, M))
    other = np.broadcast_to(np.asarray(0.0 if other is None else other, np.float64), (B, H, N, M))
    rule = {name: np.broadcast_to(np.asarray(x, np.float64), (H,)) for name, x in rule.items()}
    given = None
    if not isinstance(neighbours, str):
        given = np.asarray(neighbours)
        given = given[:, None] if given.ndim == 3 else given
        given = np.broadcast_to(given, (B, H, N, given.shape[-1]))

    result = {"out": np.zeros((B, H, N, v.shape[3])), "cross": cross}
    result |= {"u": np.zeros((B, H, N, d)), "c": np.zeros((B, H, N, z_k.shape[3]))}
    result |= {"has_centre": np.zeros((B, H, N), bool)}
    for name in ("weights", "base", "align", "sep", "coh", "aff", "other", "total", "phi"):
        result[name] = np.zeros((B, H, N, M))
    result["flock"] = np.zeros((B, H, N, M), bool)
    for name in ("gamma_align", "eta", "gamma_coh", "rho", "var_align", "var_coh"):
        result[name] = np.zeros((B, H, N))
    for name in ("members", "far"):
        result[name] = [[[[] for _ in range(N)] for _ in range(H)] for _ in range(B)]

    for b in range(B):
        for h in range(H):
            g = {name: float(x[h]) for name, x in rule.items()}
            for i in range(N):
                p = i + (M - N)
                V = [j for j in range(M) if visible[b, h, i, j]]
                if not V:
                    continue
                z_i, z = z_q[b, h, i], z_k[b, h]

                base = {j: float(q[b, h, i] @ k[b, h, j]) / math.sqrt(d) for j in V}
                a = {j: float(_unit(h_q[b, h, i]) @ _unit(h_k[b, h, j])) for j in V}
                want = _affinity(h_q[b, h, i], h_k[b, h], V, p, affinity_bias, causal)
                value = a if affinity == "tied" else want
                value = base if given is None and neighbours == "scores" else value
                listed = None if given is None else given[b, h, i]
                latest = p if causal else None

                if scope == "flock":
                    near = _near(V, p, window, n_global, cross)
                    rest = [j for j in V if j not in near]
                    L = _choose(rest, listed, value, int(g["far"]), latest)
                    result["far"][b][h][i] = L
                    if cross or p >= n_global:  # a query that is global itself has everybody
                        V = [j for j in V if j in near or j in L]
                    if not V:
                        continue
                P = [j for j in V if cross or j != p]
                myself = [j for j in V if j not in P]
                N_k = _choose(P, listed, value, int(g["k"]), latest)
                penalised = P if separation_scope == "all" else N_k
                dense = P if local_scope == "visible" else N_k
                flock = V if local_scope == "visible" else N_k + myself

                u, var_align, gamma_align, r_align = _alignment(k[b, h], V, N_k, g["alpha_align"])
                rho, eta, phi, r_sep = _separation(
                    z_i, z, a, V, dense, penalised, g["tau_sep"], g["delta"], g["kappa"]
                )
                c, var_coh, gamma_coh, r_coh = _cohesion(
                    z_i, z, V, flock, g["tau_coh"], g["alpha_coh"]
                )
                if standardise:
                    r_align, r_sep, r_coh = map(_standardised, (r_align, r_sep, r_coh))

                row = {"base": base, "phi": phi, "other": {j: other[b, h, i, j] for j in V}}
                f_align = g["lam_align"] * g["omega_align"] * gamma_align
                f_sep = g["lam_sep"] * g["omega_sep"] * eta
                f_coh = g["lam_coh"] * g["omega_coh"] * gamma_coh
                row["align"] = {j: f_align * r_align[j] for j in V}
                row["sep"] = {j: f_sep * r_sep[j] for j in V}
                row["coh"] = {j: f_coh * r_coh[j] for j in V}
                omega_aff = g["omega_aff"] if affinity_term else 0.0
                row["aff"] = {j: omega_aff * want[j] for j in V}
                terms = [row[name] for name in ("base", "align", "sep", "coh", "aff", "other")]
                S = {j: sum(term[j] for term in terms) / g["tau_score"] for j in V}
                e = {j: math.exp(S[j] - max(S.values())) for j in V}
                row["total"] = S
                row["weights"] = {j: e[j] / sum(e.values()) for j in V}

                for name, values in row.items():
                    for j in V:
                        result[name][b, h, i, j] = values[j]
                        result["flock"][b, h, i, j] = True
                for j in V:
                    result["out"][b, h, i] += row["weights"][j] * v[b, h, j]
                result["members"][b][h][i] = N_k
                result["u"][b, h, i], result["c"][b, h, i] = u, c
                result["has_centre"][b, h, i] = len(flock) > 0
                result["var_align"][b, h, i], result["var_coh"][b, h, i] = var_align, var_coh
                result["gamma_align"][b, h, i] = gamma_align
                result["gamma_coh"][b, h, i] = gamma_coh
                result["rho"][b, h, i], result["eta"][b, h, i] = rho, eta
    return result


def losses_oracle(result, z_k, valid=None):
    """The auxiliary losses of an asc_oracle result, as {"align", "sep", "coh"}.

    L_coh = mean_i Σ_j A_ij ‖z_j − c_i‖²    L_sep = mean_i Σ_j A_ij φ_ij
    L_align = mean_i (1 − u_i·ū_i), ū_i the mean of u_l over N_k(i)

    The mean is over b, h and the rows i where V(i) is not empty, `valid` (B,N) or (B,H,N) does not
    say False (a padded query), and the quantity exists: L_coh needs a centre, L_align a heading u_i
    and a ū_i. A neighbour without heading (N_k(l) empty, or no query row of its own: before the
    tail in decoding, any key in cross-attention) is left out of ū_i. No such row: 0.
    """
    A, members = result["weights"], result["members"]
    B, H, N, M = A.shape
    z_k = np.asarray(z_k, np.float64)
    z_k = np.broadcast_to(z_k, (B, H, *z_k.shape[2:]))
    valid = np.ones((B, H, N), bool) if valid is None else np.asarray(valid)
    valid = np.broadcast_to(valid[:, None] if valid.ndim == 2 else valid, (B, H, N))
    terms: dict[str, list[float]] = {"align": [], "sep": [], "coh": []}
    for b in range(B):
        for h in range(H):
            for i in range(N):
                A_i, u, c_i = A[b, h, i], result["u"][b, h], result["c"][b, h, i]
                if A_i.sum() == 0 or not valid[b, h, i]:
                    continue
                visible = [j for j in range(M) if A_i[j] > 0]
                terms["sep"].append(sum(float(A_i[j] * result["phi"][b, h, i, j]) for j in visible))
                if result["has_centre"][b, h, i]:
                    pull = sum(float(A_i[j]) * _squared(z_k[b, h, j], c_i) for j in visible)
                    terms["coh"].append(pull)
                rows = [] if result["cross"] else [j - (M - N) for j in members[b][h][i]]
                headings = [u[n] for n in rows if n >= 0 and members[b][h][n]]
                if headings:
                    u_bar = sum(headings) / len(headings)
                    terms["align"].append(1 - float(u[i] @ u_bar))
    return {name: sum(x) / len(x) if x else 0.0 for name, x in terms.items()}
