// <qkv-notice>: an error as a sentence; the page stays as it is.

import { h } from "../core/dom.js";
import { lookAgain } from "./live_view.js";
import { StudioElement, redraw } from "./studio_element.js";
import { studio } from "./studio_state.js";
import { say } from "../core/words.js";

export class Notice extends StudioElement {
  fields = ["problem", "lost", "locked", "reload", "textLost"];

  connectedCallback() {
    this.setAttribute("role", "alert");
    super.connectedCallback();
  }

  render() {
    const { lang, problem, lost, locked, reload, textLost } = studio.now;
    this.hidden = !problem && !lost && !reload && !textLost;
    if (this.hidden) return redraw(this);
    const sentences = [];
    if (reload) sentences.push(say(lang, "The studio was restarted with another version of qkv ({version}): reload this page to continue. Text and choices are kept.", { version: reload }));
    else if (lost && locked) sentences.push(say(lang, "The studio was restarted and has a new key. Open the address that it printed in the terminal in any tab of this browser, and this tab continues by itself. What is on screen stays."));
    else if (lost) sentences.push(say(lang, "The studio doesn't answer at {address}: was it stopped in the terminal? What is on screen stays. This tab continues by itself once qkv studio runs at this address again.", { address: location.host }));
    else if (problem) sentences.push(/** @type {Record<string, string>} */ (/** @type {unknown} */ (problem))[lang] ?? problem.en);
    if (textLost) sentences.unshift(say(lang, "The text is too long for a link, and only the tab that made this link has it: paste the text again. Another one is shown instead."));
    redraw(
      this,
      h("div", {}, ...sentences.map((sentence) => h("p", {}, sentence))),
      reload
        ? h("button", { type: "button", class: "main", "data-key": "reload", onclick: () => location.reload() }, say(lang, "Reload"))
        : h("button", { type: "button", class: "ask", "data-key": "again", onclick: () => lookAgain() }, say(lang, "Try again")),
      h("button", { type: "button", class: "ask", "data-key": "away", onclick: () => studio.set({ problem: null, lost: false, locked: false, reload: "", textLost: false }) }, say(lang, "Close")),
    );
  }
}
customElements.define("qkv-notice", Notice);
