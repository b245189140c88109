// <qkv-stepsroom>: one head as a machine, with small numbers or those of the selected head; every number can be edited.

import { picks } from "../map/controls.js";
import { choice, h } from "../core/dom.js";
import { failed, served } from "./live_view.js";
import { MachineElement } from "../steps/machine.js";
import { StudioElement, redraw } from "./studio_element.js";
import { state } from "../core/state.js";
import { headName, studio, titleOf } from "./studio_state.js";
import { say } from "../core/words.js";
import { axes, header, partOf } from "../core/view.js";

/** @import { Head } from "../core/attention.js" */
/** @import { MachineNumbers } from "../steps/machine.js" */

const PREFIX = 6; // tokens of a real head that a screen has room for

/** Three words of three numbers, queries of two: small enough to compute by hand. @param {string[]} words @returns {MachineNumbers} */
const toy = (words) => ({
  words,
  keys: words,
  given: {
    x: [
      [1, 0, 1],
      [0, 2, 0],
      [1, 1, 0],
    ],
    w_q: [
      [1, 0],
      [0, 1],
      [1, 1],
    ],
    w_k: [
      [0, 1],
      [1, 0],
      [2, 0],
    ],
    w_v: [
      [1, 0],
      [0, 2],
      [1, 1],
    ],
  },
  mask: words.map((_, i) => words.map((_, j) => j <= i)),
  scale: "sqrt",
  show: ["x", "w", "qkv", "scores", "scaled", "masked", "weights", "output"],
  query: 2,
  digits: 2,
});

export class StepsRoom extends StudioElement {
  fields = ["bench", "shown", "part", "item", "layer", "head"];
  asked = 0;
  made = "";
  /** What the machine works on. */
  what = "";
  /** What was changed, by what it was changed in. @type {Map<string, string>} */
  kept = new Map();

  connectedCallback() {
    if (!this.firstChild) {
      this.controls = h("div", { class: "card controls" });
      this.place = h("div", { class: "place" });
      this.append(this.controls, this.place);
      this.addEventListener("changed", (event) => this.keep(/** @type {CustomEvent} */ (event).detail));
    }
    // Somebody followed a link.
    studio.listen((changed) => changed.has("worked") && !studio.now.worked.of && this.anew(), this.ending.signal);
    super.connectedCallback();
  }

  render() {
    const { lang, bench, part, layer, head } = studio.now;
    if (!this.controls) return;
    const name = header ? headName(part, layer, head) : "";
    redraw(
      this.controls,
      h(
        "div",
        { class: "bar" },
        h("h2", {}, say(lang, "One head as a machine")),
        choice(
          say(lang, "Which numbers"),
          [
            ["toy", say(lang, "Small numbers")],
            ["head", say(lang, "Head {name} of {model}", { name, model: titleOf(studio.now.model) })],
          ],
          bench,
          (value) => studio.set({ bench: value === "head" ? "head" : "toy" }),
        ),
      ),
      bench === "head" && header ? picks(state)[0] : null,
      bench === "head" && header ? h("p", { class: "help" }, say(lang, "Layers and heads count from 0.")) : null,
      h("p", { class: "help" }, say(lang, "Change any number that has a frame, or the mask: everything after it follows. Point at a number, and the formula and the numbers it came from light up.")),
      h("p", { class: "help honest" }),
    );
    void this.load();
  }

  async load() {
    const mine = ++this.asked;
    const { lang, bench, part: name, item, layer, head } = studio.now;
    this.what = JSON.stringify(bench === "toy" ? [bench] : [bench, served?.spec, name, item, layer, head]);
    const key = this.what + lang;
    if (bench === "toy") {
      if (key !== this.made) this.put(key, toy([say(lang, "I"), say(lang, "love"), say(lang, "you")]), "");
      return;
    }
    const source = served;
    if (!header || !source) return;
    try {
      const part = partOf(name);
      const instance = await source.head(part, layer, item, head);
      if (mine !== this.asked) return;
      const [queries, keys] = axes(part, item, "tokens");
      const refused = this.refused(instance, part.signed);
      if (refused) return this.put(key, null, refused);
      const rows = Math.min(PREFIX, part.n),
        columns = Math.min(PREFIX, part.m);
      this.say(this.honest(instance, rows, columns, part));
      if (key === this.made) return;
      this.put(key, real(instance, queries.slice(0, rows).map(({ label }) => label), keys.slice(0, columns).map(({ label }) => label)), this.honest(instance, rows, columns, part));
    } catch (error) {
      failed(error);
    }
  }

  /** Why a head can't be shown so; "" if it can. @param {Head} instance @param {boolean} signed */
  refused(instance, signed) {
    const { lang } = studio.now;
    if (signed) return say(lang, "This is a mixer's head, which has no softmax: its numbers are in the See room.");
    if (!instance.width || !instance.v) return say(lang, "Of this head only weights were kept.");
    if (instance.layer.softcap !== null || instance.bias !== null || instance.sink !== null) return say(lang, "This head has more than the formula (a bias, a cap or a sink): its numbers are in the See room.");
    return "";
  }

  /** What is shown of a head, and what isn't. @param {Head} instance @param {number} rows @param {number} columns @param {{ n: number, m: number, name: string }} part */
  honest(instance, rows, columns, part) {
    const { lang } = studio.now;
    const facts = [say(lang, "q and k are as they are after positions went in, with all {width} numbers each.", { width: instance.width })];
    if (rows < part.n || columns < part.m) {
      // A causal row sees nothing beyond the prefix, so what is left out changes nothing.
      const causal = Array.from({ length: rows }, (_, i) => instance.reach(i)[1]).every((end) => end <= columns);
      facts.push(
        causal
          ? say(lang, "The first {few} of {n} tokens: their rows see no others, so every number is the model's.", { few: rows, n: part.n })
          : say(lang, "The first {few} of {n} tokens: the rest is left out here, so weights are larger than the model's.", { few: rows, n: part.n }),
      );
    }
    return facts.join(" ");
  }

  /** @param {string} text */
  say(text) {
    const line = this.querySelector(".honest");
    if (line) line.textContent = text;
  }

  /** @param {string} key @param {MachineNumbers | null} numbers @param {string} caption */
  put(key, numbers, caption) {
    this.made = key;
    this.say(caption);
    if (!numbers) return this.place?.replaceChildren();
    const machine = /** @type {MachineElement} */ (h("qkv-machine", { class: "card" }));
    machine.told = numbers;
    this.place?.replaceChildren(machine);
    const { of, changes } = studio.now.worked;
    machine.redo(of ? (this.kept.get(this.what) ?? "") : changes);
    this.keep(machine.changes);
  }

  /** @param {string} changes */
  keep(changes) {
    this.kept.set(this.what, changes);
    studio.set({ worked: { of: this.what, changes } });
  }

  anew() {
    this.made = "";
    if (this.isConnected) void this.load(); // else when the room is entered again
  }
}

/** The beginning of a real head. @param {Head} instance @param {string[]} words @param {string[]} keys @returns {MachineNumbers} */
export function real(instance, words, keys) {
  const rows = (/** @type {Float32Array} */ all, /** @type {number} */ width, /** @type {number} */ count) =>
    Array.from({ length: count }, (_, i) => Array.from(all.subarray(i * width, (i + 1) * width)));
  return {
    words,
    keys,
    given: { q: rows(instance.q, instance.width, words.length), k: rows(instance.k, instance.width, keys.length), v: rows(/** @type {Float32Array} */ (instance.v), instance.valueWidth, keys.length) },
    mask: words.map((_, i) => keys.map((_, j) => instance.allowed(i, j))),
    scale: instance.layer.scale,
    show: ["qkv", "scores", "scaled", "masked", "weights", "output"],
    query: words.length - 1,
    digits: 3,
  };
}
customElements.define("qkv-stepsroom", StepsRoom);
