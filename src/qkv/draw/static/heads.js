// A head of attention or of a mixer, ready to compute.

import { Head } from "./attention.js";
import { tensor } from "./data.js";
import { Mixer } from "./mixing.js";

/** @import { Part } from "./data.js" */

/**
 * One head; null where its layer is here as an overview only.
 * @param {Part} part
 * @param {number} layer
 * @param {number} item
 * @param {number} head
 */
export async function openHead(part, layer, item, head) {
  const told = part.layers[layer];
  if (!told.q || !told.k) return null;
  const [q, k, v, bias, decay, write, ...dense] = await Promise.all([
    tensor(told.q),
    tensor(told.k),
    told.v && tensor(told.v),
    told.bias && tensor(told.bias.table),
    told.decay ? tensor(told.decay) : null,
    told.write ? tensor(told.write) : null,
    ...told.mask.map((rule) => (rule[0] === "dense" ? tensor(rule[1]) : null)),
  ]);
  return new (part.signed ? Mixer : Head)(part, told, item, head, { q, k, v, bias, decay, write, dense });
}
