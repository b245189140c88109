// <qkv-map>: one head as a heat map with labels, zoom, pan and a crosshair with the exact weight.
// Rows are computed in time slices when they come into view; nothing larger than the picture is stored.

import { addressNow } from "../core/address.js";
import { picks, ramp, reading } from "./controls.js";
import { drawCrosshair } from "./crosshair.js";
import { announce, exactly, excuse, filled, h, hole, markOld, refill, token, unique } from "../core/dom.js";
import { heat } from "./heat.js";
import { FONT, STACK, stack } from "./labels.js";
import { framed } from "../core/setting.js";
import { state } from "../core/state.js";
import { mark, say } from "../core/words.js";
import { partOf, unitAt, view } from "../core/view.js";

/** @import { Minimap } from "./minimap.js" */
/** @import { Frame, Tiles } from "./tiles.js" */
/** @import { Kind, Unit, View } from "../core/view.js" */

const LARGEST = 42; // pixels of a cell when all is shown
const DEEPEST = 64; // … and when zoomed in
const NEARER = 1.001; // times the size at which all of it fits, from which on only a part is in view

/** What a map is called, and what its rows and columns are. @type {Record<Kind, [string, string]>} */
const TOLD = {
  shares: [mark("Attention map"), mark("Rows: who looks (queries). Columns: what is looked at (keys).")],
  mixer: [
    mark("Map of a mixer, signed"),
    mark("Rows: a token's output. Columns: the tokens whose values it takes; below 0 it takes them away. A mixer's map is signed, and its rows don't sum to 1."),
  ],
  difference: [mark("Difference of two maps, signed"), mark("Blue: more in the second than in the first. Red: less.")],
};

export class MapElement extends HTMLElement {
  /**
   * How long maps are drawn, where that is known (tiled_map.js).
   * @type {{ tiles: (view: View, pool: "max" | "mean", arrived: () => void) => Tiles, minimap: (move: (x: number, y: number) => void) => Minimap } | null}
   */
  static long = null;
  /** What is chosen here; a map beside others may have its own. */
  state = state;
  /** Gives what is looked at, where that isn't what is chosen. @type {(() => Promise<View>) | null} */
  look = null;
  /** The address of what is seen. */
  link = addressNow;
  /** Notes on the head. */
  remark = () => "";
  ends = new AbortController();
  /** @type {View | null} */
  seen = null;
  /** Pixels per cell, and the cell at the top left: what is in view. */
  frame = { size: 1, x: 0, y: 0 };
  /** Where the picture is inside the canvas, in pixels. */
  plot = { left: 0, top: 0, width: 0, height: 0, fit: 1, flat: false };
  drawing = 0;
  loading = 0;
  /** @type {{ u: number, c: number } | null} */
  hover = null;
  /** @type {Map<number, { x: number, y: number }>} */
  pointers = new Map();
  dragged = false;
  told = "";
  wide = 0;
  /** Of a long map. @type {Tiles | null} */
  tiles = null;
  minimap = MapElement.long?.minimap((x, y) => this.centre(x, y)) ?? null;
  /** What the next frame of the screen has to do. */
  due = { frame: 0, base: false };

  connectedCallback() {
    this.ends = new AbortController();
    this.build();
    this.state.listen((changed) => {
      if (changed.has("lang")) this.build();
      if (changed.has("shown") && this.seen) this.old(true);
      if (["lang", "unit", "scale", "pool", "sink"].some((name) => changed.has(name))) this.controls();
      if (["shown", "part", "item", "layer", "head", "unit", "sink", "lang"].some((name) => changed.has(name))) void this.load();
      else if (["theme", "scale", "pool"].some((name) => changed.has(name))) void this.draw();
      if (changed.has("zoom")) this.place();
      else if (changed.has("query") || changed.has("key")) this.follow();
    }, this.ends.signal);
    const sized = new ResizeObserver(() => {
      if (this.clientWidth === this.wide) return;
      this.layout();
      void this.draw();
    });
    sized.observe(this);
    this.ends.signal.addEventListener("abort", () => sized.disconnect());
    void this.load();
  }

  disconnectedCallback() {
    this.ends.abort();
    this.tiles?.stop();
    cancelAnimationFrame(this.due.frame);
    this.due.frame = 0;
    this.loading++;
    this.drawing++;
  }

  build() {
    const { lang } = this.state.now;
    const help = unique("map-help");
    this.base = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": true }));
    this.cross = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": true, class: "cross" }));
    this.stage = h(
      "div",
      {
        class: "stage",
        tabindex: 0,
        role: "application",
        "aria-roledescription": say(lang, "attention map"),
        "aria-describedby": help,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
        onpointerdown: (/** @type {PointerEvent} */ event) => this.press(event),
        onpointermove: (/** @type {PointerEvent} */ event) => this.drag(event),
        onpointerup: (/** @type {PointerEvent} */ event) => this.release(event),
        onpointercancel: (/** @type {PointerEvent} */ event) => this.pointers.delete(event.pointerId),
        onpointerleave: () => this.leave(),
      },
      this.base,
      this.cross,
      this.minimap?.canvas,
      h("p", { class: "computing", role: "status", hidden: true }),
    );
    this.stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.replaceChildren(
      h("div", { class: "bar title" }),
      h("p", { class: "note", role: "status" }),
      h("p", { class: "help axes" }),
      this.stage,
      h("output", { class: "cell" }),
      h("div", { class: "bar legend" }),
      h("p", { class: "help keys", id: help }, say(lang, "Arrow keys move the crosshair, + and − zoom, 0 shows all. Drag to pan; pinch or Ctrl + wheel to zoom.")),
    );
    this.controls();
  }

  controls() {
    const { lang, part } = this.state.now;
    const [title, legend] = [this.querySelector(".title"), this.querySelector(".legend")];
    const kind = this.look ? this.seen?.kind ?? "shares" : partOf(part).signed ? "mixer" : "shares";
    const [name, axes] = TOLD[kind];
    this.stage?.setAttribute("aria-label", say(lang, name));
    this.querySelector(".axes")?.replaceChildren(say(lang, axes));
    if (title) refill(title, ...(this.look ? [] : picks(this.state)), customElements.get("qkv-takeaway") ? h("qkv-takeaway") : null);
    const { n, m } = this.look ? { n: this.seen?.queries.length ?? 0, m: this.seen?.keys.length ?? 0 } : partOf(part);
    const lone = [...(this.seen?.queries ?? []), ...(this.seen?.keys ?? [])].some((unit) => unit.lone);
    const has = { signed: kind !== "shares", tiled: this.tiled, shares: this.look ? this.seen?.shares ?? true : kind === "shares", lone };
    if (legend) refill(legend, ...reading(this.state, has, Math.max(n, m), (by) => (by ? this.zoom(by) : this.whole())));
  }

  async load() {
    const request = ++this.loading;
    this.drawing++; // what is being drawn is of the head before
    this.tiles?.stop();
    const { lang } = this.state.now;
    this.computing(say(lang, "computing…"));
    /** @type {View} */
    let loaded;
    try {
      loaded = await (this.look ? this.look() : view(this.state.now));
      if (!MapElement.long) await loaded.ready;
    } catch (error) {
      if (request === this.loading) this.computing(excuse(lang, error));
      return;
    }
    if (request !== this.loading) return;
    this.old(false);
    this.seen = loaded;
    this.hover = null;
    this.controls();
    const pooled = loaded.signed
      ? mark("This layer is here as an overview only: each cell is the weight of {tall} × {wide} tokens that is largest by size, with its sign. To have it whole, make the page with layers=[{layer}].")
      : mark("This layer is here as an overview only: each cell is the largest weight of {tall} × {wide} tokens. To have it whole, make the page with layers=[{layer}].");
    const notes = [this.remark(), loaded.pooled ? say(lang, pooled, loaded.pooled) : ""];
    if (loaded.without) notes.push(say(lang, "The sink is hidden: the first token and special ones are taken out, and every row is shared out anew among the rest."));
    else if (loaded.pooled && !loaded.signed && this.state.now.sink === "hidden") notes.push(say(lang, "From an overview the sink can't be taken out."));
    this.querySelector(".note")?.replaceChildren(notes.filter(Boolean).join(" "));
    this.layout();
    void this.draw();
    this.tell();
    if (!loaded.compute)
      loaded.ready.then(
        () => request === this.loading && this.tell(),
        (error) => request === this.loading && this.computing(excuse(lang, error)),
      );
  }

  /** How large the picture is and where its labels go. */
  layout() {
    const { seen, stage } = this;
    if (!seen || !stage) return;
    this.wide = this.clientWidth;
    const width = stage.clientWidth;
    const context = this.pen(/** @type {HTMLCanvasElement} */ (this.base));
    context.font = FONT;
    const longest = (/** @type {Unit[]} */ units) => {
      const sample = units.length > 3000 ? units.filter((_, i) => i % 17 === 0) : units;
      return Math.min(Math.max(...sample.map((unit) => context.measureText(unit.label).width)), width < 500 ? 68 : 104);
    };
    const left = Math.ceil(longest(seen.queries)) + 12;
    // A frame is as tall as what it shows, which therefore can't go by it.
    const room = framed ? screen.availHeight : window.innerHeight;
    const most = Math.max(240, Math.min(room * 0.66, 640));
    const fit = Math.min(Math.max(width - left - 2, 40) / seen.keys.length, most / seen.queries.length, LARGEST);
    const flat = Math.max(...seen.keys.slice(0, 400).map((unit) => context.measureText(unit.label).width)) <= fit - 4;
    const sample = seen.keys.length > 3000 ? seen.keys.filter((_, i) => i % 17 === 0) : seen.keys;
    const tallest =
      Math.max(...sample.map(({ label }) => stack(label)?.length ?? context.measureText(label).width / STACK)) * STACK;
    const top = flat ? 22 : Math.ceil(Math.min(tallest, width < 500 ? 68 : 104)) + 12;
    this.plot = {
      left,
      top,
      width: Math.floor(fit * seen.keys.length),
      height: Math.floor(fit * seen.queries.length),
      fit,
      flat,
    };
    const tall = top + this.plot.height + 2;
    const dots = window.devicePixelRatio || 1;
    stage.style.height = `${tall}px`;
    for (const canvas of [this.base, this.cross]) {
      if (!canvas) continue;
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(tall * dots);
    }
    this.frame = this.inView();
  }

  /** Say that the picture is being computed, or no more. @param {string} message */
  computing(message) {
    const output = /** @type {HTMLElement | null} */ (this.querySelector(".computing"));
    if (!output) return;
    output.textContent = message;
    output.hidden = !message;
    if (message) this.setAttribute("aria-busy", "true");
    else this.removeAttribute("aria-busy");
  }

  /** Does it still show an earlier source's map? @param {boolean} old */
  old(old) {
    if (!this.look) markOld(this, old); // of maps beside each other, whoever gives them says so
  }

  /** @param {HTMLCanvasElement} canvas */
  pen(canvas) {
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    return context;
  }

  /** What is chosen to be in view. */
  inView() {
    const { seen, plot } = this;
    const { zoom } = this.state.now;
    if (!seen || zoom?.[3] !== seen.keys.length || zoom[4] !== seen.queries.length) return { size: plot.fit, x: 0, y: 0 };
    return this.clamp({ size: plot.width / zoom[2], x: zoom[0], y: zoom[1] });
  }

  /** The nearest that there is. @param {Frame} frame */
  clamp(frame) {
    const { plot } = this;
    const [columns, rows] = [this.seen?.keys.length ?? 0, this.seen?.queries.length ?? 0];
    const size = Math.max(plot.fit, Math.min(frame.size, Math.max(DEEPEST, plot.fit)));
    return { size, x: Math.max(0, Math.min(frame.x, columns - plot.width / size)), y: Math.max(0, Math.min(frame.y, rows - plot.height / size)) };
  }

  /** Choose another part to be in view. @param {Frame} to */
  move(to) {
    const { plot, seen } = this;
    if (!seen) return;
    const { size, x, y } = this.clamp(to);
    this.state.set({ zoom: size > plot.fit * NEARER ? [x, y, plot.width / size, seen.keys.length, seen.queries.length] : null });
  }

  /** Show what was chosen to be in view. */
  place() {
    this.frame = this.inView();
    void this.draw();
    this.crosshair();
  }

  async draw() {
    const mine = ++this.drawing;
    const { seen, base, frame } = this;
    this.stage?.classList.toggle("zoomed", this.near);
    if (!seen || !base) return;
    if (this.tiled) return this.soon(true);
    this.minimap?.hide();
    const dots = window.devicePixelRatio || 1;
    const context = this.pen(base);
    context.clearRect(0, 0, base.width, base.height);
    this.crosshair();
    const pooled = this.querySelector(".pooling");
    const each = seen.signed ? mark("each pixel is the weight it covers that is largest by size") : mark("each pixel is the largest weight it covers");
    if (pooled) pooled.textContent = frame.size * dots < 1 ? say(this.state.now.lang, each) : "";
    const top = await seen.deepest(() => mine === this.drawing);
    if (top === null || mine !== this.drawing) return;
    ramp(this.querySelector(".ramp"), top, seen.signed, this.state.now);
    const box = this.box(dots);
    const done = await heat(
      context,
      seen,
      box,
      { size: frame.size * dots, x: frame.x, y: frame.y },
      dots,
      { ...this.state.now, top },
      (share) => {
        if (mine !== this.drawing) return false;
        this.computing(say(this.state.now.lang, "computing… {share} %", { share: Math.round(share * 100) }));
        return true;
      },
    );
    if (!done) return;
    base.dataset.drawn = String(mine);
    this.computing("");
  }

  /** Where the picture is, in dots. @param {number} dots */
  box(dots) {
    const { left, top, width, height } = this.plot;
    return { left: left * dots, top: top * dots, width: width * dots, height: height * dots };
  }

  /** Draw a long map, or only its crosshair, in the next animation frame. @param {boolean} base */
  soon(base) {
    this.due.base ||= base;
    this.due.frame ||= requestAnimationFrame(() => {
      if (this.due.base) this.paint();
      this.due = { frame: 0, base: false };
      this.cursor();
    });
  }

  /** A long map from its tiles: what is there of it. */
  paint() {
    const { seen, base, plot, frame, minimap } = this;
    const { now } = this.state;
    if (!seen?.tile || !base || !MapElement.long) return;
    if (this.tiles?.view !== seen || this.tiles.pool !== now.pool) {
      this.tiles?.stop();
      this.tiles = MapElement.long.tiles(seen, now.pool, () => this.soon(true));
    }
    const { tiles } = this;
    const dots = window.devicePixelRatio || 1;
    const box = this.box(dots),
      dotted = { ...frame, size: frame.size * dots },
      shades = { theme: now.theme, scale: now.scale, top: seen.top };
    const level = tiles.levelAt(dotted.size);
    const missing = tiles.want(level, box, dotted);
    const context = this.pen(base);
    context.clearRect(0, 0, base.width, base.height);
    tiles.paint(context, level, box, dotted, dots, shades);
    if (this.near) minimap?.draw(tiles, plot, frame, shades, getComputedStyle(this).getPropertyValue("--accent"));
    else minimap?.hide();
    const of = { size: 2 ** level };
    const messages = { max: mark("each cell is the largest weight of {size} × {size} tokens"), mean: mark("each cell is a mean of {size} × {size} tokens, coloured by what {size} keys get together") };
    const pooled = level === 0 ? "" : say(now.lang, seen.signed && now.pool === "max" ? mark("each cell is the weight of {size} × {size} tokens that is largest by size") : messages[now.pool], of);
    const output = this.querySelector(".pooling");
    if (output && output.textContent !== pooled) output.textContent = pooled;
    ramp(this.querySelector(".ramp"), seen.top, seen.signed, now);
    if (missing) return this.computing(say(now.lang, "computing…"));
    base.dataset.drawn = String(this.drawing);
    this.computing(tiles.failed.size ? excuse(now.lang, [...tiles.failed.values()][0]) : "");
  }

  /** Bring a place into the middle. @param {number} x @param {number} y */
  centre(x, y) {
    const { frame, plot } = this;
    const { size } = frame;
    this.move({ size, x: x - plot.width / size / 2, y: y - plot.height / size / 2 });
  }

  /** Is only a part in view? */
  get near() {
    return this.frame.size > this.plot.fit * NEARER;
  }

  /** Is it drawn from tiles? */
  get tiled() {
    return Boolean(this.seen?.tile && MapElement.long);
  }

  /** The chosen cell, in units. */
  chosen() {
    const { seen } = this;
    return seen ? { u: unitAt(seen.queries, this.state.now.query), c: unitAt(seen.keys, this.state.now.key) } : { u: 0, c: 0 };
  }

  crosshair() {
    if (this.tiled) this.soon(false);
    else this.cursor();
  }

  cursor() {
    const { cross } = this;
    if (!cross || !this.seen) return;
    const context = this.pen(cross);
    context.clearRect(0, 0, cross.width, cross.height);
    drawCrosshair(context, this);
  }

  /** Show the text of the hovered or selected cell, and announce that of the selected one. */
  tell() {
    const { seen } = this;
    if (!seen) return;
    const { lang } = this.state.now;
    const { u, c } = this.hover ?? this.chosen();
    const query = seen.queries[u],
      key = seen.keys[c];
    const row = seen.compute ? seen.row(u) : null,
      share = row ? row.weights[c] : 0,
      open = !row || row.seen[c];
    const weightText = row ? exactly(share, row.error) : "…"; // until the head is loaded
    const out = seen.takenOut(key),
      lone = query.lone || key.lone;
    const range = (/** @type {Unit} */ unit) =>
      unit.places ?? (unit.end - unit.first > 1 ? `${unit.first}–${unit.end - 1}` : `${unit.first}`);
    const names = filled(say(lang, "{from} → {to}", { from: hole("from"), to: hole("to") }), {
      from: token(query.label),
      to: token(key.label),
    });
    this.querySelector("output.cell")?.replaceChildren(
      h("span", {}, ...names),
      h("b", {}, open ? weightText : say(lang, !seen.shares ? mark("can't be read") : lone ? mark("on one side only") : out ? mark("taken out") : mark("hidden"))),
      h("small", {}, say(lang, "query {i}, key {j}", { i: range(query), j: range(key) })),
    );
    if (this.hover || !row) return;
    const masked = seen.shares ? mark("query {from} → key {to}: hidden by the mask") : mark("query {from} → key {to}: can't be read");
    const closed = lone ? mark("query {from} → key {to}: on one side only") : out ? mark("query {from} → key {to}: taken out with the sink") : masked;
    const announcement = say(lang, open ? mark("query {from} → key {to}: {weight}") : closed, {
      from: query.label,
      to: key.label,
      weight: weightText,
    });
    if (announcement === this.told) return;
    this.told = announcement;
    if (!this.look || this.contains(document.activeElement)) announce(announcement); // of several maps, the one that is used
  }

  /** After the choice moved: bring it into view. */
  follow() {
    const { seen, frame, plot } = this;
    if (!seen) return;
    const { u, c } = this.chosen();
    const { size } = frame;
    const x = Math.max(Math.min(frame.x, c), c + 1 - plot.width / size),
      y = Math.max(Math.min(frame.y, u), u + 1 - plot.height / size);
    if (this.near && (x !== frame.x || y !== frame.y)) this.move({ size, x, y });
    this.hover = null;
    this.crosshair();
    this.tell();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { seen } = this;
    if (!seen || event.ctrlKey || event.metaKey || event.altKey) return;
    const { u, c } = this.chosen();
    const far = event.shiftKey ? 10 : 1,
      page = this.tiled ? Math.max(10, Math.floor(this.plot.height / this.frame.size / 2)) : 10; // of a long map, half of what is in view
    /** @type {Record<string, [number, number]>} */
    const moves = {
      ArrowRight: [0, far],
      ArrowLeft: [0, -far],
      ArrowDown: [far, 0],
      ArrowUp: [-far, 0],
      PageDown: [page, 0],
      PageUp: [-page, 0],
      Home: [0, -Infinity],
      End: [0, Infinity],
    };
    const acts = /** @type {Record<string, () => void>} */ ({
      "+": () => this.zoom(1.6),
      "=": () => this.zoom(1.6),
      "-": () => this.zoom(1 / 1.6),
      "−": () => this.zoom(1 / 1.6),
      0: () => this.whole(),
    });
    const move = moves[event.key];
    if (!move && !acts[event.key]) return;
    event.preventDefault();
    if (!move) return acts[event.key]();
    const limit = (/** @type {number} */ value, /** @type {Unit[]} */ units) =>
      Math.max(0, Math.min(value, units.length - 1));
    this.choose(limit(u + move[0], seen.queries), limit(c + move[1], seen.keys));
  }

  /** @param {number} u @param {number} c */
  choose(u, c) {
    const { seen } = this;
    // A word is chosen by its last token: there a decoder has read all of it.
    if (seen) this.state.set({ query: seen.queries[u].end - 1, key: seen.keys[c].end - 1 });
  }

  whole() {
    this.state.set({ zoom: null });
  }

  /** Zoom around a point, by default the selected cell. @param {number} by @param {{ x: number, y: number }} [about] */
  zoom(by, about) {
    const { frame, plot, seen } = this;
    if (!seen) return;
    const { u, c } = this.chosen();
    const x = about ? about.x - plot.left : (c + 0.5 - frame.x) * frame.size;
    const y = about ? about.y - plot.top : (u + 0.5 - frame.y) * frame.size;
    const cell = { x: frame.x + x / frame.size, y: frame.y + y / frame.size };
    const { size } = this.clamp({ ...frame, size: frame.size * by });
    this.move({ size, x: cell.x - x / size, y: cell.y - y / size });
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    // A plain wheel scrolls the page, unless the map has been clicked into.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.stage) return;
    const out = event.deltaY > 0;
    if (out && !this.near && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-Math.max(-60, Math.min(event.deltaY, 60)) * (event.ctrlKey ? 0.012 : 0.006)), {
      x: event.offsetX,
      y: event.offsetY,
    });
  }

  /** @param {{ offsetX: number, offsetY: number }} event */
  under({ offsetX, offsetY }) {
    const { plot, frame, seen } = this;
    const x = offsetX - plot.left,
      y = offsetY - plot.top;
    if (!seen || x < 0 || y < 0 || x >= plot.width || y >= plot.height) return null;
    const c = Math.floor(frame.x + x / frame.size),
      u = Math.floor(frame.y + y / frame.size);
    return u < seen.queries.length && c < seen.keys.length ? { u, c } : null;
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.dragged = false;
  }

  /** @param {PointerEvent} event */
  drag(event) {
    const pointer = this.pointers.get(event.pointerId);
    const here = { x: event.offsetX, y: event.offsetY };
    if (!pointer) {
      this.hover = this.under(event);
      this.crosshair();
      this.tell();
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = (/** @type {{ x: number, y: number }} */ a) => Math.hypot(a.x - other.x, a.y - other.y);
      this.zoom(distance(here) / Math.max(distance(pointer), 1), { x: (here.x + other.x) / 2, y: (here.y + other.y) / 2 });
    } else if (this.near && (this.dragged || Math.hypot(here.x - pointer.x, here.y - pointer.y) > 4)) {
      const { size, x, y } = this.frame;
      this.stage?.setPointerCapture(event.pointerId);
      this.move({ size, x: x - (here.x - pointer.x) / size, y: y - (here.y - pointer.y) / size });
    } else return;
    this.dragged = true;
    this.pointers.set(event.pointerId, here);
    this.hover = null;
    this.crosshair();
  }

  /** @param {PointerEvent} event */
  release(event) {
    this.pointers.delete(event.pointerId);
    const at = this.under(event);
    if (!this.dragged && at) this.choose(at.u, at.c);
  }

  leave() {
    this.hover = null;
    this.pointers.clear();
    this.crosshair();
    this.tell();
  }
}

customElements.define("qkv-map", MapElement);
