// Marks edited and pinned heads in the overview.

import { headCalled, studio } from "./studio_state.js";
import { header } from "../core/view.js";

/** Update the marks whenever they change or the overview is redrawn. */
export function markOverview() {
  studio.listen((changed) => {
    if (["edits", "pins", "shown", "part", "item", "lang", "mode", "room"].some((name) => changed.has(name))) requestAnimationFrame(putMarks);
  });
}

function putMarks() {
  if (!header) return;
  const { part, edits, pins } = studio.now;
  const cells = (/** @type {string[]} */ names) => new Set(names.flatMap((name) => {
    const position = headCalled(name);
    return position?.part === part ? [`${position.layer}.${position.head}`] : [];
  }));
  const [changed, pinned] = [cells(edits.map(([name]) => name)), cells(pins)];
  for (const cell of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("qkv-overview [data-head]"))) {
    cell.classList.toggle("edited", changed.has(cell.dataset.head ?? ""));
    cell.classList.toggle("pinned", pinned.has(cell.dataset.head ?? ""));
  }
}
