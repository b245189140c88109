// A view of a map: by tokens, by words (keys summed, queries averaged), or the pooled overview of a layer without q and k.
// Every view returns rows, which the elements draw.

import { breathe } from "./dom.js";
import { state } from "./state.js";

/** @import { Head } from "./attention.js" */
/** @import { Header, Link, Part, Rectangle, Source, Tokens } from "./source.js" */
/** @import { Chosen } from "./state.js" */

/** One step of an axis: the tokens from first up to end; of two texts beside each other, the places in both, and whether only one has it. @typedef {{ label: string, first: number, end: number, special: boolean, places?: string, lone?: boolean }} Unit */
/** The unit of a row or column. @typedef {"tokens" | "characters" | "words"} By */
/** Weights, which of them there are, and how far off they may be. @typedef {{ weights: Float32Array, seen: Uint8Array, error: number }} Row */

const REMEMBER = 1 << 22; // cells of a map that are kept once computed
const LONG = 1 << 20; // cells from which on a map is drawn from tiles, where a source has some
const VIEWS = 6; // cached views: several maps may be side by side

/** The current source. @type {Source} */
export let source;
/** @type {Header} */
export let header;
/** Is this page a figure in a text? */
export const figure = () => !header.show.includes("overview");
/** @type {Tokens[]} */
let tokenLists = [];

/**
 * Show a source. The selection is kept where it is valid; listeners for "shown" redraw.
 * @param {Source} next
 * @param {Partial<Chosen>} [changes] to be chosen at once with it
 */
export function show(next, changes = {}) {
  source = next;
  header = next.header;
  tokenLists = next.tokens;
  units.clear();
  recentViews.clear();
  for (const list of tokenLists) {
    const tokens = tokenUnits(list);
    const characters = list.characters ? groupUnits(list, list.characters) : tokens;
    units.set(list, { tokens, characters, words: groupUnits(list, list.words) });
  }
  const now = { ...state.now, ...changes };
  view(now).catch(() => {}); // started early, so that it is ready when the map is; the map handles errors
  state.set({ ...changes, ...fitting(now), shown: state.now.shown + 1 });
}

/** What of a choice there is here, and the nearest to what there isn't. @param {Chosen} now @returns {Partial<Chosen>} */
export function fitting(now) {
  const part = header.parts.find(({ name }) => name === now.part);
  if (!part) return header.first;
  const least = (/** @type {number} */ index, /** @type {number} */ size) => Math.max(0, Math.min(index, size - 1));
  const layer = least(now.layer, part.layers.length);
  return {
    item: least(now.item, part.queries.length),
    layer,
    head: least(now.head, part.layers[layer].heads),
    query: least(now.query, part.n),
    key: least(now.key, part.m),
    unit: now.unit === "characters" && !bytewise() ? "tokens" : now.unit,
  };
}

/** Can heads of this layer be opened? @param {Part} part @param {number} layer */
export const isWhole = (part, layer) => source.whole?.(part, layer) ?? true;

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

/** The label of a token of the chosen part and item. @param {"query" | "key"} side @param {number} index */
export function label(side, index, part = partOf(state.now.part), item = state.now.item) {
  return axes(part, item, "tokens")[side === "query" ? 0 : 1][index]?.label ?? "";
}

/** The unit that a token belongs to. @param {Unit[]} list @param {number} token */
export function unitAt(list, token) {
  let low = 0,
    high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle].first <= token) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The largest weight that a head's picture shows. @param {Part} part @param {number} layer @param {number} item @param {number} head */
export const topOf = (part, layer, item, head) => part.tops?.[layer]?.[item]?.[head] || 1;

/** The attention sinks: special keys and, in self-attention, the first one. @param {Part} part @param {number} item */
export const sinksOf = (part, item) =>
  Uint8Array.from(axes(part, item, "tokens")[1], ({ special }, j) => Number(special || (j === 0 && part.name !== "cross")));

/** The strongest link of a head; null where it has none, or where none is known yet. @param {Part} part @param {number} item @param {number} layer @param {number} head @returns {Link} */
export const linkOf = (part, item, layer, head) => part.links[item]?.[layer]?.[head] ?? null;

/** How far off the weight of a head's strongest link may be. @param {Part} part @param {number} layer @param {number} item @param {number} head */
export const linkErrorOf = (part, layer, item, head) => {
  const { linkError } = part.layers[layer];
  return linkError === undefined ? errorOf(part, layer, item, head) : linkError * topOf(part, layer, item, head);
};

/** How far off a head's weights may be. @param {Part} part @param {number} layer @param {number} item @param {number} head */
export const errorOf = (part, layer, item, head) =>
  (part.layers[layer].errors?.weight ?? (part.signed ? 1e-6 : 0)) * topOf(part, layer, item, head);

/**
 * What a view is of: shares (weights of attention), a mixer's signed weights, or a difference of two maps.
 * @typedef {"shares" | "mixer" | "difference"} Kind
 */
/**
 * @typedef {object} Looked
 * @property {Kind} kind
 * @property {Unit[]} queries
 * @property {Unit[]} keys
 * @property {[Unit[], Unit[]]} [characters] both axes in whole characters, where a step is a token
 * @property {boolean} [shares] are its rows shares of attention, or differences of such?
 * @property {(i: number, weights: Float32Array, seen: Uint8Array) => unknown} [compute] a row of tokens, or of cells, which may give how far off it is; else it comes with the head
 * @property {number} [width] of such a row
 * @property {number} [top] the largest weight, by size
 * @property {number} [error] how far off weights may be
 * @property {Head | null} [head]
 * @property {Uint8Array | null} [without] removed keys: rows are renormalised without them (of a difference, both of its rows)
 * @property {{ tall: number, wide: number, layer: number } | null} [pooled] tokens of a cell, where only an overview is here
 * @property {((cells: Rectangle, pool: "max" | "mean", signal: AbortSignal) => Promise<Float32Array>) | null} [tile] as a source has it
 * @property {Promise<{ shares: Float32Array, rows: number, cols: number, tall: number, wide: number }> | null} [picture] the small one, to begin with
 * @property {Promise<Head | null> | null} [coming] the head, where it isn't waited for
 */

let views = 0;

export class View {
  /** @param {Looked} looked */
  constructor({ kind, shares = kind === "shares", queries, keys, characters, compute, width = 0, top = 1, error = 0, head = null, without = null, pooled = null, tile = null, picture = null, coming = null }) {
    this.id = ++views;
    this.kind = kind;
    this.signed = kind !== "shares";
    this.shares = shares;
    this.top = top;
    this.queries = queries;
    this.keys = keys;
    this.characters = characters ?? [queries, keys];
    this.head = head;
    this.without = without;
    this.pooled = pooled;
    this.compute = compute ?? null;
    this.error = error;
    this.tile = tile;
    this.picture = picture;
    /** Resolves when rows can be computed; rejects if the head can't be loaded. */
    this.ready = coming ? coming.then((arrived) => arrived && this.open(arrived)) : Promise.resolve();
    this.ready.catch(() => {}); // callers that wait handle it
    this.joined = head !== null && (queries.length !== head.n || keys.length !== head.m);
    this.one = { weights: new Float32Array(width), seen: new Uint8Array(width), error };
    this.remember = queries.length * keys.length <= REMEMBER;
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** How far `deepest` has looked. @type {{ next: number, most: number } | null} */
    this.found = null;
  }

  /** Are all tokens of a key unit removed? @param {Unit} key */
  takenOut({ first, end }) {
    return this.without?.subarray(first, end).every(Boolean) ?? false;
  }

  /** Set the loaded head. @param {Head} head */
  open(head) {
    this.head = head;
    this.error = head.error;
    this.compute = head.row.bind(head);
    this.one = { weights: new Float32Array(head.m), seen: new Uint8Array(head.m), error: head.error };
  }

  /** Return the row of unit u, which is valid until the next call. @param {number} u @returns {Row} */
  row(u) {
    const cached = this.rows.get(u);
    if (cached) return cached;
    const { one: buffer } = this;
    if (!this.joined) {
      this.fill(u);
      if (!this.remember) return buffer;
      const copy = { weights: buffer.weights.slice(), seen: buffer.seen.slice(), error: buffer.error };
      this.rows.set(u, copy);
      return copy;
    }
    const row = { weights: new Float32Array(this.keys.length), seen: new Uint8Array(this.keys.length), error: 0 };
    const { first, end } = this.queries[u];
    for (let i = first; i < end; i++) {
      this.fill(i);
      row.error = Math.max(row.error, buffer.error);
      this.keys.forEach((key, c) => {
        for (let j = key.first; j < key.end; j++) {
          row.weights[c] += buffer.weights[j] / (end - first);
          row.seen[c] |= buffer.seen[j];
        }
      });
    }
    if (this.remember) this.rows.set(u, row);
    return row;
  }

  /** Compute a row of tokens, or of cells, into `one`. @param {number} i */
  fill(i) {
    const { one: buffer, without } = this;
    if (!this.compute) throw new Error("the head hasn't come yet");
    const off = this.compute(i, buffer.weights, buffer.seen);
    buffer.error = typeof off === "number" ? off : this.error;
    if (!without || this.signed) return;
    let remaining = 0;
    for (let j = 0; j < without.length; j++) {
      if (without[j]) buffer.weights[j] = buffer.seen[j] = 0;
      remaining += buffer.weights[j];
    }
    if (!remaining) return;
    for (let j = 0; j < without.length; j++) buffer.weights[j] /= remaining;
    buffer.error = Math.min(1, (2 * this.error) / remaining); // of the weight, and of what it is divided by
  }

  /**
   * The weight that has the deepest colour: 1, or the largest one of a signed map, which joined tokens may have more of than
   * any token has; a slice of time at a time; null when it was called off.
   * @param {(share: number) => boolean} isWanted
   */
  async deepest(isWanted) {
    if (!this.signed || !this.joined) return this.top;
    this.found ??= { next: 0, most: 0 };
    const { found: progress } = this;
    let until = performance.now() + 12;
    for (; progress.next < this.queries.length; progress.next++) {
      for (const weight of this.row(progress.next).weights) progress.most = Math.max(progress.most, Math.abs(weight));
      if (performance.now() > until) {
        await breathe();
        if (!isWanted(progress.next / this.queries.length)) return null;
        until = performance.now() + 12;
      }
    }
    return progress.most || 1;
  }

  /**
   * Who looks at unit c: its share in every row, a slice of time at a time; null when it was called off.
   * @param {number} c
   * @param {() => boolean} isWanted
   */
  async column(c, isWanted) {
    const { length } = this.queries;
    const column = { weights: new Float32Array(length), seen: new Uint8Array(length), error: this.error };
    if (this.tile) {
      const cells = /** @type {Rectangle} */ ({ rows: [0, this.queries.length], cols: [c, c + 1], tall: 1, wide: 1 });
      const numbers = await this.tile(cells, "max", new AbortController().signal);
      numbers.forEach((number, u) => {
        column.seen[u] = Number(this.signed ? !Number.isNaN(number) : number >= 0);
        column.weights[u] = column.seen[u] && number;
      });
      return isWanted() ? column : null;
    }
    let until = performance.now() + 12;
    for (let u = 0; u < this.queries.length; u++) {
      const row = this.row(u);
      column.weights[u] = row.weights[c];
      column.seen[u] = row.seen[c];
      column.error = Math.max(column.error, row.error);
      if (performance.now() > until) {
        await breathe();
        if (!isWanted()) return null;
        until = performance.now() + 12;
      }
    }
    return column;
  }
}

/** @type {Map<string, Promise<View>>} */
const recentViews = new Map();

/** Return the view of the selection, cached with its computed rows. */
export function view(now = state.now) {
  const { part, layer, item, head, unit, sink } = { ...now, ...fitting(now) };
  const name = [part, layer, item, head, unit, sink].join();
  const promise = recentViews.get(name) ?? makeView(partOf(part), layer, item, head, unit, sink === "hidden");
  recentViews.delete(name);
  recentViews.set(name, promise);
  promise.catch(() => recentViews.get(name) === promise && recentViews.delete(name)); // failures aren't cached
  for (const oldest of recentViews.keys()) if (recentViews.size > VIEWS) recentViews.delete(oldest);
  return promise;
}

/**
 * @param {Part} part
 * @param {number} layer
 * @param {number} item
 * @param {number} head
 * @param {By} unit
 * @param {boolean} bare without the sink
 */
async function makeView(part, layer, item, head, unit, bare) {
  const from = source;
  const [queries, keys] = axes(part, item, unit),
    characters = unit === "tokens" ? axes(part, item, "characters") : undefined,
    tokens = axes(part, item, "tokens");
  const kind = /** @type {Kind} */ (part.signed ? "mixer" : "shares");
  const { tile } = from;
  const without = bare && !part.signed ? sinksOf(part, item) : null; // a mixer's rows are no shares
  if (tile && isWhole(part, layer) && queries.length === part.n && keys.length === part.m && part.n * part.m > LONG) {
    if (part.signed) await from.pictures(part, layer, item); // its largest weight comes with them
    const { tall, wide } = part.thumbs;
    return new View({
      kind,
      top: topOf(part, layer, item, head),
      queries,
      keys,
      characters,
      tile: (cells, pool, signal) => tile.call(from, part, layer, item, head, cells, pool, without !== null, signal),
      without,
      picture: without ? null : from.pictures(part, layer, item).then(({ bytes }) => ({ ...thumb(part, head, bytes), tall, wide })),
      coming: from.head(part, layer, item, head),
    });
  }
  const loaded = await from.head(part, layer, item, head);
  const top = topOf(part, layer, item, head);
  if (loaded) {
    const compute = loaded.row.bind(loaded);
    return new View({ kind, top, queries, keys, characters, head: loaded, without, compute, width: loaded.m, error: loaded.error });
  }
  const { tall, wide } = part.thumbs;
  const { shares, rows, cols } = thumb(part, head, (await from.pictures(part, layer, item)).bytes);
  return new View({
    kind,
    top,
    queries: binned(tokens[0], rows, tall),
    keys: binned(tokens[1], cols, wide),
    compute: (i, weights, seen) => {
      for (let j = 0; j < cols; j++) weights[j] = shares[i * cols + j] * top;
      seen.fill(1);
    },
    width: cols,
    error: top / (part.signed ? 127 : 255), // a picture's are √weight in so many steps
    pooled: { tall, wide, layer: part.layers[layer].number },
  });
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
 * @param {number} head
 * @param {Uint8Array} bytes of all heads of its layer
 */
export function thumb(part, head, bytes) {
  const [, , rows, cols] = part.thumbs.stored.shape;
  const own = bytes.subarray(head * rows * cols, (head + 1) * rows * cols);
  const shares = Float32Array.from(own, part.signed ? (b) => ((b - 128) / 127) * (Math.abs(b - 128) / 127) : (b) => (b / 255) ** 2);
  return { shares, rows, cols };
}

/** Choose a head. @param {number} layer @param {number} head */
export function openHeadAt(layer, head, own = state) {
  const { part, item, query, key } = own.now;
  const link = linkOf(partOf(part), item, layer, head);
  // A focus link stays chosen from head to head; without one, a head opens at what it does most.
  const stay = header.focus && header.focus.part === part && header.focus.query === query && header.focus.key === key;
  own.set({ layer, head, ...(link && !stay ? { query: link[0], key: link[1] } : {}) });
}
