// <qkv-ranking>: the heads ordered by the link of two words, by pattern, by width of attention, or by importance for the model;
// heads that a filter excludes fade in the overview, too.

import { level, palette } from "../core/colour.js";
import { filled, h, hole, token, weight } from "../core/dom.js";
import { failed, served, servedSpec } from "./live_view.js";
import { StudioElement, redraw, signedBy } from "./studio_element.js";
import { headName, isTrace, studio } from "./studio_state.js";
import { changeHead, pinButton } from "./head_edits.js";
import { requestFrames, requestOne, calledOff } from "./server_client.js";
import { mark, say } from "../core/words.js";
import { errorOf, header, label, partOf, thumb } from "../core/view.js";

/** @import { Part } from "../core/source.js" */
/** @import { Everything } from "./studio_state.js" */

/** A head in the list. @typedef {{ layer: number, head: number, value: number, share: number, text: string }} Listed */
/** @typedef {{ pattern: string, scores: Record<string, number | null> }} Known */
/** @typedef {Everything["ranked"]["by"]} Order */

const LISTED = 24;
/** @type {[Order, string][]} */
const ORDERS = [
  ["link", mark("links two words")],
  ["pattern", mark("pattern")],
  ["narrow", mark("looks narrowly")],
  ["wide", mark("looks widely")],
  ["needed", mark("needed most")],
];
/** What the library's patterns are called. @type {Record<string, string>} */
const PATTERNS = {
  previous: mark("previous token"),
  next: mark("next token"),
  self: mark("itself"),
  first: mark("first token (sink)"),
  punctuation: mark("punctuation, delimiters"),
  local: mark("local"),
  columns: mark("a few keys for all"),
  duplicate: mark("same token before"),
  induction: mark("induction"),
  diagonal: mark("diagonal"),
  monotone: mark("monotone alignment"),
  uniform: mark("uniform"),
};

export class HeadRanking extends StudioElement {
  fields = ["shown", "part", "item", "query", "key", "layer", "head", "pins", "edits", "theme", "ranked"];
  /** What was asked for, and what came of it. @type {Map<string, any>} */
  known = new Map();
  share = 0;

  render() {
    if (!header) return;
    const { lang, part: name, ranked } = studio.now;
    const part = partOf(name);
    // Another order has other values: its limit would mean nothing.
    const select = h("select", { "aria-label": say(lang, "Order of the heads"), "data-key": "order", onchange: (/** @type {Event} */ event) => this.rank({ by: /** @type {Order} */ (/** @type {HTMLSelectElement} */ (event.target).value), limit: null }) });
    for (const [value, text] of ORDERS) {
      if (value === "needed" && (isTrace(studio.now.model) || part.signed)) continue;
      select.append(h("option", { value, selected: value === ranked.by }, say(lang, text)));
    }
    const kinds = ranked.by === "pattern" ? this.kinds() : null;
    redraw(this, h("div", { class: "bar" }, h("h2", {}, say(lang, "Which heads?")), select, kinds, this.limit()), ...this.list(part));
  }

  /** @param {Partial<Everything["ranked"]>} to */
  rank(to) {
    studio.set({ ranked: { ...studio.now.ranked, ...to } });
  }

  /** From which value on heads count; of those that look narrowly, up to which. */
  limit() {
    const { lang, ranked } = studio.now;
    const bound = ranked.by === "narrow" ? say(lang, "at most") : say(lang, "at least");
    const field = h("input", {
      type: "number",
      step: ranked.by === "needed" ? "any" : 0.05,
      value: ranked.limit,
      placeholder: say(lang, "any"),
      "data-key": "limit",
      onchange: (/** @type {Event} */ event) => {
        const typed = /** @type {HTMLInputElement} */ (event.target).valueAsNumber;
        this.rank({ limit: Number.isNaN(typed) ? null : typed });
      },
    });
    return h("label", { class: "limit" }, h("span", {}, bound), field);
  }

  /** Which pattern. */
  kinds() {
    const { lang } = studio.now;
    const response = this.get("heads");
    const select = h("select", { "aria-label": say(lang, "Pattern"), "data-key": "pattern", onchange: (/** @type {Event} */ event) => this.rank({ pattern: /** @type {HTMLSelectElement} */ (event.target).value }) });
    for (const kind of response?.kinds ?? []) select.append(h("option", { value: kind, selected: kind === this.pattern(response.kinds) }, say(lang, PATTERNS[kind] ?? kind)));
    return select;
  }

  /** The pattern that is chosen, or the first. @param {string[]} kinds */
  pattern(kinds) {
    const { pattern } = studio.now.ranked;
    return kinds.includes(pattern) ? pattern : kinds[0];
  }

  /** What the order goes by: known already, or asked for. @param {"links" | "heads" | "importance"} what */
  get(what) {
    const { part, item, query, key } = studio.now;
    const spec = servedSpec();
    const about = what === "links" ? { part, item, query, key } : what === "heads" ? { part, item } : {};
    const name = JSON.stringify([what, spec, about]);
    if (this.known.has(name)) return this.known.get(name);
    this.known.set(name, null);
    for (const oldest of this.known.keys()) if (this.known.size > 40) this.known.delete(oldest);
    void this.asking(what, { do: what, spec, ...about }, name);
    return null;
  }

  /** @param {string} what @param {Record<string, any>} body @param {string} name */
  async asking(what, body, name) {
    const signals = [this.ending.signal, ...(served ? [served.ended.signal] : [])];
    const signal = AbortSignal.any(signals);
    try {
      if (what === "importance") {
        for await (const frame of requestFrames(body, signal)) {
          if (frame.kind === "importance") this.known.set(name, frame);
          else if (frame.kind === "progress") this.tell(frame.all ? frame.done / frame.all : 0);
        }
      } else this.known.set(name, await requestOne(what, body, signal));
    } catch (error) {
      this.known.delete(name);
      if (!calledOff(error)) failed(error);
      return;
    }
    this.render();
  }

  /** @param {number} share */
  tell(share) {
    this.share = share;
    const bar = this.querySelector("progress");
    if (bar) bar.value = share;
  }

  /** @param {Part} part @returns {Listed[] | null} null while it is computed */
  ranked(part) {
    const { item, ranked: { by } } = studio.now;
    /** @type {Listed[]} */
    let rows = [];
    const every = (/** @type {(layer: number, head: number) => number | undefined} */ value, /** @type {(x: number) => string} */ write) =>
      part.layers.flatMap((each, layer) =>
        Array.from({ length: each.heads }, (_, head) => ({ layer, head, value: value(layer, head) ?? NaN, share: 0, text: "" })),
      ).filter((row) => !Number.isNaN(row.value)).map((row) => ({ ...row, text: write(row.value) }));
    if (by === "link") {
      const top = /** @type {[number, number, number][] | undefined} */ (this.get("links")?.top);
      if (!top) return null;
      rows = top.map(([layer, head, value]) => ({ layer, head, value: Math.abs(value), share: 0, text: weight(value, errorOf(part, layer, item, head)) }));
    } else if (by === "narrow" || by === "wide") {
      const spread = served?.entropy[part.name];
      rows = every((layer, head) => spread?.[layer]?.[item]?.[head], (x) => `${x.toFixed(2)}`);
      rows.sort((a, b) => (by === "narrow" ? a.value - b.value : b.value - a.value));
    } else if (by === "pattern") {
      const response = /** @type {{ kinds: string[], rows: Known[][] } | null} */ (this.get("heads"));
      if (!response) return null;
      rows = every((layer, head) => response.rows[layer][head]?.scores[this.pattern(response.kinds)] ?? undefined, (x) => weight(x));
    } else {
      const response = this.get("importance");
      if (!response) return null;
      rows = every((layer, head) => response.rows[part.name]?.[layer][head], (x) => signedBy(x, 4));
    }
    if (by !== "narrow" && by !== "wide") rows.sort((a, b) => b.value - a.value);
    const most = Math.max(...rows.map(({ value }) => value), 1e-9);
    return rows.map((row) => ({ ...row, share: Math.max(0, row.value / most) }));
  }

  /** @param {Part} part */
  list(part) {
    const { lang, query, key, ranked: { by, limit } } = studio.now;
    const all = this.ranked(part);
    const help = {
      link: filled(say(lang, "By how much {from} looks at {to}.", { from: hole("from"), to: hole("to") }), { from: token(label("query", query)), to: token(label("key", key)) }),
      pattern: [say(lang, "By how much of its attention follows the pattern.")],
      narrow: [say(lang, "By the mean entropy of its rows in bits, the smallest first.")],
      wide: [say(lang, "By the mean entropy of its rows in bits, the largest first.")],
      needed: [say(lang, "By how much the loss of this text grows without it.")],
    }[by];
    const intro = h("p", { class: "help" }, ...help);
    if (!all) return [intro, h("p", { class: "help", role: "status" }, say(lang, "Looking through the heads…")), by === "needed" ? h("progress", { max: 1, value: this.share }) : null];
    const rows = limit === null ? all : all.filter(({ value }) => (by === "narrow" ? value <= limit : value >= limit));
    this.fade(limit === null ? rows.slice(0, LISTED) : rows);
    const list = h("ol", { class: "ranking" }, ...rows.slice(0, LISTED).map((row) => this.row(part, row)));
    const count = { n: rows.length, all: all.length, listed: LISTED };
    const counted = rows.length > LISTED ? say(lang, "{n} of {all} heads; the first {listed} are listed.", count) : say(lang, "{n} of {all} heads.", count);
    return [intro, limit === null ? null : h("p", { class: "help", role: "status" }, counted), h("div", { class: "scroll tall" }, list)];
  }

  /** In the overview, those that aren't listed step back. @param {Listed[] | null} rows null: none does */
  fade(rows) {
    const listed = new Set(rows?.map(({ layer, head }) => `${layer}.${head}`));
    // After the overview has drawn itself anew.
    requestAnimationFrame(() => {
      for (const cell of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("qkv-overview [data-head]")))
        cell.classList.toggle("faded", Boolean(rows && this.isConnected && !listed.has(cell.dataset.head ?? "")));
    });
  }

  disconnectedCallback() {
    this.fade(null);
    super.disconnectedCallback();
  }

  /** @param {Part} part @param {Listed} row */
  row(part, { layer, head, share, text }) {
    const { lang, edits, model } = studio.now;
    const name = headName(part.name, layer, head);
    const on = studio.now.layer === layer && studio.now.head === head;
    const off = edits.some(([edited, to]) => edited === name && to === "zero");
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": true }));
    void this.picture(canvas, part, layer, head);
    // The two words stay chosen from head to head: the list is about them.
    const open = () => studio.set({ layer, head });
    return h(
      "li",
      {},
      h("button", { type: "button", class: "head", "aria-current": on ? "true" : null, "data-key": `open ${name}`, onclick: open }, canvas, h("b", {}, name), h("span", { class: "meter", style: `--share: ${share}` }), h("span", { class: "number" }, text)),
      pinButton(name),
      isTrace(model) || part.signed ? null : h("button", { type: "button", class: "off", "aria-pressed": off, "data-key": `off ${name}`, "aria-label": say(lang, "Switch head {name} off", { name }), onclick: () => changeHead(name, off ? null : "zero") }, say(lang, "off")),
    );
  }

  /** @param {HTMLCanvasElement} canvas @param {Part} part @param {number} layer @param {number} head */
  async picture(canvas, part, layer, head) {
    if (!served) return;
    const { item, theme, scale } = studio.now;
    const { shares, rows, cols } = thumb(part, head, (await served.pictures(part, layer, item)).bytes);
    const { full, zero } = palette(theme, part.signed);
    canvas.width = cols;
    canvas.height = rows;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = full[zero + level(shares[i], scale)];
    context.putImageData(image, 0, 0);
  }
}
customElements.define("qkv-ranking", HeadRanking);
