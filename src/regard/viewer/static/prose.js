// @ts-check
/** The tokens as running text, coloured by how much the chosen query, or all queries, look at them. */
import { colorAt, colorTable, inkOn, place } from "./color.js";
import { drawColorBar } from "./cells.js";
import { fittedText, textWidth } from "./paint.js";
import { STILL_ASKING, headText, labelOf, recordText, weightText } from "./text.js";
import { asideOf, asideText, filterOf, runningText, tokensWith, wordsOf } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {"query" | "key"} Side */
/** A token in its place: its line, and where it stands in it. @typedef {{side: Side, n: number, text: string, line: number, x: number, w: number}} Placed */
/** @typedef {{placed: Placed[], lines: number, headings: {line: number, text: string}[]}} Layout */

const PROSE_LINE = 32;
const PROSE_LETTERS = { size: 16 };
const TOKEN_PAD = 3; // around a token
const PROSE_MARGIN = 16;
const PROSE_TOP = 10;
const PROSE_FOOT = 40; // for the bar of colours
const WORD_SPACE = 4; // between words, besides the padding

export class ProseView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{side: Side, n: number} | null} */
    this.under = null;
    this.room = { width: 0, height: 0 };
    /** @type {{key: string, layout: Layout}} */
    this.held = { key: "", layout: { placed: [], lines: 0, headings: [] } };
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** No higher than the text needs. @param {number} width @param {number} height */
  size(width, height) {
    this.room = { width, height };
    return { width, height: Math.min(height, PROSE_TOP + this.layout().lines * PROSE_LINE + PROSE_FOOT) };
  }

  /** Whether queries and keys are the same text. */
  oneText() {
    const { doc, state } = this.scene;
    const [, , q, k] = this.record.shape;
    return q === k && this.record.kind !== "cross" && wordsOf(doc, this.record, "query", state.batch) === wordsOf(doc, this.record, "key", state.batch);
  }

  /** @param {Side} side @returns {{text: string, gap: boolean}[]} */
  pieces(side) {
    const { doc, state } = this.scene;
    const words = wordsOf(doc, this.record, side, state.batch);
    if (words) return runningText(words);
    const n = this.record.shape[side === "query" ? 2 : 3];
    return Array.from({ length: n }, (_, at) => ({ text: labelOf(doc, this.record, side, state.batch, at), gap: true }));
  }

  /** @returns {Layout} */
  layout() {
    const { state } = this.scene;
    const key = [state.record, state.batch, this.room.width].join("/");
    if (key !== this.held.key) this.held = { key, layout: this.makeLayout() };
    return this.held.layout;
  }

  /** @returns {Layout} */
  makeLayout() {
    const sides = /** @type {Side[]} */ (this.oneText() ? ["key"] : ["query", "key"]);
    /** @type {Placed[]} */
    const placed = [];
    const headings = [];
    const right = this.room.width - PROSE_MARGIN;
    let line = 0;
    for (const side of sides) {
      if (sides.length > 1) headings.push({ line: line++, text: side === "query" ? "queries (click one)" : "keys" });
      let x = PROSE_MARGIN;
      this.pieces(side).forEach(({ text, gap }, n) => {
        const shown = fittedText(text, right - PROSE_MARGIN - 2 * TOKEN_PAD, PROSE_LETTERS);
        const w = textWidth(shown, PROSE_LETTERS) + 2 * TOKEN_PAD;
        if (gap && x > PROSE_MARGIN) x += WORD_SPACE;
        if (x + w > right && x > PROSE_MARGIN) [line, x] = [line + 1, PROSE_MARGIN];
        placed.push({ side, n, text: shown, line, x, w });
        x += w;
        if (text.endsWith("⏎")) [line, x] = [line + 1, PROSE_MARGIN];
      });
      line += 1;
    }
    return { placed, lines: line, headings };
  }

  /** The lines in sight, and the first of them. */
  sight() {
    const { lines, placed } = this.layout();
    const { scroll, row } = this.scene.state;
    const count = Math.max(1, Math.floor((this.room.height - PROSE_TOP - PROSE_FOOT) / PROSE_LINE));
    const beyond = Math.max(0, lines - count);
    const own = this.oneText() ? "key" : "query";
    const at = scroll >= 0 ? 0 : placed.find(({ side, n }) => side === own && n === row)?.line ?? 0;
    const first = scroll >= 0 ? Math.round(scroll * beyond) : Math.min(beyond, Math.max(0, at - Math.floor(count / 2)));
    return { first, count, beyond };
  }

  /** @param {number} i */
  hasInSight(i) {
    if (!this.room.height) return false;
    const { first, count } = this.sight();
    const own = this.oneText() ? "key" : "query";
    const line = this.layout().placed.find(({ side, n }) => side === own && n === i)?.line ?? 0;
    return line >= first && line < first + count;
  }

  /** The weight of each key, −1 where it is hidden; null until it is there. */
  weights() {
    const { source, state } = this.scene;
    if (state.by === "query") return source.row(state.record, state.batch, state.head, state.row);
    const [from, to] = this.queryRange();
    return source.received(state.record, state.batch, state.head, from, to)?.values ?? null;
  }

  /** The queries that a filter leaves, from…to. @returns {[number, number]} */
  queryRange() {
    const { doc, state } = this.scene;
    const of = filterOf(doc, this.record, state.batch, state.pair);
    const left = Array.from({ length: this.record.shape[2] }, (_, n) => n).filter(of.query);
    return [left[0] ?? 0, (left[left.length - 1] ?? 0) + 1];
  }

  /** Whether a key is coloured: it is not left out, and in the sentence that is looked at. @returns {(j: number) => boolean} */
  coloured() {
    const { doc, state } = this.scene;
    const of = filterOf(doc, this.record, state.batch, state.pair);
    const aside = state.aside ? asideOf(doc, this.record, "key", state.batch) : null;
    return (j) => of.key(j) && !aside?.[j];
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    this.room = { width, height };
    const { theme, state } = this.scene;
    const weights = this.weights();
    const kept = this.coloured();
    const max = weights ? weights.reduce((most, w, j) => (kept(j) ? Math.max(most, w) : most), 0) : 0;
    const { first, count } = this.sight();
    const { placed, headings } = this.layout();
    const found = new Set(this.found());
    p.clip(0, 0, width, PROSE_TOP + count * PROSE_LINE, () => {
      for (const { line, text } of headings) p.text(text, PROSE_MARGIN, this.y(line - first), { fill: theme.soft, size: 12 });
      for (const token of placed) {
        if (token.line < first || token.line >= first + count) continue;
        this.drawToken(p, token, this.y(token.line - first), token.side === "key" && kept(token.n) && weights ? weights[token.n] : -1, max, found);
      }
    });
    const bar = Math.min(180, width * 0.4);
    drawColorBar(p, this.scene, "ink", [state.scale === "log" ? weightText(max / 1e4) : "0", weightText(max)], PROSE_MARGIN, PROSE_TOP + Math.min(count, this.layout().lines) * PROSE_LINE + 6, bar);
    this.drawScroll(p);
  }

  /** The middle of a line in sight. @param {number} line */
  y(line) {
    return PROSE_TOP + (line + 0.5) * PROSE_LINE;
  }

  /** @param {Painter} p @param {Placed} token @param {number} y @param {number} weight −1 for none @param {number} max @param {Set<string>} found */
  drawToken(p, token, y, weight, max, found) {
    const { state, theme } = this.scene;
    const table = colorTable("ink", theme.dark);
    const t = place(weight, max, state.scale);
    const { x, w } = token;
    const [top, high] = [y - PROSE_LINE / 2 + 3, PROSE_LINE - 6];
    if (weight >= 0) p.rect(x, top, w, high, { fill: colorAt(table, t), radius: 4 });
    const isQuery = this.isQuery(token);
    if (isQuery) p.rect(x, top, w, high, { stroke: theme.accent, width: 2.5, radius: 4 });
    else if (token.side === "key" && token.n === state.col && state.by === "query") p.rect(x + 0.5, top + 0.5, w - 1, high - 1, { stroke: theme.soft, width: 1, radius: 4 });
    if (found.has(`${token.side}${token.n}`)) p.rect(x, top + high - 1, w, 3, { fill: theme.accent });
    const plain = token.side === "query" ? theme.ink : theme.soft;
    p.text(token.text, x + TOKEN_PAD, y, { ...PROSE_LETTERS, fill: weight >= 0 ? inkOn(table, t) : plain });
  }

  /** @param {{side: Side, n: number}} token */
  isQuery(token) {
    const { state } = this.scene;
    const side = this.oneText() ? "key" : "query";
    return state.by === "query" && token.side === side && token.n === state.row;
  }

  /** @param {Painter} p */
  drawScroll(p) {
    const { first, count, beyond } = this.sight();
    if (!beyond) return;
    const { theme } = this.scene;
    const track = count * PROSE_LINE;
    const bar = Math.max(24, (track * count) / (beyond + count));
    p.rect(this.room.width - 5, PROSE_TOP, 4, track, { fill: theme.line, radius: 2, alpha: 0.5 });
    p.rect(this.room.width - 5, PROSE_TOP + (first / beyond) * (track - bar), 4, bar, { fill: theme.soft, radius: 2 });
  }

  // ---- what is looked for

  /** The tokens that hold the text that is looked for, as query3 or key5. */
  found() {
    const { doc, state } = this.scene;
    const sides = /** @type {Side[]} */ (this.oneText() ? ["key"] : ["query", "key"]);
    return sides.flatMap((side) => {
      const n = this.record.shape[side === "query" ? 2 : 3];
      const labels = Array.from({ length: n }, (_, at) => labelOf(doc, this.record, side, state.batch, at));
      return tokensWith(labels, state.find).map((at) => `${side}${at}`);
    });
  }

  // ---- what a person does

  /** @param {number} x @param {number} y */
  tokenAt(x, y) {
    const { first, count } = this.sight();
    const line = first + Math.floor((y - PROSE_TOP) / PROSE_LINE);
    if (line >= first + count) return null;
    const found = this.layout().placed.find((token) => token.line === line && x >= token.x && x < token.x + token.w);
    return found ? { side: found.side, n: found.n } : null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.under = this.tokenAt(x, y);
  }

  leave() {
    this.under = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    const found = this.tokenAt(x, y);
    if (found) this.choose(found.side, found.n);
  }

  /** @param {Side} side @param {number} n */
  choose(side, n) {
    const { doc, state } = this.scene;
    const asKey = this.oneText() ? state.side === "key" : side === "key";
    if (!asKey && !filterOf(doc, this.record, state.batch, state.pair).query(n)) return; // of the other sentence
    this.scene.set(asKey ? { col: n } : { row: n, by: "query" });
  }

  /** @param {number} _dx @param {number} dy */
  pan(_dx, dy) {
    this.scrollBy(-dy / PROSE_LINE);
  }

  /** @param {number} _dx @param {number} dy */
  wheel(_dx, dy) {
    return this.scrollBy(dy / PROSE_LINE);
  }

  touch() {
    return this.room.height && this.sight().beyond ? "none" : "auto";
  }

  /** @param {number} lines */
  scrollBy(lines) {
    const { first, beyond } = this.sight();
    if (!beyond) return false;
    const { scroll } = this.scene.state;
    const before = scroll >= 0 ? scroll : first / beyond;
    const after = Math.min(1, Math.max(0, before + lines / beyond));
    if (after === before) return false;
    this.scene.set({ scroll: after });
    return true;
  }

  /** @param {string} key @param {boolean} shift */
  key(key, shift) {
    const { state } = this.scene;
    const { count } = this.sight();
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 };
    const keys = state.side === "key";
    if (steps[key]) {
      const at = (keys ? state.col : state.row) + steps[key] * (shift ? 10 : 1);
      this.under = null;
      this.scene.set(keys ? { col: at } : { row: at, by: "query" });
    } else if (key === "PageDown" || key === "PageUp") this.scrollBy((key === "PageDown" ? 1 : -1) * (count - 1));
    else if (key === "Enter") this.scene.set({ view: "steps" });
    else return false;
    return true;
  }

  // ---- words

  hint() {
    const { by, side } = this.scene.state;
    if (!this.oneText()) return "Click a word of the queries to see where it looks. Point at a key to read its weight.";
    return `Click a word to choose it as the ${side}. Point at a word to read ${by === "all" ? "how much it is looked at" : "its weight"}.`;
  }

  /** What the colours show. */
  shows() {
    const { doc, state, source } = this.scene;
    const head = headText(this.record, state.head);
    const word = labelOf(doc, this.record, "query", state.batch, state.row);
    const [from, to] = this.queryRange();
    const mean = state.by === "all" ? source.received(state.record, state.batch, state.head, from, to) : null;
    const many = mean && mean.queries < to - from ? `${mean.queries} of ${to - from} queries` : `${to - from} queries`;
    const parts = [
      state.by === "all" ? `the mean weight that each key gets from ${many}, ${head}` : `where query ${state.row} “${word}” looks, ${head}`,
      state.aside ? `without ${asideText(doc, this.record, state.batch)}` : "",
      state.pair ? `from sentence ${state.pair[0]} to sentence ${state.pair[1]}` : "",
    ];
    return `Colours: ${parts.filter(Boolean).join("; ")}.`;
  }

  /** The key that is pointed at, or chosen. */
  reading() {
    const { doc, state, source } = this.scene;
    const weights = this.weights();
    const key = this.under?.side === "key" ? this.under.n : state.col;
    const query = state.by === "all" ? "all queries" : labelOf(doc, this.record, "query", state.batch, state.row);
    return { query, key: labelOf(doc, this.record, "key", state.batch, key), weight: weights ? weightText(weights[key]) : source.near ? "being computed" : STILL_ASKING };
  }

  label() {
    const { query, key, weight } = this.reading();
    return `Text of ${recordText(this.record, this.scene.state.record)}. ${this.shows()} ${query} to ${key}: ${weight}. Left and right choose a token, s switches between query and key.`;
  }
}
