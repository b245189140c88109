// <qkv-takeaway>: exports what is in view of its map: the picture as PNG or SVG, the numbers as CSV, a link. Maps have it if this
// module is loaded; figures don't load it.

import { level, palette } from "../core/colour.js";
import { drawCrosshair } from "./crosshair.js";
import { announce, closing, decimals, h, plainText, svg } from "../core/dom.js";
import { framed } from "../core/setting.js";
import { SvgPen } from "./svg_pen.js";
import { MapElement } from "./map.js";
import { header } from "../core/view.js";
import { say } from "../core/words.js";
/** @import { Chosen } from "../core/state.js" */
/** @import { Unit } from "../core/view.js" */

/**
 * The cells in view: from, up to, in steps of so many tokens or words; their numbers and colours, null or transparent where hidden.
 * @typedef {{ rows: [number, number], cols: [number, number], step: number, weight: (r: number, c: number) => { weight: number, error: number } | null, canvas: HTMLCanvasElement }} Cells
 */

const MOST_CELLS = 1 << 20; // that are written out one by one

/** Where a frame may neither save a file nor has an address, there is nothing to offer. */
const shut = framed && window.origin === "null";

export class MapExport extends HTMLElement {
  connectedCallback() {
    const map = this.closest("qkv-map");
    if (map instanceof MapElement && !shut) this.replaceChildren(...menuOf(map));
  }
}
customElements.define("qkv-takeaway", MapExport);

/** @param {MapElement} map */
function menuOf(map) {
  const { lang } = map.state.now;
  const status = h("p", { class: "help", role: "status" });
  const item = (/** @type {string} */ name, /** @type {string} */ text, /** @type {() => Promise<string>} */ act) =>
    h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          "data-take": name,
          onclick: async (/** @type {Event} */ event) => {
            const button = /** @type {HTMLElement} */ (event.currentTarget);
            status.textContent = await act();
            announce(status.textContent);
            button.dispatchEvent(new CustomEvent("taken", { detail: status.textContent }));
            if (!menu.hasAttribute("open")) return;
            menu.removeAttribute("open");
            menu.querySelector("summary")?.focus();
          },
        },
        text,
      ),
    );
  const saved = say(lang, "Saved with your downloads.");
  const file = (/** @type {string} */ kind, /** @type {() => Promise<Blob | null>} */ make) => async () => {
    const blob = await make();
    if (blob) download(`${nameOf(map)}.${kind}`, blob);
    return blob ? saved : say(lang, "Too many cells are in view to write each one out: zoom in first.");
  };
  const menu = h(
    "details",
    {
      class: "takeaway",
      onfocusout: (/** @type {FocusEvent} */ event) => {
        if (event.relatedTarget instanceof Node && !menu.contains(event.relatedTarget)) menu.removeAttribute("open");
      },
    },
    h("summary", {}, say(lang, "Save")),
    h(
      "div",
      {},
      h(
        "ul",
        {},
        item("png", say(lang, "Picture (PNG)"), file("png", () => pngOf(map))),
        item("svg", say(lang, "Drawing (SVG)"), file("svg", async () => new Blob([await svgOf(map)], { type: "image/svg+xml" }))),
        item("csv", say(lang, "Numbers (CSV)"), file("csv", async () => csvBlob(await csvOf(map)))),
        item("link", say(lang, "Copy the link to this view"), async () => ((await copy(map.link())) ? say(lang, "Copied.") : map.link())),
      ),
    ),
  );
  closing(menu, () => menu.hasAttribute("open"), () => menu.removeAttribute("open"), menu.querySelector("summary"));
  menu.addEventListener("toggle", () => menu.hasAttribute("open") && (status.textContent = ""));
  return [menu, status];
}

/** @param {string | null} text */
const csvBlob = (text) => (text === null ? null : new Blob(["\ufeff", text], { type: "text/csv" })); // Excel knows UTF-8 by this mark

/** The number that a layer has in its model. @param {Chosen} now */
const numberOf = ({ part, layer }) => header.parts.find(({ name }) => name === part)?.layers[layer]?.number ?? layer;

/** A name for files: the model and the head. @param {MapElement} map */
function nameOf({ state: { now } }) {
  const name = [header.model || "attention", now.part, numberOf(now), now.head].join("-");
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80);
}

/** @param {string} name @param {Blob} blob */
function download(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // without leave to copy it is shown, to be copied by hand
  }
}

/** The colour behind a map. @param {MapElement} map */
const ground = (map) => getComputedStyle(map).getPropertyValue("--card").trim();

/** Both canvases on one. @param {MapElement} map */
export function joinedCanvas(map) {
  const { base, cross } = map;
  const canvas = document.createElement("canvas");
  if (!base || !cross) return canvas;
  canvas.width = base.width;
  canvas.height = base.height;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = ground(map);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(base, 0, 0);
  context.drawImage(cross, 0, 0);
  return canvas;
}

/** @param {MapElement} map @returns {Promise<Blob | null>} */
const pngOf = (map) => new Promise((resolve) => joinedCanvas(map).toBlob(resolve));

/** What is in view, cell by cell; null where those are too many. @param {MapElement} map @returns {Promise<Cells | null>} */
async function cellsOf(map) {
  const { seen, plot, frame, tiles } = map;
  const { theme, scale } = map.state.now;
  if (!seen) return null;
  const span = (/** @type {number} */ from, /** @type {number} */ room, /** @type {number} */ all) =>
    /** @type {[number, number]} */ ([Math.floor(from + 1e-6), Math.min(all, Math.ceil(from + room / frame.size - 1e-6))]);
  const rows = span(frame.y, plot.height, seen.queries.length),
    cols = span(frame.x, plot.width, seen.keys.length);
  if (map.tiled && tiles) return tiles.cellsIn(rows, cols, frame.size * (window.devicePixelRatio || 1), { theme, scale, top: seen.top });
  if ((rows[1] - rows[0]) * (cols[1] - cols[0]) > MOST_CELLS) return null;
  const top = (await seen.deepest(() => true)) ?? seen.top;
  const { full, zero } = palette(theme, seen.signed);
  const canvas = document.createElement("canvas");
  canvas.width = cols[1] - cols[0];
  canvas.height = rows[1] - rows[0];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let u = rows[0], at = 0; u < rows[1]; u++) {
    const row = seen.row(u);
    for (let c = cols[0]; c < cols[1]; c++, at++) {
      if (row.seen[c]) pixels[at] = full[zero + level(row.weights[c] / top, scale)];
    }
  }
  context.putImageData(image, 0, 0);
  const weight = (/** @type {number} */ u, /** @type {number} */ c) => {
    const row = seen.row(u);
    return row.seen[c] ? { weight: row.weights[c], error: row.error } : null;
  };
  return { rows, cols, step: 1, weight, canvas };
}

/** Cells as an image of one pixel each, labels and outlines as what they are. @param {MapElement} map */
export async function svgOf(map) {
  const { seen, plot, frame, stage, base } = map;
  if (!seen || !stage || !base) return "";
  const { lang, theme, head } = map.state.now;
  const layer = numberOf(map.state.now);
  const [width, height] = [stage.clientWidth, plot.top + plot.height + 2];
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
  const title = svg("title");
  title.textContent = [plainText(header.model), say(lang, "layer {layer}, head {head}", { layer, head })].filter(Boolean).join(", ");
  const { hatchPaper, hatchLine } = palette(theme, seen.signed);
  const colour = (/** @type {number} */ word) => `rgb(${word & 255} ${(word >> 8) & 255} ${(word >> 16) & 255})`;
  const defs = svg("defs"),
    hatch = svg("pattern", { id: "hidden", width: 6, height: 6, patternUnits: "userSpaceOnUse" }),
    clip = svg("clipPath", { id: "plot" });
  hatch.append(svg("rect", { width: 6, height: 6, fill: colour(hatchPaper) }), svg("path", { d: "M-1 2L2 -1M0 7L7 0", stroke: colour(hatchLine) }));
  clip.append(svg("rect", { x: plot.left, y: plot.top, width: plot.width, height: plot.height }));
  defs.append(hatch, clip);
  const inside = svg("g", { "clip-path": "url(#plot)" });
  const embed = (/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ wide, /** @type {number} */ tall) =>
    svg("image", { href: canvas.toDataURL(), x, y, width: wide, height: tall, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
  const cells = await cellsOf(map);
  if (cells) {
    const { rows, cols, canvas, step } = cells;
    const [x, y] = [plot.left + (cols[0] - frame.x) * frame.size, plot.top + (rows[0] - frame.y) * frame.size];
    const size = step * frame.size;
    inside.append(svg("rect", { x: plot.left, y: plot.top, width: plot.width, height: plot.height, fill: "url(#hidden)" }));
    inside.append(embed(canvas, x, y, canvas.width * size, canvas.height * size));
    if (frame.size >= 9) {
      const lines = [
        ...Array.from({ length: canvas.width }, (_, c) => `M${x + (c + 1) * size - 0.5} ${y}v${canvas.height * size}`),
        ...Array.from({ length: canvas.height }, (_, r) => `M${x} ${y + (r + 1) * size - 0.5}h${canvas.width * size}`),
      ];
      inside.append(svg("path", { d: lines.join(""), stroke: ground(map), fill: "none" }));
    }
  } else {
    // More cells than dots: the picture is what can be seen of them.
    const dots = window.devicePixelRatio || 1;
    const crop = document.createElement("canvas");
    crop.width = Math.round(plot.width * dots);
    crop.height = Math.round(plot.height * dots);
    crop.getContext("2d")?.drawImage(base, -Math.round(plot.left * dots), -Math.round(plot.top * dots));
    inside.append(embed(crop, plot.left, plot.top, plot.width, plot.height));
  }
  root.append(title, defs, svg("rect", { width, height, fill: ground(map) }), inside);
  drawCrosshair(new SvgPen(/** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d")), root, "plot"), map);
  return new XMLSerializer().serializeToString(root);
}

/** A line for every cell in view that isn't hidden: who looks, at what, and how much; null where there are too many. @param {MapElement} map */
export async function csvOf(map) {
  const { seen } = map;
  const cells = await cellsOf(map);
  if (!seen || !cells) return null;
  const { rows, cols, step } = cells;
  const named = (/** @type {Unit[]} */ units, /** @type {number} */ at) => {
    const group = units.slice(at, at + step);
    const [first, last] = [group[0], group[group.length - 1]];
    const range = last.end - first.first > 1 ? `${first.first}–${last.end - 1}` : `${first.first}`;
    return `${range},${quoted(group.length > 1 ? `${first.label} … ${last.label}` : first.label)}`;
  };
  const lines = ["query,query token,key,key token,weight"];
  for (let u = rows[0]; u < rows[1]; u += step) {
    const query = named(seen.queries, u);
    for (let c = cols[0]; c < cols[1]; c += step) {
      const weight = cells.weight(u, c);
      if (weight) lines.push(`${query},${named(seen.keys, c)},${csvNumber(weight.weight, weight.error)}`);
    }
  }
  return lines.join("\r\n") + "\r\n";
}

/** @param {string} text */
const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

/** All digits that are known; of a float32 that is exact, as many as tell it from its neighbours. @param {number} weight @param {number} error */
const csvNumber = (weight, error) => (error > 0 ? weight.toFixed(decimals(error, 12)) : String(Number(weight.toPrecision(9))));
