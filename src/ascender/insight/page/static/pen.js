// One way to draw, on a canvas or into SVG; colours of the theme.
const DIVERGING = { low: [33, 102, 172], high: [178, 71, 10] }, FULL = { light: [76, 29, 120], dark: [250, 204, 90] };
const RULE = D.colours; // of the terms: as in the figures, in either theme
const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans KR", "Malgun Gothic", sans-serif';
let ink = {};

function readTheme() {
  const css = getComputedStyle(document.documentElement), dark = theme() === "dark";
  ink = Object.fromEntries(["text", "soft", "line", "page", "card", "accent"].map((n) => [n, css.getPropertyValue(`--${n}`).trim()]));
  const zero = dark ? [30, 33, 40] : [255, 255, 255];
  const low = dark ? [96, 170, 240] : DIVERGING.low, high = dark ? [255, 150, 70] : DIVERGING.high;
  ink.lut = new Uint32Array(512);
  ink.full = new Uint32Array(256);
  ink.zero = zero;
  for (let x = 0; x < 512; x++) ink.lut[x] = mixed(zero, x < 256 ? low : high, Math.abs(x - 255.5) / 255.5);
  for (let x = 0; x < 256; x++) ink.full[x] = mixed(zero, dark ? FULL.dark : FULL.light, x / 255);
  ink.none = mixed(dark ? [22, 24, 29] : [238, 240, 243], zero, 0);
}

function mixed(a, b, t) {
  const [r, g, bl] = a.map((x, i) => Math.round(x + (b[i] - x) * t));
  return ((255 << 24) | (bl << 16) | (g << 8) | r) >>> 0;
}
const css = (c) => `rgb(${c & 255},${(c >> 8) & 255},${(c >> 16) & 255})`;
const theme = () => document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

const pictures = new Map(), PICTURES = 160;

// A matrix as a picture, kept by its key; scale: what is fully coloured. sign: diverging, else from 0.
function picture(key, values, V, N, scale, sign, root) {
  key = [key, scale, sign, root, theme()].join("/");
  const kept = pictures.get(key) ?? painted(values(), V, N, scale, sign, root);
  pictures.delete(key);
  pictures.set(key, kept);
  if (pictures.size > PICTURES) pictures.delete(pictures.keys().next().value);
  return kept;
}

const VEIL = 0x70808080; // half-transparent grey, as bytes of a pixel

function painted(a, V, N, scale, sign, root) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = N;
  const ctx = canvas.getContext("2d"), image = ctx.createImageData(N, N), out = new Uint32Array(image.data.buffer);
  const veil = scale === "veil"; // grey where a is 1, else nothing
  for (let e = 0; e < N * N; e++) out[e] = veil ? (a[e] ? VEIL : 0) : V && !V[e] ? ink.none : colour(a[e], scale, sign, root);
  ctx.putImageData(image, 0, 0);
  return canvas;
}

function colour(x, scale, sign, root) {
  let t = Math.min(Math.abs(x) / (scale || 1), 1);
  if (root) t = Math.sqrt(t);
  if (!sign) return ink.full[Math.round(t * 255)];
  return ink.lut[x < 0 ? 255 - Math.round(t * 255) : 256 + Math.round(t * 255)];
}

class CanvasPen {
  constructor(ctx, ox = 0, oy = 0) { this.ctx = ctx; this.ox = ox; this.oy = oy; }
  style(o) {
    const c = this.ctx;
    c.globalAlpha = o.alpha ?? 1;
    c.lineWidth = o.lw ?? 1;
    c.setLineDash(o.dash ?? []);
  }
  finish(o) {
    const c = this.ctx;
    if (o.fill) { c.fillStyle = o.fill; c.fill(); }
    if (o.stroke) { c.strokeStyle = o.stroke; c.stroke(); }
    c.globalAlpha = 1;
  }
  rect(x, y, w, h, o = {}) { this.style(o); this.ctx.beginPath(); this.ctx.rect(x + this.ox, y + this.oy, w, h); this.finish(o); }
  circle(x, y, r, o = {}) { this.style(o); this.ctx.beginPath(); this.ctx.arc(x + this.ox, y + this.oy, r, 0, 7); this.finish(o); }
  line(points, o = {}) {
    this.style(o);
    this.ctx.beginPath();
    points.forEach(([x, y], i) => this.ctx[i ? "lineTo" : "moveTo"](x + this.ox, y + this.oy));
    this.finish(o);
  }
  text(s, x, y, o = {}) {
    const c = this.ctx;
    c.save();
    c.globalAlpha = o.alpha ?? 1;
    c.translate(x + this.ox, y + this.oy);
    if (o.turn) c.rotate((o.turn * Math.PI) / 180);
    c.font = `${o.weight ?? 400} ${o.size ?? 12}px ${FONT}`;
    c.fillStyle = o.fill ?? ink.text;
    c.textAlign = o.align ?? "left";
    c.textBaseline = "alphabetic";
    if (o.halo) { c.strokeStyle = ink.card; c.lineWidth = 3; c.lineJoin = "round"; c.strokeText(s, 0, 0); }
    c.fillText(s, 0, 0);
    c.restore();
  }
  image(make, x, y, w, h) {
    const canvas = make();
    this.ctx.imageSmoothingEnabled = canvas.width > w * (devicePixelRatio || 1);
    this.ctx.imageSmoothingQuality = "high";
    this.ctx.drawImage(canvas, x + this.ox, y + this.oy, w, h);
  }
}

const xml = (s) => String(s).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");

class SvgPen {
  constructor() { this.out = []; this.ox = this.oy = 0; }
  look(o) {
    const dash = o.dash ? ` stroke-dasharray="${o.dash.join(" ")}"` : "", alpha = o.alpha === undefined ? "" : ` opacity="${o.alpha.toFixed(3)}"`;
    return ` fill="${o.fill ?? "none"}" stroke="${o.stroke ?? "none"}" stroke-width="${o.lw ?? 1}"${dash}${alpha}`;
  }
  at(x, y) { return [(x + this.ox).toFixed(2), (y + this.oy).toFixed(2)]; }
  rect(x, y, w, h, o = {}) { const [a, b] = this.at(x, y); this.out.push(`<rect x="${a}" y="${b}" width="${Math.max(w, 0).toFixed(2)}" height="${Math.max(h, 0).toFixed(2)}"${this.look(o)}/>`); }
  circle(x, y, r, o = {}) { const [a, b] = this.at(x, y); this.out.push(`<circle cx="${a}" cy="${b}" r="${r.toFixed(2)}"${this.look(o)}/>`); }
  line(points, o = {}) { this.out.push(`<polyline points="${points.map(([x, y]) => this.at(x, y).join(",")).join(" ")}"${this.look(o)}/>`); }
  text(s, x, y, o = {}) {
    const [a, b] = this.at(x, y), anchor = { left: "start", right: "end", center: "middle" }[o.align ?? "left"];
    const turn = o.turn ? ` transform="rotate(${o.turn} ${a} ${b})"` : "", alpha = o.alpha === undefined ? "" : ` opacity="${o.alpha}"`;
    this.out.push(`<text x="${a}" y="${b}" font-size="${o.size ?? 12}" font-weight="${o.weight ?? 400}" fill="${o.fill ?? ink.text}" text-anchor="${anchor}"${turn}${alpha}>${xml(s)}</text>`);
  }
  image(make, x, y, w, h) {
    const [a, b] = this.at(x, y);
    this.out.push(`<image x="${a}" y="${b}" width="${w}" height="${h}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${make().toDataURL()}"/>`);
  }
  done(w, h) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="${xml(FONT)}"><rect width="100%" height="100%" fill="${ink.card}"/>${this.out.join("")}</svg>`;
  }
}

class NoPen { rect() {} circle() {} line() {} text() {} image() {} }

const ruler = document.createElement("canvas").getContext("2d");
function width(s, size = 12, weight = 400) { ruler.font = `${weight} ${size}px ${FONT}`; return ruler.measureText(s).width; }
function fit(s, room, size = 12) {
  if (width(s, size) <= room) return s;
  const letters = [...s];
  while (letters.length > 1 && width(letters.join("") + "…", size) > room) letters.pop();
  return letters.join("") + "…";
}

function arrow(pen, x, y, dx, dy, o) {
  const long = Math.hypot(dx, dy);
  if (long < 2) return;
  const ex = x + dx, ey = y + dy, ux = dx / long, uy = dy / long;
  pen.line([[x, y], [ex, ey]], o);
  pen.line([[ex - 4 * ux + 2.5 * uy, ey - 4 * uy - 2.5 * ux], [ex, ey], [ex - 4 * ux - 2.5 * uy, ey - 4 * uy + 2.5 * ux]], o);
}

// A heading in as many lines as it takes; returns where it ends.
function title(pen, text, y, room, size = 12, o = { weight: 600 }) {
  for (const line of wrapped(text, room, size)) { pen.text(line, 0, y, { size, ...o }); y += size + 4; }
  return y - size - 4;
}

function wrapped(text, room, size) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && width(lines.at(-1) + word, size, 600) > room) lines.push("");
    lines[lines.length - 1] += word + " ";
  }
  return lines;
}

// Words side by side, in as many lines as it takes; returns the height.
function flow(pen, items, x, y, room, size = 12) {
  let at = x, line = y;
  for (const { text, dot, fill, weight } of items) {
    const w = (dot ? 14 : 0) + width(text, size, weight ?? 400) + 14;
    if (at > x && at + w - 14 > x + room) { at = x; line += size + 7; }
    if (dot) pen.rect(at, line - 9, 10, 10, { fill: dot });
    pen.text(fit(text, room - (dot ? 14 : 0), size), at + (dot ? 14 : 0), line, { size, fill: fill ?? ink.text, weight });
    at += w;
  }
  return line + 8 - y;
}
