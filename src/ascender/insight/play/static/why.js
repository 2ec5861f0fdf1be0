// One pair, term by term; and what flock scope leaves out.
const WhyPanel = {
  draw(pen, room) {
    const hits = [], name = (i) => fit(nameOf(i), 160, 15);
    let y = title(pen, say("why_pair", { i: name(S.i), j: name(S.j) }), 18, room, 15) + 24;
    y = this.pair(pen, y, room);
    y = this.row(pen, y + 20, room, hits);
    y = this.scope(pen, y + 26, room);
    return { height: y + 8, hits };
  },
  // Of a key that flock scope drops: the terms that it has where everything is visible.
  pair(pen, y, room) {
    const N = found.N, e = S.i * N + S.j, terms = shownTerms(), inside = found.V[e];
    if (!found.all[e]) { pen.text(W.hidden, 0, y, { size: 13, fill: ink.soft }); return y + 10; }
    const f = inside ? found : attend(scene.call, { ...found.rules, scope: "visible" });
    if (!inside) { for (const line of wrapped(W.dropped_pair, room, 13)) { pen.text(line, 0, y, { size: 13 }); y += 18; } }
    const [left, right] = reach(f, terms, [e]), unit = (room - 2) / (right - left), x0 = 1 - left * unit, end = stacked(pen, f, terms, e, x0, y, 30, unit);
    pen.line([[x0, y - 4], [x0, y + 34]], { stroke: ink.text, lw: 1 });
    pen.line([[end, y - 4], [end, y + 34]], { stroke: ink.text, lw: 3 });
    const signed = (v) => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(3), items = terms.map((t) => ({ text: `${W[t]} ${signed(f.terms[t][e])}`, dot: RULE[t] }));
    const tau = f.rules.tau_score, by = tau === 1 ? "" : ` (÷ τ = ${tau.toFixed(3)})`;
    items.push({ text: `${W.total} ${signed(f.total[e])}${by}`, weight: 700 }, { text: `${W.weight} ${percent(f.weights[e], 2)}`, weight: 700 });
    if (inside) items.push({ text: `${W.weight_plain} ${percent(withoutThem().weights[e], 2)}`, fill: ink.soft });
    return y + 54 + flow(pen, items, 0, y + 56, room, 13);
  },
  row(pen, y, room, hits) {
    const N = found.N, keys = strongest(10), terms = shownTerms();
    if (found.V[S.i * N + S.j] && !keys.includes(S.j)) keys.push(S.j);
    y = title(pen, say("why_row", { i: nameOf(S.i) }), y + 12, room, 13) + 12;
    const wide = Math.min(110, room * 0.26), end = 56, [left, right] = reach(found, terms, keys.map((j) => S.i * N + j)), unit = (room - wide - end - 8) / (right - left);
    for (const j of keys) {
      const e = S.i * N + j, x0 = wide - left * unit;
      if (j === S.j) pen.rect(0, y - 2, room, 22, { fill: ink.accent, alpha: 0.14 });
      pen.text(fit(nameOf(j), wide - 8, 12), 0, y + 13, { size: 12, weight: j === S.j ? 700 : 400 });
      const x = stacked(pen, found, terms, e, x0, y + 2, 14, unit);
      pen.line([[x, y], [x, y + 18]], { stroke: ink.text, lw: 2 });
      pen.text(percent(found.weights[e]), room, y + 13, { size: 12, align: "right" });
      hits.push({ x: 0, y: y - 2, w: room, h: 22, j });
      y += 22;
    }
    return y;
  },
  // What flock scope drops: keys, the weight they would have had, FLOPs.
  numbers() {
    const N = found.N, r = found.rules, flock = r.scope === "flock" ? found : attend(scene.call, { ...r, scope: "flock" }), whole = r.scope === "flock" ? attend(scene.call, { ...r, scope: "visible" }) : found;
    const kept = [...Array(N).keys()].map((i) => { let s = 0; for (let e = i * N; e < (i + 1) * N; e++) if (flock.V[e]) s += whole.weights[e]; return s; });
    const row = [...Array(N).keys()].filter((j) => whole.V[S.i * N + j]), dropped = row.filter((j) => !flock.V[S.i * N + j]).sort((a, b) => whole.weights[S.i * N + b] - whole.weights[S.i * N + a]);
    return { flock, whole, kept, row, dropped, few: flopsOf(scene.call, flock), all: flopsOf(scene.call, whole), missed: 1 - kept[S.i], missedMean: 1 - mean(kept) };
  },
  scope(pen, y, room) {
    const n = this.numbers(), { few, all } = n, inside = n.row.length - n.dropped.length;
    const line = (text, o = {}) => { for (const part of wrapped(text, room, 12.5)) { pen.text(part, 0, y, { size: 12.5, ...o }); y += 17; } };
    y = title(pen, W.why_scope, y, room, 13) + 20;
    line(say("scope_keys", { i: S.i, inside, all: n.row.length, m: found.rules.far, w: found.rules.window }));
    line(say("scope_mass", { missed: percent(n.missed), mean: percent(n.missedMean) }));
    shareBar(pen, 0, y - 6, room, 10, 1 - n.missed, ink.accent);
    y += 22;
    const N = found.N, top = n.dropped.slice(0, 8).map((j) => `${fit(nameOf(j), 90, 12)}: ${percent(n.whole.weights[S.i * N + j])}`);
    line(top.length ? `${W.scope_dropped} ${top.join(" · ")}${n.dropped.length > 8 ? " …" : ""}` : W.scope_none, { fill: ink.soft });
    y += 4;
    const a = all.attend + all.search, b = few.attend + few.search, most = Math.max(a, b, all.plain);
    line(say("scope_flops", { flock: big(b), visible: big(a), saved: percent(1 - b / a, 0) }));
    for (const [word, own, search] of [["flops_visible", all.attend, all.search], ["flops_flock", few.attend, few.search], ["flops_plain", all.plain, 0]]) {
      const wide = Math.min(170, room * 0.4), unit = (room - wide - 62) / most;
      pen.text(fit(W[word], wide - 6, 12), 0, y + 4, { size: 12 });
      pen.rect(wide, y - 6, own * unit, 12, { fill: RULE.base });
      pen.rect(wide + own * unit, y - 6, search * unit, 12, { fill: RULE.aff });
      pen.text(big(own + search), room, y + 4, { size: 12, align: "right" });
      y += 20;
    }
    return y + flow(pen, [{ text: W.flops_pairs, dot: RULE.base }, { text: W.flops_search, dot: RULE.aff }], 0, y + 8, room, 11.5) + 6;
  },
  csv() {
    const N = found.N, n = this.numbers(), names = TERMS, out = [["i", "token_i", "j", "token_j", "in_flock", ...names, "total", "weight", "weight_without_rules", "weight_with_all_visible"]];
    for (const j of n.row) {
      const e = S.i * N + j;
      out.push([S.i, scene.tokens[S.i], j, scene.tokens[j], n.flock.V[e], ...names.map((t) => found.terms[t][e]), found.total[e], found.weights[e], withoutThem().weights[e], n.whole.weights[e]]);
    }
    return out;
  },
  says() {
    const e = S.i * found.N + S.j, terms = shownTerms().map((t) => `${W[t]} ${found.terms[t][e].toFixed(3)}`).join(", ");
    return say("says_why", { i: S.i, j: S.j, terms, weight: percent(found.weights[e], 2) });
  },
};
