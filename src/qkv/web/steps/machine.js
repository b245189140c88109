// <qkv-machine>: one head with small numbers. Inputs can be edited and all later stages are updated; the formula and the tables
// highlight each other, and a line explains the focused or hovered number.

import { factorOf, stagesOf } from "../core/arithmetic.js";
import { level, painted, palette } from "../core/colour.js";
import { choice, h, refill } from "../core/dom.js";
import { computedText, inputText, spelled } from "./arithmetic_text.js";
import { state } from "../core/state.js";
import { mark, say } from "../core/words.js";

/** @import { Given, Scale, Stages, Table } from "../core/arithmetic.js" */

/**
 * @typedef {object} MachineNumbers
 * @property {string[]} words
 * @property {string[]} keys
 * @property {Given} given
 * @property {boolean[][]} mask true = may attend
 * @property {Scale} scale
 * @property {string[]} show stages
 * @property {number | null} query the row that is lit at first
 * @property {number} digits of what is computed
 */
/** A table, a row and a column. @typedef {[string, number, number]} Cell */

const HUGE = 1e6; // a number that can be followed

/** The tables of each stage. @type {Record<string, string[]>} */
const TABLES = {
  x: ["x", "memory"],
  w: ["w_q", "w_k", "w_v"],
  qkv: ["q", "k", "v"],
  scores: ["scores"],
  scaled: ["scaled"],
  masked: ["mask", "masked"],
  weights: ["weights"],
  output: ["output"],
};
/** @type {Record<string, string>} */
const NAMES = {
  x: mark("Words X"),
  memory: mark("Other text Y"),
  w_q: "W_Q",
  w_k: "W_K",
  w_v: "W_V",
  q: mark("Queries Q"),
  k: mark("Keys K"),
  v: mark("Values V"),
  scores: mark("Scores"),
  scaled: mark("Scaled"),
  mask: mark("Mask"),
  masked: mark("Masked"),
  weights: mark("Weights"),
  output: mark("Output"),
};
/** The parts of the formula that a table belongs to; most are called as it is. @type {Record<string, string[]>} */
const PARTS_OF = { x: ["q", "k", "v"], memory: ["k", "v"], w_q: ["q"], w_k: ["k"], w_v: ["v"], mask: ["masked"] };

export class MachineElement extends HTMLElement {
  /** @type {MachineNumbers} */
  told = { words: [], keys: [], given: {}, mask: [], scale: "sqrt", show: [], query: null, digits: 2 };
  /** What is in force. @type {{ given: Given, mask: boolean[][], scale: Scale }} */
  now = { given: {}, mask: [], scale: "sqrt" };
  /** The changes at the last event. */
  saved = "";
  /** @type {Stages} */
  stages = { scores: [], scaled: [], masked: [], weights: [] };
  /** The cells, by name: table.row.column. @type {Map<string, HTMLElement>} */
  cells = new Map();
  /** What is pointed at, and what has the focus. @type {{ over: Cell | null, focus: Cell | null }} */
  at = { over: null, focus: null };

  connectedCallback() {
    if (this.cells.size) return; // put elsewhere, it keeps what was changed
    this.addEventListener("pointerover", (event) => this.point(event.target));
    this.addEventListener("pointerleave", () => this.point(null));
    this.addEventListener("focusin", (event) => this.enter(/** @type {HTMLElement} */ (event.target)));
    this.addEventListener("focusout", () => this.leave());
    this.addEventListener("keydown", (event) => this.key(event));
    state.listen((changed) => {
      if (changed.has("lang")) this.build();
      else if (changed.has("theme")) this.fill();
    });
    this.restore();
  }

  /** Everything as it was given. */
  restore() {
    const { given, mask, scale } = this.told;
    this.now = structuredClone({ given, mask, scale });
    this.build();
  }

  build() {
    const { lang } = state.now;
    this.cells.clear();
    this.at = { over: null, focus: null };
    this.compute();
    const sections = this.told.show.map((stage) => {
      const tables = TABLES[stage].filter((name) => name === "mask" || this.table(name));
      return h("section", { "data-stage": stage }, ...tables.map((name) => this.grid(name)));
    });
    // What is computed from queries and keys begins on a line of its own; where there is little room, what the mask leaves too.
    const line = (/** @type {string} */ kind, /** @type {string[]} */ stages) => {
      const at = sections.findIndex(({ dataset }) => stages.includes(dataset.stage ?? ""));
      if (at > 0) sections.splice(at, 0, h("hr", { class: kind }));
    };
    line("", ["scores", "scaled", "masked", "weights"]);
    if (this.told.show.includes("masked") && this.told.show.includes("scaled")) line("narrow", ["weights"]);
    this.replaceChildren(
      h(
        "div",
        { class: "bar" },
        h("div", { class: "equation", role: "group", "aria-label": say(lang, "The formula: each part lights up where it is computed") }),
        h(
          "div",
          { class: "again" },
          h("span", { class: "changed", role: "status", "aria-live": "polite" }),
          h("button", { type: "button", class: "ask reset", onclick: () => this.reset() }, say(lang, "Reset")),
        ),
      ),
      h("div", { class: "stages" }, ...sections),
      h("p", { class: "nothing", role: "status" }),
      h("p", { class: "sum", id: "qkv-sum" }),
      h("div", { class: "unseen", "aria-live": "polite", role: "status", id: "qkv-live" }),
    );
    this.formula();
    this.fill();
  }

  /** What was changed, so that a link can say it: x.2.0:3,mask.0.1:1,scale:none. */
  get changes() {
    const { given, mask, scale } = this.now;
    const list = Object.entries({ ...given, mask }).flatMap(([name, table]) =>
      table.flatMap((row, i) => row.flatMap((x, j) => (x === this.before(name)?.[i]?.[j] ? [] : [`${name}.${i}.${j}:${Number(x)}`]))),
    );
    return [...list, ...(scale === this.told.scale ? [] : [`scale:${scale}`])].join();
  }

  /** A table as it was given. @param {string} name @returns {(number | boolean)[][] | undefined} */
  before(name) {
    return name === "mask" ? this.told.mask : /** @type {Record<string, Table>} */ (this.told.given)[name];
  }

  /** Apply earlier changes where they are valid here. @param {string} changes */
  redo(changes) {
    for (const change of changes.split(",")) {
      const [id, text] = change.split(":");
      const [name, i, j] = positionOf(id);
      const x = read(text ?? "");
      if (id === "scale") {
        const scaling = this.scales().find(([value]) => value === text);
        if (scaling) this.now.scale = scaleOf(scaling[0]);
      } else if (x !== null && this.before(name)?.[i]?.[j] !== undefined) {
        if (name === "mask") this.now.mask[i][j] = x !== 0;
        else /** @type {Record<string, Table>} */ (this.now.given)[name][i][j] = x;
      }
    }
    this.build();
  }

  reset() {
    this.restore();
    // The button is of no use now; the focus goes to where one would begin again, and the text around a figure stays put.
    /** @type {HTMLElement | null} */ (this.querySelector("section [tabindex='0']"))?.focus({ preventScroll: true });
  }

  compute() {
    this.stages = stagesOf(this.now.given, this.now.mask, this.now.scale);
  }

  /** The width of a query; null where only scores are given. */
  get width() {
    return this.stages.q ? this.stages.q[0].length : null;
  }

  /** The numbers of a table, given or computed. @param {string} name @returns {Table | undefined} */
  table(name) {
    const every = /** @type {Record<string, Table | undefined>} */ ({ ...this.stages, ...this.now.given });
    return every[name];
  }

  /** @param {string} name */
  isGiven(name) {
    return name === "mask" || name in this.now.given;
  }

  /** What the rows and columns of a table are called. @param {string} name @param {Table | boolean[][]} table @returns {[string[], string[]]} */
  axes(name, table) {
    const { words, keys } = this.told;
    const numbers = (/** @type {ArrayLike<any>} */ list) => Array.from(list, (_, c) => String(c + 1));
    const down = name.startsWith("w_") ? numbers(table) : ["k", "v", "memory"].includes(name) ? keys : words;
    return [down, ["scores", "scaled", "mask", "masked", "weights"].includes(name) ? keys : numbers(table[0])];
  }

  /** A table with its heading. @param {string} name */
  grid(name) {
    const { lang } = state.now;
    const table = name === "mask" ? this.now.mask : /** @type {Table} */ (this.table(name));
    const [down, across] = this.axes(name, table);
    const title = say(lang, NAMES[name]);
    const head = h("tr", {}, h("td", {}), ...across.map((text) => h("th", { scope: "col" }, h("bdi", {}, text))));
    const body = h("tbody", {});
    down.forEach((word, i) =>
      body.append(
        h(
          "tr",
          { class: i === this.told.query && !name.startsWith("w_") && !["k", "v", "memory", "x"].includes(name) ? "chosen" : null },
          h("th", { scope: "row" }, h("bdi", {}, word)),
          ...across.map((column, j) => this.cell(name, i, j, say(lang, "{table}, row {row}, column {column}", { table: title, row: word, column }))),
        ),
      ),
    );
    return h(
      "div",
      { class: "table", "data-table": name },
      h("h2", {}, h("span", {}, ...raised(title)), h("small", {}, ...this.made(name))),
      h("div", { class: "scroll" }, h("table", { role: "grid", "aria-label": title, "aria-readonly": !this.isGiven(name) }, h("thead", {}, head), body)),
    );
  }

  /** What a table is made of, in signs; for the scaled scores the choice of how. @param {string} name @returns {import("../core/dom.js").Child[]} */
  made(name) {
    if (this.isGiven(name) && name !== "mask") return [];
    const source = name !== "q" && this.now.given.memory ? "Y" : "X";
    const letter = name.toUpperCase();
    if (["q", "k", "v"].includes(name)) return raised(`w_${name}` in this.now.given ? `${source}·W_${letter}` : `= ${source}`);
    if (name === "scaled") return [h("span", { class: "scaling" })];
    /** @type {Record<string, string>} */
    const signs = { scores: "Q·Kᵀ", weights: "softmax" };
    if (name === "output") return [say(state.now.lang, "weights·V")];
    if (name === "mask") return [say(state.now.lang, "■ may look")];
    return signs[name] ? [signs[name]] : [];
  }

  /** @param {string} name @param {number} i @param {number} j @param {string} label */
  cell(name, i, j, label) {
    const id = `${name}.${i}.${j}`;
    const first = i === 0 && j === 0;
    const common = { "data-cell": id, tabindex: first ? 0 : -1 };
    let element;
    if (name === "mask") {
      element = h("button", { ...common, type: "button", "aria-label": label, onclick: () => this.toggle(i, j) });
    } else if (this.isGiven(name)) {
      // No inputmode: some number pads have no minus sign.
      element = h("input", {
        ...common,
        "aria-label": label,
        type: "text",
        size: 1, // its column is as wide as its numbers need, not as a field usually is
        autocomplete: "off",
        spellcheck: "false",
        enterkeyhint: "done",
        oninput: () => this.edit(name, i, j),
        onchange: () => this.settle(name, i, j),
      });
    } else {
      element = h("td", { ...common, role: "gridcell", "data-label": label });
    }
    this.cells.set(id, element);
    return element.localName === "td" ? element : h("td", { role: "gridcell" }, element);
  }

  /** Write every number into its cell. */
  fill() {
    const { digits, words } = this.told;
    const { lang, theme } = state.now;
    const { full } = palette(theme);
    for (const [id, cell] of this.cells) {
      const [name, i, j] = positionOf(id);
      const hidden = !this.now.mask[i]?.[j] && ["masked", "weights"].includes(name);
      if (name === "mask") {
        const open = this.now.mask[i][j];
        cell.textContent = open ? "■" : "·";
        cell.setAttribute("aria-pressed", String(open));
        cell.classList.toggle("edited", open !== this.told.mask[i][j]);
        continue;
      }
      const x = /** @type {Table} */ (this.table(name))[i][j];
      if (cell instanceof HTMLInputElement) {
        const before = /** @type {Record<string, Table>} */ (this.told.given)[name][i][j];
        if (cell !== document.activeElement || !cell.value) cell.value = inputText(x, digits);
        cell.classList.toggle("edited", x !== before);
        cell.style.setProperty("--signs", String(Math.max(4, Math.min(cell.value.length, 9))));
        continue;
      }
      const text = computedText(x, digits);
      cell.textContent = text;
      cell.setAttribute("aria-label", `${cell.dataset.label}: ${text}${hidden ? ` (${say(lang, "hidden")})` : ""}`);
      cell.classList.toggle("hidden", hidden);
      if (name !== "weights") continue;
      Object.assign(cell.style, hidden ? { backgroundColor: "", color: "" } : painted(full[level(x, "root")]));
    }
    const blind = words.filter((_, i) => !this.now.mask[i].some(Boolean));
    const nothing = /** @type {HTMLElement} */ (this.querySelector(".nothing"));
    nothing.textContent = blind.map((from) => say(lang, "{from} may look at nothing: its weights and its output are 0", { from })).join(" · ");
    const edited = this.changes !== "";
    const changed = /** @type {HTMLElement} */ (this.querySelector(".changed"));
    const status = edited ? say(lang, "changed") : "";
    if (changed.textContent !== status) changed.textContent = status;
    this.querySelector(".reset")?.toggleAttribute("disabled", !edited);
    this.scaling();
    this.light();
    if (this.changes === this.saved) return;
    this.saved = this.changes;
    this.dispatchEvent(new CustomEvent("changed", { bubbles: true, detail: this.saved }));
  }

  /** What scores may be multiplied by, and how that is written. @returns {[string, string][]} */
  scales() {
    const { scale } = this.told;
    /** @type {[string, string][]} */
    const choices = this.width === null ? [["none", "÷ 1"]] : [["sqrt", "÷ √d"], ["none", "÷ 1"], ["width", "÷ d"]];
    return typeof scale === "number" ? [...choices, [String(scale), `× ${inputText(scale, 4)}`]] : choices;
  }

  /** The choice of what scores are divided by. */
  scaling() {
    const container = this.querySelector(".scaling");
    if (!container) return;
    const { lang } = state.now;
    refill(
      container,
      choice(say(lang, "Scaling"), this.scales(), String(this.now.scale), (value) => {
        this.now.scale = scaleOf(value);
        this.compute();
        this.formula();
        this.fill();
      }),
    );
  }

  /** @param {number} i @param {number} j */
  toggle(i, j) {
    this.now.mask[i][j] = !this.now.mask[i][j];
    this.compute();
    this.fill();
    this.speak();
  }

  /** What is typed counts at once; what is no number is marked, and the last good one stays in force. @param {string} name @param {number} i @param {number} j */
  edit(name, i, j) {
    const cell = /** @type {HTMLInputElement} */ (this.cells.get(`${name}.${i}.${j}`));
    const x = read(cell.value);
    cell.setAttribute("aria-invalid", String(x === null));
    const table = /** @type {Record<string, Table>} */ (this.now.given)[name];
    if (x === null) {
      this.light();
      this.say(say(state.now.lang, "not a number: {number} stays in force", { number: inputText(table[i][j], this.told.digits) }));
      return;
    }
    table[i][j] = x;
    this.compute();
    this.fill();
  }

  /** After typing: the number in force is what is shown. @param {string} name @param {number} i @param {number} j */
  settle(name, i, j) {
    const cell = /** @type {HTMLInputElement} */ (this.cells.get(`${name}.${i}.${j}`));
    cell.value = inputText(/** @type {Table} */ (this.table(name))[i][j], this.told.digits);
    cell.setAttribute("aria-invalid", "false");
    this.light();
  }

  /** The formula, as far as its stages are here. */
  formula() {
    const { lang } = state.now;
    const { q, v } = this.stages;
    const { scale } = this.now;
    const isShown = (/** @type {string} */ table) => this.querySelector(`[data-table="${table}"]`) !== null;
    const part = (/** @type {string} */ table, /** @type {string} */ text, kind = "") => {
      if (!isShown(table)) return h("span", { class: kind || null }, text);
      const name = say(lang, NAMES[table]);
      return h("button", { type: "button", class: kind || null, "data-part": table, tabindex: -1, "aria-label": text === name ? null : `${text}: ${name}` }, text);
    };
    /** @type {Record<string, string>} */
    const below = { sqrt: "√d", none: "1", width: "d" };
    const under = below[String(scale)];
    const scores = q ? h("span", { class: "product" }, part("q", "Q"), part("scores", "·", "dot"), part("k", "Kᵀ")) : part("scores", say(lang, "Scores"));
    const scaled =
      q && under !== undefined
        ? h("span", { class: "fraction" }, scores, part("scaled", under))
        : h("span", { class: "product" }, scores, q || typeof scale === "number" ? part("scaled", `× ${inputText(factorOf(scale, this.width), 4)}`) : null);
    const inner = [scaled, isShown("mask") ? h("i", {}, "+") : null, isShown("mask") ? part("masked", "M") : null];
    const container = /** @type {HTMLElement} */ (this.querySelector(".equation"));
    const focusedPart = document.activeElement instanceof HTMLElement && container.contains(document.activeElement) ? document.activeElement.dataset.part : null;
    container.replaceChildren(
      part("weights", "softmax"),
      h("b", {}, "("),
      ...inner.filter((node) => node !== null),
      h("b", {}, ")"),
      ...(v ? [part("output", "·", "dot"), part("v", "V")] : []),
    );
    const buttons = /** @type {HTMLElement[]} */ ([...container.querySelectorAll("button")]);
    const again = buttons.find((button) => button.dataset.part === focusedPart) ?? buttons[0];
    if (again) again.tabIndex = 0;
    if (focusedPart) again?.focus();
  }

  /** @param {EventTarget | null} target */
  point(target) {
    const element = target instanceof Element ? target : null;
    const cell = element?.closest("td")?.querySelector("[data-cell]") ?? element?.closest("[data-cell]");
    this.at.over = cell instanceof HTMLElement ? positionOf(cell.dataset.cell ?? "") : null;
    const table = element?.closest("[data-table]"),
      part = element?.closest("[data-part]");
    this.light(part instanceof HTMLElement ? part.dataset.part : table instanceof HTMLElement ? table.dataset.table : undefined);
  }

  /** @param {HTMLElement} target */
  enter(target) {
    this.at.focus = target.dataset.cell ? positionOf(target.dataset.cell) : null;
    this.at.over = null;
    const group = target.closest("table, .equation");
    if (group && (target.dataset.cell || target.dataset.part)) {
      for (const other of group.querySelectorAll("[tabindex='0']")) other.setAttribute("tabindex", "-1");
      target.tabIndex = 0;
    }
    if (target instanceof HTMLInputElement) target.select();
    this.light(target.dataset.part);
    this.speak();
  }

  leave() {
    this.at.focus = null;
    this.light();
  }

  /** Highlight a cell, its sources, its table and its part of the formula. @param {string} [table] that is pointed at */
  light(table) {
    const cell = this.at.over ?? this.at.focus;
    const name = table ?? cell?.[0];
    for (const lit of this.querySelectorAll(".lit, .here")) lit.classList.remove("lit", "here");
    if (name) {
      const tables = name === "masked" ? ["mask", "masked"] : [name];
      for (const each of tables) this.querySelector(`[data-table="${each}"]`)?.classList.add("lit");
      for (const part of PARTS_OF[name] ?? [name]) this.querySelector(`[data-part="${part}"]`)?.classList.add("lit");
    }
    const line = /** @type {HTMLElement} */ (this.querySelector(".sum"));
    const { query, show } = this.told;
    const active = cell ?? (query === null ? null : this.first(query, show));
    if (!active) return line.replaceChildren(say(state.now.lang, "Point at a number, or move to it with the arrow keys: here stands how it comes about."));
    if (cell) {
      this.cells.get(cell.join("."))?.closest("td")?.classList.add("here");
      for (const source of this.sources(cell)) this.cells.get(source.join("."))?.closest("td")?.classList.add("lit");
    }
    line.replaceChildren(...raised(this.explained(active)));
  }

  /** The cell that is spelled out before anything is pointed at: of the row asked for, where it looks most. @param {number} query @param {string[]} show @returns {Cell | null} */
  first(query, show) {
    if (show.includes("output")) return ["output", query, 0];
    const row = this.stages.weights[query];
    return show.includes("weights") ? ["weights", query, row.indexOf(Math.max(...row))] : null;
  }

  /** The cells that a cell was computed from. @param {Cell} cell @returns {Cell[]} */
  sources([name, i, j]) {
    const all = (/** @type {string} */ table, /** @type {"row" | "column"} */ axis, /** @type {number} */ which) =>
      (this.table(table) ?? []).flatMap((row, r) => (axis === "row" && r !== which ? [] : axis === "row" ? row.map((_, c) => /** @type {Cell} */ ([table, r, c])) : [/** @type {Cell} */ ([table, r, which])]));
    if (this.isGiven(name)) return [];
    const source = name !== "q" && this.now.given.memory ? "memory" : "x";
    if (["q", "k", "v"].includes(name))
      return `w_${name}` in this.now.given ? [...all(source, "row", i), ...all(`w_${name}`, "column", j)] : [[source, i, j]];
    if (name === "scores") return [...all("q", "row", i), ...all("k", "row", j)];
    if (name === "scaled") return [["scores", i, j]];
    if (name === "masked") return [["scaled", i, j], ["mask", i, j]];
    if (name === "weights") return this.told.show.includes("masked") ? all("masked", "row", i) : this.told.show.includes("scaled") ? all("scaled", "row", i) : all("scores", "row", i);
    return [...all("weights", "row", i), ...all("v", "column", j)];
  }

  /** A cell in words and signs. @param {Cell} cell */
  explained([name, i, j]) {
    const { lang } = state.now;
    const { digits, words, keys } = this.told;
    const { given, mask, scale } = this.now;
    const input = this.cells.get(`${name}.${i}.${j}`);
    const [down, across] = this.axes(name, name === "mask" ? mask : /** @type {Table} */ (this.table(name)));
    const title = `${say(lang, NAMES[name])} [${down[i]}, ${across[j]}]`;
    if (input?.getAttribute("aria-invalid") === "true") {
      const number = inputText(/** @type {Table} */ (this.table(name))[i][j], digits);
      return `${title}  ${say(lang, "not a number: {number} stays in force", { number })}`;
    }
    const sum = spelled({ lang, digits, words, keys, given, stages: this.stages, mask, scale }, name, i, j);
    return `${title}  ${sum || say(lang, "given: change it, and everything after it follows")}`;
  }

  /** Say aloud what the focused cell is. */
  speak() {
    const cell = this.at.focus;
    if (cell && !(this.cells.get(cell.join(".")) instanceof HTMLInputElement)) this.say(this.explained(cell).replace(/\^\{([^}]*)\}/g, "^$1"));
  }

  /** @param {string} text */
  say(text) {
    const live = this.querySelector("#qkv-live");
    if (live && live.textContent !== text) live.textContent = text;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target instanceof HTMLInputElement && target.dataset.cell) {
      if (event.key === "Enter") return target.select();
      if (event.key === "Escape") return this.settle(...positionOf(target.dataset.cell));
      // Within a number the arrows move the caret, until they leave it.
      const { selectionStart: start, selectionEnd: end, value } = target;
      const whole = start === 0 && end === value.length;
      if (event.shiftKey || (event.key === "ArrowLeft" && !whole && !(start === 0 && end === 0))) return;
      if (event.key === "ArrowRight" && !whole && !(start === value.length)) return;
    }
    if (!step) return;
    if (target.dataset.part) {
      const buttons = /** @type {HTMLElement[]} */ ([...this.querySelectorAll(".equation button")]);
      const next = buttons[buttons.indexOf(target) + (step[0] || step[1])];
      event.preventDefault();
      return next?.focus();
    }
    if (!target.dataset.cell) return;
    const [name, i, j] = positionOf(target.dataset.cell);
    event.preventDefault();
    this.cells.get(`${name}.${i + step[0]}.${j + step[1]}`)?.focus();
  }
}

/** @param {string} value @returns {Scale} */
const scaleOf = (value) => (Number.isNaN(Number(value)) ? /** @type {Scale} */ (value) : Number(value));

/** @param {string} id @returns {Cell} */
function positionOf(id) {
  const [name, i, j] = id.split(".");
  return [name, Number(i), Number(j)];
}

/** A number that somebody typed, with any minus and any point; null where it is none, or too large to follow. @param {string} typed */
function read(typed) {
  const text = typed.normalize("NFKC").trim().replace(/[−–—]/g, "-").replace(/[,。]/, ".");
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?$/i.test(text)) return null;
  const x = Number(text);
  return Math.abs(x) <= HUGE ? x + 0 : null;
}

/** Text with what stands in ^{…} raised and what follows an underscore lowered. @param {string} text @returns {Node[]} */
function raised(text) {
  return text.split(/(\^\{[^}]*\}|_[A-Z])/).map((piece) => {
    if (piece.startsWith("^{")) return h("sup", {}, piece.slice(2, -1));
    return /^_[A-Z]$/.test(piece) ? h("sub", {}, piece[1]) : document.createTextNode(piece);
  });
}

customElements.define("qkv-machine", MachineElement);
