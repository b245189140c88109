// <qkv-translation>: the translation, its alignment with the source, and the other hypotheses of the beam.

import { choice, h, svg, token, weight } from "../core/dom.js";
import { failed, look, served, requestedSpec } from "./live_view.js";
import { StudioElement, redraw } from "./studio_element.js";
import { headName, isTrace, studio } from "./studio_state.js";
import { requestOne, calledOff } from "./server_client.js";
import { say } from "../core/words.js";
import { axes, header, partOf, thumb } from "../core/view.js";

/** @import { Part } from "../core/source.js" */
/** @import { Unit } from "../core/view.js" */

const BEAMS = 4;
const FAINT = 0.08; // lines of less weight aren't drawn

export class Translation extends StudioElement {
  fields = ["shown", "layer", "head", "part", "target", "query", "key", "theme"];
  /** @type {"best" | "chosen"} */
  by = "best";
  /** @type {{ key: string, said: { text: string, score: number }[] } | null} */
  beam = null;
  asked = 0;

  render() {
    if (!header) return;
    const { lang, model, target } = studio.now;
    const part = partOf("cross");
    const heading = h("h2", {}, say(lang, "Translation"));
    if (!part) return redraw(this, heading, h("p", { class: "help" }, say(lang, "This model has no cross-attention: open a translator, for example opus-zh-en.")));
    this.picture = h("div", { class: "alignment" });
    this.note = h("p", { class: "help" });
    redraw(
      this,
      h(
        "div",
        { class: "bar" },
        heading,
        choice(
          say(lang, "Which head"),
          [
            ["best", say(lang, "sharpest head")],
            ["chosen", say(lang, "chosen head")],
          ],
          this.by,
          (value) => {
            this.by = value === "chosen" ? "chosen" : "best";
            this.render();
          },
        ),
      ),
      h("div", { class: "scroll" }, this.picture),
      this.note,
      isTrace(model) ? null : this.beams(lang, target),
    );
    void this.draw(part);
  }

  /** @param {string} lang @param {string | null} target */
  beams(lang, target) {
    const key = JSON.stringify({ ...requestedSpec(), target: null });
    if (this.beam?.key !== key)
      return h("button", { type: "button", class: "ask", "data-key": "beam", onclick: () => void this.askBeam(key) }, say(lang, "What else would it have said?"));
    return h(
      "div",
      {},
      h("h3", {}, say(lang, "What the beam had")),
      h(
        "ol",
        { class: "beam" },
        ...this.beam.said.map(({ text, score }, i) =>
          h("li", {}, h("button", { type: "button", class: "pick", "data-key": `beam ${i}`, "aria-current": (target ?? this.beam?.said[0].text) === text ? "true" : null, onclick: () => this.choose(text) }, h("bdi", {}, text), h("small", {}, score.toFixed(3)))),
        ),
      ),
      h("p", { class: "help" }, say(lang, "Its score is the mean log probability of its tokens.")),
    );
  }

  /** @param {string} key */
  async askBeam(key) {
    this.querySelector("[data-key=beam]")?.replaceWith(h("p", { class: "help", role: "status" }, say(studio.now.lang, "computing…")));
    try {
      const { said } = await requestOne("translations", { do: "translations", spec: { ...requestedSpec(), target: null }, beams: BEAMS }, this.ending.signal);
      this.beam = { key, said };
      this.render();
    } catch (error) {
      if (!calledOff(error)) failed(error);
    }
  }

  /** @param {string} text */
  choose(text) {
    studio.set({ target: text });
    look();
  }

  /** The head whose rows point most sharply at words, by the small pictures. @param {Part} part */
  async sharpest(part) {
    const { item } = studio.now;
    const [queries, keys] = axes(part, item, "tokens");
    let best = { layer: 0, head: 0, sharp: -1 };
    for (let layer = 0; layer < part.layers.length; layer++) {
      const source = served;
      if (!source) return best;
      const { bytes } = await source.pictures(part, layer, item);
      for (let head = 0; head < part.layers[layer].heads; head++) {
        const { shares, rows, cols } = thumb(part, head, bytes);
        let sharp = 0,
          count = 0;
        for (let i = 0; i < Math.min(rows, queries.length); i++) {
          if (queries[i].special) continue;
          count++;
          let most = 0;
          for (let j = 0; j < Math.min(cols, keys.length); j++) if (!keys[j].special) most = Math.max(most, shares[i * cols + j]);
          sharp += most;
        }
        if (sharp / Math.max(1, count) > best.sharp) best = { layer, head, sharp: sharp / Math.max(1, count) };
      }
    }
    return best;
  }

  /** @param {Part} part */
  async draw(part) {
    const mine = ++this.asked;
    const { lang, item, layer, head, query } = studio.now;
    const source = served;
    if (!source) return;
    try {
      const at = this.by === "chosen" && studio.now.part === "cross" ? { layer, head } : await this.sharpest(part);
      const instance = await source.head(part, at.layer, item, at.head);
      if (mine !== this.asked || !this.picture || !this.note) return;
      const [queries, keys] = axes(part, item, "words");
      /** @type {[number, number, number][]} */
      const lines = [];
      queries.forEach((to, u) => {
        const row = new Float32Array(keys.length);
        for (let i = to.first; i < to.end; i++) {
          const { weights } = instance.row(i);
          keys.forEach((from, c) => {
            for (let j = from.first; j < from.end; j++) row[c] += weights[j] / (to.end - to.first);
          });
        }
        row.forEach((w, c) => w >= FAINT && !keys[c].special && lines.push([u, c, w]));
      });
      this.lay(queries, keys, lines, query);
      const name = headName("cross", at.layer, at.head);
      const drawn = say(lang, "Lines: head {name}, weights from {least} on; special tokens are left out.", { name, least: FAINT });
      const elsewhere = this.by === "chosen" && studio.now.part !== "cross";
      this.note.textContent = elsewhere ? `${say(lang, "The chosen head is not one of cross-attention, so this is the sharpest one: choose a head of the part Cross.")} ${drawn}` : drawn;
    } catch (error) {
      if (!calledOff(error)) failed(error);
    }
  }

  /** Source above, translation below, lines between. @param {Unit[]} queries @param {Unit[]} keys @param {[number, number, number][]} lines @param {number} query */
  lay(queries, keys, lines, query) {
    const { picture } = this;
    if (!picture) return;
    const row = (/** @type {Unit[]} */ list, /** @type {"query" | "key"} */ side) =>
      h(
        "div",
        { class: "words" },
        ...list.map((unit) =>
          h(
            "button",
            { type: "button", class: unit.special ? "special" : null, "data-key": `${side} ${unit.first}`, "aria-pressed": side === "query" && query >= unit.first && query < unit.end, onclick: () => studio.set(side === "query" ? { part: "cross", query: unit.end - 1 } : { part: "cross", key: unit.end - 1 }) },
            token(unit.label),
          ),
        ),
      );
    const above = row(keys, "key"),
      below = row(queries, "query");
    const drawing = svg("svg", { class: "between", height: 110, "aria-hidden": true });
    redraw(picture, above, drawing, below);
    const middle = (/** @type {Element} */ element) => {
      const box = element.getBoundingClientRect();
      return box.left + box.width / 2 - picture.getBoundingClientRect().left;
    };
    drawing.setAttribute("width", String(Math.max(above.scrollWidth, below.scrollWidth)));
    for (const [u, c, w] of lines) {
      const [x1, x2] = [middle(above.children[c]), middle(below.children[u])];
      const line = svg("path", { d: `M${x1} 0 C${x1} 50 ${x2} 60 ${x2} 110`, "stroke-width": 0.6 + 7 * w, "stroke-opacity": 0.25 + 0.75 * w });
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = `${keys[c].label} → ${queries[u].label} ${weight(w)}`;
      line.append(title);
      drawing.append(line);
    }
    const description = lines.map(([u, c, w]) => `${queries[u].label} ← ${keys[c].label} ${weight(w)}`).join("; ");
    picture.append(h("p", { class: "unseen" }, description));
  }
}
customElements.define("qkv-translation", Translation);
