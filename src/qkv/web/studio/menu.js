// A button that opens a small sheet; Escape and a click elsewhere close it.

import { closing, h, plainText } from "../core/dom.js";

/** @import { Child } from "../core/dom.js" */

export class Menu extends HTMLElement {
  /** @type {() => Child[]} what is on the sheet, made when it opens */
  fill = () => [];

  connectedCallback() {
    if (this.firstChild) return;
    this.button = h("button", { type: "button", class: "opener", "aria-haspopup": "dialog", "aria-expanded": false, onclick: () => this.toggle() });
    this.sheet = h("div", { class: "sheet", role: "dialog", hidden: true });
    this.append(this.button, this.sheet);
    closing(this, () => this.opened, () => this.close(), this.button);
    this.addEventListener("focusout", (event) => {
      const next = /** @type {Node | null} */ (event.relatedTarget);
      if (next && !this.contains(next)) this.close();
    });
  }

  get opened() {
    return Boolean(this.sheet && !this.sheet.hidden);
  }

  /** @param {Child} title what the button says @param {string} label what it is @param {() => Child[]} fill */
  told(title, label, fill) {
    this.fill = fill;
    this.button?.replaceChildren(h("span", {}, title), h("i", { "aria-hidden": true }, "▾"));
    this.button?.setAttribute("aria-label", plainText(label));
    this.sheet?.setAttribute("aria-label", plainText(label));
    if (this.opened) this.refresh();
  }

  toggle() {
    if (this.opened) return this.close();
    this.refresh();
    if (this.sheet) this.sheet.hidden = false;
    this.button?.setAttribute("aria-expanded", "true");
    /** @type {HTMLElement | null} */ (this.sheet?.querySelector("button, input, select, a"))?.focus();
    this.dispatchEvent(new CustomEvent("opening", { bubbles: true }));
  }

  refresh() {
    const { sheet } = this;
    if (!sheet) return;
    const active = /** @type {HTMLElement | null} */ (sheet.contains(document.activeElement) ? document.activeElement : null);
    sheet.replaceChildren(...this.fill().flatMap((child) => (child instanceof Node ? [child] : child ? [document.createTextNode(String(child))] : [])));
    const key = active?.dataset.key;
    if (key) /** @type {HTMLElement | null} */ (sheet.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus();
  }

  close() {
    if (this.sheet) this.sheet.hidden = true;
    this.button?.setAttribute("aria-expanded", "false");
  }
}
customElements.define("qkv-menu", Menu);
