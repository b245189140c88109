// Attention on small tables in float64. Tests compare it with qkv's oracle (attention/oracle.py).

/** Rows of numbers. @typedef {number[][]} Table */
/** Scores are divided by √d, by nothing, by d, or multiplied by a number. @typedef {"sqrt" | "none" | "width" | number} Scale */
/**
 * What is given: x with its W (one left out is the identity) and, for keys and values from another text, memory; or q and k
 * and perhaps v; or scores and perhaps v.
 * @typedef {Partial<Record<"x" | "memory" | "w_q" | "w_k" | "w_v" | "q" | "k" | "v" | "scores", Table>>} Given
 */
/** @typedef {{ q?: Table, k?: Table, v?: Table, scores: Table, scaled: Table, masked: Table, weights: Table, output?: Table }} Stages */

/** @param {Table} a @param {Table} b @returns {Table} */
export const multiplied = (a, b) => a.map((row) => b[0].map((_, c) => row.reduce((sum, x, i) => sum + x * b[i][c], 0)));

/** Rows as columns. @param {Table} a @returns {Table} */
export const transposed = (a) => a[0].map((_, c) => a.map((row) => row[c]));

/** Shares of a row, which sum to 1; where everything is hidden, 0. @param {number[]} row */
export function softmax(row) {
  const top = Math.max(...row);
  if (top === -Infinity) return row.map(() => 0);
  const raised = row.map((x) => Math.exp(x - top));
  const total = raised.reduce((sum, x) => sum + x, 0);
  return raised.map((x) => x / total);
}

/** What a score is multiplied by. @param {Scale} scale @param {number | null} width of a query; null where only scores are given */
export function factorOf(scale, width) {
  if (typeof scale === "number") return scale;
  if (scale === "none" || width === null) return 1;
  return scale === "width" ? 1 / width : 1 / Math.sqrt(width);
}

/** @param {Given} inputs @param {boolean[][]} mask true = may attend @param {Scale} scale @returns {Stages} */
export function stagesOf(inputs, mask, scale) {
  const { x, scores: scoreTable } = inputs;
  const source = inputs.memory ?? x;
  const project = (/** @type {Table | undefined} */ from, /** @type {Table | undefined} */ w) => from && (w ? multiplied(from, w) : from);
  const q = inputs.q ?? project(x, inputs.w_q),
    k = inputs.k ?? project(source, inputs.w_k),
    v = inputs.v ?? project(source, inputs.w_v);
  const scores = scoreTable ?? multiplied(/** @type {Table} */ (q), transposed(/** @type {Table} */ (k)));
  const factor = factorOf(scale, q ? q[0].length : null);
  const scaled = scores.map((row) => row.map((score) => score * factor));
  const masked = scaled.map((row, i) => row.map((score, j) => (mask[i][j] ? score : -Infinity)));
  const weights = masked.map(softmax);
  return { q, k, v, scores, scaled, masked, weights, output: v && multiplied(weights, v) };
}
