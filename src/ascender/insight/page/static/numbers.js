// The terms of a head, recomputed from the arrays of the page (data.py says how).
const KNOWN = ["base", "align", "sep", "coh", "aff", "other"];
const TERMS = KNOWN.filter((t) => t !== "aff" || D.models.some((m) => known(t, m)));
const ALL = [...TERMS, "total", "weights"];
const COLUMNS = [...TERMS, "sum", "tau", "total", "weights"]; // of a cell: total = sum / τ

function unitRows(b) {
  const out = new Float64Array(b.n * b.m);
  for (let i = 0; i < b.n; i++) {
    let s = 0;
    for (let x = i * b.m; x < (i + 1) * b.m; x++) s += b.a[x] * b.a[x];
    s = 1 / Math.max(Math.sqrt(s), 1e-12);
    for (let x = i * b.m; x < (i + 1) * b.m; x++) out[x] = b.a[x] * s;
  }
  return { n: b.n, m: b.m, a: out };
}

function visibility(mask, N) {
  if (mask !== "all" && mask !== "causal") return blob(mask).a;
  const V = new Uint8Array(N * N);
  for (let i = 0; i < N; i++) V.fill(1, i * N, i * N + (mask === "all" ? N : i + 1));
  return V;
}

// out_ij = f_i (left_i · right_j) + g_i over V
function products(out, V, N, left, right, f, g) {
  const d = right.m, a = left.a, b = right.a;
  for (let i = 0; i < N; i++) {
    const fi = f ? f[i] : 1, gi = g ? g[i] : 0;
    for (let j = 0; j < N; j++) {
      if (!V[i * N + j]) continue;
      let s = 0;
      for (let x = 0, p = i * d, q = j * d; x < d; x++) s += a[p + x] * b[q + x];
      out[i * N + j] = fi * s + gi;
    }
  }
}

function headings(keys, near) {
  const N = keys.n, d = keys.m, sums = { n: N, m: d, a: new Float64Array(N * d) };
  for (let i = 0; i < N; i++)
    for (let x = 0; x < near.m; x++) {
      const l = near.a[i * near.m + x];
      if (l === NONE) continue;
      for (let y = 0; y < d; y++) sums.a[i * d + y] += keys.a[l * d + y];
    }
  return unitRows(sums);
}

function distances(out, V, N, z, c, f, g) {
  const w = z.m;
  for (let i = 0; i < N; i++)
    for (let j = 0; j < N; j++) {
      if (!V[i * N + j]) continue;
      let s = 0;
      for (let x = 0; x < w; x++) s += (z.a[j * w + x] - c.a[i * w + x]) ** 2;
      out[i * N + j] = -f[i] * s + g[i];
    }
}

function term(form, name, head, V, N) {
  const out = new Float32Array(N * N);
  if (!form) return out;
  const f = vector(form.f), g = vector(form.g);
  if (form.matrix !== undefined) return blob(form.matrix).a;
  if (form.L !== undefined) products(out, V, N, blob(form.L), blob(form.R));
  else if (name === "align") {
    const keys = form.keys === null ? unitRows(blob(head.base.R)) : blob(form.keys);
    products(out, V, N, headings(keys, blob(head.near)), keys, f, g);
  } else if (form.z !== undefined) distances(out, V, N, blob(form.z), blob(form.c), f, g);
  else if (form.x !== undefined) {
    const near = blob(head.near), x = blob(form.x).a;
    for (let e = 0; e < N * N; e++) out[e] = V[e] ? g[Math.floor(e / N)] : 0;
    for (let e = 0; e < near.n * near.m; e++)
      if (near.a[e] !== NONE) out[Math.floor(e / near.m) * N + near.a[e]] = x[e];
  } else {
    const t = vector(form.diagonal ?? form.column), shift = form.diagonal === undefined ? 0 : 1;
    for (let i = 0; i < N; i++)
      for (let j = 0; j < N; j++) if (V[i * N + j]) out[i * N + j] = t[shift ? j - i + N - 1 : j];
  }
  return out;
}

function softmax(total, V, N) {
  const out = new Float32Array(N * N);
  for (let i = 0; i < N; i++) {
    let top = -Infinity, sum = 0;
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e] && total[e] > top) top = total[e];
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) sum += out[e] = Math.exp(total[e] - top);
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) out[e] /= sum;
  }
  return out;
}

// What is fully coloured: a hundredth of the visible is above it.
function high(a, V) {
  const seen = a.filter((_, e) => V[e]).sort();
  return seen.length ? seen[Math.floor(0.99 * (seen.length - 1))] || seen[seen.length - 1] : 0;
}

const cache = new Map(), KEEP = 10;

// Heads of flock scope are also there as they would attend to everything visible.
const hasDense = (model) => model.layers.some((l) => l.heads.some((h) => h.dense));

// Everything of one head: seven matrices, who sees whom, and what is known of its rows. Of dense
// attention beside a flock: `flock`, the keys that the flock holds.
function headOf(model, l, h, scope = S.scope) {
  const own = model.layers[l].heads[h], dense = scope === "dense" && own.dense;
  const key = `${model.at}/${l}/${h}/${dense ? "dense" : "own"}`;
  if (cache.has(key)) {
    const known = cache.get(key);
    cache.delete(key);
    cache.set(key, known);
    return known;
  }
  const N = model.N, head = dense || own, V = visibility(head.mask, N);
  const made = { N, V, head, missed: vector(own.missed), flock: dense ? visibility(own.mask, N) : null };
  for (const name of TERMS) made[name] = term(head[name], name, head, V, N);
  made.total = new Float32Array(N * N);
  for (let e = 0; e < N * N; e++) made.total[e] = sumAt(made, e) / head.tau;
  made.soft = head.weights === undefined;
  made.weights = made.soft ? softmax(made.total, V, N) : blob(head.weights.matrix).a;
  made.top = high(made.weights, V);
  made.near = head.near === undefined ? null : blob(head.near);
  for (const name of ["gate_align", "gate_sep", "gate_coh", "rho", "away"]) made[name] = vector(head[name]);
  cache.set(key, made);
  if (cache.size > KEEP) cache.delete(cache.keys().next().value);
  return made;
}

function sumAt(made, e) {
  let s = 0;
  for (const name of TERMS) s += made[name][e];
  return s;
}
const valueAt = (made, name, e) => (name === "sum" ? sumAt(made, e) : name === "tau" ? made.head.tau : made[name][e]);
const written = (name, x) => (name === "tau" ? String(Number(x.toPrecision(6))) : numeral(x));

// Whether a head divides by something: else its sum is its total and neither is shown twice.
const tempered = () => D.models.some((m) => m.layers.some((l) => l.heads.some((h) => h.tau !== 1)));

// What is told of a cell, as far as a model has it.
const columns = () => COLUMNS.filter((t) => (t === "sum" || t === "tau" ? tempered() : D.models.some((m) => known(t, m))));

function isNear(made, i, j) {
  if (!made.near) return false;
  const m = made.near.m;
  for (let x = i * m; x < (i + 1) * m; x++) if (made.near.a[x] === j) return true;
  return false;
}

// The weights with a rule muted: everywhere (another pass of the model), or in this head alone.
const muted = new Map();
function mutedWeights(model, l, h, rule, alone) {
  const key = [model.at, l, h, rule, alone].join("/");
  if (!muted.has(key)) {
    if (muted.size >= 4) muted.clear();
    muted.set(key, withoutRule(model, l, h, rule, alone));
  }
  return muted.get(key);
}

function withoutRule(model, l, h, rule, alone) {
  const made = headOf(model, l, h, "flock"), N = model.N;
  if (!alone) {
    const place = model.mutes[rule]?.[l]?.[h]?.weights;
    return place === undefined ? null : blob(place).a;
  }
  if (!made.soft) return null;
  const total = Float32Array.from(made.total), tau = made.head.tau;
  for (const name of rule === "all" ? ["align", "sep", "coh"] : [rule])
    for (let e = 0; e < N * N; e++) total[e] -= made[name][e] / tau;
  return softmax(total, made.V, N);
}

function known(name, model) {
  return name === "total" || name === "weights" || name === "base" || model.layers.some((l) => l.heads.some((h) => h[name]));
}
