// The weights of one head, computed from q and k: softmax(softcap(q·k · scale) + bias, where the mask allows).
// N queries, M keys, D head width. Query i has position i + M − N among the keys (lower-right).

/** @import { Layer, Part, Rule, Stored } from "./source.js" */

/**
 * One row, step by step.
 * @typedef {object} Steps
 * @property {Float64Array} dots q·k of every key
 * @property {Float64Array} scaled times the scale
 * @property {Float64Array | null} capped bent to ±softcap
 * @property {Float64Array | null} biased with the bias added
 * @property {Float64Array} masked −∞ where hidden
 * @property {Float32Array} weights
 * @property {number | null} sink its share
 * @property {Float64Array | null} output Σ weight · v
 */
/** What a layer carries, unpacked. @typedef {{ q: Float32Array, k: Float32Array, v: Float32Array | null, bias: Float32Array | null, decay: Float32Array | null, write: Float32Array | null, dense: (Uint8Array | null)[] }} Given */

export class Head {
  /** The largest weight that there may be, by size. */
  top = 1;

  /** @param {Pick<Part, "n" | "m">} part @param {Layer} layer @param {number} item @param {number} head @param {Given} tensors */
  constructor(part, layer, item, head, tensors) {
    this.n = part.n;
    this.m = part.m;
    this.layer = layer;
    this.item = item;
    this.head = head;
    this.width = /** @type {Stored} */ (layer.q).shape[3];
    this.q = this.own(tensors.q, layer.q);
    this.k = this.own(tensors.k, layer.k);
    this.valueWidth = layer.v ? layer.v.shape[3] : 0;
    this.v = tensors.v && this.own(tensors.v, layer.v);
    this.bias = tensors.bias;
    this.sink = layer.sinks ? layer.sinks[head] : null;
    this.rules = layer.mask.map((rule, i) => ruleOf(rule, tensors.dense[i], this));
    this.simple = this.rules.every((rule) => !rule.allows);
  }

  /** This head's of a tensor (B, ·, …), or its group's where heads share. @param {Float32Array} all @param {Stored | null} stored */
  own(all, stored) {
    const [, count, ...rest] = /** @type {Stored} */ (stored).shape;
    const size = rest.reduce((a, b) => a * b, 1);
    const at = this.item * count + Math.floor(this.head / (this.layer.heads / count));
    return all.subarray(at * size, (at + 1) * size);
  }

  /** How far off its weights may be. */
  get error() {
    return (this.layer.errors?.weight ?? 0) * this.top;
  }

  /** The keys that a query can see at all: from, up to. @param {number} i @returns {[number, number]} */
  reach(i) {
    let low = 0,
      high = this.m;
    for (const rule of this.rules) {
      const [a, b] = rule.reach(i);
      low = Math.max(low, a);
      high = Math.min(high, b);
    }
    return [low, Math.max(low, high)];
  }

  /** @param {number} i @param {number} j */
  allowed(i, j) {
    const [low, high] = this.reach(i);
    return j >= low && j < high && this.inside(i, j);
  }

  /** … for a key that is within reach. @param {number} i @param {number} j */
  inside(i, j) {
    if (!this.simple) for (const rule of this.rules) if (rule.allows && !rule.allows(i, j)) return false;
    return this.bias === null || this.biasAt(i, j) !== -Infinity;
  }

  /** @param {number} i @param {number} j */
  dot(i, j) {
    return product(this.q, i, this.k, j, this.width);
  }

  /** @param {number} i @param {number} j */
  biasAt(i, j) {
    const bias = /** @type {Float32Array} */ (this.bias);
    const { kind, table } = /** @type {NonNullable<Layer["bias"]>} */ (this.layer.bias);
    if (kind === "distances") {
      const [heads, wide] = table.shape;
      return bias[Math.min(this.head, heads - 1) * wide + j - i + this.n - 1];
    }
    const [items, heads, rows, cols] = table.shape; // an axis of one serves everybody
    const at = (Math.min(this.item, items - 1) * heads + Math.min(this.head, heads - 1)) * rows + Math.min(i, rows - 1);
    return bias[at * cols + Math.min(j, cols - 1)];
  }

  /** @param {number} dot @param {number} i @param {number} j */
  score(dot, i, j) {
    let score = dot * this.layer.scale;
    const cap = this.layer.softcap;
    if (cap !== null) score = cap * Math.tanh(score / cap);
    return this.bias === null ? score : score + this.biasAt(i, j);
  }

  /**
   * The weights of a row, and which keys it may see; a row that may see nothing is 0.
   * @param {number} i
   * @param {Float32Array} [weights]
   * @param {Uint8Array} [seen]
   */
  row(i, weights = new Float32Array(this.m), seen = new Uint8Array(this.m)) {
    const [low, high] = this.reach(i);
    weights.fill(0);
    seen.fill(0);
    let most = this.sink ?? -Infinity;
    for (let j = low; j < high; j++) {
      if (!this.inside(i, j)) continue;
      const score = this.score(this.dot(i, j), i, j);
      seen[j] = 1;
      weights[j] = score;
      if (score > most) most = score;
    }
    let sum = this.sink === null ? 0 : Math.exp(this.sink - most);
    for (let j = low; j < high; j++) if (seen[j]) sum += weights[j] = Math.exp(weights[j] - most);
    if (sum) for (let j = low; j < high; j++) weights[j] /= sum;
    return { weights, seen };
  }

  /** @param {number} i @returns {Steps} */
  steps(i) {
    const { softcap, scale } = this.layer;
    const each = (/** @type {(j: number) => number} */ make) =>
      Float64Array.from({ length: this.m }, (_, j) => make(j));
    const dots = each((j) => this.dot(i, j));
    const scaled = dots.map((dot) => dot * scale);
    const capped = softcap === null ? null : scaled.map((score) => softcap * Math.tanh(score / softcap));
    const before = capped ?? scaled;
    const biased = this.bias === null ? null : before.map((score, j) => score + this.biasAt(i, j));
    const [low, high] = this.reach(i);
    const masked = each((j) => (j >= low && j < high && this.inside(i, j) ? (biased ?? before)[j] : -Infinity));
    const { weights } = this.row(i);
    const sink = this.sink === null ? null : 1 - weights.reduce((a, b) => a + b, 0);
    return { dots, scaled, capped, biased, masked, weights, sink, output: this.output(weights) };
  }

  /** Σ weight · v. @param {Float32Array} weights */
  output(weights) {
    if (!this.v) return null;
    const output = new Float64Array(this.valueWidth);
    for (let j = 0; j < this.m; j++) {
      if (!weights[j]) continue;
      for (let d = 0; d < this.valueWidth; d++) output[d] += weights[j] * this.v[j * this.valueWidth + d];
    }
    return output;
  }
}

/**
 * Row i of one table times row j of another. Four sums side by side: additions that don't wait for each other.
 * @param {Float32Array | Float64Array} first
 * @param {number} i
 * @param {Float32Array} second
 * @param {number} j
 * @param {number} width
 */
export function product(first, i, second, j, width) {
  let a = i * width,
    b = j * width,
    s = 0,
    t = 0,
    u = 0,
    v = 0;
  const end = a + width;
  for (; a + 3 < end; a += 4, b += 4) {
    s += first[a] * second[b];
    t += first[a + 1] * second[b + 1];
    u += first[a + 2] * second[b + 2];
    v += first[a + 3] * second[b + 3];
  }
  for (; a < end; a++, b++) s += first[a] * second[b];
  return s + t + (u + v);
}

/**
 * A rule of the mask: between which keys a query sees, and, where that isn't all of it, whether it sees one of them.
 * @param {Rule} rule
 * @param {Uint8Array | null} dense
 * @param {Head} at
 * @returns {{ reach: (i: number) => [number, number], allows: ((i: number, j: number) => boolean) | null }}
 */
function ruleOf(rule, dense, { n, m, item, head }) {
  if (rule[0] === "band") {
    const [, before, after] = rule;
    return {
      reach: (i) => [before === null ? 0 : i + m - n - before, after === null ? m : i + m - n + after + 1],
      allows: null,
    };
  }
  if (rule[0] === "lengths") {
    const length = rule[1][Math.min(item, rule[1].length - 1)];
    return { reach: () => [0, length], allows: null };
  }
  if (rule[0] === "starts") {
    const starts = rule[1][Math.min(item, rule[1].length - 1)];
    const begins = new Int32Array(n);
    for (let i = 0, at = 0; i < n; i++) begins[i] = at < starts.length && starts[at] === i ? starts[at++] : begins[i - 1] ?? 0;
    return { reach: (i) => [begins[i], m], allows: null };
  }
  const bits = /** @type {Uint8Array} */ (dense);
  const [items, heads, rows, wide] = rule[1].shape;
  const start = (Math.min(item, items - 1) * heads + Math.min(head, heads - 1)) * rows;
  return {
    reach: () => [0, m],
    allows: (i, j) => ((bits[(start + Math.min(i, rows - 1)) * wide + (j >> 3)] >> (j & 7)) & 1) === 1,
  };
}
