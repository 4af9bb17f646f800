// @ts-check
/** The patches of pictures among the keys of a record, and which of them are sinks. */
import { phrase } from "./language.js";

/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */
/** @typedef {import("./types.js").RecordInfo} RecordInfo */
/** @typedef {import("./types.js").GridSpec} GridSpec */

/**
 * A grid of patches. `keys` are the keys of its patches, row after row, `box` is the left, top, right and bottom of all
 * patches as parts of the picture, and `ratio` the width of the picture over its height.
 * @typedef {{rows: number, cols: number, keys: Int32Array, box: number[], ratio: number, picture: number | null, stretched: boolean, size: number[] | null, name: string}} Patches
 */

// A sink has at least this many times the even share of a patch, for at least this share of the words, of which there
// are at least a few. picture_maps.py has the same rule.
const SINK_FACTOR = 4;
const SINK_WORDS = 0.9;
const LEAST_WORDS = 4;

/** @type {WeakMap<object, Patches[]>} */
const unpacked = new WeakMap();

/** The grids of patches among the keys of a sequence. @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b @returns {Patches[]} */
export function patchesOf(doc, record, b) {
  const layout = record.pictures === null ? null : doc.layouts[record.pictures];
  const grids = layout?.sequences[b];
  if (grids?.length) {
    if (!unpacked.has(grids)) unpacked.set(grids, grids.map((grid) => unpackedGrid(grid, grids)));
    return /** @type {Patches[]} */ (unpacked.get(grids));
  }
  if (!record.keyGrid) return [];
  const [rows, cols] = record.keyGrid;
  const keys = Int32Array.from({ length: rows * cols }, (_, n) => record.keyExtra + n);
  const picture = doc.pictures.length === record.shape[0] ? b : null;
  return [{ rows, cols, keys, box: [0, 0, 1, 1], ratio: cols / rows, picture, stretched: true, size: null, name: "" }];
}

/** @param {GridSpec} grid @param {GridSpec[]} all of its sequence @returns {Patches} */
function unpackedGrid(grid, all) {
  const [height, width] = grid.size;
  const [left, top, right, bottom] = grid.box;
  const keys = Int32Array.from(grid.runs.flatMap(([start, length]) => Array.from({ length }, (_, n) => start + n)));
  const number = 1 + [...new Set(all.map((other) => other.picture))].indexOf(grid.picture);
  return {
    rows: grid.grid[0], cols: grid.grid[1], keys, box: [left / width, top / height, right / width, bottom / height],
    ratio: width / height, picture: grid.image, stretched: grid.stretched, size: grid.size,
    name: grid.view === "whole" ? String(number) : `${number}, ${grid.view === "tiles" ? phrase("tiles") : grid.view}`,
  };
}

/** @type {WeakMap<object, Map<number, string>>} */
const named = new WeakMap();

/** The names of the keys that are patches, such as p2 r0 c11. @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b @returns {Map<number, string>} */
export function patchNames(doc, record, b) {
  const grids = patchesOf(doc, record, b);
  let names = named.get(grids);
  if (!names) {
    const all = grids.flatMap(({ keys, cols, name }) => Array.from(keys, (key, n) => /** @type {[number, string]} */ ([key, `p${name.replace(",", "")} r${Math.floor(n / cols)} c${n % cols}`])));
    names = new Map(all);
    named.set(grids, names);
  }
  return names;
}

/** Whether some sequence of a record has patches among its keys. @param {DocumentInfo} doc @param {RecordInfo} record */
export function hasPatches(doc, record) {
  return Array.from({ length: record.shape[0] }, (_, b) => b).some((b) => patchesOf(doc, record, b).length > 0);
}

/** The positions of the words of a sequence with pictures, or null for any other sequence. @param {DocumentInfo} doc @param {RecordInfo} record @param {number} b @returns {number[] | null} */
export function pictureWords(doc, record, b) {
  const runs = record.pictures === null ? undefined : doc.layouts[record.pictures].words[b];
  return runs ? runs.flatMap(([start, length]) => Array.from({ length }, (_, n) => start + n)) : null;
}

/**
 * 1 for patches that nearly every word attends to, else 0. Null until all rows are computed.
 * @param {(Float32Array | null)[]} rows the weights of each word over all keys @param {Int32Array} keys of the patches
 */
export function sinkPatches(rows, keys) {
  const high = new Float64Array(keys.length);
  let counted = 0;
  for (const row of rows) {
    if (!row) return null;
    let mass = 0;
    for (const key of keys) mass += Math.max(0, row[key]);
    if (mass <= 0) continue;
    counted += 1;
    keys.forEach((key, n) => (high[n] += row[key] / mass >= SINK_FACTOR / keys.length ? 1 : 0));
  }
  const needed = Math.ceil(SINK_WORDS * counted - 1e-9);
  return Uint8Array.from(high, (n) => (counted >= LEAST_WORDS && n >= needed ? 1 : 0));
}
