// <qkv-steps>: the chosen row in numbers, from q·k to the output. Every number is computed here.

import { exactly, filled, h, hole, number, refill, token } from "./dom.js";
import { state } from "./state.js";
import { say } from "./words.js";
import { axes, label, partOf, view } from "./view.js";

/** @import { Head, Steps } from "./attention.js" */

const FEW = 8; // keys shown at first
const MANY = 2000; // … and at most
const VALUES = 3; // numbers of each v
const OUTPUT = 6; // numbers of the output

export class StepsPanel extends HTMLElement {
  all = false;
  asked = 0;

  connectedCallback() {
    state.listen((changed) => {
      if (["layer", "head", "part", "item", "query", "key", "lang"].some((name) => changed.has(name)))
        void this.render();
    });
    void this.render();
  }

  async render() {
    const mine = ++this.asked;
    const { lang, query, head } = state.now;
    const layer = partOf(state.now.part).layers[state.now.layer].number;
    if (!this.firstChild) refill(this, h("h2", {}, say(lang, "How these weights come about")), h("p", { class: "help" }, say(lang, "computing…")));
    const { head: one } = await view();
    if (mine !== this.asked) return;
    const name = say(lang, "Layer {layer} · Head {head}", { layer, head });
    const bar = h("div", { class: "bar" }, h("h2", {}, say(lang, "How these weights come about")), h("span", { class: "help" }, name));
    if (!one) return refill(this, bar, h("p", { class: "help" }, say(lang, "This layer is here as an overview only: there are no numbers to show.")));
    const row = filled(say(lang, "Row of {token} (query {i})", { token: hole("token"), i: query }), {
      token: token(label("query", query)),
    });
    const steps = one.steps(query);
    refill(
      this,
      bar,
      h("h3", {}, ...row),
      h("p", { class: "formula" }, this.formula(one)),
      this.table(one, steps),
      ...this.notes(one, steps),
    );
  }

  /** @param {Head} one */
  formula({ layer, sink, width }) {
    const { lang } = state.now;
    if (width === 0) return say(lang, "Only the weights were kept (--eager), as the model gave them: without q, k and v there are no steps to show.");
    const capped = layer.softcap === null ? "" : say(lang, ", bent to ±{cap}", { cap: layer.softcap });
    const more = capped + (layer.bias ? say(lang, ", plus a bias") : "");
    return (
      say(lang, "For every key: multiply q by k and add up (q·k), times {scale}{more}; hide what the mask hides; softmax makes shares that sum to 1; the output is every v times its share, added up.", { scale: short(layer.scale), more }) + (sink === null ? "" : say(lang, " A sink takes a share of its own and gives nothing."))
    );
  }

  /** @param {Head} one @param {Steps} steps */
  table(one, steps) {
    const { lang, key, part, item } = state.now;
    const special = axes(partOf(part), item, "tokens")[1];
    const errors = one.layer.errors ?? { weight: 0, dot: 0, value: 0 };
    const scaled = errors.dot * one.layer.scale;
    /** @type {[string, Float64Array, number][]} */
    const columns = [];
    if (one.width > 0) {
      columns.push([say(lang, "q·k"), steps.dots, errors.dot]);
      columns.push([say(lang, "× {scale}", { scale: short(one.layer.scale) }), steps.scaled, scaled]);
      if (steps.capped) columns.push([say(lang, "capped"), steps.capped, scaled]);
      if (steps.biased) columns.push([say(lang, "+ bias"), steps.biased, scaled]);
      columns.push([say(lang, "masked"), steps.masked, scaled]);
    }

    const order = Array.from({ length: one.m }, (_, j) => j);
    order.sort(
      (a, b) =>
        steps.weights[b] - steps.weights[a] ||
        Number(steps.masked[b] > -Infinity) - Number(steps.masked[a] > -Infinity) ||
        a - b,
    );
    const shown = order.slice(0, this.all ? MANY : FEW);
    if (!this.all && !shown.includes(key)) shown.push(key);

    const { v, valueWidth } = one;
    const heading = h(
      "tr",
      {},
      h("th", { scope: "col" }, say(lang, "key")),
      ...columns.map(([name]) => h("th", { scope: "col" }, name)),
      h("th", { scope: "col" }, say(lang, "weight")),
      v
        ? h(
            "th",
            { scope: "col", class: "values" },
            say(lang, "v"),
            h("small", {}, " " + say(lang, "first {n} of {all} numbers", { n: Math.min(VALUES, valueWidth), all: valueWidth })),
          )
        : null,
    );
    const body = h("tbody", {});
    for (const j of shown) {
      const hidden = steps.masked[j] === -Infinity;
      body.append(
        h(
          "tr",
          {
            class: [hidden ? "hidden" : "", j === key ? "chosen" : ""].join(" ").trim() || null,
            "data-key": j,
            style: `--share: ${steps.weights[j]}`,
          },
          h(
            "th",
            { scope: "row", class: special[j]?.special ? "special" : null },
            token(label("key", j)),
            h("small", {}, ` ${j}`),
          ),
          ...columns.map(([, numbers, error], c) =>
            h("td", {}, hidden && c === columns.length - 1 ? "−∞" : number(numbers[j], error)),
          ),
          h(
            "td",
            { class: "weight", "data-weight": steps.weights[j] },
            hidden ? "0" : exactly(steps.weights[j], errors.weight),
          ),
          v
            ? h(
                "td",
                { class: "values" },
                Array.from(v.subarray(j * valueWidth, j * valueWidth + Math.min(VALUES, valueWidth)), (x) =>
                  number(x, errors.value),
                ).join("  "),
              )
            : null,
        ),
      );
    }
    const line = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ kind) =>
      h(
        "tr",
        { class: kind },
        h("th", { scope: "row", colspan: columns.length + 1 }, name),
        h("td", {}, value),
        v ? h("td", { class: "values" }) : null,
      );
    const rest = order.length - shown.length;
    const left = 1 - shown.reduce((sum, j) => sum + steps.weights[j], 0) - (steps.sink ?? 0);
    const total = steps.weights.reduce((a, b) => a + b, 0) + (steps.sink ?? 0);
    const foot = h(
      "tfoot",
      {},
      rest > 0 ? line(say(lang, "other keys: {n}", { n: rest }), exactly(Math.max(total ? left : 0, 0), errors.weight), "rest") : null,
      steps.sink === null ? null : line(say(lang, "sink"), exactly(steps.sink, errors.weight), "sink"),
      line(say(lang, "sum"), total.toFixed(3), "sum"),
    );
    return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, heading), body, foot));
  }

  /** @param {Head} one @param {Steps} steps */
  notes(one, steps) {
    const { lang } = state.now;
    const notes = [];
    const { output } = steps;
    const { weight, value } = one.layer.errors ?? { weight: 0, value: 0 };
    const error = value * (1 + 2048 * weight); // float16 is off by 1/2048 of the largest v
    if (output) {
      const some = Math.min(OUTPUT, output.length);
      notes.push(
        h(
          "p",
          { class: "output" },
          say(lang, "output Σ weight · v"),
          " = ",
          h(
            "code",
            {},
            `[${Array.from(output.slice(0, some), (x) => number(x, error)).join(", ")}${some < output.length ? ", …" : ""}]`,
          ),
          h("small", {}, " " + say(lang, "first {n} of {all} numbers", { n: some, all: output.length })),
        ),
      );
    } else if (one.width > 0) notes.push(h("p", { class: "help" }, say(lang, "v doesn't fit into this page: the output isn't shown.")));
    if (!steps.masked.some((score) => score > -Infinity))
      notes.push(h("p", { class: "help" }, say(lang, "This query may look at nothing: its weights and its output are 0.")));
    if (one.m > FEW) {
      notes.push(
        h(
          "button",
          {
            type: "button",
            class: "ask",
            "aria-expanded": this.all,
            onclick: async () => {
              this.all = !this.all;
              void this.render();
            },
          },
          this.all ? say(lang, "Show the strongest only") : say(lang, "Show all {n} keys", { n: one.m }),
        ),
      );
      if (this.all && one.m > MANY)
        notes.push(h("span", { class: "help" }, say(lang, "the first {n} of {all} are shown", { n: MANY, all: one.m })));
    }
    return notes;
  }
}

/** @param {number} scale */
const short = (scale) => String(Number(scale.toPrecision(4)));
customElements.define("qkv-steps", StepsPanel);
