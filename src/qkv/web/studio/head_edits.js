// <qkv-switchboard>: edits of heads: off, uniform attention, attention to the first token only, weaker or stronger.

import { choice, h } from "../core/dom.js";
import { look } from "./live_view.js";
import { StudioElement, redraw } from "./studio_element.js";
import { slider } from "../core/slider.js";
import { editHead, headCalled, headName, isTrace, studio, togglePin } from "./studio_state.js";
import { mark, say } from "../core/words.js";
import { header, openHeadAt, partOf } from "../core/view.js";

/** @import { Edit } from "./studio_state.js" */

/** @type {Record<string, string>} */
const TO = {
  itself: mark("as it is"),
  zero: mark("off"),
  uniform: mark("uniform"),
  first: mark("first token only"),
};

export class HeadEdits extends StudioElement {
  fields = ["shown", "part", "layer", "head", "edits", "pins", "model"];

  render() {
    if (!header) return;
    const { lang, part, layer, head, edits, pins, model } = studio.now;
    const name = headName(part, layer, head);
    const heading = h("div", { class: "bar" }, h("h2", {}, say(lang, "Change head {name}", { name })), pinButton(name));
    if (isTrace(model)) return redraw(this, heading, h("p", { class: "help" }, say(lang, "A kept trace has no model behind it: open one to change its heads.")), this.tray(pins));
    if (partOf(part).signed) return redraw(this, heading, h("p", { class: "help" }, say(lang, "Only heads of attention can be changed, not those of mixers.")), this.tray(pins));
    const now = edits.find(([edited]) => edited === name)?.[1] ?? null;
    const current = now === null ? "itself" : typeof now === "number" ? "" : now;
    const times = typeof now === "number" ? now : now === "zero" ? 0 : 1;
    redraw(
      this,
      heading,
      choice(
        say(lang, "What the head does"),
        Object.entries(TO).map(([value, text]) => [value, say(lang, text)]),
        current,
        (value) => changeHead(name, value === "itself" ? null : /** @type {"zero"} */ (value)),
      ),
      slider(
        say(lang, "output ×"),
        say(lang, "How many times its own output the head gives"),
        40,
        Math.round(times * 20),
        (value) => (value / 20).toFixed(2),
        (value) => changeHead(name, value === 20 ? null : value / 20),
      ),
      edits.length ? this.list(edits) : h("p", { class: "help" }, say(lang, "Nothing is changed. Switch a head off, and the next words show before and after.")),
      this.tray(pins),
    );
  }

  /** Everything that is changed, each with a way back. @param {Edit[]} edits */
  list(edits) {
    const { lang } = studio.now;
    const editText = (/** @type {Edit[1]} */ to) => (typeof to === "number" ? `× ${to.toFixed(2)}` : say(lang, TO[to]));
    return h(
      "div",
      { class: "edits" },
      h(
        "div",
        { class: "bar" },
        h("h3", {}, say(lang, "Changed")),
        h("button", { type: "button", class: "ask", "data-key": "undo all", onclick: () => undoAll() }, say(lang, "Undo all")),
      ),
      h(
        "ul",
        {},
        ...edits.map(([name, to]) =>
          h(
            "li",
            {},
            h("button", { type: "button", class: "go", "data-key": `go ${name}`, onclick: () => goTo(name) }, h("b", {}, name), ` ${editText(to)}`),
            h("button", { type: "button", class: "undo", "data-key": `undo ${name}`, "aria-label": say(lang, "Undo {name}", { name }), onclick: () => changeHead(name, null) }, "✕"),
          ),
        ),
      ),
    );
  }

  /** Heads that were pinned. @param {string[]} pins */
  tray(pins) {
    const { lang } = studio.now;
    if (!pins.length) return null;
    return h(
      "div",
      { class: "tray" },
      h("h3", {}, say(lang, "Pinned")),
      h("ul", {}, ...pins.map((name) => h("li", {}, h("button", { type: "button", class: "go", "data-key": `pin ${name}`, onclick: () => goTo(name) }, h("b", {}, name)), h("button", { type: "button", class: "undo", "data-key": `unpin ${name}`, "aria-label": say(lang, "Unpin {name}", { name }), onclick: () => togglePin(name) }, "✕")))),
    );
  }
}

/** @param {string} name @param {Edit[1] | null} to */
export function changeHead(name, to) {
  editHead(name, to);
  look();
}

function undoAll() {
  studio.set({ edits: [] });
  look();
}

/** Open a head by its name. @param {string} name */
export function goTo(name) {
  const position = headCalled(name);
  if (!position) return;
  if (position.part !== studio.now.part) studio.set({ ...position, item: 0 });
  else openHeadAt(position.layer, position.head);
}

/** @param {string} name */
export function pinButton(name) {
  const { lang, pins } = studio.now;
  const on = pins.includes(name);
  return h("button", { type: "button", class: "pin", "aria-pressed": on, "data-key": `pinning ${name}`, title: say(lang, on ? mark("Unpin {name}") : mark("Pin {name}"), { name }), "aria-label": say(lang, on ? mark("Unpin {name}") : mark("Pin {name}"), { name }), onclick: () => togglePin(name) }, on ? "★" : "☆");
}
customElements.define("qkv-switchboard", HeadEdits);
