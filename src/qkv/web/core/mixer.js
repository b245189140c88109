// A mixer's weights (retention, Mamba-2, the delta rule), computed from q, k, the decays and the writes. They are signed, and
// rows don't sum to 1. A row is the query's reading of the state, traced back to what each token wrote:
//
//     w = scale · qᵢ,   then for j = i, i − 1, …:   Aᵢⱼ = βⱼ (kⱼ·w),   w ← γⱼ (w − kⱼ Aᵢⱼ)
//
// since the state at j is γⱼ times the previous state, from which the delta rule first removes what its key held. Without β,
// w is only scaled, and Aᵢⱼ = scale · (γ of the tokens between) · qᵢ·kⱼ.
// N tokens, D key width.

import { Head, product } from "./attention.js";

/** @import { Given } from "./attention.js" */
/** @import { Layer, Part } from "./source.js" */

/**
 * One row, step by step.
 * @typedef {object} MixerSteps
 * @property {Float64Array} dots q·k of every key
 * @property {Float64Array} scaled times the scale
 * @property {Float64Array} left L: how much of what a token wrote is left; 0 where nothing can be read
 * @property {Float32Array | null} write β, under the delta rule
 * @property {Float64Array} before the product of all these
 * @property {Float64Array | null} removed what later writes changed of it, under the delta rule
 * @property {Float32Array} weights
 * @property {Uint8Array} seen
 * @property {Float64Array | null} output Σ weight · v
 */

const NEGLIGIBLE_LOG = -150; // the log of a decay whose product with any q·k underflows float32
const SMALLEST_FLOAT32 = 1e-45; // the smallest positive float32
const CHECK_EVERY = 32; // tokens between checks whether everything has decayed

export class Mixer extends Head {
  /** @param {Pick<Part, "n" | "m">} part @param {Layer} layer @param {number} item @param {number} head @param {Given} tensors */
  constructor(part, layer, item, head, tensors) {
    super(part, layer, item, head, tensors);
    this.decay = this.own(/** @type {Float32Array} */ (tensors.decay), layer.decay ?? null); // log γ
    this.write = tensors.write && this.own(tensors.write, layer.write ?? null); // β
  }

  /**
   * The weights of a row, and which tokens it may read.
   * @param {number} i
   * @param {Float32Array} [weights]
   * @param {Uint8Array} [seen]
   */
  row(i, weights = new Float32Array(this.m), seen = new Uint8Array(this.m)) {
    const [low, high] = this.reach(i);
    weights.fill(0);
    seen.fill(0);
    for (let j = low; j < high; j++) seen[j] = Number(this.inside(i, j));
    if (this.write) this.corrected(i, low, weights);
    else this.added(i, low, weights);
    return { weights, seen };
  }

  /** Everything that was written is still there, less what decayed. @param {number} i @param {number} low @param {Float32Array} weights */
  added(i, low, weights) {
    for (let j = i, logDecay = 0; j >= low && logDecay > NEGLIGIBLE_LOG; logDecay += this.decay[j--])
      weights[j] = this.dot(i, j) * this.layer.scale * Math.exp(logDecay);
  }

  /** … and less what later writes took out. @param {number} i @param {number} low @param {Float32Array} weights */
  corrected(i, low, weights) {
    const { k, width, decay } = this;
    const write = /** @type {Float32Array} */ (this.write);
    const query = Float64Array.from(this.q.subarray(i * width, (i + 1) * width), (x) => x * this.layer.scale);
    for (let j = i; j >= low; j--) {
      const read = write[j] * product(query, 0, k, j, width),
        gamma = Math.exp(decay[j]);
      weights[j] = read;
      for (let d = 0, at = j * width; d < width; d++) query[d] = gamma * (query[d] - read * k[at + d]);
      if ((i - j) % CHECK_EVERY === 0 && query.every((x) => Math.abs(x) < SMALLEST_FLOAT32)) return;
    }
  }

  /** @param {number} i @returns {any} as `MixerSteps` */
  steps(i) {
    const { scale } = this.layer;
    const { weights, seen } = this.row(i);
    const each = (/** @type {(j: number) => number} */ make) => Float64Array.from({ length: this.m }, (_, j) => make(j));
    const dots = each((j) => this.dot(i, j));
    const scaled = dots.map((dot) => dot * scale);
    const decays = this.left(i);
    const before = each((j) => (seen[j] ? scaled[j] * decays[j] * (this.write ? this.write[j] : 1) : 0));
    const removed = this.write && each((j) => (j === i ? 0 : weights[j] - before[j]));
    return { dots, scaled, left: decays, write: this.write, before, removed, weights, seen, output: this.output(weights) };
  }

  /** How much of what each token wrote the decays leave at token i. @param {number} i */
  left(i) {
    const decays = new Float64Array(this.m);
    const [low] = this.reach(i);
    for (let j = i, sum = 0; j >= low; sum += this.decay[j--]) decays[j] = Math.exp(sum);
    return decays;
  }

  /**
   * What each write between j and i took out of what i gets of j, under the delta rule: of A = β·L·q·k·scale − Σ these.
   * @param {number} i
   * @param {number} j
   * @param {Float32Array} weights of row i
   */
  taken(i, j, weights) {
    const removed = new Float64Array(this.m);
    const write = /** @type {Float32Array} */ (this.write);
    for (let t = j + 1, sum = 0; t <= i; t++) {
      sum += this.decay[t];
      removed[t] = weights[t] * write[j] * Math.exp(sum) * product(this.k, t, this.k, j, this.width);
    }
    return removed;
  }
}
