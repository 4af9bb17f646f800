// @ts-check
/** The selection of lines in the Flow view, and the geometry of its curves. */
import { magnitude } from "./arrays.js";
import { windowOf } from "./cells.js";
import { asideOf, filterOf } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {{head: number, i: number, j: number, w: number}} Link */
/** @typedef {{q0: number, k0: number, count: number}} Sight the first visible query and key, and the number of visible tokens */
/** @typedef {{side: "query" | "key", n: number} | null} Alone */
/** @typedef {(i: number, j: number, w: number) => boolean} Keep */

const MOST_LINES = 6000;
const STRONGEST = 30; // lines that are drawn by default; twice as many for several heads
const OF_CHOSEN = 3; // lines of the chosen query that are always drawn
const FAINT = 0.02; // the smallest weight that is drawn for an isolated token

/** All lines of the isolated token, or else of all visible tokens. @param {Scene} scene @param {number[]} heads @param {Sight} f @param {Alone} alone */
export function linksOf(scene, heads, f, alone) {
  const { doc, state, source } = scene;
  const q1 = Math.min(doc.records[state.record].shape[2], f.q0 + f.count);
  const keep = keeps(scene, alone !== null);
  /** @type {Link[]} */
  const links = [];
  for (const head of heads) {
    if (alone?.side === "query") addRow(scene, links, head, alone.n, keep);
    else if (alone || !source.near) addWindow(scene, links, f, head, alone ? alone.n : -1, keep);
    else for (let i = f.q0; i < q1; i++) addRow(scene, links, head, i, keep);
  }
  return links;
}

/**
 * The lines to draw, which are those above a weight, or the strongest lines and some of the chosen query.
 * @param {Scene} scene @param {Link[]} links @param {boolean} several heads @param {boolean} alone
 */
export function strongestOf(scene, links, several, alone) {
  const { state } = scene;
  links.sort((a, b) => Math.abs(b.w) - Math.abs(a.w));
  const most = state.min >= 0 ? MOST_LINES : STRONGEST * (several || alone ? 2 : 1);
  const strongest = links.slice(0, most);
  const more = alone || state.min >= 0 ? [] : links.slice(most).filter(({ i }) => i === state.row).slice(0, OF_CHOSEN);
  const least = strongest.length ? Math.abs(strongest[strongest.length - 1].w) : 0;
  return { shown: [...strongest, ...more], counts: { all: links.length, strongest: strongest.length, more: more.length, least } };
}

/** A function that says whether the filters of weight, sentence and special tokens keep a line. @param {Scene} scene @param {boolean} alone @returns {Keep} */
function keeps(scene, alone) {
  const { state, doc } = scene;
  const record = doc.records[state.record];
  const of = filterOf(doc, record, state.batch, state.pair);
  const [queries, keys] = /** @type {const} */ (["query", "key"]).map((side) => (state.aside ? asideOf(doc, record, side, state.batch) : null));
  const least = alone ? (state.min < 0 ? FAINT : state.min / 4) : Math.max(0, state.min);
  return (i, j, w) => magnitude(w) > 0 && magnitude(w) >= least && !queries?.[i] && !keys?.[j] && of.query(i) && of.key(j);
}

/** Add all lines of a query, also those to keys that are not visible. @param {Scene} scene @param {Link[]} links @param {number} head @param {number} i @param {Keep} keep */
function addRow(scene, links, head, i, keep) {
  const { state, source } = scene;
  source.row(state.record, state.batch, head, i)?.forEach((w, j) => {
    if (keep(i, j, w)) links.push({ head, i, j, w });
  });
}

/** Add the lines between visible tokens, or those of one isolated key. @param {Scene} scene @param {Link[]} links @param {Sight} f @param {number} head @param {number} key −1 for all @param {Keep} keep */
function addWindow(scene, links, f, head, key, keep) {
  const { state, doc } = scene;
  const [, , q, k] = doc.records[state.record].shape;
  const [q1, k1] = [Math.min(q, f.q0 + f.count), Math.min(k, f.k0 + f.count)];
  const block = windowOf(scene, head, f.q0, q1, f.k0, k1);
  block?.values.forEach((w, n) => {
    const [i, j] = [f.q0 + Math.floor(n / block.cols), f.k0 + (n % block.cols)];
    if ((key < 0 ? i !== state.row : key === j) && keep(i, j, w)) links.push({ head, i, j, w });
  });
  if (key < 0) addRow(scene, links, head, state.row, keep); // all lines of the chosen query
}

/** The parameter of a curve of paint.js at a horizontal share of its width; both are 0 to 1. @param {number} share */
export function curvePlace(share) {
  let [low, high] = [0, 1];
  for (let n = 0; n < 24; n++) {
    const t = (low + high) / 2;
    const x = 3 * (1 - t) ** 2 * t * 0.42 + 3 * (1 - t) * t ** 2 * 0.58 + t ** 3;
    if (x < share) low = t;
    else high = t;
  }
  return low;
}
