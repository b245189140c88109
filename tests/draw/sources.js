// Sources for the tests of the elements: random heads that are computed here, whose pictures come when a test lets them.

import { headOf } from "./core/head_factory.js";
import { normals } from "./steps/random.js";

/** A source of random numbers; `more` overrides what it does. */
export function random({ n = 6, layers = 2, heads = 2, width = 4, seed = 1, mark = "w", special = [], late = false, q = null, k = null, tiled = false, ...more } = {}) {
  const size = Math.min(n, 64),
    tall = Math.ceil(n / size);
  const labels = Array.from({ length: n }, (_, i) => `${mark}${i}`);
  const stored = (kind, shape) => ({ id: kind, shape, dtype: "f4" });
  const layer = (number) => ({
    number,
    heads,
    groups: heads,
    scale: width ** -0.5,
    softcap: null,
    sinks: null,
    mask: [["band", null, 0]],
    bias: null,
    errors: null,
    q: stored("q", [1, heads, n, width]),
    k: stored("k", [1, heads, n, width]),
    v: stored("v", [1, heads, n, width]),
  });
  const part = {
    name: "decoder",
    n,
    m: n,
    queries: [0],
    keys: [0],
    layers: Array.from({ length: layers }, (_, i) => layer(i)),
    thumbs: { stored: { id: "", shape: [1, layers * heads, Math.ceil(n / tall), Math.ceil(n / tall)], dtype: "u1" }, tall, wide: tall },
    links: [Array.from({ length: layers }, () => Array(heads).fill(null))],
    signed: false,
    tops: null,
    precision: null,
  };
  const numbers = (what, at) => Float32Array.from(normals(seed * 1000 + at * 10 + what, heads * n * width), (x) => 1.5 * x);
  const given = part.layers.map((_, at) => ({
    q: q ?? numbers(0, at),
    k: k ?? numbers(1, at),
    v: numbers(2, at),
    bias: null,
    decay: null,
    write: null,
    dense: [null],
  }));
  const head = (at, h) => headOf(part, part.layers[at], 0, h, given[at]);
  const waiting = part.layers.map(() => {
    const one = {};
    one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }));
    one.promise.catch(() => {});
    return one;
  });
  async function tile(_, at, __, h, cells, pool, sink, signal) {
    const asked = { layer: at, head: h, ...cells, pool, sink, signal, given: false };
    source.asked.push(asked);
    await source.gate;
    signal.throwIfAborted();
    asked.given = true;
    return pooled(head(at, h), cells, pool, sink ? [0, ...special] : []);
  }
  const source = {
    header: { model: "random", text: labels.join(" "), lang: null, show: ["overview", "map", "lines", "steps"], context: null, parts: [part], focus: null, first: { part: "decoder", item: 0, layer: 0, head: 0, query: n - 1, key: 1, unit: "tokens" } },
    tokens: [{ labels, special, words: labels.map((label, i) => [label, i, i + 1]), characters: null }],
    tile: tiled ? tile : null,
    /** What was asked for. */
    asked: [],
    /** If it is one, tiles wait for it. */
    gate: null,
    pictures: (_, at) => waiting[at].promise,
    head: async (_, at, __, h) => head(at, h),
    linking: async (_, __, query, key) => part.layers.flatMap((one, at) => Array.from({ length: heads }, (___, h) => [at, h, head(at, h).row(query).weights[key]])).sort((a, b) => b[2] - a[2]),
    /** Let the pictures of a layer come, and the links with them. */
    come(at, link = [n - 1, 1, 0.5]) {
      part.links[0][at] = Array(heads).fill(link);
      waiting[at].resolve({ bytes: new Uint8Array(heads * part.thumbs.stored.shape[2] ** 2).fill(255) });
    },
    fail: (at, error) => waiting[at].reject(error),
    weights: (at, h) => Array.from({ length: n }, (_, i) => Array.from(head(at, h).row(i).weights)),
    ...more,
  };
  if (!late) part.layers.forEach((_, at) => source.come(at));
  return source;
}

/** A rectangle of a map, pooled; hidden cells are −1. */
export function pooled(head, { rows, cols, tall, wide }, pool, without = []) {
  const across = Math.ceil((cols[1] - cols[0]) / wide),
    down = Math.ceil((rows[1] - rows[0]) / tall);
  const sums = new Float64Array(down * across),
    open = new Uint8Array(down * across);
  for (let i = rows[0]; i < rows[1]; i++) {
    const { weights, seen } = head.row(i);
    for (const j of without) weights[j] = seen[j] = 0;
    const left = without.length ? weights.reduce((sum, weight) => sum + weight, 0) || 1 : 1;
    weights.forEach((weight, j) => (weights[j] = weight / left));
    for (let j = cols[0]; j < cols[1]; j++) {
      const at = Math.floor((i - rows[0]) / tall) * across + Math.floor((j - cols[0]) / wide);
      sums[at] = pool === "max" ? Math.max(sums[at], weights[j]) : sums[at] + weights[j];
      open[at] |= seen[j];
    }
  }
  return Float32Array.from(sums, (sum, at) => {
    if (!open[at]) return -1;
    if (pool === "max") return sum;
    const [r, c] = [Math.floor(at / across), at % across];
    return sum / (Math.min(tall, rows[1] - rows[0] - r * tall) * Math.min(wide, cols[1] - cols[0] - c * wide));
  });
}
