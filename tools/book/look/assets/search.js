// Search's index is larger than any page, and most readers never search: it is fetched when somebody begins to.
// The theme asks for it at once, by a script on a page from the disk and by a request elsewhere: both are held back here.

const held = [];
let begun = false;

function whenSearching(go) {
  if (begun) go();
  else held.push(go);
}

function begin() {
  begun = true;
  held.splice(0).forEach((go) => go());
}

addEventListener("keydown", ({ key, ctrlKey, metaKey }) => {
  if (key === "/" || key === "s" || key === "f" || (key === "k" && (ctrlKey || metaKey))) begin();
}, true);
for (const way of ["pointerdown", "focusin"])
  addEventListener(way, ({ target }) => target instanceof Element && target.closest("[data-md-component=search]") && begin(), true);

const append = Node.prototype.appendChild;
Node.prototype.appendChild = function (node) {
  if (node instanceof HTMLScriptElement && /\/search\.js$/.test(node.src)) whenSearching(() => append.call(this, node));
  else append.call(this, node);
  return node;
};
const { open, send } = XMLHttpRequest.prototype;
XMLHttpRequest.prototype.open = function (method, url, ...rest) {
  this.indexes = /\/search\.json$/.test(String(url));
  return open.call(this, method, url, ...rest);
};
XMLHttpRequest.prototype.send = function (...body) {
  if (this.indexes) whenSearching(() => send.apply(this, body));
  else send.apply(this, body);
};
