// @ts-check
/** Properties of tokens: special tokens such as [CLS], sentences of a pair, pieces of words. */
import { phrase } from "./language.js";
import { shortened, visible } from "./text.js";

/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */
/** @typedef {import("./types.js").RecordInfo} RecordInfo */

const MARK = /^(\[[A-Za-z][^[\]]*\]|<(?!0x)[^<>\s]+>|<\|.*\|>)$/u; // _tokens.py has the same rule
const CLOSING = /^[.,;:!?%)\]}’”。，、；：！？）」]+$/u; // punctuation without a space before it
const LETTERS = /^[\p{L}\p{M}\p{N}'’]+$/u; // a part of a word in a script
const LONGEST_TOKEN = 100; // characters
const SEPARATOR = /^(\[SEP\]|<\/s>|<sep>|<\|sep\|>|<eos>)$/iu;

/** @param {DocumentInfo} doc @param {RecordInfo} record @param {"query" | "key"} side @param {number} b @returns {string[] | null} */
export function wordsOf(doc, record, side, b) {
  const lists = side === "query" ? record.queryTokens : record.keyTokens;
  return lists ? doc.labels[lists[b]] ?? null : null;
}

/**
 * 1 for special tokens, for the first token of a text and for tokens before the patches of a picture, else 0.
 * @param {DocumentInfo} doc @param {RecordInfo} record @param {"query" | "key"} side @param {number} b
 */
export function asideOf(doc, record, side, b) {
  const n = record.shape[side === "query" ? 2 : 3];
  const grid = side === "query" ? record.queryGrid : record.keyGrid;
  const first = grid ? (side === "query" ? record.queryExtra : record.keyExtra) : 1;
  const words = wordsOf(doc, record, side, b);
  return Uint8Array.from({ length: n }, (_, at) => (at < first || (words && MARK.test(words[at])) ? 1 : 0));
}

/** A text that lists the special tokens. @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b */
export function asideText(doc, record, b) {
  const words = [...(wordsOf(doc, record, "query", b) ?? []), ...(wordsOf(doc, record, "key", b) ?? [])];
  const marks = [...new Set(words.filter((word) => MARK.test(word)))].sort().map(visible);
  const first = record.keyGrid ? (record.keyExtra ? [phrase("extraTokens")] : []) : [phrase("firstToken")];
  return [...marks.slice(0, 3), ...(marks.length > 3 ? ["…"] : []), ...first].join(phrase("wordSeparator"));
}

/**
 * The sentence of each token, 1 or 2, and 0 for tokens after the pair. Null if the tokens are not a pair of sentences,
 * each followed by a separator.
 * @param {string[] | null} words @returns {Uint8Array | null}
 */
export function sentencesOf(words) {
  if (!words) return null;
  const found = new Uint8Array(words.length);
  let [sentence, content] = [1, [0, 0, 0, 0]];
  words.forEach((word, n) => {
    if (sentence > 2) return;
    found[n] = sentence;
    if (!SEPARATOR.test(word)) content[sentence] += MARK.test(word) ? 0 : 1;
    else if (content[sentence]) sentence += 1;
  });
  return content[1] && content[2] && sentence > 2 ? found : null;
}

/**
 * Functions that say which queries and keys a sentence filter keeps. "AB" keeps queries of the first sentence and keys
 * of the second.
 * @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b @param {string} pair
 * @returns {{query: (n: number) => boolean, key: (n: number) => boolean}}
 */
export function filterOf(doc, record, b, pair) {
  const sides = /** @type {const} */ (["query", "key"]).map((side) => sentencesOf(wordsOf(doc, record, side, b)));
  const keeps = (/** @type {number} */ at) => {
    const [found, wanted] = [sides[at], pair[at] === "B" ? 2 : 1];
    return (/** @type {number} */ n) => !pair || !found || found[n] === wanted;
  };
  return { query: keeps(0), key: keeps(1) };
}

/** Whether both sides of a record are pairs of sentences. @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b */
export function hasPair(doc, record, b) {
  return /** @type {const} */ (["query", "key"]).every((side) => sentencesOf(wordsOf(doc, record, side, b)));
}

/**
 * Tokens as running text: the text of each, whether a space precedes it, and whether it is a piece of a word of several
 * tokens. Tokens hold their spaces, or the middle of a word begins with ##.
 * @param {string[]} words
 */
export function runningText(words) {
  const spaced = words.some((word) => /^ ./u.test(word));
  const text = (/** @type {string} */ word) => shortened(visible(word), LONGEST_TOKEN);
  const shown = words.map((word) => {
    if (MARK.test(word)) return { text: text(word), gap: true, joined: false };
    if (!spaced && word.startsWith("##") && word.length > 2) return { text: text(word.slice(2)), gap: false, joined: true };
    if (!spaced) return { text: text(word), gap: !CLOSING.test(word), joined: false };
    const begins = /^ ./u.test(word);
    return { text: text(begins ? word.slice(1) : word), gap: begins, joined: !begins && LETTERS.test(word) };
  });
  return shown.map(({ text, gap, joined }, n) => {
    const continued = n + 1 < shown.length && shown[n + 1].joined && LETTERS.test(text);
    const continues = joined && n > 0 && LETTERS.test(shown[n - 1].text);
    return { text, gap, piece: continued || continues };
  });
}

/** The tokens that contain a text, regardless of case. @param {string[]} labels @param {string} text */
export function tokensWith(labels, text) {
  const wanted = text.trim().toLocaleLowerCase();
  if (!wanted) return [];
  return labels.flatMap((label, n) => (label.toLocaleLowerCase().includes(wanted) ? [n] : []));
}
