// <qkv-map>: one head as a heat map with labels, zoom, pan and a crosshair that tells the exact weight.
// Rows are computed as they come into view, a slice of time at a time; nothing larger than the picture is kept.

import { level, palette } from "./colour.js";
import { breathe, choice, filled, h, hole, token, weight } from "./dom.js";
import { openHeadAt } from "./overview.js";
import { state } from "./state.js";
import { say } from "./strings.js";
import { partOf, unitAt, view } from "./view.js";

/** @import { Unit, View } from "./view.js" */

const LARGEST = 42; // pixels of a cell when all is shown
const DEEPEST = 64; // … and when zoomed in
const LABEL = 12; // pixels a label needs
const STACK = 13; // … of one character under another
const SPARSE = 17; // … where only some are shown
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans SC", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif';

export class MapElement extends HTMLElement {
  /** @type {View | null} */
  seen = null;
  /** Pixels per cell, and the cell at the top left: what is in view. */
  frame = { size: 1, x: 0, y: 0 };
  /** Where the picture is inside the canvas, in pixels. */
  plot = { left: 0, top: 0, width: 0, height: 0, fit: 1 };
  drawing = 0;
  loading = 0;
  /** @type {{ u: number, c: number } | null} */
  hover = null;
  /** @type {Map<number, { x: number, y: number }>} */
  pointers = new Map();
  dragged = false;
  told = "";
  wide = 0;

  connectedCallback() {
    this.build();
    state.listen((changed) => {
      if (changed.has("lang")) this.build();
      if (changed.has("lang") || changed.has("unit") || changed.has("scale")) this.controls();
      if (["part", "item", "layer", "head", "unit", "lang"].some((name) => changed.has(name))) void this.load();
      else if (changed.has("theme") || changed.has("scale")) void this.draw();
      if (changed.has("query") || changed.has("key")) this.follow();
    });
    new ResizeObserver(() => {
      if (this.clientWidth === this.wide) return;
      this.layout();
      void this.draw();
    }).observe(this);
    void this.load();
  }

  build() {
    const { lang } = state.now;
    this.base = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": true }));
    this.cross = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": true, class: "cross" }));
    this.stage = h("div", {
      class: "stage", tabindex: 0, role: "application", "aria-roledescription": say(lang, "map.role"), "aria-label": say(lang, "map"),
      "aria-describedby": "qkv-map-help",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.press(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.drag(event),
      onpointerup: (/** @type {PointerEvent} */ event) => this.release(event),
      onpointercancel: (/** @type {PointerEvent} */ event) => this.pointers.delete(event.pointerId),
      onpointerleave: () => this.leave(),
    }, this.base, this.cross);
    this.stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.replaceChildren(
      h("div", { class: "bar title" }),
      h("p", { class: "note" }),
      h("p", { class: "help" }, say(lang, "map.axes")),
      this.stage,
      h("output", { class: "cell" }),
      h("div", { class: "bar legend" }),
      h("p", { class: "help", id: "qkv-map-help" }, say(lang, "map.help")),
    );
    this.controls();
  }

  controls() {
    const { lang, unit, scale } = state.now;
    const part = partOf(state.now.part);
    const select = (/** @type {string} */ name, /** @type {string} */ each, /** @type {number} */ count, /** @type {number} */ chosen, /** @type {(n: number) => void} */ choose) => {
      const made = h("select", { "aria-label": name, onchange: (/** @type {Event} */ event) => choose(Number(/** @type {HTMLSelectElement} */ (event.target).value)) });
      for (let i = 0; i < count; i++) made.append(h("option", { value: i, selected: i === chosen }, say(lang, each, { n: i })));
      return made;
    };
    const { layer, head } = state.now;
    this.querySelector(".title")?.replaceChildren(
      h("h2", { class: "picks" },
        select(say(lang, "layer"), "layer.n", part.layers.length, layer, (n) => openHeadAt(n, Math.min(state.now.head, part.layers[n].heads - 1))),
        select(say(lang, "head.word"), "head.n", part.layers[layer].heads, head, (n) => openHeadAt(state.now.layer, n))),
      choice(say(lang, "unit"), [["tokens", say(lang, "unit.tokens")], ["words", say(lang, "unit.words")]], unit, (value) =>
        state.set({ unit: value === "words" ? "words" : "tokens" })),
    );
    const zoom = (/** @type {string} */ name, /** @type {string} */ sign, /** @type {() => void} */ act) =>
      h("button", { type: "button", title: say(lang, name), "aria-label": say(lang, name), onclick: act }, sign);
    this.querySelector(".legend")?.replaceChildren(
      h("div", { class: "choice zoom" },
        zoom("zoom.out", "−", () => this.zoom(1 / 1.6)),
        zoom("zoom.in", "+", () => this.zoom(1.6)),
        zoom("zoom.all", "⤢", () => this.whole())),
      choice(say(lang, "scale"), [["root", say(lang, "scale.root")], ["linear", say(lang, "scale.linear")]], scale, (value) =>
        state.set({ scale: value === "root" ? "root" : "linear" })),
      h("span", { class: "ramp" }, "0", h("canvas", { width: 128, height: 1, "aria-hidden": true }), "1"),
      h("span", { class: "hatched" }, h("i", {}), say(lang, "masked")),
      h("span", { class: "pooling" }),
    );
  }

  async load() {
    const asked = ++this.loading;
    this.drawing++; // what is being drawn is of the head before
    const { lang, layer, part: name } = state.now;
    const part = partOf(name);
    const loaded = await view();
    if (asked !== this.loading) return;
    const same = this.seen && this.seen.queries === loaded.queries && this.seen.keys === loaded.keys;
    this.seen = loaded;
    this.hover = null;
    this.controls();
    const { tall, wide } = part.thumbs;
    this.querySelector(".note")?.replaceChildren(loaded.head ? "" : say(lang, "map.overview", { tall, wide, layer }));
    this.layout(!same);
    void this.draw();
    this.tell();
  }

  /** How large the picture is and where its labels go. */
  layout(anew = false) {
    const { seen, stage } = this;
    if (!seen || !stage) return;
    this.wide = this.clientWidth;
    const width = stage.clientWidth;
    const context = this.pen(/** @type {HTMLCanvasElement} */ (this.base));
    context.font = FONT;
    const longest = (/** @type {Unit[]} */ units) => {
      const some = units.length > 3000 ? units.filter((_, i) => i % 17 === 0) : units;
      return Math.min(Math.max(...some.map((unit) => context.measureText(unit.label).width)), width < 500 ? 68 : 104);
    };
    const left = Math.ceil(longest(seen.queries)) + 12;
    const most = Math.max(240, Math.min(window.innerHeight * 0.66, 640));
    const fit = Math.min(Math.max(width - left - 2, 40) / seen.keys.length, most / seen.queries.length, LARGEST);
    const flat = Math.max(...seen.keys.slice(0, 400).map((unit) => context.measureText(unit.label).width)) <= fit - 4;
    const some = seen.keys.length > 3000 ? seen.keys.filter((_, i) => i % 17 === 0) : seen.keys;
    const tallest = Math.max(...some.map(({ label }) => stack(label)?.length ?? context.measureText(label).width / STACK)) * STACK;
    const top = flat ? 22 : Math.ceil(Math.min(tallest, width < 500 ? 68 : 104)) + 12;
    this.plot = { left, top, width: Math.floor(fit * seen.keys.length), height: Math.floor(fit * seen.queries.length), fit };
    if (anew || this.frame.size < fit) this.frame = { size: fit, x: 0, y: 0 };
    const tall = top + this.plot.height + 2;
    const dots = window.devicePixelRatio || 1;
    stage.style.height = `${tall}px`;
    for (const canvas of [this.base, this.cross]) {
      if (!canvas) continue;
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(tall * dots);
    }
    this.clamp();
  }

  /** @param {HTMLCanvasElement} canvas */
  pen(canvas) {
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    return context;
  }

  clamp() {
    const { seen, frame, plot } = this;
    if (!seen) return;
    frame.size = Math.max(plot.fit, Math.min(frame.size, Math.max(DEEPEST, plot.fit)));
    frame.x = Math.max(0, Math.min(frame.x, seen.keys.length - plot.width / frame.size));
    frame.y = Math.max(0, Math.min(frame.y, seen.queries.length - plot.height / frame.size));
    this.stage?.classList.toggle("zoomed", frame.size > plot.fit * 1.001);
  }

  /** The picture itself: every pixel is the largest weight of the cells it covers; hidden ones are hatched. */
  async draw() {
    const mine = ++this.drawing;
    const { seen, base, plot, frame } = this;
    if (!seen || !base) return;
    const { theme, scale } = state.now;
    const colours = palette(theme);
    const dots = window.devicePixelRatio || 1;
    const context = this.pen(base);
    context.clearRect(0, 0, base.width, base.height);
    this.ramp();
    this.crosshair();
    const wide = Math.round(plot.width * dots), tall = Math.round(plot.height * dots), size = frame.size * dots;
    const x0 = Math.round(plot.left * dots), y0 = Math.round(plot.top * dots);
    const columns = spans(wide, size, frame.x, seen.keys.length), bands = spans(tall, size, frame.y, seen.queries.length);
    const pooled = this.querySelector(".pooling");
    if (pooled) pooled.textContent = size < 1 ? say(state.now.lang, "map.pooled") : "";
    const shares = new Float32Array(wide), open = new Uint8Array(wide);
    const period = Math.round(6 * dots), stroke = Math.max(1, Math.round(dots));
    const gap = size >= 9 * dots ? 1 : 0; // a hair between large cells
    let until = performance.now() + 14;
    for (let y = 0; y < tall; ) {
      let next = y + 1;
      while (next < tall && bands.first[next] === bands.first[y] && bands.end[next] === bands.end[y]) next++;
      shares.fill(0);
      open.fill(0);
      let dimRow = true;
      for (let u = bands.first[y]; u < bands.end[y]; u++) {
        const row = seen.row(u);
        dimRow &&= seen.queries[u].special;
        for (let x = 0; x < wide; x++) {
          for (let c = columns.first[x]; c < columns.end[x]; c++) {
            if (row.weights[c] > shares[x]) shares[x] = row.weights[c];
            open[x] |= row.seen[c];
          }
        }
      }
      const image = context.createImageData(wide, next - y);
      const pixels = new Uint32Array(image.data.buffer);
      for (let x = 0; x < wide; x++) {
        const dim = dimRow || seen.keys[columns.first[x]].special;
        const colour = (dim ? colours.dim : colours.full)[level(shares[x], scale)];
        const edge = gap && x + 1 < wide && columns.first[x + 1] !== columns.first[x];
        for (let line = y, at = x; line < next; line++, at += wide) {
          if (!open[x]) pixels[at] = (x + line) % period < stroke ? colours.hatchLine : colours.hatchPaper;
          else if (!edge && !(gap && line === next - 1)) pixels[at] = colour;
        }
      }
      context.putImageData(image, x0, y0 + y);
      y = next;
      if (performance.now() > until) {
        await breathe();
        if (mine !== this.drawing) return;
        until = performance.now() + 14;
      }
    }
    base.dataset.drawn = String(mine);
  }

  /** All labels but those that would touch the ones of a cell, which is named apart. @param {CanvasRenderingContext2D} context @param {{ u: number, c: number }} but */
  labels(context, but) {
    const { seen, plot, frame } = this;
    if (!seen) return;
    const ink = getComputedStyle(this).getPropertyValue("--ink"), faint = getComputedStyle(this).getPropertyValue("--faint");
    context.font = FONT;
    context.textBaseline = "middle";
    const every = frame.size >= LABEL ? 1 : Math.ceil(SPARSE / frame.size);
    const paint = (/** @type {Unit[]} */ units, /** @type {number} */ from, /** @type {number} */ room, /** @type {number} */ named, /** @type {(text: string, at: number) => void} */ put) => {
      const last = Math.min(units.length, Math.ceil(from + room / frame.size));
      for (let i = Math.ceil(Math.floor(from) / every) * every; i < last; i += every) {
        const at = (i + 0.5 - from) * frame.size;
        if (at < 0 || at > room || Math.abs(i - named) * frame.size < LABEL) continue;
        context.fillStyle = units[i].special || every > 1 ? faint : ink;
        put(units[i].label, at);
      }
    };
    paint(seen.queries, frame.y, plot.height, but.u, (text, at) => {
      context.textAlign = "right";
      context.fillText(this.cut(context, text, plot.left - 10), plot.left - 7, plot.top + at);
    });
    paint(seen.keys, frame.x, plot.width, but.c, (text, at) => {
      if (plot.top <= 22 && frame.size === plot.fit) {
        context.textAlign = "center";
        context.fillText(text, plot.left + at, plot.top - 10);
        return;
      }
      this.upright(context, text, plot.left + at);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {string} text @param {number} room */
  cut(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    const signs = [...text];
    while (signs.length > 1 && context.measureText(signs.join("") + "…").width > room) signs.pop();
    return signs.join("") + "…";
  }

  ramp() {
    const canvas = /** @type {HTMLCanvasElement | null} */ (this.querySelector(".ramp canvas"));
    if (!canvas) return;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(128, 1);
    const { full } = palette(state.now.theme);
    new Uint32Array(image.data.buffer).forEach((_, x, pixels) => { pixels[x] = full[level(x / 127, state.now.scale)]; });
    context.putImageData(image, 0, 0);
  }

  /** The chosen cell, in units. */
  chosen() {
    const { seen } = this;
    return seen ? { u: unitAt(seen.queries, state.now.query), c: unitAt(seen.keys, state.now.key) } : { u: 0, c: 0 };
  }

  crosshair() {
    const { cross, seen, plot, frame } = this;
    if (!cross || !seen) return;
    const context = this.pen(cross);
    context.clearRect(0, 0, cross.width, cross.height);
    const accent = getComputedStyle(this).getPropertyValue("--accent");
    const inside = (/** @type {() => void} */ paint) => {
      context.save();
      context.beginPath();
      context.rect(plot.left - 1, plot.top - 1, plot.width + 2, plot.height + 2);
      context.clip();
      paint();
      context.restore();
    };
    const outline = (/** @type {{ u: number, c: number }} */ { u, c }, /** @type {boolean} */ strong) => inside(() => {
      const size = Math.max(frame.size, 4);
      const x = plot.left + (c + 0.5 - frame.x) * frame.size, y = plot.top + (u + 0.5 - frame.y) * frame.size;
      context.strokeStyle = accent;
      context.globalAlpha = strong ? 0.35 : 0.25;
      context.lineWidth = 1;
      context.strokeRect(plot.left - 2, Math.round(y - size / 2) + 0.5, plot.width + 4, Math.round(size) - 1);
      context.strokeRect(Math.round(x - size / 2) + 0.5, plot.top - 2, Math.round(size) - 1, plot.height + 4);
      context.globalAlpha = 1;
      context.lineWidth = strong ? 2 : 1.5;
      context.strokeRect(x - size / 2, y - size / 2, size - 1, size - 1);
    });
    const chosen = this.chosen();
    outline(chosen, true);
    if (this.hover) outline(this.hover, false);
    this.labels(context, this.hover ?? chosen);
    this.name(context, this.hover ?? chosen, accent);
  }

  /** The labels of a cell, larger than the others. @param {CanvasRenderingContext2D} context @param {{ u: number, c: number }} at @param {string} accent */
  name(context, { u, c }, accent) {
    const { seen, plot, frame } = this;
    if (!seen) return;
    context.font = "600 " + FONT;
    context.textBaseline = "middle";
    const y = plot.top + (u + 0.5 - frame.y) * frame.size, x = plot.left + (c + 0.5 - frame.x) * frame.size;
    if (y >= plot.top && y <= plot.top + plot.height) {
      context.fillStyle = accent;
      context.textAlign = "right";
      context.fillText(this.cut(context, seen.queries[u].label, plot.left - 9), plot.left - 7, y);
    }
    if (x < plot.left || x > plot.left + plot.width) return;
    if (plot.top <= 22 && frame.size === plot.fit) {
      context.fillStyle = accent;
      context.textAlign = "center";
      context.fillText(seen.keys[c].label, x, plot.top - 10);
      return;
    }
    context.fillStyle = accent;
    this.upright(context, seen.keys[c].label, x);
  }

  /** A label above a column: turned, or character under character where that is how it is written. @param {CanvasRenderingContext2D} context @param {string} text @param {number} x */
  upright(context, text, x) {
    const { plot } = this;
    const signs = stack(text);
    if (signs) {
      const room = Math.max(1, Math.floor((plot.top - 8) / STACK));
      const shown = signs.length > room ? [...signs.slice(0, room - 1), "⋮"] : signs;
      context.textAlign = "center";
      shown.forEach((sign, i) => context.fillText(sign, x, plot.top - 4 - (shown.length - i - 0.5) * STACK));
      return;
    }
    context.save();
    context.translate(x, plot.top - 6);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(this.cut(context, text, plot.top - 8), 0, 0);
    context.restore();
  }

  /** What the cell under the pointer, or the chosen one, says; the chosen one is also said aloud. */
  tell() {
    const { seen } = this;
    if (!seen) return;
    const { lang } = state.now;
    const { u, c } = this.hover ?? this.chosen();
    const row = seen.row(u), share = row.weights[c], open = row.seen[c];
    const query = seen.queries[u], key = seen.keys[c];
    const places = (/** @type {Unit} */ unit) => (unit.end - unit.first > 1 ? `${unit.first}–${unit.end - 1}` : `${unit.first}`);
    const names = filled(say(lang, "cell", { from: hole("from"), to: hole("to") }), { from: token(query.label), to: token(key.label) });
    this.querySelector("output.cell")?.replaceChildren(
      h("span", {}, ...names), h("b", {}, open ? share.toFixed(4) : say(lang, "hidden")),
      h("small", {}, say(lang, "cell.places", { i: places(query), j: places(key) })),
    );
    if (this.hover) return;
    const said = say(lang, open ? "cell.said" : "cell.hidden", { from: query.label, to: key.label, weight: weight(share) });
    if (said === this.told) return;
    this.told = said;
    const live = document.getElementById("qkv-live");
    if (live) live.textContent = said;
  }

  /** After the choice moved: bring it into view. */
  follow() {
    const { seen, frame, plot } = this;
    if (!seen) return;
    const { u, c } = this.chosen();
    const before = { ...frame };
    frame.x = Math.min(frame.x, c);
    frame.y = Math.min(frame.y, u);
    frame.x = Math.max(frame.x, c + 1 - plot.width / frame.size);
    frame.y = Math.max(frame.y, u + 1 - plot.height / frame.size);
    this.clamp();
    if (before.x !== frame.x || before.y !== frame.y) void this.draw();
    this.hover = null;
    this.crosshair();
    this.tell();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { seen } = this;
    if (!seen || event.ctrlKey || event.metaKey || event.altKey) return;
    const { u, c } = this.chosen();
    const far = event.shiftKey ? 10 : 1;
    /** @type {Record<string, [number, number]>} */
    const moves = {
      ArrowRight: [0, far], ArrowLeft: [0, -far], ArrowDown: [far, 0], ArrowUp: [-far, 0],
      PageDown: [10, 0], PageUp: [-10, 0], Home: [0, -Infinity], End: [0, Infinity],
    };
    const acts = /** @type {Record<string, () => void>} */ ({
      "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), "−": () => this.zoom(1 / 1.6), "0": () => this.whole(),
    });
    const move = moves[event.key];
    if (!move && !acts[event.key]) return;
    event.preventDefault();
    if (!move) return acts[event.key]();
    const limit = (/** @type {number} */ value, /** @type {Unit[]} */ units) => Math.max(0, Math.min(value, units.length - 1));
    this.choose(limit(u + move[0], seen.queries), limit(c + move[1], seen.keys));
  }

  /** @param {number} u @param {number} c */
  choose(u, c) {
    const { seen } = this;
    // A word is chosen by its last token: there a decoder has read all of it.
    if (seen) state.set({ query: seen.queries[u].end - 1, key: seen.keys[c].end - 1 });
  }

  whole() {
    this.frame = { size: this.plot.fit, x: 0, y: 0 };
    this.clamp();
    void this.draw();
    this.crosshair();
  }

  /** Nearer or further, keeping what is at a place (the chosen cell, if none is said) where it is. @param {number} by @param {{ x: number, y: number }} [about] */
  zoom(by, about) {
    const { frame, plot, seen } = this;
    if (!seen) return;
    const { u, c } = this.chosen();
    const x = about ? about.x - plot.left : (c + 0.5 - frame.x) * frame.size;
    const y = about ? about.y - plot.top : (u + 0.5 - frame.y) * frame.size;
    const cell = { x: frame.x + x / frame.size, y: frame.y + y / frame.size };
    frame.size = Math.max(plot.fit, Math.min(frame.size * by, Math.max(DEEPEST, plot.fit)));
    frame.x = cell.x - x / frame.size;
    frame.y = cell.y - y / frame.size;
    this.clamp();
    void this.draw();
    this.crosshair();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    // A plain wheel scrolls the page, unless the map has been clicked into.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.stage) return;
    const out = event.deltaY > 0;
    if (out && this.frame.size <= this.plot.fit * 1.001 && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-Math.max(-60, Math.min(event.deltaY, 60)) * (event.ctrlKey ? 0.012 : 0.006)), { x: event.offsetX, y: event.offsetY });
  }

  /** @param {{ offsetX: number, offsetY: number }} event */
  under({ offsetX, offsetY }) {
    const { plot, frame, seen } = this;
    const x = offsetX - plot.left, y = offsetY - plot.top;
    if (!seen || x < 0 || y < 0 || x >= plot.width || y >= plot.height) return null;
    const c = Math.floor(frame.x + x / frame.size), u = Math.floor(frame.y + y / frame.size);
    return u < seen.queries.length && c < seen.keys.length ? { u, c } : null;
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.dragged = false;
  }

  /** @param {PointerEvent} event */
  drag(event) {
    const held = this.pointers.get(event.pointerId);
    const here = { x: event.offsetX, y: event.offsetY };
    if (!held) {
      this.hover = this.under(event);
      this.crosshair();
      this.tell();
      return;
    }
    const { frame } = this;
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const apart = (/** @type {{ x: number, y: number }} */ a) => Math.hypot(a.x - other.x, a.y - other.y);
      this.zoom(apart(here) / Math.max(apart(held), 1), { x: (here.x + other.x) / 2, y: (here.y + other.y) / 2 });
    } else if (this.stage?.classList.contains("zoomed") && (this.dragged || Math.hypot(here.x - held.x, here.y - held.y) > 4)) {
      this.stage.setPointerCapture(event.pointerId);
      frame.x -= (here.x - held.x) / frame.size;
      frame.y -= (here.y - held.y) / frame.size;
      this.clamp();
      void this.draw();
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

/** Scripts that are written downwards as well as across, and pictures; a small number goes with what it numbers. */
const DOWN = /[\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\u{1f000}-\u{1faff}\u{20000}-\u{3ffff}](?:[\u200d\ufe0f]+[\u{1f000}-\u{1faff}\u2640\u2642]?)*[₀-₉]*/gu;

/** The characters of a label one by one, if all of them may stand under each other; else null. @param {string} text */
function stack(text) {
  const signs = text.match(DOWN);
  return signs && signs.join("") === text ? signs : null;
}

/**
 * Which cells each pixel covers.
 * @param {number} count pixels
 * @param {number} size pixels per cell
 * @param {number} from the cell at the first pixel
 * @param {number} cells
 */
function spans(count, size, from, cells) {
  const first = new Int32Array(count), end = new Int32Array(count);
  for (let x = 0; x < count; x++) {
    first[x] = Math.min(cells - 1, Math.floor(from + (x + 1e-6) / size));
    end[x] = Math.max(first[x] + 1, Math.min(cells, Math.floor(from + (x + 1) / size)));
  }
  return { first, end };
}
customElements.define("qkv-map", MapElement);
