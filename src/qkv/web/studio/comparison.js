// <qkv-comparison>: two heads, texts or models side by side, their difference, and one crosshair for all three maps.

import { choice, h, layersAndHeads, markOld, weight } from "../core/dom.js";
import { failed, openModel, served, requestedSpec } from "./live_view.js";
import { StudioElement, redraw } from "./studio_element.js";
import { viewed } from "./served_source.js";
import { slider } from "../core/slider.js";
import { State } from "../core/state.js";
import { headCalled, headName, isTrace, studio, titleOf } from "./studio_state.js";
import { requestOne, calledOff, Refused, TAB } from "./server_client.js";
import { mark, say } from "../core/words.js";
import { header, partOf, View } from "../core/view.js";
import { MapElement } from "../map/map.js";
import { PARTS } from "../map/overview.js";

/** @import { Head } from "../core/attention.js" */
/** @import { ServedSource } from "./served_source.js" */
/** @import { Against, Here, Spec } from "./studio_state.js" */
/** @import { Part } from "../core/source.js" */
/** @import { Unit } from "../core/view.js" */

/** Which token of the one stands beside which of the other. @typedef {[number | null, number | null][]} Slots */
/** One side: a head, and what it is of. @typedef {{ name: string, head: Head, part: Part, queries: string[], keys: string[], special: [Set<number>, Set<number>], sinks: boolean[] }} Side */

const FULLY = 700; // tokens up to which the largest difference is looked for
const CHANGED = 12; // heads that are listed

/** @type {[Against["by"], string][]} */
const WHAT = [
  ["heads", mark("Two heads")],
  ["texts", mark("Two texts")],
  ["models", mark("Two models or checkpoints")],
];

export class Comparison extends StudioElement {
  fields = ["shown", "part", "item", "layer", "head", "sink", "against", "models", "opened"];
  /** The crosshair that the three maps share, and what is in view of them. */
  cross = new State({ ...studio.now });
  /** @type {MapElement[]} */
  maps = [];
  /** The other source. @type {{ key: string, source: ServedSource } | null} */
  other = null;
  /** @type {AbortController | null} */
  asking = null;
  /** How the tokens of both lie beside each other. @type {[Slots, Slots]} */
  slots = [[], []];
  /** @type {[number, number, number][]} */
  changed = [];
  asked = 0;
  /** What the maps show: both specs, the heads. */
  drawn = "";

  connectedCallback() {
    this.controls = h("div", { class: "controls" });
    this.names = ["", "", ""].map(() => h("h3", {}));
    this.maps = ["a", "b", "difference"].map((name) => {
      const map = /** @type {MapElement} */ (h("qkv-map", { class: "card", "data-side": name }));
      map.state = this.cross;
      map.look = () => new Promise(() => {});
      return map;
    });
    this.ranked = h("div", { class: "changes" });
    this.missing = h("div", { class: "offer", role: "status" });
    this.three = h("div", { class: "three", hidden: true }, ...this.maps.map((map, i) => h("section", {}, this.names?.[i], map)));
    this.drawn = "";
    this.replaceChildren(this.controls, this.missing, this.three, this.ranked);
    const share = () => {
      const { lang, theme, scale, sink, zoom } = studio.now;
      this.cross.set({ lang, theme, scale, sink, zoom });
    };
    share(); // it may have stood aside for a while
    studio.listen(share, this.ending.signal);
    this.cross.listen((changed) => {
      const { scale, sink, zoom } = this.cross.now;
      if (["scale", "sink", "zoom"].some((name) => changed.has(name))) studio.set({ scale, sink, zoom });
    }, this.ending.signal);
    studio.listen((changed) => (changed.has("query") || changed.has("key")) && this.follow(), this.ending.signal);
    this.cross.listen((changed) => (changed.has("query") || changed.has("key")) && this.lead(), this.ending.signal);
    super.connectedCallback();
  }

  /** Move the crosshair to the selection. */
  follow() {
    const { query, key } = studio.now;
    const at = (/** @type {Slots} */ slots, /** @type {number} */ index) => slots.findIndex(([i]) => i === index);
    const [u, c] = [at(this.slots[0], query), at(this.slots[1], key)];
    if (u >= 0 && c >= 0) this.cross.set({ query: u, key: c });
  }

  /** … and the rest of the studio goes with the crosshair, where both texts have the tokens. */
  lead() {
    const query = this.slots[0][this.cross.now.query]?.[0] ?? null,
      key = this.slots[1][this.cross.now.key]?.[0] ?? null;
    if (query !== null && key !== null) studio.set({ query, key });
  }

  disconnectedCallback() {
    this.asking?.abort();
    super.disconnectedCallback();
  }

  render() {
    if (!header || !served || !this.controls) return;
    const { lang, against } = studio.now;
    redraw(
      this.controls,
      h(
        "div",
        { class: "bar" },
        h("h2", {}, say(lang, "Compare")),
        choice(
          say(lang, "What is compared"),
          WHAT.map(([value, text]) => [value, say(lang, text)]),
          against.by,
          (value) => studio.set({ against: { ...studio.now.against, by: /** @type {Against["by"]} */ (value) } }),
        ),
      ),
      this[against.by](),
      this.bare ? h("p", { class: "help sink", role: "status" }, say(lang, "The sink is hidden in all three: the first token and special ones are taken out, every row is shared out anew among the rest, and the difference is of these.")) : null,
    );
    void this.load();
  }

  /** Is the sink hidden? A mixer's rows are no shares. */
  get bare() {
    return studio.now.sink === "hidden" && !partOf(studio.now.part).signed;
  }

  /** @param {Partial<Against>} to */
  change(to) {
    studio.set({ against: { ...studio.now.against, ...to } });
  }

  heads() {
    const { lang, against, part: name, pins } = studio.now;
    const part = partOf(name);
    const b = this.otherHead();
    const layers = h("select", { "aria-label": say(lang, "Layer"), "data-key": "layer", onchange: (/** @type {Event} */ event) => pick(Number(/** @type {HTMLSelectElement} */ (event.target).value), 0) });
    part.layers.forEach(({ number }, i) => layers.append(h("option", { value: i, selected: i === b.layer }, say(lang, "Layer {n}", { n: number }))));
    const numbers = h("select", { "aria-label": say(lang, "Head"), "data-key": "head", onchange: (/** @type {Event} */ event) => pick(b.layer, Number(/** @type {HTMLSelectElement} */ (event.target).value)) });
    for (let i = 0; i < part.layers[b.layer].heads; i++) numbers.append(h("option", { value: i, selected: i === b.head }, say(lang, "Head {n}", { n: i })));
    const pick = (/** @type {number} */ layer, /** @type {number} */ head) => this.change({ head: headName(part.name, layer, head) });
    return h(
      "div",
      { class: "line" },
      h("p", { class: "help" }, say(lang, "A is the chosen head; choose another in the overview. B:")),
      layers,
      numbers,
      ...pins.filter((pin) => pin !== against.head && headCalled(pin)?.part === name).map((pin) => h("button", { type: "button", class: "ask", "data-key": `pin ${pin}`, onclick: () => this.change({ head: pin }) }, `★ ${pin}`)),
    );
  }

  texts() {
    const { lang, against, text } = studio.now;
    return h(
      "div",
      { class: "line" },
      h("label", { class: "wide" }, h("span", { class: "help" }, say(lang, "A is the text above. B:")), h("input", { type: "text", dir: "auto", value: against.text || text, "data-key": "text", spellcheck: "false", onchange: (/** @type {Event} */ event) => this.change({ text: /** @type {HTMLInputElement} */ (event.target).value }) })),
      h("p", { class: "help" }, say(lang, "− is in A only, + in B only.")),
    );
  }

  models() {
    const { lang, against, models, model } = studio.now;
    const other = against.model || model;
    const able = models?.here.filter(({ kind }) => kind !== "trace") ?? [];
    const runOf = (/** @type {string} */ of) => able.find(({ name }) => name === of || (of.startsWith(name) && /^[@~]\d+$/.test(of.slice(name.length))));
    const select = h("select", { "aria-label": say(lang, "Model"), "data-key": "model", onchange: (/** @type {Event} */ event) => this.change({ model: /** @type {HTMLSelectElement} */ (event.target).value }) });
    for (const { name } of able) select.append(h("option", { value: name, selected: name === runOf(other)?.name }, titleOf(name)));
    const run = runOf(model);
    const watch = run?.watched.length && !model.includes("~") ? `${run.name}~` : null;
    return h(
      "div",
      { class: "line" },
      h("p", { class: "help" }, say(lang, "A is the model above. B:")),
      select,
      watch
        ? h("button", { type: "button", class: "ask", "data-key": "watch", onclick: () => this.watch(watch, run?.watched ?? []) }, say(lang, "All that it watched"))
        : null,
      this.over("A", model, runOf(model), (to) => void openModel(to)),
      this.over("B", other, runOf(other), (to) => this.change({ model: to })),
    );
  }

  /** What a run saw of its sentence: from the first step to the last. @param {string} before the name before the step @param {number[]} steps */
  watch(before, steps) {
    this.change({ model: before + steps[steps.length - 1] });
    void openModel(before + steps[0]);
  }

  /** A slider over the steps of a run: its checkpoints, or all that it watched. @param {string} side @param {string} of @param {Here | undefined} run @param {(to: string) => void} go */
  over(side, of, run, go) {
    const { lang } = studio.now;
    if (!run) return null;
    const sign = of.includes("~") ? "~" : "@";
    const steps = sign === "~" ? run.watched : run.checkpoints;
    if (steps.length < 2) return null;
    const at = of === run.name ? steps.length - 1 : Math.max(0, steps.indexOf(Number(of.slice(run.name.length + 1))));
    return slider(side, say(lang, "Checkpoint of {side}", { side }), steps.length - 1, at, (i) => say(lang, "step {n}", { n: steps[i] ?? "" }), (i) => go(`${run.name}${sign}${steps[i]}`));
  }

  /** The other head: the one named, else the next of the layer. */
  otherHead() {
    const { against, part, layer, head } = studio.now;
    const position = against.head ? headCalled(against.head) : null;
    return position && position.part === part ? position : { part, layer, head: (head + 1) % partOf(part).layers[layer].heads };
  }

  /** The other side of the comparison. @returns {Spec} */
  otherSpec() {
    const { against } = studio.now;
    const spec = requestedSpec();
    if (against.by === "texts") return { ...spec, text: against.text || spec.text, more: [] };
    if (against.by === "models") {
      const model = against.model || spec.model;
      // Generated tokens are ids of this model's vocabulary: another model reads them as text.
      const text = spec.more.length ? header.text : spec.text || header.text;
      return { ...spec, model, edits: [], more: [], text: isTrace(model) ? "" : text };
    }
    return spec;
  }

  async load() {
    const mine = ++this.asked;
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    const { part: name, item, layer, head, against, lang } = studio.now;
    const a = served;
    if (!a || !this.three) return;
    const spec = this.otherSpec();
    const at = against.by === "heads" ? this.otherHead() : { layer, head };
    const drawing = JSON.stringify([a.spec, spec, name, item, layer, head, at]);
    if (drawing !== this.drawn) {
      markOld(this.three, !this.three.hidden);
      redraw(/** @type {HTMLElement} */ (this.missing));
    }
    try {
      const same = JSON.stringify(spec) === JSON.stringify(a.spec);
      const b = same ? a : await this.source(spec, signal);
      const partA = a.header.parts.find((part) => part.name === name),
        partB = b?.header.parts.find((part) => part.name === name);
      if (mine !== this.asked || !partA || !b) return;
      if (!partB) return this.partMissing(a, b, name);
      if (at.layer >= partB.layers.length || at.head >= partB.layers[at.layer].heads) return this.headMissing(b, partA, partB);
      const changes = same ? null : await requestOne("changes", { do: "changes", a: a.spec, b: spec, part: name }, signal);
      const [first, second] = await Promise.all([a.head(partA, layer, item, head), b.head(partB, at.layer, item, at.head)]);
      if (mine !== this.asked) return;
      const sideA = sideOf(a, partA, first, item),
        sideB = sideOf(b, partB, second, item);
      const queries = /** @type {Slots} */ (changes?.slots ?? sideA.queries.map((_, i) => [i, i])),
        keys = /** @type {Slots} */ (changes?.keys ?? sideA.keys.map((_, i) => [i, i]));
      this.slots = [queries, keys];
      this.follow();
      const named = (/** @type {string} */ side, /** @type {number} */ l, /** @type {number} */ n) => `${side} · ${headName(name, l, n)}`;
      const titles = against.by === "heads" ? [named("A", layer, head), named("B", at.layer, at.head)] : against.by === "texts" ? ["A", "B"] : [`A · ${titleOf(a.spec.model)}`, `B · ${titleOf(spec.model)}`];
      [...titles, say(lang, "B − A: blue is more in B, red is less")].forEach((text, i) => this.names?.[i].replaceChildren(text));
      const views = threeOf(sideA, sideB, queries, keys, this.bare);
      const shared = [queries, keys].every((slots) => slots.some(([i, j]) => i !== null && j !== null));
      this.changed = shared ? (changes?.top ?? []) : []; // without a common token every difference is 0
      if (!shared) this.lacking(say(lang, "{a} and {b} split the text into different tokens and have none in common: A and B are shown side by side, without a difference.", { a: titleOf(a.spec.model), b: titleOf(b.spec.model) }));
      else if (this.missing) redraw(this.missing);
      this.drawn = drawing;
      this.three.hidden = false;
      markOld(this.three, false);
      /** @type {HTMLElement} */ (this.maps[2].parentElement).hidden = !shared;
      this.maps.forEach((map, i) => {
        map.look = async () => views[i];
        void map.load();
      });
      this.list(partA);
    } catch (error) {
      if (mine === this.asked && error instanceof Refused) this.nothing(error.said[/** @type {"en"} */ (lang)] ?? error.said.en);
      else if (!calledOff(error)) failed(error);
    }
  }

  /** Say what can't be compared, and offer what can. @param {string} sentence @param {[string, () => void][]} [offers] a button's text and what it does */
  lacking(sentence, offers = []) {
    if (!this.missing) return;
    redraw(this.missing, h("p", { class: "note" }, sentence), ...offers.map(([text, act]) => h("button", { type: "button", class: "ask", "data-key": text, onclick: act }, text)));
  }

  /** Nothing is drawn, for this reason. @param {string} sentence @param {[string, () => void][]} [offers] */
  nothing(sentence, offers) {
    this.drawn = "";
    if (this.three) {
      this.three.hidden = true;
      markOld(this.three, false);
    }
    if (this.ranked) redraw(this.ranked);
    this.lacking(sentence, offers);
  }

  /** B has no such part. @param {ServedSource} a @param {ServedSource} b @param {string} name */
  partMissing(a, b, name) {
    const { lang } = studio.now;
    const common = a.header.parts.filter((each) => b.header.parts.some((other) => other.name === each.name));
    const [sideA, sideB] = [a, b].map(({ spec }) => titleOf(spec.model));
    const parts = b.header.parts.map((each) => say(lang, PARTS[each.name])).join(", ");
    const values = { a: sideA, b: sideB, part: say(lang, PARTS[name]), parts };
    if (common.length)
      return this.nothing(
        say(lang, "{b} has no part “{part}”, only: {parts}. Maps of different parts can't be compared.", values),
        common.map((each) => [say(lang, "Compare “{part}”", { part: say(lang, PARTS[each.name]) }), () => studio.set({ part: each.name, item: 0, layer: 0, head: 0, query: 0, key: 0 })]),
      );
    this.nothing(
      say(lang, "{a} and {b} have no part in common: A shows “{part}”, and B only has: {parts}. Choose a model of the same kind for B, or compare within {a}.", values),
      WHAT.slice(0, 2).map(([by, text]) => [say(lang, text), () => this.change({ by })]),
    );
  }

  /** B has fewer layers or heads. @param {ServedSource} b @param {Part} partA @param {Part} partB */
  headMissing(b, partA, partB) {
    const { lang, layer, head } = studio.now;
    const near = Math.min(layer, partB.layers.length - 1);
    const nearest = { layer: near, head: Math.min(head, partB.layers[near].heads - 1, partA.layers[near].heads - 1) };
    const layers = partB.layers.length,
      heads = Math.max(...partB.layers.map((layer) => layer.heads));
    const size = layersAndHeads(lang, layers, heads);
    const name = headName(partA.name, nearest.layer, nearest.head);
    this.nothing(say(lang, "{b} has no head {name}: it has {size} (counted from 0).", { b: titleOf(b.spec.model), name: headName(partA.name, layer, head), size }), [[say(lang, "Compare head {name} of both", { name }), () => studio.set(nearest)]]);
  }

  /** @param {Spec} spec @param {AbortSignal} signal */
  async source(spec, signal) {
    const key = JSON.stringify(spec);
    if (this.other?.key === key) return this.other.source;
    const source = await viewed(spec, `${TAB}-beside`, signal, () => {});
    if (source) this.other = { key, source };
    return source;
  }

  /** The heads that differ most between the two. @param {Part} part */
  list(part) {
    const { lang } = studio.now;
    if (!this.ranked) return;
    if (!this.changed.length) return redraw(this.ranked);
    const most = this.changed[0][2] || 1;
    redraw(
      this.ranked,
      h("h3", {}, say(lang, "Heads that changed most")),
      h("p", { class: "help" }, say(lang, "How much of a row's attention went elsewhere, on average over the rows that both have.")),
      this.bare ? h("p", { class: "help" }, say(lang, "Here the sink counts as well.")) : null,
      h(
        "ol",
        { class: "ranking" },
        ...this.changed.slice(0, CHANGED).map(([layer, head, distance]) =>
          h(
            "li",
            {},
            h(
              "button",
              { type: "button", class: "head", "data-key": `${layer}.${head}`, onclick: () => studio.set({ layer, head }) },
              h("b", {}, headName(part.name, layer, head)),
              h("span", { class: "meter", style: `--share: ${distance / most}` }),
              h("span", { class: "number" }, weight(distance)),
            ),
          ),
        ),
      ),
    );
  }
}

/** @param {ServedSource} source @param {Part} part @param {Head} head @param {number} item @returns {Side} */
function sideOf(source, part, head, item) {
  const queries = source.tokens[part.queries[item]],
    keys = source.tokens[part.keys[item]];
  const special = new Set(keys.special);
  const sinks = keys.labels.map((_, j) => special.has(j) || (j === 0 && part.name !== "cross"));
  return { name: part.name, head, part, queries: queries.labels, keys: keys.labels, special: [new Set(queries.special), special], sinks };
}

/** The views of both, and of what the second has more than the first. @param {Side} a @param {Side} b @param {Slots} queries @param {Slots} keys @param {boolean} bare without the sink */
export function threeOf(a, b, queries, keys, bare) {
  const steps = (/** @type {Slots} */ slots, /** @type {string[]} */ firstLabels, /** @type {string[]} */ secondLabels, /** @type {0 | 1} */ axis) =>
    slots.map(([i, j], at) => {
      const first = i === null ? null : firstLabels[i],
        second = j === null ? null : secondLabels[j];
      const text = first === null ? `+${second}` : second === null ? `−${first}` : first === second ? first : `${first} | ${second}`;
      const range = i === j ? String(i) : [i, j].map((index) => index ?? "–").join(" | ");
      return /** @type {Unit} */ ({ label: text, places: range, first: at, end: at + 1, lone: i === null || j === null, special: (i !== null && a.special[axis].has(i)) || (i === null && j !== null && b.special[axis].has(j)) });
    });
  const down = steps(queries, a.queries, b.queries, 0),
    across = steps(keys, a.keys, b.keys, 1);
  const row = (/** @type {Side} */ side, /** @type {0 | 1} */ which, /** @type {number} */ at, /** @type {Float32Array} */ weights, /** @type {Uint8Array} */ seen) => {
    weights.fill(0);
    seen.fill(0);
    const i = queries[at][which];
    if (i === null) return;
    const full = side.head.row(i);
    keys.forEach((slot, c) => {
      const j = slot[which];
      if (j === null) return;
      weights[c] = full.weights[j];
      seen[c] = full.seen[j];
    });
  };
  const width = across.length;
  const kind = a.part.signed ? "mixer" : "shares",
    shares = !a.part.signed;
  const withoutOf = (/** @type {Side} */ side, /** @type {0 | 1} */ which) => (bare ? Uint8Array.from(keys, (slot) => Number(side.sinks[slot[which] ?? -1] ?? false)) : null);
  const single = (/** @type {Side} */ side, /** @type {0 | 1} */ which) =>
    new View({ kind, queries: down, keys: across, width, top: side.head.top, error: side.head.error, without: withoutOf(side, which), compute: (at, weights, seen) => row(side, which, at, weights, seen) });
  const [first, second] = [single(a, 0), single(b, 1)];
  // What only one of the two has, or keeps, can't be compared.
  const without = bare ? Uint8Array.from(keys, (_, c) => Number(first.without?.[c] || second.without?.[c])) : null;
  const compute = (/** @type {number} */ at, /** @type {Float32Array} */ weights, /** @type {Uint8Array} */ seen) => {
    const less = first.row(at),
      more = second.row(at);
    across.forEach(({ lone }, c) => {
      const both = !down[at].lone && !lone && !without?.[c];
      weights[c] = both ? more.weights[c] - less.weights[c] : 0;
      seen[c] = both ? more.seen[c] | less.seen[c] : 0;
    });
    return less.error + more.error;
  };
  let top = 1;
  if (Math.max(queries.length, width) <= FULLY) {
    const firstLabels = { weights: new Float32Array(width), seen: new Uint8Array(width) };
    top = 0;
    for (let at = 0; at < queries.length; at++) {
      compute(at, firstLabels.weights, firstLabels.seen);
      for (const w of firstLabels.weights) top = Math.max(top, Math.abs(w));
    }
  }
  const difference = new View({ kind: "difference", queries: down, keys: across, width, top: top || 1, shares, without, compute });
  return [first, second, difference];
}
customElements.define("qkv-comparison", Comparison);
