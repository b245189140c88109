// <qkv-notice>: what went wrong, in a sentence; the page stays as it is.

import { h } from "./dom.js";
import { lookAgain } from "./live.js";
import { Piece, redraw } from "./piece.js";
import { studio } from "./store.js";
import { say } from "./words.js";

export class Notice extends Piece {
  fields = ["problem", "lost"];

  connectedCallback() {
    this.setAttribute("role", "alert");
    super.connectedCallback();
  }

  render() {
    const { lang, problem, lost } = studio.now;
    this.hidden = !problem && !lost;
    if (this.hidden) return redraw(this);
    const sentence = lost
      ? say(lang, "The studio doesn't answer: was it ended in the terminal? What is on screen stays; it goes on when it is back.")
      : /** @type {Record<string, string>} */ (/** @type {unknown} */ (problem))[lang] ?? problem?.en;
    redraw(
      this,
      h("p", {}, sentence),
      h("button", { type: "button", class: "ask", "data-key": "again", onclick: () => lookAgain() }, say(lang, "Try again")),
      h("button", { type: "button", class: "ask", "data-key": "away", onclick: () => studio.set({ problem: null, lost: false }) }, say(lang, "Close")),
    );
  }
}
customElements.define("qkv-notice", Notice);
