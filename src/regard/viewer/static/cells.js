// @ts-check
/** Colouring of blocks of weights, and assembly of blocks from tiles. */
import { PENDING, isWeight, magnitude, stronger } from "./arrays.js";
import { colorAt, colorTable, place } from "./color.js";
import { element2d } from "./paint.js";
import { topsOf } from "./scales.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./scales.js").Tops} Tops */

/** @type {WeakMap<Block, {key: string, canvas: HTMLCanvasElement}>} */
const painted = new WeakMap();

/**
 * A canvas with one pixel for each cell of a block.
 * @param {Block & {done?: number}} block
 * @param {Tops} tops of the whole map
 * @param {Scene} scene
 * @param {number} from the start of the block, as a share of all queries
 * @param {number} to the end of the block
 */
export function paintedBlock(block, tops, scene, from = 0, to = 1) {
  const { state, theme } = scene;
  const key = [tops.key, tops.values[0], state.scale, state.palette, theme.dark, block.done ?? 1].join("/");
  const held = painted.get(block);
  if (held && held.key === key) return held.canvas;
  const { canvas, context } = element2d(block.cols, block.rows);
  const pixels = context.createImageData(block.cols, block.rows);
  const table = colorTable(tops.signed ? "signed" : state.palette, theme.dark);
  const [hidden, pending] = [hexBytes(theme.hidden), hexBytes(theme.pending)];
  for (let n = 0; n < block.values.length; n++) {
    const w = block.values[n];
    const share = from + ((Math.floor(n / block.cols) + 0.5) / block.rows) * (to - from);
    const top = tops.values[Math.min(tops.rows - 1, Math.floor(share * tops.rows))];
    const at = 3 * Math.round(255 * place(w, top, state.scale, tops.signed));
    const [color, first] = isWeight(w) ? [table, at] : [w === PENDING ? pending : hidden, 0];
    for (let part = 0; part < 3; part++) pixels.data[4 * n + part] = color[first + part];
    pixels.data[4 * n + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  painted.set(block, { key, canvas });
  return canvas;
}

/** @type {WeakMap<Block, {key: string, block: Block & {done: number}}>} */
const shrunken = new WeakMap();

/**
 * A block pooled to at most one cell a pixel. Without pooling, drawing it on fewer pixels would skip whole columns.
 * @param {Block & {done?: number}} block @param {number} high in pixels @param {number} wide
 */
export function shrunkBlock(block, high, wide) {
  const rows = Math.max(1, Math.min(block.rows, Math.floor(high)));
  const cols = Math.max(1, Math.min(block.cols, Math.floor(wide)));
  if (rows === block.rows && cols === block.cols) return block;
  const done = block.done ?? 1;
  const key = [rows, cols, done].join("/");
  const held = shrunken.get(block);
  if (held && held.key === key) return held.block;
  const values = new Float32Array(rows * cols).fill(PENDING);
  for (let i = 0; i < block.rows; i++) {
    const at = Math.floor((i * rows) / block.rows) * cols;
    for (let j = 0; j < block.cols; j++) {
      const cell = at + Math.floor((j * cols) / block.cols);
      values[cell] = stronger(values[cell], block.values[i * block.cols + j]);
    }
  }
  const made = { rows, cols, values, done };
  shrunken.set(block, { key, block: made });
  return made;
}

/**
 * Draw a whole map into a rectangle.
 * @param {import("./paint.js").Painter} p @param {import("./types.js").Overview} block @param {Scene} scene @param {number} record
 * @param {number} x @param {number} y @param {number} w @param {number} h
 */
export function drawBlock(p, block, scene, record, x, y, w, h) {
  const small = shrunkBlock(block, h * p.ratio, w * p.ratio);
  const tops = topsOf(scene, record, block);
  p.image(paintedBlock(small, tops.rows > 1 ? topsOf(scene, record, small) : tops, scene), x, y, w, h); // pooled rows have their own largest weights
}

/**
 * The colour scale, with the values of both ends, and of the middle of a signed scale, below.
 * @param {import("./paint.js").Painter} p @param {Scene} scene @param {string} palette @param {[string, string]} ends
 * @param {number} x @param {number} y @param {number} width
 */
export function drawColorBar(p, scene, palette, ends, x, y, width) {
  const { theme } = scene;
  const table = colorTable(palette, theme.dark);
  for (let n = 0; n < 60; n++) p.rect(x + (n * width) / 60, y, width / 60 + 0.6, 9, { fill: colorAt(table, n / 59) });
  const style = { fill: theme.soft, size: 11 };
  p.text(ends[0], x, y + 18, style);
  if (palette === "signed") p.text("0", x + width / 2, y + 18, { ...style, align: "center" });
  p.text(ends[1], x + width, y + 18, { ...style, align: "right" });
}

/** @param {string} color #rrggbb */
function hexBytes(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

/**
 * The weights of queries r0…r1 and keys c0…c1, or null until their tiles are computed.
 * @param {Scene} scene @param {number} head @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1
 * @returns {Block | null}
 */
export function windowOf(scene, head, r0, r1, c0, c1) {
  const { source, state } = scene;
  const side = source.squareSide;
  const out = new Float32Array((r1 - r0) * (c1 - c0));
  let whole = true;
  for (let tr = Math.floor(r0 / side); tr * side < r1; tr++) {
    for (let tc = Math.floor(c0 / side); tc * side < c1; tc++) {
      const tile = source.square(state.record, state.batch, head, tr, tc);
      if (!tile) {
        whole = false;
        continue;
      }
      for (let i = Math.max(r0, tr * side); i < Math.min(r1, tr * side + tile.rows); i++) {
        const from = (i - tr * side) * tile.cols;
        for (let j = Math.max(c0, tc * side); j < Math.min(c1, tc * side + tile.cols); j++) {
          out[(i - r0) * (c1 - c0) + j - c0] = tile.values[from + j - tc * side];
        }
      }
    }
  }
  return whole ? { rows: r1 - r0, cols: c1 - c0, values: out } : null;
}

/**
 * The n weights of a row with the largest magnitudes, and their keys.
 * @param {import("./types.js").RecordInfo} record @param {Float32Array} row @param {number} query @param {number} n
 */
export function strongest(record, row, query, n) {
  const seen = seenBy(record, row, query);
  /** @type {{key: number, weight: number}[]} */
  const best = [];
  for (let j = 0; j < row.length; j++) {
    const size = Math.abs(row[j]);
    if (!seen(j) || (best.length === n && size <= Math.abs(best[n - 1].weight))) continue;
    let at = best.length;
    while (at > 0 && Math.abs(best[at - 1].weight) < size) at--;
    best.splice(at, 0, { key: j, weight: row[j] });
    if (best.length > n) best.pop();
  }
  return best;
}

/**
 * Whether a query may attend to a key. Stored weights are 0 where a causal mask hides a key.
 * @param {import("./types.js").RecordInfo} record @param {Float32Array} row @param {number} query
 * @returns {(key: number) => boolean}
 */
function seenBy(record, row, query) {
  const [, , q, k] = record.shape;
  const last = record.kind === "causal" ? query + k - q : k;
  return (key) => isWeight(row[key]) && (key <= last || row[key] !== 0);
}

/**
 * The rank of a key by magnitude, from 1, among the n keys that a query may attend to, or null if it is not one of them.
 * @param {import("./types.js").RecordInfo} record @param {Float32Array} row @param {number} query @param {number} key
 */
export function rankOf(record, row, query, key) {
  const seen = seenBy(record, row, query);
  if (!seen(key)) return null;
  let [rank, n] = [1, 0];
  for (let j = 0; j < row.length; j++) {
    if (!seen(j)) continue;
    n += 1;
    if (magnitude(row[j]) > magnitude(row[key])) rank += 1;
  }
  return { rank, n };
}
