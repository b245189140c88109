// A long map consists of tiles of 256 × 256 cells: a cell of level ℓ is 2^ℓ × 2^ℓ pooled tokens. Loaded tiles are drawn at once,
// coarse below sharp; missing ones are requested, the middle first, and cancelled when they leave the view. A tile is coloured
// once into its own canvas, which is copied when the frame moves.

import { level, palette } from "../core/colour.js";

/** @import { Palette } from "../core/colour.js" */
/** @import { Rectangle } from "../core/source.js" */
/** @import { View } from "../core/view.js" */

/** @typedef {{ level: number, row: number, col: number }} Place */
/** @typedef {{ numbers: Float32Array, rows: number, cols: number, wide: number, first: [number, number], step: number, canvas: HTMLCanvasElement | null, colours: string }} Tile */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */
/** Pixels per token, and the token at the top left. @typedef {{ size: number, x: number, y: number }} Frame */
/** @typedef {{ theme: "light" | "dark", scale: "root" | "linear", top: number }} Shades */

export const SIDE = 256; // cells of a tile
const AT_ONCE = 4; // requests under way: a browser opens six connections to a server, and others want some
const MOST_TILES = 192; // that are kept, of all maps; a quarter of a megabyte each, and as much for its canvas

/** Those used last are at the end. @type {Map<string, Tile>} */
const tiles = new Map();

export class Tiles {
  /** Tiles that are being computed. @type {Map<string, AbortController>} */
  asked = new Map();
  /** @type {{ name: string, place: Place }[]} */
  waiting = [];
  /** Failed tiles and their errors. @type {Map<string, unknown>} */
  failed = new Map();
  /** How many tiles were coloured: once each, however often they are drawn. */
  coloured = 0;
  /** The small picture. @type {Tile | null} */
  small = null;

  /**
   * @param {View} view one that has tiles
   * @param {"max" | "mean"} pool
   * @param {() => void} arrived is called when there is more to draw
   */
  constructor(view, pool, arrived) {
    this.view = view;
    this.pool = pool;
    this.arrived = arrived;
    this.rows = view.queries.length;
    this.cols = view.keys.length;
    /** The level at which one tile is all. */
    this.coarsest = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.cols) / SIDE)));
    if (pool === "max")
      view.picture?.then(
        ({ shares, rows, cols, tall, wide }) => {
          const numbers = shares.map((share) => share * view.top);
          this.small = { numbers, rows, cols, wide, first: [0, 0], step: tall, canvas: null, colours: "" };
          arrived();
        },
        () => {}, // tiles will come without it
      );
  }

  /** The level whose cells are at least a dot large, and less than two. @param {number} size dots per token */
  levelAt(size) {
    return Math.max(0, Math.min(this.coarsest, Math.ceil(-Math.log2(size) - 1e-6)));
  }

  /** @param {Place} place */
  name({ level, row, col }) {
    return [this.view.id, this.pool, level, row, col].join("/");
  }

  /** The tiles of a level that are in view, those in the middle first. @param {number} level @param {Box} box @param {Frame} frame @returns {Place[]} */
  inView(level, box, frame) {
    const side = SIDE * 2 ** level;
    const span = (/** @type {number} */ from, /** @type {number} */ dots, /** @type {number} */ all) => {
      const first = Math.max(0, Math.floor(from / side)),
        end = Math.min(Math.ceil(all / side), Math.ceil((from + dots / frame.size) / side));
      return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
    };
    const [y, x] = [frame.y + box.height / frame.size / 2, frame.x + box.width / frame.size / 2];
    const far = (/** @type {Place} */ { row, col }) => Math.hypot((row + 0.5) * side - y, (col + 0.5) * side - x);
    return span(frame.y, box.height, this.rows)
      .flatMap((row) => span(frame.x, box.width, this.cols).map((col) => ({ level, row, col })))
      .sort((a, b) => far(a) - far(b));
  }

  /**
   * Ask for what is missing: the whole at its coarsest first, and all that is in view.
   * @param {number} level @param {Box} box @param {Frame} frame
   * @returns {boolean} is anything missing?
   */
  want(level, box, frame) {
    const positions = [{ level: this.coarsest, row: 0, col: 0 }, ...this.inView(level, box, frame)];
    const byName = new Map(positions.map((position) => [this.name(position), position]));
    for (const [name, request] of this.asked) {
      if (byName.has(name)) continue;
      request.abort();
      this.asked.delete(name);
    }
    this.waiting = [...byName].filter(([name]) => !tiles.has(name) && !this.failed.has(name)).map(([name, position]) => ({ name, place: position }));
    this.next();
    return this.waiting.length + this.asked.size > 0;
  }

  next() {
    for (const { name, place } of this.waiting) {
      if (this.asked.size >= AT_ONCE) return;
      if (!this.asked.has(name)) void this.ask(name, place);
    }
  }

  /** The tokens of a tile. @param {Place} place @returns {Rectangle} */
  cells({ level, row, col }) {
    const step = 2 ** level,
      side = SIDE * step;
    const span = (/** @type {number} */ at, /** @type {number} */ all) => /** @type {[number, number]} */ ([at * side, Math.min((at + 1) * side, all)]);
    return { rows: span(row, this.rows), cols: span(col, this.cols), tall: step, wide: step };
  }

  /** @param {string} name @param {Place} place */
  async ask(name, place) {
    const request = new AbortController();
    this.asked.set(name, request);
    const cells = this.cells(place);
    const count = (/** @type {number[]} */ [from, end]) => Math.ceil((end - from) / cells.tall);
    try {
      const numbers = await /** @type {NonNullable<View["tile"]>} */ (this.view.tile)(cells, this.pool, request.signal);
      const first = /** @type {[number, number]} */ ([cells.rows[0], cells.cols[0]]);
      keep(name, { numbers, rows: count(cells.rows), cols: count(cells.cols), wide: cells.wide, first, step: cells.tall, canvas: null, colours: "" });
    } catch (error) {
      if (!request.signal.aborted) this.failed.set(name, error);
    }
    if (this.asked.get(name) === request) this.asked.delete(name);
    if (request.signal.aborted) return;
    this.waiting = this.waiting.filter((waiting) => waiting.name !== name);
    this.next();
    this.arrived();
  }

  /** Call off what is under way. */
  stop() {
    this.waiting = [];
    for (const request of this.asked.values()) request.abort();
    this.asked.clear();
  }

  /**
   * Draw what is there of a frame, sizes in the canvas's own dots.
   * @param {CanvasRenderingContext2D} context @param {number} finest the level that is wanted @param {Box} box @param {Frame} frame @param {number} dots per pixel of the page @param {Shades} shades
   */
  paint(context, finest, box, frame, dots, shades) {
    const [left, top] = [Math.round(box.left), Math.round(box.top)];
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.beginPath();
    context.rect(left, top, Math.round(box.width), Math.round(box.height));
    context.clip();
    context.imageSmoothingEnabled = false;
    context.fillStyle = hatching(context, palette(shades.theme, this.view.signed), shades.theme, dots);
    /** @type {(Tile | null)[]} */
    let covering = this.there(finest, box, frame);
    // Coarser ones under it, where not all of it is there.
    for (let level = finest + 1; covering.some((tile) => !tile) && level <= this.coarsest; level++) covering = [...this.there(level, box, frame), ...covering];
    if (covering.some((tile) => !tile)) covering.unshift(this.small);
    for (const tile of covering) {
      if (!tile) continue;
      const [row, col] = tile.first;
      const x = [0, tile.cols * tile.wide].map((at) => Math.round(left + (col + at - frame.x) * frame.size));
      const y = [0, tile.rows * tile.step].map((at) => Math.round(top + (row + at - frame.y) * frame.size));
      context.fillRect(x[0], y[0], x[1] - x[0], y[1] - y[0]); // what is hidden lets it through
      context.drawImage(this.canvas(tile, shades), x[0], y[0], x[1] - x[0], y[1] - y[0]);
    }
    if (frame.size >= 9 * dots) this.hairs(context, { left, top, width: box.width, height: box.height }, frame);
    context.restore();
  }

  /** A hair between large cells. @param {CanvasRenderingContext2D} context @param {Box} box @param {Frame} frame */
  hairs(context, box, frame) {
    for (let c = Math.floor(frame.x) + 1; (c - frame.x) * frame.size < box.width; c++)
      context.clearRect(Math.round(box.left + (c - frame.x) * frame.size) - 1, box.top, 1, box.height);
    for (let u = Math.floor(frame.y) + 1; (u - frame.y) * frame.size < box.height; u++)
      context.clearRect(box.left, Math.round(box.top + (u - frame.y) * frame.size) - 1, box.width, 1);
  }

  /** The tiles of a level in view, null for one that isn't here. @param {number} level @param {Box} box @param {Frame} frame */
  there(level, box, frame) {
    return this.inView(level, box, frame).map((position) => {
      const name = this.name(position),
        loaded = tiles.get(name);
      if (loaded) keep(name, loaded);
      return loaded ?? null;
    });
  }

  /**
   * The cells of a rectangle as they are in view: at a level that is there.
   * @param {[number, number]} rows @param {[number, number]} cols @param {number} size dots per token @param {Shades} shades
   */
  cellsIn(rows, cols, size, shades) {
    const finest = this.levelAt(size),
      step = 2 ** finest,
      side = SIDE * step;
    const whole = (/** @type {[number, number]} */ [from, end]) => /** @type {[number, number]} */ ([Math.floor(from / step) * step, end]);
    [rows, cols] = [whole(rows), whole(cols)];
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil((cols[1] - cols[0]) / step);
    canvas.height = Math.ceil((rows[1] - rows[0]) / step);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const tile = (/** @type {number} */ r, /** @type {number} */ c) => tiles.get(this.name({ level: finest, row: Math.floor(r / side), col: Math.floor(c / side) }));
    for (let r = Math.floor(rows[0] / side) * side; r < rows[1]; r += side)
      for (let c = Math.floor(cols[0] / side) * side; c < cols[1]; c += side) {
        const value = tile(r, c);
        if (value) context.drawImage(this.canvas(value, shades), (c - cols[0]) / step, (r - rows[0]) / step);
      }
    const weight = (/** @type {number} */ r, /** @type {number} */ c) => {
      const value = tile(r, c);
      if (!value) return null;
      const number = value.numbers[((r - value.first[0]) / step) * value.cols + (c - value.first[1]) / step];
      return (this.view.signed ? Number.isNaN(number) : number < 0) ? null : { weight: number, error: this.view.error };
    };
    return { rows, cols, step, weight, canvas };
  }

  /** The whole of it in one tile, or the small picture; null while there is neither. @param {Shades} shades */
  whole(shades) {
    const coarsest = tiles.get(this.name({ level: this.coarsest, row: 0, col: 0 })) ?? this.small;
    return coarsest && { canvas: this.canvas(coarsest, shades), rows: this.rows / coarsest.step, cols: this.cols / coarsest.wide };
  }

  /** A tile in colours. @param {Tile} tile @param {Shades} shades */
  canvas(tile, { theme, scale, top }) {
    const colours = [theme, scale, top].join();
    if (tile.canvas && tile.colours === colours) return tile.canvas;
    this.coloured++;
    const { numbers, rows, cols, wide } = tile;
    const canvas = (tile.canvas ??= document.createElement("canvas"));
    tile.colours = colours;
    canvas.width = cols;
    canvas.height = rows;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const { full, zero } = palette(theme, this.view.signed);
    const { keys } = this.view;
    for (let r = 0, at = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++, at++) {
        const number = numbers[at];
        if (this.view.signed ? Number.isNaN(number) : number < 0) continue; // hidden
        // A mean over a cell is a small share: as a colour it is what all its keys get together, as where tokens are joined to words.
        const scaled = this.pool === "mean" ? number * Math.min(wide, keys.length - tile.first[1] - c * wide) : number;
        pixels[at] = full[zero + level(Math.max(-1, Math.min(scaled / top, 1)), scale)];
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }
}

/** @param {string} name @param {Tile} tile */
function keep(name, tile) {
  tiles.delete(name);
  tiles.set(name, tile);
  for (const oldest of tiles.keys()) {
    if (tiles.size <= MOST_TILES) return;
    tiles.delete(oldest);
  }
}

/** How many tiles are kept, of all maps. */
export const tilesKept = () => tiles.size;

/** @type {Map<string, CanvasPattern>} */
const hatchings = new Map();

/** The hatching of what is hidden. @param {CanvasRenderingContext2D} context @param {Palette} colours @param {string} theme @param {number} dots */
function hatching(context, colours, theme, dots) {
  const name = [theme, dots].join();
  const cached = hatchings.get(name);
  if (cached) return cached;
  const period = Math.round(6 * dots),
    stroke = Math.max(1, Math.round(dots));
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = period;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = pen.createImageData(period, period);
  new Uint32Array(image.data.buffer).forEach((_, i, pixels) => {
    pixels[i] = ((i % period) + Math.floor(i / period)) % period < stroke ? colours.hatchLine : colours.hatchPaper;
  });
  pen.putImageData(image, 0, 0);
  const pattern = /** @type {CanvasPattern} */ (context.createPattern(canvas, "repeat"));
  hatchings.set(name, pattern);
  return pattern;
}
