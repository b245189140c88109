// <qkv-steps>: the numbers of the selected row, from q·k to the output. All are computed here.

import { derivation } from "./derivation.js";
import { exactly, excuse, filled, h, hole, markOld, number, refill, scrolled, token } from "../core/dom.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";
import { axes, label, partOf, view } from "../core/view.js";

/** @import { Column, Derivation } from "./derivation.js" */
/** @import { Head } from "../core/attention.js" */

const INITIAL_KEYS = 8; // keys shown at first
const MANY = 2000; // … and at most
const VALUES = 3; // numbers of each v
const OUTPUT = 6; // numbers of the output

export class StepsPanel extends HTMLElement {
  all = false;
  asked = 0;
  ends = new AbortController();

  connectedCallback() {
    this.ends = new AbortController();
    state.listen((changed) => {
      if (changed.has("shown") && this.firstChild) markOld(this, true);
      if (["shown", "layer", "head", "part", "item", "query", "key", "sink", "lang"].some((name) => changed.has(name)))
        void this.render();
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
      const { lang } = state.now;
      if (mine !== this.asked) return;
      markOld(this, false);
      refill(this, h("h2", {}, say(lang, "How these weights come about")), h("p", { class: "help" }, excuse(lang, error)));
    }
  }

  /** @param {number} mine */
  async fill(mine) {
    const { lang, query, head } = state.now;
    const layer = partOf(state.now.part).layers[state.now.layer].number;
    if (!this.firstChild) refill(this, h("h2", {}, say(lang, "How these weights come about")), h("p", { class: "help" }, say(lang, "computing…")));
    const seen = await view();
    await seen.ready;
    if (mine !== this.asked) return;
    markOld(this, false);
    const { head: headInstance } = seen;
    const name = say(lang, "Layer {layer} · Head {head}", { layer, head });
    const bar = h("div", { class: "bar" }, h("h2", {}, say(lang, "How these weights come about")), h("span", { class: "help" }, name));
    if (!headInstance) return refill(this, bar, h("p", { class: "help" }, say(lang, "This layer is here as an overview only: there are no numbers to show.")));
    const row = filled(say(lang, "Row of {token} (query {i})", { token: hole("token"), i: query }), {
      token: token(label("query", query)),
    });
    const derived = derivation(headInstance, query);
    refill(
      this,
      bar,
      h("h3", {}, ...row),
      h("p", { class: "formula" }, derived.formula),
      seen.without ? h("p", { class: "note" }, say(lang, "These are the true numbers, with the sink: it is hidden in the map and in the lines only.")) : null,
      ...derived.pair,
      this.table(headInstance, derived),
      ...this.notes(headInstance, derived),
    );
  }

  /** @param {Head} headInstance @param {Derivation} told */
  table(headInstance, { columns, weights, seen, signed, sink, error: off }) {
    const { lang, key, part, item } = state.now;
    const special = axes(partOf(part), item, "tokens")[1];
    const { error } = headInstance;
    const sizes = weights.map(Math.abs);
    const widest = signed ? sizes.reduce((a, b) => Math.max(a, b), 0) || 1 : 1;
    const order = Array.from({ length: headInstance.m }, (_, j) => j);
    order.sort((a, b) => sizes[b] - sizes[a] || seen[b] - seen[a] || a - b);
    const topKeys = order.slice(0, this.all ? MANY : INITIAL_KEYS);
    if (!this.all && !topKeys.includes(key)) topKeys.push(key);

    const { v, valueWidth } = headInstance;
    const heading = h(
      "tr",
      {},
      h("th", { scope: "col" }, say(lang, "key")),
      ...columns.map(({ name }) => h("th", { scope: "col" }, name)),
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
    for (const j of topKeys) {
      const hidden = !seen[j];
      body.append(
        h(
          "tr",
          {
            class: [hidden ? "hidden" : "", j === key ? "chosen" : ""].join(" ").trim() || null,
            "data-key": j,
            style: `--share: ${sizes[j] / widest}`,
          },
          h(
            "th",
            { scope: "row", class: special[j]?.special ? "special" : null },
            token(label("key", j)),
            h("small", {}, ` ${j}`),
          ),
          ...columns.map((column) => h("td", {}, written(column, j, hidden))),
          h(
            "td",
            { class: weights[j] < 0 ? "weight below" : "weight", "data-weight": weights[j] },
            hidden ? "0" : exactly(weights[j], error),
          ),
          v
            ? h(
                "td",
                { class: "values" },
                Array.from(v.subarray(j * valueWidth, j * valueWidth + Math.min(VALUES, valueWidth)), (x) =>
                  number(x, headInstance.layer.errors?.value),
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
    const listed = new Set(topKeys),
      rest = order.filter((j) => !listed.has(j));
    const hidden = rest.filter((j) => !seen[j]).length;
    const total = weights.reduce((a, b) => a + b, 0) + (sink ?? 0);
    const others = rest.reduce((sum, j) => sum + weights[j], 0);
    const foot = h(
      "tfoot",
      {},
      rest.length ? line(othersNamed(lang, rest.length, hidden), exactly(others, off), "rest") : null,
      sink === null ? null : line(say(lang, "sink"), exactly(sink, error), "sink"),
      signed
        ? line(say(lang, "sum (any number: these are no shares)"), number(total, off), "sum")
        : line(say(lang, "sum"), total.toFixed(3), "sum"),
    );
    const named = { class: "scroll", role: "region", "aria-label": say(lang, "How these weights come about") };
    return scrolled(h("div", named, h("table", {}, h("thead", {}, heading), body, foot)));
  }

  /** @param {Head} headInstance @param {Derivation} told */
  notes(headInstance, { output, seen, signed, weights, error: off }) {
    const { lang } = state.now;
    const notes = [];
    const { value } = headInstance.layer.errors ?? { value: 0 };
    // float16 is off by 1/2048 of the largest v; shares sum to 1, a mixer's weights to what they sum to.
    const all = signed ? weights.reduce((sum, w) => sum + Math.abs(w), 0) : 1;
    const error = value * (all + 2048 * off);
    if (output) {
      const count = Math.min(OUTPUT, output.length);
      notes.push(
        h(
          "p",
          { class: "output" },
          say(lang, "output Σ weight · v"),
          " = ",
          h(
            "code",
            {},
            `[${Array.from(output.slice(0, count), (x) => number(x, error)).join(", ")}${count < output.length ? ", …" : ""}]`,
          ),
          h("small", {}, " " + say(lang, "first {n} of {all} numbers", { n: count, all: output.length })),
        ),
      );
    } else if (headInstance.width > 0) notes.push(h("p", { class: "help" }, say(lang, "v doesn't fit into this page: the output isn't shown.")));
    if (signed && headInstance.layer.state)
      notes.push(h("p", { class: "help" }, say(lang, "A state came before this text. What it gives to this token isn't in the table, nor in this output.")));
    if (!seen.some(Boolean))
      notes.push(h("p", { class: "help" }, say(lang, "This query may look at nothing: its weights and its output are 0.")));
    if (headInstance.m > INITIAL_KEYS) {
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
          this.all ? say(lang, "Show the strongest only") : say(lang, "Show all {n} keys", { n: headInstance.m }),
        ),
      );
      if (this.all && headInstance.m > MANY)
        notes.push(h("span", { class: "help" }, say(lang, "the first {n} of {all} are shown", { n: MANY, all: headInstance.m })));
    }
    return notes;
  }
}

/** The keys that aren't listed. @param {string} lang @param {number} n @param {number} hidden how many of them the mask hides */
function othersNamed(lang, n, hidden) {
  if (!hidden) return say(lang, "other keys: {n}", { n });
  return hidden === n ? say(lang, "other keys: {n}, hidden by the mask", { n }) : say(lang, "other keys: {n}, {hidden} of them hidden by the mask", { n, hidden });
}

/** A number of a column. @param {Column} column @param {number} j @param {boolean} hidden */
const written = ({ numbers, error, hides, write = number }, j, hidden) => (hidden && hides) || write(numbers[j], error);

customElements.define("qkv-steps", StepsPanel);
