// A source provides the numbers: the file of this page (`Embedded`) or a server. Both have the same interface.

import { bytesOf, readHeader, tensor } from "./data.js";
import { breathe } from "./dom.js";
import { headOf } from "./head_factory.js";

/** @import { Head } from "./attention.js" */
/** @import { By } from "./view.js" */

/** @typedef {{ id: string, shape: number[], dtype: "f2" | "f4" | "u1" }} Stored */
/** A rule of the mask. "starts" are document starts per item; "dense" is bits, and axes of size 1 broadcast. @typedef {["band", number | null, number | null] | ["lengths", number[]] | ["starts", number[][]] | ["dense", Stored]} Rule */
/**
 * @typedef {object} Layer
 * @property {number} number in the model, where layers without attention are counted too
 * @property {number} heads
 * @property {number} groups heads of k and v; head h reads group h / (heads / groups)
 * @property {number} scale
 * @property {number | null} softcap
 * @property {number[] | null} sinks
 * @property {Rule[]} mask all of them must allow
 * @property {{ kind: "distances" | "dense", table: Stored } | null} bias
 * @property {{ weight: number, dot: number, value: number } | null} errors how far off weights (a mixer's: as a share of its head's largest), q·k and v may be; 0 is not at all
 * @property {number} [linkError] the same for the weights of its links: in a page they are the trace's, and not computed from the q and k that the page has
 * @property {Stored | null} q (B, H, N, D); D is 0 where only weights were kept, whose logarithm is the bias
 * @property {Stored | null} k (B, G, M, D)
 * @property {Stored | null} v
 * @property {Stored | null} [decay] of a mixer: log γ of every token (B, H, N); its q and k are (B, G, N, D), its v (B, H, N, P)
 * @property {Stored | null} [write] β of the delta rule (B, H, N)
 * @property {boolean} [state] is there an initial state?
 */
/** @typedef {[number, number, number] | null} Link from, to, weight */
/**
 * @typedef {object} Part
 * @property {string} name
 * @property {number} n queries
 * @property {number} m keys
 * @property {number[]} queries which token list, per item
 * @property {number[]} keys
 * @property {Layer[]} layers
 * @property {{ stored: Stored, tall: number, wide: number }} thumbs (items, all heads of all layers, rows, cols); √weight · 255, signed 128 ± √(size/top) · 127
 * @property {Link[][][]} links item → layer → head
 * @property {boolean} signed are weights below 0 too, and rows no shares? Mixers' are
 * @property {number[][][] | null} tops of a signed part: layer → item → head → its largest weight by size
 * @property {{ dtype: string, error: string } | null} precision of its whole layers
 */
/** @typedef {{ part: string, item: number, query: number, key: number, top: [number, number, number][] }} Focus */
/** Tokens, and what they are together: words, and whole characters where some are several. @typedef {{ labels: string[], special: number[], words: [string, number, number][], characters: [string, number, number][] | null }} Tokens */
/**
 * @typedef {object} Header
 * @property {string} model
 * @property {string} text
 * @property {string | null} lang
 * @property {("overview" | "map" | "lines" | "steps")[]} show
 * @property {number | null} context of the model, where the text is longer
 * @property {Stored} tokens
 * @property {Part[]} parts
 * @property {Focus | null} focus
 * @property {{ part: string, item: number, layer: number, head: number, query: number, key: number, unit: By }} first
 */

/** From, up to. @typedef {[number, number]} Span */
/** Cells of a map, so many tokens tall and wide each. @typedef {{ rows: Span, cols: Span, tall: number, wide: number }} Rectangle */
/**
 * Layers are counted by their place in part.layers, and so are heads, items and tokens.
 * @typedef {object} Source
 * @property {Header} header what of its links isn't known yet is null, and is there when its layer's pictures are
 * @property {Tokens[]} tokens the lists that parts name
 * @property {(part: Part, layer: number) => boolean} [whole] can heads of this layer be opened? Without it, all can
 * @property {(part: Part, layer: number, item: number) => Promise<{ bytes: Uint8Array }>} pictures (heads, rows, cols), as in part.thumbs
 * @property {(part: Part, layer: number, item: number, head: number) => Promise<Head | null>} head a Head or a Mixer; null where the layer is here as an overview only
 * @property {(part: Part, item: number, query: number, key: number, wanted: () => boolean) => Promise<[number, number, number][] | null>} linking layer, head and weight of the heads that link two tokens, strongest first; null when called off
 * @property {((part: Part, layer: number, item: number, head: number, cells: Rectangle, pool: "max" | "mean", sink: boolean, signal: AbortSignal) => Promise<Float32Array>) | null} tile weights of a rectangle, row after row, each cell pooled; hidden cells are −1, in signed parts NaN. null: the page computes by itself
 */

/** @implements {Source} */
export class Embedded {
  tile = null;

  /** @param {Header} header @param {Tokens[]} tokens */
  constructor(header, tokens) {
    this.header = header;
    this.tokens = tokens;
  }

  /** Open the data in this page. */
  static async open() {
    const header = readHeader();
    return new Embedded(header, JSON.parse(new TextDecoder().decode(await bytesOf(header.tokens.id))));
  }

  /** @param {Part} part @param {number} layer */
  whole(part, layer) {
    return Boolean(part.layers[layer].q);
  }

  /** @param {Part} part @param {number} layer @param {number} item */
  async pictures(part, layer, item) {
    const { stored } = part.thumbs;
    const [, heads, rows, cols] = stored.shape;
    const before = part.layers.slice(0, layer).reduce((sum, { heads }) => sum + heads, 0);
    const at = (item * heads + before) * rows * cols;
    const all = /** @type {Uint8Array} */ (await tensor(stored));
    return { bytes: all.subarray(at, at + part.layers[layer].heads * rows * cols) };
  }

  /** @param {Part} part @param {number} layer @param {number} item @param {number} head */
  async head(part, layer, item, head) {
    const info = part.layers[layer];
    if (!info.q || !info.k) return null;
    const [q, k, v, bias, decay, write, ...dense] = await Promise.all([
      tensor(info.q),
      tensor(info.k),
      info.v && tensor(info.v),
      info.bias && tensor(info.bias.table),
      info.decay ? tensor(info.decay) : null,
      info.write ? tensor(info.write) : null,
      ...info.mask.map((rule) => (rule[0] === "dense" ? tensor(rule[1]) : null)),
    ]);
    return headOf(part, info, item, head, { q, k, v, bias, decay, write, dense }, part.tops?.[layer]?.[item]?.[head]);
  }

  /**
   * Search all layers with q and k.
   * @param {Part} part
   * @param {number} item
   * @param {number} query
   * @param {number} key
   * @param {() => boolean} isWanted
   */
  async linking(part, item, query, key, isWanted) {
    /** @type {[number, number, number][]} */
    const links = [];
    for (let layer = 0; layer < part.layers.length; layer++) {
      for (let head = 0; head < part.layers[layer].heads; head++) {
        const instance = await this.head(part, layer, item, head);
        if (instance) links.push([layer, head, instance.row(query).weights[key]]);
      }
      await breathe();
      if (!isWanted()) return null;
    }
    return links.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  }
}
