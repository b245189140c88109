// Colours of weights: from light to deep blue, or from dark to light in the dark theme; signed weights are blue above 0 and red
// below, as in the terminal and in figures. The √ scale makes small weights visible, the linear one shows true proportions.

/** @typedef {[number, number, number]} Colour */

/** @type {Record<"light" | "dark", Colour[]>} */
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
/** From 0 to the largest, above it and below it; on paper matplotlib's RdBu. @type {Record<"light" | "dark", { above: Colour[], below: Colour[] }>} */
const SIGNED = {
  light: {
    above: [
      [247, 247, 247],
      [209, 229, 240],
      [146, 197, 222],
      [67, 147, 195],
      [33, 102, 172],
      [5, 48, 97],
    ],
    below: [
      [247, 247, 247],
      [253, 219, 199],
      [244, 165, 130],
      [214, 96, 77],
      [178, 24, 43],
      [103, 0, 31],
    ],
  },
  dark: {
    above: [
      [20, 23, 29],
      [22, 48, 78],
      [26, 84, 138],
      [58, 134, 194],
      [130, 186, 228],
      [214, 236, 255],
    ],
    below: [
      [20, 23, 29],
      [74, 28, 28],
      [132, 42, 38],
      [192, 78, 60],
      [238, 146, 116],
      [255, 226, 208],
    ],
  },
};
/** @type {Record<"light" | "dark", { paper: Colour, line: Colour }>} */
const HATCH = {
  light: { paper: [244, 244, 241], line: [206, 206, 200] },
  dark: { paper: [26, 29, 36], line: [66, 72, 84] },
};

/**
 * @typedef {object} Palette
 * @property {Uint32Array} full colours as RGBA words: 256 levels from `zero` on, and as many before it where numbers are signed
 * @property {number} zero which of them is 0
 * @property {number} hatchPaper
 * @property {number} hatchLine
 */

/** @param {number} r @param {number} g @param {number} b */
const word = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** @type {Map<string, Palette>} */
const palettes = new Map();

/** @param {"light" | "dark"} theme @param {boolean} [signed] @returns {Palette} */
export function palette(theme, signed = false) {
  const name = `${theme} ${signed}`;
  let existing = palettes.get(name);
  if (existing) return existing;
  const zero = signed ? 255 : 0;
  const full = new Uint32Array(zero + 256);
  for (let step = -zero; step < 256; step++) {
    const stops = !signed ? STOPS[theme] : SIGNED[theme][step < 0 ? "below" : "above"];
    const at = (Math.abs(step) / 255) * (stops.length - 1),
      low = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[low].map((a, i) => a + (stops[low + 1][i] - a) * (at - low));
    full[zero + step] = word(...rounded(mixed));
  }
  const { paper, line } = HATCH[theme];
  existing = { full, zero, hatchPaper: word(...paper), hatchLine: word(...line) };
  palettes.set(name, existing);
  return existing;
}

/** @param {number[]} colour @returns {[number, number, number]} */
const rounded = (colour) => [Math.round(colour[0]), Math.round(colour[1]), Math.round(colour[2])];

/** Which of the 256 levels a weight between −1 and 1 has, with its sign. @param {number} weight @param {"root" | "linear"} scale */
export function level(weight, scale) {
  const size = Math.abs(weight);
  const share = scale === "root" ? Math.sqrt(size) : size;
  const index = share >= 1 ? 255 : (share * 255 + 0.5) | 0;
  return weight < 0 ? -index : index;
}

/** A colour of a palette as a style, with the ink that stands out from it more: by 4.5 to 1 on any. @param {number} rgba */
export function painted(rgba) {
  const rgb = [rgba & 255, (rgba >> 8) & 255, (rgba >> 16) & 255];
  const [r, g, b] = rgb.map((x) => (x <= 10 ? x / 3294 : ((x / 255 + 0.055) / 1.055) ** 2.4)); // light, not numbers of sRGB
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return { backgroundColor: `rgb(${rgb.join(" ")})`, color: (light + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff" };
}
