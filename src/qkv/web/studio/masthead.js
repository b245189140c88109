// <qkv-masthead>: the rooms, the current activity, and the switches for language and theme.

import { choice, h } from "../core/dom.js";
import { StudioElement, redraw, sized } from "./studio_element.js";
import { studio, titleOf } from "./studio_state.js";
import { LANGUAGES, mark, say } from "../core/words.js";
import "./export_menu.js";

/** @import { Busy } from "./studio_state.js" */

/** @type {Record<Busy["kind"], string>} */
const DOING = {
  starting: mark("starting the worker…"),
  loading: mark("opening {name}…"),
  fetching: mark("fetching {name}…"),
  computing: mark("computing…"),
};

export class Masthead extends StudioElement {
  fields = ["room", "theme", "busy"];

  /** @param {Set<string>} changed */
  render(changed) {
    if (changed.size === 1 && changed.has("busy")) return this.status();
    const { lang, theme, room } = studio.now;
    redraw(
      this,
      h(
        "div",
        { class: "bar" },
        h("h1", {}, "qkv", h("small", {}, say(lang, "studio"))),
        choice(
          say(lang, "Room"),
          [
            ["see", say(lang, "See")],
            ["steps", say(lang, "Steps")],
          ],
          room,
          (value) => studio.set({ room: value === "steps" ? "steps" : "see" }),
        ),
        h("div", { class: "status", role: "status" }),
        h(
          "div",
          { class: "switches" },
          h("button", { type: "button", class: "ask", "data-key": "tour", onclick: () => this.dispatchEvent(new CustomEvent("tour", { bubbles: true })) }, say(lang, "Tour")),
          h("qkv-exportmenu"),
          choice(
            say(lang, "Language"),
            LANGUAGES.map((name) => [name, say(name, "English")]),
            lang,
            (value) => studio.set({ lang: value }),
          ),
          choice(
            say(lang, "Light or dark"),
            [
              ["light", say(lang, "Light")],
              ["dark", say(lang, "Dark")],
            ],
            theme,
            (value) => studio.set({ theme: value === "dark" ? "dark" : "light" }),
          ),
        ),
      ),
    );
    this.status();
  }

  /** What is going on, and how far it is. */
  status() {
    const { lang, busy } = studio.now;
    const output = this.querySelector(".status");
    if (!output) return;
    if (!busy) return output.replaceChildren();
    const doing = busy.size ? mark("opening {name} ({size})…") : DOING[busy.kind];
    const share = busy.share === null ? null : Math.round(busy.share * 100);
    output.replaceChildren(
      h("span", {}, say(lang, doing, { name: titleOf(busy.name), size: sized(busy.size) }), share === null ? null : ` ${share} %`),
      h("progress", { max: 100, value: share, "aria-hidden": true }),
    );
  }
}
customElements.define("qkv-masthead", Masthead);
