// What is chosen. Elements listen for "change", whose detail is the set of names that changed.

/** @import { By } from "./view.js" */

/**
 * @typedef {object} Chosen
 * @property {string} part encoder, decoder, cross or mixers
 * @property {number} item of the batch
 * @property {number} layer
 * @property {number} head
 * @property {number} query a token's place
 * @property {number} key
 * @property {By} unit
 * @property {"root" | "linear"} scale
 * @property {"from" | "to"} way of the lines
 * @property {string} lang
 * @property {"light" | "dark"} theme
 */

export class State extends EventTarget {
  /** @type {Chosen} */
  now = {
    part: "",
    item: 0,
    layer: 0,
    head: 0,
    query: 0,
    key: 0,
    unit: "tokens",
    scale: "root",
    way: "from",
    lang: "en",
    theme: "light",
  };

  /** @param {Partial<Chosen>} changes */
  set(changes) {
    const before = /** @type {Record<string, any>} */ (this.now);
    const changed = new Set(
      Object.entries(changes)
        .filter(([name, value]) => before[name] !== value)
        .map(([name]) => name),
    );
    if (!changed.size) return;
    this.now = { ...this.now, ...changes };
    this.dispatchEvent(new CustomEvent("change", { detail: changed }));
  }

  /** @param {(changed: Set<string>) => void} listener */
  listen(listener) {
    this.addEventListener("change", (event) => listener(/** @type {CustomEvent} */ (event).detail));
  }
}

export const state = new State();
