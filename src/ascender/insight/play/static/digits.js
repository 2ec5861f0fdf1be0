// The trained few-shot models: the forward pass of hf/modeling.py, episodes as tasks/fewshot.py
// draws them, and digits as the data set was made (32 × 32 points, counted in blocks of 4 × 4).
const SIDE = 8, SHADES = 16;

function halves(bytes) { // float16 → float32
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), out = new Float32Array(bytes.byteLength / 2);
  for (let i = 0; i < out.length; i++) {
    const h = view.getUint16(2 * i, true), e = (h >> 10) & 31, f = h & 1023, sign = h >> 15 ? -1 : 1;
    out[i] = sign * (e === 0 ? f * 2 ** -24 : (1 + f / 1024) * 2 ** (e - 15));
  }
  return out;
}

const Digits = {
  load() {
    const F = D.fewshot, bytes = bytesOf(F.weights);
    this.record = F.record;
    this.models = {};
    for (const [name, shape, from] of F.tensors) {
      const [model, tensor] = name.split("/"), n = shape.reduce((a, b) => a * b, 1);
      (this.models[model] ??= {})[tensor] = halves(bytes.subarray(from, from + 2 * n));
    }
    this.images = bytesOf(F.images);
    this.kinds = bytesOf(F.kinds);
    this.of = Array.from({ length: 10 }, (_, d) => [...this.kinds.keys()].filter((i) => this.kinds[i] === d));
  },
  picture(i) { return Float64Array.from(this.images.subarray(64 * i, 64 * i + 64), (x) => x / SHADES); },
};

// y = W x + b for every row
function mapped(x, N, weight, bias) {
  const out = weight.length / (x.length / N), w = x.length / N, y = new Float64Array(N * out);
  for (let i = 0; i < N; i++)
    for (let o = 0; o < out; o++) {
      let s = bias ? bias[o] : 0;
      for (let a = 0; a < w; a++) s += weight[o * w + a] * x[i * w + a];
      y[i * out + o] = s;
    }
  return y;
}

function rmsNorm(x, N, weight, eps = 1e-6) {
  const w = weight.length, y = new Float64Array(N * w);
  for (let i = 0; i < N; i++) {
    let s = 0;
    for (let a = 0; a < w; a++) s += x[i * w + a] ** 2;
    s = 1 / Math.sqrt(s / w + eps);
    for (let a = 0; a < w; a++) y[i * w + a] = x[i * w + a] * s * weight[a];
  }
  return y;
}

function ofHead(x, N, heads, h) {
  const w = x.length / N, each = w / heads, y = new Float64Array(N * each);
  for (let i = 0; i < N; i++) y.set(x.subarray(i * w + h * each, i * w + (h + 1) * each), i * each);
  return y;
}

const LOGS = ["tau_sep", "tau_coh", "kappa", "tau_score"], PLAIN = ["omega_align", "omega_sep", "omega_coh", "alpha_align", "alpha_coh", "delta"];

// The calls of attention of one layer, a head each.
function callsOf(weights, at, x, N, heads) {
  const name = (w) => weights[`model.layers.${at}.attention.${w}`], ruled = Boolean(name("U.weight"));
  const [q, k, v] = ["W_Q", "W_K", "W_V"].map((w) => mapped(x, N, name(`${w}.weight`)));
  const z = ruled ? mapped(x, N, name("U.weight")) : null, a = ruled ? mapped(x, N, name("P.weight")) : null;
  return Array.from({ length: heads }, (_, h) => {
    const call = { N, q: ofHead(q, N, heads, h), k: ofHead(k, N, heads, h), v: ofHead(v, N, heads, h), causal: false, affinity: "tied", neighbours: "semantic" };
    call.d = call.e = q.length / N / heads;
    const zero = new Float64Array(N);
    call.z = ruled ? ofHead(z, N, heads, h) : zero;
    call.hq = call.hk = ruled ? ofHead(a, N, heads, h) : zero;
    call.dz = call.z.length / N;
    call.da = call.hq.length / N;
    const rules = { omega_align: 0, omega_sep: 0, omega_coh: 0 };
    if (ruled) {
      for (const number of PLAIN) rules[number] = name(number)[h];
      for (const number of LOGS) rules[number] = Math.exp(name(`log_${number}`)[h]);
    }
    return { call, rules };
  });
}

// Logits of the last token, and every head's call and attention.
function forward(weights, pictures, ids, settings = Digits.record.settings) {
  const N = ids.length, w = settings.hidden, pixels = new Float64Array(64 * N), layers = [];
  pictures.forEach((p, i) => pixels.set(p, 64 * i));
  let x = mapped(pixels, N, weights["model.read.weight"], weights["model.read.bias"]);
  for (let i = 0; i < N; i++) for (let a = 0; a < w; a++) x[i * w + a] += weights["model.embed_tokens.weight"][ids[i] * w + a];
  for (let at = 0; at < settings.layers; at++) {
    const of = (name) => weights[`model.layers.${at}.${name}.weight`];
    const heads = callsOf(weights, at, rmsNorm(x, N, of("attention_norm")), N, settings.heads);
    const outs = heads.map((head) => (head.found = attend(head.call, head.rules)).out), mixed = new Float64Array(N * w), each = w / settings.heads;
    outs.forEach((out, h) => { for (let i = 0; i < N; i++) mixed.set(out.subarray(i * each, (i + 1) * each), i * w + h * each); });
    x = x.map(((y) => (v, e) => v + y[e])(mapped(mixed, N, of("attention.W_O"))));
    const y = rmsNorm(x, N, of("mlp_norm")), gate = mapped(y, N, of("mlp.W_gate")), up = mapped(y, N, of("mlp.W_up"));
    const inner = gate.map((g, e) => (g / (1 + Math.exp(-g))) * up[e]), down = mapped(inner, N, of("mlp.W_down"));
    x = x.map((v, e) => v + down[e]);
    layers.push(heads);
  }
  const last = rmsNorm(x.subarray((N - 1) * w), 1, weights["model.norm.weight"]);
  return { logits: mapped(last, 1, weights["classifier.weight"], weights["classifier.bias"]), layers };
}

function shares(logits) {
  const top = Math.max(...logits), e = Array.from(logits, (x) => Math.exp(x - top)), sum = e.reduce((a, b) => a + b);
  return e.map((x) => x / sum);
}

// One episode from held-out pictures: kinds under random names, some pictures without, a query.
function episode(seed) {
  const { ways, unlabelled } = Digits.record.options, random = randomFrom(seed * 2654435761 + 17), kinds = random.shuffled([...Array(10).keys()]).slice(0, ways);
  const picks = kinds.map((d) => random.shuffled(Digits.of[d]).slice(0, 2 + unlabelled)), answer = random.below(ways), context = [];
  picks.forEach((pick, w) => pick.forEach((image, at) => { if (at !== 1) context.push({ image, name: at === 0 ? w + 1 : 0, kind: kinds[w] }); }));
  const tokens = [...random.shuffled(context), { image: picks[answer][1], name: ways + 1, kind: kinds[answer] }];
  return { seed, kinds, answer, tokens, pictures: tokens.map((t) => Digits.picture(t.image)), ids: tokens.map((t) => t.name) };
}

// Ink on 32 × 32 points → 8 × 8 shades: cut out, made as tall as the field, counted in blocks.
function blocks(ink32) {
  let top = 32, low = -1, left = 32, right = -1;
  for (let y = 0; y < 32; y++) for (let x = 0; x < 32; x++) if (ink32[32 * y + x]) { top = Math.min(top, y); low = Math.max(low, y); left = Math.min(left, x); right = Math.max(right, x); }
  const out = new Float64Array(64);
  if (low < 0) return out;
  const size = Math.max(low - top + 1, right - left + 1), ox = (size - (right - left + 1)) / 2, oy = (size - (low - top + 1)) / 2;
  for (let y = 0; y < 32; y++)
    for (let x = 0; x < 32; x++) {
      const sx = Math.floor(left - ox + ((x + 0.5) * size) / 32), sy = Math.floor(top - oy + ((y + 0.5) * size) / 32);
      if (sx >= 0 && sx < 32 && sy >= 0 && sy < 32 && ink32[32 * sy + sx]) out[SIDE * (y >> 2) + (x >> 2)] += 1 / SHADES;
    }
  return out;
}
