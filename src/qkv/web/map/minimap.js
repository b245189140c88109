// A small picture of a long map in a corner, with a draggable frame around the visible part.

import { h } from "../core/dom.js";

/** @import { Frame, Shades, Tiles } from "./tiles.js" */

const LONGEST = 112; // pixels of its longer side
const INSET = 6; // pixels from the corner

export class Minimap {
  /** Cells per pixel. */
  scale = 1;

  /** @param {(x: number, y: number) => void} move puts these cells into the middle */
  constructor(move) {
    const go = (/** @type {PointerEvent} */ event) => {
      event.stopPropagation();
      if (event.type === "pointerdown") this.canvas.setPointerCapture(event.pointerId);
      if (event.buttons) move(event.offsetX * this.scale, event.offsetY * this.scale);
    };
    // The keys that move the crosshair bring it into view: nobody needs this one who doesn't point.
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", { class: "minimap", "aria-hidden": true, hidden: true, onpointerdown: go, onpointermove: go, onpointerup: (/** @type {Event} */ event) => event.stopPropagation() })
    );
  }

  hide() {
    this.canvas.hidden = true;
  }

  /**
   * @param {Tiles} tiles
   * @param {{ left: number, top: number, width: number, height: number }} plot in pixels
   * @param {Frame} frame
   * @param {Shades} shades
   * @param {string} accent
   */
  draw(tiles, plot, frame, shades, accent) {
    const { canvas } = this;
    this.scale = Math.max(tiles.rows, tiles.cols) / Math.min(LONGEST, plot.width / 3, plot.height / 3);
    const [width, height] = [tiles.cols, tiles.rows].map((cells) => Math.max(12, Math.round(cells / this.scale)));
    const dots = window.devicePixelRatio || 1;
    canvas.hidden = false;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.style.left = `${plot.left + plot.width - width - INSET}px`;
    canvas.style.top = `${plot.top + INSET}px`;
    const [wide, tall] = [width, height].map((side) => Math.round(side * dots));
    if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.clearRect(0, 0, wide, tall);
    const whole = tiles.whole(shades);
    if (whole) context.drawImage(whole.canvas, 0, 0, whole.cols, whole.rows, 0, 0, wide, tall);
    const scale = dots / this.scale;
    context.strokeStyle = accent;
    context.lineWidth = 1.5 * dots;
    const [w, t] = [plot.width, plot.height].map((side) => Math.max((side / frame.size) * scale, 5 * dots));
    context.strokeRect(frame.x * scale, frame.y * scale, w, t);
  }
}
