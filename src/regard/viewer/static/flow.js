// @ts-check
/** Tokens on both sides, lines by weight, heads in colours; pointing at a token, or pinning it, leaves only its lines. */
import { windowOf } from "./cells.js";
import { headColor } from "./color.js";
import { fittedText, textWidth } from "./paint.js";
import { pinned } from "./state.js";
import { headText, labelOf, recordText } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {{left: number, right: number, top: number, step: number, count: number, q0: number, k0: number, height: number}} Frame */
/** @typedef {{head: number, i: number, j: number, w: number}} Link */

const FLOW_TOP = 30;
const TOKEN_STEP = 20; // pixels a token, where there are many
const WIDEST_STEP = 34;
const MOST_LINES = 6000;

export class FlowView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{side: "query" | "key", n: number} | null} */
    this.under = null;
    this.room = { width: 0, height: 0 };
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    return { width, height };
  }

  /** The heads that are drawn: those ticked, or the mean. */
  heads() {
    const { state } = this.scene;
    if (state.head < 0 && state.heads === null) return [-1];
    return state.heads ?? Array.from({ length: this.record.shape[1] }, (_, n) => n);
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

  label() {
    const { state } = this.scene;
    const drawn = this.heads().map((head) => headText(this.record, head)).join(", ");
    const alone = pinned(state);
    const pin = alone ? ` Only ${alone.side} ${alone.n} “${this.word(alone.side, alone.n)}” is shown.` : "";
    return `Flow of ${recordText(this.record, state.record)}: ${drawn}.${pin} Left and right choose queries or keys, up and down a token, Enter pins it, Page Up and Page Down scroll.`;
  }

  /** @returns {Frame} */
  frame() {
    const { width, height } = this.room;
    const [, , q, k] = this.record.shape;
    const step = Math.min(WIDEST_STEP, Math.max(TOKEN_STEP, (height - FLOW_TOP - 10) / Math.max(q, k)));
    const count = Math.max(1, Math.floor((height - FLOW_TOP - 8) / step));
    const { scroll } = this.scene.state;
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

  /** Room beside the keys for a square a head. */
  stripWidth() {
    return Math.min(this.heads().length * 7, 96, this.room.width * 0.12) + 6;
  }

  /** What is looked at alone: what is pointed at, else what is pinned. */
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
    p.text("queries", f.left - 8, 12, { fill: theme.soft, size: 11, align: "right" });
    p.text("keys", f.right + this.stripWidth() + 8, 12, { fill: theme.soft, size: 11 });
    p.clip(0, FLOW_TOP - 8, width, height - FLOW_TOP + 8, () => {
      this.drawLinks(p, f);
      this.drawTokens(p, f);
    });
    this.drawScroll(p, f);
  }

  /** @param {Painter} p @param {Frame} f */
  drawLinks(p, f) {
    const links = this.links(f);
    const shown = links.length > MOST_LINES ? links.sort((a, b) => b.w - a.w).slice(0, MOST_LINES) : links;
    const heads = this.heads();
    const alone = this.isolated();
    const apart = heads.length > 1 ? Math.min(2.4, (0.6 * f.step) / heads.length) : 0; // so that heads do not cover each other
    for (const { head, i, j, w } of shown) {
      const strong = Math.sqrt(w);
      const inSight = j >= f.k0 && j < f.k0 + f.count && i >= f.q0 && i < f.q0 + f.count;
      const aside = (heads.indexOf(head) - (heads.length - 1) / 2) * apart;
      p.curve(f.left, this.y(f, i - f.q0) + aside, f.right, this.y(f, j - f.k0) + aside, {
        stroke: this.color(head), width: 0.5 + (heads.length > 1 ? 2.2 : 3.5) * strong, alpha: Math.min(0.95, 0.12 + 0.8 * strong) * (inSight || alone ? 1 : 0.16), // far ones are a hint
      });
    }
  }

  /** @param {Frame} f @param {number} n */
  y(f, n) {
    return f.top + (n + 0.5) * f.step;
  }

  /** The lines to draw: of the token that stands alone, or of all in sight. @param {Frame} f */
  links(f) {
    const { state, source } = this.scene;
    const q1 = Math.min(this.record.shape[2], f.q0 + f.count);
    const alone = this.isolated();
    /** @type {Link[]} */
    const links = [];
    for (const head of this.heads()) {
      if (alone?.side === "query") this.addRow(links, head, alone.n, state.min / 4);
      else if (alone || !source.near) this.addWindow(links, f, head, alone ? alone.n : -1);
      else for (let i = f.q0; i < q1; i++) this.addRow(links, head, i, state.min);
    }
    return links;
  }

  /** All lines of a query, also to keys out of sight. @param {Link[]} links @param {number} head @param {number} i @param {number} least */
  addRow(links, head, i, least) {
    const { state, source } = this.scene;
    source.row(state.record, state.batch, head, i)?.forEach((w, j) => {
      if (w > 0 && w >= least) links.push({ head, i, j, w });
    });
  }

  /** The lines between tokens in sight; of one key only, if it stands alone. @param {Link[]} links @param {Frame} f @param {number} head @param {number} key */
  addWindow(links, f, head, key) {
    const { state } = this.scene;
    const [, , q, k] = this.record.shape;
    const [q1, k1] = [Math.min(q, f.q0 + f.count), Math.min(k, f.k0 + f.count)];
    const least = key >= 0 ? state.min / 4 : state.min;
    const block = windowOf(this.scene, head, f.q0, q1, f.k0, k1);
    block?.values.forEach((w, n) => {
      const [i, j] = [f.q0 + Math.floor(n / block.cols), f.k0 + (n % block.cols)];
      if (w > 0 && w >= least && (key < 0 || key === j)) links.push({ head, i, j, w });
    });
    if (key < 0) this.addRow(links, head, state.row, least); // the chosen query, however far it looks
  }

  /** @param {Painter} p @param {Frame} f */
  drawTokens(p, f) {
    const [, , q, k] = this.record.shape;
    const { theme } = this.scene;
    const marked = this.isolated() ?? this.chosen();
    const strip = this.stripWidth();
    for (let n = 0; n < f.count; n++) {
      const y = this.y(f, n);
      if (f.q0 + n < q) {
        const i = f.q0 + n;
        const on = marked.side === "query" && marked.n === i;
        const style = { fill: on ? theme.accent : theme.ink, size: 13, align: "right", bold: on };
        p.text(fittedText(this.word("query", i), f.left - 14, style), f.left - 8, y, style);
      }
      if (f.k0 + n < k) {
        const j = f.k0 + n;
        const on = marked.side === "key" && marked.n === j;
        const style = { fill: on ? theme.accent : theme.ink, size: 13, bold: on };
        const x = f.right + strip + 8;
        p.text(fittedText(this.word("key", j), this.room.width - x - 4, style), x, y, style);
      }
    }
    this.drawSquares(p, f);
  }

  /** Beside each key, what the query that stands out gives it, a square a head. @param {Painter} p @param {Frame} f */
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
        const w = row[f.k0 + at];
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
    p.rect(this.room.width - 5, FLOW_TOP + this.scene.state.scroll * (track - bar), 4, bar, { fill: theme.soft, radius: 2 });
  }

  // ---- what a person does

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
  }

  leave() {
    this.under = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    const found = this.tokenAt(x, y);
    if (!found) return void this.scene.set({ pin: "" });
    this.scene.set({ side: found.side, ...(found.side === "key" ? { col: found.n } : { row: found.n }) });
    this.togglePin();
    if (!this.scene.state.pin) this.under = null; // unpinned: all lines, although the pointer is still there
  }

  /** Let the chosen token stand alone, or no longer. */
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

  /** Where all tokens are in sight, a finger scrolls the page. */
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
    const scroll = Math.min(1, Math.max(0, this.scene.state.scroll + tokens / beyond));
    if (scroll === this.scene.state.scroll) return false;
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

  /** Choose a token so many further down, and bring it into sight; a pin goes with it. @param {number} by */
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
