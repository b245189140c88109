// Random numbers, the same as in Python (draw/dot_product_figure.py): Mulberry32, then Box–Muller.

/** Numbers of mean 0 and variance 1. @param {number} seed @param {number} count */
export function normals(seed, count) {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const drawn = new Float64Array(count);
  for (let i = 0; i < count; i += 2) {
    const size = Math.sqrt(-2 * Math.log(1 - next())),
      angle = 2 * Math.PI * next();
    drawn[i] = size * Math.cos(angle);
    if (i + 1 < count) drawn[i + 1] = size * Math.sin(angle);
  }
  return drawn;
}
