// @ts-check
/** The tokens as running text, coloured by the weight that the chosen query, or the mean of all queries, gives them. */
import { HIDDEN, isWeight, magnitude } from "./arrays.js";
import { colorAt, colorTable, inkOn, place } from "./color.js";
import { drawColorBar } from "./cells.js";
import { phrase } from "./language.js";
import { fittedText, textWidth } from "./paint.js";
import { scaleEnds } from "./scales.js";
import { headText, labelOf, recordText, sideText, weightText, wholeLabel } from "./text.js";
import { asideOf, asideText, filterOf, runningText, tokensWith, wordsOf } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {"query" | "key"} Side */
/** A token with its line, its position in the line, and whether it belongs to a word of several tokens. @typedef {{side: Side, n: number, text: string, line: number, x: number, w: number, piece: boolean}} Placed */
/** What the colours stand for. @typedef {{weights: Float32Array | null, kept: (j: number) => boolean, max: number, even: number}} Coloring */
/** @typedef {{placed: Placed[], lines: number, headings: {line: number, text: string}[]}} Layout */

const TEXT_LINE = 32;
const TEXT_LETTERS = { size: 16 };
const TOKEN_PAD = 3; // at both sides of a token
const PIECE_PAD = 1; // at both sides of a piece of a word
const TEXT_MARGIN = 16;
const TEXT_TOP = 10;
const TEXT_FOOT = 40; // for the colour bar
const WORD_SPACE = 4; // between words, besides the padding
const EVEN = 1.5; // times the mean weight: a row whose largest weight is below this is called nearly even

export class TextView {
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

  /** The size of the drawing, which is not higher than the text needs. @param {number} width @param {number} height */
  size(width, height) {
    this.room = { width, height };
    return { width, height: Math.min(height, TEXT_TOP + this.layout().lines * TEXT_LINE + TEXT_FOOT) };
  }

  /** Whether queries and keys are the same text. */
  oneText() {
    const { doc, state } = this.scene;
    const [, , q, k] = this.record.shape;
    return q === k && this.record.kind !== "cross" && wordsOf(doc, this.record, "query", state.batch) === wordsOf(doc, this.record, "key", state.batch);
  }

  /** @param {Side} side @returns {{text: string, gap: boolean, piece: boolean}[]} */
  pieces(side) {
    const { doc, state } = this.scene;
    const words = wordsOf(doc, this.record, side, state.batch);
    if (words) return runningText(words);
    const n = this.record.shape[side === "query" ? 2 : 3];
    return Array.from({ length: n }, (_, at) => ({ text: labelOf(doc, this.record, side, state.batch, at), gap: true, piece: false }));
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
    const right = this.room.width - TEXT_MARGIN;
    let line = 0;
    for (const side of sides) {
      if (sides.length > 1) headings.push({ line: line++, text: side === "query" ? phrase("queriesToClick") : phrase("keysHeading") });
      let x = TEXT_MARGIN;
      this.pieces(side).forEach(({ text, gap, piece }, n) => {
        const shown = fittedText(text, right - TEXT_MARGIN - 2 * TOKEN_PAD, TEXT_LETTERS);
        const w = textWidth(shown, TEXT_LETTERS) + 2 * (piece ? PIECE_PAD : TOKEN_PAD);
        if (gap && x > TEXT_MARGIN) x += WORD_SPACE;
        if (x + w > right && x > TEXT_MARGIN) [line, x] = [line + 1, TEXT_MARGIN];
        placed.push({ side, n, text: shown, line, x, w, piece });
        x += w;
        if (text.endsWith("⏎")) [line, x] = [line + 1, TEXT_MARGIN];
      });
      line += 1;
    }
    return { placed, lines: line, headings };
  }

  /** The first visible line, the number of visible lines, and the number of lines beyond them. */
  sight() {
    const { lines, placed } = this.layout();
    const { scroll, row } = this.scene.state;
    const count = Math.max(1, Math.floor((this.room.height - TEXT_TOP - TEXT_FOOT) / TEXT_LINE));
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

  /** The weight of each key, or null until it is computed. */
  weights() {
    const { source, state } = this.scene;
    if (state.by === "query") return source.row(state.record, state.batch, state.head, state.row);
    const [from, to] = this.queryRange();
    return source.received(state.record, state.batch, state.head, from, to)?.values ?? null;
  }

  /** The range of queries that the sentence filter keeps. @returns {[number, number]} */
  queryRange() {
    const { doc, state } = this.scene;
    const of = filterOf(doc, this.record, state.batch, state.pair);
    const left = Array.from({ length: this.record.shape[2] }, (_, n) => n).filter(of.query);
    return [left[0] ?? 0, (left[left.length - 1] ?? 0) + 1];
  }

  /** Whether a key may be coloured, because no filter leaves it out. @returns {(j: number) => boolean} */
  coloured() {
    const { doc, state } = this.scene;
    const of = filterOf(doc, this.record, state.batch, state.pair);
    const aside = state.aside ? asideOf(doc, this.record, "key", state.batch) : null;
    return (j) => of.key(j) && !aside?.[j];
  }

  /** The weights to colour by, and their mean in `even` if they are nearly equal, so that colours would show noise; else 0. @returns {Coloring} */
  coloring() {
    const weights = this.weights();
    const kept = this.coloured();
    let [max, total, count] = [0, 0, 0];
    weights?.forEach((w, j) => {
      if (!kept(j) || !isWeight(w)) return;
      [max, total, count] = [Math.max(max, magnitude(w)), total + magnitude(w), count + 1];
    });
    const mean = total / Math.max(1, count);
    return { weights, kept, max, even: count > 1 && max < EVEN * mean ? mean : 0 };
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    this.room = { width, height };
    const { theme } = this.scene;
    const coloring = this.coloring();
    const { first, count } = this.sight();
    const { placed, headings } = this.layout();
    const found = new Set(this.found());
    p.clip(0, 0, width, TEXT_TOP + count * TEXT_LINE, () => {
      for (const { line, text } of headings) p.text(text, TEXT_MARGIN, this.y(line - first), { fill: theme.soft, size: 12 });
      for (const token of placed) {
        if (token.line < first || token.line >= first + count) continue;
        this.drawToken(p, token, this.y(token.line - first), coloring, found);
      }
    });
    this.drawLegend(p, TEXT_TOP + Math.min(count, this.layout().lines) * TEXT_LINE + 6, coloring);
    this.drawScroll(p);
  }

  /** The colour bar, or the reason why there are no colours. @param {Painter} p @param {number} y @param {Coloring} coloring */
  drawLegend(p, y, { max, even }) {
    const { theme, state } = this.scene;
    const { width } = this.room;
    const bar = Math.min(180, width * 0.4);
    const style = { fill: theme.soft, size: 12 };
    const { signed } = this.record;
    if (even) return p.text(fittedText(phrase("nearlyEven", { weight: weightText(even) }), width - 2 * TEXT_MARGIN, style), TEXT_MARGIN, y + 8, style);
    drawColorBar(p, this.scene, signed ? "signed" : "ink", scaleEnds(max, state.scale, signed), TEXT_MARGIN, y, bar);
    const note = [signed ? phrase("blueNegative") : "", this.layout().placed.some(({ piece }) => piece) ? phrase("underlined") : ""];
    const beside = TEXT_MARGIN + bar + 18;
    p.text(fittedText(note.filter(Boolean).join(phrase("clauseSeparator")), width - beside - TEXT_MARGIN, style), beside, y + 5, style);
  }

  /** The vertical middle of a visible line. @param {number} line */
  y(line) {
    return TEXT_TOP + (line + 0.5) * TEXT_LINE;
  }

  /** @param {Painter} p @param {Placed} token @param {number} y @param {Coloring} coloring @param {Set<string>} found */
  drawToken(p, token, y, { weights, kept, max, even }, found) {
    const { state, theme } = this.scene;
    const { signed } = this.record;
    const table = colorTable(signed ? "signed" : "ink", theme.dark);
    const weight = token.side === "key" && kept(token.n) && weights ? weights[token.n] : HIDDEN;
    const t = even ? 0 : place(weight, max, state.scale, signed);
    const { x, w } = token;
    const [top, high] = [y - TEXT_LINE / 2 + 3, TEXT_LINE - 6];
    const colored = isWeight(weight) && !even;
    if (colored) p.rect(x, top, w, high, { fill: colorAt(table, t), radius: 4 });
    if (token.piece) p.line(x, top + high + 1.5, x + w, top + high + 1.5, { stroke: theme.soft, width: 1.5 });
    const isQuery = this.isQuery(token);
    if (isQuery) p.rect(x, top, w, high, { stroke: theme.accent, width: 2.5, radius: 4 });
    else if (token.side === "key" && token.n === state.col && state.by === "query") p.rect(x + 0.5, top + 0.5, w - 1, high - 1, { stroke: theme.soft, width: 1, radius: 4 });
    if (found.has(`${token.side}${token.n}`)) p.rect(x, top + high - 1, w, 3, { fill: theme.accent });
    const plain = token.side === "query" ? theme.ink : theme.soft;
    p.text(token.text, x + (token.piece ? PIECE_PAD : TOKEN_PAD), y, { ...TEXT_LETTERS, fill: colored ? inkOn(table, t) : even && isWeight(weight) ? theme.ink : plain });
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
    const track = count * TEXT_LINE;
    const bar = Math.max(24, (track * count) / (beyond + count));
    p.rect(this.room.width - 5, TEXT_TOP, 4, track, { fill: theme.line, radius: 2, alpha: 0.5 });
    p.rect(this.room.width - 5, TEXT_TOP + (first / beyond) * (track - bar), 4, bar, { fill: theme.soft, radius: 2 });
  }

  // ---- search

  /** The tokens that contain the searched text, such as query3 or key5. */
  found() {
    const { doc, state } = this.scene;
    const sides = /** @type {Side[]} */ (this.oneText() ? ["key"] : ["query", "key"]);
    return sides.flatMap((side) => {
      const n = this.record.shape[side === "query" ? 2 : 3];
      const labels = Array.from({ length: n }, (_, at) => wholeLabel(doc, this.record, side, state.batch, at));
      return tokensWith(labels, state.find).map((at) => `${side}${at}`);
    });
  }

  // ---- input

  /** @param {number} x @param {number} y */
  tokenAt(x, y) {
    const { first, count } = this.sight();
    const line = first + Math.floor((y - TEXT_TOP) / TEXT_LINE);
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
    if (!asKey && !filterOf(doc, this.record, state.batch, state.pair).query(n)) return; // a query of the other sentence
    this.scene.set(asKey ? { col: n } : { row: n, by: "query" });
  }

  /** @param {number} _dx @param {number} dy */
  pan(_dx, dy) {
    this.scrollBy(-dy / TEXT_LINE);
  }

  /** @param {number} _dx @param {number} dy */
  wheel(_dx, dy) {
    return this.scrollBy(dy / TEXT_LINE);
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

  // ---- texts

  hint() {
    const { by, side } = this.scene.state;
    if (!this.oneText()) return phrase("textHintTwo");
    const click = phrase("clickToken", { side: sideText(side === "key" ? "key" : "query") });
    return [click, by === "all" ? phrase("pointForMean") : phrase("pointForWeight")].join(phrase("sentenceSeparator"));
  }

  /** One sentence about the meaning of the colours. */
  shows() {
    const { doc, state, source } = this.scene;
    const head = headText(this.record, state.head);
    const word = labelOf(doc, this.record, "query", state.batch, state.row);
    const [from, to] = this.queryRange();
    const mean = state.by === "all" ? source.received(state.record, state.batch, state.head, from, to) : null;
    const queries = mean && mean.queries < to - from ? phrase("queriesOf", { n: mean.queries, all: to - from }) : phrase("queryCount", { n: to - from });
    const shown = [
      state.by === "all" ? phrase("meanShown", { queries, head }) : phrase("weightsShown", { n: state.row, word, head }),
      state.aside ? phrase("withoutTokens", { tokens: asideText(doc, this.record, state.batch) }) : "",
      state.pair ? phrase("fromSentence", { from: state.pair[0], to: state.pair[1] }) : "",
    ];
    const parts = shown.filter(Boolean).join(phrase("clauseSeparator"));
    const { even } = this.coloring();
    return even ? phrase("evenShown", { parts, weight: weightText(even) }) : phrase("coloursShown", { parts });
  }

  /** The weight of the key under the pointer, or of the chosen key. */
  reading() {
    const { doc, state, source } = this.scene;
    const weights = this.weights();
    const key = this.under?.side === "key" ? this.under.n : state.col;
    const query = state.by === "all" ? phrase("byAll") : labelOf(doc, this.record, "query", state.batch, state.row);
    return { query, key: labelOf(doc, this.record, "key", state.batch, key), weight: weights ? weightText(weights[key]) : source.near ? phrase("computing") : phrase("waiting") };
  }

  label() {
    const { query, key, weight } = this.reading();
    return phrase("textLabel", { record: recordText(this.record, this.scene.state.record), shows: this.shows(), query, key, weight });
  }
}
