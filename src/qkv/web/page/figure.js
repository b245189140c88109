// A figure: a page of one element, which has all its numbers in the header. Its module stands before this one.

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
