// Labels on a canvas: clipped to the available space; above columns rotated or with one character below the other. Labels never
// overlap. If there is not enough space, tokens that are parts of a character share a label, then every second, third, … is drawn.

/** @import { Unit } from "../core/view.js" */
/** What labels are written with: a canvas's context, or what writes an SVG. @typedef {Pick<CanvasRenderingContext2D, "font" | "fillStyle" | "textAlign" | "textBaseline" | "measureText" | "fillText" | "save" | "restore" | "translate" | "rotate">} Pen */

export const STACK = 13; // pixels from one character to the one under it
export const FONT =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans SC", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif';

/** Scripts that are written downwards as well as across, and pictures; a small number goes with what it numbers. */
const DOWN =
  /[\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\u{1f000}-\u{1faff}\u{20000}-\u{3ffff}](?:[\u200d\ufe0f]+[\u{1f000}-\u{1faff}\u2640\u2642]?)*[₀-₉]*/gu;

/** The characters of a label one by one, if all of them may stand under each other; else null. @param {string} text */
export function stack(text) {
  const signs = text.match(DOWN);
  return signs && signs.join("") === text ? signs : null;
}

/** @param {Pen} context @param {string} text @param {number} room */
export function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const signs = [...text];
  while (signs.length > 1 && context.measureText(signs.join("") + "…").width > room) signs.pop();
  return signs.join("") + "…";
}

/**
 * A label that stands above a column: turned, or character under character where that is how it is written.
 * @param {Pen} context
 * @param {string} text
 * @param {number} x
 * @param {number} bottom also the room there is
 */
export function upright(context, text, x, bottom) {
  const signs = stack(text);
  if (signs) {
    const room = Math.max(1, Math.floor((bottom - 8) / STACK));
    const visible = signs.length > room ? [...signs.slice(0, room - 1), "⋮"] : signs;
    context.textAlign = "center";
    visible.forEach((sign, i) => context.fillText(sign, x, bottom - 4 - (visible.length - i - 0.5) * STACK));
    return;
  }
  context.save();
  context.translate(x, bottom - 6);
  context.rotate(-Math.PI / 2);
  context.textAlign = "left";
  context.fillText(cut(context, text, bottom - 8), 0, 0);
  context.restore();
}

const MIN_GAP = 2; // pixels between two labels, at least
/** How a label lies on its axis: beside its row; above its column across, or upwards. @typedef {"row" | "flat" | "up"} Way */
/** @typedef {{ unit: Unit, at: number }} Put a label, and where its middle is, in pixels */

/** @type {Map<string, [number, number]>} */
const measured = new Map();

/**
 * How far the ink of a label reaches along its axis, before and after its middle.
 * @param {Pen} context
 * @param {string} text
 * @param {Way} way
 * @returns {[number, number]}
 */
export function reach(context, text, way) {
  const name = [context.font, way, text].join();
  const cached = measured.get(name);
  if (cached) return cached;
  context.textBaseline = "middle";
  context.textAlign = "center";
  const signs = way === "flat" ? [text] : way === "up" ? stack(text) : null;
  /** @type {[number, number]} */
  const extent = [0, 0];
  for (const sign of signs ?? [text]) {
    const ink = context.measureText(sign);
    extent[0] = Math.max(extent[0], signs ? ink.actualBoundingBoxLeft : ink.actualBoundingBoxAscent);
    extent[1] = Math.max(extent[1], signs ? ink.actualBoundingBoxRight : ink.actualBoundingBoxDescent);
  }
  if (measured.size > 20000) measured.clear();
  measured.set(name, extent);
  return extent;
}

/** What most labels of a list need along their axis. @type {WeakMap<Unit[], Map<string, number>>} */
const needed = new WeakMap();

/** … nine of ten of them, from the end of one to the beginning of the next. @param {Pen} context @param {Unit[]} list @param {Way} way */
function room90(context, list, way) {
  const cache = needed.get(list) ?? new Map();
  needed.set(list, cache);
  const name = [context.font, way].join();
  const cached = cache.get(name);
  if (cached !== undefined) return cached;
  const step = Math.ceil(list.length / 500);
  const extents = list.filter((_, i) => i % step === 0).map(({ label }) => reach(context, label, way));
  const most = (/** @type {0 | 1} */ side) => extents.map((pair) => pair[side]).sort((a, b) => a - b)[Math.floor(extents.length * 0.9)];
  const room = most(0) + most(1) + MIN_GAP;
  cache.set(name, room);
  return room;
}

/**
 * The labels of an axis that are written: as many as have room, evenly.
 * @param {Pen} context with its font
 * @param {Way} way
 * @param {Unit[]} units the steps of the axis
 * @param {Unit[]} joined the same in whole characters; what it names may be several steps
 * @param {{ size: number, from: number, room: number }} frame pixels of a step, the step at the first pixel, all pixels
 * @param {[number, number] | null} occupied from where to where there is a label already
 * @returns {{ put: Put[], all: boolean }} and whether that is all of them
 */
export function legible(context, way, units, joined, { size, from, room }, occupied) {
  const typical = (/** @type {Unit[]} */ list) => room90(context, list, way);
  const together = size < typical(units) && joined.length < units.length;
  const list = together ? joined : units;
  const wide = (size * units.length) / list.length; // of a label's place, on average
  const every = size >= typical(units) ? 1 : Math.max(1, Math.ceil(typical(list) / wide));
  /** @type {Put[]} */
  const put = [];
  let last = -Infinity;
  const first = together ? list.findIndex((unit) => unit.end > from) : Math.floor(from);
  for (let i = Math.floor(first / every) * every; i < list.length; i += every) {
    const unit = list[i];
    const middle = together ? (unit.first + unit.end) / 2 : i + 0.5;
    const at = (middle - from) * size;
    if (at < 0) continue;
    if (at > room) break;
    const [before, after] = reach(context, unit.label, way);
    if (at - before < last + MIN_GAP) continue;
    if (occupied && at - before < occupied[1] + MIN_GAP && at + after > occupied[0] - MIN_GAP) continue;
    put.push({ unit, at });
    last = at + after;
  }
  return { put, all: every === 1 };
}
