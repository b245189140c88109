// The data in a page: a JSON header, and tensors as deflated base64 in <script type="text/plain"> blocks.
// Numbers of several bytes are stored plane by plane (all first bytes, then all second bytes), which compresses better.

/** @import { Header, Stored } from "./source.js" */

/** @returns {Header} */
export const readHeader = () =>
  JSON.parse(/** @type {HTMLElement} */ (document.getElementById("qkv-header")).textContent ?? "");

/** The text of a block; while the file is still being read, its end is awaited. @param {string} id */
async function block(id) {
  for (;;) {
    const element = document.getElementById("qkv-" + id);
    const complete = document.readyState !== "loading";
    if (element && (complete || element.nextElementSibling)) return element.textContent ?? "";
    if (complete) throw new Error(`this page carries no ${id}`);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}

/** @param {string} text */
function fromBase64(text) {
  const BytesClass = /** @type {any} */ (Uint8Array);
  if (BytesClass.fromBase64) return /** @type {Uint8Array<ArrayBuffer>} */ (BytesClass.fromBase64(text));
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
const cache = new Map();
const KEEP = 40_000_000; // maximum cached numbers; the least recently used tensors are dropped

/** @param {Stored} stored @returns {Promise<any>} a Float32Array, or a Uint8Array where bytes are stored */
export function tensor(stored) {
  const cached = cache.get(stored.id);
  if (cached) {
    cache.delete(stored.id);
    cache.set(stored.id, cached);
    return cached.made;
  }
  const size = stored.shape.reduce((a, b) => a * b, 1);
  const promise = bytesOf(stored.id).then((bytes) => unpack(bytes, stored.dtype));
  cache.set(stored.id, { made: promise, size });
  let sum = [...cache.values()].reduce((all, entry) => all + entry.size, 0);
  for (const [id, entry] of cache) {
    if (sum <= KEEP || id === stored.id) break;
    cache.delete(id);
    sum -= entry.size;
  }
  return promise;
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
