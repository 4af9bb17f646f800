// @ts-check
/** The Flow view, with queries on the left, keys on the right, and a line for each weight in the colour of its head. */
import { magnitude } from "./arrays.js";
import { headColor } from "./color.js";
import { phrase } from "./language.js";
import { curvePlace, linksOf, strongestOf } from "./links.js";
import { fittedText, textWidth } from "./paint.js";
import { pinned } from "./state.js";
import { headText, labelOf, recordText, sideNumber, weightText, wholeLabel } from "./text.js";
import { asideText } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {{left: number, right: number, top: number, step: number, count: number, q0: number, k0: number, height: number}} Frame */
/** @typedef {import("./links.js").Link & {y0: number, y1: number}} DrawnLink */

const FLOW_TOP = 30;
const TOKEN_STEP = 20; // pixels a token, where there are many
const WIDEST_STEP = 34;
const NEAR_LINE = 6; // pixels
const NEGATIVE_DASH = [5, 4]; // pixels drawn and left out

export class FlowView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{side: "query" | "key", n: number} | null} */
    this.under = null;
    /** @type {DrawnLink | null} the line under the pointer */
    this.line = null;
    /** @type {DrawnLink[]} */
    this.drawn = [];
    this.counts = { all: 0, strongest: 0, more: 0, least: 0 };
    this.room = { width: 0, height: 0 };
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    return { width, height };
  }

  /** The heads that are drawn, which are the chosen head, the mean, or a selection. */
  heads() {
    const { state } = this.scene;
    if (state.heads === null) return [state.head];
    return state.heads === "all" ? Array.from({ length: this.record.shape[1] }, (_, n) => n) : state.heads;
  }

  /** @param {number} head */
  color(head) {
    const { theme } = this.scene;
    return head < 0 ? theme.accent : headColor(head, this.record.shape[1], theme.dark);
  }

  /** @param {"query" | "key"} side @param {number} n */
  word(side, n) {
    return labelOf(this.scene.doc, this.record, side, this.scene.state.batch, n);
  }

  /** @param {"query" | "key"} side @param {number} n */
  whole(side, n) {
    return wholeLabel(this.scene.doc, this.record, side, this.scene.state.batch, n);
  }

  hint() {
    return phrase("flowHint");
  }

  /** One sentence about the lines that are drawn. */
  shows() {
    const { state, doc } = this.scene;
    const heads = this.heads().map((head) => headText(this.record, head));
    const { strongest, more, least } = this.counts;
    const all = this.counts.all.toLocaleString("en");
    const drawn = phrase("linesShown", {
      heads: heads.length > 4 ? phrase("headCount", { n: heads.length }) : heads.join(phrase("wordSeparator")),
      lines: strongest < this.counts.all ? phrase("strongestCount", { n: strongest, all }) : phrase("lineCount", { all }),
      least: weightText(least),
    });
    const alone = this.isolated();
    const parts = [
      more ? phrase("moreOfChosen", { lines: drawn, more }) : drawn,
      alone ? phrase("onlyLinesOf", { token: sideNumber(alone.side, alone.n), word: this.word(alone.side, alone.n) }) : "",
      state.aside ? phrase("withoutTokens", { tokens: asideText(doc, this.record, state.batch) }) : "",
      state.pair ? phrase("fromSentence", { from: state.pair[0], to: state.pair[1] }) : "",
      this.record.signed ? phrase("dashedNegative") : "",
    ];
    return phrase("flowShown", { parts: parts.filter(Boolean).join(phrase("clauseSeparator")) });
  }

  /** The weight of the line under the pointer. */
  reading() {
    const line = this.pointedLine();
    if (!line) return null;
    const several = this.heads().length > 1;
    const weight = several ? phrase("weightOfHead", { weight: weightText(line.w), head: headText(this.record, line.head) }) : weightText(line.w);
    return { query: this.word("query", line.i), key: this.word("key", line.j), weight };
  }

  label() {
    const { state } = this.scene;
    const heads = this.heads().map((head) => headText(this.record, head)).join(phrase("wordSeparator"));
    const alone = pinned(state);
    const pin = alone ? phrase("flowPinned", { token: sideNumber(alone.side, alone.n), word: this.word(alone.side, alone.n) }) : "";
    return phrase("flowLabel", { record: recordText(this.record, state.record), heads, pin });
  }

  /** @returns {Frame} */
  frame() {
    const { width, height } = this.room;
    const [, , q, k] = this.record.shape;
    const step = Math.min(WIDEST_STEP, Math.max(TOKEN_STEP, (height - FLOW_TOP - 10) / Math.max(q, k)));
    const count = Math.max(1, Math.floor((height - FLOW_TOP - 8) / step));
    const scroll = this.scroll(count);
    const widest = (/** @type {"query" | "key"} */ side, /** @type {number} */ from, /** @type {number} */ n) => {
      let most = 30;
      for (let at = from; at < Math.min(n, from + count); at++) most = Math.max(most, textWidth(this.word(side, at), { size: 13, bold: true }));
      return Math.min(most + 16, Math.max(width * 0.27, (width - 180) / 2)); // the lines keep some room
    };
    const q0 = Math.round(scroll * Math.max(0, q - count));
    const k0 = Math.round(scroll * Math.max(0, k - count));
    const centre = Math.max(0, (width - 900) / 2);
    return {
      left: centre + widest("query", q0, q) + 6, right: width - centre - widest("key", k0, k) - this.stripWidth() - 6,
      top: FLOW_TOP, step, count, q0, k0, height,
    };
  }

  /** The scroll position, 0 to 1. Before any scrolling, the chosen query is in the middle. @param {number} count */
  scroll(count) {
    const { scroll, row } = this.scene.state;
    const beyond = this.record.shape[2] - count;
    if (scroll >= 0) return scroll;
    return beyond > 0 ? Math.min(1, Math.max(0, (row + 0.5 - count / 2) / beyond)) : 0;
  }

  /** @param {number} i */
  hasInSight(i) {
    if (!this.room.height) return false;
    const { q0, count } = this.frame();
    return i >= q0 && i < q0 + count;
  }

  /** The width of the squares beside the keys, one for each head. */
  stripWidth() {
    return Math.min(this.heads().length * 7, 96, this.room.width * 0.12) + 6;
  }

  /** The token that is shown alone, which is the one under the pointer or the pinned one. */
  isolated() {
    return this.under ?? pinned(this.scene.state);
  }

  /** The token that arrow keys move and Enter pins. @returns {{side: "query" | "key", n: number}} */
  chosen() {
    const { side, row, col } = this.scene.state;
    return side === "key" ? { side, n: col } : { side: "query", n: row };
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    this.room = { width, height };
    const f = this.frame();
    const { theme } = this.scene;
    p.text(phrase("queries"), f.left - 8, 12, { fill: theme.soft, size: 11, align: "right" });
    p.text(phrase("keys"), f.right + this.stripWidth() + 8, 12, { fill: theme.soft, size: 11 });
    p.clip(0, FLOW_TOP - 8, width, height - FLOW_TOP + 8, () => {
      this.drawLinks(p, f);
      this.drawTokens(p, f);
    });
    this.drawScroll(p, f);
  }

  /** @param {Painter} p @param {Frame} f */
  drawLinks(p, f) {
    const heads = this.heads();
    const alone = this.isolated();
    const apart = heads.length > 1 ? Math.min(2.4, (0.6 * f.step) / heads.length) : 0; // lines of different heads lie beside each other
    const links = linksOf(this.scene, heads, f, alone);
    const { shown, counts } = strongestOf(this.scene, links, heads.length > 1, alone !== null);
    this.counts = counts;
    this.drawn = shown.map((link) => {
      const aside = (heads.indexOf(link.head) - (heads.length - 1) / 2) * apart;
      return { ...link, y0: this.y(f, link.i - f.q0) + aside, y1: this.y(f, link.j - f.k0) + aside };
    });
    const pointed = this.pointedLine();
    const top = Math.sqrt(Math.abs(this.drawn[0]?.w ?? 1)); // the strongest line is opaque, however weak it is
    for (const { head, i, j, w, y0, y1 } of this.drawn) {
      const strong = Math.sqrt(Math.abs(w));
      const inSight = j >= f.k0 && j < f.k0 + f.count && i >= f.q0 && i < f.q0 + f.count;
      const far = inSight || alone ? 1 : 0.16; // lines to tokens out of view are faint
      p.curve(f.left, y0, f.right, y1, {
        stroke: this.color(head), width: 0.8 + (heads.length > 1 ? 2.2 : 3.5) * strong,
        alpha: pointed ? 0.05 : (0.12 + (0.8 * strong) / top) * far, dash: w < 0 ? NEGATIVE_DASH : undefined,
      });
    }
    if (pointed) p.curve(f.left, pointed.y0, f.right, pointed.y1, { stroke: this.color(pointed.head), width: 1.5 + 3.5 * Math.sqrt(Math.abs(pointed.w)), dash: pointed.w < 0 ? NEGATIVE_DASH : undefined });
  }

  /** The line under the pointer, if it is still drawn. */
  pointedLine() {
    const { line } = this;
    return line && (this.drawn.find(({ head, i, j }) => head === line.head && i === line.i && j === line.j) ?? null);
  }

  /** @param {Frame} f @param {number} n */
  y(f, n) {
    return f.top + (n + 0.5) * f.step;
  }

  /** @param {Painter} p @param {Frame} f */
  drawTokens(p, f) {
    const [, , q, k] = this.record.shape;
    const { theme } = this.scene;
    const marks = this.marks();
    const strip = this.stripWidth();
    for (let n = 0; n < f.count; n++) {
      const y = this.y(f, n);
      if (f.q0 + n < q) {
        const i = f.q0 + n;
        const on = marks.has(`q${i}`);
        const style = { fill: on ? theme.accent : theme.ink, size: 13, align: "right", bold: on };
        p.text(fittedText(this.word("query", i), f.left - 14, style), f.left - 8, y, { ...style, whole: this.whole("query", i) });
      }
      if (f.k0 + n < k) {
        const j = f.k0 + n;
        const on = marks.has(`k${j}`);
        const style = { fill: on ? theme.accent : theme.ink, size: 13, bold: on };
        const x = f.right + strip + 8;
        p.text(fittedText(this.word("key", j), this.room.width - x - 4, style), x, y, { ...style, whole: this.whole("key", j) });
      }
    }
    this.drawSquares(p, f);
  }

  /** The highlighted tokens, such as q3 or k5. */
  marks() {
    const line = this.pointedLine();
    if (line) return new Set([`q${line.i}`, `k${line.j}`]);
    const { side, n } = this.isolated() ?? this.chosen();
    return new Set([`${side[0]}${n}`]);
  }

  /** Draw the weight of each key from the highlighted query, as one square for each head. @param {Painter} p @param {Frame} f */
  drawSquares(p, f) {
    const { state, source, theme } = this.scene;
    const alone = this.isolated();
    if (alone?.side === "key") return;
    const query = alone ? alone.n : state.row;
    const heads = this.heads();
    const side = (this.stripWidth() - 6) / heads.length;
    const [, , , k] = this.record.shape;
    heads.forEach((head, n) => {
      const row = source.row(state.record, state.batch, head, query);
      if (!row) return;
      for (let at = 0; at < f.count && f.k0 + at < k; at++) {
        const w = magnitude(row[f.k0 + at]);
        const [x, y] = [f.right + 5 + n * side, this.y(f, at) - 6];
        p.rect(x, y, side, 12, { fill: theme.line, alpha: 0.28 });
        if (w > 0.004) p.rect(x, y, side, 12, { fill: this.color(head), alpha: Math.min(1, Math.sqrt(w)) });
      }
    });
  }

  /** @param {Painter} p @param {Frame} f */
  drawScroll(p, f) {
    const [, , q, k] = this.record.shape;
    const most = Math.max(q, k);
    if (most <= f.count) return;
    const { theme } = this.scene;
    const track = f.height - FLOW_TOP - 8;
    const bar = Math.max(24, (track * f.count) / most);
    p.rect(this.room.width - 5, FLOW_TOP, 4, track, { fill: theme.line, radius: 2, alpha: 0.5 });
    p.rect(this.room.width - 5, FLOW_TOP + this.scroll(f.count) * (track - bar), 4, bar, { fill: theme.soft, radius: 2 });
  }

  // ---- input

  /** @param {number} x @param {number} y @returns {{side: "query" | "key", n: number} | null} */
  tokenAt(x, y) {
    const f = this.frame();
    const n = Math.floor((y - f.top) / f.step);
    const [, , q, k] = this.record.shape;
    if (n < 0 || n >= f.count) return null;
    const middle = (f.left + f.right) / 2;
    if (x < Math.min(f.left + 12, middle)) return f.q0 + n < q ? { side: "query", n: f.q0 + n } : null;
    if (x > Math.max(f.right - 4, middle)) return f.k0 + n < k ? { side: "key", n: f.k0 + n } : null;
    return null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.under = this.tokenAt(x, y);
    this.line = this.under ? null : this.lineAt(x, y);
  }

  leave() {
    this.under = this.line = null;
  }

  /** The line nearest to a point, if one is near. @param {number} x @param {number} y */
  lineAt(x, y) {
    const f = this.frame();
    const share = (x - f.left) / (f.right - f.left);
    if (!(share > 0 && share < 1)) return null;
    const t = curvePlace(share);
    const height = 3 * t ** 2 - 2 * t ** 3; // the vertical share of the curve at this point
    let [best, nearest] = [/** @type {DrawnLink | null} */ (null), NEAR_LINE];
    for (const link of this.drawn) {
      const apart = Math.abs(link.y0 + (link.y1 - link.y0) * height - y);
      if (apart < nearest) [best, nearest] = [link, apart];
    }
    return best;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    const found = this.tokenAt(x, y);
    if (!found) return void this.scene.set({ pin: "" });
    this.scene.set({ side: found.side, ...(found.side === "key" ? { col: found.n } : { row: found.n }) });
    this.togglePin();
    if (!this.scene.state.pin) this.under = null; // show all lines after unpinning, although the pointer is still on the token
  }

  /** Pin or unpin the chosen token. */
  togglePin() {
    const { side, n } = this.chosen();
    const pin = `${side[0]}${n}`;
    this.scene.set({ pin: this.scene.state.pin === pin ? "" : pin });
  }

  /** @param {number} _dx @param {number} dy */
  pan(_dx, dy) {
    this.scrollBy(-dy / this.frame().step);
  }

  /** @param {number} _dx @param {number} dy */
  wheel(_dx, dy) {
    return this.scrollBy(dy / this.frame().step);
  }

  /** The browser scrolls the page by touch if all tokens are visible. */
  touch() {
    const [, , q, k] = this.record.shape;
    return this.room.height && Math.max(q, k) > this.frame().count ? "none" : "auto";
  }

  /** @param {number} tokens */
  scrollBy(tokens) {
    const f = this.frame();
    const [, , q, k] = this.record.shape;
    const beyond = Math.max(q, k) - f.count;
    if (beyond <= 0) return false;
    const before = this.scroll(f.count);
    const scroll = Math.min(1, Math.max(0, before + tokens / beyond));
    if (scroll === before) return false;
    this.scene.set({ scroll });
    return true;
  }

  /** @param {string} key @param {boolean} shift */
  key(key, shift) {
    const { count } = this.frame();
    if (key === "ArrowDown" || key === "ArrowUp") this.step((key === "ArrowDown" ? 1 : -1) * (shift ? 10 : 1));
    else if (key === "ArrowLeft" || key === "ArrowRight") this.scene.set({ side: key === "ArrowLeft" ? "query" : "key" });
    else if (key === "PageDown" || key === "PageUp") this.scrollBy((key === "PageDown" ? 1 : -1) * (count - 2));
    else if (key === "Enter") this.togglePin();
    else return false;
    return true;
  }

  /** Choose another token, scroll to it, and move the pin to it. @param {number} by */
  step(by) {
    const { state } = this.scene;
    const f = this.frame();
    const { side, n: before } = this.chosen();
    const [total, first] = side === "key" ? [this.record.shape[3], f.k0] : [this.record.shape[2], f.q0];
    const n = Math.min(total - 1, Math.max(0, before + by));
    const hidden = n < first || n >= first + f.count;
    const scroll = hidden && total > f.count ? Math.min(1, Math.max(0, (n - f.count / 2) / (total - f.count))) : state.scroll;
    this.under = null;
    this.scene.set({ scroll, pin: state.pin ? `${side[0]}${n}` : "", ...(side === "key" ? { col: n } : { row: n }) });
  }
}
