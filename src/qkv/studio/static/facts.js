// <qkv-facts>: how many tokens, layers and heads there are.

import { Piece } from "./piece.js";
import { studio } from "./store.js";
import { say } from "./words.js";
import { header, partOf } from "./view.js";

export class Facts extends Piece {
  fields = ["shown", "part", "opened"];

  render() {
    if (!header) return;
    const { lang, opened } = studio.now;
    const part = partOf(studio.now.part);
    const heads = Math.max(...part.layers.map((layer) => layer.heads));
    const n = Math.max(part.n, part.m);
    const facts = [
      part.name === "cross" ? say(lang, "{n} tokens look at {m}", { n: part.n, m: part.m }) : n === 1 ? say(lang, "1 token") : say(lang, "{n} tokens", { n }),
      say(lang, "{layers} layers × {heads} heads", { layers: part.layers.length, heads }),
    ];
    if (opened?.context && n > opened.context)
      facts.push(say(lang, "longer than the model's context of {context} tokens: exact, but it never learned texts that long", { context: opened.context }));
    this.textContent = facts.join(" · ");
  }
}
customElements.define("qkv-facts", Facts);
