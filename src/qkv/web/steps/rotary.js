// <qkv-rotary>: a query at position m and a key at position n, each rotated by its position times θ. Their dot product depends only
// on m − n: it is constant along each diagonal of the table.

import { level, painted, palette } from "../core/colour.js";
import { fixed, h, svg } from "../core/dom.js";
import { slider } from "../core/slider.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";

/** @typedef {[number, number]} Vector */

/** [x, y] → [x·cos − y·sin, y·cos + x·sin]. @param {Vector} vector @param {number} angle @returns {Vector} */
function turnedBy([x, y], angle) {
  const cos = Math.cos(angle),
    sin = Math.sin(angle);
  return [x * cos - y * sin, y * cos + x * sin];
}

export class RotaryElement extends HTMLElement {
  told = { q: /** @type {Vector} */ ([1, 0]), k: /** @type {Vector} */ ([1, 0]), m: 0, n: 0, theta: 1, most: 1, digits: 2 };
  m = 0;
  n = 0;

  connectedCallback() {
    this.m = this.told.m;
    this.n = this.told.n;
    state.listen((changed) => {
      if (changed.has("lang")) this.build();
      else if (changed.has("theme")) this.fill();
    });
    this.build();
  }

  /** Both where they are, and their product. @param {number} [m] @param {number} [n] */
  at(m = this.m, n = this.n) {
    const { theta } = this.told;
    const q = turnedBy(this.told.q, m * theta),
      k = turnedBy(this.told.k, n * theta);
    return { q, k, product: q[0] * k[0] + q[1] * k[1] };
  }

  /** What is shown, for scripts and tests. */
  get numbers() {
    const every = Array.from({ length: this.told.most + 1 }, (_, i) => i);
    return { m: this.m, n: this.n, ...this.at(), products: every.map((m) => every.map((n) => this.at(m, n).product)) };
  }

  build() {
    const { lang } = state.now;
    const { most } = this.told;
    const whole = (/** @type {number} */ at) => String(at);
    this.replaceChildren(
      h(
        "div",
        { class: "bar" },
        slider(h("b", { class: "q" }, "q: m"), say(lang, "position of the query, m"), most, this.m, whole, (m) => this.move(m, this.n)),
        slider(h("b", { class: "k" }, "k: n"), say(lang, "position of the key, n"), most, this.n, whole, (n) => this.move(this.m, n)),
        h(
          "div",
          { class: "together" },
          h("span", { class: "help" }, say(lang, "both together")),
          h("button", { type: "button", class: "ask back", "aria-label": `−1: ${say(lang, "both one position back")}`, onclick: () => this.both(-1) }, "−1"),
          h("button", { type: "button", class: "ask on", "aria-label": `+1: ${say(lang, "both one position on")}`, onclick: () => this.both(1) }, "+1"),
        ),
      ),
      h("div", { class: "pictures" }, h("div", { class: "dial", role: "img" }), h("div", { class: "every" })),
      h("p", { class: "told", role: "status", "aria-live": "polite" }),
    );
    this.table();
    this.fill();
  }

  /** @param {number} m @param {number} n */
  move(m, n) {
    this.m = m;
    this.n = n;
    this.fill();
  }

  /** @param {number} by */
  both(by) {
    const { most } = this.told;
    if (Math.min(this.m, this.n) + by < 0 || Math.max(this.m, this.n) + by > most) return;
    this.move(this.m + by, this.n + by);
    [this.m, this.n].forEach((at, i) => {
      const input = this.querySelectorAll("input")[i];
      input.value = String(at);
      input.setAttribute("aria-valuetext", String(at));
      const output = input.nextElementSibling;
      if (output) output.textContent = String(at);
    });
  }

  /** q·k at every m and n. */
  table() {
    const { lang } = state.now;
    const { digits } = this.told;
    const { products } = this.numbers;
    const short = Math.min(digits, 2); // the whole table has to be seen
    const head = h("tr", {}, h("td", {}, "m \\ n"), ...products.map((_, n) => h("th", { scope: "col" }, n)));
    const rows = products.map((row, m) =>
      h("tr", {}, h("th", { scope: "row" }, m), ...row.map((x, n) => h("td", { "data-cell": `${m}.${n}` }, fixed(x, short)))),
    );
    this.querySelector(".every")?.replaceChildren(
      h("h2", {}, say(lang, "q·k at every m (rows) and n (columns)")),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say(lang, "q·k at every m (rows) and n (columns)") }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows))),
    );
  }

  fill() {
    const { lang, theme } = state.now;
    const { digits, theta, most } = this.told;
    const { q, k, product } = this.at();
    const { products } = this.numbers;
    const { full, zero } = palette(theme, true);
    const top = Math.hypot(...this.told.q) * Math.hypot(...this.told.k);
    for (const cell of /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("[data-cell]"))) {
      const [m, n] = (cell.dataset.cell ?? "").split(".").map(Number);
      Object.assign(cell.style, painted(full[zero + level(products[m][n] / top, "linear")]));
      cell.classList.toggle("same", m - n === this.m - this.n);
      cell.classList.toggle("here", m === this.m && n === this.n);
    }
    this.querySelector(".dial")?.replaceChildren(this.dial(q, k));
    const values = { m: this.m, n: this.n, product: fixed(product, digits), apart: String(this.m - this.n).replace("-", "−") };
    const caption = say(lang, "q is turned by {m} · θ, k by {n} · θ, and q·k = {product}. It is the same wherever m − n = {apart}.", values);
    const line = /** @type {HTMLElement} */ (this.querySelector("p.told"));
    if (line.textContent !== caption) line.textContent = caption;
    const angle = (/** @type {number} */ at) => fixed(at * theta, digits);
    this.querySelector(".dial")?.setAttribute("aria-label", say(lang, "q at an angle of {q}, k at {k}", { q: angle(this.m), k: angle(this.n) }));
    this.querySelector(".back")?.toggleAttribute("disabled", Math.min(this.m, this.n) === 0);
    this.querySelector(".on")?.toggleAttribute("disabled", Math.max(this.m, this.n) === most);
  }

  /** The two arrows, and faintly where they began. @param {Vector} q @param {Vector} k */
  dial(q, k) {
    const size = Math.max(Math.hypot(...q), Math.hypot(...k));
    const picture = svg("svg", { viewBox: "-120 -120 240 240", "aria-hidden": true });
    const put = (/** @type {Vector} */ [x, y]) => [(x / size) * 92, (-y / size) * 92];
    picture.append(svg("circle", { r: 92 }), svg("line", { x1: -104, x2: 104, class: "axis" }), svg("line", { y1: -104, y2: 104, class: "axis" }));
    const arrow = (/** @type {Vector} */ vector, /** @type {string} */ kind, /** @type {string} */ name) => {
      const [x, y] = put(vector);
      picture.append(svg("line", { x2: x, y2: y, class: kind }), svg("circle", { cx: x, cy: y, r: name ? 4 : 2.5, class: kind }));
      if (!name) return;
      const label = svg("text", { x: x * 1.17, y: y * 1.17, class: kind });
      label.textContent = name;
      picture.append(label);
    };
    arrow(this.told.q, "q faint", "");
    arrow(this.told.k, "k faint", "");
    arrow(k, "k", "k");
    arrow(q, "q", "q");
    return picture;
  }
}
customElements.define("qkv-rotary", RotaryElement);
