// Texts too long for an address. The tab stores them in its session storage, which survives a reload, and the address has a
// short key. Other tabs and browsers don't have them.

const STORAGE_PREFIX = "qkv-text-";
const MAX_TEXTS = 20; // texts; a browser gives a tab about five million characters

/** Their keys, the oldest first: they are times. */
const storedKeys = () => Object.keys(sessionStorage).filter((name) => name.startsWith(STORAGE_PREFIX)).sort();

/** Keep a text; returns its key, or "" where the browser has no room for it. @param {string} text */
export function storeText(text) {
  try {
    const existing = storedKeys().find((name) => sessionStorage.getItem(name) === text);
    const name = existing ?? `${STORAGE_PREFIX}${Date.now().toString(36)}`;
    for (const oldest of storedKeys().slice(0, -MAX_TEXTS)) sessionStorage.removeItem(oldest);
    while (!existing && !stored(name, text)) {
      const [oldest] = storedKeys();
      if (!oldest) return "";
      sessionStorage.removeItem(oldest);
    }
    return name.slice(STORAGE_PREFIX.length);
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
export function storedText(key) {
  try {
    return sessionStorage.getItem(STORAGE_PREFIX + key);
  } catch {
    return null;
  }
}

/** Forget a text that no address names any more. @param {string} key */
export function forgetText(key) {
  try {
    sessionStorage.removeItem(STORAGE_PREFIX + key);
  } catch {
    // no storage here
  }
}
