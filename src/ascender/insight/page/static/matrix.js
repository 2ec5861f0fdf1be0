// Matrix view: the terms of one head on one scale, and every head as a small picture.
const thumbs = new Map(), SMALL = 40;

function small(model, l, h) {
  const key = `${model.at}/${l}/${h}/${S.order}/${S.scope}`, order = orderOf(model), at = order ? inverse(order) : null;
  if (thumbs.has(key)) return thumbs.get(key);
  const made = headOf(model, l, h), N = model.N, T = Math.min(N, SMALL), found = { T, top: made.top };
  for (const name of ALL) {
    const out = new Float32Array(T * T), n = new Uint16Array(T * T);
    for (let i = 0; i < N; i++)
      for (let j = 0; j < N; j++) {
        if (!made.V[i * N + j]) continue;
        const e = Math.floor(((at ? at[i] : i) * T) / N) * T + Math.floor(((at ? at[j] : j) * T) / N);
        out[e] += made[name][i * N + j];
        n[e]++;
      }
    for (let e = 0; e < T * T; e++) if (n[e]) out[e] /= n[e];
    found[name] = out;
    found.V = n;
  }
  found.most = found.weights.reduce((a, b) => Math.max(a, b), 0);
  thumbs.set(key, found);
  return found;
}

// What is fully coloured: the same for models side by side.
function scaleOf(every) {
  const heads = (m) => (every ? m.layers.flatMap((l) => l.heads) : within(m, () => [m.layers[S.layer].heads[S.head]]));
  return Math.max(...D.models.flatMap(heads).map((h) => h.scale));
}

function centred(a, V, N) {
  const out = new Float32Array(N * N);
  for (let i = 0; i < N; i++) {
    let s = 0, n = 0;
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) { s += a[e]; n++; }
    for (let e = i * N; e < (i + 1) * N; e++) if (V[e]) out[e] = a[e] - s / n;
  }
  return out;
}

function bar(pen, x, y, w, from, to, sign, root) {
  pen.image(() => {
    const c = document.createElement("canvas");
    c.width = 128; c.height = 1;
    const ctx = c.getContext("2d"), im = ctx.createImageData(128, 1), out = new Uint32Array(im.data.buffer);
    for (let i = 0; i < 128; i++) out[i] = colour(from + ((to - from) * i) / 127, Math.max(Math.abs(from), to), sign, root);
    ctx.putImageData(im, 0, 0);
    return c;
  }, x, y, w, 8);
  pen.rect(x, y, w, 8, { stroke: ink.line });
  const short = (v) => String(Number(v.toPrecision(3)));
  pen.text(short(from), x, y + 20, { size: 10, fill: ink.soft });
  if (sign) pen.text("0", x + w / 2, y + 20, { size: 10, fill: ink.soft, align: "center" });
  pen.text((sign ? "" : "≥ ") + short(to), x + w, y + 20, { size: 10, fill: ink.soft, align: "right" });
}

// Over dense attention: keys that the flock leaves out.
function veiled(key, V, F, N) {
  return picture(`${key}/veil`, () => V.map((v, e) => (v && !F[e] ? 1 : 0)), null, N, "veil");
}

// One matrix with its labels; returns its height. hits get where its cells are.
function matrix(pen, model, made, values, o) {
  const { x, y, size, name, scale, sign, root, hits, V = made.V } = o, N = model.N;
  const cell = size / N, named = o.named, s = size, px = x + o.left, py = y + 20;
  pen.text(name, px, y + 12, { size: 12, weight: 600 });
  const order = orderOf(model), place = order ? inverse(order) : null, at = (i) => (place ? place[i] : i), of = (x) => (order ? order[x] : x);
  const turned = (a) => (order ? reordered(a, order, N) : a);
  pen.image(() => picture(`${model.at}/${S.layer}/${S.head}/${o.key}/${S.order}/${S.scope}`, () => turned(values()), turned(V), N, scale, sign, root), px, py, s, s);
  if (made.flock) pen.image(() => veiled(`${model.at}/${S.layer}/${S.head}/${S.order}`, turned(made.V), turned(made.flock), N), px, py, s, s);
  pen.rect(px, py, s, s, { stroke: ink.line });
  const step = named ? 1 : Math.max(1, Math.ceil(N / 6 / 8) * 8);
  if (model.groups)
    for (let x = 0; x < N; x++) {
      const g = groupOf(model, of(x));
      if (!g) continue;
      pen.rect(px - 5, py + x * cell, 4, cell, { fill: g.colour });
      pen.rect(px + x * cell, py - 5, cell, 4, { fill: g.colour });
    }
  const edge = model.groups ? 9 : 4;
  for (let x = 0; x < N; x += step) {
    const i = of(x), chosen = i === S.row, fill = chosen ? ink.accent : ink.soft, weight = chosen ? 700 : 400;
    const shown = named ? fit(label(model.tokens[i]), o.left - 6, Math.min(cell, 11)) : String(i);
    const font = named ? Math.min(cell, 11) : 9, look = named ? face(model, i) : null, side = Math.min(cell, 20);
    if (look) {
      pen.image(() => look, px - edge - side, py + x * cell + (cell - side) / 2, side, side);
      pen.image(() => look, px + x * cell + (cell - side) / 2, py + s + 3, side, side);
      continue;
    }
    pen.text(shown, px - edge, py + (x + 0.5) * cell + 3.5, { size: font, align: "right", fill, weight });
    if (named) pen.text(fit(label(model.tokens[i]), o.under - 6, font), px + (x + 0.5) * cell + 3.5, py + s + 4, { size: font, align: "right", turn: -90, fill: ink.soft });
    else pen.text(shown, px + (x + 0.5) * cell, py + s + 11, { size: 9, align: "center", fill: ink.soft });
  }
  pen.rect(px, py + at(S.row) * cell, s, Math.max(cell, 1), { stroke: ink.accent, lw: 1, alpha: 0.8 });
  hits.push({ x: px, y: py, w: s, h: s, on: (mx, my) => ({ kind: "cell", i: of(Math.min(N - 1, Math.floor(my / cell))), j: of(Math.min(N - 1, Math.floor(mx / cell))) }),
    box: (i, j) => [px + at(j) * cell, py + at(i) * cell, cell] });
  return 20 + s + o.under;
}

// How many matrices side by side, how large, and whether every token can be named.
function shape(model, room, n, least = 230) {
  const most = Math.max(1, Math.min(n, Math.floor((room + 14) / least))), cols = Math.ceil(n / Math.ceil(n / most));
  const each = Math.floor((room - 14 * (cols - 1)) / cols), longest = Math.max(...model.tokens.slice(0, 80).map((t) => width(label(t), 11)));
  const edge = Math.min(Math.max(24, longest + 8), each * 0.26), size = Math.min(each - edge - 2, 560), named = size / model.N >= 9;
  return named ? { cols, each, named, left: edge, under: Math.min(edge, 70), size } : { cols, each, named, left: 26, under: 18, size: Math.min(each - 28, 560) };
}

function scopes(box) {
  if (D.models.some(hasDense)) choose(box, "attends_to", [["flock", W.to_flock], ["dense", W.to_visible]], "scope", idle);
}

const MatrixView = {
  id: "matrix",
  controls(box) {
    const present = ALL.filter((t) => D.models.some((m) => known(t, m)));
    chips(box, "terms", present.map((t) => [t, W[t]]), (t) => S.terms.has(t), (t) => {
      S.terms.has(t) && S.terms.size > 1 ? S.terms.delete(t) : S.terms.add(t);
    });
    choose(box, "scale_of", [["head", W.this_head], ["all", W.all_heads]], "scale");
    choose(box, "colours", [["root", W.root], ["linear", W.linear]], "curve");
    choose(box, "rows_are", [["as", W.as_they_are], ["centred", W.centred]], "rows");
    scopes(box);
    if (D.models.some((m) => m.groups)) choose(box, "order", [["as", W.as_they_come], ["group", W.by_group]], "order", idle);
    choose(box, "thumbs_show", present.map((t) => [t, W[t]]), "grid");
  },
  draw(pen, model, room) {
    const { layer, head } = S, made = headOf(model, layer, head), hits = [], root = S.curve === "root";
    const shownTerms = ALL.filter((t) => S.terms.has(t)), scale = scaleOf(S.scale === "all");
    const top = Math.max(...D.models.map((m) => within(m, () => headOf(m, S.layer, S.head).top)));
    const fits = shape(model, room, shownTerms.length);
    let y = 4, tall = 0;
    shownTerms.forEach((name, at) => {
      const col = at % fits.cols, sign = name !== "weights";
      if (col === 0 && at) { y += tall + 10; tall = 0; }
      if (!known(name, model)) {
        pen.text(W[name], col * (fits.each + 14) + fits.left, y + 12, { size: 12, weight: 600, fill: ink.soft });
        pen.rect(col * (fits.each + 14) + fits.left, y + 20, fits.size, fits.size, { stroke: ink.line, dash: [3, 3] });
        tall = Math.max(tall, 20 + fits.size + fits.under);
        return;
      }
      const less = sign && S.rows === "centred", values = () => (less ? centred(made[name], made.V, model.N) : made[name]);
      tall = Math.max(tall, matrix(pen, model, made, values, { ...fits, x: col * (fits.each + 14), y, key: `${name}/${less}`, name: name === "total" && tempered() ? say("total_over", { tau: written("tau", made.head.tau) }) : W[name], scale: sign ? scale : top, sign, root, hits }));
    });
    y += tall + 16;
    const wide = Math.min(180, room / 2 - 20);
    pen.text(W.scores, 0, y, { size: 11, fill: ink.soft });
    bar(pen, 0, y + 6, wide, -scale, scale, true, root);
    pen.text(W.weights, wide + 30, y, { size: 11, fill: ink.soft });
    bar(pen, wide + 30, y + 6, wide, 0, top, false, root);
    return { height: this.grid(pen, model, room, y + 52, hits, root), hits };
  },
  grid(pen, model, room, y, hits, root) {
    const L = model.layers.length, H = Math.max(...model.layers.map((l) => l.heads.length));
    const t = Math.max(16, Math.min(Math.max(64, Math.min(120, 300 / L)), Math.floor((room - 30) / H) - 4)), name = S.grid, sign = name !== "weights";
    const scale = sign ? scaleOf(true) : null;
    pen.text(`${W.all_heads}: ${W[name]}`, 0, y, { size: 12, weight: 600 });
    y += 20;
    for (let h = 0; h < H; h++) pen.text(String(h), 30 + h * (t + 4) + t / 2, y, { size: 10, align: "center", fill: ink.soft });
    y += 6;
    for (let l = 0; l < L; l++)
      for (let h = 0; h < model.layers[l].heads.length; h++) {
        const x = 30 + h * (t + 4), top = y + l * (t + 4), key = `${model.at}/${l}/${h}/${S.order}/${S.scope}`, here = thumbs.get(key);
        if (!h) pen.text(String(l), 22, top + t / 2 + 4, { size: 10, align: "right", fill: ink.soft });
        if (here) pen.image(() => picture(`${key}/small/${name}`, () => here[name], here.V, here.T, sign ? scale : here.most, sign, root), x, top, t, t);
        else pen.rect(x, top, t, t, { fill: ink.line, alpha: 0.4 });
        const chosen = l === S.layer && h === S.head;
        pen.rect(x, top, t, t, { stroke: chosen ? ink.accent : ink.line, lw: chosen ? 2.5 : 1 });
        hits.push({ x, y: top, w: t, h: t, on: () => ({ kind: "head", l, h }) });
      }
    return y + L * (t + 4) + 6;
  },
  csv() {
    const out = [["model", "layer", "head", "i", "token_i", "j", "token_j", ...COLUMNS, "neighbour"]];
    for (const model of D.models) {
      const made = headOf(model, S.layer, S.head), N = model.N;
      for (let i = 0; i < N; i++)
        for (let j = 0; j < N; j++)
          if (made.V[i * N + j]) out.push([model.name, S.layer, S.head, i, model.tokens[i], j, model.tokens[j], ...COLUMNS.map((t) => valueAt(made, t, i * N + j)), isNear(made, i, j) ? 1 : 0]);
    }
    return out;
  },
};
