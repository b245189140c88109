// Labels on a canvas: cut where there is no room; above a column turned, or character under character.

export const STACK = 13; // pixels from one character to the one under it
export const FONT =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans SC", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif';

/** Scripts that are written downwards as well as across, and pictures; a small number goes with what it numbers. */
const DOWN =
  /[\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\u{1f000}-\u{1faff}\u{20000}-\u{3ffff}](?:[\u200d\ufe0f]+[\u{1f000}-\u{1faff}\u2640\u2642]?)*[₀-₉]*/gu;

/** The characters of a label one by one, if all of them may stand under each other; else null. @param {string} text */
export function stack(text) {
  const signs = text.match(DOWN);
  return signs && signs.join("") === text ? signs : null;
}

/** @param {CanvasRenderingContext2D} context @param {string} text @param {number} room */
export function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const signs = [...text];
  while (signs.length > 1 && context.measureText(signs.join("") + "…").width > room) signs.pop();
  return signs.join("") + "…";
}

/**
 * A label that stands above a column: turned, or character under character where that is how it is written.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} bottom also the room there is
 */
export function upright(context, text, x, bottom) {
  const signs = stack(text);
  if (signs) {
    const room = Math.max(1, Math.floor((bottom - 8) / STACK));
    const shown = signs.length > room ? [...signs.slice(0, room - 1), "⋮"] : signs;
    context.textAlign = "center";
    shown.forEach((sign, i) => context.fillText(sign, x, bottom - 4 - (shown.length - i - 0.5) * STACK));
    return;
  }
  context.save();
  context.translate(x, bottom - 6);
  context.rotate(-Math.PI / 2);
  context.textAlign = "left";
  context.fillText(cut(context, text, bottom - 8), 0, 0);
  context.restore();
}
