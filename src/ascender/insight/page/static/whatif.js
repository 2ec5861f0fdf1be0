// What-if: a rule muted, and what becomes of the weights and of what the model says.
function outcomeRow(model) {
  const o = model.outcome;
  if (!o) return null;
  const last = (o.rows ?? o.moved?.[0] ?? o.values[0]).length - 1;
  return Math.max(0, Math.min(S.row, last));
}

function drawClasses(pen, model, room, y) {
  const o = model.outcome, at = outcomeRow(model), run = o.runs.indexOf(`no_${S.mute}`), row = o.rows[at], hits = [];
  const many = o.rows.length > 1, head = many ? say(o.next ? "after_token" : "at_token", { i: at, token: label(model.tokens[Math.min(at, model.N - 1)]) }) : W.whole;
  pen.text(fit(`${W.says} ${head}`, room, 13), 0, y, { size: 13, weight: 600 });
  y += 8;
  y += flow(pen, [{ text: W.as_is, dot: ink.soft }, ...(run > 0 ? [{ text: W[`no_${S.mute}`], dot: ink.accent }, { text: `${W.kl} ${o.kl[run][at]}`, fill: ink.soft }] : [])], 0, y + 12, room) + 12;
  const left = Math.min(130, room * 0.3), most = Math.max(...row.p[0], ...(run > 0 ? row.p[run] : [])), span = (room - left - 66) / most;
  row.ids.forEach((id, x) => {
    const due = o.target?.[at] === id;
    pen.text(fit((due ? "✓ " : "") + label(o.names[id]), left - 10, 12), left - 6, y + (run > 0 ? 15 : 11), { align: "right", weight: due ? 700 : 400 });
    const bars = run > 0 ? [0, run] : [0];
    bars.forEach((r, b) => {
      const p = row.p[r][x], top = y + b * 11;
      pen.rect(left, top + 2, Math.max(1, p * span), 9, { fill: b ? ink.accent : ink.soft });
      pen.text(p < 0.0001 ? p.toExponential(1) : p.toFixed(4), left + Math.max(1, p * span) + 5, top + 10, { size: 10, fill: ink.soft });
    });
    y += run > 0 ? 30 : 18;
  });
  return { y, hits };
}

function drawOutcome(pen, model, room, y) {
  const o = model.outcome;
  if (!o || (o.kind === "states" && o.runs.length < 2)) return y;
  const due = answer(model, outcomeRow(model))?.due ?? null;
  if (due !== null) { pen.text(fit(`${W.meant}: ${due}`, room, 12), 0, y, { size: 12, fill: ink.soft }); y += 22; }
  if (o.kind === "classes") return drawClasses(pen, model, room, y).y;
  const run = Math.max(0, o.runs.indexOf(`no_${S.mute}`)), at = outcomeRow(model);
  if (o.kind === "number") pen.text(`${W.says}: ${numeral(o.values[0][at])} → ${numeral(o.values[run][at])}`, 0, y, { size: 13, weight: 600 });
  else {
    pen.text(fit(`${W.states}: ${say("at_token", { i: at, token: label(model.tokens[at]) })}`, room, 13), 0, y, { size: 13, weight: 600 });
    y += 20;
    pen.text(`${W.moved_states} ${numeral(o.moved[run][at])}`, 0, y, { fill: ink.soft });
  }
  return y + 14;
}

// One bar a token: how much what is said there changes.
function drawTokens(pen, model, room, y, hits) {
  const o = model.outcome, run = o ? o.runs.indexOf(`no_${S.mute}`) : -1, change = run > 0 ? (o.kl ?? o.moved)?.[run] : null;
  if (!change || change.length < 2) return y;
  y = title(pen, o.kl ? W.kl_tokens : W.moved_tokens, y, room) + 10;
  const n = change.length, step = (room - 2) / n, top = Math.max(...change, 1e-12);
  pen.line([[0, y + 50], [room, y + 50]], { stroke: ink.line });
  change.forEach((v, i) => {
    pen.rect(i * step, y + 50 - (48 * v) / top, Math.max(step - 1, 0.7), (48 * v) / top, { fill: i === S.row ? ink.accent : ink.soft });
    hits.push({ x: i * step, y, w: step, h: 52, on: () => ({ kind: "token", i }) });
  });
  pen.text(`${W.most}: ${numeral(top)} (${change.indexOf(top)} ${label(model.tokens[change.indexOf(top)] ?? "")})`, 0, y + 66, { size: 10, fill: ink.soft });
  return y + 88;
}

function drawMoved(pen, model, room, y, hits) {
  const mute = model.mutes[S.mute], L = model.layers.length, H = Math.max(...model.layers.map((l) => l.heads.length));
  const t = Math.max(18, Math.min(46, Math.floor((room - 30) / H) - 3));
  const moved = mute.map((heads) => heads.map((h) => mean([...vector(h.moved)])));
  const top = Math.max(...moved.flat(), 1e-9);
  y = title(pen, W.moved_heads, y, room) + 10;
  for (let l = 0; l < L; l++)
    for (let h = 0; h < moved[l].length; h++) {
      const x = 30 + h * (t + 3), at = y + l * (t + 3), v = moved[l][h], chosen = l === S.layer && h === S.head;
      if (!h) pen.text(String(l), 22, at + t / 2 + 4, { size: 10, align: "right", fill: ink.soft });
      pen.rect(x, at, t, t, { fill: css(colour(v, top, false, false)), stroke: chosen ? ink.accent : ink.line, lw: chosen ? 2.5 : 1 });
      if (t >= 28) pen.text(v.toFixed(2).replace(/^0/, ""), x + t / 2, at + t / 2 + 4, { size: 10, align: "center", fill: (v / top > 0.5) === (theme() === "light") ? "#fff" : theme() === "light" || v / top > 0.5 ? "#222" : "#ddd" });
      hits.push({ x, y: at, w: t, h: t, on: () => ({ kind: "head", l, h }) });
    }
  return y + L * (t + 3) + 18;
}

const WhatIfView = {
  id: "whatif",
  controls(box) {
    if (!D.models.some((m) => m.rules)) return;
    choose(box, "mute", ["align", "sep", "coh", "aff", "all"].filter((r) => D.models.some((m) => m.mutes[r])).map((r) => [r, W[r === "all" ? "all_three" : r]]), "mute");
    choose(box, "where", [["everywhere", W.everywhere], ["alone", W.here_alone]], "where");
  },
  draw(pen, model, room) {
    const hits = [];
    let y = drawOutcome(pen, model, room, 16) + 12;
    if (!model.rules) {
      const more = empty({ ...pen, text: (s, x, at, o) => pen.text(s, x - 10, at + y, o) }, room, W.no_rules_mute);
      return { height: y + more.height, hits };
    }
    y = drawTokens(pen, model, room, y, hits);
    const made = headOf(model, S.layer, S.head, "flock"), N = model.N;
    let alone = S.where === "alone", after = mutedWeights(model, S.layer, S.head, S.mute, alone), note = alone ? W.alone_note : W.everywhere_note;
    if (!after && !alone) { after = mutedWeights(model, S.layer, S.head, S.mute, true); note = W.too_many_note; }
    if (after) {
      const change = after.map((v, e) => v - made.weights[e]), fits = shape(model, room, 3), root = S.curve === "root";
      const top = Math.max(made.top, high(after, made.V)), far = change.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
      pen.text(fit(`${W.weights}: ${W.layer} ${S.layer}, ${W.head} ${S.head}`, room, 13), 0, y + 4, { size: 13, weight: 600 });
      y = title(pen, note, y + 22, room, 11, { fill: ink.soft }) + 12;
      let tall = 0;
      [[made.weights, W.as_is, false, top], [after, W[`no_${S.mute}`], false, top], [change, W.change, true, far]].forEach(([a, name, sign, scale], at) => {
        const col = at % fits.cols;
        if (col === 0 && at) { y += tall + 10; tall = 0; }
        tall = Math.max(tall, matrix(pen, model, made, () => a, { ...fits, key: `${at}/${S.mute}/${alone || note === W.too_many_note}`, x: col * (fits.each + 14), y, name, scale, sign, root, hits }));
      });
      y += tall + 8;
      bar(pen, 0, y, Math.min(160, room / 2 - 20), 0, top, false, root);
      bar(pen, Math.min(160, room / 2 - 20) + 30, y, Math.min(160, room / 2 - 20), -far, far, true, root);
      y += 46;
    }
    y = drawMoved(pen, model, room, y, hits);
    return { height: y, hits };
  },
  csv() {
    const out = [["model", "muted", "what", "layer", "head", "i", "token", "class", "is_true", "as_is", "muted_value"]];
    for (const model of D.models) {
      const o = model.outcome;
      for (const rule of Object.keys(model.mutes)) {
        const run = o ? o.runs.indexOf(`no_${rule}`) : -1;
        model.mutes[rule].forEach((heads, l) => heads.forEach((head, h) => vector(head.moved).forEach((v, i) => out.push([model.name, rule, "weights_moved", l, h, i, model.tokens[i], "", "", 0, v]))));
        if (run > 0 && o.rows) o.rows.forEach((row, i) => row.ids.forEach((id, x) => out.push([model.name, rule, "probability", "", "", i, model.tokens[i] ?? "", o.names[id], o.target?.[i] === id ? 1 : 0, row.p[0][x], row.p[run][x]])));
        if (run > 0 && o.moved) o.moved[run].forEach((v, i) => out.push([model.name, rule, "state_moved", "", "", i, model.tokens[i], "", "", 0, v]));
        if (run > 0 && o.values) out.push([model.name, rule, "number", "", "", 0, "", "", "", o.values[0][0], o.values[run][0]]);
      }
    }
    return out;
  },
};
