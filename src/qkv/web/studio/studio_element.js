// Base class of the studio's elements: an element is redrawn when one of its fields changes, and keeps the focus.

import { refill } from "../core/dom.js";
import { studio } from "./studio_state.js";

/** @import { Child } from "../core/dom.js" */

export class StudioElement extends HTMLElement {
  /** The fields whose changes redraw it. @type {string[]} */
  fields = [];
  ending = new AbortController();

  connectedCallback() {
    this.ending = new AbortController();
    studio.listen((changed) => {
      if (changed.has("lang") || this.fields.some((name) => changed.has(name))) this.render(changed);
    }, this.ending.signal);
    this.render(new Set());
  }

  disconnectedCallback() {
    this.ending.abort();
  }

  /** @param {Set<string>} _changed */
  render(_changed) {}
}

/** Replace what is in an element; the focus stays on what has the same data-key. @param {Element} element @param {...Child} children */
export function redraw(element, ...children) {
  const active = element.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const key = active?.dataset.key;
  refill(element, ...children);
  if (key) /** @type {HTMLElement | null} */ (element.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({ preventScroll: true });
}

/** A size as people read it. @param {number | null | undefined} bytes */
export function sized(bytes) {
  if (!bytes) return "";
  const units = ["B", "kB", "MB", "GB"];
  const at = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  const size = bytes / 1000 ** at;
  return `${size >= 10 || at === 0 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/** A share as people read it: 41 %, 3.2 %, 0.04 %. @param {number} p */
export function percent(p) {
  const x = p * 100;
  if (x === 0) return "0\u00a0%";
  if (x < 0.001) return "<0.001\u00a0%";
  return `${x >= 99.95 ? "100" : x >= 10 ? x.toFixed(1) : x >= 0.1 ? x.toFixed(2) : x.toFixed(3)}\u00a0%`;
}

/** A difference with its sign. @param {number} x @param {number} digits */
export const signedBy = (x, digits) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
