// A map as it is looked at: token by token, word by word (keys summed, queries averaged), or the pooled overview of a
// layer whose q and k aren't here. Every view gives rows; the elements draw them.

import { bytesOf, readHeader, tensor } from "./data.js";
import { breathe } from "./dom.js";
import { openHead } from "./heads.js";
import { state } from "./state.js";

/** @import { Head } from "./attention.js" */
/** @import { Header, Link, Part, Tokens } from "./data.js" */

/** One step of an axis: the tokens from first up to end. @typedef {{ label: string, first: number, end: number, special: boolean }} Unit */
/** What a step stands for. @typedef {"tokens" | "characters" | "words"} By */
/** @typedef {{ weights: Float32Array, seen: Uint8Array }} Row */

const REMEMBER = 1 << 22; // cells of a map that are kept once computed

/** @type {Header} */
export let header;
/** Is this page a figure that stands in a text? */
export const figure = () => !header.show.includes("overview");
/** @type {Tokens[]} */
let tokenLists = [];

/** Read the header and the tokens: before anything is drawn. */
export async function open() {
  header = readHeader();
  tokenLists = JSON.parse(new TextDecoder().decode(await bytesOf(header.tokens.id)));
  for (const list of tokenLists) {
    const tokens = tokenUnits(list);
    const characters = list.characters ? groupUnits(list, list.characters) : tokens;
    units.set(list, { tokens, characters, words: groupUnits(list, list.words) });
  }
}

/** @type {Map<Tokens, Record<By, Unit[]>>} */
const units = new Map();

/** @param {Tokens} list @returns {Unit[]} */
function tokenUnits(list) {
  const special = new Set(list.special);
  return list.labels.map((label, i) => ({ label, first: i, end: i + 1, special: special.has(i) }));
}

/** @param {Tokens} list @param {[string, number, number][]} groups @returns {Unit[]} */
function groupUnits(list, groups) {
  const special = new Set(list.special);
  return groups.map(([label, first, end]) => ({ label, first, end, special: special.has(first) }));
}

/** @param {string} name */
export const partOf = (name) => /** @type {Part} */ (header.parts.find((part) => part.name === name));

/**
 * The steps of both axes.
 * @param {Part} part
 * @param {number} item
 * @param {By} unit
 * @returns {[Unit[], Unit[]]}
 */
export function axes(part, item, unit) {
  const of = (/** @type {number} */ which) =>
    /** @type {Record<By, Unit[]>} */ (units.get(tokenLists[which]))[unit];
  return [of(part.queries[item]), of(part.keys[item])];
}

/** Are there characters of several tokens in any text? */
export const bytewise = () => tokenLists.some((list) => list.characters);

/** The label of a token of the chosen part and item. @param {"query" | "key"} side @param {number} place */
export function label(side, place, part = partOf(state.now.part), item = state.now.item) {
  return axes(part, item, "tokens")[side === "query" ? 0 : 1][place]?.label ?? "";
}

/** The unit that a token belongs to. @param {Unit[]} list @param {number} place */
export function unitAt(list, place) {
  let low = 0,
    high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle].first <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The largest weight that a head's picture shows. @param {Part} part @param {number} layer @param {number} item @param {number} head */
export const topOf = (part, layer, item, head) => part.tops?.[layer][item][head] || 1;

/** How far off a head's weights may be. @param {Part} part @param {number} layer @param {number} item @param {number} head */
export const errorOf = (part, layer, item, head) =>
  (part.layers[layer].errors?.weight ?? (part.signed ? 1e-6 : 0)) * topOf(part, layer, item, head);

export class View {
  /**
   * @param {Part} part
   * @param {number} top the largest weight of its head, by size
   * @param {Unit[]} queries
   * @param {Unit[]} keys
   * @param {Head | null} head
   * @param {(i: number, weights: Float32Array, seen: Uint8Array) => void} compute a row of tokens, or of cells
   * @param {number} width of such a row
   */
  constructor(part, top, queries, keys, head, compute, width) {
    this.signed = part.signed;
    this.top = top;
    this.queries = queries;
    this.keys = keys;
    this.head = head;
    this.compute = compute;
    this.error = head ? head.error : top / (part.signed ? 127 : 255); // a picture's are √weight in so many steps
    this.joined = head !== null && (queries.length !== head.n || keys.length !== head.m);
    this.one = { weights: new Float32Array(width), seen: new Uint8Array(width) };
    this.remember = queries.length * keys.length <= REMEMBER;
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** How far `deepest` has looked. @type {{ next: number, most: number } | null} */
    this.found = null;
  }

  /** Where unit u looks. What is given stays valid until the next row is asked for. @param {number} u @returns {Row} */
  row(u) {
    const known = this.rows.get(u);
    if (known) return known;
    const { one } = this;
    if (!this.joined) {
      this.compute(u, one.weights, one.seen);
      if (!this.remember) return one;
      const kept = { weights: one.weights.slice(), seen: one.seen.slice() };
      this.rows.set(u, kept);
      return kept;
    }
    const row = { weights: new Float32Array(this.keys.length), seen: new Uint8Array(this.keys.length) };
    const { first, end } = this.queries[u];
    for (let i = first; i < end; i++) {
      this.compute(i, one.weights, one.seen);
      this.keys.forEach((key, c) => {
        for (let j = key.first; j < key.end; j++) {
          row.weights[c] += one.weights[j] / (end - first);
          row.seen[c] |= one.seen[j];
        }
      });
    }
    if (this.remember) this.rows.set(u, row);
    return row;
  }

  /**
   * The weight that has the deepest colour: 1, or the largest one of a signed map, which joined tokens may have more of than
   * any token has; a slice of time at a time; null when it was called off.
   * @param {(share: number) => boolean} wanted
   */
  async deepest(wanted) {
    if (!this.signed || !this.joined) return this.top;
    this.found ??= { next: 0, most: 0 };
    const { found } = this;
    let until = performance.now() + 12;
    for (; found.next < this.queries.length; found.next++) {
      for (const weight of this.row(found.next).weights) found.most = Math.max(found.most, Math.abs(weight));
      if (performance.now() > until) {
        await breathe();
        if (!wanted(found.next / this.queries.length)) return null;
        until = performance.now() + 12;
      }
    }
    return found.most || 1;
  }

  /**
   * Who looks at unit c: its share in every row, a slice of time at a time; null when it was called off.
   * @param {number} c
   * @param {() => boolean} wanted
   */
  async column(c, wanted) {
    const column = { weights: new Float32Array(this.queries.length), seen: new Uint8Array(this.queries.length) };
    let until = performance.now() + 12;
    for (let u = 0; u < this.queries.length; u++) {
      const row = this.row(u);
      column.weights[u] = row.weights[c];
      column.seen[u] = row.seen[c];
      if (performance.now() > until) {
        await breathe();
        if (!wanted()) return null;
        until = performance.now() + 12;
      }
    }
    return column;
  }
}

/** @type {{ name: string, view: Promise<View> } | null} */
let opened = null;

/** The view of what is chosen; asked for again, the same one with what it remembers. */
export function view() {
  const { part, layer, item, head, unit } = state.now;
  const name = [part, layer, item, head, unit].join();
  if (opened?.name !== name) opened = { name, view: makeView(partOf(part), layer, item, head, unit) };
  return opened.view;
}

/**
 * @param {Part} part
 * @param {number} layer
 * @param {number} item
 * @param {number} head
 * @param {By} unit
 */
async function makeView(part, layer, item, head, unit) {
  const one = await openHead(part, layer, item, head);
  const top = topOf(part, layer, item, head);
  if (one) {
    const [queries, keys] = axes(part, item, unit);
    return new View(part, top, queries, keys, one, (i, weights, seen) => one.row(i, weights, seen), one.m);
  }
  const { tall, wide } = part.thumbs;
  const [queries, keys] = axes(part, item, "tokens");
  const { shares, rows, cols } = await thumb(part, layer, item, head);
  const compute = (/** @type {number} */ i, /** @type {Float32Array} */ weights, /** @type {Uint8Array} */ seen) => {
    for (let j = 0; j < cols; j++) weights[j] = shares[i * cols + j] * top;
    seen.fill(1);
  };
  return new View(part, top, binned(queries, rows, tall), binned(keys, cols, wide), null, compute, cols);
}

/** @param {Unit[]} list @param {number} count @param {number} size @returns {Unit[]} */
function binned(list, count, size) {
  return Array.from({ length: count }, (_, i) => {
    const first = i * size,
      end = Math.min(first + size, list.length);
    const label = size === 1 ? list[first].label : `${list[first].label} … ${list[end - 1].label}`;
    return { label, first, end, special: false };
  });
}

/**
 * The small picture of a head: the largest weight of each cell, as a share of the largest that it can show.
 * @param {Part} part
 * @param {number} layer
 * @param {number} item
 * @param {number} head
 */
export async function thumb(part, layer, item, head) {
  const { stored } = part.thumbs;
  const [, , rows, cols] = stored.shape;
  const all = await tensor(stored);
  const before = part.layers.slice(0, layer).reduce((sum, { heads }) => sum + heads, 0);
  const at = (item * stored.shape[1] + before + head) * rows * cols;
  const bytes = /** @type {Uint8Array} */ (all.subarray(at, at + rows * cols));
  const shares = Float32Array.from(bytes, part.signed ? (b) => ((b - 128) / 127) * (Math.abs(b - 128) / 127) : (b) => (b / 255) ** 2);
  return { shares, rows, cols };
}

/**
 * The heads that link two tokens, strongest first, of all layers whose q and k are here; null when called off.
 * @param {() => boolean} wanted
 * @returns {Promise<[number, number, number][] | null>}
 */
export async function linking(wanted) {
  const { part: name, item, query, key } = state.now;
  const part = partOf(name);
  /** @type {[number, number, number][]} */
  const found = [];
  for (let layer = 0; layer < part.layers.length; layer++) {
    for (let head = 0; head < part.layers[layer].heads; head++) {
      const one = await openHead(part, layer, item, head);
      if (one) found.push([layer, head, one.row(query).weights[key]]);
    }
    await breathe();
    if (!wanted()) return null;
  }
  return found.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, 10);
}

/** Choose a head. @param {number} layer @param {number} head */
export function openHeadAt(layer, head) {
  const { part, item, query, key } = state.now;
  const link = partOf(part).links[item][layer][head];
  // A focus link stays chosen from head to head; without one, a head opens at what it does most.
  const stay = header.focus && header.focus.part === part && header.focus.query === query && header.focus.key === key;
  state.set({ layer, head, ...(link && !stay ? { query: link[0], key: link[1] } : {}) });
}
