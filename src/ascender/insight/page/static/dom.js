// Elements, and files to download.
const $ = (id) => document.getElementById(id);

function make(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

function button(box, text, on) {
  const b = make("button", { type: "button", textContent: text, onclick: on });
  box.append(b);
  return b;
}

function field(box, word, tag) {
  const input = make(tag), lab = make("label", {}, make("span", { textContent: W[word] ?? word }), input);
  box.append(lab);
  return input;
}

const clamp = (x, n) => ((x % n) + n) % n;

const quoted = (x) => (typeof x === "number" ? String(x) : `"${String(x).replaceAll('"', '""')}"`);

function give(name, data) {
  const link = make("a", { href: URL.createObjectURL(data), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csvOf = (rows) => new Blob(["\ufeff" + rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" });
