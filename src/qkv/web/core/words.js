// What the page says. English stands where it is said; the other languages are in locale/, from where page.py puts those
// sentences into CATALOGUES that these modules say.

/** @type {Record<string, Record<string, string>>} */
const CATALOGUES = {};

export const LANGUAGES = ["en", ...Object.keys(CATALOGUES)];

/** Marks a sentence that is said later. @param {string} sentence */
export const mark = (sentence) => sentence;

/**
 * The sentence in a language, with its values filled in.
 * @param {string} lang
 * @param {string} sentence
 * @param {Record<string, string | number>} [values]
 */
export function say(lang, sentence, values = {}) {
  const translation = CATALOGUES[lang]?.[sentence] || sentence;
  return translation.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
