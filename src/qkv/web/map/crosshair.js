// The layer above the picture of a map: outlines of the selected and the hovered cell, and the labels of both axes. The pen is a
// canvas context or writes an SVG.

import { cut, FONT, legible, reach, upright } from "./labels.js";

/** @import { MapElement } from "./map.js" */
/** @import { Pen, Way } from "./labels.js" */
/** @import { Unit } from "../core/view.js" */

/** @typedef {Pen & Pick<CanvasRenderingContext2D, "strokeStyle" | "globalAlpha" | "lineWidth" | "strokeRect" | "beginPath" | "rect" | "clip">} Outliner */
/** @typedef {{ u: number, c: number }} Cell */

/** @param {Outliner} pen @param {MapElement} map */
export function drawCrosshair(pen, map) {
  const selection = map.chosen();
  outline(pen, map, selection, true);
  if (map.hover) outline(pen, map, map.hover, false);
  writeLabels(pen, map, map.hover ?? selection);
}

/** @param {Outliner} pen @param {MapElement} map @param {Cell} cell @param {boolean} strong */
function outline(pen, map, { u, c }, strong) {
  const { plot, frame } = map;
  const size = Math.max(frame.size, 4);
  const x = plot.left + (c + 0.5 - frame.x) * frame.size,
    y = plot.top + (u + 0.5 - frame.y) * frame.size;
  pen.save();
  pen.beginPath();
  pen.rect(plot.left - 1, plot.top - 1, plot.width + 2, plot.height + 2);
  pen.clip();
  pen.strokeStyle = getComputedStyle(map).getPropertyValue("--accent");
  pen.globalAlpha = strong ? 0.35 : 0.25;
  pen.lineWidth = 1;
  pen.strokeRect(plot.left - 2, Math.round(y - size / 2) + 0.5, plot.width + 4, Math.round(size) - 1);
  pen.strokeRect(Math.round(x - size / 2) + 0.5, plot.top - 2, Math.round(size) - 1, plot.height + 4);
  pen.globalAlpha = 1;
  pen.lineWidth = strong ? 2 : 1.5;
  pen.strokeRect(x - size / 2, y - size / 2, size - 1, size - 1);
  pen.restore();
}

/** Draw the labels of both axes; those of a cell are highlighted, and no other label touches them. @param {Pen} pen @param {MapElement} map @param {Cell} named */
function writeLabels(pen, map, named) {
  const { seen, plot, frame } = map;
  if (!seen) return;
  const style = getComputedStyle(map);
  const [ink, faint, accent] = ["--ink", "--faint", "--accent"].map((name) => style.getPropertyValue(name));
  const axis = (
    /** @type {Way} */ way,
    /** @type {Unit[]} */ units,
    /** @type {Unit[]} */ characters,
    /** @type {number} */ from,
    /** @type {number} */ room,
    /** @type {number} */ selected,
    /** @type {(text: string, at: number) => void} */ put,
  ) => {
    const { label } = units[selected];
    const at = (selected + 0.5 - from) * frame.size;
    /** @type {[number, number] | null} */
    let occupied = null;
    pen.font = "600 " + FONT;
    if (at >= 0 && at <= room) {
      const [before, after] = reach(pen, label, way);
      occupied = [at - before, at + after];
      pen.fillStyle = accent;
      put(label, at);
    }
    pen.font = FONT;
    const { put: placed, all } = legible(pen, way, units, characters, { size: frame.size, from, room }, occupied);
    for (const label of placed) {
      pen.fillStyle = label.unit.special || !all ? faint : ink;
      put(label.unit.label, label.at);
    }
  };
  pen.textBaseline = "middle";
  axis("row", seen.queries, seen.characters[0], frame.y, plot.height, named.u, (text, at) => {
    pen.textAlign = "right";
    pen.fillText(cut(pen, text, plot.left - 10), plot.left - 7, plot.top + at);
  });
  axis(plot.flat ? "flat" : "up", seen.keys, seen.characters[1], frame.x, plot.width, named.c, (text, at) => {
    if (!plot.flat) return upright(pen, text, plot.left + at, plot.top);
    pen.textAlign = "center";
    pen.fillText(text, plot.left + at, plot.top - 10);
  });
}
