// The address says what is looked at, after its #, and follows as one moves: #layer=13&head=8&query=7&lang=zh&theme=dark.
// Layers are called by their numbers in the model. What isn't here, or makes no sense, is passed over.

import { address, lightAndLanguage } from "./setting.js";
import { BEGINNING, state } from "./state.js";
import { bytewise, header, linkOf, partOf } from "./view.js";

/** @import { Chosen, Zoom } from "./state.js" */
/** @import { By } from "./view.js" */

/** What is read in one of two ways. */
const EITHER = { scale: ["root", "linear"], way: ["from", "to"], sink: ["shown", "hidden"], pool: ["max", "mean"] };
const REST = 300; // milliseconds without a move, after which the address follows: browsers refuse too many changes

/** What an address asks for, starting from what is chosen now. @param {URLSearchParams} said @returns {Partial<Chosen>} */
function wanted(said) {
  const { now } = state;
  const place = (/** @type {string} */ name, /** @type {number} */ size) => {
    const text = said.get(name) ?? "";
    return /^\d{1,9}$/.test(text) && Number(text) < size ? Number(text) : null;
  };
  const part = header.parts.find(({ name }) => name === said.get("part")) ?? partOf(now.part);
  const item = place("item", part.queries.length) ?? Math.min(now.item, part.queries.length - 1);
  const named = part.layers.findIndex(({ number }) => String(number) === said.get("layer"));
  const layer = named >= 0 ? named : Math.min(now.layer, part.layers.length - 1);
  const head = place("head", part.layers[layer].heads) ?? Math.min(now.head, part.layers[layer].heads - 1);
  const same = part.name === now.part && item === now.item && layer === now.layer && head === now.head;
  // Another head opens at what it does most.
  const [i, j] = (!same && linkOf(part, item, layer, head)) || [now.query, now.key];
  const query = place("query", part.n) ?? Math.min(i, part.n - 1);
  const key = place("key", part.m) ?? Math.min(j, part.m - 1);
  const units = /** @type {By[]} */ (bytewise() ? ["tokens", "characters", "words"] : ["tokens", "words"]);
  const unit = units.find((name) => name === said.get("unit")) ?? now.unit;
  const zoom = said.has("zoom") || said.has("layer") ? zoomSaid(said.get("zoom")) : now.zoom;
  return { part: part.name, item, layer, head, query, key, unit, zoom, ...waysSaid(said), ...lightAndLanguage(said) };
}

/** How one reads, of the ways there are. @param {URLSearchParams} said @returns {Partial<Chosen>} */
export const waysSaid = (said) => Object.fromEntries(Object.entries(EITHER).flatMap(([name, ways]) => ways.filter((way) => way === said.get(name)).map((way) => [name, way])));

/** @param {string | null} text @returns {Zoom | null} */
export function zoomSaid(text) {
  const zoom = text?.split(",").map(Number) ?? [];
  return zoom.length === 5 && zoom.every((x) => x >= 0 && x < 1e9) && zoom[2] > 0 ? /** @type {Zoom} */ (zoom) : null;
}

/** @param {Zoom | null} zoom */
export const zoomTold = (zoom) => zoom?.map((x) => Number(x.toFixed(3))).join() ?? "";

/** Brings the address up to date. */
let hurry = () => {};

/** The address of what is seen now. */
export function addressNow() {
  hurry();
  return location.href;
}

/**
 * Open what the address asks for, and from then on let it follow.
 * @param {Pick<Chosen, "lang" | "theme">} own language and light that an address needn't speak of
 */
export function follow(own) {
  let said = address();
  state.set(wanted(said));
  addEventListener("hashchange", () => {
    said = address();
    state.set(wanted(said));
  });
  let waiting = 0;
  hurry = () => {
    clearTimeout(waiting);
    waiting = 0;
    try {
      history.replaceState(history.state, "", `${location.href.split("#")[0]}#${addressOf(own, said)}`);
    } catch {
      // A page within a page may have no address of its own.
    }
  };
  state.listen(() => {
    clearTimeout(waiting);
    waiting = setTimeout(hurry, REST);
  });
  for (const name of ["blur", "pagehide", "copy"]) addEventListener(name, () => waiting && hurry());
}

/** What is chosen, as an address says it. @param {Pick<Chosen, "lang" | "theme">} own @param {URLSearchParams} before */
function addressOf(own, before) {
  const { now } = state;
  const part = partOf(now.part);
  const said = new URLSearchParams();
  if (header.parts.length > 1) said.set("part", part.name);
  if (part.queries.length > 1) said.set("item", String(now.item));
  said.set("layer", String(part.layers[now.layer].number));
  for (const name of /** @type {const} */ (["head", "query", "key"])) said.set(name, String(now[name]));
  if (now.zoom) said.set("zoom", zoomTold(now.zoom));
  const usual = { ...BEGINNING, unit: header.first.unit, ...own };
  for (const name of /** @type {const} */ (["unit", "scale", "way", "sink", "pool", "lang", "theme"]))
    if (now[name] !== usual[name] || before.has(name)) said.set(name, now[name]);
  return said;
}
