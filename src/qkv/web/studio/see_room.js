// <qkv-seeroom>: a text in a model: its tokens, all heads, one head as map, lines and steps, and the panel of the mode.

import { choice, h } from "../core/dom.js";
import { linkNow } from "./studio_address.js";
import { lastResort } from "./live_view.js";
import { StudioElement } from "./studio_element.js";
import { headName, studio } from "./studio_state.js";
import { mark, say } from "../core/words.js";
import { header } from "../core/view.js";
import "./comparison.js";
import "./facts.js";
import "./generator.js";
import "../map/lines.js";
import "../map/map.js";
import "./next_words.js";
import "../map/overview.js";
import "./head_ranking.js";
import "../steps/steps.js";
import "./token_strip.js";
import "./head_edits.js";
import "./text_box.js";
import "./translation.js";

/** @import { Everything } from "./studio_state.js" */

/** @type {[Everything["mode"], string][]} */
const TABS = [
  ["look", mark("Look")],
  ["heads", mark("Heads")],
  ["generate", mark("Generate")],
  ["compare", mark("Compare")],
  ["cross", mark("Translate")],
];
/** What stands in the middle and at the side in each mode. @type {Record<Everything["mode"], { middle: string[], side: string[] }>} */
const ARRANGED = {
  look: { middle: ["map", "steps"], side: ["nextwords", "lines"] },
  heads: { middle: ["map", "steps"], side: ["switchboard", "nextwords", "ranking"] },
  generate: { middle: ["map", "steps"], side: ["generator", "lines"] },
  compare: { middle: ["comparison"], side: [] },
  cross: { middle: ["translation", "map", "steps"], side: ["lines"] },
};

export class SeeRoom extends StudioElement {
  fields = ["mode", "shown", "stale"];
  arranged = "";
  /** Pieces that were made already. @type {Map<string, HTMLElement>} */
  pieces = new Map();

  connectedCallback() {
    if (!this.firstChild) {
      this.tabs = h("div", { class: "modes" });
      this.ground = h("div", { class: "ground" });
      this.append(h("div", { class: "card text" }, h("qkv-textbox"), h("qkv-strip")), h("div", { class: "bar under" }, this.tabs, h("qkv-facts", { class: "facts" })), this.ground);
    }
    super.connectedCallback();
  }

  /** @param {Set<string>} changed */
  render(changed) {
    const { lang, mode } = studio.now;
    if (!header || !this.tabs || !this.ground) return;
    this.toggleAttribute("data-stale", studio.now.stale);
    this.ground.setAttribute("aria-busy", String(studio.now.stale));
    this.style.setProperty("--old", JSON.stringify(lastResort.used ? say(lang, "example") : say(lang, "old result"))); // what cards that aren't of what is asked for are marked with
    const translates = header.parts.some(({ name }) => name === "cross");
    const tabs = TABS.filter(([value]) => value !== "cross" || translates || mode === "cross");
    const key = JSON.stringify([lang, mode, tabs.length]);
    if (this.tabs.dataset.told !== key) {
      this.tabs.dataset.told = key;
      const focused = this.tabs.contains(document.activeElement);
      this.tabs.replaceChildren(choice(say(lang, "What to do"), tabs.map(([value, text]) => [value, say(lang, text)]), mode, (value) => studio.set({ mode: /** @type {Everything["mode"]} */ (value) })));
      if (focused) /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-checked=true]"))?.focus();
    }
    if (this.arranged === mode && !changed.has("mode")) return;
    this.arranged = mode;
    const { middle, side } = ARRANGED[mode];
    this.ground.className = `ground ${mode}`;
    this.ground.replaceChildren(
      this.piece("overview"),
      h("div", { class: "middle" }, ...middle.map((name) => this.piece(name))),
      ...(side.length ? [h("div", { class: "side" }, ...side.map((name) => this.piece(name)))] : []),
    );
  }

  /** @param {string} name */
  piece(name) {
    const element = this.pieces.get(name) ?? h(`qkv-${name}`, { class: "card" });
    // A link of the studio's says more than where one looks.
    if (name === "map" && !this.pieces.has(name)) Object.assign(element, { link: () => `${location.origin}/#${linkNow()}`, remark });
    this.pieces.set(name, element);
    return element;
  }

}

/** A head that was changed is drawn as it would look: what it is made to do isn't seen in its own map. */
function remark() {
  const { lang, part, layer, head, edits } = studio.now;
  const name = headName(part, layer, head);
  const to = edits.find(([edited]) => edited === name)?.[1];
  if (to === undefined) return "";
  if (to === "zero" || to === 0) return say(lang, "This head is switched off: the map shows where it would look, and its output isn't used.");
  if (typeof to === "number") return say(lang, "This head's output counts {times} times; where it looks stays the same.", { times: to.toFixed(2) });
  return say(lang, "This head is made to look elsewhere: the map shows where it would look by itself, which isn't used.");
}
customElements.define("qkv-seeroom", SeeRoom);
