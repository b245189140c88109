// <qkv-overview>: every head of every layer as a small picture. Arrow keys move, Enter or a click opens one.

import { level, palette } from "./colour.js";
import { breathe, choice, filled, h, hole, refill, token, weight } from "./dom.js";
import { state } from "./state.js";
import { mark, say } from "./words.js";
import { errorOf, header, label, linking, openHeadAt, partOf, thumb, topOf } from "./view.js";

/** @type {Record<string, string>} */
const PARTS = { encoder: mark("Encoder"), decoder: mark("Decoder"), cross: mark("Cross"), mixers: mark("Mixers") };

export class Overview extends HTMLElement {
  /** @type {{ part: string, item: number, query: number, key: number, top: [number, number, number][] } | null} */
  focusLink = header?.focus ?? null;
  /** @type {HTMLElement[][]} */
  cells = [];
  drawing = 0;
  busy = false;

  connectedCallback() {
    this.focusLink = header.focus;
    state.listen((changed) => {
      if (["part", "item", "lang"].some((name) => changed.has(name))) this.render();
      else if (changed.has("theme") || changed.has("scale")) void this.draw();
      if (changed.has("layer") || changed.has("head")) this.mark();
      if (changed.has("query") || changed.has("key") || changed.has("unit")) this.renderLinks();
    });
    this.render();
  }

  render() {
    const { lang, part: name, item } = state.now;
    const part = partOf(name);
    const bar = h("div", { class: "bar" }, h("h2", {}, part.signed ? say(lang, "Mixer heads") : say(lang, "All heads")));
    if (header.parts.length > 1) {
      // Beside mixers, a decoder's layers are those that attend.
      const hybrid = header.parts.some((one) => one.signed);
      const named = (/** @type {string} */ part) => (hybrid && part === "decoder" ? mark("Attention") : PARTS[part]);
      const choices = header.parts.map((one) => /** @type {[string, string]} */ ([one.name, say(lang, named(one.name))]));
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
      class: part.layers.every((layer) => layer.q) ? "grid" : "grid partly",
      role: "grid",
      "aria-label": say(lang, "Heads: arrow keys move, Enter opens"),
      style: `--heads: ${heads}`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.move(event),
    });
    const numbers = h(
      "div",
      { class: "numbers", role: "row" },
      h("span", { role: "columnheader", "aria-label": say(lang, "Layer") }),
    );
    for (let i = 0; i < heads; i++) numbers.append(h("span", { role: "columnheader" }, i));
    grid.append(numbers);
    this.cells = part.layers.map((layer, i) => {
      const row = h("div", { role: "row", class: layer.q ? null : "pooled" }, h("span", { role: "rowheader" }, layer.number));
      const cells = Array.from({ length: layer.heads }, (_, j) => {
        const cell = h(
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
        cell.setAttribute(
          "aria-label",
          this.words(i, j)
            .map((node) => node.textContent)
            .join(""),
        );
        return cell;
      });
      row.append(...cells);
      grid.append(row);
      return cells;
    });
    refill(
      this,
      bar,
      h("p", { class: "help" }, say(lang, "A row per layer, a column per head. Each picture is a whole map: queries down, keys across."), part.signed ? " " + say(lang, "Blue is taken, red is taken away, each picture in its own scale.") : null),
      h("div", { class: "links" }),
      h("p", { class: "told" }),
      h("div", { class: "scroll" }, grid),
    );
    this.mark();
    this.renderLinks();
    void this.draw();
  }

  /** What a head does most, in words. @param {number} layer @param {number} head */
  words(layer, head) {
    const { lang, item } = state.now;
    const part = partOf(state.now.part);
    const name = say(lang, "layer {layer}, head {head}", { layer: part.layers[layer].number, head });
    const link = part.links[item][layer][head];
    if (!link) return filled(say(lang, part.signed ? mark("{name} · takes hardly anything but itself or special tokens") : mark("{name} · looks at the first token or at special ones"), { name }), {});
    const shown = weight(link[2], part.signed ? errorOf(part, layer, item, head) : 0);
    const sentence = say(lang, "{name} · most: {from} → {to} {weight}", { name, from: hole("from"), to: hole("to"), weight: shown });
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
    const place = this.querySelector(".links");
    if (!place) return;
    /** @type {HTMLElement[]} */
    const made = [];
    const nodes = (/** @type {number} */ i, /** @type {number} */ j) => ({
      from: token(label("query", i)),
      to: token(label("key", j)),
    });
    const shown =
      this.focusLink && this.focusLink.part === part && this.focusLink.item === item ? this.focusLink : null;
    if (shown) {
      const list = h("ol", {});
      const most = partOf(part).signed ? Math.max(...shown.top.map(([, , share]) => Math.abs(share))) || 1 : 1;
      for (const [layer, head, share] of shown.top) {
        list.append(
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                onclick: () => {
                  state.set({ layer, head, query: shown.query, key: shown.key });
                },
              },
              h("b", {}, `${partOf(part).layers[layer].number}.${head}`),
              h("span", { class: share < 0 ? "meter below" : "meter", style: `--share: ${Math.abs(share) / most}` }),
              weight(share, shown === header.focus && !partOf(part).signed ? 0 : errorOf(partOf(part), layer, item, head)),
            ),
          ),
        );
      }
      const title = filled(say(lang, "Heads that link {from} → {to}", { from: hole("from"), to: hole("to") }), nodes(shown.query, shown.key));
      const some =
        partOf(part).layers.some((layer) => !layer.q) && shown !== header.focus ? " " + say(lang, "(of the whole layers)") : "";
      made.push(h("h3", {}, ...title, some), list);
    }
    if (this.busy) made.push(h("p", { class: "help" }, say(lang, "Looking through the heads…")));
    else if (!(shown && shown.query === query && shown.key === key) && partOf(part).layers.some((layer) => layer.q)) {
      const asked = filled(say(lang, "Which heads link {from} → {to}?", { from: hole("from"), to: hole("to") }), nodes(query, key));
      made.push(h("button", { type: "button", class: "ask", onclick: () => this.find() }, ...asked));
    }
    refill(place, ...made);
  }

  async find() {
    const { part, item, query, key } = state.now;
    const wanted = () => state.now.part === part && state.now.item === item;
    this.busy = true;
    this.renderLinks();
    const top = await linking(wanted);
    this.busy = false;
    if (top) this.focusLink = { part, item, query, key, top };
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

  /** The pictures, a few at a time, so that the page answers meanwhile. */
  async draw() {
    const mine = ++this.drawing;
    const { part: name, item, theme, scale } = state.now;
    const part = partOf(name);
    const { full, zero } = palette(theme, part.signed);
    let until = performance.now() + 12;
    for (let layer = 0; layer < this.cells.length; layer++) {
      for (let head = 0; head < this.cells[layer].length; head++) {
        const { shares, rows, cols } = await thumb(part, layer, item, head);
        if (mine !== this.drawing) return;
        const canvas = /** @type {HTMLCanvasElement} */ (this.cells[layer][head].firstElementChild);
        canvas.width = cols;
        canvas.height = rows;
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
        const image = context.createImageData(cols, rows);
        const pixels = new Uint32Array(image.data.buffer);
        for (let i = 0; i < pixels.length; i++) pixels[i] = full[zero + level(shares[i], scale)];
        context.putImageData(image, 0, 0);
        canvas.dataset.drawn = "";
        if (performance.now() > until) {
          await breathe();
          until = performance.now() + 12;
        }
      }
    }
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
  const link = part.links[0][chosen.layer][chosen.head];
  state.set({ part: name, item: 0, ...chosen, query: link?.[0] ?? 0, key: link?.[1] ?? 0, ...stay });
}
customElements.define("qkv-overview", Overview);
