// The page: opens the file, creates its elements (their modules precede this one) and exposes its numbers as `window.qkv`.

import { follow } from "../core/address.js";
import { announce, h } from "../core/dom.js";
import { settle } from "../core/setting.js";
import { Embedded } from "../core/source.js";
import { state } from "../core/state.js";
import { say } from "../core/words.js";
import { figure, header, partOf, show, source } from "../core/view.js";

/** A head by the number that its layer has in the model. @param {string} name @param {number} layer @param {number} item @param {number} head */
function headByNumber(name, layer, item, head) {
  const part = partOf(name);
  return source.head(
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
    const instance = await headByNumber(part, layer, item, head);
    return instance && Array.from({ length: instance.n }, (_, i) => instance.row(i).weights);
  },
  /**
   * One query's weights (Float32Array).
   * @param {string} part @param {number} layer @param {number} head @param {number} query @param {number} [item]
   */
  async row(part, layer, head, query, item = 0) {
    const instance = await headByNumber(part, layer, item, head);
    return instance && instance.row(query).weights;
  },
  /**
   * One row step by step: dots, scaled, capped, biased, masked, weights, sink, output; a mixer's: dots, scaled, left,
   * write, before, removed, weights, seen, output.
   * @param {string} part @param {number} layer @param {number} head @param {number} query @param {number} [item]
   */
  async steps(part, layer, head, query, item = 0) {
    const instance = await headByNumber(part, layer, item, head);
    return instance && instance.steps(query);
  },
};

async function start() {
  const file = await Embedded.open();
  const own = settle(file.header.lang);
  show(file);
  follow(own);
  announce("");
  state.listen((changed) => {
    if (!changed.has("layer") && !changed.has("head")) return;
    const { lang, head } = state.now;
    const layer = partOf(state.now.part).layers[state.now.layer].number;
    announce(say(lang, "{name} is open", { name: say(lang, "layer {layer}, head {head}", { layer, head }) }));
  });

  const cards = header.show.map((name) => h(`qkv-${name}`, { class: "card" }));
  document.getElementById("qkv-still")?.remove();
  if (figure()) {
    document.body.classList.add("figure");
    document.body.prepend(h("main", {}, h("h1", { class: "unseen" }, document.title), h("div", { class: "one" }, ...cards)));
  } else {
    const rest = cards.length > 1 ? h("div", { class: "one" }, ...cards.slice(1)) : null;
    document.body.prepend(h("qkv-top", { role: "banner" }), h("main", {}, cards[0], rest));
  }
  Object.assign(window, { qkv: { header, state, ...api } });
  document.documentElement.dataset.ready = "";
}

// An earlier script shows a message in browsers that can't unpack the numbers.
if ("DecompressionStream" in window) await start();
