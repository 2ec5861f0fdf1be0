// Flock view: tokens in the plane of their latent coordinates, the same axes in every layer.
function standing(model, l, h) {
  const here = model.flock[l]?.[Math.min(h, model.flock[l].length - 1)];
  if (!here) return null;
  const head = model.layers[l].heads[Math.min(h, model.layers[l].heads.length - 1)];
  return { z: vector(here.z), c: vector(here.c), u: vector(here.u), rho: vector(head.rho), near: blob(head.near), share: here.share, turn: here.turn };
}

// Between two layers: the first that has a flock at or before t, and the next.
function between(model, t, h) {
  const has = model.flock.map((f, l) => (f ? l : -1)).filter((l) => l >= 0);
  const a = has.filter((l) => l <= t).pop() ?? has[0], b = has.find((l) => l > a) ?? a;
  const p = a === b ? 0 : Math.min(1, Math.max(0, (t - a) / (b - a)));
  const from = standing(model, a, h), to = standing(model, b, h);
  const mix = (x, y) => (p === 0 ? x : x.map((v, e) => v + (y[e] - v) * p));
  return { z: mix(from.z, to.z), c: mix(from.c, to.c), u: mix(from.u, to.u), rho: mix(from.rho, to.rho), near: (p < 0.5 ? from : to).near, share: from.share, turn: from.turn, layer: p < 0.5 ? a : b };
}

function extent(model, h) {
  const box = [Infinity, -Infinity, Infinity, -Infinity];
  let crowd = 1e-9;
  for (let l = 0; l < model.flock.length; l++) {
    const f = standing(model, l, h);
    if (!f) continue;
    for (const points of [f.z, f.c])
      for (let x = 0; x < points.length; x += 2) {
        box[0] = Math.min(box[0], points[x]); box[1] = Math.max(box[1], points[x]);
        box[2] = Math.min(box[2], points[x + 1]); box[3] = Math.max(box[3], points[x + 1]);
      }
    for (const r of f.rho) crowd = Math.max(crowd, r);
  }
  return { box, crowd };
}

const FlockView = {
  id: "flock",
  controls(box) {
    if (!D.models.some((m) => m.rules)) return;
    const top = Math.max(...D.models.map((m) => m.layers.length)) - 1;
    const play = button(box, S.playing ? "⏸ " + W.pause : "▶ " + W.play, () => playing(!S.playing));
    play.id = "play";
    const slider = field(box, "layer", "input");
    Object.assign(slider, { type: "range", min: 0, max: top, step: 0.02, value: S.t, id: "slider" });
    slider.oninput = () => { playing(false); S.t = Number(slider.value); S.layer = Math.round(S.t); refresh(); };
    choose(box, "links", [["one", W.of_token], ["every", W.of_all], ["none", W.off]], "links");
    chips(box, "also", [["arrows", W.headings], ["centres", W.centres], ["halo", W.crowd], ["names", W.names]], (t) => S.flock.has(t), (t) => (S.flock.has(t) ? S.flock.delete(t) : S.flock.add(t)));
  },
  draw(pen, model, room) {
    if (!model.rules) return empty(pen, room, W.no_rules_flock);
    const hits = [], N = model.N, h = S.head, f = between(model, S.t, h), { box, crowd } = extent(model, h);
    const tall = Math.min(600, Math.max(320, room * 0.72)), pad = 34, me = Math.min(S.row, N - 1);
    const spanX = box[1] - box[0] || 1, spanY = box[3] - box[2] || 1, unit = Math.min((room - 2 * pad) / spanX, (tall - 2 * pad) / spanY);
    const px = (i, p = f.z) => room / 2 + (p[2 * i] - (box[0] + box[1]) / 2) * unit;
    const py = (i, p = f.z) => tall / 2 - (p[2 * i + 1] - (box[2] + box[3]) / 2) * unit;
    pen.rect(0.5, 0.5, room - 1, tall - 1, { stroke: ink.line });
    const mates = new Set();
    for (let x = 0; x < f.near.m; x++) { const j = f.near.a[me * f.near.m + x]; if (j !== NONE) mates.add(j); }
    if (S.flock.has("halo")) for (let i = 0; i < N; i++) pen.circle(px(i), py(i), 3 + 22 * (f.rho[i] / crowd), { fill: RULE.sep, alpha: N > 150 ? 0.04 : 0.09 });
    if (S.links === "every")
      for (let i = 0; i < N; i++)
        for (let x = 0; x < Math.min(f.near.m, 8); x++) {
          const j = f.near.a[i * f.near.m + x];
          if (j !== NONE) pen.line([[px(i), py(i)], [px(j), py(j)]], { stroke: ink.soft, lw: 0.6, alpha: 0.18 });
        }
    if (S.links !== "none") for (const j of mates) pen.line([[px(me), py(me)], [px(j), py(j)]], { stroke: ink.accent, lw: 1.2, alpha: 0.75 });
    if (S.flock.has("centres")) {
      for (let i = 0; i < N; i++) {
        const x = px(i, f.c), y = py(i, f.c), o = { stroke: RULE.coh, lw: 1, alpha: i === me ? 1 : 0.35 };
        pen.line([[x - 3, y], [x + 3, y]], o);
        pen.line([[x, y - 3], [x, y + 3]], o);
      }
      pen.line([[px(me), py(me)], [px(me, f.c), py(me, f.c)]], { stroke: RULE.coh, lw: 1.5, dash: [4, 3] });
    }
    if (S.flock.has("arrows")) for (let i = 0; i < N; i++) arrow(pen, px(i), py(i), 28 * f.u[2 * i], -28 * f.u[2 * i + 1], { stroke: RULE.align, lw: i === me ? 2 : 1.1, alpha: i === me ? 1 : N > 150 ? 0.35 : 0.6 });
    const r = N > 200 ? 2.2 : 3.6;
    for (let i = 0; i < N; i++) {
      const chosen = i === me, mate = mates.has(i);
      const look = N <= 160 ? face(model, i) : null, g = groupOf(model, i), side = chosen ? 26 : 17;
      if (look) {
        pen.image(() => look, px(i) - side / 2, py(i) - side / 2, side, side);
        pen.rect(px(i) - side / 2, py(i) - side / 2, side, side, { stroke: chosen ? ink.accent : g?.colour ?? (mate ? ink.text : ink.line), lw: chosen ? 3 : 2 });
      } else if (g) pen.circle(px(i), py(i), chosen ? r + 3 : r + 1, { fill: g.colour, stroke: chosen ? ink.accent : mate ? ink.text : ink.card, lw: chosen ? 3 : mate ? 1.5 : 1 });
      else pen.circle(px(i), py(i), chosen ? r + 2.4 : r, { fill: chosen ? ink.accent : mate ? ink.text : ink.soft, stroke: ink.card, lw: 1 });
      hits.push({ x: px(i) - 9, y: py(i) - 9, w: 18, h: 18, on: () => ({ kind: "token", i }) });
    }
    if (S.flock.has("names")) this.names(pen, model, [me, ...mates, ...(N <= 160 ? model.tokens.keys() : [])], px, py, room, tall);
    let y = tall + 18;
    const facts = [`${W.layer} ${f.layer}`, `${W.head} ${h}`, say("plane", { share: (100 * f.share).toFixed(0) }), say("turned", { share: (100 * f.turn).toFixed(0) })];
    y += flow(pen, facts.map((text) => ({ text, fill: ink.soft })), 0, y, room, 11);
    y += flow(pen, [{ text: W.headings, dot: RULE.align }, { text: W.centres, dot: RULE.coh }, { text: W.crowd, dot: RULE.sep }, { text: W.is_near, dot: ink.accent }], 0, y + 8, room, 11) + 8;
    if (model.groups) y += flow(pen, [{ text: `${W.group}:`, fill: ink.soft }, ...Object.entries(model.groups.names).map(([g, text]) => ({ text, dot: groupColour(Number(g)) }))], 0, y + 8, room, 11) + 8;
    return { height: y + 4, hits };
  },
  names(pen, model, order, px, py, room, tall) {
    const taken = [], seen = new Set();
    for (const i of order) {
      if (seen.has(i)) continue;
      seen.add(i);
      const text = fit(label(model.tokens[i]), 90, 10.5), w = width(text, 10.5) + 4;
      const off = face(model, i) ? (i === S.row ? 16 : 11) : 7; // beside a picture, not on it
      for (const [dx, dy] of [[off, 4], [-w - off + 2, 4], [-w / 2, -off - 1], [-w / 2, off + 9]]) {
        const b = [px(i) + dx, py(i) + dy - 10, w, 13];
        if (b[0] < 2 || b[0] + w > room - 2 || b[1] < 2 || b[1] + 13 > tall - 2) continue;
        if (taken.some((t) => b[0] < t[0] + t[2] && t[0] < b[0] + b[2] && b[1] < t[1] + t[3] && t[1] < b[1] + b[3])) continue;
        taken.push(b);
        pen.text(text, b[0] + 2, b[1] + 10, { size: 10.5, weight: i === S.row ? 700 : 400, halo: true });
        break;
      }
    }
  },
  csv() {
    const out = [["model", "layer", "head", "i", "token", "x", "y", "centre_x", "centre_y", "heading_x", "heading_y", "rho", "neighbours", "group"]];
    for (const model of D.models)
      for (let l = 0; l < model.flock.length; l++) {
        const f = standing(model, l, S.head);
        for (let i = 0; f && i < model.N; i++) {
          const near = [...f.near.a.slice(i * f.near.m, (i + 1) * f.near.m)].filter((j) => j !== NONE);
          out.push([model.name, l, S.head, i, model.tokens[i], f.z[2 * i], f.z[2 * i + 1], f.c[2 * i], f.c[2 * i + 1], f.u[2 * i], f.u[2 * i + 1], f.rho[i], near.join(" "), groupOf(model, i)?.name ?? ""]);
        }
      }
    return out;
  },
};

function empty(pen, room, text) {
  const words = text.split(" ");
  let line = "", y = 30;
  for (const word of words) {
    if (width(line + word, 13) > room - 20) { pen.text(line, 10, y, { size: 13, fill: ink.soft }); line = ""; y += 20; }
    line += word + " ";
  }
  pen.text(line, 10, y, { size: 13, fill: ink.soft });
  return { height: y + 24, hits: [] };
}
