// How a row of weights is computed, as text and columns of numbers: by softmax, or for a mixer by decays and writes.

import { exactly, factor, filled, h, hole, knownText, number, productText, token } from "../core/dom.js";
import { Mixer } from "../core/mixer.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";
import { label } from "../core/view.js";

/** @import { Head } from "../core/attention.js" */

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {ArrayLike<number>} numbers one for every key
 * @property {number} error how far off they may be
 * @property {string} [hides] what is written for a hidden key
 * @property {(x: number, error: number) => string} [write] how, where not as any number is
 */
/**
 * @typedef {object} Derivation
 * @property {string} formula
 * @property {Node[]} pair of the chosen pair alone
 * @property {Column[]} columns
 * @property {Float32Array} weights
 * @property {Uint8Array} seen
 * @property {number | null} sink
 * @property {boolean} signed
 * @property {Float64Array | null} output
 * @property {number} error how far off the sum of the weights may be
 */

/** @param {Head} instance @param {number} query @returns {Derivation} */
export const derivation = (instance, query) => (instance instanceof Mixer ? mixed(instance, query) : attended(instance, query));

/** @param {Head} attentionHead @param {number} query @returns {Derivation} */
function attended(attentionHead, query) {
  const { lang } = state.now;
  const { layer, sink, width } = attentionHead;
  const steps = attentionHead.steps(query);
  const seen = Uint8Array.from(steps.masked, (score) => Number(score > -Infinity));
  /** @type {Column[]} */
  const columns = [];
  const rest = { pair: [], columns, weights: steps.weights, seen, sink: steps.sink, signed: false, output: steps.output, error: attentionHead.error };
  if (width === 0)
    return { ...rest, formula: say(lang, "Only the weights were kept (--eager), as the model gave them: without q, k and v there are no steps to show.") };
  const dot = layer.errors?.dot ?? 0,
    error = dot * layer.scale;
  columns.push({ name: say(lang, "q·k"), numbers: steps.dots, error: dot });
  columns.push({ name: say(lang, "× {scale}", { scale: short(layer.scale) }), numbers: steps.scaled, error });
  if (steps.capped) columns.push({ name: say(lang, "capped"), numbers: steps.capped, error });
  if (steps.biased) columns.push({ name: say(lang, "+ bias"), numbers: steps.biased, error });
  columns.push({ name: say(lang, "masked"), numbers: steps.masked, error, hides: "−∞" });
  const capped = layer.softcap === null ? "" : say(lang, ", bent to ±{cap}", { cap: layer.softcap });
  const more = capped + (layer.bias ? say(lang, ", plus a bias") : "");
  const formula =
    say(lang, "For every key: multiply q by k and add up (q·k), times {scale}{more}; hide what the mask hides; softmax makes shares that sum to 1; the output is every v times its share, added up.", { scale: short(layer.scale), more }) + (sink === null ? "" : say(lang, " A sink takes a share of its own and gives nothing."));
  return { ...rest, formula };
}

/** @param {Mixer} mixer @param {number} query @returns {Derivation} */
function mixed(mixer, query) {
  const { lang } = state.now;
  const { layer, error } = mixer;
  const steps = mixer.steps(query);
  const dot = layer.errors?.dot ?? 0,
    scored = Math.abs(dot * layer.scale),
    rough = Math.max(error, scored); // a product may be larger than any weight
  const scale = short(layer.scale);
  const score = layer.scale === 1 ? "q·k" : `q·k × ${scale}`;
  const hides = "–";
  /** @type {Column[]} */
  const columns = [{ name: say(lang, "q·k"), numbers: steps.dots, error: dot }];
  if (layer.scale !== 1) columns.push({ name: say(lang, "× {scale}", { scale }), numbers: steps.scaled, error: scored });
  columns.push({ name: say(lang, "L (what is left)"), numbers: steps.left, error: 0, hides, write: factor });
  if (steps.removed) {
    columns.push({ name: say(lang, "β (written)"), numbers: steps.write, error: 0, hides, write: factor });
    columns.push({ name: say(lang, "product"), numbers: steps.before, error: rough, hides, write: exactly });
    columns.push({ name: say(lang, "by later writes"), numbers: steps.removed, error: rough, hides, write: exactly });
  }
  const formula = steps.removed
    ? say(lang, "No softmax. For every token up to this one: {score}; times L, what the decays γ between the two leave of it; times β, the share that was written; less what later writes at keys like its own took out. Weights below 0 are taken away. The output is every v times its weight, added up.", { score })
    : say(lang, "No softmax. For every token up to this one: {score}; times L, the product of the decays γ between the two: what is left of what it wrote. Weights below 0 are taken away. The output is every v times its weight, added up.", { score });
  const { weights, seen, output } = steps;
  // What is off in q·k decays with it, and under the delta rule as much may be off in what was taken out.
  const each = (/** @type {number} */ w, /** @type {number} */ j) => Math.min(error, scored * steps.left[j] * (steps.write ? 2 : 1)) + 1e-7 * Math.abs(w);
  const all = weights.reduce((/** @type {number} */ sum, /** @type {number} */ w, /** @type {number} */ j) => sum + (seen[j] ? each(w, j) : 0), 0);
  return { formula, pair: pair(mixer, query, steps, rough), columns, weights, seen, sink: null, signed: true, output, error: all };
}

/** The chosen pair: its factors, and what became of it. @param {Mixer} mixer @param {number} i @param {import("../core/mixer.js").MixerSteps} steps @param {number} rough how far off products may be @returns {Node[]} */
function pair(mixer, i, { scaled, left, write, before, removed, weights, seen }, rough) {
  const { lang, key: j } = state.now;
  if (!seen[j]) return [];
  const { error } = mixer;
  /** @type {Record<string, import("../core/dom.js").Child>} */
  const names = { from: token(label("query", i)), to: token(label("key", j)), writer: "" };
  const factors = [knownText(scaled[j], (mixer.layer.errors?.dot ?? 0) * mixer.layer.scale), factor(left[j]), ...(write ? [factor(write[j])] : [])];
  const [score, decay, beta] = factors;
  const values = { from: hole("from"), to: hole("to"), score, left: decay, beta };

  const paragraph = (/** @type {string} */ sentence) => [h("p", { class: "pair" }, ...filled(sentence, names))];
  const weight = productText(weights[j], error, factors);
  if (!write || !removed) return paragraph(say(lang, "{from} takes {to}: {score} × {left} ≈ {weight}", { ...values, weight }));
  if (Math.abs(removed[j]) <= 2 * rough) return paragraph(say(lang, "{from} takes {to}: {score} × {left} × {beta} ≈ {weight}", { ...values, weight }));
  const removedBy = mixer.taken(i, j, weights);
  const most = removedBy.reduce((best, x, t) => (Math.abs(x) > Math.abs(removedBy[best]) ? t : best), i);
  names.writer = token(label("key", most));
  return paragraph(
    say(lang, "{from} takes {to}: {score} × {left} × {beta} ≈ {product}; later writes make it {weight}, most of all that of {writer} ({change}).", {
      ...values,
      product: productText(before[j], rough, factors),
      weight: exactly(weights[j], error),
      writer: hole("writer"),
      change: exactly(-removedBy[most], rough),
    }),
  );
}

/** @param {number} scale */
const short = (scale) => String(Number(scale.toPrecision(4)));
