// The page: opens the file, puts the elements together, and offers its numbers as `window.qkv`.

import { h } from "./dom.js";
import { openHead } from "./heads.js";
import "./lines.js";
import "./map.js";
import "./overview.js";
import { state } from "./state.js";
import "./steps.js";
import { LANGUAGES, say } from "./words.js";
import "./top.js";
import { header, open, partOf } from "./view.js";

/** A head by the number that its layer has in the model. @param {string} name @param {number} layer @param {number} item @param {number} head */
function headOf(name, layer, item, head) {
  const part = partOf(name);
  return openHead(
    part,
    part.layers.findIndex(({ number }) => number === layer),
    item,
    head,
  );
}

/** What the page computes, for scripts and tests. Every function takes part, layer, head, item and counts from 0. */
const api = {
  /**
   * All weights of a head: an array of rows (Float32Array), computed from q and k.
   * @param {string} part @param {number} layer @param {number} head @param {number} [item]
   */
  async weights(part, layer, head, item = 0) {
    const one = await headOf(part, layer, item, head);
    return one && Array.from({ length: one.n }, (_, i) => one.row(i).weights);
  },
  /**
   * One query's weights (Float32Array).
   * @param {string} part @param {number} layer @param {number} head @param {number} query @param {number} [item]
   */
  async row(part, layer, head, query, item = 0) {
    const one = await headOf(part, layer, item, head);
    return one && one.row(query).weights;
  },
  /**
   * One row step by step: dots, scaled, capped, biased, masked, weights, sink, output; a mixer's: dots, scaled, left,
   * write, before, removed, weights, seen, output.
   * @param {string} part @param {number} layer @param {number} head @param {number} query @param {number} [item]
   */
  async steps(part, layer, head, query, item = 0) {
    const one = await headOf(part, layer, item, head);
    return one && one.steps(query);
  },
};

function dress() {
  document.documentElement.dataset.theme = state.now.theme;
  document.documentElement.lang = state.now.lang === "zh" ? "zh-CN" : state.now.lang;
}

async function start() {
  await open();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const spoken = header.lang ?? navigator.language;
  state.set({
    ...header.first,
    lang: LANGUAGES.find((name) => spoken.toLowerCase().startsWith(name)) ?? "en",
    theme: dark.matches ? "dark" : "light",
  });

  dress();
  // First of all listeners: elements that draw with the theme's colours must find it set.
  state.listen((changed) => {
    dress();
    if (!changed.has("layer") && !changed.has("head")) return;
    const { lang, head } = state.now;
    const layer = partOf(state.now.part).layers[state.now.layer].number;
    const live = document.getElementById("qkv-live");
    if (live) live.textContent = say(lang, "{name} is open", { name: say(lang, "layer {layer}, head {head}", { layer, head }) });
  });
  dark.addEventListener("change", () => state.set({ theme: dark.matches ? "dark" : "light" }));

  document.getElementById("qkv-still")?.remove();
  document.body.prepend(
    h("qkv-top", { role: "banner" }),
    h(
      "main",
      {},
      h("qkv-overview", { class: "card" }),
      h(
        "div",
        { class: "one" },
        h("qkv-map", { class: "card" }),
        h("qkv-lines", { class: "card" }),
        h("qkv-steps", { class: "card" }),
      ),
    ),
    h("div", { id: "qkv-live", class: "unseen", "aria-live": "polite", role: "status" }),
  );
  Object.assign(window, { qkv: { header, state, ...api } });
  document.documentElement.dataset.ready = "";
}

// A browser that can't unpack the numbers was told so before this script.
if ("DecompressionStream" in window) await start();
