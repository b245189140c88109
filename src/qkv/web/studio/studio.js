// The studio: what the address asks for, or the trace that comes with qkv, is shown at once; the model takes over when it is
// there. Offers what is shown as `window.qkv`, for scripts and tests.

import { announce, breathe, h } from "../core/dom.js";
import { hear } from "./event_stream.js";
import { askedFor, lookedAt, mirror, takeOverLink } from "./studio_address.js";
import { lastResort, listModels, look, lookAgain, openModel, served, settled, firstOf } from "./live_view.js";
import { markOverview } from "./overview_marks.js";
import { ModelPicker } from "./model_picker.js";
import { address, settle } from "../core/setting.js";
import { isTrace, studio } from "./studio_state.js";
import { say } from "../core/words.js";
import { header, partOf, view } from "../core/view.js";
import "./masthead.js";
import "./notice.js";
import "./see_room.js";
import "./steps_room.js";
import "../map/tiled_map.js";
import "../map/map_export.js";
import "./tour.js";

/** @import { Told } from "./event_stream.js" */
/** @import { ServedSource } from "./served_source.js" */

/** What the server says of itself in the page: what is shown first, and the model that goes on from there. @typedef {{ version: string, lang: string | null, first: { model: string, text?: string }, live: string }} Facts */

const facts = /** @type {Facts} */ (JSON.parse(document.getElementById("qkv-header")?.textContent ?? "{}"));

/** Where an address wants to look, in what it wants to look at. @param {URLSearchParams} said */
function choosingBy(said) {
  if (!["part", "layer", "head", "query", "key"].some((name) => said.has(name))) return firstOf;
  return (/** @type {ServedSource} */ source) => {
    const first = firstOf(source);
    return { ...first, ...lookedAt(said, source.header, first) };
  };
}

/** @param {Told} told */
function heard(told) {
  if (told.version) studio.set({ reload: told.version === facts.version ? "" : told.version });
  if (told.kind === "lost") studio.set({ lost: true, locked: Boolean(told.locked) });
  if (told.kind === "connected" && studio.now.lost) {
    studio.set({ lost: false, locked: false });
    lookAgain();
    void listModels();
  }
  if (told.kind === "loading") studio.set({ busy: { kind: "loading", name: told.model, share: null, size: told.size } });
  if (told.kind === "loaded") studio.set({ busy: null });
  if (told.kind === "fetching") studio.set({ busy: told.done === told.all ? null : { kind: "fetching", name: told.name, share: told.all ? told.done / told.all : null } });
  if (told.kind !== "worker") return;
  if (told.state === "starting") studio.set({ busy: { kind: "starting", name: "", share: null } });
  if (told.state === "ready") studio.set({ busy: null });
  if (told.state === "gone") studio.set({ busy: null, problem: told.say ?? null });
  if (told.state === "restarted") {
    studio.set({ busy: null, problem: told.say ?? null });
    lookAgain();
  }
}

/** When the model of the shipped trace is on this machine, it takes over with the same text. @param {string} live its name */
async function goLive(live) {
  await settled();
  await view().catch(() => {}); // a model that is being loaded takes all there is of the machine: first the map
  await breathe();
  await listModels();
  const { models, model } = studio.now;
  if (isTrace(model) && header?.text && models?.here.some(({ name }) => name === live)) await openModel(live, { text: header.text });
}

/** Show what an address asks for. @param {URLSearchParams} said */
async function followLink(said) {
  const asked = askedFor(said);
  const before = studio.now.opened?.model;
  studio.set({ textLost: false, ...asked });
  const { model, text, edits, more, target } = studio.now;
  if (model && !isTrace(model) && !text) {
    // A model without a text: the text of the trace that comes with qkv.
    studio.set({ model: lastResort.model, more: [], edits: [], target: null });
    look(firstOf);
    await settled();
    if (studio.now.model === lastResort.model) await openModel(model, { text: header?.text ?? "" });
    return;
  }
  if (asked.model && model !== before) void openModel(model, { text, edits, more, target });
  look(choosingBy(said));
}

function begin() {
  takeOverLink();
  settle(facts.lang ?? null);
  const said = address();
  const own = Boolean(askedFor(said).model);
  lastResort.model = facts.first.model;
  studio.set({ model: facts.first.model, text: facts.first.text ?? "", ...askedFor(said) });
  const rooms = { see: h("qkv-seeroom"), steps: h("qkv-stepsroom") };
  const main = h("main", {});
  const place = /** @type {HTMLElement} */ (document.getElementById("qkv-studio"));
  place.replaceChildren(h("qkv-masthead", { role: "banner" }), h("qkv-notice"), main, h("footer", { class: "facts" }, `qkv ${facts.version}`));
  const enter = () => main.replaceChildren(rooms[studio.now.room]);
  enter();
  studio.listen((changed) => {
    if (changed.has("room")) enter();
    if (!changed.has("layer") && !changed.has("head")) return;
    const { lang, head } = studio.now;
    const layer = partOf(studio.now.part)?.layers[studio.now.layer].number;
    announce(say(lang, "{name} is open", { name: say(lang, "layer {layer}, head {head}", { layer, head }) }));
  });
  place.addEventListener("tour", () => place.querySelector("qkv-tour") ?? main.before(h("qkv-tour")));
  place.addEventListener("fetchmodel", (event) => {
    const picker = /** @type {ModelPicker | null} */ (place.querySelector("qkv-picker"));
    void picker?.fetch(/** @type {CustomEvent} */ (event).detail);
  });
  markOverview();
  hear(heard);
  void followLink(said);
  mirror((next) => void followLink(next));
  void (own ? listModels() : goLive(facts.live));
  Object.assign(window, { qkv: { studio, look, settled, served: () => served } });
  document.documentElement.dataset.ready = "";
}

begin();
