// The page: choosers, panes, the numbers of a cell, keys, files.
const VIEWS = [MatrixView, RowView, FlockView, WhatIfView];
const S = {
  view: 0, layer: 0, head: 0, row: 0, col: null, pinned: false, terms: new Set(), grid: "weights", scale: "head", curve: "root", rows: "as", order: "as", scope: "flock",
  top: "16", links: "one", flock: new Set(["arrows", "centres", "halo", "names"]), mute: "align", where: "everywhere", t: 0, playing: false, hover: null,
};
const panes = [];

function choose(box, word, options, key, then = () => {}) {
  const select = field(box, word, "select");
  select.append(...options.map(([value, text]) => make("option", { value, textContent: text, selected: S[key] === value })));
  select.dataset.choose = key;
  select.onchange = () => { S[key] = select.value; then(); refresh(); };
}

function chips(box, word, options, on, flip) {
  const group = make("div", { className: "chips", role: "group" });
  group.setAttribute("aria-label", W[word] ?? word);
  for (const [value, text] of options) {
    const b = button(group, text, () => { flip(value); refresh(true); });
    b.dataset.chip = value;
    b.setAttribute("aria-pressed", on(value));
    if (RULE[value]) b.style.setProperty("--dot", RULE[value]);
  }
  box.append(group);
}

function setUp() {
  D.models.forEach((model, at) => { model.at = at; model.N = model.tokens.length; });
  const present = ALL.filter((t) => D.models.some((m) => known(t, m)));
  S.terms = new Set(present);
  S.row = Math.min(...D.models.map((m) => m.N)) - 1;
  const most = (f) => Math.max(...D.models.map(f));
  fill($("layer"), most((m) => m.layers.length), (i) => `${W.layer} ${i}`);
  fill($("head"), most((m) => Math.max(...m.layers.map((l) => l.heads.length))), (i) => `${W.head} ${i}`);
  $("layer").onchange = () => go({ layer: Number($("layer").value) });
  $("head").onchange = () => go({ head: Number($("head").value) });
  for (const b of document.querySelectorAll("[data-step]"))
    b.onclick = () => { const [key, by] = b.dataset.step.split(":"); go({ [key]: S[key] + Number(by) }); };
  VIEWS.forEach((view, at) => { $(`tab-${view.id}`).onclick = (e) => { show(at); if (e.detail) e.target.blur(); }; }); // after a click, arrows are for heads
  $("theme").onclick = () => { document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark"; readTheme(); refresh(); };
  $("help").onclick = () => $("keys").showModal();
  $("close").onclick = () => $("keys").close();
  for (const kind of ["png", "svg", "csv"]) $(`save-${kind}`).onclick = () => save(kind);
  for (const model of D.models) panes.push(pane(model));
  strip();
  readTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); refresh(); });
  new ResizeObserver(() => refresh()).observe($("panes"));
  document.addEventListener("keydown", pressed);
  show(0);
  idle();
}

function fill(select, n, text) {
  for (let i = 0; i < n; i++) select.append(make("option", { value: i, textContent: text(i) }));
}

function pane(model) {
  const canvas = make("canvas", { tabIndex: 0 }), over = make("canvas", { className: "over" });
  canvas.setAttribute("role", "img");
  over.setAttribute("aria-hidden", "true");
  const stage = make("div", { className: "stage" }, canvas, over), box = make("section", { className: "pane" });
  if (D.models.length > 1) box.append(make("h2", { textContent: model.name }));
  const whose = D.models.length > 1 ? `${model.name}: ` : "";
  for (const [word, values] of model.remarks) $("remarks").append(make("p", { className: "remark", textContent: whose + say(word, values) }));
  box.append(stage);
  $("panes").append(box);
  const p = { model, canvas, over, stage, hits: [] };
  const find = (e) => {
    const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    for (let at = p.hits.length - 1; at >= 0; at--) {
      const b = p.hits[at];
      if (x >= b.x && y >= b.y && x < b.x + b.w && y < b.y + b.h) return b.on(x - b.x, y - b.y);
    }
    return null;
  };
  canvas.addEventListener("pointermove", (e) => { const hit = find(e); canvas.style.cursor = hit ? "pointer" : "default"; hover(hit); });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("click", (e) => clicked(find(e)));
  return p;
}

function go(change) {
  const L = Math.max(...D.models.map((m) => m.layers.length)), tokens = Math.min(...D.models.map((m) => m.N));
  Object.assign(S, change);
  S.layer = clamp(S.layer, L);
  const H = Math.min(...D.models.map((m) => m.layers[Math.min(S.layer, m.layers.length - 1)].heads.length));
  S.head = clamp(S.head, H);
  S.row = clamp(S.row, tokens);
  if (S.col !== null) S.col = clamp(S.col, tokens);
  if ("layer" in change) S.t = S.layer;
  if ("row" in change && S.pinned && !("col" in change)) S.col = Math.min(S.col, tokens - 1);
  refresh();
}

function show(at) {
  S.view = at;
  if (at !== 2) playing(false);
  VIEWS.forEach((view, i) => { const tab = $(`tab-${view.id}`); tab.setAttribute("aria-selected", i === at); tab.tabIndex = i === at ? 0 : -1; });
  $("caption").textContent = W[`about_${VIEWS[at].id}`];
  S.hover = null;
  refresh(true);
}

// Controls are rebuilt only where their look depends on what was chosen.
function refresh(controls = false) {
  if (controls) {
    const focus = document.activeElement?.dataset?.chip;
    $("controls").replaceChildren();
    VIEWS[S.view].controls($("controls"));
    if (focus) document.querySelector(`[data-chip="${focus}"]`)?.focus();
  }
  if (!refresh.asked) { refresh.asked = true; requestAnimationFrame(() => { refresh.asked = false; paint(); }); }
}

// The state as the model of a pane has it: models may differ in layers and heads.
function within(model, f) {
  const { layer, head } = S;
  S.layer = Math.min(layer, model.layers.length - 1);
  S.head = Math.min(head, model.layers[S.layer].heads.length - 1);
  try { return f(); } finally { S.layer = layer; S.head = head; }
}

function paint() {
  const view = VIEWS[S.view], dpr = devicePixelRatio || 1;
  $("layer").value = S.layer;
  $("head").value = S.head;
  $("where").textContent = [...new Set(D.models.map((m) => m.layers[Math.min(S.layer, m.layers.length - 1)].name))].join(" | ");
  const slider = $("slider");
  if (slider && document.activeElement !== slider) slider.value = S.t;
  [...$("tokens").children].forEach((b, i) => b.setAttribute("aria-current", i === S.row));
  const strip = $("tokens"), chosen = strip.children[S.row], below = chosen ? chosen.offsetTop - strip.offsetTop : 0;
  if (below < strip.scrollTop || below + chosen.offsetHeight > strip.scrollTop + strip.clientHeight) strip.scrollTop = below - 8;
  showAnswers();
  outline();
  for (const p of panes) within(p.model, () => {
    const room = Math.max(280, Math.floor(p.stage.clientWidth)), { height, hits } = view.draw(new NoPen(), p.model, room);
    for (const c of [p.canvas, p.over]) {
      if (c.width !== Math.round(room * dpr) || c.height !== Math.round(height * dpr)) {
        Object.assign(c, { width: Math.round(room * dpr), height: Math.round(height * dpr) });
        Object.assign(c.style, { width: `${room}px`, height: `${height}px` });
      }
    }
    const ctx = p.canvas.getContext("2d");
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.fillStyle = ink.card;
    ctx.fillRect(0, 0, room, height);
    view.draw(new CanvasPen(ctx), p.model, room);
    p.hits = hits;
    p.canvas.setAttribute("aria-label", say("canvas", { view: W[view.id], model: p.model.name, layer: S.layer, head: S.head, row: S.row, token: label(p.model.tokens[Math.min(S.row, p.model.N - 1)]) }));
  });
  details();
}

function hover(hit) {
  const same = JSON.stringify(hit) === JSON.stringify(S.hover);
  if (same) return;
  S.hover = hit;
  details();
}

function clicked(hit) {
  if (!hit) return;
  if (hit.kind === "head") go({ layer: hit.l, head: hit.h });
  else if (hit.kind === "token") go({ row: hit.i });
  else if (S.pinned && S.row === hit.i && S.col === hit.j) go({ pinned: false, col: null });
  else go({ row: hit.i, col: hit.j, pinned: true });
}

function details() {
  const hit = S.hover?.kind === "cell" ? S.hover : S.pinned ? { i: S.row, j: S.col } : null, box = $("cell");
  for (const p of panes) {
    const dpr = devicePixelRatio || 1, ctx = p.over.getContext("2d");
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, p.over.width, p.over.height);
    if (hit) for (const b of p.hits) if (b.box) {
      const [x, y, s] = b.box(hit.i, hit.j);
      ctx.strokeStyle = ink.text;
      ctx.lineWidth = 1;
      ctx.globalAlpha = 0.45;
      ctx.strokeRect(b.x, y, b.w, s);
      ctx.strokeRect(x, b.y, s, b.h);
      ctx.globalAlpha = 1;
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 1, y - 1, s + 2, s + 2);
    }
  }
  box.replaceChildren();
  box.parentNode.classList.toggle("idle", !hit);
  if (!hit) { box.append(make("p", { className: "remark", textContent: S.hover?.kind === "head" ? say("head_at", S.hover) : S.hover?.kind === "token" ? `${S.hover.i}: ${label(D.models[0].tokens[S.hover.i] ?? "")}` : W.hover })); return; }
  const first = D.models[0];
  const pair = make("p", { className: "pair" }, make("b", { textContent: label(first.tokens[hit.i] ?? "") }), ` ${hit.i} → `, make("b", { textContent: label(first.tokens[hit.j] ?? "") }), ` ${hit.j}`);
  if (S.pinned && hit.i === S.row && hit.j === S.col) pair.append(make("span", { className: "pin", textContent: W.pinned }));
  const table = make("table");
  if (D.models.length > 1) table.append(make("tr", {}, make("th"), ...D.models.map((m) => make("th", { textContent: m.name }))));
  for (const name of columns()) {
    const line = make("tr", {}, make("th", { textContent: W[name], scope: "row" }));
    for (const model of D.models) {
      const made = within(model, () => headOf(model, S.layer, S.head)), e = hit.i * model.N + hit.j;
      const inside = hit.i < model.N && hit.j < model.N && made.V[e];
      const cell = make("td", { textContent: inside ? written(name, valueAt(made, name, e)) : "–" });
      cell.dataset.term = name;
      line.append(cell);
    }
    table.append(line);
  }
  const near = D.models.map((m) => within(m, () => { const made = headOf(m, S.layer, S.head); return made.near ? (isNear(made, hit.i, hit.j) ? W.yes : W.no) : "–"; }));
  if (D.models.some((m) => m.rules)) table.append(make("tr", {}, make("th", { textContent: W.is_near, scope: "row" }), ...near.map((t) => make("td", { textContent: t }))));
  box.append(pair, table);
}

// Small pictures are made one at a time while nothing else happens.
function idle() {
  const jobs = D.models.flatMap((model) => model.layers.flatMap((layer, l) => layer.heads.map((_, h) => [model, l, h])));
  const next = () => {
    const started = performance.now();
    while (jobs.length && performance.now() - started < 24) small(...jobs.shift());
    if (S.view === 0 && (!jobs.length || performance.now() - painted.last > 400)) { painted.last = performance.now(); refresh(); }
    if (jobs.length) setTimeout(next, 30);
    else document.documentElement.dataset.ready = "all";
  };
  painted.last = 0;
  setTimeout(next, 60);
}

function playing(on) {
  if (S.playing === on) return;
  S.playing = on;
  const play = $("play"), top = Math.max(...D.models.map((m) => m.layers.length)) - 1;
  if (play) play.textContent = on ? "⏸ " + W.pause : "▶ " + W.play;
  if (!on) { S.t = S.layer; refresh(); return; }
  const jumps = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let before = performance.now();
  if (S.t >= top) S.t = 0;
  const step = (now) => {
    if (!S.playing) return;
    S.t += jumps ? (now - before > 1200 ? 1 : 0) : (now - before) / 1400;
    if (!jumps || now - before > 1200) before = now;
    if (S.t >= top) { S.t = S.layer = top; playing(false); return; }
    S.layer = Math.round(S.t);
    refresh();
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

function pressed(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || $("keys").open) return;
  const tab = e.target.getAttribute?.("role") === "tab", acts = {
    ArrowLeft: () => (tab ? turn(-1) : go({ head: S.head - 1 })), ArrowRight: () => (tab ? turn(1) : go({ head: S.head + 1 })),
    ArrowUp: () => go({ layer: S.layer - 1 }), ArrowDown: () => go({ layer: S.layer + 1 }),
    "[": () => go({ row: S.row - 1 }), "]": () => go({ row: S.row + 1 }),
    ",": () => go({ col: (S.col ?? S.row + 1) - 1, pinned: true }), ".": () => go({ col: (S.col ?? S.row - 1) + 1, pinned: true }),
    Escape: () => go({ pinned: false, col: null }), "?": () => $("keys").showModal(), t: () => $("theme").click(),
    " ": e.target.tagName === "BUTTON" || S.view !== 2 ? null : () => playing(!S.playing),
  };
  const act = /^[1-4]$/.test(e.key) ? () => show(Number(e.key) - 1) : acts[e.key];
  if (!act) return;
  e.preventDefault();
  act();
}

function turn(by) { show(clamp(S.view + by, VIEWS.length)); $(`tab-${VIEWS[S.view].id}`).focus(); }

function save(kind) {
  const view = VIEWS[S.view], name = `${D.models.map((m) => m.name).join("-vs-").replace(/[^\w.-]+/g, "_")}-${view.id}-l${S.layer}-h${S.head}.${kind}`;
  if (kind === "csv") return give(name, csvOf(view.csv()));
  const rooms = panes.map((p) => Math.max(280, Math.floor(p.stage.clientWidth))), gap = 24;
  const tall = Math.max(...panes.map((p, x) => within(p.model, () => view.draw(new NoPen(), p.model, rooms[x]).height))) + 52;
  const wide = rooms.reduce((a, b) => a + b + gap, gap);
  const all = (pen) => {
    let x = gap;
    panes.forEach((p, at) => within(p.model, () => {
      pen.ox = x; pen.oy = 0;
      pen.text(fit(`${p.model.name} · ${W[view.id]} · ${W.layer} ${S.layer} · ${W.head} ${S.head}`, rooms[at], 13), 0, 24, { size: 13, weight: 600 });
      pen.oy = 40;
      view.draw(pen, p.model, rooms[at]);
      x += rooms[at] + gap;
    }));
  };
  if (kind === "svg") { const pen = new SvgPen(); all(pen); return give(name, new Blob([pen.done(wide, tall)], { type: "image/svg+xml" })); }
  const canvas = make("canvas", { width: wide * 2, height: tall * 2 }), ctx = canvas.getContext("2d");
  ctx.scale(2, 2);
  ctx.fillStyle = ink.card;
  ctx.fillRect(0, 0, wide, tall);
  all(new CanvasPen(ctx));
  canvas.toBlob((b) => give(name, b));
}


Promise.all(D.blobs.filter((b) => b.z).map(inflate)).then(setUp, (error) => { $("cell").textContent = say("too_old", { error: String(error) }); });
