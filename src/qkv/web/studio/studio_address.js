// The address mirrors the studio: a link restores the room, model, text, edits and view.

import { readOptions, parseZoom, formatZoom } from "../core/address.js";
import { forgetText, storeText, storedText } from "./long_texts.js";
import { positionIsPending } from "./live_view.js";
import { address, lightAndLanguage } from "../core/setting.js";
import { BEGINNING } from "../core/state.js";
import { studio, UNTOUCHED } from "./studio_state.js";
import { header, partOf } from "../core/view.js";

/** @import { Header } from "../core/source.js" */
/** @import { Edit, Everything } from "./studio_state.js" */

const PAUSE = 300; // milliseconds between two changes of the address: browsers refuse too many
const LINKABLE = 4000; // characters of a text that an address still carries
const HANDED_OVER = "qkv-link"; // where a page that is left keeps its newest link for the page that replaces it

/** Where one looks, as an address names it. */
const POSITION_KEYS = ["part", "item", "layer", "head", "query", "key", "zoom", "unit"];
/** Results and messages: no link has them. */
const RESULTS = ["models", "opened", "outcome", "before", "busy", "problem", "lost", "locked", "reload", "textLost", "stale"];

/** What is a step of its own for the browser's Back; all else belongs to the step it is chosen in. */
const STEPS = ["room", "mode", "model", "target", "more", "edits", "against", "bench", "part", "item", "layer", "head"];

/** Names and the values that they may have. */
const ROOMS = /** @type {const} */ (["see", "steps"]);
const MODES = /** @type {const} */ (["look", "heads", "generate", "compare", "cross"]);
const COMPARED = /** @type {const} */ (["heads", "texts", "models"]);
const ORDERED = /** @type {const} */ (["link", "pattern", "narrow", "wide", "needed"]);
const EDIT_METHODS = /** @type {const} */ (["zero", "uniform", "first"]);
const HEAD_NAME = /^(?:(?:encoder|decoder|cross|mixers)\.)?\d{1,4}\.(?:\d{1,4}|\*)$/;

/** @template {string} Name @param {readonly Name[]} names @param {string | null} text @returns {Name | undefined} */
const among = (names, text) => names.find((name) => name === text);

/** The text if it is a valid name, else the default. @template {string} Name @param {readonly NoInfer<Name>[]} names @param {string | null} text @param {Name} otherwise @returns {Name} */
const allowedOr = (names, text, otherwise) => among(names, text) ?? otherwise;

/** The settings of an address that need no source: model, text, edits. @param {URLSearchParams} params @returns {Partial<Everything>} */
export function settingsOf(params) {
  /** @type {Partial<Everything>} */
  const settings = { ...(params.has("model") ? UNTOUCHED : {}), ...lightAndLanguage(params) };
  const room = among(ROOMS, params.get("room")),
    mode = among(MODES, params.get("mode"));
  if (room) settings.room = room;
  if (mode) settings.mode = mode;
  if (params.get("model")) settings.model = params.get("model") ?? "";
  if (params.has("text")) settings.text = params.get("text") ?? "";
  if (params.has("kept")) {
    const text = storedText(params.get("kept") ?? "");
    settings.text = text ?? "";
    settings.textLost = text === null;
  }
  if (params.has("target")) settings.target = params.get("target");
  if (params.has("more")) settings.more = listed(params.get("more")).filter((id) => /^\d{1,7}$/.test(id)).map(Number);
  if (params.has("edits")) settings.edits = listed(params.get("edits")).flatMap(parseEdit);
  if (params.has("pins")) settings.pins = listed(params.get("pins")).filter((name) => HEAD_NAME.test(name));
  const by = among(COMPARED, params.get("by"));
  if (by) settings.against = { by, head: params.get("withHead") ?? "", text: params.get("withText") ?? "", model: params.get("withModel") ?? "" };
  if (params.has("temperature")) {
    const number = (/** @type {string} */ name, /** @type {number} */ usual, /** @type {number} */ most) => {
      const x = Number(params.get(name) ?? usual);
      return x >= 0 && x <= most ? x : usual;
    };
    settings.sampling = { temperature: number("temperature", 1, 5), topK: number("topK", 0, 1e6), topP: number("topP", 1, 1) };
  }
  const order = among(ORDERED, params.get("order"));
  if (order) {
    const limit = Number(params.get("limit") ?? NaN);
    settings.ranked = { by: order, pattern: params.get("pattern") ?? "", limit: Number.isFinite(limit) ? limit : null };
  }
  if (params.get("after") === "chosen") settings.after = "chosen";
  if (params.get("bench") === "head") settings.bench = "head";
  if (params.has("worked")) settings.worked = { of: "", changes: params.get("worked") ?? "" };
  return settings;
}

/** @param {string | null} text */
const listed = (text) => (text ? text.split(",") : []);

/** @param {string} text "13.8:zero" @returns {Edit[]} */
function parseEdit(text) {
  const [name, to] = text.split(":");
  const method = among(EDIT_METHODS, to);
  const times = Number(to);
  if (!HEAD_NAME.test(name) || !(method || (to && times >= 0 && times <= 2))) return [];
  return [[name, method ?? times]];
}

/** The view of an address in the current source. @param {URLSearchParams} params @param {Header} there @param {Partial<Everything>} usually where one looks if nothing is said @returns {Partial<Everything>} */
export function positionOfLink(params, there, usually) {
  // What a whole link doesn't speak of is as it was in the beginning, not as it is now.
  const { item, scale, way, sink, zoom, pool } = BEGINNING;
  const usual = params.has("model") ? { item, scale, way, sink, zoom, pool, unit: there.first.unit } : {};
  const now = { ...studio.now, ...usual, ...usually };
  const named = (/** @type {string | null} */ wished) => there.parts.find(({ name }) => name === wished);
  const part = named(params.get("part")) ?? named(now.part) ?? there.parts[0];
  const indexIn = (/** @type {string} */ name, /** @type {number} */ size, /** @type {number} */ usual) => {
    const text = params.get(name) ?? "";
    return /^\d{1,9}$/.test(text) && Number(text) < size ? Number(text) : Math.min(usual, size - 1);
  };
  const layerIndex = part.layers.findIndex(({ number }) => String(number) === params.get("layer"));
  const layer = layerIndex >= 0 ? layerIndex : Math.min(now.layer, part.layers.length - 1);
  return {
    ...usual,
    part: part.name,
    item: indexIn("item", part.queries.length, now.item),
    layer,
    head: indexIn("head", part.layers[layer].heads, now.head),
    query: indexIn("query", part.n, now.query),
    key: indexIn("key", part.m, now.key),
    unit: allowedOr(["tokens", "characters", "words"], params.get("unit"), now.unit),
    zoom: params.has("zoom") ? parseZoom(params.get("zoom")) : now.zoom,
    ...readOptions(params),
  };
}

/** The complete state as the address after #. */
export function linkNow() {
  const { now } = studio;
  const params = new URLSearchParams();
  const put = (/** @type {string} */ name, /** @type {string | number} */ value, /** @type {string | number} */ usual = "") => {
    if (String(value) !== String(usual)) params.set(name, String(value));
  };
  put("room", now.room, "see");
  put("mode", now.mode, "look");
  put("model", now.model);
  if (now.text.length <= LINKABLE) put("text", now.text);
  else params.set("kept", storeText(now.text));
  if (now.target !== null) params.set("target", now.target);
  put("more", now.more.join());
  put("edits", now.edits.map((edit) => edit.join(":")).join());
  put("pins", now.pins.join());
  if (now.mode === "compare") {
    params.set("by", now.against.by);
    put("withHead", now.against.head);
    put("withText", now.against.text);
    put("withModel", now.against.model);
  }
  const { temperature, topK, topP } = now.sampling;
  if (temperature !== 1 || topK || topP !== 1) {
    params.set("temperature", String(temperature));
    put("topK", topK, 0);
    put("topP", topP, 1);
  }
  if (now.mode === "heads") {
    put("order", now.ranked.by, now.ranked.limit === null ? "link" : "");
    if (now.ranked.by === "pattern") put("pattern", now.ranked.pattern);
    put("limit", now.ranked.limit ?? "");
  }
  put("after", now.after, "end");
  put("bench", now.bench, "toy");
  if (now.room === "steps") put("worked", now.worked.changes);
  if (!header || positionIsPending()) {
    // What is on screen, if anything, isn't what is asked for: the address still says where to look in that.
    const current = address();
    for (const name of POSITION_KEYS) put(name, current.get(name) ?? "");
  } else {
    const part = partOf(now.part);
    if (header.parts.length > 1) params.set("part", part.name);
    put("item", now.item, 0);
    params.set("layer", String(part.layers[now.layer].number));
    for (const name of /** @type {const} */ (["head", "query", "key"])) params.set(name, String(now[name]));
    put("zoom", formatZoom(now.zoom));
    put("unit", now.unit, header.first.unit);
  }
  put("scale", now.scale, "root");
  put("way", now.way, "from");
  put("sink", now.sink, "shown");
  put("pool", now.pool, "max");
  params.set("lang", now.lang);
  params.set("theme", now.theme);
  return params.toString();
}

/** Go on from the link of the page that this one replaces. A reload opens the address that it began with: what changes until the page is left comes too late for it. */
export function takeOverLink() {
  try {
    const link = sessionStorage.getItem(HANDED_OVER);
    sessionStorage.removeItem(HANDED_OVER);
    const [entry] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
    if (link && entry?.type === "reload") history.replaceState({ qkv: true }, "", `#${link}`);
  } catch {
    // no storage here
  }
}

/** Keep the newest link for the page that replaces this one. */
function handOverLink() {
  try {
    sessionStorage.setItem(HANDED_OVER, linkNow());
  } catch {
    // no storage here, or no room
  }
}

/**
 * Let the address follow, and follow it when somebody changes it or goes back. What people choose is a new entry of the
 * browser's history; what they type is one entry, however many letters it has, until they leave the field or choose something.
 * @param {(said: URLSearchParams) => void} go
 */
export function mirror(go) {
  let lastHash = location.hash;
  let waiting = 0,
    last = -Infinity;
  /** What changed since the address was written. @type {Set<string>} */
  const changed = new Set();
  /** Did somebody press a key or a button since? What changes by itself is no step. */
  let acted = false;
  /** Does the current entry hold a text that is being typed? */
  let typing = false;
  /** Has this page written the address? Until then it says what was asked for. */
  let written = false;
  const follow = () => {
    clearTimeout(waiting);
    waiting = 0;
    lastHash = location.hash;
    go(address());
    changed.clear();
    acted = typing = false;
  };
  addEventListener("popstate", () => {
    if (!history.state?.qkv) return; // an address that somebody typed
    const params = address();
    params.set("lang", studio.now.lang); // the way back isn't to another language or light
    params.set("theme", studio.now.theme);
    history.replaceState({ qkv: true }, "", `#${params}`);
    follow();
  });
  addEventListener("hashchange", () => location.hash !== lastHash && follow());
  for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => (acted = true), { capture: true });
  addEventListener("focusout", ({ target }) => target instanceof HTMLTextAreaElement && (typing = false));
  const write = () => {
    clearTimeout(waiting);
    waiting = 0;
    // Until something is shown or chosen, the address says what was asked for; and somebody may just have changed it.
    if ((!header && !acted) || location.hash !== lastHash) return;
    last = performance.now();
    const chose = STEPS.some((name) => changed.has(name)),
      typed = changed.has("text");
    const push = acted && (chose || (typed && !typing));
    const before = address().get("kept");
    const link = `${location.href.split("#")[0]}#${linkNow()}`;
    if (push) history.pushState({ qkv: true }, "", link);
    else history.replaceState({ qkv: true }, "", link);
    if (!push && typed && typing && before && before !== address().get("kept")) forgetText(before);
    typing = typed ? !chose : typing && !chose;
    lastHash = location.hash;
    written = true;
    acted = false;
    changed.clear();
  };
  const valueOf = (/** @type {string} */ name) => JSON.stringify(/** @type {Record<string, any>} */ (studio.now)[name]);
  const values = new Map(STEPS.map((name) => [name, valueOf(name)]));
  studio.listen((names) => {
    if ([...names].every((name) => RESULTS.includes(name))) return;
    if (names.has("text")) changed.add("text");
    for (const name of STEPS) {
      if (!names.has(name) || values.get(name) === valueOf(name)) continue; // an empty list in place of another is no change
      values.set(name, valueOf(name));
      // With another source, what of a choice there isn't is chosen anew: that is no step.
      if (!names.has("shown")) changed.add(name);
    }
    // The first change is written as soon as all that changes with it has, those that follow at once together after a pause.
    if (!waiting) waiting = setTimeout(write, Math.max(0, last + PAUSE - performance.now()));
  });
  // Whoever turns to the address bar, copies or leaves finds what is chosen.
  for (const name of ["blur", "copy"]) addEventListener(name, () => waiting && write());
  addEventListener("pagehide", () => {
    if (waiting) write();
    if (written && location.hash === lastHash) handOverLink();
  });
}
