// Scenes: tokens with queries, keys, values, coordinates and projections. Those of the page are in
// the plane (d = d_z = 2, z is where a token stands, k where it heads); those of a model are as wide
// as the model has them, and `axes` and `turn` project z and headings.
function randomFrom(seed) { // mulberry32
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  next.normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  next.below = (n) => Math.floor(next() * n);
  next.shuffled = (list) => {
    const out = [...list];
    for (let i = out.length - 1; i > 0; i--) { const j = next.below(i + 1); [out[i], out[j]] = [out[j], out[i]]; }
    return out;
  };
  return next;
}

// Places on a sphere around the flock's middle: the cosine of two is large where they are near.
function onSphere(z, N, scale) {
  const h = new Float64Array(3 * N), mid = [0, 1].map((a) => z.reduce((s, x, e) => s + (e % 2 === a ? x : 0), 0) / N);
  for (let i = 0; i < N; i++) {
    const x = (z[2 * i] - mid[0]) / scale, y = (z[2 * i + 1] - mid[1]) / scale, s = x * x + y * y;
    h.set([(2 * x) / (1 + s), (2 * y) / (1 + s), (1 - s) / (1 + s)], 3 * i);
  }
  return h;
}

const SHARP = 2; // of the queries: base = SHARP · cos(heading_i, heading_j) / √2

// Birds of the plane. `angles` are the headings; without h it follows z as the birds fly.
function planeScene({ id, z, angles, h = null, da = 3, tokens, groups = null, names = null, rules = {}, note = null }) {
  const N = tokens.length, k = new Float64Array(2 * N), scale = Math.max(1, Math.sqrt(z.reduce((s, x) => s + x * x, 0) / N));
  angles.forEach((a, i) => k.set([Math.cos(a), Math.sin(a)], 2 * i));
  const call = { N, d: 2, e: 2, dz: 2, da, z: Float64Array.from(z), k, q: k.map((x) => SHARP * x), v: Float64Array.from(z), hq: h ?? onSphere(z, N, scale), causal: false, affinity: "tied", neighbours: "semantic" };
  call.hk = call.hq;
  return ready({ id, call, tokens, groups, names, note, follows: h ? 0 : scale, tied: true, plane: true, rules: { omega_align: 1, omega_sep: 1, omega_coh: 1, kappa: 4, k: 8, far: 12, ...rules } });
}

function ready(scene) {
  scene.start = { z: scene.call.z.slice(), k: scene.call.k.slice(), bare: scene.call.bare?.slice() };
  scene.call.memo = {};
  scene.steps = 0;
  return scene;
}

// What was computed from these is forgotten.
function changed(call, ...names) {
  const of = { z: ["d2"], k: ["base", "keys"], h: ["cosines", "g"], V: ["V"] };
  for (const name of names) for (const key of of[name]) delete call.memo[key];
}

function birds(N, seed) {
  const random = randomFrom(seed), reach = 0.62 * Math.sqrt(N), z = [], angles = [], start = 2 * Math.PI * random();
  for (let i = 0; i < N; i++) {
    const twin = i && random() < 0.15 ? random.below(i) : -1; // near duplicates
    const r = reach * Math.sqrt(random()), a = 2 * Math.PI * random();
    if (twin < 0) z.push(1.3 * r * Math.cos(a), 0.8 * r * Math.sin(a));
    else z.push(z[2 * twin] + 0.15 * random.normal(), z[2 * twin + 1] + 0.15 * random.normal());
    angles.push(start + 1.1 * random.normal() + 0.5 * z[2 * i] / reach);
  }
  return planeScene({ id: "birds", z, angles, tokens: z.slice(0, N).map((_, i) => String(i)) });
}

function kinds(N, seed) {
  const random = randomFrom(seed), z = [], angles = [], groups = [], h = new Float64Array(5 * N), reach = 0.35 * Math.sqrt(N);
  for (let i = 0; i < N; i++) {
    const kind = i % 4, turn = (kind * Math.PI) / 2 + 0.4;
    groups.push(kind);
    z.push(reach * (Math.cos(turn) + 0.8 * random.normal()), reach * (Math.sin(turn) + 0.8 * random.normal()));
    angles.push(turn + 0.7 * random.normal());
    for (let a = 0; a < 5; a++) h[5 * i + a] = (a === kind ? 1 : 0) + 0.25 * random.normal();
  }
  return planeScene({ id: "kinds", z, angles, h, da: 5, groups, names: ["A", "B", "C", "D"], tokens: groups.map((g, i) => `${"ABCD"[g]}${i}`) });
}

// Arrays by name: the five words of the README, a head of a model, a layer of the digits' model.
function givenScene(id, spec, more = {}) {
  const N = spec.N, call = { causal: false, affinity: "tied", neighbours: "semantic", ...spec };
  for (const name of ["q", "k", "v", "z", "hq", "hk", "bare"]) if (call[name]) call[name] = Float64Array.from(call[name]);
  const axes = call.dz > 2 ? mainAxes(call.z, N, call.dz) : null;
  const scene = ready({ id, call, follows: 0, tied: false, plane: false, axes: axes?.axes, share: axes?.share ?? 1, groups: null, names: null, ...more });
  const turn = call.d > 2 ? mainAxes(headingKeys(call), N, call.d, false) : null;
  return Object.assign(scene, { turn: turn?.axes, turned: turn?.share ?? 1 });
}

// The two main directions of rows (w wide), by power iteration, and their share of the variance.
function mainAxes(x, N, w, centre = true) {
  const mid = new Float64Array(w), C = new Float64Array(w * w);
  if (centre) for (let i = 0; i < N; i++) for (let a = 0; a < w; a++) mid[a] += x[i * w + a] / N;
  for (let i = 0; i < N; i++)
    for (let a = 0; a < w; a++) for (let b = 0; b < w; b++) C[a * w + b] += (x[i * w + a] - mid[a]) * (x[i * w + b] - mid[b]);
  let all = 0, had = 0;
  for (let a = 0; a < w; a++) all += C[a * w + a];
  const axes = new Float64Array(2 * w);
  for (let t = 0; t < 2; t++) {
    let v = new Float64Array(w).map((_, a) => 1 + 0.37 * ((a * 7) % 5)), size = 0;
    for (let step = 0; step < 200; step++) {
      const y = new Float64Array(w);
      for (let a = 0; a < w; a++) for (let b = 0; b < w; b++) y[a] += C[a * w + b] * v[b];
      size = Math.hypot(...y);
      if (size < 1e-12) break;
      v = y.map((a) => a / size);
    }
    if (size < 1e-12) break;
    const sign = v[v.reduce((m, a, at) => (Math.abs(a) > Math.abs(v[m]) ? at : m), 0)] < 0 ? -1 : 1;
    for (let a = 0; a < w; a++) axes[2 * a + t] = sign * v[a];
    for (let a = 0; a < w; a++) for (let b = 0; b < w; b++) C[a * w + b] -= size * v[a] * v[b];
    had += size;
  }
  return { axes, mid, share: all ? had / all : 1 };
}

// Rows in the plane of the page.
function flat(x, N, w, axes) {
  if (!axes) return x;
  const out = new Float64Array(2 * N);
  for (let i = 0; i < N; i++)
    for (let a = 0; a < w; a++) { out[2 * i] += x[i * w + a] * axes[2 * a]; out[2 * i + 1] += x[i * w + a] * axes[2 * a + 1]; }
  return out;
}

// One step of the flock, by what the attention knows: to the centre, apart from near duplicates,
// along the heading, which turns to that of the neighbours. The scores themselves move nothing.
function moved(scene, found, dt) {
  const { call } = scene, { N, dz, d } = call, r = found.rules, was = call.z, z = was.slice(), keys = headingKeys(call);
  const along = flat(found.u, N, d, scene.turn), back = scene.axes;
  for (let i = 0; i < N; i++) {
    const pull = Math.max(-0.9, Math.min(0.9, dt * r.omega_coh * 2 * found.gates.coh[i])), ahead = dt * r.omega_align * 2 * found.gates.align[i];
    for (let a = 0; a < dz; a++) {
      z[i * dz + a] += pull * (found.c[i * dz + a] - was[i * dz + a]);
      z[i * dz + a] += ahead * (back ? along[2 * i] * back[2 * a] + along[2 * i + 1] * back[2 * a + 1] : along[2 * i + a]);
    }
    const push = 2 * dt * r.omega_sep * found.gates.sep[i];
    for (let j = 0; j < N && push; j++) {
      const phi = found.phi[i * N + j];
      if (!phi) continue;
      let s = 0;
      for (let a = 0; a < dz; a++) s += (was[i * dz + a] - was[j * dz + a]) ** 2;
      const by = (push * phi) / Math.max(Math.sqrt(s), 0.05);
      for (let a = 0; a < dz; a++) z[i * dz + a] += Math.max(-0.5, Math.min(0.5, by * (was[i * dz + a] - was[j * dz + a])));
    }
  }
  turnKeys(call, found, keys, dt * r.omega_align);
  call.z = z;
  settle(scene);
  scene.steps++;
}

// A token somewhere else in the plane; the middle of the picture follows the flock, by 1/N.
function moveToken(scene, i, x, y) {
  const { call, axes } = scene, { N, dz } = call, by = N > 1 ? N / (N - 1) : 1, z = call.z.slice();
  for (let a = 0; a < dz; a++) z[i * dz + a] += by * (axes ? x * axes[2 * a] + y * axes[2 * a + 1] : a ? y : x);
  call.z = z;
  settle(scene);
}

function turnKeys(call, found, keys, strength) {
  const { N, d } = call, name = call.bare ? "bare" : "k", own = call[name], next = own.slice();
  for (let i = 0; i < N; i++) {
    if (!found.count[i]) continue;
    const by = strength * 2 * found.gates.align[i], long = Math.hypot(...own.subarray(i * d, (i + 1) * d));
    let s = 0;
    for (let x = 0; x < d; x++) s += (next[i * d + x] = keys[i * d + x] + by * (found.u[i * d + x] - keys[i * d + x])) ** 2;
    s = Math.max(Math.sqrt(s), FLOOR);
    for (let x = 0; x < d; x++) next[i * d + x] *= long / s;
  }
  call[name] = next;
}

function settle(scene) {
  const call = scene.call;
  if (scene.plane) call.v = call.z;
  if (scene.tied) call.q = call.k.map((x) => SHARP * x);
  if (scene.follows) {
    call.hq = call.hk = onSphere(call.z, call.N, scene.follows);
    changed(call, "h");
  }
  changed(call, "z", "k");
}

function backToStart(scene) {
  Object.assign(scene.call, { z: scene.start.z.slice(), k: scene.start.k.slice() });
  if (scene.start.bare) scene.call.bare = scene.start.bare.slice();
  settle(scene);
  scene.steps = 0;
}
