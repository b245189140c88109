// <qkv-generator>: generates token by token. The bars show how temperature, top-k and top-p cut the distribution; clicking a bar
// selects that token.

import { announce, filled, h, hole, markOld, token } from "../core/dom.js";
import { failed, look, settled } from "./live_view.js";
import { percent, StudioElement, redraw } from "./studio_element.js";
import { slider } from "../core/slider.js";
import { isTrace, specNow, studio } from "./studio_state.js";
import { requestOne, calledOff } from "./server_client.js";
import { say } from "../core/words.js";
import { header } from "../core/view.js";

/** @import { Sampling, Words } from "./studio_state.js" */

const MOST_BARS = 24;
const KS = [0, 1, 2, 3, 5, 8, 10, 20, 40, 50, 100, 200, 500, 1000]; // what top-k's slider stops at; 0 keeps all
const LIMIT_RUN = 200; // tokens after which a run ends by itself

export class Generator extends StudioElement {
  fields = ["shown", "outcome", "sampling", "more", "model"];
  /** @type {{ key: string, words: Words } | null} */
  drawnFrom = null;
  /** @type {AbortController | null} */
  running = null;
  asked = 0;
  /** The request for the words that are shown. @type {AbortController | null} */
  asking = null;

  disconnectedCallback() {
    this.asking?.abort();
    this.stop();
    super.disconnectedCallback();
  }

  render() {
    if (!header) return;
    const { lang, model, sampling, more, opened } = studio.now;
    const heading = h("h2", {}, say(lang, "Generate"));
    if (isTrace(model)) return redraw(this, heading, h("p", { class: "help" }, say(lang, "A kept trace has no model behind it: open one to generate.")));
    if (opened && !opened.words) return redraw(this, heading, h("p", { class: "help" }, say(lang, "This model doesn't go on with a text: open a decoder, for example SmolLM2.")));
    if (!studio.now.text && !more.length) return redraw(this, heading, h("p", { class: "help" }, say(lang, "There is no text to go on with: type one.")));
    const key = JSON.stringify([specNow(), sampling]);
    if (this.drawnFrom?.key !== key) void this.askWords(key);
    const words = this.drawnFrom?.words ?? null;
    markOld(this, words !== null && this.drawnFrom?.key !== key);
    const button = (/** @type {string} */ name, /** @type {string} */ text, /** @type {() => void} */ act, /** @type {boolean} */ able) => h("button", { type: "button", class: name === "one" ? "main" : "ask", "data-key": name, disabled: !able, onclick: act }, text);
    redraw(
      this,
      heading,
      h(
        "div",
        { class: "buttons" },
        button("one", say(lang, "One more token"), () => void this.one(), !this.running),
        this.running ? button("run", say(lang, "Stop"), () => this.stop(), true) : button("run", say(lang, "Run"), () => void this.run(), true),
        button("back", say(lang, "Back"), () => this.back(), more.length > 0 && !this.running),
        button("clear", say(lang, "From the start"), () => this.clear(), more.length > 0 && !this.running),
      ),
      this.sliders(sampling),
      words ? this.bars(words) : h("p", { class: "help" }, say(lang, "computing…")),
    );
  }

  /** @param {Sampling} sampling */
  sliders({ temperature, topK, topP }) {
    const { lang } = studio.now;
    const change = (/** @type {Partial<Sampling>} */ to) => studio.set({ sampling: { ...studio.now.sampling, ...to } });
    return h(
      "div",
      { class: "sliders" },
      slider(say(lang, "Temperature"), say(lang, "Temperature"), 40, Math.round(temperature * 20), (x) => (x / 20).toFixed(2), (x) => change({ temperature: x / 20 })),
      slider("top-k", "top-k", KS.length - 1, Math.max(0, KS.findIndex((k) => k >= topK)), (x) => (KS[x] ? String(KS[x]) : say(lang, "all")), (x) => change({ topK: KS[x] })),
      slider("top-p", "top-p", 100, Math.round(topP * 100), (x) => (x / 100).toFixed(2), (x) => change({ topP: Math.max(0.01, x / 100) })),
    );
  }

  /** The asked-for words, with their cut. @param {string} key */
  async askWords(key) {
    const mine = ++this.asked;
    try {
      this.asking?.abort();
      const { signal } = (this.asking = new AbortController());
      const words = await this.words(null, signal);
      if (mine !== this.asked) return;
      this.drawnFrom = { key, words };
      this.render();
    } catch (error) {
      if (!calledOff(error)) failed(error);
    }
  }

  /** @param {number | null} seed draws one where it is given @param {AbortSignal} [signal] @returns {Promise<Words>} */
  async words(seed, signal = this.ending.signal) {
    const { temperature, topK, topP } = studio.now.sampling;
    const body = { do: "words", spec: specNow(), temperature, top_k: topK, top_p: topP, most: MOST_BARS, ...(seed === null ? {} : { seed }) };
    return /** @type {any} */ (await requestOne("words", body, signal));
  }

  /** @param {Words} words */
  bars(words) {
    const { lang } = studio.now;
    const most = Math.max(...words.words.map(({ p, cut }) => Math.max(p, cut)), 1e-9);
    const list = h("ol", { class: "bars cutting", "aria-label": say(lang, "Next words: choose one to go on with it") });
    for (const { id, label: text, p, cut } of words.words) {
      const isKept = cut > 0;
      const description = isKept ? say(lang, "{p}, after the cut {cut}", { p: percent(p), cut: percent(cut) }) : say(lang, "{p}, cut away", { p: percent(p) });
      list.append(
        h(
          "li",
          { class: isKept ? null : "gone", "data-id": id },
          h(
            "button",
            { type: "button", "data-key": `take ${id}`, title: description, onclick: () => this.hasAttribute("data-old") || this.take(id, text) },
            token(text),
            h("span", { class: "track", style: `--share: ${cut / most}; --before: ${p / most}`, "aria-hidden": true }, h("i", {}), h("b", {})),
            h("span", { class: "number" }, percent(isKept ? cut : 0)),
            h("span", { class: "unseen" }, description),
          ),
        ),
      );
    }
    const summary = filled(say(lang, "{n} of {all} tokens are left; together they had {mass}.", { n: words.keptCount, all: words.all, mass: hole("mass") }), { mass: h("b", {}, percent(words.keptMass)) });
    return h("div", {}, h("p", { class: "help" }, ...summary), list, h("p", { class: "help" }, say(lang, "Grey: what the model gives. Blue: after temperature, top-k and top-p. A click takes a token.")));
  }

  /** Go on with this token. @param {number} id @param {string} text */
  take(id, text) {
    studio.set({ more: [...studio.now.more, id] });
    announce(say(studio.now.lang, "added: {word}", { word: text }));
    this.dispatchEvent(new CustomEvent("generated", { bubbles: true }));
    look((source) => {
      const part = source.header.parts.find(({ name }) => name === studio.now.part);
      return part ? { query: part.n - 1 } : {};
    });
  }

  async one(signal = this.ending.signal) {
    try {
      const { drawn, ends } = await this.words(Math.floor(Math.random() * 1e8), signal);
      if (signal.aborted || !drawn) return false;
      this.take(drawn.id, drawn.label);
      return !ends.includes(drawn.id);
    } catch (error) {
      if (!calledOff(error)) failed(error);
      return false;
    }
  }

  async run() {
    const mine = (this.running = new AbortController());
    this.render();
    for (let i = 0; i < LIMIT_RUN && !mine.signal.aborted; i++) {
      if (!(await this.one(mine.signal))) break;
      await settled();
      if (studio.now.problem || studio.now.lost) break;
    }
    if (this.running === mine) this.stop();
  }

  stop() {
    this.running?.abort();
    this.running = null;
    if (this.isConnected) this.render();
  }

  back() {
    studio.set({ more: studio.now.more.slice(0, -1) });
    look();
  }

  clear() {
    studio.set({ more: [] });
    look();
  }
}
customElements.define("qkv-generator", Generator);
