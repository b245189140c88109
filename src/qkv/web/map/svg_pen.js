// A pen with the canvas methods that labels and outlines need, which writes an SVG. Texts remain texts.

import { svg } from "../core/dom.js";

/** @typedef {{ x: number, y: number, width: number, height: number }} Rect */

export class SvgPen {
  font = "";
  /** @type {string | CanvasGradient | CanvasPattern} */
  fillStyle = "";
  /** @type {string | CanvasGradient | CanvasPattern} */
  strokeStyle = "";
  lineWidth = 1;
  globalAlpha = 1;
  /** @type {CanvasTextAlign} */
  textAlign = "left";
  /** @type {CanvasTextBaseline} */
  textBaseline = "middle";
  /** How what is written next is moved and turned. */
  transform = "";
  /** Is it cut at the one rectangle that is ever clipped to? */
  clipped = false;
  /** @type {Rect | null} */
  cutting = null;
  /** @type {{ transform: string, clipped: boolean }[]} */
  kept = [];

  /** @param {CanvasRenderingContext2D} ruler measures texts @param {Element} place takes what is drawn @param {string} clip the id of a clip path */
  constructor(ruler, place, clip) {
    this.ruler = ruler;
    this.place = place;
    this.clipId = clip;
  }

  /** @param {string} text */
  measureText(text) {
    this.ruler.font = this.font;
    this.ruler.textAlign = this.textAlign;
    this.ruler.textBaseline = this.textBaseline;
    return this.ruler.measureText(text);
  }

  save() {
    this.kept.push({ transform: this.transform, clipped: this.clipped });
  }

  restore() {
    Object.assign(this, this.kept.pop());
  }

  /** @param {number} x @param {number} y */
  translate(x, y) {
    this.transform += `translate(${x} ${y}) `;
  }

  /** @param {number} angle */
  rotate(angle) {
    this.transform += `rotate(${(angle * 180) / Math.PI}) `;
  }

  beginPath() {}

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.cutting = { x, y, width, height };
  }

  clip() {
    this.clipped = true;
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const [, weight, size, family] = /** @type {string[]} */ (/^(?:(\d+) )?(\d+)px (.*)$/.exec(this.font));
    const element = svg("text", {
      x,
      y,
      fill: this.fillStyle,
      "font-family": family,
      "font-size": size,
      "font-weight": weight ?? null,
      "text-anchor": { left: "start", center: "middle", right: "end", start: "start", end: "end" }[this.textAlign],
      "dominant-baseline": "central",
      transform: this.transform.trim() || null,
    });
    element.textContent = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Cs}]/gu, "�"); // what XML can't hold
    this.place.append(element);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.place.append(
      svg("rect", {
        x,
        y,
        width: Math.max(width, 0),
        height: Math.max(height, 0),
        fill: "none",
        stroke: this.strokeStyle,
        "stroke-width": this.lineWidth,
        "stroke-opacity": this.globalAlpha,
        "clip-path": this.clipped ? `url(#${this.clipId})` : null,
      }),
    );
  }
}
