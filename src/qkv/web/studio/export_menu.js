// <qkv-exportmenu>: exports pictures and numbers of the view, the page, the Python code, a link.

import { announce, h } from "../core/dom.js";
import { failed, servedSpec } from "./live_view.js";
import { linkNow } from "./studio_address.js";
import { Menu } from "./menu.js";
import { StudioElement } from "./studio_element.js";
import { studio, titleOf } from "./studio_state.js";
import { requestOne } from "./server_client.js";
import { say } from "../core/words.js";
import { header } from "../core/view.js";

const MESSAGE_TIME = 6000; // milliseconds that its message stays

export class ExportMenu extends StudioElement {
  fields = ["shown"];
  clearing = 0;
  python = "";

  connectedCallback() {
    if (!this.firstChild) this.append(h("qkv-menu"), h("p", { class: "help done", role: "status" }));
    this.addEventListener("opening", () => this.show(""));
    super.connectedCallback();
  }

  /** @returns {Menu} */
  get menu() {
    return /** @type {Menu} */ (this.firstElementChild);
  }

  render() {
    const { lang } = studio.now;
    this.menu.told(say(lang, "Take away"), say(lang, "Take away"), () => this.list());
  }

  list() {
    const { lang } = studio.now;
    const item = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ about, /** @type {() => void | Promise<void>} */ act) =>
      h("li", {}, h("button", { type: "button", class: "pick", "data-key": key, onclick: () => void act() }, h("b", {}, text), h("small", {}, about)));
    return [
      h(
        "ul",
        {},
        ...this.pictures().map((button) => item(button.dataset.take ?? "", button.textContent ?? "", say(lang, "of the map, as it is in view"), () => this.picture(button))),
        item("page", say(lang, "The page, one file"), say(lang, "all heads, offline, to send to somebody"), () => this.page()),
        item("python", say(lang, "Lines of Python"), say(lang, "that make what is seen here"), () => this.lines()),
        item("link", say(lang, "Link"), say(lang, "brings back this view in a studio on this machine"), () => this.link()),
      ),
      this.python ? h("pre", { tabindex: 0 }, this.python) : null,
    ];
  }

  /** What the map that is shown has to give itself. */
  pictures() {
    const map = document.querySelector("qkv-map:not([data-side]), qkv-map[data-side=difference]");
    const buttons = /** @type {HTMLElement[]} */ ([...(map?.querySelectorAll("[data-take]") ?? [])]);
    return buttons.filter(({ dataset }) => dataset.take !== "link");
  }

  /** @param {string} text */
  show(text) {
    clearTimeout(this.clearing);
    /** @type {HTMLElement} */ (this.lastElementChild).textContent = text;
    if (text) this.clearing = setTimeout(() => this.show(""), MESSAGE_TIME);
  }

  /** Say what was done, and close. @param {string} text */
  tell(text) {
    announce(text);
    this.menu.close();
    this.show(text);
    if (this.contains(document.activeElement) || document.activeElement === document.body) this.menu.button?.focus();
  }

  /** @param {HTMLElement} button of the map's own menu */
  picture(button) {
    button.addEventListener("taken", (event) => this.tell(/** @type {CustomEvent} */ (event).detail), { once: true });
    button.click();
  }

  async page() {
    const { lang, part, layer, head } = studio.now;
    this.tell(say(lang, "making the page…"));
    try {
      const opening = part === header.parts[0].name ? [layer, head] : null;
      const { buffers } = await requestOne("page", { do: "page", spec: servedSpec(), lang, opening });
      saveAs(`${titleOf(studio.now.model)}.html`, new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (buffers[0])], { type: "text/html" }));
      this.tell(say(lang, "The page is with your downloads."));
    } catch (error) {
      this.tell("");
      failed(error);
    }
  }

  async lines() {
    const { lang, part, layer, head, query } = studio.now;
    try {
      const { text } = await requestOne("python", { do: "python", spec: servedSpec(), part, layer, head, query });
      this.python = text;
      await copied(text);
      announce(say(lang, "Copied."));
      this.menu.refresh(); // the lines are there to be read
    } catch (error) {
      failed(error);
    }
  }

  async link() {
    const { lang, text } = studio.now;
    await copied(`${location.origin}/#${linkNow()}`);
    this.tell(text && !linkNow().includes("text=") ? say(lang, "Copied; the text is too long for a link and isn't in it.") : say(lang, "Copied."));
  }
}

/** @param {string} name @param {Blob} blob */
export function saveAs(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {string} text */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without leave to copy, the old way.
    const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { class: "unseen" }));
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
customElements.define("qkv-exportmenu", ExportMenu);
