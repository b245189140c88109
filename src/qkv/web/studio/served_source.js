// A source on the server: the header first, each layer's pictures when they are computed, a head's q, k and v on demand.

import { headOf } from "../core/head_factory.js";
import { requestFrames, requestOne } from "./server_client.js";

/** @import { Given, Head } from "../core/attention.js" */
/** @import { Header, Layer, Link, Part, Rectangle, Source, Stored, Tokens } from "../core/source.js" */
/** @import { Spec, Words } from "./studio_state.js" */
/** @import { Frame } from "./server_client.js" */

const MAX_CACHED = 40_000_000; // maximum cached numbers; the least recently used heads are dropped

/** @implements {Source} */
export class ServedSource {
  /** Pictures that came, or that somebody waits for: part.layer. @type {Map<string, { made: Promise<Uint8Array>, give: (bytes: Uint8Array) => void }>} */
  pictured = new Map();
  /** @type {Map<string, { made: Promise<Head>, size: number }>} */
  heads = new Map();
  /** How spread out each head looks, in bits: part → layer → item → head. @type {Record<string, number[][][]>} */
  entropy = {};
  /** @type {Words | null} */
  words = null;
  /** @type {number | null} */
  loss = null;
  /** Is it complete? */
  complete = false;
  /** Aborted when it is no longer shown: requests for its parts end with it. */
  ended = new AbortController();

  /** @param {Spec} spec @param {Frame} first its header */
  constructor(spec, first) {
    this.spec = spec;
    this.header = /** @type {Header} */ (first.header);
    this.tokens = /** @type {Tokens[]} */ (first.tokens);
    this.header.show = ["overview", "map", "lines", "steps"];
    this.kindOf = /** @type {string} */ (first.kindOf);
  }

  /** A frame after the first. @param {Frame} frame */
  take(frame) {
    if (frame.kind === "words") this.words = /** @type {any} */ (frame);
    if (frame.kind === "loss") this.loss = frame.loss;
    if (frame.kind !== "layer") return;
    const part = /** @type {Part} */ (this.header.parts.find(({ name }) => name === frame.part));
    frame.links.forEach((/** @type {Link[]} */ links, /** @type {number} */ item) => (part.links[item][frame.at] = links));
    Object.assign(part.layers[frame.at], frame.layer);
    if (part.tops) part.tops[frame.at] = frame.tops;
    (this.entropy[frame.part] ??= [])[frame.at] = frame.entropy;
    this.picture(frame.part, frame.at).give(/** @type {Uint8Array} */ (frame.buffers[0]));
  }

  /** @param {string} part @param {number} layer */
  picture(part, layer) {
    const name = `${part}.${layer}`;
    let cached = this.pictured.get(name);
    if (!cached) {
      let give = (/** @type {Uint8Array} */ _bytes) => {};
      const promise = new Promise((/** @type {(bytes: Uint8Array) => void} */ resolve) => (give = resolve));
      this.pictured.set(name, (cached = { made: promise, give }));
    }
    return cached;
  }

  /** The pictures of a layer's heads (heads, rows, cols). @param {Part} part @param {number} layer @param {number} item */
  async pictures(part, layer, item) {
    const all = await this.picture(part.name, layer).made;
    const [, , rows, cols] = part.thumbs.stored.shape;
    const size = part.layers[layer].heads * rows * cols;
    return { bytes: all.subarray(item * size, (item + 1) * size) };
  }

  /** @param {Part} part @param {number} layer @param {number} item @param {number} head */
  head(part, layer, item, head) {
    const name = [part.name, layer, item, head].join(".");
    const cached = this.heads.get(name);
    if (cached) {
      this.heads.delete(name);
      this.heads.set(name, cached);
      return cached.made;
    }
    const entry = { made: this.askHead(part, layer, item, head), size: 0 };
    this.heads.set(name, entry);
    entry.made.then(
      (instance) => {
        entry.size = instance.q.length + instance.k.length + (instance.v?.length ?? 0);
        let sum = [...this.heads.values()].reduce((all, each) => all + each.size, 0);
        for (const [other, each] of this.heads) {
          if (sum <= MAX_CACHED || other === name) break;
          this.heads.delete(other);
          sum -= each.size;
        }
      },
      () => this.heads.delete(name),
    );
    return entry.made;
  }

  /** @param {Part} part @param {number} at @param {number} item @param {number} head */
  async askHead(part, at, item, head) {
    const frame = await requestOne("head", { do: "head", spec: this.spec, part: part.name, layer: at, item, head }, this.ended.signal);
    const layer = /** @type {Layer} */ (frame.layer);
    const of = (/** @type {Stored | null | undefined} */ stored) => /** @type {any} */ (stored ? frame.buffers[Number(stored.id)] : null);
    /** @type {Given} */
    const tensors = {
      q: of(layer.q),
      k: of(layer.k),
      v: of(layer.v),
      bias: of(layer.bias?.table),
      decay: of(layer.decay),
      write: of(layer.write),
      dense: layer.mask.map((rule) => (rule[0] === "dense" ? of(rule[1]) : null)),
    };
    return headOf(part, layer, 0, 0, tensors, part.tops?.[at]?.[item]?.[head]);
  }

  /** All heads by how much a token looks at another, strongest first. @param {Part} part @param {number} item @param {number} query @param {number} key @param {() => boolean} [isWanted] @returns {Promise<[number, number, number][] | null>} */
  async linking(part, item, query, key, isWanted = () => true) {
    const frame = await requestOne("links", { do: "links", spec: this.spec, part: part.name, item, query, key }, this.ended.signal);
    return isWanted() ? frame.top : null;
  }

  /**
   * A rectangle of a map, pooled.
   * @param {Part} part @param {number} layer @param {number} item @param {number} head
   * @param {Rectangle} box
   * @param {"max" | "mean"} pool @param {boolean} sink is it left out? @param {AbortSignal} signal
   */
  async tile(part, layer, item, head, box, pool, sink, signal) {
    const body = { do: "tile", spec: this.spec, part: part.name, layer, item, head, ...box, pool, sink };
    return /** @type {Float32Array} */ ((await requestOne("tile", body, AbortSignal.any([signal, this.ended.signal]))).buffers[0]);
  }
}

/**
 * Request a view. Return its source after the header; later frames are passed to `onFrame`.
 * @param {Spec} spec
 * @param {string} tab newer views of one tab call older ones off
 * @param {AbortSignal} signal
 * @param {(source: ServedSource) => void} opened
 * @param {(source: ServedSource, frame: Frame) => void} [onFrame]
 */
export async function viewed(spec, tab, signal, opened, onFrame) {
  /** @type {ServedSource | null} */
  let source = null;
  try {
    for await (const frame of requestFrames({ do: "view", spec, tab }, signal)) {
      if (frame.kind === "header") opened((source = new ServedSource(spec, frame)));
      else if (source) {
        source.take(frame);
        onFrame?.(source, frame);
      }
    }
  } catch (error) {
    source?.ended.abort(); // what it lacks won't come
    throw error;
  }
  if (source) source.complete = true;
  return source;
}
