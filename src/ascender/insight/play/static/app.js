// The page: tabs, controls, one picture, what is written beside it, keys and files.
const STEP = 0.3, FLOW = 0.05, JUMP = 1200; // time of a step, of a frame; ms between jumps
let hits = [];

function words() {
  W = D.languages[S.lang];
  document.documentElement.lang = S.lang;
  document.title = `${D.own ? `${D.own.name} · ` : ""}${W.heading}`;
  for (const node of document.querySelectorAll("[data-w]")) node.textContent = W[node.dataset.w];
  for (const node of document.querySelectorAll("[data-wl]")) { node.title = W[node.dataset.wl]; node.setAttribute("aria-label", W[node.dataset.wl]); }
}

function options(box, word, list, value, then) {
  const select = field(box, word, "select");
  select.append(...list.map(([v, text]) => make("option", { value: v, textContent: text, selected: String(v) === String(value) })));
  select.id = `choose-${word}`;
  select.onchange = () => { then(select.value); refresh(true); };
  return select;
}

function toggle(box, word, on, then) {
  const input = field(box, word, "input");
  Object.assign(input, { type: "checkbox", checked: on, id: `set-${word}` });
  input.onchange = () => { then(input.checked); refresh(true); };
}

const act = (box, id, text, then, full = true) => { const b = button(box, text, () => { then(); refresh(full); }); b.id = id; return b; };

function sceneControls(box) {
  const scenes = CHOICES.scene.filter((s) => (s !== "csv" || own) && (s !== "model" || D.own));
  options(box, "scene", scenes.map((s) => [s, W[`scene_${s}`]]), S.scene, (v) => { playing(false); setScene(v); });
  if (["birds", "kinds"].includes(S.scene)) {
    options(box, "tokens", CHOICES.n.map((n) => [n, n]), S.n, (v) => { S.n = Number(v); setScene(S.scene, true); });
    act(box, "new", W.new_flock, () => { S.seed++; setScene(S.scene, true); });
  }
  const layers = S.scene === "model" ? D.own.layers.length : S.scene === "digits" ? Digits.record.settings.layers : 0;
  if (layers) {
    const heads = S.scene === "model" ? D.own.layers[S.layer].heads.length : Digits.record.settings.heads, list = (n) => Array.from({ length: n }, (_, x) => [x, x]);
    options(box, "layer", list(layers).map(([v]) => [v, S.scene === "model" ? `${v} ${D.own.layers[v].name}` : v]), S.layer, (v) => { S.layer = Number(v); S.given = {}; setScene(S.scene, true); });
    options(box, "head", list(heads), S.head, (v) => { S.head = Number(v); S.given = {}; setScene(S.scene, true); });
  }
}

const named = () => Array.from({ length: scene.call.N }, (_, i) => [i, fit(nameOf(i), 110, 13)]);

function controls() {
  const box = $("controls"), focus = document.activeElement?.id;
  box.replaceChildren();
  if (S.panel === "task") {
    act(box, "next", W.next, () => TaskPanel.next());
    act(box, "hundred", W.hundred, () => TaskPanel.next(100));
    act(box, "clear-history", W.again, () => TaskPanel.reset());
    options(box, "trained", [...new Set(Digits.record.models.map((m) => m.seed))].map((n) => [n, say("seed_n", { n })]), S.models, (v) => { S.models = Number(v); TaskPanel.reset(); });
    act(box, "to-flock", W.as_flock, () => { setScene("digits"); show("flock"); });
  } else {
    sceneControls(box);
    if (S.panel === "flock") {
      act(box, "play", S.playing ? `⏸ ${W.pause}` : `▶ ${W.play}`, () => playing(!S.playing));
      act(box, "step", W.step, () => { playing(false); step(STEP); });
      act(box, "reset", W.reset, () => { playing(false); backToStart(scene); FlockPanel.fit = null; compute(); });
      options(box, "links", CHOICES.links.map((v) => [v, W[`links_${v}`]]), S.links, (v) => { S.links = v; });
    }
    options(box, "token_i", named(), S.i, (v) => { S.i = Number(v); });
    if (S.panel === "why") options(box, "token_j", named(), S.j, (v) => { S.j = Number(v); });
  }
  if (S.panel !== "why") fileControl(box);
  if (focus && document.activeElement === document.body) $(focus)?.focus();
}

function fileControl(box) {
  const input = make("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv", id: "file", hidden: true });
  input.onchange = () => input.files[0] && readCsv(input.files[0]);
  box.append(input);
  act(box, "csv", W.own_csv, () => input.click(), false);
}

async function readCsv(file) {
  try {
    own = csvScene(file.name, await file.text());
    $("trouble").textContent = "";
    setScene("csv");
    show("flock");
  } catch (error) {
    $("trouble").textContent = error.message;
  }
}

function side() {
  const box = $("side");
  box.replaceChildren();
  if (S.panel === "task") return taskSide(box);
  const head = make("div", { className: "chips" });
  box.append(make("h2", { textContent: W.rules }), head);
  act(head, "off", W.rules_off, () => { for (const name of ["omega_align", "omega_sep", "omega_coh", "omega_aff"]) setRule(name, 0); });
  act(head, "defaults", W.rules_back, () => { S.given = {}; setCausal(Boolean(scene.call.V)); });
  SLIDERS.forEach((s) => slider(box, s));
  const r = rulesNow();
  toggle(box, "flock_scope", r.scope === "flock", (on) => setRule("scope", on ? "flock" : "visible"));
  if (r.scope === "flock" || S.panel === "why") SCOPE_SLIDERS.forEach((s) => slider(box, s));
  if (S.scene !== "model") toggle(box, "causal", scene.call.causal, setCausal);
  box.append(make("h2", { textContent: W.numbers }), make("table", { id: "numbers" }));
  return numbers();
}

function slider(box, [name, least, most, by, sign, term]) {
  const value = rulesNow()[name], top = name === "k" || name === "far" ? Math.max(1, Math.min(64, scene.call.N - 1)) : Math.max(most, value), input = make("input", { type: "range", id: name, min: Math.min(least, value), max: top, step: "any", value });
  const shown = make("output", { textContent: short(value) }), text = make("span", { textContent: `${sign} ${term ? W[term] : W[`slider_${name}`]}` });
  input.step = Number.isInteger(by) ? by : "any";
  input.oninput = () => { const v = Number.isInteger(by) ? Number(input.value) : Math.round(Number(input.value) / by) * by; setRule(name, Number(v.toFixed(4))); shown.textContent = short(rulesNow()[name]); refresh(); };
  input.setAttribute("aria-valuetext", short(value));
  const line = make("label", { className: "slider" }, text, input, shown);
  if (term) line.style.setProperty("--dot", RULE[term]);
  box.append(line);
}

const short = (x) => minus(String(Number(Math.abs(x) < 10 ? x.toFixed(2) : x.toPrecision(3))));

// What is known of the chosen token.
function numbers() {
  const table = $("numbers");
  if (!table) return;
  const N = found.N, i = S.i, e = i * N, p = found.weights.subarray(e, e + N), q = withoutThem().weights.subarray(e, e + N);
  const entropy = -p.reduce((s, x) => s + (x > 0 ? x * Math.log(x) : 0), 0), moved = p.reduce((s, x, j) => s + Math.abs(x - q[j]) / 2, 0), { dz, e: w } = scene.call;
  const away = Math.hypot(...Array.from({ length: dz }, (_, a) => scene.call.z[i * dz + a] - found.c[i * dz + a])), out = Array.from(found.out.subarray(i * w, i * w + 2), (x) => minus(x.toFixed(2))).join(", ");
  const rows = [
    ["token", nameOf(i)], ["near_n", found.count[i]], ["gate_align", found.gates.align[i].toFixed(3)], ["gate_sep", found.gates.sep[i].toFixed(3)], ["gate_coh", found.gates.coh[i].toFixed(3)],
    ["density", found.rho[i].toFixed(3)], ["away", away.toFixed(3)], ["effective", Math.exp(entropy).toFixed(1)], ["moved", percent(moved)], ["output", w > 2 ? `${out}, …` : out],
  ];
  table.replaceChildren(...rows.map(([word, value]) => make("tr", {}, make("th", { textContent: W[word], scope: "row" }), make("td", { textContent: value }))));
}

function taskSide(box) {
  box.append(make("h2", { textContent: W.draw }), make("p", { className: "remark", textContent: say("draw_text", { kinds: [...TaskPanel.now().kinds].sort().join(", ") }) }));
  Drawing.open(box, () => { TaskPanel.drawn = Drawing.empty() ? null : blocks(Drawing.ink); TaskPanel.meet(); refresh(); });
  const row = make("div", { className: "chips" });
  box.append(row);
  act(row, "wipe", W.wipe, () => { Drawing.clear(); TaskPanel.drawn = null; TaskPanel.meet(); }, false);
  TaskPanel.record(box);
}

function show(panel) {
  S.panel = document.body.dataset.panel = panel;
  if (panel !== "flock") playing(false);
  for (const id of CHOICES.panel) { const tab = $(`tab-${id}`); tab.setAttribute("aria-selected", id === panel); tab.tabIndex = id === panel ? 0 : -1; }
  refresh(true);
}

function refresh(all = false) {
  refresh.all ||= all;
  if (refresh.asked) return;
  refresh.asked = true;
  requestAnimationFrame(() => {
    refresh.asked = false;
    if (refresh.all) { refresh.all = false; controls(); side(); $("caption").textContent = W[`about_${S.panel}`]; }
    paint();
  });
}

function roomOf(canvas) {
  const box = canvas.parentNode, css = getComputedStyle(box);
  return Math.max(260, Math.floor(box.clientWidth - parseFloat(css.paddingLeft) - parseFloat(css.paddingRight)));
}

function paint() {
  const panel = PANELS[S.panel], canvas = $("picture"), dpr = devicePixelRatio || 1, room = roomOf(canvas), known = S.playing && canvas.style.width === `${room}px`;
  const height = known ? parseInt(canvas.style.height, 10) : panel.draw(new NoPen(), room).height;
  const size = [Math.round(room * dpr), Math.round(height * dpr)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) { [canvas.width, canvas.height] = size; Object.assign(canvas.style, { width: `${room}px`, height: `${height}px` }); }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = ink.card;
  ctx.fillRect(0, 0, room, height);
  hits = panel.draw(new CanvasPen(ctx), room).hits;
  if (!S.playing) {
    const text = panel.says();
    canvas.setAttribute("aria-label", text);
    $("says").textContent = text;
    numbers();
    keepAddress();
  }
}

function step(dt) { moved(scene, found, dt); compute(); }

// Reduced motion: a step now and then instead of a flow.
function playing(on) {
  if (S.playing === on) return;
  S.playing = on;
  refresh(true);
  if (!on) return;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let before = -Infinity;
  const frame = (now) => {
    if (!S.playing) return;
    if (!calm || now - before >= JUMP) { before = now; step(calm ? STEP : FLOW); paint(); }
    playing.frames = (playing.frames ?? 0) + 1;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

// What is nearest under the pointer.
function hitAt(event) {
  const r = $("picture").getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top, inside = hits.filter((b) => x >= b.x && y >= b.y && x < b.x + b.w && y < b.y + b.h);
  return inside.reduce((a, b) => (a && Math.hypot(x - a.x - a.w / 2, y - a.y - a.h / 2) <= Math.hypot(x - b.x - b.w / 2, y - b.y - b.h / 2) ? a : b), null);
}

function clicked(event) {
  const hit = hitAt(event);
  if (!hit || drag.moved) return;
  if (hit.j !== undefined || event.shiftKey) S.j = hit.j ?? hit.i;
  else if (hit.i !== undefined) S.i = hit.i;
  else return;
  refresh(true);
}

// A token follows the pointer; a finger elsewhere on the picture scrolls the page.
const drag = { i: null, moved: false };

function dragging(canvas) {
  const tokenAt = (e) => (S.panel === "flock" ? hitAt(e)?.i ?? null : null);
  const end = () => { drag.i = null; };
  canvas.addEventListener("touchstart", (e) => { if (tokenAt(e.touches[0]) !== null) e.preventDefault(); }, { passive: false });
  canvas.onpointerdown = (e) => {
    Object.assign(drag, { i: e.button ? null : tokenAt(e), x: e.clientX, y: e.clientY, moved: false });
    if (drag.i !== null) canvas.setPointerCapture(e.pointerId);
  };
  canvas.onpointermove = (e) => {
    if (drag.i === null) return canvas.classList.toggle("on-token", tokenAt(e) !== null);
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return null;
    Object.assign(drag, { x: e.clientX, y: e.clientY, moved: true });
    return nudge(drag.i, dx, dy);
  };
  canvas.onpointerup = (e) => { if (drag.i !== null && !drag.moved && e.pointerType === "touch") clicked(e); end(); };
  canvas.onpointercancel = end;
}

// A token moved by pixels of the picture.
function nudge(i, dx, dy) {
  moveToken(scene, i, dx / FlockPanel.fit.unit, -dy / FlockPanel.fit.unit);
  compute();
  refresh();
}

function pressed(e) {
  if (e.key === "Escape" && Tour.at >= 0) return Tour.show(-1);
  if (e.ctrlKey || e.metaKey || e.altKey || $("keys").open || (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range" && e.target.type !== "checkbox")) return null;
  const N = scene.call.N, onButton = e.target.tagName === "BUTTON" || e.target.type === "checkbox", onFlock = S.panel === "flock" && e.target.id === "picture", tab = e.target.getAttribute?.("role") === "tab", turn = (by) => { show(CHOICES.panel[clamp(CHOICES.panel.indexOf(S.panel) + by, 3)]); $(`tab-${S.panel}`).focus(); };
  const go = (name, by) => { S[name] = clamp(S[name] + by, N); refresh(true); }, keys = {
    1: () => show("flock"), 2: () => show("task"), 3: () => show("why"), "[": () => go("i", -1), "]": () => go("i", 1), ",": () => go("j", -1), ".": () => go("j", 1),
    s: () => $("step")?.click(), r: () => $("reset")?.click(), n: () => ($("next") ?? $("new"))?.click(), " ": S.panel === "flock" && !onButton ? () => playing(!S.playing) : null,
    f: () => { setRule("scope", rulesNow().scope === "flock" ? "visible" : "flock"); refresh(true); }, t: () => $("theme").click(), l: () => $("lang").click(), "?": () => $("keys").showModal(),
    ArrowLeft: tab ? () => turn(-1) : onFlock ? () => nudge(S.i, -8, 0) : null, ArrowRight: tab ? () => turn(1) : onFlock ? () => nudge(S.i, 8, 0) : null,
    ArrowUp: onFlock ? () => nudge(S.i, 0, -8) : null, ArrowDown: onFlock ? () => nudge(S.i, 0, 8) : null,
  };
  const then = keys[e.key];
  if (!then) return null;
  e.preventDefault();
  return then();
}

function save(kind) {
  const panel = PANELS[S.panel], name = `ascender-${S.panel}${S.panel === "task" ? "" : `-${S.scene}`}.${kind}`, room = Math.max(280, $("picture").clientWidth);
  if (kind === "csv") return give(name, csvOf(panel.csv()));
  const tall = panel.draw(new NoPen(), room).height + 32, wide = room + 32;
  if (kind === "svg") { const pen = new SvgPen(); pen.ox = pen.oy = 16; panel.draw(pen, room); return give(name, new Blob([pen.done(wide, tall)], { type: "image/svg+xml" })); }
  const canvas = make("canvas", { width: 2 * wide, height: 2 * tall }), ctx = canvas.getContext("2d");
  ctx.scale(2, 2);
  ctx.fillStyle = ink.card;
  ctx.fillRect(0, 0, wide, tall);
  panel.draw(new CanvasPen(ctx, 16, 16), room);
  return canvas.toBlob((b) => give(name, b));
}

function wire() {
  for (const id of CHOICES.panel) $(`tab-${id}`).onclick = () => show(id);
  for (const kind of ["png", "svg", "csv"]) $(`save-${kind}`).onclick = () => save(kind);
  $("theme").onclick = () => { document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark"; readTheme(); refresh(); };
  $("lang").onclick = () => { S.lang = S.lang === "en" ? "ko" : "en"; words(); if (Tour.at >= 0) Tour.show(Tour.at); refresh(true); };
  $("help").onclick = () => $("keys").showModal();
  $("close").onclick = () => $("keys").close();
  $("guide").onclick = () => Tour.begin();
  $("picture").onclick = clicked;
  dragging($("picture"));
  document.addEventListener("keydown", pressed);
  document.addEventListener("dragover", (e) => e.preventDefault());
  document.addEventListener("drop", (e) => { e.preventDefault(); const file = e.dataTransfer?.files[0]; if (file) readCsv(file); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); refresh(); });
  addEventListener("hashchange", () => { if (location.hash.slice(1) !== address()) openAddress(); });
  new ResizeObserver(() => refresh()).observe($("picture").parentNode);
}

function openAddress() {
  readAddress();
  words();
  readTheme();
  TaskPanel.history = [];
  TaskPanel.said = null;
  setScene(S.scene, true);
  show(S.panel);
}

function begin() {
  Digits.load();
  wire();
  openAddress();
  if (!stored(SEEN) && !location.hash) Tour.begin();
  document.documentElement.dataset.ready = "all";
}

Promise.all(D.blobs.filter((b) => b.z).map(inflate)).then(begin, (error) => { W = D.languages[D.lang]; $("trouble").textContent = say("too_old", { error: String(error) }); });
