// The pixels of a map: each is the largest weight (by absolute value) of the cells it covers; hidden cells are hatched.

import { level, palette } from "../core/colour.js";
import { breathe } from "../core/dom.js";

/** @import { View } from "../core/view.js" */

/**
 * Paint a view, a slice of time at a time; false when it was called off. All sizes are in the canvas's own pixels.
 * @param {CanvasRenderingContext2D} context
 * @param {View} seen
 * @param {{ left: number, top: number, width: number, height: number }} box where on the canvas
 * @param {{ size: number, x: number, y: number }} frame pixels per cell, and the cell at the top left
 * @param {number} dots per pixel of the page
 * @param {{ theme: "light" | "dark", scale: "root" | "linear", top: number }} shades `top` is the weight that has the deepest colour
 * @param {(share: number) => boolean} isWanted is it still, now that this share of it is there?
 */
export async function heat(context, seen, box, frame, dots, { theme, scale, top }, isWanted) {
  const colours = palette(theme, seen.signed);
  const wide = Math.round(box.width),
    tall = Math.round(box.height);
  const columns = spans(wide, frame.size, frame.x, seen.keys.length),
    bands = spans(tall, frame.size, frame.y, seen.queries.length);
  const shares = new Float32Array(wide),
    open = new Uint8Array(wide);
  const period = Math.round(6 * dots),
    stroke = Math.max(1, Math.round(dots));
  const gap = frame.size >= 9 * dots; // a hair between large cells
  let until = performance.now() + 14;
  for (let y = 0; y < tall;) {
    let next = y + 1;
    while (next < tall && bands.first[next] === bands.first[y] && bands.end[next] === bands.end[y]) next++;
    shares.fill(0);
    open.fill(0);
    for (let u = bands.first[y]; u < bands.end[y]; u++) {
      const row = seen.row(u);
      for (let x = 0; x < wide; x++) {
        for (let c = columns.first[x]; c < columns.end[x]; c++) {
          if (Math.abs(row.weights[c]) > Math.abs(shares[x])) shares[x] = row.weights[c];
          open[x] |= row.seen[c];
        }
      }
    }
    const image = context.createImageData(wide, next - y);
    const pixels = new Uint32Array(image.data.buffer);
    for (let x = 0; x < wide; x++) {
      const colour = colours.full[colours.zero + level(shares[x] / top, scale)];
      const edge = gap && x + 1 < wide && columns.first[x + 1] !== columns.first[x];
      for (let line = y, at = x; line < next; line++, at += wide) {
        if (!open[x]) pixels[at] = (x + line) % period < stroke ? colours.hatchLine : colours.hatchPaper;
        else if (!edge && !(gap && line === next - 1)) pixels[at] = colour;
      }
    }
    context.putImageData(image, Math.round(box.left), Math.round(box.top) + y);
    y = next;
    if (performance.now() > until) {
      if (!isWanted(y / tall)) return false;
      await breathe();
      if (!isWanted(y / tall)) return false;
      until = performance.now() + 14;
    }
  }
  return true;
}

/**
 * Which cells each pixel covers.
 * @param {number} count pixels
 * @param {number} size pixels per cell
 * @param {number} from the cell at the first pixel
 * @param {number} cells
 */
function spans(count, size, from, cells) {
  const first = new Int32Array(count),
    end = new Int32Array(count);
  for (let x = 0; x < count; x++) {
    first[x] = Math.min(cells - 1, Math.floor(from + (x + 1e-6) / size));
    end[x] = Math.max(first[x] + 1, Math.min(cells, Math.floor(from + (x + 1) / size)));
  }
  return { first, end };
}
