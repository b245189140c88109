// A slider with its name before it and its value after it.

import { h } from "./dom.js";

/**
 * @param {import("./dom.js").Child} name what is seen
 * @param {string} label what is said
 * @param {number} most it goes from 0 to this, in whole steps
 * @param {number} value
 * @param {(value: number) => string} write
 * @param {(value: number) => void} slide
 */
export function slider(name, label, most, value, write, slide) {
  const output = h("output", {}, write(value));
  const input = h("input", {
    type: "range",
    min: 0,
    max: most,
    step: 1,
    value,
    "aria-label": label,
    "aria-valuetext": write(value),
    oninput: (/** @type {Event} */ event) => move(Number(/** @type {HTMLInputElement} */ (event.target).value)),
  });
  const move = (/** @type {number} */ next) => {
    output.textContent = write(next);
    input.setAttribute("aria-valuetext", write(next));
    slide(next);
  };
  return h("label", { class: "slider" }, h("span", {}, name), input, output);
}
