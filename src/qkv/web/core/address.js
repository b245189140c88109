// The part of the address after # stores the view and is updated: #layer=13&head=8&query=7&lang=zh&theme=dark.
// Layers have their numbers in the model. Unknown keys and invalid values are ignored.

import { address, lightAndLanguage } from "./setting.js";
import { BEGINNING, state } from "./state.js";
import { bytewise, header, linkOf, partOf } from "./view.js";

/** @import { Chosen, Zoom } from "./state.js" */
/** @import { By } from "./view.js" */

/** Options with two values. */
const EITHER = { scale: ["root", "linear"], way: ["from", "to"], sink: ["shown", "hidden"], pool: ["max", "mean"] };
const REST = 300; // milliseconds without a change before the address is updated: browsers limit the rate

/** The state of an address; what it lacks stays as it is. @param {URLSearchParams} params @returns {Partial<Chosen>} */
function stateOf(params) {
  const { now } = state;
  const indexIn = (/** @type {string} */ name, /** @type {number} */ size) => {
    const text = params.get(name) ?? "";
    return /^\d{1,9}$/.test(text) && Number(text) < size ? Number(text) : null;
  };
  const part = header.parts.find(({ name }) => name === params.get("part")) ?? partOf(now.part);
  const item = indexIn("item", part.queries.length) ?? Math.min(now.item, part.queries.length - 1);
  const named = part.layers.findIndex(({ number }) => String(number) === params.get("layer"));
  const layer = named >= 0 ? named : Math.min(now.layer, part.layers.length - 1);
  const head = indexIn("head", part.layers[layer].heads) ?? Math.min(now.head, part.layers[layer].heads - 1);
  const same = part.name === now.part && item === now.item && layer === now.layer && head === now.head;
  // Another head opens at what it does most.
  const [i, j] = (!same && linkOf(part, item, layer, head)) || [now.query, now.key];
  const query = indexIn("query", part.n) ?? Math.min(i, part.n - 1);
  const key = indexIn("key", part.m) ?? Math.min(j, part.m - 1);
  const units = /** @type {By[]} */ (bytewise() ? ["tokens", "characters", "words"] : ["tokens", "words"]);
  const unit = units.find((name) => name === params.get("unit")) ?? now.unit;
  const zoom = params.has("zoom") || params.has("layer") ? parseZoom(params.get("zoom")) : now.zoom;
  return { part: part.name, item, layer, head, query, key, unit, zoom, ...readOptions(params), ...lightAndLanguage(params) };
}

/** The valid options of an address. @param {URLSearchParams} params @returns {Partial<Chosen>} */
export const readOptions = (params) => Object.fromEntries(Object.entries(EITHER).flatMap(([name, values]) => values.filter((value) => value === params.get(name)).map((value) => [name, value])));

/** @param {string | null} text @returns {Zoom | null} */
export function parseZoom(text) {
  const zoom = text?.split(",").map(Number) ?? [];
  return zoom.length === 5 && zoom.every((x) => x >= 0 && x < 1e9) && zoom[2] > 0 ? /** @type {Zoom} */ (zoom) : null;
}

/** @param {Zoom | null} zoom */
export const formatZoom = (zoom) => zoom?.map((x) => Number(x.toFixed(3))).join() ?? "";

/** Update the address now. */
let updateNow = () => {};

/** The address of the current view. */
export function addressNow() {
  updateNow();
  return location.href;
}

/**
 * Open the state of the address, and update the address from then on.
 * @param {Pick<Chosen, "lang" | "theme">} own default language and theme, which the address omits
 */
export function follow(own) {
  let params = address();
  state.set(stateOf(params));
  addEventListener("hashchange", () => {
    params = address();
    state.set(stateOf(params));
  });
  let waiting = 0;
  updateNow = () => {
    clearTimeout(waiting);
    waiting = 0;
    try {
      history.replaceState(history.state, "", `${location.href.split("#")[0]}#${addressOf(own, params)}`);
    } catch {
      // A page within a page may have no address of its own.
    }
  };
  state.listen(() => {
    clearTimeout(waiting);
    waiting = setTimeout(updateNow, REST);
  });
  for (const name of ["blur", "pagehide", "copy"]) addEventListener(name, () => waiting && updateNow());
}

/** The state as parameters of an address. @param {Pick<Chosen, "lang" | "theme">} own @param {URLSearchParams} before */
function addressOf(own, before) {
  const { now } = state;
  const part = partOf(now.part);
  const params = new URLSearchParams();
  if (header.parts.length > 1) params.set("part", part.name);
  if (part.queries.length > 1) params.set("item", String(now.item));
  params.set("layer", String(part.layers[now.layer].number));
  for (const name of /** @type {const} */ (["head", "query", "key"])) params.set(name, String(now[name]));
  if (now.zoom) params.set("zoom", formatZoom(now.zoom));
  const usual = { ...BEGINNING, unit: header.first.unit, ...own };
  for (const name of /** @type {const} */ (["unit", "scale", "way", "sink", "pool", "lang", "theme"]))
    if (now[name] !== usual[name] || before.has(name)) params.set(name, now[name]);
  return params;
}
