// @ts-check
/** The weight at the end of the colour scale, which is the largest of the map or of each row, or a percentile. */
import { isWeight, magnitude } from "./arrays.js";
import { phrase } from "./language.js";
import { weightText } from "./text.js";
import { asideOf, asideText } from "./tokens.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./types.js").RecordInfo} RecordInfo */

/** The magnitude at the end of the colour scale, for each row of a block or for all rows. @typedef {{rows: number, values: Float32Array, key: string, signed: boolean}} Tops */

export const TOPS_KNOWN = ["auto", "largest", "percentile", "row"];
const PERCENTILE = 98; // per cent of the visible cells lie at or below the end of the scale
const LEAST_SHARE = 0.01; // of the median of the rows' largest weights, below which noise would look bright
const SHORT = 48; // tokens; up to this length, the scale of a causal map ends at its largest weight

/** The mode that "auto" chooses. The first rows of a long causal map have few keys, and so the largest weights. @param {RecordInfo} record @param {string} top */
export function topMode(record, top) {
  if (top !== "auto") return top;
  return record.kind === "causal" && Math.max(record.shape[2], record.shape[3]) > SHORT ? "percentile" : "largest";
}

/** @type {WeakMap<Block, Map<string, Tops>>} */
const knownTops = new WeakMap();

/**
 * The ends of the colour scale for a whole map, given as a block of cells.
 * @param {Scene} scene @param {number} n the record @param {Block & {max?: number, done?: number}} block @returns {Tops}
 */
export function topsOf(scene, n, block) {
  const { doc, state } = scene;
  const record = doc.records[n];
  const b = Math.min(state.batch, record.shape[0] - 1);
  const mode = topMode(record, state.top);
  const key = [mode, state.aside, block.done ?? 1].join("/");
  const known = knownTops.get(block) ?? new Map();
  knownTops.set(block, known);
  if (!known.has(key)) {
    if (known.size > 8) known.clear();
    const left = state.aside ? cellsLeft(asideOf(doc, record, "key", b), block.cols) : null;
    known.set(key, { key, signed: record.signed, ...topsOfBlock(mode, block, left) });
  }
  return known.get(key);
}

/** The columns of cells without special tokens, or null if there are none. @param {Uint8Array} aside @param {number} cols */
function cellsLeft(aside, cols) {
  const left = new Uint8Array(cols).fill(1);
  aside.forEach((out, j) => {
    if (out) left[Math.floor((j * cols) / aside.length)] = 0;
  });
  return left.includes(1) ? left : null;
}

/** @param {string} mode @param {Block & {max?: number}} block @param {Uint8Array | null} left */
function topsOfBlock(mode, block, left) {
  const { rows, cols, values } = block;
  const inRows = new Float32Array(rows);
  /** @type {number[]} */
  const seen = [];
  for (let n = 0; n < values.length; n++) {
    if (!isWeight(values[n]) || (left && !left[n % cols])) continue;
    const [row, size] = [Math.floor(n / cols), magnitude(values[n])];
    if (size > inRows[row]) inRows[row] = size;
    if (mode === "percentile") seen.push(size);
  }
  if (mode === "row") return { rows, values: inRows };
  const largest = left ? inRows.reduce((x, y) => Math.max(x, y), 0) : block.max ?? inRows.reduce((x, y) => Math.max(x, y), 0);
  const few = mode === "percentile" ? Math.max(rankedAt(seen, PERCENTILE), LEAST_SHARE * rankedAt([...inRows], 50)) : 0;
  return { rows: 1, values: Float32Array.of(few > 0 ? few : largest) };
}

/** A percentile of some numbers. @param {number[]} numbers @param {number} percent */
function rankedAt(numbers, percent) {
  numbers.sort((x, y) => x - y);
  return numbers[Math.floor(((numbers.length - 1) * percent) / 100)] ?? 0;
}

/** The end of the colour scale for one of several queries. @param {Tops} found @param {number} i @param {number} queries */
export function topAt(found, i, queries) {
  return found.values[Math.min(found.rows - 1, Math.max(0, Math.floor(((i + 0.5) * found.rows) / queries)))];
}

/** The two ends of a colour scale that ends at a magnitude. @param {number} most @param {string} scale @param {boolean} signed @returns {[string, string]} */
export function scaleEnds(most, scale, signed) {
  return [signed ? weightText(-most) : scale === "log" ? weightText(most / 1e4) : "0", weightText(most)];
}

/** The texts at the two ends of the colour bar of a map. @param {Scene} scene @param {Tops} found @param {RecordInfo} record @returns {[string, string]} */
export function barEnds(scene, found, record) {
  const { state, doc } = scene;
  const mode = topMode(record, state.top);
  const most = found.values.reduce((x, y) => Math.max(x, y), 0);
  const without = (/** @type {string} */ end) => (state.aside ? phrase("endWithout", { end, tokens: asideText(doc, record, state.batch) }) : end);
  if (mode === "row") {
    const several = Math.ceil(record.shape[2] / found.rows);
    const end = several > 1 ? phrase("largestOfRows", { n: several }) : phrase("largestOfRow");
    return [record.signed ? phrase("negative") : state.scale === "log" ? "0.01 %" : "0", without(end)];
  }
  const ends = scaleEnds(most, state.scale, record.signed);
  return mode === "percentile" || state.aside ? [ends[0], without(phrase("orMore", { weight: ends[1] }))] : ends;
}
