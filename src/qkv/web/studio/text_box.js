// <qkv-textbox>: the text. Typing is never blocked, and nothing is requested during input-method composition.

import { h } from "../core/dom.js";
import { look, openModel } from "./live_view.js";
import { StudioElement, sized } from "./studio_element.js";
import { isTrace, studio, titleOf } from "./studio_state.js";
import { mark, say } from "../core/words.js";
import { header } from "../core/view.js";
import "./model_picker.js";

export class TextBox extends StudioElement {
  fields = ["shown", "model", "text", "models", "more"];
  composing = false;

  connectedCallback() {
    this.area = /** @type {HTMLTextAreaElement} */ (
      h("textarea", {
        rows: 1,
        dir: "auto",
        spellcheck: "false",
        autocomplete: "off",
        maxlength: 200000,
        oninput: (/** @type {InputEvent} */ event) => event.isComposing || this.composing || this.typed(),
        oncompositionstart: () => (this.composing = true),
        oncompositionend: () => {
          this.composing = false;
          this.typed();
        },
      })
    );
    this.offer = h("div", { class: "offer" });
    this.replaceChildren(h("div", { class: "written" }, h("qkv-picker"), this.area), this.offer);
    super.connectedCallback();
  }

  typed() {
    const { area } = this;
    if (!area) return;
    this.fit();
    const live = this.liveModel();
    // A kept trace can't be typed into; the model that it is of takes over.
    if (isTrace(studio.now.model)) return live ? void openModel(live, { text: area.value }) : undefined;
    studio.set({ text: area.value, more: [], target: null, textLost: false });
    look();
  }

  /** The model here that a trace is of. */
  liveModel() {
    const named = studio.now.models?.here.filter(({ kind }) => kind !== "trace") ?? [];
    const { model } = studio.now;
    return (named.find(({ name }) => header?.model === name || titleOf(model).endsWith(name)) ?? null)?.name ?? null;
  }

  /** As tall as its text, up to a few lines. */
  fit() {
    const { area } = this;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, 130)}px`;
  }

  render() {
    const { area, offer } = this;
    const { lang, model, text, models, more } = studio.now;
    if (!area || !offer) return;
    const trace = isTrace(model);
    const current = trace && header ? header.text : text;
    if (area.value !== current && !this.composing) area.value = current;
    area.setAttribute("aria-label", say(lang, "Text"));
    area.placeholder = say(lang, "Type a text: everything below follows.");
    area.readOnly = trace && !this.liveModel();
    this.fit();
    const small = models?.offered.find(({ name }) => name === "smollm2");
    offer.replaceChildren();
    if (trace && models && !this.liveModel() && small) {
      offer.append(
        h("p", { class: "help" }, say(lang, "This is a kept trace: it can be looked at, but nothing can be typed. For that a model is needed on this machine.")),
        h("button", { type: "button", class: "main", onclick: () => this.dispatchEvent(new CustomEvent("fetchmodel", { bubbles: true, detail: small.name })) }, say(lang, "Fetch {name} ({size})", { name: small.name, size: sized(small.size) })),
      );
    }
    if (header && !trace && !text && !more.length) offer.append(h("p", { class: "help" }, say(lang, "There is no text. Below is the last one.")));
    if (more.length) {
      offer.append(
        h("p", { class: "help" }, say(lang, more.length === 1 ? mark("The last token was generated. Typing begins anew from the text.") : mark("The last {n} tokens were generated. Typing begins anew from the text."), { n: more.length })),
        h("button", { type: "button", class: "ask", onclick: () => this.keep() }, say(lang, "Keep in the text")),
      );
    }
  }

  /** What was generated becomes text. */
  keep() {
    const all = header.text;
    studio.set({ text: all, more: [] });
    if (this.area) this.area.value = all;
    look();
  }
}
customElements.define("qkv-textbox", TextBox);
