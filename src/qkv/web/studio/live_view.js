// Keeps the view up to date with the requested state without blocking typing: there is one request at a time; when it has finished
// or takes too long, the newest state is requested and those in between are skipped.

import { ServedSource, viewed } from "./served_source.js";
import { isTrace, keyOf, specNow, studio, titleOf, wordsOf } from "./studio_state.js";
import { header, partOf, show } from "../core/view.js";
import { requestOne, calledOff, Locked, Refused, TAB, Unreachable } from "./server_client.js";

/** @import { Everything, Outcome, Spec } from "./studio_state.js" */

const PATIENCE = 250; // milliseconds that an older view may still take
const GRACE = 120; // … for the layers to come before a new text is shown with empty pictures
const SLOW = 1000; // … after which it is said that something is being computed
const MAX_OUTCOMES = 50; // outcomes that are remembered
const LENGTHY = 5000; // characters of a text whose view the worker holds alone: beside it no other is asked for
const LIST = 60; // words that are asked for to lay two outcomes side by side

/** The view on its way. @type {{ spec: Spec, key: string, abort: AbortController, since: number } | null} */
let flight = null;
/** What is shown, by its spec. */
let servedKey = "";
/** The last failed view, which isn't retried automatically. */
let failedKey = "";
/** Selects the position in the next source. @type {((source: ServedSource) => Partial<Everything>) | null} */
let choosing = null;
let waiting = 0;
/** Outcomes without edits, by the words they are of. @type {Map<string, Outcome>} */
const baselines = new Map();
/** What is being asked for beside the view: the loss, words without edits. @type {AbortController | null} */
let extra = null;
/** Who waits for the newest view. @type {(() => void)[]} */
let waiters = [];

/** The trace that comes with qkv, shown as an example where nothing else can be; `used` while it is. @type {{ model: string, used: boolean }} */
export const lastResort = { model: "", used: false };

/** True while the address names a place (layer, head, …) that isn't on screen yet. */
export const positionIsPending = () => choosing !== null;

/** The source that is shown. @type {ServedSource | null} */
export let served = null;

/** What is on screen, which may be older than what is typed. @returns {Spec} */
export const servedSpec = () => served?.spec ?? specNow();

/** What should be shown: what is asked for, and without a text the last one, in the model and with the edits of now. @returns {Spec} */
export function requestedSpec() {
  const spec = specNow();
  const last = flight?.spec ?? served?.spec;
  if (spec.text || isTrace(spec.model) || !last) return spec;
  if (last.model === spec.model) return { ...spec, text: last.text, more: last.more, target: last.target };
  // Generated tokens are ids of one model's vocabulary: another model reads them as text.
  return { ...spec, text: (last === served?.spec && served.header.text) || last.text };
}

/** The key of what should be shown; where a trace already shows the same, that of the trace. */
export function requestedKey() {
  const spec = requestedSpec();
  if (!served || isTrace(spec.model)) return keyOf(spec);
  const { model } = served.spec;
  const traced = isTrace(model) && titleOf(model).endsWith(spec.model) && served.header.text === spec.text;
  return keyOf(traced && !spec.edits.length && !spec.more.length && spec.target === null ? served.spec : spec);
}

/** Is the displayed view older than the requested one? */
const markStale = () => studio.set({ stale: served !== null && servedKey !== requestedKey() });

/** Resolves with the view when every request has finished. */
export function settled() {
  if (!flight && [servedKey, failedKey].includes(keyOf(requestedSpec()))) return Promise.resolve();
  return new Promise((/** @type {(value: void) => void} */ resolve) => waiters.push(resolve));
}

/** Request the current state. @param {((source: ServedSource) => Partial<Everything>) | null} [choose] where to look in it */
export function look(choose) {
  choosing = choose ?? choosing;
  const spec = requestedSpec();
  const key = keyOf(spec);
  clearTimeout(waiting);
  markStale();
  if (!spec.model || (!isTrace(spec.model) && !spec.text)) return release();
  if (flight) {
    if (flight.key === key) return;
  } else if (servedKey === key || failedKey === key) {
    if (choosing && served && servedKey === key) studio.set(choosing(served)); // a link to another place of what is shown
    choosing = null;
    return release();
  }
  if (flight) {
    const remaining = PATIENCE - (performance.now() - flight.since);
    if (remaining > 0) {
      waiting = setTimeout(look, remaining);
      return;
    }
    flight.abort.abort();
  }
  void fly(spec, key);
}

/** Repeat the request after the worker or the server has restarted. */
export function lookAgain() {
  failedKey = "";
  flight?.abort.abort();
  flight = null;
  const spec = requestedSpec();
  if (servedKey === keyOf(spec)) void fly(spec, servedKey); // what is on screen stays: it is only made sure of
  else look();
}

function release() {
  for (const resolve of waiters.splice(0)) resolve();
}

/** @param {Spec} spec @param {string} key @param {boolean} [example] is it shown because what was asked for was refused? */
async function fly(spec, key, example = false) {
  const mine = (flight = { spec, key, abort: new AbortController(), since: performance.now() });
  const newest = () => flight === mine;
  extra?.abort();
  const slow = setTimeout(() => newest() && !studio.now.busy && studio.set({ busy: { kind: "computing", name: "", share: null } }), SLOW);
  let landing = 0;
  /** @type {ServedSource | null} */
  let arriving = null;
  /** Where it was opened, if nobody said where. @type {Partial<Everything> | null} */
  let opening = null;
  let refused = false;
  const land = () => {
    clearTimeout(landing);
    if (!newest() || !arriving || served === arriving) return;
    const before = served;
    served = arriving;
    servedKey = key;
    lastResort.used = example;
    const changes = choosing?.(arriving) ?? {};
    opening = choosing === firstOf ? changes : null;
    choosing = null;
    show(arriving, { ...changes, .../** @type {Partial<Everything>} */ ({ stale: key !== requestedKey() }) });
    before?.ended.abort();
  };
  try {
    await viewed(
      spec,
      TAB,
      mine.abort.signal,
      (source) => {
        arriving = source;
        landing = setTimeout(land, GRACE);
      },
      (source, frame) => {
        if (!newest()) return;
        if (frame.kind === "layer") {
          const share = (frame.at + 1) / (source.header.parts.find(({ name }) => name === frame.part)?.layers.length ?? 1);
          if (studio.now.busy?.kind === "computing") studio.set({ busy: { kind: "computing", name: "", share } });
          if (share === 1 && frame.part === (studio.now.part || frame.part)) land(); // nothing is left to wait for
        }
        if (frame.kind === "words" || frame.kind === "loss") showOutcome(spec, source);
        // Which head is worth opening is known at the end; who has moved meanwhile stays where they are.
        if (frame.kind === "first") {
          source.header.first = { ...source.header.first, ...frame.first }; // it names no unit
          if (served !== source) land();
          else if (opening && ["part", "layer", "head"].every((name) => /** @type {any} */ (studio.now)[name] === /** @type {any} */ (opening)[name])) studio.set(frame.first);
        }
      },
    );
    land();
    if (newest() && arriving) {
      if (!example) failedKey = "";
      showOutcome(spec, arriving);
      studio.set({ lost: false, locked: false, ...(example ? {} : { problem: null }) });
      void showDetails(spec, arriving);
    }
  } catch (error) {
    if (newest()) failed(error, key);
    refused = error instanceof Refused;
  } finally {
    clearTimeout(slow);
    clearTimeout(landing);
    if (newest()) {
      flight = null;
      if (studio.now.busy?.kind === "computing") studio.set({ busy: null });
      if (refused && !served && spec.model !== lastResort.model) void showExample();
      else if (keyOf(requestedSpec()) === key) release();
      else look();
    }
  }
}

/** Show the trace that comes with qkv below a refusal, where nothing else is on screen. What was asked for stays: model, text and address. */
async function showExample() {
  const wished = choosing;
  choosing = firstOf;
  const spec = { model: lastResort.model, text: "", target: null, more: [], edits: [] };
  await fly(spec, keyOf(spec), true);
  choosing ??= wished;
}

/** @param {Spec} spec @param {ServedSource} source */
function showOutcome(spec, source) {
  const cached = baselines.get(wordsOf(spec)) ?? null;
  if (!spec.edits.length) source.loss ??= cached?.loss ?? null;
  const outcome = { words: source.words, loss: source.loss, of: keyOf(spec), gap: source.kindOf === "encoder" };
  if (!spec.edits.length) remember(spec, outcome);
  studio.set({ outcome, before: spec.edits.length ? cached : null });
}

/** @param {Spec} spec @param {Outcome} outcome */
function remember(spec, outcome) {
  baselines.set(wordsOf(spec), outcome);
  for (const oldest of baselines.keys()) if (baselines.size > MAX_OUTCOMES) baselines.delete(oldest);
}

/** What takes longer than the view itself, once it is here. @param {Spec} spec @param {ServedSource} source */
async function showDetails(spec, source) {
  const { signal } = (extra = new AbortController());
  await compareBefore(spec, signal);
  if (newestIs(spec)) await showLoss(spec, source, signal);
}

/** What the model says when its heads are let be, beside what it says now: enough words of both to find each in the other. @param {Spec} spec @param {AbortSignal} signal */
async function compareBefore(spec, signal) {
  const alone = spec.text.length > LENGTHY;
  if ((!spec.edits.length && !alone) || !studio.now.outcome.words) return;
  const plain = { ...spec, edits: [] };
  try {
    if (alone) {
      const words = /** @type {any} */ (await requestOne("words", { do: "words", spec, most: LIST }, signal));
      if (!spec.edits.length) remember(spec, { ...studio.now.outcome, ...baselines.get(wordsOf(spec)), words });
      else if (newestIs(spec)) studio.set({ outcome: { ...studio.now.outcome, words } });
      return;
    }
    if (!baselines.has(wordsOf(spec))) {
      const source = await viewed(plain, `${TAB}-before`, signal, () => {});
      if (source) remember(plain, { words: source.words, loss: source.loss, of: keyOf(plain), gap: source.kindOf === "encoder" });
    }
    const [now, before] = await Promise.all([spec, plain].map((of) => requestOne("words", { do: "words", spec: of, most: LIST }, signal)));
    if (!newestIs(spec)) return;
    const cached = baselines.get(wordsOf(spec));
    studio.set({
      outcome: { ...studio.now.outcome, words: /** @type {any} */ (now) },
      before: { ...studio.now.outcome, words: /** @type {any} */ (before), loss: cached?.loss ?? null },
    });
  } catch (error) {
    failed(error); // the bars then stand alone
  }
}

/** @param {Spec} spec */
const newestIs = (spec) => keyOf(requestedSpec()) === keyOf(spec);

/** The loss of a text so long that its view didn't wait for it; with edited heads, also what it is without. @param {Spec} spec @param {ServedSource} source @param {AbortSignal} signal */
async function showLoss(spec, source, signal) {
  if (!source.words || source.kindOf !== "decoder") return;
  const lossOf = async (/** @type {Spec} */ of) => (await requestOne("loss", { do: "loss", spec: of }, signal)).loss;
  try {
    source.loss ??= await lossOf(spec);
    if (!spec.edits.length) remember(spec, { ...studio.now.outcome, words: source.words, ...baselines.get(wordsOf(spec)), loss: source.loss });
    if (newestIs(spec)) studio.set({ outcome: { ...studio.now.outcome, loss: source.loss } });
    const cached = baselines.get(wordsOf(spec));
    if (!spec.edits.length || !cached || spec.text.length > LENGTHY) return;
    cached.loss ??= await lossOf({ ...spec, edits: [] });
    if (newestIs(spec) && studio.now.before) studio.set({ before: { ...studio.now.before, loss: cached.loss } });
  } catch (error) {
    failed(error);
  }
}

/** @param {unknown} error @param {string} [key] of the view that failed: it isn't asked for again by itself */
export function failed(error, key) {
  if (calledOff(error)) return;
  if (key) failedKey = key;
  if (error instanceof Refused) studio.set({ problem: error.said });
  else if (error instanceof Unreachable) studio.set({ lost: true, locked: error instanceof Locked });
  else throw error;
}

/** Open a model and go on with the text in it. @param {string} model @param {Partial<Everything>} [changes] */
export async function openModel(model, changes = {}) {
  const same = served && header && header.model === model;
  const text = studio.now.text || (isTrace(studio.now.model) && header?.text) || "";
  studio.set({ model, text: isTrace(model) ? "" : text, edits: [], more: [], target: null, problem: null, ...changes });
  look(same ? null : firstOf);
  if (isTrace(model)) return studio.set({ opened: null });
  try {
    const response = await requestOne("opened", { do: "open", spec: { model } });
    if (studio.now.model === model) studio.set({ opened: /** @type {any} */ (response) });
  } catch (error) {
    failed(error);
  }
}

/** Where a model that is new here is opened: where its source says, or at the same place. @param {ServedSource} source @returns {Partial<Everything>} */
export function firstOf({ header: next }) {
  const { now } = studio;
  const before = header && partOf(now.part);
  const alike = next.parts.some((part) => before && part.name === before.name && part.n === before.n && part.layers.length === before.layers.length);
  // A translator is opened where it translates, and nothing else is.
  const translates = next.parts.some(({ name }) => name === "cross");
  const mode = translates && now.mode === "look" ? "cross" : !translates && now.mode === "cross" ? "look" : now.mode;
  if (alike) return {};
  const first = mode === "cross" && next.first.part !== "cross" ? { part: "cross", item: 0, layer: 0, head: 0, query: 0, key: 0 } : next.first;
  return { ...first, mode };
}

/** Which models there are. */
export async function listModels() {
  try {
    const { here, offered } = await requestOne("models", { do: "models" });
    studio.set({ models: { here, offered } });
  } catch (error) {
    failed(error);
  }
}
