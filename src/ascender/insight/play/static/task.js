// Few-shot digits: both trained models on the same episodes, side by side.
const VARIANTS = ["ascender", "vanilla"];

const TaskPanel = {
  history: [], drawn: null, kept: null,
  reset() { this.history = []; this.drawn = null; this.kept = null; S.episode = 1; this.meet(); },
  // The episode that is shown: held-out pictures, the query perhaps drawn by hand.
  now() {
    const key = `${S.episode}/${S.models}`;
    if (this.kept?.key !== key) this.kept = { key, ...episode(S.episode) };
    if (!this.drawn) return this.kept;
    return { ...this.kept, answer: null, pictures: [...this.kept.pictures.slice(0, -1), this.drawn] };
  },
  ask(e) { return Object.fromEntries(VARIANTS.map((name) => [name, forward(Digits.models[`${name}-${S.models}`], e.pictures, e.ids)])); },
  // Counts an episode once; drawn digits have no true answer and do not count.
  meet() {
    const e = this.now(), said = this.ask(e);
    this.said = { e, ...Object.fromEntries(VARIANTS.map((name) => [name, { shares: shares(said[name].logits), seen: this.seen(said[name].layers) }])) };
    if (e.answer === null || this.history.some((h) => h.seed === e.seed)) return;
    this.history.push({ seed: e.seed, answer: e.answer, ...Object.fromEntries(VARIANTS.map((name) => [name, this.said[name].shares.indexOf(Math.max(...this.said[name].shares))])) });
  },
  // What the query attends to in the last layer, the mean of its heads.
  seen(layers) {
    const heads = layers.at(-1), N = heads[0].call.N;
    return Array.from({ length: N }, (_, j) => mean(heads.map((h) => h.found.weights[(N - 1) * N + j])));
  },
  next(n = 1) {
    this.drawn = null;
    for (let i = 0; i < n; i++) { S.episode++; this.meet(); }
  },
  draw(pen, room) {
    if (!this.said) this.meet();
    const hits = [];
    let y = this.context(pen, room, hits);
    y = this.answers(pen, y + 14, room);
    y = this.running(pen, y + 26, room);
    return { height: y + 6, hits };
  },
  context(pen, room, hits) {
    const { e } = this.said, N = e.ids.length, ways = Digits.record.options.ways, cols = room < 620 ? 5 : N, gap = 10, side = Math.min(84, Math.floor((room - gap * (cols - 1)) / cols)), each = side + 58;
    let y = title(pen, say("task_question", { n: ways }), 16, room, 14) + 12;
    e.ids.forEach((id, i) => {
      const x = (i % cols) * (side + gap), top = y + Math.floor(i / cols) * each, query = i === N - 1;
      pen.text(query ? "?" : id === 0 ? W.no_name : String(id), x + side / 2, top + 14, { size: id === 0 ? 11 : 15, weight: id === 0 ? 400 : 700, align: "center", fill: query ? ink.accent : id === 0 ? ink.soft : ink.text });
      pen.image(() => shaded(e.pictures[i], SIDE, SIDE), x, top + 20, side, side);
      pen.rect(x, top + 20, side, side, { stroke: query ? ink.accent : ink.line, lw: query ? 3 : 1 });
      VARIANTS.forEach((name, v) => shareBar(pen, x, top + side + 26 + 9 * v, side, 6, this.said[name].seen[i], this.colour(name)));
      hits.push({ x, y: top + 20, w: side, h: side, token: i });
    });
    y += Math.ceil(N / cols) * each;
    return y + flow(pen, [{ text: W.task_looks, fill: ink.soft }, ...VARIANTS.map((name) => ({ text: W[name], dot: this.colour(name) }))], 0, y + 8, room, 11.5);
  },
  colour: (name) => (name === "vanilla" ? ink.text : tone(D.variants[name])),
  answers(pen, y, room) {
    const { e } = this.said, ways = Digits.record.options.ways, cols = room < 560 ? 1 : 2, wide = (room - 24 * (cols - 1)) / cols;
    VARIANTS.forEach((name, v) => {
      const x = (v % cols) * (wide + 24), top = y + (cols === 1 ? v * (ways * 24 + 34) : 0), said = this.said[name].shares, best = said.indexOf(Math.max(...said));
      const right = e.answer === null ? "" : best === e.answer ? ` ✓ ${W.right}` : ` ✗ ${W.wrong}`;
      pen.text(`${W[name]}: ${best + 1}${right}`, x, top + 14, { size: 14, weight: 700 });
      said.forEach((p, w) => {
        const line = top + 24 + 24 * w;
        pen.text(`${w + 1}${w === e.answer ? " ←" : ""}`, x, line + 13, { size: 12.5 });
        shareBar(pen, x + 34, line + 2, wide - 90, 14, p, this.colour(name));
        pen.text(percent(p), x + wide, line + 13, { size: 12.5, align: "right" });
      });
    });
    return y + (cols === 1 ? 2 * (ways * 24 + 34) : ways * 24 + 28);
  },
  accuracy(name) { return this.history.filter((h) => h[name] === h.answer).length / Math.max(1, this.history.length); },
  // Accuracy so far with Wilson's 95% interval.
  interval(name) {
    const n = this.history.length, p = this.accuracy(name), z2 = 1.96 ** 2, mid = (p + z2 / (2 * n)) / (1 + z2 / n), half = (1.96 / (1 + z2 / n)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
    return [mid - half, Math.min(1, mid + half)];
  },
  running(pen, y, room) {
    const n = this.history.length, tall = 150, left = 40, wide = room - left - 8, chance = 1 / Digits.record.options.ways;
    y = title(pen, say("task_running", { n }), y, room, 13) + 14;
    const py = (p) => y + tall * (1 - p), px = (i) => left + (n < 2 ? 0 : (wide * i) / (n - 1));
    for (const p of [0, 0.5, 1]) { pen.line([[left, py(p)], [left + wide, py(p)]], { stroke: ink.line }); pen.text(percent(p, 0), left - 6, py(p) + 4, { size: 11, align: "right", fill: ink.soft }); }
    pen.line([[left, py(chance)], [left + wide, py(chance)]], { stroke: ink.soft, dash: [5, 4] });
    pen.text(W.chance, left + 4, py(chance) - 4, { size: 11, fill: ink.soft });
    for (const name of VARIANTS) {
      let right = 0;
      const points = this.history.map((h, i) => [px(i), py((right += h[name] === h.answer ? 1 : 0) / (i + 1))]);
      if (points.length === 1) pen.circle(...points[0], 3, { fill: this.colour(name) });
      else pen.line(points, { stroke: this.colour(name), lw: 2, dash: name === "vanilla" ? [6, 3] : undefined });
    }
    const items = !n ? [] : VARIANTS.map((name) => { const [low, high] = this.interval(name); return { text: `${W[name]} ${percent(this.accuracy(name))} [${percent(low)}, ${percent(high)}]`, dot: this.colour(name) }; });
    return y + tall + flow(pen, items, 0, y + tall + 20, room, 12.5) + 8;
  },
  csv() {
    return [["episode", "true", ...VARIANTS, ...VARIANTS.map((name) => `${name}_right`)], ...this.history.map((h) => [h.seed, h.answer + 1, ...VARIANTS.map((v) => h[v] + 1), ...VARIANTS.map((v) => (h[v] === h.answer ? 1 : 0))])];
  },
  says() {
    const best = (name) => this.said[name].shares.indexOf(Math.max(...this.said[name].shares)) + 1;
    return say("says_task", { n: this.history.length, a: best("ascender"), v: best("vanilla"), pa: percent(this.accuracy("ascender")), pv: percent(this.accuracy("vanilla")) });
  },
  // Held-out accuracy by the project's own evaluation, whoever is ahead.
  record(box) {
    const R = Digits.record, table = make("table", { id: "heldout" }), seeds = [...new Set(R.models.map((m) => m.seed))];
    table.append(make("tr", {}, make("th"), ...VARIANTS.map((name) => make("td", { textContent: W[name] }))));
    for (const seed of seeds) {
      const of = (name) => R.models.find((m) => m.variant === name && m.seed === seed);
      table.append(make("tr", {}, make("th", { textContent: say("seed_n", { n: seed }) }), ...VARIANTS.map((name) => make("td", { textContent: percent(of(name).accuracy) }))));
    }
    const own = (name) => R.models.find((m) => m.variant === name);
    table.append(make("tr", {}, make("th", { textContent: W.parameters }), ...VARIANTS.map((name) => make("td", { textContent: own(name).parameters.toLocaleString("en") }))));
    box.append(make("h2", { textContent: W.heldout }), table);
    for (const d of R.differences) {
      const verdict = d.low > 0 ? "ahead_ascender" : d.high < 0 ? "ahead_vanilla" : "ahead_none", points = (x) => minus((100 * x).toFixed(1));
      box.append(make("p", { className: "remark", textContent: say(verdict, { n: d.seed, mean: points(d.mean), low: points(d.low), high: points(d.high) }) }));
    }
    box.append(make("p", { className: "remark", textContent: say("heldout_how", { n: own("vanilla").n.toLocaleString("en"), steps: R.settings.steps.toLocaleString("en"), width: R.settings.hidden, layers: R.settings.layers }) }));
  },
};
