// A CSV of one's own as a scene: two columns are points, more are projected to their two main
// directions. Columns vx and vy are headings, a column of words names the points.
const MOST = 256;

function csvCells(text) {
  const first = text.split(/\r?\n/, 1)[0], sign = [",", ";", "\t"].reduce((a, b) => (first.split(b).length > first.split(a).length ? b : a));
  const rows = [[""]];
  let quotedNow = false;
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at++) {
    const c = text[at], row = rows.at(-1);
    if (c === '"') {
      if (quotedNow && text[at + 1] === '"') { row[row.length - 1] += '"'; at++; } else quotedNow = !quotedNow;
    } else if (!quotedNow && c === sign) row.push("");
    else if (!quotedNow && c === "\n") rows.push([""]);
    else if (c !== "\r" || quotedNow) row[row.length - 1] += c;
  }
  return rows.map((row) => row.map((cell) => cell.trim())).filter((row) => row.some((cell) => cell !== ""));
}

const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));

function csvScene(name, text) {
  let rows = csvCells(text);
  if (!rows.length) throw new Error(say("csv_empty", { name }));
  const header = rows.length > 1 && rows[0].every((cell) => !isNumber(cell)) ? rows.shift() : rows[0].map((_, c) => `${c + 1}`);
  const of = rows.length, names = header.map((h) => h.toLowerCase());
  rows = rows.slice(0, MOST);
  const numeric = header.map((_, c) => c).filter((c) => rows.every((row) => isNumber(row[c] ?? "")));
  const heads = ["vx", "vy"].map((v) => numeric.find((c) => names[c] === v)), headed = heads.every((c) => c !== undefined);
  const columns = numeric.filter((c) => !headed || !heads.includes(c)), words = header.findIndex((_, c) => !numeric.includes(c));
  if (columns.length < 2) throw new Error(say("csv_columns", { name, n: columns.length }));
  const N = rows.length, w = columns.length, x = standardised(rows, columns);
  const main = w > 2 ? mainAxes(x, N, w) : null, places = main ? flat(x, N, w, main.axes) : x;
  const size = Math.sqrt(places.reduce((s, p) => s + p * p, 0) / N) || 1, spread = 0.45 * Math.sqrt(N) / size;
  const random = randomFrom(1), angles = rows.map((row) => (headed ? Math.atan2(Number(row[heads[1]]), Number(row[heads[0]])) : 2 * Math.PI * random()));
  const labels = words < 0 ? [] : [...new Set(rows.map((row) => row[words]))], grouped = labels.length > 1 && labels.length <= 8;
  const note = () => say(main ? "csv_projected" : "csv_points", { name, rows: N, of, n: w, share: (100 * (main?.share ?? 1)).toFixed(0) }) + (headed ? "" : ` ${W.csv_headings}`);
  return planeScene({
    id: "csv", z: Array.from(places, (p) => p * spread), angles, h: main ? x : null, da: main ? w : 3, note,
    tokens: rows.map((row, i) => (words < 0 ? String(i) : row[words])), groups: grouped ? rows.map((row) => labels.indexOf(row[words])) : null, names: grouped ? labels : null,
  });
}

function standardised(rows, columns) {
  const N = rows.length, x = new Float64Array(N * columns.length);
  columns.forEach((c, at) => {
    const values = rows.map((row) => Number(row[c])), mid = mean(values), sd = Math.sqrt(mean(values.map((v) => (v - mid) ** 2))) || 1;
    values.forEach((v, i) => { x[i * columns.length + at] = (v - mid) / sd; });
  });
  return x;
}
