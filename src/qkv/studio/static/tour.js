// <qkv-tour>: eight stops, each of which waits until the person has done it. Escape leaves it at any time.

import { announce, h } from "./dom.js";
import { Piece, redraw } from "./piece.js";
import { isTrace, studio } from "./store.js";
import { mark, say } from "./words.js";

/** @import { Everything } from "./store.js" */

/**
 * @typedef {object} Stop
 * @property {string} title
 * @property {string} todo
 * @property {string} seen what there was to see, once it is done
 * @property {string} at what is lit up meanwhile
 * @property {(Partial<Everything>)} [go] where it happens
 * @property {string} [event] that it waits for
 * @property {string} [within] in which element
 * @property {(now: Everything, before: Everything) => boolean} [done]
 */

/** @type {Stop[]} */
const STOPS_OF_TOUR = [
  {
    title: mark("Type"),
    todo: mark("Change the text: add a word, or write your own."),
    seen: mark("Tokens, maps and next words followed: the model read your text."),
    at: "qkv-textbox",
    go: { room: "see", mode: "look" },
    done: (now, before) => now.text !== before.text && !isTrace(now.model),
  },
  {
    title: mark("Choose a word"),
    todo: mark("Click a word in the line of tokens (or: Tab to it, arrow keys)."),
    seen: mark("Its row is chosen everywhere: in the map, the lines and the steps."),
    at: "qkv-strip",
    go: { room: "see" },
    event: "word",
  },
  {
    title: mark("Open a head"),
    todo: mark("Click one of the small pictures: each is a head."),
    seen: mark("The map shows where this head looks: the stronger the colour, the more."),
    at: "qkv-overview",
    go: { room: "see", mode: "look" },
    event: "click",
    within: "qkv-overview [data-head]",
  },
  {
    title: mark("Switch it off"),
    todo: mark("Switch the head off, and look at the next words."),
    seen: mark("Grey is before, blue is after. Most heads change little; some change a lot."),
    at: "qkv-switchboard",
    go: { room: "see", mode: "heads" },
    done: (now) => now.edits.some(([, to]) => to === "zero" || to === 0),
  },
  {
    title: mark("Link two words"),
    todo: mark("Press / and type two words with an arrow between them: it → cat (or it -> cat), then Enter."),
    seen: mark("The list shows the heads by how much the one looks at the other."),
    at: ".finder",
    go: { room: "see", mode: "heads" },
    event: "linked",
  },
  {
    title: mark("Generate"),
    todo: mark("Press “One more token”, or click one of the bars."),
    seen: mark("The token was added, and the map has one row more."),
    at: "qkv-generator",
    go: { room: "see", mode: "generate" },
    done: (now, before) => now.more.length > before.more.length,
  },
  {
    title: mark("Compare"),
    todo: mark("Choose another head B, or another text."),
    seen: mark("Blue: B looks there more than A. Red: less. The crosshair is in all three."),
    at: "qkv-comparison .controls",
    go: { room: "see", mode: "compare" },
    done: (now, before) => now.against !== before.against,
  },
  {
    title: mark("Take it away"),
    todo: mark("Open “Take away” at the top."),
    seen: mark("Pictures, numbers, a page, lines of Python, or a link: all of what you see."),
    at: "qkv-exportmenu",
    event: "opening",
    within: "qkv-exportmenu",
  },
];

export class Tour extends Piece {
  fields = ["models"];
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
    this.next();
  }

  next() {
    if (this.at === STOPS_OF_TOUR.length - 1) this.leave();
    else this.go(this.at + 1);
  }

  /** @param {number} at */
  go(at) {
    this.at = at;
    this.done = false;
    studio.set(STOPS_OF_TOUR[at].go ?? {});
    this.start = studio.now;
    this.render();
    this.light();
    const { lang } = studio.now;
    const { title, todo } = STOPS_OF_TOUR[at];
    announce(`${say(lang, title)}. ${say(lang, todo)}`);
  }

  /** Show where it happens. */
  light() {
    for (const lit of document.querySelectorAll(".touring")) lit.classList.remove("touring");
    const place = document.querySelector(STOPS_OF_TOUR[this.at].at);
    place?.classList.add("touring");
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const box = place?.getBoundingClientRect();
    if (place && box && (box.top < 0 || box.top > innerHeight * 0.7)) place.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  finish() {
    this.done = true;
    this.render();
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
      h("p", { class: this.done ? "seen" : null }, this.done ? say(lang, seen) : say(lang, todo)),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", class: this.done ? "main" : "ask", "data-key": "next", onclick: () => this.next() }, this.done || last ? next : say(lang, "Skip")),
        this.at ? h("button", { type: "button", class: "ask", "data-key": "back", onclick: () => this.go(this.at - 1) }, say(lang, "Back")) : null,
        h("small", {}, say(lang, "Ctrl + Enter goes on, Esc leaves")),
        last && this.done ? null : h("button", { type: "button", class: "ask", "data-key": "leave", onclick: () => this.leave() }, say(lang, "Leave the tour")),
      ),
    );
  }
}
customElements.define("qkv-tour", Tour);
