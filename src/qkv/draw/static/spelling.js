// How a number of the machine comes about, spelled out with the numbers it is made of. A "=" is exact; where a number is shown
// rounded it is a "≈". What stands between ^{ and } is raised.

import { factorOf } from "./arithmetic.js";
import { fixed } from "./dom.js";
import { say } from "./words.js";

/** @import { Given, Scale, Stages, Table } from "./arithmetic.js" */

const TERMS = 8; // terms of a sum that are written
const FAR = 12; // from a score of this size on, e^score can't be read

/**
 * @typedef {object} Spelled
 * @property {string} lang
 * @property {number} digits
 * @property {string[]} words
 * @property {string[]} keys
 * @property {Given} given
 * @property {Stages} stages
 * @property {boolean[][]} mask
 * @property {Scale} scale
 */
/** A number as it is shown, and whether that is all of it. @typedef {{ text: string, exact: boolean }} Shown */

/** A given number: as it is, up to four decimals or so. @param {number} x @param {number} digits */
export function givenText(x, digits) {
  const text = fixed(x, Math.max(digits, 4));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A computed one. @param {number} x @param {number} digits */
export const computedText = (x, digits) => (x === -Infinity ? "−∞" : fixed(x, digits));

/** @param {string} text @param {number} x @returns {Shown} */
const asShown = (text, x) => ({ text, exact: Math.abs(Number(text.replace("−", "-")) - x) <= 1e-12 * Math.max(1, Math.abs(x)) });

/** The number, in brackets where it follows a sign. @param {string} text */
const bracketed = (text) => (text.startsWith("−") ? `(${text})` : text);

/**
 * How a cell of a table comes about; "" for what is given.
 * @param {Spelled} machine
 * @param {string} table
 * @param {number} i
 * @param {number} j
 */
export function spelled(machine, table, i, j) {
  const { lang, digits, words, keys, given, stages, mask, scale } = machine;
  const read = (/** @type {string} */ name, /** @type {number} */ r, /** @type {number} */ c) => {
    const known = /** @type {Record<string, Table>} */ (given)[name];
    const x = (known ?? /** @type {Record<string, Table>} */ (stages)[name])[r][c];
    return asShown(known ? givenText(x, digits) : computedText(x, digits), x);
  };
  const names = { from: words[i], to: keys[j] };
  const sum = (/** @type {[Shown, Shown][]} */ pairs) => {
    const result = read(table, i, j);
    const exact = result.exact && pairs.every(([a, b]) => a.exact && b.exact);
    const terms = pairs.map(([a, b], at) => `${at ? bracketed(a.text) : a.text}·${bracketed(b.text)}`);
    const some = terms.length > TERMS ? [...terms.slice(0, TERMS - 2), "…", ...terms.slice(-1)] : terms;
    return `${some.join(" + ")} ${exact ? "=" : "≈"} ${result.text}`;
  };
  const along = (/** @type {Table} */ row) => row[0].map((_, c) => c);
  if (/** @type {Record<string, Table>} */ (given)[table]) return "";
  const from = table === "q" || !given.memory ? "x" : "memory";
  const w = `w_${table}`;
  if (table === "q" || table === "k" || table === "v") {
    if (!given[/** @type {"w_q"} */ (w)]) return `= ${from === "x" ? "X" : "Y"}`;
    return sum(along(/** @type {Table} */ (given[from])).map((c) => [read(from, i, c), read(w, c, j)]));
  }
  if (table === "scores") return sum(along(/** @type {Table} */ (stages.q)).map((c) => [read("q", i, c), read("k", j, c)]));
  if (table === "scaled") {
    const width = stages.q ? stages.q[0].length : null;
    const score = read("scores", i, j),
      result = read("scaled", i, j);
    const by = { sqrt: `√${width}`, none: "1", width: String(width) }[/** @type {"sqrt"} */ (scale)];
    const times = asShown(givenText(factorOf(scale, width), digits), factorOf(scale, width));
    const exact = score.exact && result.exact && (by !== undefined || times.exact);
    return `${score.text} ${by === undefined ? `× ${times.text}` : `÷ ${by}`} ${exact ? "=" : "≈"} ${result.text}`;
  }
  if (table === "mask" || table === "masked") {
    return mask[i][j]
      ? say(lang, "{from} may look at {to}: {number} stays", { ...names, number: read("scaled", i, j).text })
      : say(lang, "hidden: {from} may not look at {to}, so the score becomes −∞", names);
  }
  if (!mask[i].some(Boolean)) return say(lang, "{from} may look at nothing: its weights and its output are 0", names);
  if (table === "output") return sum(keys.map((_, c) => [read("weights", i, c), read("v", c, j)]));
  if (!mask[i][j]) return say(lang, "hidden by the mask: {power} is 0", { power: "e^{−∞}" });
  return share(machine, i, j);
}

/** A share of a softmax; what is hidden adds nothing. @param {Spelled} machine @param {number} i @param {number} j */
function share({ lang, digits, mask, stages }, i, j) {
  const row = stages.masked[i];
  const seen = row.map((_, c) => c).filter((c) => mask[i][c]);
  const top = Math.max(...row);
  const off = Math.abs(top) > FAR ? top : 0;
  const power = (/** @type {number} */ c) => `e^{${computedText(row[c] - off, digits)}}`;
  const raised = (/** @type {number} */ c) => computedText(Math.exp(row[c] - off), digits);
  const all = (/** @type {(c: number) => string} */ write) => {
    const terms = seen.map(write);
    return (terms.length > TERMS ? [...terms.slice(0, TERMS - 2), "…", ...terms.slice(-1)] : terms).join(" + ");
  };
  const alone = seen.length === 1;
  const over = (/** @type {string} */ text) => (alone ? text : `(${text})`);
  const result = stages.weights[i][j];
  const shown = asShown(computedText(result, digits), result);
  const spelledOut = `${power(j)} ÷ ${over(all(power))} ≈ ${raised(j)} ÷ ${over(all(raised))} ${alone && shown.exact ? "=" : "≈"} ${shown.text}`;
  return off ? `${spelledOut} ${say(lang, "(after {top}, the largest, is taken off everywhere: the shares stay)", { top: computedText(top, digits) })}` : spelledOut;
}
