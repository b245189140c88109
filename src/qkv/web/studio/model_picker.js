// <qkv-picker>: selects a model, run, checkpoint, folder or stored trace; lists models to download with their sizes.

import { h } from "../core/dom.js";
import { failed, listModels, openModel } from "./live_view.js";
import { Menu } from "./menu.js";
import { StudioElement, sized } from "./studio_element.js";
import { studio, titleOf } from "./studio_state.js";
import { requestFrames } from "./server_client.js";
import { mark, say } from "../core/words.js";

/** @import { Here } from "./studio_state.js" */

/** @type {[string, string][]} */
const MODEL_KINDS = [
  ["named", mark("Models")],
  ["run", mark("Runs")],
  ["folder", mark("Folders")],
  ["file", mark("Files")],
  ["trace", mark("Kept traces")],
];

export class ModelPicker extends StudioElement {
  fields = ["model", "models", "busy"];
  /** Names being fetched, and how far. @type {Map<string, number>} */
  fetching = new Map();

  connectedCallback() {
    if (!this.firstChild) this.append(h("qkv-menu"));
    super.connectedCallback();
  }

  /** @returns {Menu} */
  get menu() {
    return /** @type {Menu} */ (this.firstElementChild);
  }

  render() {
    const { lang, model } = studio.now;
    this.menu.told(titleOf(model), say(lang, "Model: {name}", { name: titleOf(model) }), () => this.list());
  }

  list() {
    const { lang, models } = studio.now;
    if (!models) return [h("p", { class: "help" }, say(lang, "looking…"))];
    const groups = MODEL_KINDS.flatMap(([kind, title]) => {
      const ofKind = models.here.filter((model) => model.kind === kind);
      return ofKind.length ? [h("h3", {}, say(lang, title)), h("ul", {}, ...ofKind.map((model) => this.row(model)))] : [];
    });
    const offered = models.offered.filter(({ name }) => !models.here.some((model) => model.name === name));
    if (offered.length) {
      groups.push(
        h("h3", {}, say(lang, "Can be fetched")),
        h(
          "ul",
          {},
          ...offered.map(({ name, size, licence, note }) => {
            const share = this.fetching.get(name);
            return h(
              "li",
              {},
              h("span", {}, h("b", {}, name), h("small", {}, [sized(size), licence, note[/** @type {"en"} */ (lang)]].filter(Boolean).join(" · "))),
              share === undefined
                ? h("button", { type: "button", class: "ask", "data-key": `fetch ${name}`, onclick: () => this.fetch(name) }, say(lang, "Fetch"))
                : h("progress", { max: 1, value: share, "aria-label": say(lang, "fetching {name}…", { name }) }),
            );
          }),
        ),
      );
    }
    return groups;
  }

  /** @param {Here} one */
  row({ name, checkpoints, watched }) {
    const { lang, model } = studio.now;
    const on = model === name || model.startsWith(`${name}@`) || model.startsWith(`${name}~`);
    const pick = (/** @type {string} */ which) => {
      this.menu.close();
      void openModel(which);
    };
    return h(
      "li",
      {},
      h("button", { type: "button", class: "pick", "aria-current": on ? "true" : null, "data-key": `open ${name}`, onclick: () => pick(name) }, h("b", {}, titleOf(name))),
      this.steps(say(lang, "Checkpoint"), `${name}@`, checkpoints, pick),
      this.steps(say(lang, "What it saw at a step"), `${name}~`, watched, pick),
    );
  }

  /** Steps of a run to choose one of. @param {string} title @param {string} before what stands before the step in a name @param {number[]} steps @param {(name: string) => void} pick */
  steps(title, before, steps, pick) {
    const { lang, model } = studio.now;
    if (!steps.length) return null;
    const select = h("select", { "aria-label": title, title, "data-key": before, onchange: (/** @type {Event} */ event) => pick(before + /** @type {HTMLSelectElement} */ (event.target).value) }, h("option", { value: "", disabled: true, selected: !model.startsWith(before) }, title));
    for (const step of steps) select.append(h("option", { value: step, selected: model === before + step }, say(lang, "step {n}", { n: step })));
    return select;
  }

  /** @param {string} name */
  async fetch(name) {
    if (this.fetching.has(name)) return;
    const showShare = (/** @type {number} */ share) => {
      this.fetching.set(name, share);
      studio.set({ busy: { kind: "fetching", name, share } });
    };
    showShare(0);
    try {
      for await (const { kind, done, all } of requestFrames({ do: "fetch", name })) if (kind === "progress") showShare(all ? done / all : 0);
      await listModels();
      await openModel(name);
    } catch (error) {
      failed(error);
    } finally {
      this.fetching.delete(name);
      studio.set({ busy: null });
    }
  }
}
customElements.define("qkv-picker", ModelPicker);
