// The controls around the map: head, tokens or words, zoom, colours and their legend.

import { level, palette } from "../core/colour.js";
import { choice, h, weight } from "../core/dom.js";
import { mark, say } from "../core/words.js";
import { axes, bytewise, figure, openHeadAt, partOf } from "../core/view.js";

/** @import { Part } from "../core/source.js" */
/** @import { Chosen, State } from "../core/state.js" */
/** @import { By } from "../core/view.js" */

const SMALL = 40; // tokens of a map that can be read as it is

/** @type {Record<By, string>} */
const UNITS = { tokens: mark("Tokens"), characters: mark("Characters"), words: mark("Words") };

/** Above the map: its layer and head, and what its rows and columns are. @param {State} own */
export function picks(own) {
  const { lang, unit, layer, head, item } = own.now;
  const part = partOf(own.now.part);
  /** @type {By[]} */
  const units = bytewise() ? ["tokens", "characters", "words"] : ["tokens", "words"];
  return [
    h(
      "h2",
      { class: "picks" },
      numbers(
        lang,
        mark("Layer"),
        mark("Layer {n}"),
        part.layers.map(({ number }) => number),
        layer,
        (n) => openHeadAt(n, Math.min(own.now.head, part.layers[n].heads - 1), own),
      ),
      numbers(lang, mark("Head"), mark("Head {n}"), Array.from({ length: part.layers[layer].heads }, (_, i) => i), head, (n) =>
        openHeadAt(own.now.layer, n, own),
      ),
    ),
    figure() && plain(part, item)
      ? null
      : choice(
          say(lang, "Tokens or words"),
          units.map((name) => [name, say(lang, UNITS[name])]),
          unit,
          (value) => own.set({ unit: units.find((name) => name === value) }),
        ),
  ];
}

/** Is every token a word? @param {Part} part @param {number} item */
const plain = (part, item) => axes(part, item, "words").every((units) => units.every(({ first, end }) => end === first + 1));

/**
 * A list of numbers to choose one of.
 * @param {string} lang
 * @param {string} name
 * @param {string} each
 * @param {number[]} text
 * @param {number} current which of them
 * @param {(n: number) => void} choose
 */
function numbers(lang, name, each, text, current, choose) {
  if (figure() && text.length === 1) return h("span", {}, say(lang, each, { n: text[0] }));
  const select = h("select", {
    "aria-label": say(lang, name),
    "data-key": name,
    onchange: (/** @type {Event} */ event) => choose(Number(/** @type {HTMLSelectElement} */ (event.target).value)),
  });
  text.forEach((n, i) => select.append(h("option", { value: i, selected: i === current }, say(lang, each, { n }))));
  return select;
}

/**
 * Below the map: zoom, and how to read its colours.
 * @param {State} own
 * @param {{ signed: boolean, tiled: boolean, shares: boolean, lone: boolean }} has are cells pooled, are they shares, do some belong to one text only?
 * @param {number} large cells of its longer side
 * @param {(by: number) => void} zoom 0 shows all
 */
export function reading(own, { signed, tiled, shares, lone }, large, zoom) {
  const { lang, scale, pool } = own.now;
  const sink = shares && !figure();
  const bare = sink && own.now.sink === "hidden";
  const masked = bare ? mark("hidden by the mask, or taken out") : mark("hidden by the mask");
  const hiddenLabel = bare ? mark("hidden by the mask, taken out, or on one side only") : mark("hidden by the mask, or on one side only");
  const colours = (/** @type {"below" | "above"} */ side) => h("canvas", { class: side, width: 128, height: 1, "aria-hidden": true });
  const button = (/** @type {string} */ name, /** @type {string} */ sign, /** @type {number} */ by) =>
    h(
      "button",
      { type: "button", title: say(lang, name), "aria-label": say(lang, name), onclick: () => zoom(by) },
      sign,
    );
  return [
    figure() && large <= SMALL
      ? null
      : h(
          "div",
          { class: "choice zoom" },
          button(mark("Zoom out"), "−", 1 / 1.6),
          button(mark("Zoom in"), "+", 1.6),
          button(mark("Show all"), "⤢", 0),
        ),
    choice(
      say(lang, "Colour scale"),
      [
        ["root", say(lang, "√")],
        ["linear", say(lang, "Linear")],
      ],
      scale,
      (value) => own.set({ scale: value === "root" ? "root" : "linear" }),
    ),
    sink
      ? h(
          "button",
          {
            type: "button",
            class: "toggle",
            "aria-pressed": bare,
            title: say(lang, "The first token and special ones get what heads have left over. Without them the rest can be seen."),
            onclick: () => own.set({ sink: bare ? "shown" : "hidden" }),
          },
          say(lang, "Hide the sink"),
        )
      : null,
    tiled
      ? choice(
          say(lang, "What a cell of many tokens shows"),
          [
            ["max", say(lang, "Largest")],
            ["mean", say(lang, "Mean")],
          ],
          pool,
          (value) => own.set({ pool: value === "mean" ? "mean" : "max" }),
        )
      : null,
    signed
      ? h("span", { class: "ramp signed" }, h("b", {}, "−"), colours("below"), "0", colours("above"), h("b", {}, "+"))
      : h("span", { class: "ramp" }, "0", colours("above"), "1"),
    h("span", { class: "hatched" }, h("i", {}), say(lang, !shares ? mark("can't be read") : lone ? hiddenLabel : masked)),
    h("span", { class: "pooling" }),
  ];
}

/** The colours from 0 to 1, or on both sides of 0 up to the largest, which is named. @param {Element | null} container @param {number} top @param {boolean} signed @param {Pick<Chosen, "theme" | "scale">} shades */
export function ramp(container, top, signed, { theme, scale }) {
  const drawn = [theme, scale, top].join();
  if (!(container instanceof HTMLElement) || container.dataset.drawn === drawn) return; // a long map asks with every frame
  container.dataset.drawn = drawn;
  const { full, zero } = palette(theme, signed);
  for (const canvas of container.querySelectorAll("canvas")) {
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(128, 1);
    const below = canvas.className === "below";
    new Uint32Array(image.data.buffer).forEach((_, x, pixels) => {
      pixels[x] = full[zero + level(below ? x / 127 - 1 : x / 127, scale)];
    });
    context.putImageData(image, 0, 0);
  }
  if (signed) container.querySelectorAll("b").forEach((end, i) => (end.textContent = "−+"[i] + weight(top, top * 1e-6)));
}
