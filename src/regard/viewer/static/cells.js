// @ts-check
/** Blocks of weights as coloured canvases, and as windows put together from tiles. */
import { colorTable, place } from "./color.js";
import { element2d } from "./paint.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Scene} Scene */

/** @type {WeakMap<Block, {key: string, canvas: HTMLCanvasElement}>} */
const painted = new WeakMap();

/**
 * A block with one pixel a cell.
 * @param {Block & {done?: number}} block
 * @param {number} max
 * @param {Scene} scene
 */
export function paintedBlock(block, max, scene) {
  const { state, theme } = scene;
  const key = [max, state.scale, state.palette, theme.dark, block.done ?? 1].join("/");
  const held = painted.get(block);
  if (held && held.key === key) return held.canvas;
  const { canvas, context } = element2d(block.cols, block.rows);
  const pixels = context.createImageData(block.cols, block.rows);
  const table = colorTable(state.palette, theme.dark);
  const hidden = hexBytes(theme.hidden);
  for (let n = 0; n < block.values.length; n++) {
    const w = block.values[n];
    const at = 3 * Math.round(255 * place(w, max, state.scale));
    pixels.data[4 * n] = w < 0 ? hidden[0] : table[at];
    pixels.data[4 * n + 1] = w < 0 ? hidden[1] : table[at + 1];
    pixels.data[4 * n + 2] = w < 0 ? hidden[2] : table[at + 2];
    pixels.data[4 * n + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  painted.set(block, { key, canvas });
  return canvas;
}

/** @param {string} color #rrggbb */
function hexBytes(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

/**
 * The weights of queries r0…r1 over keys c0…c1, or null until the tiles under them are there.
 * @param {Scene} scene @param {number} head @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1
 * @returns {Block | null}
 */
export function windowOf(scene, head, r0, r1, c0, c1) {
  const { source, state } = scene;
  const { side } = source;
  const out = new Float32Array((r1 - r0) * (c1 - c0));
  let whole = true;
  for (let tr = Math.floor(r0 / side); tr * side < r1; tr++) {
    for (let tc = Math.floor(c0 / side); tc * side < c1; tc++) {
      const tile = source.tile(state.record, state.batch, head, 1, tr, tc);
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
 * The largest weights of a row, and their keys.
 * @param {Float32Array} row @param {number} n
 */
export function strongest(row, n) {
  /** @type {{key: number, weight: number}[]} */
  const best = [];
  for (let j = 0; j < row.length; j++) {
    if (row[j] < 0 || (best.length === n && row[j] <= best[n - 1].weight)) continue;
    let at = best.length;
    while (at > 0 && best[at - 1].weight < row[j]) at--;
    best.splice(at, 0, { key: j, weight: row[j] });
    if (best.length > n) best.pop();
  }
  return best;
}

/** How many keys get more than this one, plus one. @param {Float32Array} row @param {number} key */
export function rankOf(row, key) {
  let rank = 1;
  for (let j = 0; j < row.length; j++) if (row[j] > row[key]) rank++;
  return rank;
}
