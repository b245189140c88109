// <qkv-facts>: the numbers of tokens, layers and heads.

import { announce, layersAndHeads } from "../core/dom.js";
import { lastResort } from "./live_view.js";
import { StudioElement } from "./studio_element.js";
import { studio, titleOf } from "./studio_state.js";
import { say } from "../core/words.js";
import { header, partOf } from "../core/view.js";

const OLD_TEXT = 40; // characters of an old text that say which one it was

export class Facts extends StudioElement {
  fields = ["shown", "part", "opened", "stale"];
  telling = 0;

  render() {
    if (!header) return;
    const { lang, opened, stale } = studio.now;
    const part = partOf(studio.now.part);
    const heads = Math.max(...part.layers.map((layer) => layer.heads));
    const n = Math.max(part.n, part.m);
    const facts = [
      part.name === "cross" ? say(lang, "{n} tokens look at {m}", { n: part.n, m: part.m }) : n === 1 ? say(lang, "1 token") : say(lang, "{n} tokens", { n }),
      say(lang, "{size}, counted from 0", { size: layersAndHeads(lang, part.layers.length, heads) }),
    ];
    if (opened?.context && n > opened.context)
      facts.push(say(lang, "longer than the model's context of {context} tokens: exact, but it never learned texts that long", { context: opened.context }));
    clearTimeout(this.telling);
    if (stale) {
      const named = { model: titleOf(header.model), text: shortened(header.text) };
      const old = lastResort.used ? say(lang, "An example instead, of {model}: “{text}”", named) : say(lang, "Still the old result, of {model}: “{text}”", named);
      facts.unshift(old);
      this.telling = setTimeout(() => studio.now.stale && announce(old), 900); // while somebody types, most of it is new by then
    }
    this.textContent = facts.join(" · ");
  }
}
/** The beginning of a text. @param {string} text */
const shortened = (text) => (text.length > OLD_TEXT ? `${text.slice(0, OLD_TEXT)}…` : text);
customElements.define("qkv-facts", Facts);
