// A figure: a page with one element, whose numbers are in the header. Its module precedes this one.

import { h } from "../core/dom.js";
import { settle } from "../core/setting.js";

const figureHeader = JSON.parse(document.getElementById("qkv-header")?.textContent ?? "");
settle(figureHeader.lang);
const element = h(`qkv-${figureHeader.element}`, { class: "card" });
Object.assign(element, { told: figureHeader });
document.body.classList.add("figure");
document.body.prepend(h("main", {}, h("h1", { class: "unseen" }, document.title), element));
Object.assign(window, { qkv: element });
document.documentElement.dataset.ready = "";
