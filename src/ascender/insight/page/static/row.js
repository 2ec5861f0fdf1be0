// Row view: one token, its strongest keys, the score of each as a stacked bar of named terms.
function rowFacts(made, i) {
  const N = made.N;
  let seen = 0, entropy = 0;
  for (let e = i * N; e < (i + 1) * N; e++) {
    seen += made.V[e];
    if (made.weights[e] > 0) entropy -= made.weights[e] * Math.log(made.weights[e]);
  }
  const facts = [["visible", seen], ["entropy", entropy.toFixed(3)], ...(tempered() ? [["temperature", written("tau", made.head.tau)]] : [])];
  if (made.missed) facts.push(["missed", made.missed[i].toFixed(4)]);
  if (!made.near) return facts;
  let count = 0;
  for (let x = 0; x < made.near.m; x++) count += made.near.a[i * made.near.m + x] !== NONE;
  return [...facts, ["neighbours", count], ["gate_align", made.gate_align[i].toFixed(4)], ["gate_sep", made.gate_sep[i].toFixed(4)],
    ["gate_coh", made.gate_coh[i].toFixed(4)], ["rho", made.rho[i].toFixed(3)], ["away", made.away[i].toFixed(3)]];
}

function strongest(made, i, n) {
  const N = made.N, keys = [];
  for (let j = 0; j < N; j++) if (made.V[i * N + j]) keys.push(j);
  return keys.sort((a, b) => made.weights[i * N + b] - made.weights[i * N + a]).slice(0, n);
}

const RowView = {
  id: "row",
  controls(box) {
    choose(box, "keys_shown", [["8", "8"], ["16", "16"], ["32", "32"], ["9999", W.every]], "top");
    choose(box, "bars_show", [["as", W.as_they_are], ["centred", W.centred]], "rows");
    scopes(box);
  },
  draw(pen, model, room) {
    const i = Math.min(S.row, model.N - 1), made = headOf(model, S.layer, S.head), N = model.N, hits = [];
    const present = TERMS.filter((t) => known(t, model)), keys = strongest(made, i, Number(S.top));
    let y = 16;
    pen.text(fit(model.tokens[i] === String(i) ? `${W.token} ${i}` : `${W.token} ${i}: ${label(model.tokens[i])}`, room, 15), 0, y, { size: 15, weight: 600 });
    y += 22;
    y += flow(pen, rowFacts(made, i).map(([name, v]) => ({ text: `${W[name]} ${v}`, fill: ink.soft })), 0, y, room) + 4;
    if (whole(model)) y = drawWhole(pen, model, made, i, room, y, hits);
    const legend = present.map((t) => ({ text: W[t], dot: RULE[t] }));
    legend.push({ text: W.sum, dot: ink.text });
    if (made.near) legend.push({ text: "◆ " + W.is_near, fill: ink.accent });
    if (made.flock) legend.push({ text: "○ " + W.outside_flock, fill: ink.soft });
    y += flow(pen, legend, 0, y + 6, room) + 10;
    const shift = {};
    for (const t of present) {
      shift[t] = 0;
      if (S.rows !== "centred") continue;
      let s = 0, n = 0;
      for (let e = i * N; e < (i + 1) * N; e++) if (made.V[e]) { s += made[t][e]; n++; }
      shift[t] = s / Math.max(n, 1);
    }
    const parts = keys.map((j) => present.map((t) => made[t][i * N + j] - shift[t]));
    const low = Math.min(0, ...parts.map((p) => p.reduce((s, x) => s + Math.min(x, 0), 0)));
    const high = Math.max(1e-6, ...parts.map((p) => p.reduce((s, x) => s + Math.max(x, 0), 0)));
    const narrow = room < 520, listed = narrow ? [] : tempered() ? ["total", "sum"] : ["total"];
    const left = narrow ? 92 : 150, right = 66 + 64 * listed.length, span = room - left - right;
    const at = (v) => left + ((v - low) / (high - low)) * span;
    pen.text(W.weight, room, y, { size: 11, align: "right", fill: ink.soft });
    listed.forEach((name, x) => pen.text(W[name], room - 66 - 64 * x, y, { size: 11, align: "right", fill: ink.soft }));
    y += 8;
    const from = y;
    keys.forEach((j, line) => {
      const top = y, mid = top + 15, pinned = S.col === j;
      if (pinned) pen.rect(0, top, room, 22, { fill: ink.accent, alpha: 0.12 });
      const look = face(model, j), g = groupOf(model, j), from = (look ? 22 : 0) + (g ? 8 : 0);
      if (look) { pen.image(() => look, 2, top + 2, 18, 18); pen.rect(2, top + 2, 18, 18, { stroke: ink.line }); }
      if (g) pen.rect(look ? 22 : 0, top + 2, 5, 18, { fill: g.colour });
      pen.text(fit(`${label(model.tokens[j])}`, left - 46 - from, 12), left - 30, mid, { align: "right", weight: j === i ? 700 : 400 });
      if (model.tokens[j] !== String(j)) pen.text(String(j), left - 24, mid, { size: 9, fill: ink.soft });
      if (made.flock && !made.flock[i * N + j]) pen.text("○", left - 8, mid - 1, { size: 9, align: "center", fill: ink.soft });
      else if (isNear(made, i, j)) pen.text("◆", left - 8, mid - 1, { size: 9, align: "center", fill: ink.accent });
      let plus = 0, minus = 0;
      present.forEach((t, x) => {
        const v = parts[line][x], a = v >= 0 ? plus : minus;
        pen.rect(at(Math.min(a, a + v)), top + 4, Math.abs(at(v) - at(0)), 14, { fill: RULE[t] });
        v >= 0 ? (plus += v) : (minus += v);
      });
      const sum = plus + minus, shown = { sum, total: sum / made.head.tau };
      pen.line([[at(sum), top + 1], [at(sum), top + 21]], { stroke: ink.text, lw: 2 });
      const w = made.weights[i * N + j];
      pen.text(w.toFixed(4), room, mid, { size: 12, align: "right" });
      listed.forEach((name, x) => pen.text(numeral(shown[name]), room - 66 - 64 * x, mid, { size: 12, align: "right", fill: ink.soft }));
      hits.push({ x: 0, y: top, w: room, h: 22, on: () => ({ kind: "cell", i, j }) });
      y += 24;
    });
    pen.line([[at(0), from], [at(0), y]], { stroke: ink.soft, lw: 1 });
    pen.text("0", at(0), y + 12, { size: 10, align: "center", fill: ink.soft });
    if (at(high) - at(0) > 34) pen.text(high.toFixed(2), at(high), y + 12, { size: 10, align: "right", fill: ink.soft });
    if (at(0) - at(low) > 34) pen.text(low.toFixed(2), at(low), y + 12, { size: 10, fill: ink.soft });
    return { height: y + 22, hits };
  },
  csv() {
    const out = [["model", "layer", "head", "i", "token_i", "j", "token_j", ...COLUMNS, "neighbour"]];
    for (const model of D.models) {
      const made = headOf(model, S.layer, S.head), N = model.N, i = Math.min(S.row, N - 1);
      for (const j of strongest(made, i, N)) out.push([model.name, S.layer, S.head, i, model.tokens[i], j, model.tokens[j], ...COLUMNS.map((t) => valueAt(made, t, i * N + j)), isNear(made, i, j) ? 1 : 0]);
    }
    return out;
  },
};
