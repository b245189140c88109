// <qkv-overview>: every head of every layer as a small picture. Arrow keys move, Enter or a click opens one.

import { level, palette } from "../core/colour.js";
import { breathe, choice, excuse, filled, h, hole, markOld, refill, token, weight } from "../core/dom.js";
import { state } from "../core/state.js";
import { mark, say } from "../core/words.js";
import { errorOf, header, isWhole, label, linkErrorOf, linkOf, openHeadAt, partOf, source, thumb, topOf, view } from "../core/view.js";

/** @type {Record<string, string>} */
export const PARTS = { encoder: mark("Encoder"), decoder: mark("Decoder"), cross: mark("Cross"), mixers: mark("Mixers") };

const MOMENT = 50; // milliseconds that pictures wait for the map
const MOST_LINKS = 10; // listed heads that link two tokens

export class Overview extends HTMLElement {
  /** @type {{ part: string, item: number, query: number, key: number, top: [number, number, number][] } | null} */
  focusLink = header?.focus ?? null;
  /** @type {HTMLElement[][]} */
  cells = [];
  /** Layers with loaded pictures and links. @type {Set<number>} */
  come = new Set();
  drawing = 0;
  busy = false;
  /** What the grid was built for. */
  built = "";
  ends = new AbortController();

  connectedCallback() {
    this.ends = new AbortController();
    this.focusLink = header.focus;
    state.listen((changed) => {
      if (changed.has("shown")) {
        this.focusLink = header.focus;
        this.busy = false;
        this.come.clear();
        this.age();
      }
      if (changed.has("part") || changed.has("item")) this.come.clear();
      if (["shown", "part", "item", "sink", "lang"].some((name) => changed.has(name))) this.render();
      else if (changed.has("theme") || changed.has("scale")) void this.draw();
      if (changed.has("layer") || changed.has("head")) this.mark();
      if (changed.has("query") || changed.has("key") || changed.has("unit")) this.renderLinks();
    }, this.ends.signal);
    this.built = "";
    this.render();
  }

  disconnectedCallback() {
    this.ends.abort();
    this.drawing++;
  }

  render() {
    const { lang, part: name, item } = state.now;
    const part = partOf(name);
    const bare = state.now.sink === "hidden" && !part.signed;
    // While somebody types, the same model is shown again and again: its grid stays, and pictures take the place of pictures.
    const built = JSON.stringify([lang, bare, name, item, part.signed, header.parts.map((each) => each.name), part.queries.length, part.layers.map((layer, i) => [layer.number, layer.heads, isWhole(part, i)])]);
    if (built === this.built) {
      this.cells.forEach((_, i) => this.name(i));
      this.mark();
      this.renderLinks();
      void this.draw();
      return;
    }
    this.built = built;
    const bar = h("div", { class: "bar" }, h("h2", {}, part.signed ? say(lang, "Mixer heads") : say(lang, "All heads")));
    if (header.parts.length > 1) {
      // Beside mixers, a decoder's layers are those that attend.
      const hybrid = header.parts.some((each) => each.signed);
      const named = (/** @type {string} */ part) => (hybrid && part === "decoder" ? mark("Attention") : PARTS[part]);
      const choices = header.parts.map((each) => /** @type {[string, string]} */ ([each.name, say(lang, named(each.name))]));
      bar.append(choice(say(lang, "Part of the model"), choices, name, (value) => openPart(value)));
    }
    if (part.queries.length > 1) {
      const select = h("select", {
        "aria-label": say(lang, "Text"),
        onchange: (/** @type {Event} */ event) => {
          state.set({ item: Number(/** @type {HTMLSelectElement} */ (event.target).value) });
        },
      });
      part.queries.forEach((_, i) =>
        select.append(h("option", { value: i, selected: i === item }, say(lang, "Text {n}", { n: i + 1 }))),
      );
      bar.append(select);
    }
    const heads = Math.max(...part.layers.map((layer) => layer.heads));
    const grid = h("div", {
      class: part.layers.every((_, i) => isWhole(part, i)) ? "grid" : "grid partly",
      role: "grid",
      "aria-label": say(lang, "Heads: arrow keys move, Enter opens"),
      style: `--heads: ${heads}`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.move(event),
    });
    const numbers = h(
      "div",
      { class: "numbers", role: "row" },
      h("span", { role: "columnheader" }, h("span", { class: "unseen" }, say(lang, "Layer"))),
    );
    for (let i = 0; i < heads; i++) numbers.append(h("span", { role: "columnheader" }, i));
    grid.append(numbers);
    this.cells = part.layers.map((layer, i) => {
      const row = h("div", { role: "row", class: isWhole(part, i) ? null : "pooled" }, h("span", { role: "rowheader" }, layer.number));
      const cells = Array.from({ length: layer.heads }, (_, j) => {
        return h(
          "button",
          {
            type: "button",
            role: "gridcell",
            tabindex: -1,
            "data-head": `${i}.${j}`,
            onclick: () => openHeadAt(i, j),
            onpointerenter: () => this.tell(i, j),
            onfocus: () => this.tell(i, j),
            onpointerleave: () => this.tell(state.now.layer, state.now.head),
          },
          h("canvas", { "aria-hidden": true }),
        );
      });
      row.append(...cells);
      grid.append(row);
      return cells;
    });
    refill(
      this,
      bar,
      h("p", { class: "help" }, say(lang, "A row per layer, a column per head. Each picture is a whole map: queries down, keys across."), part.signed ? " " + say(lang, "Blue is taken, red is taken away, each picture in its own scale.") : null),
      bare ? h("p", { class: "note" }, say(lang, "Pictures and numbers here are with the sink: it is hidden in the map and in the lines.")) : null,
      h("div", { class: "links" }),
      h("p", { class: "told" }),
      h("div", { class: "scroll" }, grid),
    );
    this.cells.forEach((_, i) => this.name(i));
    this.mark();
    this.renderLinks();
    void this.draw();
  }

  /** Mark the pictures that are still an earlier source's. */
  age() {
    for (const row of this.cells) {
      const line = row[0]?.parentElement;
      line?.toggleAttribute("data-old", row.some(({ firstElementChild }) => firstElementChild instanceof HTMLElement && "drawn" in firstElementChild.dataset));
    }
    this.busyIfOld();
  }

  /** Some of it is old: all of it says so. */
  busyIfOld() {
    markOld(this, this.querySelector("[role=row][data-old]") !== null);
  }

  /** Name the pictures of a layer by what its heads do most. @param {number} layer */
  name(layer) {
    this.cells[layer].forEach((cell, head) => {
      const words = this.words(layer, head).map((node) => node.textContent);
      cell.setAttribute("aria-label", words.join(""));
    });
  }

  /** What a head does most, in words. @param {number} layer @param {number} head */
  words(layer, head) {
    const { lang, item } = state.now;
    const part = partOf(state.now.part);
    const name = say(lang, "layer {layer}, head {head}", { layer: part.layers[layer].number, head });
    const link = linkOf(part, item, layer, head);
    // Where none is known, it may be that the numbers are still to come.
    if (!link && !this.come.has(layer)) return filled(name, {});
    if (!link) return filled(say(lang, part.signed ? mark("{name} · takes hardly anything but itself or special tokens") : mark("{name} · looks at the first token or at special ones"), { name }), {});
    const share = weight(link[2], linkErrorOf(part, layer, item, head));
    const sentence = say(lang, "{name} · most: {from} → {to} {weight}", { name, from: hole("from"), to: hole("to"), weight: share });
    return filled(sentence, { from: token(label("query", link[0])), to: token(label("key", link[1])) });
  }

  /** @param {number} layer @param {number} head */
  tell(layer, head) {
    this.querySelector(".told")?.replaceChildren(...this.words(layer, head));
  }

  mark() {
    const { layer, head, part, item } = state.now;
    const top =
      this.focusLink && this.focusLink.part === part && this.focusLink.item === item ? this.focusLink.top : [];
    const marked = new Map(top.map(([l, h, w]) => [`${l}.${h}`, w]));
    this.cells.forEach((row, i) =>
      row.forEach((cell, j) => {
        const on = i === layer && j === head;
        cell.setAttribute("aria-selected", String(on));
        cell.tabIndex = on ? 0 : -1;
        const share = marked.get(`${i}.${j}`);
        const strong = share !== undefined && Math.abs(share) >= 0.05 * topOf(partOf(part), i, item, j);
        cell.classList.toggle("linking", strong);
      }),
    );
    this.tell(layer, head);
    // Where the grid scrolls by itself, the chosen head is brought into it; the page stays where it is.
    const scroll = this.querySelector(".scroll"),
      cell = this.cells[layer]?.[head];
    if (!scroll || !cell) return;
    const outer = scroll.getBoundingClientRect(),
      inner = cell.getBoundingClientRect();
    if (inner.top < outer.top || inner.bottom > outer.bottom)
      scroll.scrollTop += inner.top - outer.top - outer.height / 2;
    if (inner.left < outer.left || inner.right > outer.right)
      scroll.scrollLeft += inner.left - outer.left - outer.width / 2;
  }

  /** The heads that link two tokens: those the page was made for, or those of the chosen cell. */
  renderLinks() {
    const { lang, query, key, part, item } = state.now;
    const container = this.querySelector(".links");
    if (!container) return;
    /** @type {HTMLElement[]} */
    const children = [];
    const nodes = (/** @type {number} */ i, /** @type {number} */ j) => ({
      from: token(label("query", i)),
      to: token(label("key", j)),
    });
    const heading =
      this.focusLink && this.focusLink.part === part && this.focusLink.item === item ? this.focusLink : null;
    if (heading) {
      const list = h("ol", {});
      const most = partOf(part).signed ? Math.max(...heading.top.map(([, , share]) => Math.abs(share))) || 1 : 1;
      for (const [layer, head, share] of heading.top) {
        list.append(
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                onclick: () => {
                  state.set({ layer, head, query: heading.query, key: heading.key });
                },
              },
              h("b", {}, `${partOf(part).layers[layer].number}.${head}`),
              h("span", { class: share < 0 ? "meter below" : "meter", style: `--share: ${Math.abs(share) / most}` }),
              weight(share, (heading === header.focus ? linkErrorOf : errorOf)(partOf(part), layer, item, head)),
            ),
          ),
        );
      }
      const title = filled(say(lang, "Heads that link {from} → {to}", { from: hole("from"), to: hole("to") }), nodes(heading.query, heading.key));
      const items =
        partOf(part).layers.some((_, i) => !isWhole(partOf(part), i)) && heading !== header.focus ? " " + say(lang, "(of the whole layers)") : "";
      children.push(h("h3", {}, ...title, items), list);
    }
    if (this.busy) children.push(h("p", { class: "help" }, say(lang, "Looking through the heads…")));
    else if (!(heading && heading.query === query && heading.key === key) && partOf(part).layers.some((_, i) => isWhole(partOf(part), i))) {
      const question = filled(say(lang, "Which heads link {from} → {to}?", { from: hole("from"), to: hole("to") }), nodes(query, key));
      children.push(h("button", { type: "button", class: "ask", onclick: () => this.find() }, ...question));
    }
    refill(container, ...children);
  }

  async find() {
    const { part, item, query, key, shown } = state.now;
    const isWanted = () => state.now.shown === shown && state.now.part === part && state.now.item === item;
    this.busy = true;
    this.renderLinks();
    try {
      const top = await source.linking(partOf(part), item, query, key, isWanted);
      if (state.now.shown !== shown) return;
      if (top) this.focusLink = { part, item, query, key, top: top.slice(0, MOST_LINKS) };
    } catch (error) {
      if (state.now.shown !== shown) return;
      this.querySelector(".told")?.replaceChildren(excuse(state.now.lang, error));
    }
    this.busy = false;
    this.renderLinks();
    this.mark();
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const at = /** @type {HTMLElement} */ (event.target).dataset.head;
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!at || !step) return;
    event.preventDefault();
    const [layer, head] = at.split(".").map(Number);
    const next = this.cells[layer + step[0]]?.[head + step[1]];
    if (!next) return;
    for (const row of this.cells) for (const cell of row) cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /** Draw the pictures in batches, so that the page stays responsive. */
  async draw() {
    const mine = ++this.drawing;
    const { item } = state.now;
    const part = partOf(state.now.part);
    await Promise.race([view().catch(() => {}), breathe(MOMENT)]); // the map that is looked at goes first
    await breathe();
    if (mine !== this.drawing) return;
    let until = performance.now() + 12;
    const layers = part.layers.map(async (_, layer) => {
      const { bytes } = await source.pictures(part, layer, item);
      if (mine !== this.drawing) return;
      const fresh = !this.come.has(layer);
      this.come.add(layer);
      if (fresh) this.name(layer);
      if (fresh && state.now.layer === layer) this.tell(layer, state.now.head);
      for (let head = 0; head < part.layers[layer].heads; head++) {
        this.picture(/** @type {HTMLCanvasElement} */ (this.cells[layer][head].firstElementChild), head, bytes);
        if (performance.now() <= until) continue;
        await breathe();
        if (mine !== this.drawing) return;
        until = performance.now() + 12;
      }
      this.cells[layer][0]?.parentElement?.removeAttribute("data-old");
      this.busyIfOld();
    });
    try {
      await Promise.all(layers);
    } catch (error) {
      if (mine === this.drawing) this.querySelector(".told")?.replaceChildren(excuse(state.now.lang, error));
    }
  }

  /** @param {HTMLCanvasElement} canvas @param {number} head @param {Uint8Array} bytes of its layer */
  picture(canvas, head, bytes) {
    const { theme, scale } = state.now;
    const part = partOf(state.now.part);
    const { full, zero } = palette(theme, part.signed);
    const { shares, rows, cols } = thumb(part, head, bytes);
    canvas.width = cols;
    canvas.height = rows;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = full[zero + level(shares[i], scale)];
    context.putImageData(image, 0, 0);
    canvas.dataset.drawn = "";
  }
}

/** @param {string} name */
function openPart(name) {
  const part = partOf(name),
    before = partOf(state.now.part);
  const { layer, head, item, query, key } = state.now;
  // Attention and mixers of one text: the same two tokens, in the other.
  const alike = String([part.queries, part.keys]) === String([before.queries, before.keys]);
  const stay = alike ? { item, query, key } : {};
  if (header.first.part === name) return state.set({ ...header.first, unit: state.now.unit, ...stay });
  const chosen = { layer: Math.min(layer, part.layers.length - 1), head };
  chosen.head = Math.min(head, part.layers[chosen.layer].heads - 1);
  const link = linkOf(part, 0, chosen.layer, chosen.head);
  state.set({ part: name, item: 0, ...chosen, query: link?.[0] ?? 0, key: link?.[1] ?? 0, ...stay });
}
customElements.define("qkv-overview", Overview);
