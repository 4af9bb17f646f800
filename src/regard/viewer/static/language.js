// @ts-check
/** The choice of the language of the viewer's texts. */
import { CHINESE } from "./chinese.js";
import { ENGLISH } from "./english.js";

const HAN = /\p{Script=Han}/u;
let texts = ENGLISH;

/** Choose the language of all texts by its code, such as zh or zh-CN. Any other language is shown in English. @param {string | undefined} code */
export function useLanguage(code) {
  texts = /^zh\b/i.test(code ?? "") ? CHINESE : ENGLISH;
}

/** The code of the language, for the attribute lang. */
export function languageCode() {
  return texts === CHINESE ? "zh-CN" : "en";
}

/** A text in the chosen language. @param {keyof typeof ENGLISH} name @param {Record<string, string | number>} [values] in place of the names in braces */
export function phrase(name, values = {}) {
  return texts[name].replace(/( ?)\{(\w+)\}( ?)/g, (_, before, value, after) => {
    const letters = Array.from(String(values[value]));
    const joined = (/** @type {string | undefined} */ letter) => texts === CHINESE && HAN.test(letter ?? ""); // no space between Chinese characters
    return `${joined(letters[0]) ? "" : before}${letters.join("")}${joined(letters.at(-1)) ? "" : after}`;
  });
}
