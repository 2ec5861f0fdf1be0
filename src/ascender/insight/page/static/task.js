// What a task knows of its example: pictures of tokens, their true groups, what should be told.
const GROUPS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#994F00", "#44BB99", "#7A5FD0", "#888888"];
const groupColour = (g) => GROUPS[g] ?? `hsl(${(g * 137.5) % 360} 55% 50%)`;

function groupOf(model, i) {
  const g = model.groups?.of[i] ?? null;
  return g === null ? null : { at: g, colour: groupColour(g), name: model.groups.names[g] };
}

// Tokens in the order in which matrices show them: null is as they come.
function orderOf(model) {
  if (S.order !== "group" || !model.groups) return null;
  const at = (i) => model.groups.of[i] ?? Infinity;
  model.sorted ??= [...model.tokens.keys()].sort((a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : a - b));
  return model.sorted;
}

function inverse(order) {
  const out = new Uint32Array(order.length);
  order.forEach((i, at) => (out[i] = at));
  return out;
}

function reordered(a, order, N) {
  const out = new a.constructor(N * N);
  for (let i = 0; i < N; i++) for (let j = 0; j < N; j++) out[i * N + j] = a[order[i] * N + order[j]];
  return out;
}

function paintPixels(image, width, x0, y0, model, token) {
  const [h, w, c] = model.images.size, bytes = blob(model.images.at).a, from = token * h * w * c;
  for (let y = 0; y < h; y++)
    for (let x = 0; x < w; x++)
      for (let k = 0; k < 4; k++) image[4 * ((y0 + y) * width + x0 + x) + k] = k === 3 ? 255 : bytes[from + (y * w + x) * c + (c === 3 ? k : 0)];
}

function newPicture(wide, tall, paintAll) {
  const canvas = make("canvas", { width: wide, height: tall }), ctx = canvas.getContext("2d"), image = ctx.createImageData(wide, tall);
  paintAll(image.data);
  ctx.putImageData(image, 0, 0);
  return canvas;
}

// The picture of one token, and the one that all of them are cells of; null where there is none.
const faces = new Map();
function face(model, i) {
  if (!model.images || model.pool > 1) return null;
  const key = `${model.at}/${i}`, [h, w] = model.images.size;
  if (!faces.has(key)) faces.set(key, newPicture(w, h, (data) => paintPixels(data, w, 0, 0, model, i)));
  return faces.get(key);
}

function whole(model) {
  if (!model.images?.grid) return null;
  const [rows, cols] = model.images.grid, [h, w] = model.images.size;
  model.whole ??= newPicture(cols * w, rows * h, (data) => {
    for (let t = 0; t < rows * cols; t++) paintPixels(data, cols * w, (t % cols) * w, Math.floor(t / cols) * h, model, t);
  });
  return model.whole;
}

// The cells of the whole picture that a token, or a block of them, is: [x, y, w, h] in a picture `wide` wide.
function cellsOf(model, i, wide) {
  const [rows, cols] = model.images.grid, s = wide / cols, out = [];
  const to = Math.min((i + 1) * model.pool, rows * cols);
  for (let t = i * model.pool; t < to; t++) out.push([(t % cols) * s, Math.floor(t / cols) * s, s, s]);
  return out;
}

// The picture with the chosen token outlined, and beside it what its row gives to every cell.
function drawWhole(pen, model, made, i, room, y, hits) {
  const [rows, cols] = model.images.grid, wide = Math.min(190, Math.floor((room - 16) / 2)), tall = (wide * rows) / cols, N = model.N;
  const row = made.weights.subarray(i * N, (i + 1) * N), top = row.reduce((a, b) => Math.max(a, b), 1e-12);
  [[W.picture, 0], [say("weights_of", { i }), wide + 16]].forEach(([text, x], map) => {
    pen.text(fit(text, wide, 11), x, y + 11, { size: 11, fill: ink.soft });
    if (!map) pen.image(() => whole(model), x, y + 18, wide, tall);
    for (let j = 0; j < N; j++)
      for (const [cx, cy, s] of cellsOf(model, j, wide)) {
        if (map) pen.rect(x + cx, y + 18 + cy, s, s, { fill: made.V[i * N + j] ? css(colour(row[j], top, false, S.curve === "root")) : css(ink.none) });
        hits.push({ x: x + cx, y: y + 18 + cy, w: s, h: s, on: () => ({ kind: "cell", i, j }) });
      }
    for (const [cx, cy, s] of cellsOf(model, i, wide)) pen.rect(x + cx, y + 18 + cy, s, s, { stroke: ink.accent, lw: 2 });
    pen.rect(x, y + 18, wide, tall, { stroke: ink.line });
  });
  return y + 18 + tall + 22;
}

// What is told at a token (or of the whole example) and what should be.
function answer(model, i) {
  const o = model.outcome;
  if (o?.kind !== "classes" && o?.kind !== "number") return null;
  const n = o.kind === "classes" ? o.rows.length : o.values[0].length, at = Math.min(i, n - 1), due = o.target?.[at] ?? null;
  const where = n === 1 ? W.whole_example : say(o.next ? "after_token" : "at_token", { i: at, token: label(model.tokens[Math.min(at, model.N - 1)]) });
  if (o.kind === "number") return { where, each: n > 1, told: numeral(o.values[0][at]), due: due === null ? null : numeral(due), right: null };
  const id = o.rows[at].ids[0];
  return { where, each: n > 1 && !o.next, told: label(o.names[id]), p: o.rows[at].p[0][0], due: due === null ? null : label(o.names[due]), right: due === null ? null : due === id };
}

function answerText(model, i) {
  const a = answer(model, i), g = groupOf(model, i), parts = [];
  if (g) parts.push(`${W.group}: ${g.name}`);
  if (a?.due !== null && a?.due !== undefined) parts.push(`${W.true}: ${a.due}`);
  if (a) parts.push(`${W.predicted}: ${a.told}${a.p === undefined ? "" : ` (${a.p.toFixed(2)})`}${a.right === null ? "" : a.right ? " ✓" : " ✗"}`);
  return parts.length ? `${a ? a.where : `${W.token} ${i}`} · ${parts.join(" · ")}` : "";
}

function showAnswers() {
  $("answer").replaceChildren(...D.models.map((model) => {
    const text = answerText(model, Math.min(S.row, model.N - 1)), whose = D.models.length > 1 ? `${model.name}: ` : "";
    return make("p", { textContent: text && whose + text });
  }));
}

// Above the views: tokens as buttons, and the whole picture where they are its cells.
function strip() {
  const model = D.models[0], box = $("tokens"), big = whole(model);
  box.classList.toggle("pictures", Boolean(face(model, 0)));
  model.tokens.forEach((token, i) => {
    const g = groupOf(model, i), a = answer(model, i), b = make("button", { type: "button", className: "token", title: [i, label(token), g?.name].filter((x) => x !== undefined).join(" · ") });
    const look = face(model, i), text = token.trim() ? token : "␣";
    if (look) b.append(newPicture(look.width, look.height, (data) => paintPixels(data, look.width, 0, 0, model, i)));
    if (!look || !model.images.grid) b.append(look ? make("span", { textContent: text }) : text);
    else b.setAttribute("aria-label", `${W.token} ${i}: ${text}`);
    if (g) b.style.setProperty("--group", g.colour);
    if (a?.each && a.right !== null) b.dataset.right = a.right;
    b.onclick = () => go({ row: i });
    box.append(b);
  });
  if (!big) return;
  const canvas = make("canvas", { id: "whole", width: 224, height: (224 * big.height) / big.width });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", W.picture);
  canvas.onclick = (e) => {
    const [rows, cols] = model.images.grid, r = canvas.getBoundingClientRect();
    const x = Math.floor(((e.clientX - r.left) / r.width) * cols), y = Math.floor(((e.clientY - r.top) / r.height) * rows);
    go({ row: Math.floor((y * cols + x) / model.pool) });
  };
  box.before(canvas);
}

function outline() {
  const canvas = $("whole"), model = D.models[0];
  if (!canvas) return;
  const pen = new CanvasPen(canvas.getContext("2d"));
  pen.image(() => whole(model), 0, 0, canvas.width, canvas.height);
  for (const [x, y, s] of cellsOf(model, Math.min(S.row, model.N - 1), canvas.width)) pen.rect(x, y, s, s, { stroke: ink.accent, lw: 4 });
}
