// @ts-check
/** Tokens, weights and names as text for people. */
import { isWeight } from "./arrays.js";
import { phrase } from "./language.js";
import { patchNames } from "./patches.js";

const LONGEST_LABEL = 100; // characters
const LONGEST_NAME = 64; // characters of the name of a layer
const MOST_MARKS = 31; // code points of a character; Unicode's stream-safe text has at most 30 marks after a letter

/** Characters that are invisible or change the direction of the text around them. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;
const PICTURES = new Map([["\n", "⏎"], ["\t", "⇥"]]);

const SPACES = /(?<!\S) | (?!\S)/gu;
const JOINERS = /[\u200c\u200d]/u;
const CLUSTER = /\r\n|[\u{1f1e6}-\u{1f1ff}]{2}|[^](?:[\p{M}\u200c\u{1f3fb}-\u{1f3ff}\u{e0020}-\u{e007f}\u1160-\u11ff]|\u200d\P{M}?)*/gu;
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

/** The characters of a text as people see them, such as a whole flag or family. @param {string} text @returns {string[]} */
export function graphemes(text) {
  if (!segmenter) return text.match(CLUSTER) ?? [];
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/**
 * A text of at most so many characters. What is cut at the end, or in the middle, becomes an ellipsis.
 * @param {string} text @param {number} most @param {boolean} middle
 */
export function shortened(text, most, middle = false) {
  if (text.length <= most) return text;
  const [first, last] = middle ? [Math.ceil(most / 2), Math.floor(most / 2)] : [most, 0];
  if (text.length <= 2 * MOST_MARKS * most) {
    const letters = graphemes(text);
    return letters.length <= most ? text : `${letters.slice(0, first - 1).join("")}…${last ? letters.slice(-last).join("") : ""}`;
  }
  const ends = [text.slice(0, first * MOST_MARKS), last ? text.slice(-last * MOST_MARKS) : ""]; // a very long text is not read whole
  return `${graphemes(ends[0]).slice(0, first - 1).join("")}…${last ? graphemes(ends[1]).slice(-last).join("") : ""}`;
}

/** A token with visible signs for spaces that are not between two words, line breaks and invisible characters. _tokens.py has the same rule. @param {string} token */
export function visible(token) {
  if (!token) return "∅";
  const spaced = token.replace(SPACES, "␣");
  return JOINERS.test(spaced) ? graphemes(spaced).map((letter) => signs(letter, joins(letter))).join("") : signs(spaced, false);
}

/** Whether the joiners of a character change how it looks, as in emoji and Persian. @param {string} letter */
function joins(letter) {
  return letter.charCodeAt(0) > 127 && !letter.match(/^[\u200c\u200d]|\u200d$/);
}

/** @param {string} text @param {boolean} joined whether its joiners stay */
function signs(text, joined) {
  return text.replace(UNSEEN, (mark) => {
    const code = mark.codePointAt(0) ?? 0;
    const known = PICTURES.get(mark);
    if (known) return known;
    if (joined && JOINERS.test(mark)) return mark;
    return code < 32 ? String.fromCharCode(0x2400 + code) : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/**
 * The label of a query or key, of limited length.
 * @param {import("./types.js").DocumentInfo} doc
 * @param {import("./types.js").RecordInfo} record
 * @param {"query" | "key"} side
 * @param {number} b
 * @param {number} n
 */
export function labelOf(doc, record, side, b, n) {
  return shortened(wholeLabel(doc, record, side, b, n), LONGEST_LABEL);
}

/**
 * The label of a query or key, which is its token, its position in the picture, or its number.
 * @param {import("./types.js").DocumentInfo} doc
 * @param {import("./types.js").RecordInfo} record
 * @param {"query" | "key"} side
 * @param {number} b
 * @param {number} n
 */
export function wholeLabel(doc, record, side, b, n) {
  const patch = record.pictures === null ? undefined : patchNames(doc, record, b).get(n);
  if (patch !== undefined && (side === "key" || record.kind !== "cross")) return patch;
  const lists = side === "query" ? record.queryTokens : record.keyTokens;
  const word = lists && doc.labels[lists[b]] ? doc.labels[lists[b]][n] : undefined;
  if (word !== undefined) return visible(word);
  const grid = side === "query" ? record.queryGrid : record.keyGrid;
  const extra = side === "query" ? record.queryExtra : record.keyExtra;
  const at = n - extra;
  if (!grid || at >= grid[0] * grid[1]) return String(n);
  if (at < 0) return extra === 1 ? phrase("classTokenLabel") : phrase("extra", { n });
  return `r${Math.floor(at / grid[1])} c${at % grid[1]}`;
}

/** A weight with three significant figures. @param {number} w */
export function weightText(w) {
  if (!isWeight(w)) return phrase("hidden");
  const size = Math.abs(w);
  if (size === 0) return "0";
  const text = size >= 0.001 ? w.toFixed(size >= 0.1 ? 3 : 4) : w.toExponential(1);
  return text.replaceAll("-", "−");
}

/** A weight for a small cell, such as .12 or −.12, and · for almost 0. @param {number} w */
export function shortWeight(w) {
  const size = Math.abs(w);
  if (size < 0.005) return size > 0 ? "·" : "0";
  return (w < 0 ? "−" : "") + (size > 0.995 ? size.toFixed(size > 1.05 ? 1 : 0) : size.toFixed(2).slice(1));
}

/** A weight for a large cell, with three decimals, and · for almost 0. @param {number} w */
export function longWeight(w) {
  const size = Math.abs(w);
  return size < 0.0005 ? (size > 0 ? "·" : "0") : w.toFixed(3).replace("-", "−");
}

/** A short text for any number. @param {number} x */
export function numberText(x) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.001 || size >= 1e5) ? x.toExponential(2) : x.toFixed(size >= 100 ? 1 : 3);
  return text.replaceAll("-", "−");
}

/** A text of at most six characters for any number. @param {number} x */
export function cellNumber(x) {
  const size = Math.abs(x);
  if (!(size < 9999.5)) return Number.isFinite(x) ? x.toExponential(0).replaceAll("-", "−").replace("+", "") : numberText(x);
  return x.toFixed(size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0).replace("-", "−");
}

/** A share in per cent. @param {number} w */
export function percent(w) {
  const p = isWeight(w) ? 100 * Math.abs(w) : 0;
  return `${w < 0 && p > 0 ? "−" : ""}${p >= 10 ? p.toFixed(1) : p >= 0.01 || p === 0 ? p.toFixed(2) : "<0.01"} %`;
}

/** The name of a record, cut in the middle if it is long, since names of modules differ at their ends. @param {import("./types.js").RecordInfo} record */
export function nameText(record) {
  return shortened(visible(record.name), LONGEST_NAME, true);
}

/**
 * The name of a record in a list, with its layer and its kind.
 * @param {import("./types.js").RecordInfo} record
 * @param {number} n
 * @param {string} name
 */
export function recordText(record, n, name = nameText(record)) {
  const layer = record.layer === null ? `#${n}` : phrase("layerNumber", { n: record.layer });
  return `${layer} · ${shortened(kindText(record.role ?? record.kind), LONGEST_NAME)} · ${name}`;
}

/** The name of a role or a kind of attention, which may be one of the user's own. @param {string} kind */
export function kindText(kind) {
  switch (kind) {
    case "self": return phrase("kindSelf");
    case "causal": return phrase("kindCausal");
    case "cross": return phrase("kindCross");
    case "encoder": return phrase("roleEncoder");
    case "decoder": return phrase("roleDecoder");
    default: return visible(kind);
  }
}

/** @param {"query" | "key"} side */
export function sideText(side) {
  return side === "key" ? phrase("key") : phrase("query");
}

/** A query or key with its number. @param {"query" | "key"} side @param {number} n */
export function sideNumber(side, n) {
  return side === "key" ? phrase("keyNumber", { n }) : phrase("queryNumber", { n });
}

/**
 * The number of a head in the model, which differs from its index if a record holds only some heads.
 * @param {import("./types.js").RecordInfo} record
 * @param {number} head
 */
export function headNumber(record, head) {
  return record.heads ? record.heads[head] : head;
}

/** @param {import("./types.js").RecordInfo} record @param {number} head */
export function headText(record, head) {
  return head < 0 ? phrase("headMean") : phrase("headNumber", { n: headNumber(record, head) });
}

/**
 * A new element with attributes and children. Text is never parsed as markup.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
