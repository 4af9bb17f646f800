// @ts-check
/** The state of the viewer, and its form in the URL. */

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */

import { hasPatches, patchesOf } from "./patches.js";
import { TOPS_KNOWN } from "./scales.js";
import { asideOf, filterOf, hasPair } from "./tokens.js";

export const VIEWS = ["grid", "heat", "flow", "text", "steps", "image"];
export const SCALES_KNOWN = ["linear", "root", "log"];
export const PALETTES = ["bright", "ink"];
const THEMES = ["auto", "light", "dark"];
const SIDES = ["query", "key"];
const BY = ["query", "all"];
const CELL = /** @type {const} */ (["record", "head", "row", "col"]);
export const PAIRS = ["", "AA", "AB", "BA", "BB"];

/** The available views. Picture is available if the keys are patches. @param {DocumentInfo} doc */
export function viewsOf(doc) {
  return VIEWS.filter((view) => view !== "image" || doc.records.some((record) => hasPatches(doc, record) || record.pictures !== null));
}

/** @param {DocumentInfo} doc @returns {State} */
export function initialState(doc) {
  const pictured = doc.records.findIndex((record) => hasPatches(doc, record));
  const place = Math.max(0, doc.pictures.length ? pictured : 0);
  const last = doc.records[place].kind === "causal" ? doc.records[place].shape[2] - 1 : 0; // the first query sees only itself
  const opening = doc.opening ?? { record: place, head: 0, row: last, col: 0 };
  const long = Math.max(...doc.records[opening.record].shape.slice(2)) > 48;
  const picture = Math.max(0, patchesOf(doc, doc.records[opening.record], 0).findIndex(({ keys }) => keys.includes(opening.col)));
  const many = doc.records.length > 1 || doc.records[0].shape[1] > 1;
  return {
    view: pictured >= 0 && doc.pictures.length ? "image" : many ? "grid" : "heat",
    ...opening, batch: 0,
    zoom: 0, x: 0, y: 0,
    scale: long ? "root" : "linear", top: "auto", aside: 0, palette: "bright", theme: "auto",
    heads: null, min: -1, scroll: -1, opacity: 0.75, picture, sinks: 0, side: "query", pin: "", by: "query", pair: "", find: "",
  };
}

/**
 * Read a state from a URL. Missing and invalid values are those of the initial state.
 * @param {DocumentInfo} doc
 * @param {string} hash
 */
export function parseState(doc, hash) {
  const state = initialState(doc);
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (/** @type {string} */ name, /** @type {number} */ usual) => {
    const text = said.get(name);
    const value = text === null || text.trim() === "" ? NaN : Number(text);
    return Number.isFinite(value) ? value : usual;
  };
  const choice = (/** @type {string} */ name, /** @type {string[]} */ known, /** @type {string} */ usual) =>
    known.includes(said.get(name) ?? usual) ? said.get(name) ?? usual : usual;
  state.view = choice("view", viewsOf(doc), state.view);
  state.scale = choice("scale", SCALES_KNOWN, state.scale);
  state.palette = choice("palette", PALETTES, state.palette);
  state.theme = choice("theme", THEMES, state.theme);
  state.side = choice("side", SIDES, state.side);
  state.top = choice("top", TOPS_KNOWN, state.top);
  state.by = choice("by", BY, state.by);
  state.pair = choice("pair", PAIRS, state.pair);
  state.pin = said.get("pin") ?? "";
  state.find = said.get("find") ?? "";
  for (const name of /** @type {const} */ (["record", "head", "batch", "row", "col", "aside", "picture", "sinks"])) {
    state[name] = Math.round(number(name, state[name]));
  }
  for (const name of /** @type {const} */ (["zoom", "x", "y", "min", "scroll", "opacity"])) {
    state[name] = number(name, state[name]);
  }
  const heads = (said.get("heads") ?? "").split(".").map(Number);
  if (said.get("heads") === "all") state.heads = "all";
  else if (said.get("heads") && heads.every(Number.isInteger)) state.heads = heads;
  return fitted(doc, state);
}

/** Limit every value of a state to its valid range. @param {DocumentInfo} doc @param {State} state */
export function fitted(doc, state) {
  const within = (/** @type {number} */ x, /** @type {number} */ low, /** @type {number} */ high) =>
    Math.min(high, Math.max(low, x));
  state.record = within(state.record, 0, doc.records.length - 1);
  const [b, h, q, k] = doc.records[state.record].shape;
  state.batch = within(state.batch, 0, b - 1);
  state.head = within(state.head, -1, h - 1);
  state.row = within(state.row, 0, q - 1);
  state.col = within(state.col, 0, k - 1);
  state.zoom = state.zoom > 0 ? within(state.zoom, 1e-4, 200) : 0;
  state.x = within(state.x, 0, k);
  state.y = within(state.y, 0, q);
  state.min = state.min < 0 ? -1 : within(state.min, 0, 1);
  state.scroll = state.scroll < 0 ? -1 : within(state.scroll, 0, 1);
  state.aside = state.aside ? 1 : 0;
  state.sinks = state.sinks ? 1 : 0;
  state.picture = within(state.picture, 0, Math.max(0, patchesOf(doc, doc.records[state.record], state.batch).length - 1));
  state.find = state.find.slice(0, 200);
  fitPair(doc, state);
  state.opacity = within(state.opacity, 0, 1);
  if (Array.isArray(state.heads)) {
    const there = [...new Set(state.heads)].filter((head) => head >= 0 && head < h).sort((x, y) => x - y);
    state.heads = there.length ? there : null;
  }
  const pin = pinned(state);
  if (!pin || pin.n >= (pin.side === "key" ? k : q)) state.pin = "";
  return state;
}

/** Remove the sentence filter if there is no pair, and choose a query of the filtered sentence. @param {DocumentInfo} doc @param {State} state */
function fitPair(doc, state) {
  const record = doc.records[state.record];
  if (state.pair && !hasPair(doc, record, state.batch)) state.pair = "";
  const of = filterOf(doc, record, state.batch, state.pair);
  if (of.query(state.row)) return;
  const aside = asideOf(doc, record, "query", state.batch);
  const first = Array.from(aside).findIndex((out, n) => !out && of.query(n));
  state.row = Math.max(0, first);
}

/** The pinned token, or null. @param {State} state @returns {{side: "query" | "key", n: number} | null} */
export function pinned(state) {
  const found = /^([qk])(\d+)$/.exec(state.pin);
  return found && { side: found[1] === "k" ? "key" : "query", n: Number(found[2]) };
}

/**
 * Write a state as a URL fragment. It holds the values that differ from the initial state, and always the chosen cell.
 * @param {DocumentInfo} doc @param {State} state
 */
export function formatState(doc, state) {
  const usual = /** @type {Record<string, unknown>} */ (initialState(doc));
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (Array.isArray(value)) said.set(name, value.join("."));
    else if (value !== null && value !== usual[name]) {
      said.set(name, typeof value === "number" ? String(Number(value.toFixed(4))) : value);
    }
  }
  if (said.size) for (const name of CELL) said.set(name, String(state[name]));
  return `#${said}`;
}
