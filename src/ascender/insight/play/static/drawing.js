// A digit of one's own: 32 × 32 points by pointer, or blocks of 4 × 4 by keyboard.
const Drawing = {
  ink: new Uint8Array(1024), at: [3, 3], last: null,
  open(box, done) {
    const canvas = make("canvas", { width: 192, height: 192, tabIndex: 0, id: "draw" });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", W.draw_here);
    this.canvas = canvas;
    const point = (e) => { const r = canvas.getBoundingClientRect(); return [((e.clientX - r.left) / r.width) * 32, ((e.clientY - r.top) / r.height) * 32]; };
    canvas.onpointerdown = (e) => { canvas.setPointerCapture(e.pointerId); this.last = point(e); this.line(this.last, this.last); this.paint(); };
    canvas.onpointermove = (e) => { if (!this.last) return; const to = point(e); this.line(this.last, to); this.last = to; this.paint(); };
    canvas.onpointerup = canvas.onpointercancel = () => { if (this.last) done(); this.last = null; };
    canvas.onkeydown = (e) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
      if (by) this.at = this.at.map((v, a) => clamp(v + by[a], SIDE));
      else if (e.key === " " || e.key === "Enter") { this.flip(); done(); } else return;
      e.preventDefault();
      e.stopPropagation();
      this.paint();
    };
    canvas.onfocus = canvas.onblur = () => this.paint();
    box.append(canvas);
    this.paint();
  },
  line([x0, y0], [x1, y1]) {
    const steps = Math.ceil(2 * Math.hypot(x1 - x0, y1 - y0)) + 1;
    for (let s = 0; s <= steps; s++) {
      const cx = x0 + ((x1 - x0) * s) / steps, cy = y0 + ((y1 - y0) * s) / steps;
      for (let y = 0; y < 32; y++) for (let x = 0; x < 32; x++) if (Math.hypot(x + 0.5 - cx, y + 0.5 - cy) < 2.8) this.ink[32 * y + x] = 1;
    }
  },
  flip() {
    const [bx, by] = this.at, on = this.ink[32 * (4 * by) + 4 * bx] ? 0 : 1;
    for (let y = 4 * by; y < 4 * by + 4; y++) this.ink.fill(on, 32 * y + 4 * bx, 32 * y + 4 * bx + 4);
  },
  clear() { this.ink.fill(0); this.paint(); },
  empty() { return !this.ink.some((x) => x); },
  paint() {
    const ctx = this.canvas?.getContext("2d");
    if (!ctx) return;
    ctx.fillStyle = "#fff";
    ctx.fillRect(0, 0, 192, 192);
    ctx.fillStyle = "#000";
    for (let e = 0; e < 1024; e++) if (this.ink[e]) ctx.fillRect(6 * (e % 32), 6 * (e >> 5), 6, 6);
    if (this.canvas.matches(":focus-visible")) { ctx.strokeStyle = "#8a2be2"; ctx.lineWidth = 2; ctx.strokeRect(24 * this.at[0] + 1, 24 * this.at[1] + 1, 22, 22); }
  },
};
