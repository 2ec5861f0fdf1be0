// Tokens as a flock: where they stand, where they head, how crowded it is, whom they go by.
const groupColour = (g) => D.series[g % D.series.length];

const FlockPanel = {
  fit: null,
  places() {
    const { call, axes } = scene;
    return flat(call.z, call.N, call.dz, axes);
  },
  // From z to the picture: the middle follows the flock, the scale only gives way.
  frame(P, room, tall) {
    const N = P.length / 2, mid = [0, 0], pad = scene.faces ? 44 : 34;
    for (let i = 0; i < N; i++) { mid[0] += P[2 * i] / N; mid[1] += P[2 * i + 1] / N; }
    let wide = 1e-6, high = 1e-6;
    for (let i = 0; i < N; i++) { wide = Math.max(wide, Math.abs(P[2 * i] - mid[0])); high = Math.max(high, Math.abs(P[2 * i + 1] - mid[1])); }
    const most = Math.min((room / 2 - pad) / wide, (tall / 2 - pad) / high), key = `${room}/${tall}`;
    if (!this.fit || this.fit.key !== key) this.fit = { key, unit: most };
    else if (most < this.fit.unit) this.fit.unit = most;
    else if (most > 1.6 * this.fit.unit) this.fit.unit *= 1.02;
    const unit = this.fit.unit;
    return { x: (i, p = P) => room / 2 + (p[2 * i] - mid[0]) * unit, y: (i, p = P) => tall / 2 - (p[2 * i + 1] - mid[1]) * unit, unit };
  },
  draw(pen, room) {
    const { call } = scene, N = call.N, me = S.i, tall = Math.min(620, Math.max(340, room * 0.66)), P = this.places(), at = this.frame(P, room, tall), hits = [];
    pen.rect(0.5, 0.5, room - 1, tall - 1, { stroke: ink.line });
    this.halos(pen, at);
    this.links(pen, at, me);
    this.centre(pen, at, me);
    const heads = flat(headingKeys(call), N, call.d, scene.turn), long = scene.faces ? 38 : N > 150 ? 15 : 24, blue = tone(RULE.align);
    for (let i = 0; i < N; i++) arrow(pen, at.x(i), at.y(i), long * heads[2 * i], -long * heads[2 * i + 1], { stroke: blue, lw: i === me ? 2.2 : 1.2, alpha: i === me ? 1 : 0.75 });
    const u = flat(found.u.subarray(me * call.d, (me + 1) * call.d), 1, call.d, scene.turn);
    arrow(pen, at.x(me), at.y(me), 1.7 * long * u[0], -1.7 * long * u[1], { stroke: ink.text, lw: 1.6 });
    for (let i = 0; i < N; i++) {
      this.token(pen, at, i, me);
      hits.push({ x: at.x(i) - 11, y: at.y(i) - 11, w: 22, h: 22, i });
    }
    this.place(pen, at, me);
    if (N <= 40 || scene.id === "words") this.names(pen, at, room, tall);
    return { height: tall + this.legend(pen, tall + 18, room), hits };
  },
  halos(pen, at) {
    for (let i = 0; i < found.N; i++) pen.circle(at.x(i), at.y(i), 5 + 17 * found.gates.sep[i], { fill: RULE.sep, alpha: found.N > 150 ? 0.06 : 0.11 });
  },
  links(pen, at, me) {
    if (S.links === "none") return;
    const N = found.N, line = (i, j, o) => pen.line([[at.x(i), at.y(i)], [at.x(j), at.y(j)]], o);
    if (S.links === "every")
      for (let i = 0; i < N; i++)
        for (let j = 0; j < N; j++) if (found.near[i * N + j]) line(i, j, { stroke: ink.soft, lw: 0.6, alpha: N > 100 ? 0.12 : 0.25 });
    for (let j = 0; j < N; j++) if (found.near[me * N + j]) line(me, j, { stroke: ink.accent, lw: 1.2, alpha: 0.7 });
  },
  centre(pen, at, me) {
    const dz = scene.call.dz, c = flat(found.c.subarray(me * dz, (me + 1) * dz), 1, dz, scene.axes), x = at.x(0, c), y = at.y(0, c);
    pen.line([[at.x(me), at.y(me)], [x, y]], { stroke: tone(RULE.coh), lw: 1.6, dash: [4, 3] });
    pen.line([[x - 6, y], [x + 6, y]], { stroke: tone(RULE.coh), lw: 2.4 });
    pen.line([[x, y - 6], [x, y + 6]], { stroke: tone(RULE.coh), lw: 2.4 });
  },
  // A disc of the weight that the chosen token gives, under the token itself.
  token(pen, at, i, me) {
    const N = found.N, e = me * N + i, x = at.x(i), y = at.y(i), left = !found.V[e], g = scene.groups?.[i];
    if (!left) pen.circle(x, y, (scene.faces ? 13 : 3) + 30 * Math.sqrt(found.weights[e]), { fill: ink.accent, alpha: 0.3 });
    const r = N > 150 ? 2.4 : 3.8, fill = g === undefined || g === null ? (i === me ? ink.accent : ink.text) : groupColour(g);
    if (scene.faces) {
      const side = i === me ? 32 : 24;
      pen.image(() => faceOf(scene.faces, i), x - side / 2, y - side / 2, side, side);
      pen.rect(x - side / 2, y - side / 2, side, side, { stroke: i === me ? ink.accent : g === undefined ? ink.line : fill, lw: i === me ? 3 : 2, alpha: left ? 0.4 : 1 });
    } else pen.circle(x, y, i === me ? r + 2.5 : r, { fill: left ? ink.card : fill, stroke: i === me ? ink.accent : left ? ink.soft : ink.card, lw: i === me ? 3 : 1 });
    if (i === S.j && i !== me) pen.circle(x, y, (scene.faces ? 17 : r) + 4, { stroke: ink.text, lw: 1.4, dash: [3, 2] });
  },
  // Where values are places, the output is one: the mean of what is attended to.
  place(pen, at, me) {
    if (!scene.plane) return;
    const o = found.out.subarray(2 * me, 2 * me + 2), x = at.x(0, o), y = at.y(0, o);
    pen.line([[x, y - 6], [x + 6, y], [x, y + 6], [x - 6, y], [x, y - 6]], { stroke: ink.accent, fill: ink.card, lw: 2 });
  },
  names(pen, at, room, tall) {
    const taken = [];
    for (const i of [S.i, S.j, ...Array(found.N).keys()]) {
      if (taken.some((t) => t.i === i)) continue;
      const text = fit(label(scene.tokens[i]), 92, 11), w = width(text, 11) + 4, off = scene.faces ? 18 : 8;
      for (const [dx, dy] of [[off, 4], [-w - off, 4], [-w / 2, -off - 2], [-w / 2, off + 10]]) {
        const b = { i, x: at.x(i) + dx, y: at.y(i) + dy - 10, w, h: 13 };
        if (b.x < 2 || b.x + w > room - 2 || b.y < 2 || b.y + 13 > tall - 2) continue;
        if (taken.some((t) => b.x < t.x + t.w && t.x < b.x + w && b.y < t.y + t.h && t.y < b.y + 13)) continue;
        taken.push(b);
        pen.text(text, b.x + 2, b.y + 10, { size: 11, weight: i === S.i ? 700 : 400, halo: true });
        break;
      }
    }
  },
  legend(pen, y, room) {
    const items = [
      { text: W.key_heading, dot: tone(RULE.align) }, { text: W.key_mean, dot: ink.text }, { text: W.key_centre, dot: tone(RULE.coh) }, { text: W.key_halo, dot: RULE.sep },
      { text: W.key_near, dot: ink.accent }, { text: W.key_weight, dot: ink.accent },
    ];
    if (scene.plane) items.push({ text: W.key_out, fill: ink.soft });
    let tall = flow(pen, items, 0, y, room, 11.5);
    if (scene.names) tall += flow(pen, scene.names.map((text, g) => ({ text, dot: groupColour(g) })), 0, y + tall + 10, room, 11.5) + 10;
    const facts = [scene.note?.(), scene.axes && say("in_plane", { share: (100 * scene.share).toFixed(0), turned: (100 * scene.turned).toFixed(0) }), scene.steps && say("after_steps", { n: scene.steps })];
    for (const text of facts.filter(Boolean)) for (const line of wrapped(text, room, 11.5)) { tall += 17; pen.text(line, 0, y + tall, { size: 11.5, fill: ink.soft }); }
    return tall + 22;
  },
  csv() {
    const { call } = scene, N = call.N, P = this.places(), heads = flat(headingKeys(call), N, call.d, scene.turn), u = flat(found.u, N, call.d, scene.turn), c = flat(found.c, N, call.dz, scene.axes);
    const out = [["i", "token", "x", "y", "heading_x", "heading_y", "mean_heading_x", "mean_heading_y", "centre_x", "centre_y", "density", "gate_align", "gate_sep", "gate_coh", "neighbours", `weight_from_${S.i}`]];
    for (let i = 0; i < N; i++) {
      const near = [...Array(N).keys()].filter((j) => found.near[i * N + j]).join(" ");
      out.push([i, scene.tokens[i], P[2 * i], P[2 * i + 1], heads[2 * i], heads[2 * i + 1], u[2 * i], u[2 * i + 1], c[2 * i], c[2 * i + 1], found.rho[i], ...RULE_TERMS.map((t) => found.gates[t][i]), near, found.weights[S.i * N + i]]);
    }
    return out;
  },
  says() {
    return say("says_flock", { scene: W[`scene_${scene.id}`], n: found.N, i: S.i, token: label(scene.tokens[S.i]), near: found.count[S.i], j: strongest(1)[0], weight: percent(found.weights[S.i * found.N + strongest(1)[0]]) });
  },
};

// The keys that the chosen token gives most to.
function strongest(n) {
  const N = found.N, e = S.i * N;
  return [...Array(N).keys()].filter((j) => found.V[e + j]).sort((a, b) => found.weights[e + b] - found.weights[e + a]).slice(0, n);
}
