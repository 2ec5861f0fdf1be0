// Arrays and words of a page (pack.py says how arrays are written).
"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
let W = D.words; // play: of the language that is chosen
const NONE = 65535;

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

async function inflate(blob) {
  const stream = new Blob([bytesOf(blob.d)]).stream().pipeThrough(new DecompressionStream("deflate"));
  blob.bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  blob.d = null;
}

function blob(i) {
  const b = D.blobs[i];
  if (b.a) return b;
  const bytes = b.bytes || bytesOf(b.d);
  const n = b.n, m = b.m, size = n * m;
  if (b.t === "f4") b.a = new Float32Array(bytes.buffer, bytes.byteOffset, size);
  else if (b.t === "u1") b.a = bytes;
  else if (b.t === "b1") {
    const line = Math.ceil(m / 8);
    b.a = new Uint8Array(size);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++) b.a[i * m + j] = (bytes[i * line + (j >> 3)] >> (j & 7)) & 1;
  } else if (b.t === "u2") {
    b.a = new Uint16Array(size);
    for (let x = 0; x < size; x++) b.a[x] = bytes[x] | (bytes[size + x] << 8);
  } else {
    const scale = new Float32Array(bytes.slice(0, 4 * n).buffer), from = 4 * n;
    const wide = b.t === "i3";
    b.a = new Float32Array(size);
    for (let x = 0; x < size; x++) {
      const low = bytes[from + x] | (bytes[from + size + x] << 8);
      const whole = wide ? (((low | (bytes[from + 2 * size + x] << 16)) << 8) >> 8) : ((low << 16) >> 16);
      b.a[x] = whole * scale[Math.floor(x / m)];
    }
  }
  b.d = b.bytes = null;
  return b;
}

const vector = (i) => (i === undefined || i === null ? null : blob(i).a);

const numeral = (x) => (x === 0 ? "0" : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? x.toFixed(4) : x.toExponential(3));
const mean = (a) => a.reduce((s, x) => s + x, 0) / Math.max(a.length, 1);
const say = (word, values = {}) => Object.entries(values).reduce((s, [k, v]) => s.replaceAll(`{${k}}`, v), W[word] ?? word);
const label = (token) => token.trim() || "␣";
