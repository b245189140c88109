// Requests to the server. A response is a sequence of frames: the length of the JSON (uint32, little-endian), the JSON, then its
// buffers. The last frame reports success or an error message.

/** @typedef {{ en: string, zh: string }} Sentence in both languages */
/** @typedef {Float32Array | Int32Array | Uint8Array} Numbers */
/** @typedef {{ kind: string, buffers: Numbers[], [name: string]: any }} Frame */

/** The server refused a request; has a message. */
export class Refused extends Error {
  /** @param {Sentence} answer */
  constructor(answer) {
    super(answer.en);
    this.said = answer;
    this.say = answer; // where `excuse` looks for it
  }
}

/** Nobody answers: the studio was ended, or the machine sleeps. */
export class Unreachable extends Error {}

/** The server doesn't know the key in our cookie, because it was restarted. */
export class Locked extends Unreachable {}

/** Was it called off, by us or by something newer? @param {unknown} error */
export const calledOff = (error) => error instanceof DOMException && error.name === "AbortError";

/** This tab, by a name of its own: what is newer in one tab calls off nothing in another. */
export const TAB = crypto.randomUUID();
/** How many asks there were: by another connection a later one may arrive first. */
let turns = 0;

/** @type {Record<string, (bytes: ArrayBuffer) => Numbers>} */
const KINDS = { f4: (bytes) => new Float32Array(bytes), i4: (bytes) => new Int32Array(bytes), u1: (bytes) => new Uint8Array(bytes) };

/**
 * Yield the frames of a response. Leaving the loop early, or the signal, cancels the request.
 * @param {Record<string, any>} body
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Frame, void, void>}
 */
export async function* requestFrames(body, signal) {
  const answer = await reached(body, signal);
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (answer.body).getReader();
  const bytes = readerOf(reader, signal);
  try {
    for (;;) {
      const size = new DataView(await bytes(4)).getUint32(0, true);
      const frame = JSON.parse(new TextDecoder().decode(await bytes(size)));
      const buffers = [];
      for (const { dtype, shape } of frame.buffers ?? []) {
        const count = shape.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, dtype === "u1" ? 1 : 4);
        buffers.push(KINDS[dtype](await bytes(count)));
      }
      if (frame.kind === "done") return;
      if (frame.kind === "problem") throw new Refused(frame.say);
      if (frame.kind === "superseded") throw new DOMException("something newer was asked", "AbortError");
      yield { ...frame, buffers };
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The one frame of a kind that an answer has. @param {string} kind @param {Record<string, any>} body @param {AbortSignal} [signal] */
export async function requestOne(kind, body, signal) {
  for await (const frame of requestFrames(body, signal)) if (frame.kind === kind) return frame;
  throw new Unreachable(kind);
}

/** @param {Record<string, any>} body @param {AbortSignal} [signal] */
async function reached(body, signal) {
  let answer;
  try {
    answer = await fetch("/api/ask", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ tab: TAB, turn: ++turns, ...body }),
      signal,
    });
  } catch (error) {
    throw calledOff(error) ? error : new Unreachable(String(error));
  }
  if (answer.ok) return answer;
  const details = await answer.json().catch(() => null);
  if (details?.say) throw new Refused(details.say);
  throw answer.status === 403 ? new Locked("403") : new Unreachable(String(answer.status));
}

/**
 * Reads so many bytes of a stream, into memory of their own (numbers of four bytes must lie at whole places).
 * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader
 * @param {AbortSignal} [signal]
 */
function readerOf(reader, signal) {
  let buffer = new Uint8Array(0);
  return async (/** @type {number} */ count) => {
    const whole = new Uint8Array(count);
    let filled = 0;
    for (;;) {
      const part = buffer.subarray(0, count - filled);
      whole.set(part, filled);
      filled += part.length;
      buffer = buffer.subarray(part.length);
      if (filled === count) return whole.buffer;
      const next = await reader.read().catch((error) => {
        throw calledOff(error) || signal?.aborted ? new DOMException("called off", "AbortError") : new Unreachable(String(error));
      });
      if (next.done) throw new Unreachable("the answer ended early");
      buffer = next.value;
    }
  };
}
