// <qkv-tour>: eight stops; each waits until the user has done its task. Escape ends it at any time.

import { announce, h } from "../core/dom.js";
import { StudioElement, redraw } from "./studio_element.js";
import { isTrace, studio } from "./studio_state.js";
import { mark, say } from "../core/words.js";
import { axes, header, partOf } from "../core/view.js";

/** @import { Everything } from "./studio_state.js" */

/**
 * @typedef {object} Stop
 * @property {string} title
 * @property {string} todo
 * @property {string} seen what there was to see, once it is done
 * @property {string} at what is lit up meanwhile
 * @property {string} first where the keyboard begins, in it
 * @property {string} [shows] where there is something to see then
 * @property {(Partial<Everything>)} [go] where it happens
 * @property {string} [event] that it waits for
 * @property {string} [within] in which element
 * @property {(now: Everything, before: Everything) => boolean} [done]
 */

const ENOUGH = 240; // pixels of something tall that are worth seeing

/** @type {Stop[]} */
const STOPS_OF_TOUR = [
  {
    title: mark("Type"),
    todo: mark("Change the text: add a word, or write your own."),
    seen: mark("Tokens, maps and next words followed: the model read your text."),
    at: "qkv-textbox",
    first: "textarea",
    go: { room: "see", mode: "look" },
    done: (now, before) => now.text !== before.text && !isTrace(now.model),
  },
  {
    title: mark("Choose a word"),
    todo: mark("Click a word in the line of tokens (or: Tab to it, arrow keys)."),
    seen: mark("Its row is chosen everywhere: in the map, the lines and the steps."),
    at: "qkv-strip",
    first: "[aria-selected=true]",
    shows: "qkv-map",
    go: { room: "see" },
    event: "word",
  },
  {
    title: mark("Open a head"),
    todo: mark("Click one of the small pictures: each is a head (or: arrow keys, then Enter)."),
    seen: mark("The map shows where this head looks: the stronger the colour, the more."),
    at: "qkv-overview",
    first: "[data-head][tabindex='0']",
    shows: "qkv-map",
    go: { room: "see", mode: "look" },
    event: "click",
    within: "qkv-overview [data-head]",
  },
  {
    title: mark("Switch it off"),
    todo: mark("Switch the head off, and look at the next words."),
    seen: mark("Grey is before, blue is after. Most heads change little; some change a lot."),
    at: "qkv-switchboard",
    first: ".choice [tabindex='0']",
    shows: "qkv-nextwords",
    go: { room: "see", mode: "heads" },
    done: (now, before) => now.edits !== before.edits && now.edits.some(([, to]) => to === "zero" || to === 0),
  },
  {
    title: mark("Link two words"),
    todo: mark("Press / and type two words with an arrow between them: {from} → {to} (or {from} -> {to}), then Enter."),
    seen: mark("The list shows the heads by how much the one looks at the other."),
    at: ".finder",
    first: "input",
    shows: "qkv-ranking",
    go: { room: "see", mode: "heads" },
    event: "linked",
  },
  {
    title: mark("Generate"),
    todo: mark("Press “One more token”, or click one of the bars."),
    seen: mark("The token was added, and the map has one row more."),
    at: "qkv-generator",
    first: "[data-key=one]",
    shows: "qkv-map",
    go: { room: "see", mode: "generate" },
    done: (now, before) => now.more.length > before.more.length,
  },
  {
    title: mark("Compare"),
    todo: mark("Choose another head B, or another text."),
    seen: mark("Blue: B looks there more than A. Red: less. The crosshair is in all three."),
    at: "qkv-comparison .controls",
    first: "[data-key=layer], [data-key]",
    shows: "qkv-comparison .three",
    go: { room: "see", mode: "compare" },
    done: (now, before) => now.against !== before.against,
  },
  {
    title: mark("Take it away"),
    todo: mark("Open “Take away” at the top."),
    seen: mark("Pictures, numbers, a page, lines of Python, or a link: all of what you see."),
    at: "qkv-exportmenu",
    first: ".opener",
    event: "opening",
    within: "qkv-exportmenu",
  },
];

/** Did the keyboard bring us here? */
const byKeyboard = () => Boolean(document.activeElement?.matches("button:focus-visible"));

/** Two words of the text that are worth linking: it and cat, else the last and the longest before it. */
function twoWords() {
  if (!header) return { from: "it", to: "cat" };
  const words = axes(partOf(studio.now.part), studio.now.item, "words")[0].filter(({ special }) => !special).map(({ label }) => label.trim()).filter((word) => /\p{L}/u.test(word));
  if (words.length < 2 || ["it", "cat"].every((word) => words.includes(word))) return { from: "it", to: "cat" };
  const to = words.slice(0, -1).reduce((long, word) => (word.length > long.length ? word : long));
  return { from: words[words.length - 1], to };
}

export class Tour extends StudioElement {
  fields = ["models", "shown"];
  at = 0;
  done = false;
  /** What was chosen when the stop began. */
  start = studio.now;

  connectedCallback() {
    this.setAttribute("role", "region");
    this.className = "tour";
    super.connectedCallback();
    studio.listen(() => {
      const { done } = STOPS_OF_TOUR[this.at];
      if (!this.done && done?.(studio.now, this.start)) this.finish();
    }, this.ending.signal);
    for (const name of ["word", "linked", "opening", "click"]) {
      document.addEventListener(
        name,
        (event) => {
          const stop = STOPS_OF_TOUR[this.at];
          const there = !stop.within || /** @type {Element} */ (event.target).closest(stop.within);
          if (!this.done && stop.event === name && there) this.finish();
        },
        { signal: this.ending.signal },
      );
    }
    addEventListener("keydown", (event) => this.key(event), { signal: this.ending.signal });
    this.go(0);
  }

  /** From anywhere: Escape leaves, Ctrl + Enter goes on. @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Escape") return this.leave();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.next(true);
  }

  next(keyed = byKeyboard()) {
    if (this.at === STOPS_OF_TOUR.length - 1) this.leave();
    else this.go(this.at + 1, keyed);
  }

  /** @param {number} at @param {boolean} keyed who goes by keyboard goes on from where it happens; a phone's own would come up unasked */
  go(at, keyed = byKeyboard()) {
    this.at = at;
    this.done = false;
    studio.set(STOPS_OF_TOUR[at].go ?? {});
    this.start = studio.now;
    this.render();
    this.light(keyed);
    const { lang } = studio.now;
    const { title, todo } = STOPS_OF_TOUR[at];
    announce(`${say(lang, title)}. ${say(lang, todo, twoWords())}`);
  }

  /** Show where it happens. @param {boolean} keyed */
  light(keyed) {
    for (const lit of document.querySelectorAll(".touring")) lit.classList.remove("touring");
    const { at, first } = STOPS_OF_TOUR[this.at];
    const target = document.querySelector(at);
    target?.classList.add("touring");
    if (keyed) /** @type {HTMLElement | null | undefined} */ (target?.querySelector(first))?.focus({ preventScroll: true });
    this.bring(target);
  }

  /** Into view, where it isn't, or where the tour itself hides it. @param {Element | null} target */
  bring(target) {
    const box = target?.getBoundingClientRect();
    const floor = Math.min(this.getBoundingClientRect().top, innerHeight * 0.7);
    if (!target || !box || (box.top >= 0 && Math.min(box.bottom, box.top + ENOUGH) <= floor)) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    target.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  finish() {
    this.done = true;
    this.render();
    const { shows } = STOPS_OF_TOUR[this.at];
    // After everything has drawn itself anew and has its focus back, which may scroll, too.
    if (shows) requestAnimationFrame(() => this.isConnected && this.bring(document.querySelector(shows)));
    announce(say(studio.now.lang, STOPS_OF_TOUR[this.at].seen));
  }

  leave() {
    for (const lit of document.querySelectorAll(".touring")) lit.classList.remove("touring");
    this.remove();
    /** @type {HTMLElement | null} */ (document.querySelector("[data-key=tour]"))?.focus();
  }

  render() {
    const { lang } = studio.now;
    const { title, todo, seen } = STOPS_OF_TOUR[this.at];
    const last = this.at === STOPS_OF_TOUR.length - 1;
    this.setAttribute("aria-label", say(lang, "Tour"));
    const next = last ? say(lang, "End of the tour") : say(lang, "Next");
    redraw(
      this,
      h("div", { class: "bar" }, h("h2", {}, say(lang, title)), h("small", {}, say(lang, "{n} of {all}", { n: this.at + 1, all: STOPS_OF_TOUR.length }))),
      h("p", { class: this.done ? "seen" : null }, this.done ? say(lang, seen) : say(lang, todo, twoWords())),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", class: this.done ? "main" : "ask", "data-key": "next", onclick: () => this.next() }, this.done || last ? next : say(lang, "Skip")),
        this.at ? h("button", { type: "button", class: "ask", "data-key": "back", onclick: () => this.go(this.at - 1) }, say(lang, "Back")) : null,
        last && this.done ? null : h("button", { type: "button", class: "ask", "data-key": "leave", onclick: () => this.leave() }, say(lang, "Leave the tour")),
        h("small", {}, say(lang, "Ctrl + Enter goes on, Esc leaves")),
      ),
    );
  }
}
customElements.define("qkv-tour", Tour);
