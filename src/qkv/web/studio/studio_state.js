// The studio's selection and the server's answers, as additional fields of the state.

import { plainText } from "../core/dom.js";
import { state } from "../core/state.js";
import { header, partOf } from "../core/view.js";

/** @import { Chosen, State } from "../core/state.js" */
/** @import { Sentence } from "./server_client.js" */

/** A head by its name in the model, and what it is made to do: looking nowhere, everywhere alike, at the first token; or so many times itself. @typedef {[string, "zero" | "uniform" | "first" | number]} Edit */
/** What is looked at, as the server takes it. @typedef {{ model: string, text: string, target: string | null, more: number[], edits: Edit[] }} Spec */
/** How a word is drawn. @typedef {{ temperature: number, topK: number, topP: number }} Sampling */
/** What stands beside it: another head, another text, another model or checkpoint. @typedef {{ by: "heads" | "texts" | "models", head: string, text: string, model: string }} Against */
/** The order of the heads: by what, of patterns by which; and from which value on they count. @typedef {{ by: "link" | "pattern" | "narrow" | "wide" | "needed", pattern: string, limit: number | null }} Ranked */
/** A possible word: its probability, and that after the cut, 0 where it was cut away. @typedef {{ id: number, label: string, p: number, cut: number }} Possible */
/** @typedef {{ place: number, words: Possible[], all: number, keptCount: number, keptMass: number, entropy: number, drawn: { id: number, label: string } | null, ends: number[] }} Words */
/** What a model says of a text: `of` is the spec's key, `gap` tells that the words fill a gap. @typedef {{ words: Words | null, loss: number | null, of: string, gap: boolean }} Outcome */
/** What can be opened: a model by its name, a run with its checkpoints and what it watched, a folder, a file, a kept trace. @typedef {{ name: string, kind: "named" | "run" | "folder" | "file" | "trace", checkpoints: number[], watched: number[] }} Here */
/** @typedef {{ name: string, size: number, licence: string, note: Sentence }} Offered */
/** A model that is open: what it is of its kind, and whether it says next words. @typedef {{ model: string, of: string, context: number | null, mask: string | null, words: boolean }} Opened */
/** @typedef {{ kind: "loading" | "fetching" | "computing" | "starting", name: string, share: number | null, size?: number }} Busy */

/**
 * @typedef {object} Fields
 * @property {"see" | "steps"} room
 * @property {"look" | "heads" | "generate" | "compare" | "cross"} mode
 * @property {string} model
 * @property {string} text
 * @property {string | null} target of a translator; null lets it say its own
 * @property {number[]} more ids of the tokens that were generated after the text
 * @property {Edit[]} edits
 * @property {string[]} pins heads by name
 * @property {Against} against
 * @property {Sampling} sampling
 * @property {Ranked} ranked
 * @property {"end" | "chosen"} after what next words are asked for: the text, or the chosen token
 * @property {"toy" | "head"} bench what the steps room works on
 * @property {{ of: string, changes: string }} worked what was changed there, and in what: "" is whatever comes first
 * @property {{ here: Here[], offered: Offered[] } | null} models
 * @property {Opened | null} opened
 * @property {Outcome} outcome of what is looked at
 * @property {Outcome | null} before … and without its edits
 * @property {Busy | null} busy
 * @property {Sentence | null} problem
 * @property {boolean} lost does the server not answer?
 * @property {boolean} locked does it answer, but with a new key?
 * @property {string} reload why the page must be reloaded, or ""
 * @property {boolean} textLost did a link name a text that this tab doesn't have?
 * @property {boolean} stale is the displayed view older than the requested one?
 */
/** @typedef {Chosen & Fields} Everything */

/** What a link needn't speak of. @satisfies {Partial<Fields>} */
export const UNTOUCHED = {
  room: /** @type {const} */ ("see"),
  mode: /** @type {const} */ ("look"),
  text: "",
  target: null,
  more: /** @type {number[]} */ ([]),
  edits: /** @type {Edit[]} */ ([]),
  pins: /** @type {string[]} */ ([]),
  against: /** @type {Against} */ ({ by: "heads", head: "", text: "", model: "" }),
  sampling: { temperature: 1, topK: 0, topP: 1 },
  ranked: /** @type {Ranked} */ ({ by: "link", pattern: "", limit: null }),
  after: /** @type {const} */ ("end"),
  bench: /** @type {const} */ ("toy"),
  worked: { of: "", changes: "" },
};

/** @type {Fields} */
const BEGIN = {
  ...UNTOUCHED,
  model: "",
  models: null,
  opened: null,
  outcome: { words: null, loss: null, of: "", gap: false },
  before: null,
  busy: null,
  problem: null,
  lost: false,
  locked: false,
  reload: "",
  textLost: false,
  stale: false,
};

/** The one state, with what the studio adds to it. */
export const studio = /** @type {{ now: Everything, set: (changes: Partial<Everything>) => void, listen: State["listen"] }} */ (
  /** @type {unknown} */ (state)
);
studio.now = { ...studio.now, ...BEGIN };

/** What is looked at now. @returns {Spec} */
export function specNow() {
  const { model, text, target, more, edits } = studio.now;
  return { model, text, target, more, edits };
}

/** What two specs of one view have in common. @param {Spec} spec */
export const keyOf = (spec) => JSON.stringify(spec);

/** The same words in the same model, whatever its heads are made to do. @param {Spec} spec */
export const wordsOf = ({ model, text, target, more }) => JSON.stringify([model, text, target, more]);

/** A head's name in the model: of the first part its layer and number alone. @param {string} part @param {number} layer a place among the part's layers @param {number} head */
export function headName(part, layer, head) {
  const { number } = partOf(part).layers[layer];
  return part === header.parts[0].name ? `${number}.${head}` : `${part}.${number}.${head}`;
}

/** Where a head of that name is; null where it isn't. @param {string} name @returns {{ part: string, layer: number, head: number } | null} */
export function headCalled(name) {
  const pieces = name.split(".");
  const part = pieces.length === 3 ? partOf(pieces[0]) : header.parts[0];
  const [number, head] = pieces.slice(-2).map(Number);
  const layer = part?.layers.findIndex((each) => each.number === number) ?? -1;
  return layer >= 0 && head < part.layers[layer].heads ? { part: part.name, layer, head } : null;
}

/** Is this a kept trace, which can't be run? @param {string} model */
export const isTrace = (model) => model.startsWith("trace:") || /~\d+$/.test(model) || model.endsWith(".safetensors");

/** What a model is called on screen. @param {string} model */
export function titleOf(model) {
  const bare = model.replace(/^trace:/, "").replace(/\.safetensors$/, "");
  return plainText(bare.split(/[\\/]/).filter(Boolean).pop() ?? bare);
}

/** Set the edit of a head, or remove it (null). @param {string} name @param {Edit[1] | null} to */
export function editHead(name, to) {
  const { edits } = studio.now;
  const at = edits.findIndex(([each]) => each === name);
  if (to === null) return studio.set({ edits: edits.filter(([each]) => each !== name) });
  const next = /** @type {Edit} */ ([name, to]);
  studio.set({ edits: at < 0 ? [...edits, next] : edits.map((each, i) => (i === at ? next : each)) });
}

/** @param {string} name */
export function togglePin(name) {
  const { pins } = studio.now;
  studio.set({ pins: pins.includes(name) ? pins.filter((each) => each !== name) : [...pins, name] });
}
