// Colours of weights: light paper to deep blue, or night to pale light. √ shows small weights, linear tells sizes truly.

/** @type {Record<"light" | "dark", [number, number, number][]>} */
const STOPS = {
  light: [
    [255, 255, 255],
    [222, 234, 246],
    [170, 205, 233],
    [103, 164, 211],
    [44, 112, 178],
    [18, 66, 128],
    [9, 34, 82],
  ],
  dark: [
    [20, 23, 29],
    [24, 44, 66],
    [28, 74, 108],
    [38, 118, 150],
    [84, 168, 176],
    [165, 214, 190],
    [250, 247, 206],
  ],
};
/** @type {Record<"light" | "dark", { paper: [number, number, number], line: [number, number, number] }>} */
const HATCH = {
  light: { paper: [244, 244, 241], line: [206, 206, 200] },
  dark: { paper: [26, 29, 36], line: [66, 72, 84] },
};

/**
 * @typedef {object} Palette
 * @property {Uint32Array} full colours of 256 levels, as RGBA words
 * @property {Uint32Array} dim the same for special tokens
 * @property {number} hatchPaper
 * @property {number} hatchLine
 */

/** @param {number} r @param {number} g @param {number} b */
const word = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** @type {Map<string, Palette>} */
const made = new Map();

/** @param {"light" | "dark"} theme @returns {Palette} */
export function palette(theme) {
  let found = made.get(theme);
  if (found) return found;
  const stops = STOPS[theme];
  const full = new Uint32Array(256),
    dim = new Uint32Array(256);
  for (let level = 0; level < 256; level++) {
    const at = (level / 255) * (stops.length - 1),
      low = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[low].map((a, i) => a + (stops[low + 1][i] - a) * (at - low));
    full[level] = word(...rounded(mixed));
    dim[level] = word(...rounded(mixed.map((a, i) => a * 0.45 + stops[0][i] * 0.55)));
  }
  const { paper, line } = HATCH[theme];
  found = { full, dim, hatchPaper: word(...paper), hatchLine: word(...line) };
  made.set(theme, found);
  return found;
}

/** @param {number[]} colour @returns {[number, number, number]} */
const rounded = (colour) => [Math.round(colour[0]), Math.round(colour[1]), Math.round(colour[2])];

/** Which of the 256 levels a weight has. @param {number} weight @param {"root" | "linear"} scale */
export function level(weight, scale) {
  const share = scale === "root" ? Math.sqrt(weight) : weight;
  return share >= 1 ? 255 : (share * 255 + 0.5) | 0;
}
