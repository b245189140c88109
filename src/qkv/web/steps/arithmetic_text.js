// How a number of the machine is computed, written out with its inputs: "=" if exact, "≈" if a number is shown rounded. The
// numbers have enough decimals for the written terms to give the written result. Text between ^{ and } is superscript.

import { factorOf } from "../core/arithmetic.js";
import { fixed } from "../core/dom.js";
import { say } from "../core/words.js";

/** @import { Given, Scale, Stages, Table } from "../core/arithmetic.js" */

const TERMS = 8; // terms of a sum that are written
const FAR = 12; // from a score of this size on, e^score can't be read
const MOST_DECIMALS = 12; // of a number in a sum

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
export function inputText(x, digits) {
  const text = fixed(x, Math.max(digits, 4));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A computed one. @param {number} x @param {number} digits */
export const computedText = (x, digits) => (x === -Infinity ? "−∞" : fixed(x, digits));

/** @param {string} text @param {number} x @returns {Shown} */
const displayedText = (text, x) => ({ text, exact: Math.abs(valueOf(text) - x) <= 1e-12 * Math.max(1, Math.abs(x)) });

/** The number that a text shows. @param {string} text */
const valueOf = (text) => Number(text.replace("−", "-"));

/**
 * The fewest decimals, from `digits` on, with which the written numbers come to the written result.
 * @param {number} digits of the result
 * @param {string} result
 * @param {(decimals: number) => number} evaluate what the numbers come to when they are written with so many decimals
 */
function enoughDecimals(digits, result, evaluate) {
  let decimals = digits;
  while (decimals < MOST_DECIMALS && computedText(evaluate(decimals), digits) !== result) decimals++;
  return decimals;
}

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
  const { lang, digits, words, keys, given: inputs, stages, mask, scale } = machine;
  const read = (/** @type {string} */ name, /** @type {number} */ r, /** @type {number} */ c, decimals = digits) => {
    const inputTable = /** @type {Record<string, Table>} */ (inputs)[name];
    const x = (inputTable ?? /** @type {Record<string, Table>} */ (stages)[name])[r][c];
    return displayedText(inputTable ? inputText(x, decimals) : computedText(x, decimals), x);
  };
  const names = { from: words[i], to: keys[j] };
  const sum = (/** @type {(decimals: number) => [Shown, Shown][]} */ write) => {
    const result = read(table, i, j);
    const evaluate = (/** @type {number} */ decimals) => write(decimals).reduce((total, [a, b]) => total + valueOf(a.text) * valueOf(b.text), 0);
    const whole = write(digits).length <= TERMS; // nobody can work out a sum of which terms are left out
    const pairs = write(whole ? enoughDecimals(digits, result.text, evaluate) : digits);
    const exact = result.exact && pairs.every(([a, b]) => a.exact && b.exact);
    const terms = pairs.map(([a, b], at) => `${at ? bracketed(a.text) : a.text}·${bracketed(b.text)}`);
    const some = terms.length > TERMS ? [...terms.slice(0, TERMS - 2), "…", ...terms.slice(-1)] : terms;
    return `${some.join(" + ")} ${exact ? "=" : "≈"} ${result.text}`;
  };
  const along = (/** @type {Table} */ row) => row[0].map((_, c) => c);
  if (/** @type {Record<string, Table>} */ (inputs)[table]) return "";
  const from = table === "q" || !inputs.memory ? "x" : "memory";
  const w = `w_${table}`;
  if (table === "q" || table === "k" || table === "v") {
    if (!inputs[/** @type {"w_q"} */ (w)]) return `= ${from === "x" ? "X" : "Y"}`;
    return sum((decimals) => along(/** @type {Table} */ (inputs[from])).map((c) => [read(from, i, c, decimals), read(w, c, j, decimals)]));
  }
  if (table === "scores") return sum((decimals) => along(/** @type {Table} */ (stages.q)).map((c) => [read("q", i, c, decimals), read("k", j, c, decimals)]));
  if (table === "scaled") {
    const width = stages.q ? stages.q[0].length : null;
    const result = read("scaled", i, j),
      factor = factorOf(scale, width);
    const by = { sqrt: `√${width}`, none: "1", width: String(width) }[/** @type {"sqrt"} */ (scale)];
    const timesIn = (/** @type {number} */ decimals) => displayedText(inputText(factor, decimals), factor);
    const decimals = enoughDecimals(digits, result.text, (some) => valueOf(read("scores", i, j, some).text) * (by === undefined ? valueOf(timesIn(some).text) : factor));
    const score = read("scores", i, j, decimals),
      times = timesIn(decimals);
    const exact = score.exact && result.exact && (by !== undefined || times.exact);
    return `${score.text} ${by === undefined ? `× ${times.text}` : `÷ ${by}`} ${exact ? "=" : "≈"} ${result.text}`;
  }
  if (table === "mask" || table === "masked") {
    return mask[i][j]
      ? say(lang, "{from} may look at {to}: {number} stays", { ...names, number: read("scaled", i, j).text })
      : say(lang, "hidden: {from} may not look at {to}, so the score becomes −∞", names);
  }
  if (!mask[i].some(Boolean)) return say(lang, "{from} may look at nothing: its weights and its output are 0", names);
  if (table === "output") return sum((decimals) => keys.map((_, c) => [read("weights", i, c, decimals), read("v", c, j, decimals)]));
  if (!mask[i][j]) return say(lang, "hidden by the mask: {power} is 0", { power: "e^{−∞}" });
  return share(machine, i, j);
}

/** A share of a softmax; what is hidden adds nothing. @param {Spelled} machine @param {number} i @param {number} j */
function share({ lang, digits, mask, stages }, i, j) {
  const row = stages.masked[i];
  const visible = row.map((_, c) => c).filter((c) => mask[i][c]);
  const top = Math.max(...row);
  const off = Math.abs(top) > FAR ? top : 0;
  const result = stages.weights[i][j];
  const displayed = displayedText(computedText(result, digits), result);
  const decimalsFor = (/** @type {(c: number, decimals: number) => number} */ part) => {
    const evaluate = (/** @type {number} */ decimals) => part(j, decimals) / visible.reduce((total, c) => total + part(c, decimals), 0);
    return visible.length > TERMS ? digits : enoughDecimals(digits, displayed.text, evaluate);
  };
  const exponent = (/** @type {number} */ c, /** @type {number} */ decimals) => computedText(row[c] - off, decimals);
  const raisedText = (/** @type {number} */ c, /** @type {number} */ decimals) => computedText(Math.exp(row[c] - off), decimals);
  const fine = [decimalsFor((c, decimals) => Math.exp(valueOf(exponent(c, decimals)))), decimalsFor((c, decimals) => valueOf(raisedText(c, decimals)))];
  const power = (/** @type {number} */ c) => `e^{${exponent(c, fine[0])}}`;
  const raised = (/** @type {number} */ c) => raisedText(c, fine[1]);
  const all = (/** @type {(c: number) => string} */ write) => {
    const terms = visible.map(write);
    return (terms.length > TERMS ? [...terms.slice(0, TERMS - 2), "…", ...terms.slice(-1)] : terms).join(" + ");
  };
  const alone = visible.length === 1;
  const over = (/** @type {string} */ text) => (alone ? text : `(${text})`);
  const spelledOut = `${power(j)} ÷ ${over(all(power))} ≈ ${raised(j)} ÷ ${over(all(raised))} ${alone && displayed.exact ? "=" : "≈"} ${displayed.text}`;
  return off ? `${spelledOut} ${say(lang, "(after {top}, the largest, is taken off everywhere: the shares stay)", { top: computedText(top, fine[0]) })}` : spelledOut;
}
