// The texts of the page. The code has the English; page_shell.py inserts the translations from locale/ of the sentences that these
// modules use into CATALOGUES.

/** @type {Record<string, Record<string, string>>} */
const CATALOGUES = {};

export const LANGUAGES = ["en", ...Object.keys(CATALOGUES)];

/** Mark a sentence that is translated later. @param {string} sentence */
export const mark = (sentence) => sentence;

/**
 * Return the sentence in a language, with its values filled in.
 * @param {string} lang
 * @param {string} sentence
 * @param {Record<string, string | number>} [values]
 */
export function say(lang, sentence, values = {}) {
  const translation = CATALOGUES[lang]?.[sentence] || sentence;
  return translation.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
