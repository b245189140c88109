// Language and theme: from the reader's browser, the address or the page around this one. A page in a frame posts its height to
// its parent and accepts only the theme from it.

import { state } from "./state.js";
import { LANGUAGES } from "./words.js";

/** @import { Chosen } from "./state.js" */

/** Is this page in a frame? */
export const framed = window.parent !== window;

/** The language and theme of an address. @param {URLSearchParams} address @returns {Partial<Chosen>} */
export function lightAndLanguage(address) {
  /** @type {Partial<Chosen>} */
  const choices = {};
  const lang = address.get("lang"),
    theme = address.get("theme");
  if (lang !== null && LANGUAGES.includes(lang)) choices.lang = lang;
  if (theme === "light" || theme === "dark") choices.theme = theme;
  return choices;
}

/** The address after its #. */
export const address = () => new URLSearchParams(location.hash.slice(1));

/**
 * Set language and theme before anything is drawn.
 * @param {string | null} lang the page's own
 * @returns {{ lang: string, theme: "light" | "dark" }} what they would be if the address said nothing
 */
export function settle(lang) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const preferred = (lang ?? navigator.language).toLowerCase();
  const light = () => /** @type {"light" | "dark"} */ (dark.matches ? "dark" : "light");
  const own = { lang: LANGUAGES.find((name) => preferred.startsWith(name)) ?? "en", theme: light() };
  const choices = lightAndLanguage(address());
  let themeIsSet = choices.theme !== undefined;
  state.set({ ...own, ...choices });
  applyState();
  // The first listener, since elements draw with the theme's colours. (Setting the same value again
  // has the browser look at the style of everything.)
  state.listen((changed) => (changed.has("theme") || changed.has("lang")) && applyState());
  addEventListener("hashchange", () => {
    const { theme, ...more } = lightAndLanguage(address());
    themeIsSet ||= theme !== undefined;
    state.set(theme ? { theme, ...more } : more);
  });
  dark.addEventListener("change", () => themeIsSet || state.set({ theme: light() }));
  if (framed) {
    addEventListener("message", ({ source, data }) => {
      if (source !== window.parent || data?.qkv !== "theme" || !["light", "dark"].includes(data.theme)) return;
      themeIsSet = true;
      state.set({ theme: data.theme });
    });
    new ResizeObserver(() => {
      const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
      window.parent.postMessage({ qkv: "height", height }, "*");
    }).observe(document.documentElement);
  }
  return own;
}

function applyState() {
  document.documentElement.dataset.theme = state.now.theme;
  document.documentElement.lang = state.now.lang === "zh" ? "zh-CN" : state.now.lang;
}
