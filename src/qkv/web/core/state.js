// The selection. Elements listen for "change", whose detail is the set of changed names.

/** @import { By } from "./view.js" */

/** The part of a map that is in view: the column and row it begins with, how many columns it has; and of how many columns and rows in all: of another map it says nothing. @typedef {[number, number, number, number, number]} Zoom */

/**
 * @typedef {object} Chosen
 * @property {number} shown grows whenever another source is shown
 * @property {string} part encoder, decoder, cross or mixers
 * @property {number} item of the batch
 * @property {number} layer
 * @property {number} head
 * @property {number} query a token's place
 * @property {number} key
 * @property {By} unit
 * @property {"root" | "linear"} scale
 * @property {"from" | "to"} way of the lines
 * @property {"shown" | "hidden"} sink hidden: the first and special tokens are removed, and rows renormalised
 * @property {Zoom | null} zoom null is all of the map
 * @property {"max" | "mean"} pool of cells of many tokens: their largest weight, or the mean
 * @property {string} lang
 * @property {"light" | "dark"} theme
 */

/** The initial selection. @type {Chosen} */
export const BEGINNING = {
  shown: 0,
  part: "",
  item: 0,
  layer: 0,
  head: 0,
  query: 0,
  key: 0,
  unit: "tokens",
  scale: "root",
  way: "from",
  sink: "shown",
  zoom: null,
  pool: "max",
  lang: "en",
  theme: "light",
};

export class State extends EventTarget {
  /** @param {Chosen} [now] */
  constructor(now = BEGINNING) {
    super();
    this.now = now;
  }

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

  /** @param {(changed: Set<string>) => void} listener @param {AbortSignal} [signal] ends it */
  listen(listener, signal) {
    this.addEventListener("change", (event) => listener(/** @type {CustomEvent} */ (event).detail), { signal });
  }
}

/** The selection of the page or the studio. */
export const state = new State();

/** The own selection of one of several maps; the rest is shared with `state`. */
export class Beside extends State {
  /** @param {Partial<Chosen>} own @param {AbortSignal} [signal] after which it follows no more */
  constructor(own, signal) {
    super({ ...state.now, ...own });
    this.own = new Set(Object.keys(own));
    state.listen((changed) => {
      const shared = Object.entries(state.now).filter(([name]) => changed.has(name) && !this.own.has(name));
      super.set(Object.fromEntries(shared));
    }, signal);
  }

  /** @param {Partial<Chosen>} changes */
  set(changes) {
    const pick = (/** @type {boolean} */ own) => Object.fromEntries(Object.entries(changes).filter(([name]) => this.own.has(name) === own));
    super.set(pick(true));
    state.set(pick(false));
  }
}
