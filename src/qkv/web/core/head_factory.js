// Creates the head of attention or of a mixer from a source's tensors of its layer.

import { Head } from "./attention.js";
import { Mixer } from "./mixer.js";

/** @import { Given } from "./attention.js" */
/** @import { Layer, Part } from "./source.js" */

/**
 * @param {Pick<Part, "n" | "m" | "signed">} part
 * @param {Layer} layer its shapes are those of the tensors given
 * @param {number} item
 * @param {number} head
 * @param {Given} tensors
 * @param {number} [top] of a mixer's head: its largest weight by size
 */
export function headOf(part, layer, item, head, tensors, top) {
  const instance = new (part.signed ? Mixer : Head)(part, layer, item, head, tensors);
  instance.top = top || 1;
  return instance;
}
