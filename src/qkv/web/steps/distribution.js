// <qkv-distribution>: why √d. A slider widens random vectors: q·k spreads and the softmax of a row becomes one-hot; divided by
// √d, both stay the same.

import { softmax } from "../core/arithmetic.js";
import { level, painted, palette } from "../core/colour.js";
import { fixed, h, svg } from "../core/dom.js";
import { normals } from "./random.js";
import { slider } from "../core/slider.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";

/** What is shown of the products, as they are or divided by √d. @typedef {{ products: number[][], spread: number, weights: number[], sharp: number, bars: number[] }} Side */

const BARS = 40; // of a histogram; what lies beyond it joins its last ones
const REACH = { raw: 100, scaled: 4 }; // where a histogram ends, on both sides of 0

export class DistributionElement extends HTMLElement {
  told = { widths: [1], d: 1, seed: 1, rows: 1, keys: 2, digits: 2 };
  d = 1;
  /** q·k at every width: row by row, key by key. @type {number[][][]} */
  every = [];

  connectedCallback() {
    this.d = this.told.d;
    this.every = this.draw();
    state.listen((changed) => {
      if (changed.has("lang")) this.build();
      else if (changed.has("theme")) this.fill();
    });
    this.build();
  }

  /** Sums of the first 1, 2, 4, … products of two vectors, kept on the way to the widest. */
  draw() {
    const { widths, seed, rows, keys } = this.told;
    const each = widths[widths.length - 1];
    const drawn = normals(seed, rows * (1 + keys) * each);
    const products = widths.map(() => Array.from({ length: rows }, () => new Array(keys).fill(0)));
    for (let row = 0; row < rows; row++) {
      const q = row * (1 + keys) * each;
      for (let key = 0; key < keys; key++) {
        const k = q + (1 + key) * each;
        for (let c = 0, sum = 0, at = 0; c < each; c++) {
          sum += drawn[q + c] * drawn[k + c];
          if (c + 1 === widths[at]) products[at++][row][key] = sum;
        }
      }
    }
    return products;
  }

  /** @param {boolean} scaled @returns {Side} */
  side(scaled) {
    const by = scaled ? Math.sqrt(this.d) : 1;
    const products = this.every[this.told.widths.indexOf(this.d)].map((row) => row.map((x) => x / by));
    const all = products.flat();
    const mean = all.reduce((sum, x) => sum + x, 0) / all.length;
    const spread = Math.sqrt(all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / all.length);
    const rows = products.map(softmax);
    const sharp = rows.reduce((sum, row) => sum + Math.max(...row), 0) / rows.length;
    const reach = scaled ? REACH.scaled : REACH.raw;
    const bars = new Array(BARS).fill(0);
    for (const x of all) bars[Math.max(0, Math.min(BARS - 1, Math.floor(((x + reach) / (2 * reach)) * BARS)))]++;
    return { products, spread, weights: rows[0], sharp, bars };
  }

  /** What is shown, for scripts and tests. */
  get numbers() {
    return { d: this.d, raw: this.side(false), scaled: this.side(true) };
  }

  build() {
    const { lang } = state.now;
    const { widths } = this.told;
    const pane = (/** @type {string} */ name, /** @type {string} */ title) =>
      h(
        "section",
        { "data-side": name },
        h("h2", {}, title),
        h("div", { class: "bars", role: "img" }),
        h("p", { class: "told spread" }),
        h("h2", {}, say(lang, "Weights of one row over {n} keys", { n: this.told.keys })),
        h("div", { class: "row", role: "img" }),
        h("p", { class: "told sharp" }),
      );
    this.replaceChildren(
      slider("d", say(lang, "width of the vectors, d"), widths.length - 1, widths.indexOf(this.d), (at) => String(widths[at]), (at) => {
        this.d = widths[at];
        this.fill();
      }),
      h("p", { class: "help" }, say(lang, "{n} dot products of random vectors: every number has mean 0 and variance 1.", { n: this.told.rows * this.told.keys })),
      h("div", { class: "sides" }, pane("raw", "q·k"), pane("scaled", "q·k ÷ √d")),
    );
    this.fill();
  }

  fill() {
    for (const name of /** @type {const} */ (["raw", "scaled"])) {
      const pane = /** @type {HTMLElement} */ (this.querySelector(`[data-side=${name}]`));
      this.show(pane, this.side(name === "scaled"), REACH[name]);
    }
  }

  /** @param {HTMLElement} pane @param {Side} side @param {number} reach */
  show(pane, { spread, weights, sharp, bars }, reach) {
    const { lang, theme } = state.now;
    const { digits } = this.told;
    const find = (/** @type {string} */ name) => /** @type {HTMLElement} */ (pane.querySelector(name));
    const spreads = say(lang, "spread (standard deviation): {spread}", { spread: fixed(spread, digits) });
    find(".spread").textContent = spreads;
    find(".sharp").textContent = say(lang, "largest weight of a row, on average: {weight}", { weight: fixed(sharp, digits) });
    const picture = svg("svg", { viewBox: "0 0 200 74", "aria-hidden": true });
    const most = Math.max(...bars);
    bars.forEach((count, i) => {
      const tall = (count / most) * 58;
      if (count) picture.append(svg("rect", { x: i * 5 + 0.4, y: 60 - tall, width: 4.2, height: tall, rx: 0.8 }));
    });
    picture.append(svg("line", { x1: 0, x2: 200, y1: 60.4, y2: 60.4 }));
    for (const at of [-1, -0.5, 0, 0.5, 1]) {
      const label = svg("text", { x: 100 + at * 100, y: 71, "text-anchor": at === -1 ? "start" : at === 1 ? "end" : "middle" });
      label.textContent = String(at * reach).replace("-", "−");
      picture.append(label);
    }
    find(".bars").replaceChildren(picture);
    find(".bars").setAttribute("aria-label", spreads);
    const { full } = palette(theme);
    find(".row").replaceChildren(
      ...weights.map((x) => {
        const share = h("span", {}, fixed(x, digits));
        Object.assign(share.style, painted(full[level(x, "root")]));
        return share;
      }),
    );
    find(".row").setAttribute("aria-label", weights.map((x) => fixed(x, digits)).join(", "));
  }
}
customElements.define("qkv-distribution", DistributionElement);
