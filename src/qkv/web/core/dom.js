// Small helpers for elements. Text is only inserted as text nodes, since a token may look like a tag.

import { say } from "./words.js";

/** @typedef {Node | string | number | null | undefined | false} Child */

/** Controls, and what turns the direction of text: the same as UNSAFE of qkv/terminal/screen.py. */
const UNSAFE = /\r(?!\n)|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** A text with such characters written out, as \u202e, so that a name can't show as another. @param {string} text */
export const plainText = (text) => text.replace(UNSAFE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * An element: `on…` are listeners, the rest attributes (true is an empty one, false and null leave it out).
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  setProps(element, props);
  for (const child of children)
    if (child !== null && child !== undefined && child !== false)
      element.append(String(child) === child ? plainText(child) : asNode(child));
  return element;
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 */
export function svg(tag, props = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setProps(element, props);
  return element;
}

/** Attributes with text for users. */
const READ_OUT = new Set(["aria-label", "aria-valuetext", "title", "alt", "placeholder"]);

/** @param {Element} element @param {Record<string, any>} props */
function setProps(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") && typeof value === "boolean") element.setAttribute(name, String(value));
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value === true ? "" : READ_OUT.has(name) ? plainText(String(value)) : String(value));
  }
}

/** @param {Child} child */
const asNode = (child) => (child instanceof Node ? child : document.createTextNode(plainText(String(child))));

/** A token's text, kept apart from the direction of what is around it. @param {string} label */
export const token = (label) => h("bdi", { dir: "auto" }, label);

/**
 * A sentence with tokens in it: each placeholder that has a node is filled with that node, so that directions stay apart.
 * @param {string} sentence as `say` gives it for values that are "\u0001name\u0001"
 * @param {Record<string, Child>} nodes
 */
export function filled(sentence, nodes) {
  return sentence
    .split("\u0001")
    .map((piece, i) => (i % 2 ? nodes[piece] : piece))
    .map((child) => asNode(child ?? ""));
}

/** @param {string} name */
export const hole = (name) => `\u0001${name}\u0001`;

/**
 * Two or more choices side by side, one of them pressed; arrow keys move between them.
 * @param {string} label
 * @param {[string, string][]} choices value and text
 * @param {string} current
 * @param {(value: string) => void} choose
 */
export function choice(label, choices, current, choose) {
  const group = h("div", { class: "choice", role: "radiogroup", "aria-label": label });
  for (const [value, text] of choices) {
    const on = value === current;
    group.append(
      h(
        "button",
        {
          type: "button",
          role: "radio",
          "aria-checked": on,
          tabindex: on ? 0 : -1,
          "data-value": value,
          onclick: () => choose(value),
        },
        text,
      ),
    );
  }
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = choices.findIndex(([value]) => value === current);
    const next = choices[(at + step + choices.length) % choices.length][0];
    choose(next);
    // After a redraw `refill` has kept the focus; else it is moved here.
    if (group.isConnected) /** @type {HTMLElement | null} */ (group.querySelector(`[data-value="${next}"]`))?.focus();
  });
  return group;
}

/**
 * Replace what is in an element, keeping the focus: in a group of choices on the chosen one, else on the same control.
 * @param {Element} element
 * @param {...Child} children
 */
export function refill(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const group = active?.closest("[role=radiogroup]");
  const kind = group ? "[role=radiogroup]" : active?.tagName.toLowerCase();
  const at = kind ? [...element.querySelectorAll(kind)].indexOf(/** @type {Element} */ (group ?? active)) : -1;
  element.replaceChildren(...children.flatMap((child) => (child || child === 0 ? [asNode(child)] : [])));
  if (!kind) return;
  const again = element.querySelectorAll(kind)[at];
  const target = group ? again?.querySelector("[aria-checked=true]") : again;
  if (target instanceof HTMLElement) target.focus({ preventScroll: true });
}

/** "2 layers × 1 head". @param {string} lang @param {number} layers @param {number} heads */
export const layersAndHeads = (lang, layers, heads) =>
  `${layers === 1 ? say(lang, "1 layer") : say(lang, "{n} layers", { n: layers })} × ${heads === 1 ? say(lang, "1 head") : say(lang, "{n} heads", { n: heads })}`;

/** How many decimals an error leaves: it is at most half a unit of the last. @param {number} error @param {number} most */
export const decimals = (error, most) =>
  error > 0 ? Math.max(0, Math.min(most, Math.floor(1e-9 - Math.log10(2 * error)))) : most;

/** A number with a true minus sign, which 0 has none of. @param {number} x @param {number} digits */
export const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");

/** The same for what is too small for that. @param {number} x @param {number} digits */
const powered = (x, digits) => x.toExponential(digits).replaceAll("-", "−");

/** What is too small for so many digits, but not 0. @param {number} w @param {number} digits */
const faint = (w, digits) => (w < 0 ? ">−" : "<") + (10 ** -digits).toFixed(digits);

/** A weight with every digit that is known. @param {number} w @param {number} error */
export function exactly(w, error) {
  if (w === 0) return "0";
  const digits = decimals(error, error > 0 ? 12 : 6);
  return Math.abs(w) < 10 ** -digits / 2 ? faint(w, digits) : fixed(w, digits);
}

/**
 * A weight as people read it: 0.80, 0.034, 0.0012. All digits are true: whatever the error, the exact weight rounds to the same
 * ones. Near a half one digit more or fewer is shown; where that doesn't help, "≈".
 * @param {number} w
 * @param {number} [error]
 */
export function weight(w, error = 0) {
  if (w === 0) return "0";
  const size = Math.abs(w),
    exactDigits = decimals(error, error > 0 && error < 1e-6 ? 12 : 4); // a mixer's weights may all be small
  if (size < 10 ** -exactDigits / 2) return faint(w, exactDigits);
  const first = -Math.floor(Math.log10(size)); // the decimal place of the first digit that isn't 0
  const usual = Math.min(exactDigits, size >= 0.1 ? 2 : 1 + first);
  const fewer = Array.from({ length: Math.max(0, usual - Math.max(0, first)) }, (_, i) => usual - 1 - i);
  const digits = [usual, Math.min(exactDigits, usual + 1), ...fewer].find((count) => fixed(w - error, count) === fixed(w + error, count));
  return digits === undefined ? `≈${fixed(w, usual)}` : fixed(w, digits);
}

/** A number with four digits or so, none that isn't known, a true minus sign. @param {number} x @param {number} [error] */
export function number(x, error = 0) {
  if (x === -Infinity) return "−∞";
  const size = Math.abs(x);
  if (size > 0 && size < 5e-4 && error < size / 100) return powered(x, 1);
  return fixed(x, decimals(error, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

/** A factor between 0 and 1 of which all digits are known. @param {number} x */
export const factor = (x) => (x > 0 && x < 1e-4 ? powered(x, 2) : x.toFixed(6));

/** A number with six digits or so, none that isn't known. @param {number} x @param {number} error */
export const knownText = (x, error) => fixed(x, Math.min(decimals(error, 12), Math.max(0, 5 - Math.floor(Math.log10(Math.abs(x) || 1)))));

/** A product with the digits that are known of it and that its factors, as they are written, come to. @param {number} x @param {number} error @param {string[]} factors */
export function productText(x, error, factors) {
  const product = factors.reduce((all, text) => all * Number(text.replaceAll("−", "-")), 1);
  let digits = decimals(error, error > 0 ? 12 : 6);
  while (digits > 0 && fixed(product, digits) !== fixed(x, digits)) digits--;
  return Math.abs(x) > 0 && Math.abs(x) < 10 ** -digits / 2 ? faint(x, digits) : fixed(x, digits);
}

/** What can be scrolled can be scrolled by keys: there, and only there, it takes the focus. @param {HTMLElement} element */
export function scrolled(element) {
  new ResizeObserver(() => {
    const scrolls = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
    if (scrolls) element.setAttribute("tabindex", "0");
    else element.removeAttribute("tabindex");
  }).observe(element);
  return element;
}

/**
 * Close a menu by Escape, wherever the focus is, and by a click elsewhere; after Escape its button has the focus.
 * @param {HTMLElement} menu
 * @param {() => boolean} opened
 * @param {() => void} close
 * @param {HTMLElement | null | undefined} button
 */
export function closing(menu, opened, close, button) {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.isConnected || !opened()) return;
    event.stopPropagation();
    close();
    button?.focus();
  }, true);
  document.addEventListener("pointerdown", (event) => menu.isConnected && opened() && !event.composedPath().includes(menu) && close());
}

let idCount = 0;
/** An id that no other element has. @param {string} name */
export const unique = (name) => `qkv-${name}-${++idCount}`;

/** Announce a sentence to screen readers. @param {string} sentence */
export function announce(sentence) {
  const live = document.getElementById("qkv-live") ?? h("div", { id: "qkv-live", class: "unseen", "aria-live": "polite", role: "status" });
  if (!live.isConnected) document.body.append(live);
  live.textContent = plainText(sentence);
}

/** The message of an error. @param {string} lang @param {any} error one that a source refuses with says it in every language */
export const excuse = (lang, error) => error?.say?.[lang] ?? say(lang, "This could not be computed: its numbers did not come.");

/** Mark an element that shows an earlier source until it is redrawn. @param {Element} element @param {boolean} old */
export function markOld(element, old) {
  element.toggleAttribute("data-old", old);
  if (old) element.setAttribute("aria-busy", "true");
  else element.removeAttribute("aria-busy");
}

/** Let the browser draw and answer. @param {number} [time] in milliseconds, at least */
export const breathe = (time = 0) => new Promise((resolve) => setTimeout(resolve, time));
