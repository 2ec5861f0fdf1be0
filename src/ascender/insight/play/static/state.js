// What is chosen, in the address too; the scene and what attention makes of it.
const PANELS = { flock: FlockPanel, task: TaskPanel, why: WhyPanel };
const SLIDERS = [ // rule, least, most, step, symbol, term
  ["omega_align", -2, 4, 0.05, "ω", "align"], ["omega_sep", -2, 4, 0.05, "ω", "sep"], ["omega_coh", -2, 4, 0.05, "ω", "coh"], ["omega_aff", -2, 4, 0.05, "ω", "aff"],
  ["tau_sep", 0.1, 5, 0.05, "τ", "sep"], ["tau_coh", 0.1, 5, 0.05, "τ", "coh"], ["k", 1, 64, 1, "k", null], ["delta", -1, 1, 0.02, "δ", "sep"], ["kappa", 0.5, 64, 0.5, "κ", "sep"],
];
const SCOPE_SLIDERS = [["far", 0, 64, 1, "m", null], ["window", 0, 16, 1, "w", null]];
const START = { panel: "flock", scene: D.own ? "model" : "birds", n: 64, seed: 1, i: null, j: null, causal: 0, links: "one", layer: 0, head: 0, models: 0, episode: 1 };
const CHOICES = { panel: Object.keys(PANELS), scene: ["birds", "kinds", "words", "digits", "csv", "model"], links: ["one", "every", "none"], n: [16, 32, 64, 128, 256] };
const S = { ...START, given: {}, playing: false, lang: D.lang };
let scene = null, found = null, plain = null, own = null; // own: the scene of a CSV

const rulesNow = () => ({ ...DEFAULTS, ...scene.rules, ...S.given });

const arrayOf = (at) => (at === null || at === undefined ? undefined : vector(at));

// A head of the model that the page was made for.
function modelScene() {
  const layers = D.own.layers, layer = layers[(S.layer = Math.min(S.layer, layers.length - 1))], spec = layer.heads[(S.head = Math.min(S.head, layer.heads.length - 1))], N = spec.N;
  const call = { ...spec, neighbours: typeof spec.neighbours === "string" ? spec.neighbours : vector(spec.neighbours) };
  for (const name of ["q", "k", "bare", "v", "z", "hq", "hk", "farKeys", "distance", "other"]) call[name] = arrayOf(spec[name]);
  call.V = typeof spec.V === "string" ? null : vector(spec.V);
  call.causal = spec.causal || spec.V === "causal";
  return givenScene("model", call, { tokens: D.own.tokens, rules: spec.rules, faces: modelFaces(), note: () => [`${D.own.name}, ${layer.name}.`, ...D.own.remarks.map(([word, values]) => say(word, values))].join(" ") });
}

function modelFaces() {
  const f = D.own.faces;
  return f && { w: f.size[1], h: f.size[0], of: (i) => Array.from(vector(f.at).subarray(i * f.size[0] * f.size[1], (i + 1) * f.size[0] * f.size[1]), (x) => x / 255) };
}

function wordsScene() {
  const { q, k, v, z, h } = D.five.vectors, N = D.five.tokens.length;
  return givenScene("words", { N, d: 2, e: 2, dz: 2, da: 2, q, k, v, z, hq: h, hk: h }, { tokens: D.five.tokens, rules: D.five.rules });
}

// The episode of the Task panel as ASCender's layer and head see it.
function digitsScene() {
  const e = TaskPanel.now(), name = `ascender-${S.models}`, { layers } = forward(Digits.models[name], e.pictures, e.ids), { ways } = Digits.record.options;
  S.layer = Math.min(S.layer, layers.length - 1);
  S.head = Math.min(S.head, layers[0].length - 1);
  const { call, rules } = layers[S.layer][S.head];
  return givenScene("digits", { ...call, memo: undefined }, {
    tokens: e.ids.map((id) => (id === 0 ? "·" : id > ways ? "?" : String(id))), rules, groups: e.tokens.map((t) => e.kinds.indexOf(t.kind)), names: e.kinds.map(String),
    faces: { w: SIDE, h: SIDE, of: (i) => e.pictures[i] },
  });
}

const MAKERS = { birds: () => birds(S.n, S.seed), kinds: () => kinds(S.n, S.seed), words: wordsScene, digits: digitsScene, csv: () => own, model: modelScene };

function setScene(id = S.scene, keep = false) {
  if ((id === "csv" && !own) || (id === "model" && !D.own)) id = START.scene;
  const same = scene && scene.id === id;
  S.scene = id;
  if (!keep && !same) S.given = {};
  scene = MAKERS[id]();
  if (id === "csv") backToStart(scene);
  if (S.causal && !scene.call.causal) scene.call.causal = true;
  changed(scene.call, "V");
  if (!same && !keep) S.i = S.j = null;
  const first = firstPair();
  S.i = Math.min(S.i ?? first.i, scene.call.N - 1);
  S.j = Math.min(S.j ?? first.j, scene.call.N - 1);
  FlockPanel.fit = null;
  compute();
}

// The pair that a scene starts with: a causal one with the token that sees most.
function firstPair() {
  const N = scene.call.N, late = scene.call.causal && scene.id === "model";
  return late ? { i: N - 1, j: 0 } : { i: 0, j: Math.min(1, N - 1) };
}

function compute() {
  found = attend(scene.call, rulesNow());
  plain = null;
}

// The same scores with all ω = 0.
const withoutThem = () => (plain ??= attend(scene.call, withoutRules(found.rules)));

function setRule(name, value) {
  const usual = { ...DEFAULTS, ...scene.rules }[name];
  if (value === usual) delete S.given[name];
  else S.given[name] = value;
  compute();
}

function setCausal(on) {
  S.causal = on ? 1 : 0;
  scene.call.causal = on;
  changed(scene.call, "V");
  compute();
}

// The address holds what is not as it starts.
function address() {
  const parts = new URLSearchParams();
  const start = { ...START, ...firstPair() };
  for (const name of Object.keys(START)) if (S[name] !== start[name] && S.scene !== "csv") parts.set(name, S[name]);
  if (S.scene === "csv" && S.panel !== START.panel) parts.set("panel", S.panel);
  for (const [name, value] of Object.entries(S.given)) parts.set(name, value);
  if (S.lang !== D.lang) parts.set("lang", S.lang);
  const dark = document.documentElement.dataset.theme;
  if (dark) parts.set("theme", dark);
  return parts.toString();
}

function keepAddress() {
  clearTimeout(keepAddress.soon);
  keepAddress.soon = setTimeout(() => {
    const text = address();
    try { if (location.hash.slice(1) !== text) history.replaceState(null, "", `#${text}`); } catch { /* a notebook's frame */ }
  }, 150);
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  Object.assign(S, START, { given: {}, lang: D.lang });
  for (const [name, text] of parts) {
    if (name in START) {
      const value = typeof START[name] === "string" ? text : Number(text);
      if (CHOICES[name] ? CHOICES[name].includes(value) : Number.isInteger(value) && value >= 0) S[name] = value;
    } else if (name === "scope" && ["visible", "flock"].includes(text)) S.given.scope = text;
    else {
      const slider = [...SLIDERS, ...SCOPE_SLIDERS].find((s) => s[0] === name), value = Number(text);
      if (slider && text !== "" && Number.isFinite(value)) S.given[name] = Math.max(Math.min(slider[1], value), Math.min(value, 1000));
    }
  }
  S.models = Math.min(S.models, Digits.record.models.length / 2 - 1);
  if (parts.get("lang") in D.languages) S.lang = parts.get("lang");
  if (["light", "dark"].includes(parts.get("theme"))) document.documentElement.dataset.theme = parts.get("theme");
}
