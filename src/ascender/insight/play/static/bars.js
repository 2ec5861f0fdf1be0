// Colours of terms as lines and arrows: lighter where the page is dark.
function tone(colour) {
  if (theme() !== "dark") return colour;
  const part = (at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * 0.55 + 255 * 0.45);
  return `rgb(${part(1)},${part(3)},${part(5)})`;
}

// Bars of named terms, side by side or stacked from 0.
const shownTerms = () => TERMS.filter((t) => ["base", ...RULE_TERMS].includes(t) || found.terms[t].some((x) => x));
const minus = (text) => text.replace("-", "−");
const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)}%`;

// What a token is called beside its number, where that is not its name.
const nameOf = (i) => (label(scene.tokens[i]) === String(i) ? String(i) : `${i} ${label(scene.tokens[i])}`);
const big = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(2)} M` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} k` : String(Math.round(n)));

// The terms of a cell of what was found, to the right and left of 0; returns where the sum ends.
function stacked(pen, f, terms, e, x0, y, tall, unit) {
  let up = 0, down = 0;
  for (const name of terms) {
    const v = f.terms[name][e];
    if (!v) continue;
    const from = v > 0 ? up : down + v;
    pen.rect(x0 + from * unit, y, Math.abs(v) * unit, tall, { fill: RULE[name] });
    if (v > 0) up += v; else down += v;
  }
  return x0 + (up + down) * unit;
}

// How far terms reach from 0 over these cells: [left, right].
function reach(f, terms, cells) {
  let left = 0, right = 1e-9;
  for (const e of cells) {
    let up = 0, down = 0;
    for (const name of terms) { const v = f.terms[name][e]; if (v > 0) up += v; else down += v; }
    right = Math.max(right, up);
    left = Math.min(left, down);
  }
  return [left, right];
}

// A share as a bar with its rest in another colour.
function shareBar(pen, x, y, w, tall, share, fill, rest = ink.line) {
  pen.rect(x, y, w, tall, { fill: rest });
  pen.rect(x, y, w * Math.max(0, Math.min(1, share)), tall, { fill });
}

function faceOf(of, i) {
  of.kept ??= new Map();
  if (!of.kept.has(i)) of.kept.set(i, shaded(of.of(i), of.w, of.h));
  return of.kept.get(i);
}

// Shades in [0, 1] as a small picture, dark ink on paper in either theme.
function shaded(values, w, h) {
  const c = make("canvas", { width: w, height: h }), ctx = c.getContext("2d"), image = ctx.createImageData(w, h), out = new Uint32Array(image.data.buffer);
  for (let e = 0; e < w * h; e++) { const g = Math.round(255 * (1 - values[e])); out[e] = ((255 << 24) | (g << 16) | (g << 8) | g) >>> 0; }
  ctx.putImageData(image, 0, 0);
  return c;
}
