// Texts too long for an address. The tab keeps them in its session storage, which survives a reload, and the address has a
// short key. Another tab or browser doesn't have them.

const PREFIX_KEPT = "qkv-text-";
const MOST_KEPT = 20; // texts; a browser gives a tab about five million characters

/** Their keys, the oldest first: they are times. */
const keysKept = () => Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX_KEPT)).sort();

/** Keep a text; returns its key, or "" where the browser has no room for it. @param {string} text */
export function keepText(text) {
  try {
    const known = keysKept().find((name) => sessionStorage.getItem(name) === text);
    const name = known ?? `${PREFIX_KEPT}${Date.now().toString(36)}`;
    for (const oldest of keysKept().slice(0, -MOST_KEPT)) sessionStorage.removeItem(oldest);
    while (!known && !stored(name, text)) {
      const [oldest] = keysKept();
      if (!oldest) return "";
      sessionStorage.removeItem(oldest);
    }
    return name.slice(PREFIX_KEPT.length);
  } catch {
    return ""; // no storage here
  }
}

/** Is there room for it? @param {string} name @param {string} text */
function stored(name, text) {
  try {
    sessionStorage.setItem(name, text);
    return true;
  } catch {
    return false;
  }
}

/** The text of a key; null where this tab doesn't have it. @param {string} key */
export function keptText(key) {
  try {
    return sessionStorage.getItem(PREFIX_KEPT + key);
  } catch {
    return null;
  }
}

/** Forget a text that no address names any more. @param {string} key */
export function forgetText(key) {
  try {
    sessionStorage.removeItem(PREFIX_KEPT + key);
  } catch {
    // no storage here
  }
}
