// The studio: shows the state of the address, or the included trace, at once; the model takes over when it is loaded. Exposes the
// view as `window.qkv` for scripts and tests.

import { announce, breathe, h } from "../core/dom.js";
import { listenToEvents } from "./event_stream.js";
import { settingsOf, positionOfLink, mirror, takeOverLink } from "./studio_address.js";
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

/** Where an address wants to look, in what it wants to look at. @param {URLSearchParams} params */
function choosingBy(params) {
  if (!["part", "layer", "head", "query", "key"].some((name) => params.has(name))) return firstOf;
  return (/** @type {ServedSource} */ source) => {
    const first = firstOf(source);
    return { ...first, ...positionOfLink(params, source.header, first) };
  };
}

/** @param {Told} event */
function onStudioEvent(event) {
  if (event.version) studio.set({ reload: event.version === facts.version ? "" : event.version });
  if (event.kind === "lost") studio.set({ lost: true, locked: Boolean(event.locked) });
  if (event.kind === "connected" && studio.now.lost) {
    studio.set({ lost: false, locked: false });
    lookAgain();
    void listModels();
  }
  if (event.kind === "loading") studio.set({ busy: { kind: "loading", name: event.model, share: null, size: event.size } });
  if (event.kind === "loaded") studio.set({ busy: null });
  if (event.kind === "fetching") studio.set({ busy: event.done === event.all ? null : { kind: "fetching", name: event.name, share: event.all ? event.done / event.all : null } });
  if (event.kind !== "worker") return;
  if (event.state === "starting") studio.set({ busy: { kind: "starting", name: "", share: null } });
  if (event.state === "ready") studio.set({ busy: null });
  if (event.state === "gone") studio.set({ busy: null, problem: event.say ?? null });
  if (event.state === "restarted") {
    studio.set({ busy: null, problem: event.say ?? null });
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

/** Show what an address asks for. @param {URLSearchParams} params */
async function followLink(params) {
  const changes = settingsOf(params);
  const before = studio.now.opened?.model;
  studio.set({ textLost: false, ...changes });
  const { model, text, edits, more, target } = studio.now;
  if (model && !isTrace(model) && !text) {
    // A model without a text: the text of the trace that comes with qkv.
    studio.set({ model: lastResort.model, more: [], edits: [], target: null });
    look(firstOf);
    await settled();
    if (studio.now.model === lastResort.model) await openModel(model, { text: header?.text ?? "" });
    return;
  }
  if (changes.model && model !== before) void openModel(model, { text, edits, more, target });
  look(choosingBy(params));
}

function begin() {
  takeOverLink();
  settle(facts.lang ?? null);
  const params = address();
  const own = Boolean(settingsOf(params).model);
  lastResort.model = facts.first.model;
  studio.set({ model: facts.first.model, text: facts.first.text ?? "", ...settingsOf(params) });
  const rooms = { see: h("qkv-seeroom"), steps: h("qkv-stepsroom") };
  const main = h("main", {});
  const container = /** @type {HTMLElement} */ (document.getElementById("qkv-studio"));
  container.replaceChildren(h("qkv-masthead", { role: "banner" }), h("qkv-notice"), main, h("footer", { class: "facts" }, `qkv ${facts.version}`));
  const enter = () => main.replaceChildren(rooms[studio.now.room]);
  enter();
  studio.listen((changed) => {
    if (changed.has("room")) enter();
    if (!changed.has("layer") && !changed.has("head")) return;
    const { lang, head } = studio.now;
    const layer = partOf(studio.now.part)?.layers[studio.now.layer].number;
    announce(say(lang, "{name} is open", { name: say(lang, "layer {layer}, head {head}", { layer, head }) }));
  });
  container.addEventListener("tour", () => container.querySelector("qkv-tour") ?? main.before(h("qkv-tour")));
  container.addEventListener("fetchmodel", (event) => {
    const picker = /** @type {ModelPicker | null} */ (container.querySelector("qkv-picker"));
    void picker?.fetch(/** @type {CustomEvent} */ (event).detail);
  });
  markOverview();
  listenToEvents(onStudioEvent);
  void followLink(params);
  mirror((next) => void followLink(next));
  void (own ? listModels() : goLive(facts.live));
  Object.assign(window, { qkv: { studio, look, settled, served: () => served } });
  document.documentElement.dataset.ready = "";
}

begin();
