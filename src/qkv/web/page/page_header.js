// <qkv-top>: the model, the text, the number of tokens, the precision, and the switches for language and theme.

import { choice, filled, h, hole, layersAndHeads, plainText, refill, scrolled } from "../core/dom.js";
import { state } from "../core/state.js";
import { LANGUAGES, say } from "../core/words.js";
import { header, isWhole, partOf } from "../core/view.js";

export class PageHeader extends HTMLElement {
  ends = new AbortController();

  connectedCallback() {
    this.ends = new AbortController();
    state.listen((changed) => {
      if (["shown", "lang", "theme", "part"].some((name) => changed.has(name))) this.render();
    }, this.ends.signal);
    this.render();
  }

  disconnectedCallback() {
    this.ends.abort();
  }

  render() {
    const { lang, theme } = state.now;
    const part = partOf(state.now.part);
    const heads = Math.max(...part.layers.map((layer) => layer.heads));
    const counted =
      part.name === "cross"
        ? say(lang, "{n} tokens look at {m}", { n: part.n, m: part.m })
        : say(lang, "{n} tokens", { n: Math.max(part.n, part.m) });
    const facts = [counted, say(lang, "{size}, counted from 0", { size: layersAndHeads(lang, part.layers.length, heads) })];
    const { precision } = part;
    if (!precision) facts.push(say(lang, "overview only: the text is too long for q and k to fit"));
    else if (part.signed) facts.push(say(lang, "q and k are {dtype}: weights exact to about {error} of a head's largest", precision));
    else facts.push(say(lang, "q and k are {dtype}: weights exact to about {error}", precision));
    if (header.context) facts.push(say(lang, "longer than the model's context of {context} tokens: exact, but it never learned texts that long", { context: header.context }));
    const title = document.title;
    const heading = header.model && title !== plainText(header.model) ? title : header.model || title;
    refill(
      this,
      h(
        "div",
        { class: "bar" },
        h(
          "h1",
          {},
          h("bdi", {}, heading),
          heading !== header.model && header.model ? h("small", {}, header.model) : null,
        ),
        h(
          "div",
          { class: "switches" },
          choice(
            say(lang, "Language"),
            LANGUAGES.map((name) => [name, say(name, "English")]),
            lang,
            (value) => state.set({ lang: value }),
          ),
          choice(
            say(lang, "Light or dark"),
            [
              ["light", say(lang, "Light")],
              ["dark", say(lang, "Dark")],
            ],
            theme,
            (value) => state.set({ theme: value === "dark" ? "dark" : "light" }),
          ),
        ),
      ),
      scrolled(h("blockquote", { dir: "auto" }, header.text)),
      h("p", { class: "facts" }, facts.join(" · ")),
    );
    const whole = part.layers.flatMap((layer, i) => (isWhole(part, i) ? [layer.number] : []));
    if (whole.length && whole.length < part.layers.length) {
      const [, , rows, cols] = part.thumbs.stored.shape;
      const sentence = say(lang, "Whole layers: {whole}. The others as an overview of {rows} × {cols} cells.", { whole: hole("whole"), rows, cols });
      this.append(h("p", { class: "facts carried" }, ...filled(sentence, { whole: h("b", {}, whole.join(", ")) })));
    }
  }
}
customElements.define("qkv-top", PageHeader);
