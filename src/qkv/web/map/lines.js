// <qkv-lines>: one token, and lines to the tokens it attends to or that attend to it, as wide as their weights. A mixer's lines
// are relative to the largest and red below 0.

import { choice, excuse, h, markOld, refill, svg, token, weight } from "../core/dom.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";
import { partOf, unitAt, view } from "../core/view.js";

/** @import { Row, Unit, View } from "../core/view.js" */

const MOST = 24; // tokens of the far side of a long text
const AROUND = 7; // tokens shown on either side of the chosen one
const STEP = 26; // pixels from token to token

export class Lines extends HTMLElement {
  asked = 0;
  ends = new AbortController();

  connectedCallback() {
    this.ends = new AbortController();
    state.listen((changed) => {
      if (changed.has("shown") && this.firstChild) markOld(this, true);
      if (!["theme", "zoom"].some((name) => changed.size === 1 && changed.has(name))) void this.render();
    }, this.ends.signal);
    void this.render();
  }

  disconnectedCallback() {
    this.ends.abort();
    this.asked++;
  }

  async render() {
    const mine = ++this.asked;
    try {
      await this.fill(mine);
    } catch (error) {
      if (mine === this.asked) this.frame(h("p", { class: "help" }, excuse(state.now.lang, error)));
    }
  }

  /** @param {number} mine */
  async fill(mine) {
    const { lang, way, query, key } = state.now;
    if (!this.firstChild) this.frame(h("p", { class: "help" }, say(lang, "computing…")));
    const seen = await view();
    await seen.ready;
    if (mine !== this.asked) return;
    if (seen.pooled) return this.frame(h("p", { class: "help" }, say(lang, "This layer is here as an overview only.")));
    const from = way === "from";
    const near = from ? seen.queries : seen.keys,
      far = from ? seen.keys : seen.queries;
    const selected = unitAt(near, from ? query : key);
    if (!from && !this.querySelector(".far")) this.frame(h("p", { class: "help" }, say(lang, "computing…")));
    const row = from ? seen.row(selected) : await seen.column(selected, () => mine === this.asked);
    if (row === null || mine !== this.asked) return;
    this.draw(near, far, selected, { weights: row.weights.slice(), seen: row.seen.slice(), error: row.error }, seen);
  }

  /** @param {...Node} content */
  frame(...content) {
    const { lang, way, part } = state.now;
    const directions = /** @type {[string, string][]} */ (
      partOf(part).signed
        ? [
            ["from", say(lang, "takes from")],
            ["to", say(lang, "is taken by")],
          ]
        : [
            ["from", say(lang, "looks at")],
            ["to", say(lang, "is looked at by")],
          ]
    );
    markOld(this, false);
    refill(
      this,
      h(
        "div",
        { class: "bar" },
        h("h2", {}, say(lang, "One token")),
        choice(say(lang, "Direction"), directions, way, (value) => state.set({ way: value === "to" ? "to" : "from" })),
      ),
      ...content,
    );
  }

  /** @param {Unit[]} near @param {Unit[]} far @param {number} selected @param {Row} row @param {View} seen */
  draw(near, far, selected, row, seen) {
    const { lang, way } = state.now;
    const { signed, without } = seen;
    const from = way === "from";
    const closed = (/** @type {number} */ j) =>
      signed ? "–" : seen.takenOut(from ? far[j] : near[selected]) ? say(lang, "taken out") : say(lang, "hidden");
    const isCut = far.length > MOST;
    const widest = signed ? row.weights.reduce((most, w) => Math.max(most, Math.abs(w)), 0) || 1 : 1;
    const sizes = row.weights.map((w) => Math.abs(w) / widest);
    let visible = far.map((_, j) => j);
    if (isCut) {
      const top = visible
        .filter((j) => row.seen[j])
        .sort((a, b) => sizes[b] - sizes[a])
        .slice(0, MOST);
      while (top.length > 3 && sizes[top[top.length - 1]] < 0.001) top.pop();
      visible = top.sort((a, b) => a - b);
    }
    const start = near.length <= MOST ? 0 : Math.max(0, Math.min(selected - AROUND, near.length - 2 * AROUND - 1));
    const around = near.slice(start, near.length <= MOST ? undefined : start + 2 * AROUND + 1);
    const height = Math.max(visible.length, around.length) * STEP;
    const top = (/** @type {number} */ count) => (height - count * STEP) / 2;
    const picture = svg("svg", {
      viewBox: `0 0 100 ${height}`,
      preserveAspectRatio: "none",
      height,
      "aria-hidden": true,
    });
    const y0 = top(around.length) + (selected - start + 0.5) * STEP;
    visible.forEach((j, p) => {
      const share = sizes[j];
      if (share < 0.002) return;
      const y1 = top(visible.length) + (p + 0.5) * STEP;
      const [a, b] = from ? [y0, y1] : [y1, y0];
      picture.append(
        svg("path", {
          class: row.weights[j] < 0 ? "below" : null,
          d: `M0 ${a} C45 ${a} 55 ${b} 100 ${b}`,
          "stroke-width": 0.6 + 11 * share,
          "stroke-opacity": 0.25 + 0.75 * share,
          "vector-effect": "non-scaling-stroke",
        }),
      );
    });
    const nearSide = h("div", { class: "near", style: `padding-top: ${top(around.length)}px` });
    around.forEach((unit, i) => nearSide.append(this.button(unit, from, start + i === selected ? "chosen" : "")));
    const farSide = h("div", { class: "far", style: `padding-top: ${top(visible.length)}px` });
    for (const j of visible) {
      const button = this.button(far[j], !from, row.seen[j] ? "" : "hidden");
      button.style.setProperty("--share", String(sizes[j]));
      button.append(h("i", {}, row.seen[j] ? weight(row.weights[j], row.error) : closed(j)));
      farSide.append(button);
    }
    const notes = [];
    if (without) notes.push(h("p", { class: "help" }, say(lang, "The sink is hidden: what is left is shared out anew.")));
    if (signed) notes.push(h("p", { class: "help" }, say(lang, "Width is size, against the largest here; blue is taken, red is taken away.")));
    if (isCut) notes.push(h("p", { class: "help" }, say(lang, "the {n} strongest of {all}, in the order of the text", { n: visible.length, all: far.length })));
    if (!row.seen.some(Boolean)) notes.push(h("p", { class: "help" }, say(lang, "Nothing may be looked at from here.")));
    const both = from ? [nearSide, picture, farSide] : [farSide, picture, nearSide];
    this.frame(...notes, h("div", { class: `columns ${way}` }, ...both));
  }

  /** @param {Unit} unit @param {boolean} isQuery is it a query? @param {string} kind */
  button(unit, isQuery, kind) {
    const index = unit.end - 1;
    return h(
      "button",
      {
        type: "button",
        class: [kind, unit.special ? "special" : ""].join(" ").trim() || null,
        title: unit.label,
        "aria-current": kind === "chosen" ? "true" : null,
        onclick: () => state.set(isQuery ? { query: index, way: "from" } : { key: index }),
      },
      token(unit.label),
    );
  }
}
customElements.define("qkv-lines", Lines);
