// <qkv-strip>: the tokens, and a field that finds one word ("/") or two: it → cat.

import { announce, h, token } from "../core/dom.js";
import { StudioElement, redraw } from "./studio_element.js";
import { studio } from "./studio_state.js";
import { say } from "../core/words.js";
import { axes, header, partOf, unitAt } from "../core/view.js";

/** @import { Unit } from "../core/view.js" */

const MAX_TOKENS = 600; // tokens that are written; of longer texts those around the chosen one

export class TokenStrip extends StudioElement {
  fields = ["shown", "part", "item", "query", "key", "unit", "more"];
  missing = "";

  connectedCallback() {
    this.field = /** @type {HTMLInputElement} */ (
      h("input", {
        type: "search",
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => this.note(""),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          if (event.isComposing) return;
          if (event.key === "Enter") this.find(event.shiftKey ? -1 : 1);
          if (event.key !== "Escape") return;
          event.stopPropagation(); // it leaves the field, not the tour
          this.field?.blur();
        },
      })
    );
    this.said = h("p", { class: "help missing", role: "status" });
    this.sides = h("div", { class: "sides" });
    this.replaceChildren(this.sides, h("div", { class: "finder" }, this.field, this.said));
    addEventListener(
      "keydown",
      (event) => {
        const at = /** @type {HTMLElement} */ (event.target);
        if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || at.closest?.("input, textarea, select, [contenteditable]")) return;
        event.preventDefault();
        this.field?.focus();
        this.field?.select();
      },
      { signal: this.ending.signal },
    );
    super.connectedCallback();
  }

  render() {
    if (!header || !this.sides || !this.field) return;
    const { lang, item, part: name } = studio.now;
    const part = partOf(name);
    this.field.placeholder = say(lang, "/  find a word, or: it → cat");
    this.field.setAttribute("aria-label", say(lang, "Find a word, or two with an arrow between them to see which heads link them"));
    const two = part.queries[item] !== part.keys[item];
    redraw(
      this.sides,
      two ? this.side("key", say(lang, "Source")) : null,
      this.side("query", two ? say(lang, "Translation") : say(lang, "Tokens")),
    );
  }

  /** One text, token by token. @param {"query" | "key"} side @param {string} title */
  side(side, title) {
    const { item, unit, query, key, more } = studio.now;
    const part = partOf(studio.now.part);
    const list = axes(part, item, unit)[side === "query" ? 0 : 1];
    const two = part.queries[item] !== part.keys[item];
    const at = unitAt(list, side === "query" ? query : key);
    const looked = two ? -1 : unitAt(list, key);
    const from = list.length <= MAX_TOKENS ? 0 : Math.max(0, Math.min(at - MAX_TOKENS / 2, list.length - MAX_TOKENS));
    const end = list[list.length - 1].end - more.length;
    const row = h("div", { class: "tokens", role: "listbox", "aria-label": title, onkeydown: (/** @type {KeyboardEvent} */ event) => this.step(event, list, side) });
    if (from > 0) row.append(h("i", {}, "…"));
    list.slice(from, from + MAX_TOKENS).forEach((unit, i) => {
      const on = from + i === at;
      const kind = [unit.special ? "special" : "", from + i === looked ? "looked" : "", more.length && side === "query" && unit.first >= end ? "generated" : ""];
      row.append(
        h(
          "button",
          {
            type: "button",
            role: "option",
            "aria-selected": on,
            tabindex: on ? 0 : -1,
            class: kind.filter(Boolean).join(" ") || null,
            "data-key": `${side} ${unit.first}`,
            "data-place": unit.end - 1,
            onclick: () => this.choose(side, unit),
          },
          token(unit.label),
        ),
      );
    });
    if (from + MAX_TOKENS < list.length) row.append(h("i", {}, "…"));
    return two ? h("div", { class: "side" }, h("small", {}, title), row) : row;
  }

  /** A word is chosen by its last token: there a decoder has read all of it. @param {"query" | "key"} side @param {Unit} unit */
  choose(side, unit) {
    studio.set(side === "query" ? { query: unit.end - 1, way: "from" } : { key: unit.end - 1 });
    this.dispatchEvent(new CustomEvent("word", { bubbles: true }));
  }

  /** @param {KeyboardEvent} event @param {Unit[]} list @param {"query" | "key"} side */
  step(event, list, side) {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    event.preventDefault();
    const { query, key } = studio.now;
    const at = Math.max(0, Math.min(list.length - 1, unitAt(list, side === "query" ? query : key) + by));
    this.choose(side, list[at]);
    /** @type {HTMLElement | null} */ (this.querySelector(`[data-key="${side} ${list[at].first}"]`))?.focus();
  }

  /** @param {string} text */
  note(text) {
    if (this.said) this.said.textContent = text;
    if (text) announce(text);
  }

  /** Choose the next token that the typed word is in; of two words, what links them. @param {1 | -1} by */
  find(by) {
    const { lang, item, query, key } = studio.now;
    const part = partOf(studio.now.part);
    const [queries, keys] = axes(part, item, "words");
    const typed = (this.field?.value ?? "").trim().replace(/^\/(?=.)/, ""); // who was told to press / may do it in the field
    if (!typed) return;
    const [from, to] = typed.split(/\s*(?:→|->|=>|⇒)\s*/);
    const seek = (/** @type {string} */ word, /** @type {Unit[]} */ list, /** @type {number} */ now) => {
      const tokens = axes(part, item, "tokens")[list === queries ? 0 : 1];
      const matches = [matching(word, list), matching(word, tokens), endings(word, list)].find(({ length }) => length) ?? [];
      if (!matches.length) {
        this.note(say(lang, "{word} isn't in the text", { word }));
        return null;
      }
      // From where one is, onwards and round.
      const order = by > 0 ? matches : [...matches].reverse();
      return (order.find(({ end }) => (by > 0 ? end - 1 > now : end - 1 < now)) ?? order[0]).end - 1;
    };
    if (to !== undefined) {
      const [i, j] = [seek(from, queries, -1), seek(to, keys, -1)];
      if (i === null || j === null) return;
      studio.set({ query: i, key: j, way: "from" });
      this.note("");
      return this.dispatchEvent(new CustomEvent("linked", { bubbles: true }));
    }
    const index = seek(typed, queries, query);
    if (index === null) return;
    studio.set({ query: index, way: "from" });
    this.note("");
    this.dispatchEvent(new CustomEvent("word", { bubbles: true }));
  }
}

/** Where a word of several units ends: 对岸, which is 对 and 岸. @param {string} word @param {Unit[]} list */
function endings(word, list) {
  const sought = word.toLowerCase().replace(/\s+/g, "");
  return list.filter((_, i) => {
    let joined = "";
    for (let at = i; at >= 0 && joined.length < sought.length; at--) joined = list[at].label.trim().toLowerCase() + joined;
    return joined === sought;
  });
}

/** @param {string} word @param {Unit[]} list */
function matching(word, list) {
  const sought = word.toLowerCase();
  const exact = list.filter(({ label }) => label.trim().toLowerCase() === sought);
  return exact.length ? exact : list.filter(({ label }) => label.toLowerCase().includes(sought));
}
customElements.define("qkv-strip", TokenStrip);
