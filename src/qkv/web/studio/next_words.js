// <qkv-nextwords>: the most likely next tokens as bars; with edited heads, before and after. On request, the prediction after each
// layer (the logit lens).

import { announce, choice, filled, h, hole, markOld, refill, token } from "../core/dom.js";
import { failed, requestedKey, served, servedSpec } from "./live_view.js";
import { percent, StudioElement, redraw, signedBy } from "./studio_element.js";
import { isTrace, studio } from "./studio_state.js";
import { requestOne } from "./server_client.js";
import { say } from "../core/words.js";
import { header, label, partOf } from "../core/view.js";

/** @import { Outcome, Possible, Words } from "./studio_state.js" */

const ROWS = 10;
const LENS = 3; // words of each layer

export class NextWords extends StudioElement {
  fields = ["shown", "outcome", "before", "query", "model", "opened", "after", "stale", "problem", "lost"];
  /** Words after the chosen token. @type {{ key: string, words: Words | null, before: Words | null } | null} */
  there = null;
  /** @type {{ key: string, layers: Possible[][] } | null} */
  lens = null;
  asked = 0;
  told = "";
  telling = 0;

  render() {
    const { lang, outcome, query, opened, after: where } = studio.now;
    if (!header) return;
    const heading = h("h2", {}, outcome.gap && partOf(studio.now.part).name !== "decoder" ? say(lang, "Words for the gap") : say(lang, "Next words"));
    const old = outcome.of !== requestedKey();
    markOld(this, old && outcome.of !== "");
    if (old && !outcome.words) return redraw(this, heading, studio.now.problem || studio.now.lost ? null : h("p", { class: "help" }, say(lang, "computing…")));
    if (isTrace(servedSpec().model)) {
      const { words } = outcome;
      const note = words ? say(lang, "What the model said when the trace was made.") : say(lang, "A kept trace has no model behind it: open one to see its next words.");
      return redraw(this, heading, words && this.bars(words, null), h("p", { class: "help" }, note));
    }
    if (!outcome.words && where === "end") return redraw(this, heading, h("p", { class: "help" }, opened?.mask ? say(lang, "Write {mask} in the text for a gap: the words for it are shown here.", { mask: opened.mask }) : say(lang, "This model says no next words of this text.")), this.loss());
    const part = partOf(studio.now.part);
    const key = JSON.stringify([servedSpec(), query]);
    const tabs = /** @type {[string, string][]} */ ([
      ["end", outcome.gap ? say(lang, "at the gap") : say(lang, "at the end")],
      ["chosen", say(lang, "after “{word}”", { word: label("query", query) })],
    ]);
    const bar = h("div", { class: "bar" }, heading, part.name === "decoder" || where === "chosen" ? choice(say(lang, "Where"), tabs, where, (value) => studio.set({ after: value === "chosen" ? "chosen" : "end" })) : null);
    if (where === "chosen" && this.there?.key !== key) {
      if (this.there) markOld(this, true);
      void this.askThere(key, query);
    }
    const [now, before] = where === "end" ? [outcome.words, studio.now.before?.words ?? null] : [this.there?.words ?? null, this.there?.before ?? null];
    if (!this.hasAttribute("data-old")) this.tell(now, before);
    redraw(this, bar, now ? this.bars(now, before) : h("p", { class: "help" }, say(lang, "computing…")), this.loss(), this.lensPart(now));
  }

  /** Say the likeliest word aloud, once nothing moves any more. @param {Words | null} now @param {Words | null} before */
  tell(now, before) {
    const { lang } = studio.now;
    const [first] = now?.words ?? [];
    if (!first) return;
    const was = before?.words.find(({ id }) => id === first.id);
    const sentence = was
      ? say(lang, "next word: {word} {after}, before {before}", { word: first.label, after: percent(first.p), before: percent(was.p) })
      : say(lang, "next word: {word} {after}", { word: first.label, after: percent(first.p) });
    if (sentence === this.told) return;
    this.told = sentence;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => announce(sentence), 900);
  }

  /** @param {string} key @param {number} container */
  async askThere(key, container) {
    const mine = ++this.asked;
    const spec = servedSpec();
    const words = (/** @type {any} */ of) => requestOne("words", { do: "words", spec: of, place: container, most: 40 }, served?.ended.signal);
    try {
      const [now, before] = await Promise.all([words(spec), spec.edits.length ? words({ ...spec, edits: [] }) : null]);
      if (mine !== this.asked) return;
      this.there = { key, words: /** @type {any} */ (now), before: /** @type {any} */ (before) };
      this.render();
    } catch (error) {
      failed(error);
    }
  }

  /** @param {Words} now @param {Words | null} before */
  bars(now, before) {
    const { lang } = studio.now;
    const rows = both(now, before).slice(0, ROWS);
    const most = Math.max(...rows.flatMap(({ after, first }) => [after ?? 0, first ?? 0]), 1e-9);
    const list = h("ol", { class: before ? "bars two" : "bars", "aria-label": say(lang, "Next words") });
    for (const { id, text, after, first } of rows) {
      list.append(
        h(
          "li",
          { "data-id": id },
          token(text),
          h("span", { class: "track", style: `--share: ${(after ?? 0) / most}; --before: ${(first ?? 0) / most}`, "aria-hidden": true }, before ? h("i", {}) : null, h("b", {})),
          h("span", { class: "number" }, after === null ? "–" : percent(after)),
          before ? h("small", { class: "moved" }, first === null || after === null ? "" : `${signedBy((after - first) * 100, 2)}`) : null,
        ),
      );
    }
    const legend = before ? h("p", { class: "help" }, say(lang, "Grey: before, with every head as it is. Blue: after. The difference is in percentage points.")) : null;
    return h("div", {}, list, legend);
  }

  /** The loss of the text, and what the edits made of it. */
  loss() {
    const { lang, outcome, before } = studio.now;
    if (outcome.loss === null) return null;
    const text = outcome.loss.toFixed(3);
    if (before?.loss === null || before?.loss === undefined) return h("p", { class: "facts loss" }, say(lang, "Loss of the text: {loss} nats a token", { loss: text }));
    const change = signedBy(outcome.loss - before.loss, 3);
    const sentence = say(lang, "Loss of the text: {before} before, {after} after ({change})", { before: before.loss.toFixed(3), after: text, change: hole("change") });
    return h("p", { class: "facts loss" }, ...filled(sentence, { change: h("b", {}, change) }));
  }

  /** What each layer would say, if it were the last. @param {Words | null} now */
  lensPart(now) {
    const { lang } = studio.now;
    if (!now) return null;
    const key = JSON.stringify([servedSpec(), now.place]);
    if (this.lens?.key === key) return lensTable(lang, this.lens.layers);
    const container = h("div", { class: "lens" });
    const button = h("button", { type: "button", class: "ask", "data-key": "lens", onclick: () => this.askLens(key, now.place, container) }, say(lang, "What would each layer say already?"));
    container.append(button);
    return container;
  }

  /** @param {string} key @param {number} at @param {HTMLElement} container */
  async askLens(key, at, container) {
    const { lang } = studio.now;
    refill(container, h("p", { class: "help" }, say(lang, "computing…")));
    try {
      const { layers } = await requestOne("lens", { do: "lens", spec: servedSpec(), place: at, most: LENS }, served?.ended.signal);
      this.lens = { key, layers };
    } catch (error) {
      failed(error);
    }
    this.render();
  }
}

/** @param {string} lang @param {Possible[][]} layers */
function lensTable(lang, layers) {
  const list = h("ol", { class: "lens", start: 0 });
  layers.forEach((words, i) =>
    list.append(
      h(
        "li",
        {},
        h("span", { class: "layer" }, i),
        ...words.map(({ label: text, p }) => h("span", { class: "guess", style: `--share: ${p}` }, token(text), h("small", {}, percent(p)))),
      ),
    ),
  );
  return h(
    "div",
    { class: "lens" },
    h("h3", {}, say(lang, "What each layer would say already")),
    h("p", { class: "help" }, say(lang, "The model's last norm and its table of words, put on what is there after each layer (the logit lens).")),
    h("div", { class: "scroll tall" }, list),
  );
}

/** Words of both, by the larger of their probabilities; null where one isn't known. @param {Words} now @param {Words | null} before */
export function both(now, before) {
  /** @type {Map<number, { id: number, text: string, after: number | null, first: number | null }>} */
  const rows = new Map(now.words.map(({ id, label: text, p }) => [id, { id, text, after: p, first: null }]));
  for (const { id, label: text, p } of before?.words ?? []) {
    const row = rows.get(id);
    if (row) row.first = p;
    else rows.set(id, { id, text, after: null, first: p });
  }
  return [...rows.values()].sort((a, b) => Math.max(b.after ?? 0, b.first ?? 0) - Math.max(a.after ?? 0, a.first ?? 0));
}
customElements.define("qkv-nextwords", NextWords);
