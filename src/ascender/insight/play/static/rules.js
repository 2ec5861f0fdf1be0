// Attention with the three rules by the definition (docs/definition.md), one head, in float64.
//   call   N, d, e, dz, da; q, k, v, z, hq, hk as rows; bare: keys before rotation; V: N×N or null;
//          causal; affinity; neighbours: "semantic", "scores" or lists (NONE: none); distance: b of
//          the affinity at p(i) − j = −reach … reach; other: N×N or null
//   rules  the fields of core/rules.Rules, with scope, window and globals
const EPS = 1e-5, FLOOR = 1e-12, TIE = 1e-6, OLD = 4096;
const RULE_TERMS = ["align", "sep", "coh"], TERMS = ["base", ...RULE_TERMS, "aff", "other"];
const DEFAULTS = {
  omega_align: 0.1, omega_sep: 0.1, omega_coh: 0.1, omega_aff: 0, alpha_align: 1, alpha_coh: 1, tau_sep: 1, tau_coh: 1, delta: 0.2, kappa: 32,
  tau_score: 1, k: 16, far: 32, window: 0, globals: 0, scope: "visible", standardise: true, separation_scope: "neighbours", local_scope: "visible",
  lam_align: 1, lam_sep: 1, lam_coh: 1,
};

function unitRows(x, N, w) {
  const out = new Float64Array(N * w);
  for (let i = 0; i < N; i++) {
    let s = 0;
    for (let a = i * w; a < (i + 1) * w; a++) s += x[a] * x[a];
    s = Math.max(Math.sqrt(s), FLOOR);
    for (let a = i * w; a < (i + 1) * w; a++) out[a] = x[a] / s;
  }
  return out;
}

// out_ij = x_i · y_j · scale
function products(x, y, N, w, scale = 1) {
  const out = new Float64Array(N * N);
  for (let i = 0; i < N; i++)
    for (let j = 0; j < N; j++) {
      let s = 0;
      for (let a = i * w, b = j * w, end = a + w; a < end; a++, b++) s += x[a] * y[b];
      out[i * N + j] = s * scale;
    }
  return out;
}

function squaredDistances(x, y, N, w) {
  const out = new Float64Array(N * N);
  for (let i = 0; i < N; i++)
    for (let j = 0; j < N; j++) {
      let s = 0;
      for (let a = i * w, b = j * w, end = a + w; a < end; a++, b++) { const t = x[a] - y[b]; s += t * t; }
      out[i * N + j] = s;
    }
  return out;
}

// Products that sliders do not change; `call.changed()` (scenes.js) forgets them.
function known(call, name, make) {
  call.memo ??= {};
  return (call.memo[name] ??= make());
}
const baseOf = (call) => known(call, "base", () => products(call.q, call.k, call.N, call.d, 1 / Math.sqrt(call.d)));
const headingKeys = (call) => known(call, "keys", () => unitRows(call.bare ?? call.k, call.N, call.d));
const cosines = (call) => known(call, "cosines", () => products(unitRows(call.hq, call.N, call.da), unitRows(call.hk, call.N, call.da), call.N, call.da));
const distances = (call) => known(call, "d2", () => squaredDistances(call.z, call.z, call.N, call.dz));

// g_ij = h^q_i · h^k_j / √d_a + b by distance
function affinities(call) {
  return known(call, "g", () => {
    const g = products(call.hq, call.hk, call.N, call.da, 1 / Math.sqrt(call.da)), b = call.distance, N = call.N;
    if (!b) return g;
    const reach = (b.length - 1) / 2;
    for (let i = 0; i < N; i++)
      for (let j = 0; j < N; j++) g[i * N + j] += b[Math.max(-reach, Math.min(reach, i - j)) + reach];
    return g;
  });
}

function visible(call) {
  return known(call, "V", () => {
    const N = call.N, V = call.V ? Uint8Array.from(call.V) : new Uint8Array(N * N).fill(1);
    if (call.causal) for (let i = 0; i < N; i++) V.fill(0, i * N + i + 1, (i + 1) * N);
    return V;
  });
}

// The k-th largest of the first n numbers, which are put in another order.
function kthLargest(x, n, k) {
  let low = 0, high = n - 1;
  while (low < high) {
    const pivot = x[(low + high) >> 1];
    let a = low, b = high;
    while (a <= b) {
      while (x[a] > pivot) a++;
      while (x[b] < pivot) b--;
      if (a <= b) { const t = x[a]; x[a++] = x[b]; x[b--] = t; }
    }
    if (k - 1 <= b) high = b;
    else if (k - 1 >= a) low = a;
    else break;
  }
  return x[k - 1];
}

// Marks the `size` members of `among` that rank highest in row i; causal: the most recent of equals.
function topKeys(marks, score, among, i, N, size, causal) {
  const worth = new Float64Array(N), sorted = new Float64Array(N);
  let n = 0;
  for (let j = 0; j < N; j++) {
    const s = score[i * N + j];
    worth[j] = !among(i, j) ? -Infinity : causal ? s - TIE * Math.max(1, Math.abs(s)) * Math.min(i - j, OLD) : s;
    if (worth[j] > -Infinity) sorted[n++] = worth[j];
  }
  let left = Math.min(size, n);
  if (!left) return;
  const least = kthLargest(sorted, n, left);
  for (let j = 0; j < N; j++) if (worth[j] > least) { marks[i * N + j] = 1; left--; }
  for (let j = 0; j < N && left; j++) if (worth[j] === least) { marks[i * N + j] = 1; left--; }
}

const ranking = (call) => (call.neighbours === "scores" ? baseOf(call) : call.affinity === "query-key" ? affinities(call) : cosines(call));

function listed(lists, N, among) {
  const marks = new Uint8Array(N * N), m = lists.length / N;
  for (let i = 0; i < N; i++)
    for (let x = 0; x < m; x++) {
      const j = lists[i * m + x];
      if (j !== NONE && among(i, j)) marks[i * N + j] = 1;
    }
  return marks;
}

// F(i) of flock scope: self, window, globals and the far keys L_m(i), all inside V(i).
function flockOf(call, r) {
  const N = call.N, V = visible(call), F = new Uint8Array(N * N), far = new Uint8Array(N * N);
  const outside = (i, j) => j !== i && V[i * N + j] && Math.abs(i - j) > r.window && j >= r.globals;
  const lists = call.farKeys ?? (typeof call.neighbours === "string" ? null : call.neighbours);
  const given = lists && listed(lists, N, outside);
  for (let i = 0; i < N; i++) {
    if (given) far.set(given.subarray(i * N, (i + 1) * N), i * N);
    else topKeys(far, ranking(call), outside, i, N, r.far, call.causal);
    for (let j = 0; j < N; j++) {
      const e = i * N + j;
      F[e] = V[e] && (far[e] || Math.abs(i - j) <= r.window || j < r.globals || i < r.globals) ? 1 : 0;
    }
  }
  return F;
}

function neighboursOf(call, r, V) {
  const N = call.N, mates = (i, j) => j !== i && V[i * N + j];
  if (typeof call.neighbours !== "string") return listed(call.neighbours, N, mates);
  const near = new Uint8Array(N * N), score = ranking(call);
  for (let i = 0; i < N; i++) topKeys(near, score, mates, i, N, r.k, call.causal);
  return near;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// λω · gate_i · r̃_ij over V(i), in place.
function gated(r, V, N, strength, gate, standardise) {
  for (let i = 0; i < N; i++) {
    let n = 0, mean = 0, square = 0;
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) { n++; mean += r[e]; }
    mean /= Math.max(n, 1);
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) { const t = r[e] - mean; square += t * t; }
    const by = 1 / Math.sqrt(square / Math.max(n, 1) + EPS);
    for (let e = i * N; e < (i + 1) * N; e++) r[e] = V[e] ? strength * gate[i] * (standardise ? (r[e] - mean) * by : r[e]) : 0;
  }
  return r;
}

function alignment(call, r, V, near) {
  const { N, d } = call, keys = headingKeys(call), s = new Float64Array(N * d), gate = new Float64Array(N), count = new Uint16Array(N);
  for (let i = 0; i < N; i++) {
    for (let l = 0; l < N; l++) {
      if (!near[i * N + l]) continue;
      count[i]++;
      for (let x = 0; x < d; x++) s[i * d + x] += keys[l * d + x];
    }
    let square = 0;
    for (let x = 0; x < d; x++) square += s[i * d + x] ** 2;
    gate[i] = sigmoid(-r.alpha_align * (1 - square / Math.max(count[i], 1) ** 2));
  }
  const u = unitRows(s, N, d);
  return { u, gate, count, score: gated(products(u, keys, N, d), V, N, r.lam_align * r.omega_align, gate, r.standardise) };
}

function separation(call, r, V, near) {
  const N = call.N, d2 = distances(call), a = cosines(call), rho = new Float64Array(N), gate = new Float64Array(N);
  const score = new Float64Array(N * N), phi = new Float64Array(N * N), tau2 = r.tau_sep ** 2, all = r.separation_scope === "all", local = r.local_scope === "neighbours";
  for (let i = 0; i < N; i++) {
    for (let j = 0; j < N; j++) {
      const e = i * N + j;
      if (j === i || !V[e]) continue;
      const w = Math.exp(-d2[e] / tau2);
      if (!local || near[e]) rho[i] += w;
      if (all || near[e]) phi[e] = w * Math.max(0, a[e] - r.delta);
      score[e] = -phi[e];
    }
    gate[i] = Math.min(1, rho[i] / r.kappa);
  }
  return { rho, gate, phi, score: gated(score, V, N, r.lam_sep * r.omega_sep, gate, r.standardise) };
}

function cohesion(call, r, V, near) {
  const { N, dz: w, z } = call, d2 = distances(call), c = new Float64Array(N * w), gate = new Float64Array(N), score = new Float64Array(N * N), held = new Float64Array(N), tau2 = r.tau_coh ** 2;
  for (let i = 0; i < N; i++) {
    let sum = 0, least = Infinity;
    const around = (j) => V[i * N + j] && (r.local_scope === "visible" || j === i || near[i * N + j]);
    for (let j = 0; j < N; j++) if (around(j)) least = Math.min(least, d2[i * N + j]);
    for (let j = 0; j < N; j++) {
      if (!(held[j] = around(j) ? Math.exp((least - d2[i * N + j]) / tau2) : 0)) continue;
      const x = held[j];
      sum += x;
      for (let a = 0; a < w; a++) c[i * w + a] += x * z[j * w + a];
    }
    if (!sum) continue;
    for (let a = 0; a < w; a++) c[i * w + a] /= sum;
    let spread = 0;
    for (let j = 0; j < N; j++) {
      let s = 0;
      for (let a = 0; a < w; a++) { const x = z[j * w + a] - c[i * w + a]; s += x * x; }
      score[i * N + j] = -s / r.tau_coh;
      spread += (held[j] / sum) * s;
    }
    gate[i] = sigmoid(-r.alpha_coh * spread);
  }
  return { c, gate, score: gated(score, V, N, r.lam_coh * r.omega_coh, gate, r.standardise) };
}

function softmaxRows(total, V, N) {
  const out = new Float64Array(N * N);
  for (let i = 0; i < N; i++) {
    let top = -Infinity, sum = 0;
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e] && total[e] > top) top = total[e];
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) sum += out[e] = Math.exp(total[e] - top);
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) out[e] /= sum;
  }
  return out;
}

// A v
function mixedValues(A, v, N, w) {
  const out = new Float64Array(N * w);
  for (let i = 0; i < N; i++)
    for (let j = 0; j < N; j++) {
      const p = A[i * N + j];
      if (p) for (let x = 0; x < w; x++) out[i * w + x] += p * v[j * w + x];
    }
  return out;
}

function inside(x, V, by) {
  const out = new Float64Array(x.length);
  for (let e = 0; e < x.length; e++) if (V[e]) out[e] = by * x[e];
  return out;
}

// Every term of every score, the weights, the output, and what the rules know of each token.
function attend(call, given) {
  const r = { ...DEFAULTS, ...given }, N = call.N, all = visible(call), V = r.scope === "flock" ? flockOf(call, r) : all;
  const near = neighboursOf(call, r, V), align = alignment(call, r, V, near), sep = separation(call, r, V, near), coh = cohesion(call, r, V, near);
  const terms = {
    base: inside(baseOf(call), V, 1), align: align.score, sep: sep.score, coh: coh.score,
    aff: r.omega_aff ? inside(affinities(call), V, r.omega_aff) : new Float64Array(N * N), other: call.other ? inside(call.other, V, 1) : new Float64Array(N * N),
  };
  const total = new Float64Array(N * N), { base, aff, other } = terms;
  for (let e = 0; e < N * N; e++) total[e] = (base[e] + align.score[e] + sep.score[e] + coh.score[e] + aff[e] + other[e]) / r.tau_score;
  const weights = softmaxRows(total, V, N);
  return {
    N, rules: r, V, all, near, terms, total, weights, out: mixedValues(weights, call.v, N, call.e),
    u: align.u, count: align.count, c: coh.c, rho: sep.rho, phi: sep.phi, gates: { align: align.gate, sep: sep.gate, coh: coh.gate },
  };
}

const withoutRules = (r) => ({ ...r, omega_align: 0, omega_sep: 0, omega_coh: 0, omega_aff: 0 });

// FLOPs of the products, as measure/flops.native_products counts them: of every pair that is attended
// to, and the search that ranks all visible keys. A multiplication and an addition are two.
function flopsOf(call, found) {
  const pairs = found.V.reduce((s, x) => s + x, 0), seen = found.all.reduce((s, x) => s + x, 0), { d, e, dz, da } = call;
  const search = typeof call.neighbours !== "string" ? 0 : 2 * seen * (call.neighbours === "scores" ? d : da);
  return { pairs, seen, attend: 2 * pairs * (2 * d + e + 3 * dz), search, plain: 2 * seen * (d + e) };
}
