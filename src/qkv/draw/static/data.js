// What the file carries: a header in JSON, and tensors as deflated base64 in <script type="text/plain"> blocks.
// Numbers of more than one byte are stored plane by plane (all first bytes, then all second bytes): it packs better.

/** @import { By } from "./view.js" */

/** @typedef {{ id: string, shape: number[], dtype: "f2" | "f4" | "u1" }} Stored */
/** Who may look at whom; starts are where documents begin, per item; a dense one is bits, an axis of one serving everybody. @typedef {["band", number | null, number | null] | ["lengths", number[]] | ["starts", number[][]] | ["dense", Stored]} Rule */
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
 * @property {Stored | null} q (B, H, N, D); D is 0 where only weights were kept, whose logarithm is the bias
 * @property {Stored | null} k (B, G, M, D)
 * @property {Stored | null} v
 * @property {Stored | null} [decay] of a mixer: log γ of every token (B, H, N); its q and k are (B, G, N, D), its v (B, H, N, P)
 * @property {Stored | null} [write] β of the delta rule (B, H, N)
 * @property {boolean} [state] did a state come before this text?
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

/** @returns {Header} */
export const readHeader = () =>
  JSON.parse(/** @type {HTMLElement} */ (document.getElementById("qkv-header")).textContent ?? "");

/** The text of a block; while the file is still being read, its end is awaited. @param {string} id */
async function block(id) {
  for (;;) {
    const found = document.getElementById("qkv-" + id);
    const complete = document.readyState !== "loading";
    if (found && (complete || found.nextElementSibling)) return found.textContent ?? "";
    if (complete) throw new Error(`this page carries no ${id}`);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}

/** @param {string} text */
function fromBase64(text) {
  const made = /** @type {any} */ (Uint8Array);
  if (made.fromBase64) return /** @type {Uint8Array<ArrayBuffer>} */ (made.fromBase64(text));
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** @param {string} id */
export async function bytesOf(id) {
  const packed = new Blob([fromBase64((await block(id)).trim())]);
  const stream = packed.stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Every float16 there is, as float32: looked up, not computed. */
const HALVES = new Float32Array(65536);
for (let bits = 0; bits < 65536; bits++) {
  const sign = bits & 0x8000 ? -1 : 1,
    exponent = (bits >> 10) & 31,
    fraction = bits & 1023;
  HALVES[bits] =
    exponent === 31
      ? fraction
        ? NaN
        : sign * Infinity
      : sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** @type {Map<string, { made: Promise<Float32Array | Uint8Array>, size: number }>} */
const kept = new Map();
const KEEP = 40_000_000; // numbers, beyond which the tensors used longest ago are let go

/** @param {Stored} stored @returns {Promise<any>} a Float32Array, or a Uint8Array where bytes are stored */
export function tensor(stored) {
  const found = kept.get(stored.id);
  if (found) {
    kept.delete(stored.id);
    kept.set(stored.id, found);
    return found.made;
  }
  const size = stored.shape.reduce((a, b) => a * b, 1);
  const made = bytesOf(stored.id).then((bytes) => unpack(bytes, stored.dtype));
  kept.set(stored.id, { made, size });
  let sum = [...kept.values()].reduce((all, one) => all + one.size, 0);
  for (const [id, one] of kept) {
    if (sum <= KEEP || id === stored.id) break;
    kept.delete(id);
    sum -= one.size;
  }
  return made;
}

/** @param {Uint8Array} bytes @param {string} dtype */
function unpack(bytes, dtype) {
  if (dtype === "u1") return bytes;
  if (dtype === "f2") {
    const count = bytes.length / 2,
      numbers = new Float32Array(count);
    for (let i = 0; i < count; i++) numbers[i] = HALVES[bytes[i] | (bytes[count + i] << 8)];
    return numbers;
  }
  const count = bytes.length / 4,
    bits = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    bits[i] = bytes[i] | (bytes[count + i] << 8) | (bytes[2 * count + i] << 16) | (bytes[3 * count + i] << 24);
  }
  return new Float32Array(bits.buffer);
}
