// Five steps on the first visit; what is told of stands framed. Dismissed once, it stays away.
const STEPS = [["flock", "picture"], ["flock", "step"], ["flock", "side"], ["task", "picture"], ["why", "picture"]];
const SEEN = "ascender-play-tour";
const stored = (key, value) => { try { return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value); } catch { return null; } };

const Tour = {
  at: -1,
  begin() { this.back = document.activeElement; this.show(0); },
  show(at) {
    this.at = at;
    document.querySelectorAll(".told").forEach((node) => node.classList.remove("told"));
    const box = $("tour");
    if (at < 0 || at >= STEPS.length) {
      this.at = -1;
      box.hidden = true;
      stored(SEEN, "1");
      this.back?.focus?.();
      return;
    }
    const [panel, target] = STEPS[at];
    if (S.panel !== panel) show(panel);
    $(target)?.classList.add("told");
    $(target)?.scrollIntoView?.({ block: "nearest" });
    box.replaceChildren(
      make("p", { className: "count", textContent: `${at + 1} / ${STEPS.length}` }),
      make("h2", { textContent: W[`tour_${at + 1}`] }), make("p", { textContent: W[`tour_${at + 1}_text`] }), make("div", { className: "chips" }),
    );
    const row = box.lastChild, next = at + 1 < STEPS.length;
    button(row, W.tour_skip, () => this.show(-1)).id = "tour-skip";
    if (at) button(row, W.tour_back, () => this.show(at - 1));
    const on = button(row, next ? W.tour_next : W.tour_done, () => this.show(next ? at + 1 : -1));
    on.id = "tour-next";
    on.className = "main";
    box.hidden = false;
    on.focus({ preventScroll: true });
  },
};
