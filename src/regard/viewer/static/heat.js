// @ts-check
/** The Heat map view, from the whole map to single cells with tokens and numbers. */
import { HIDDEN, isWeight } from "./arrays.js";
import { drawBlock, drawColorBar, paintedBlock, windowOf } from "./cells.js";
import { colorAt, colorTable, inkOn, place } from "./color.js";
import { phrase } from "./language.js";
import { fittedText, textWidth, widest } from "./paint.js";
import { barEnds, topAt, topsOf } from "./scales.js";
import { headText, labelOf, longWeight, recordText, shortWeight, wholeLabel } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {import("./scales.js").Tops} Tops */
/** @typedef {{x: number, y: number, w: number, h: number, cell: number, left: number, top: number, fit: number, margin: number}} Frame */

const LARGEST = 52; // pixels along a side of a cell, when a small map is shown whole
const LEGEND = 42;
const SMALL = 6; // pixels along a side of a cell, below which lines over the map would hide cells
/** @type {Tops} */
const NO_TOPS = { rows: 1, values: Float32Array.of(1), key: "none", signed: false };
const VECTOR_CELLS = 4096; // that an SVG draws as rectangles; more cells become an image

export class HeatView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{row: number, col: number} | null} */
    this.under = null;
    this.room = { width: 0, height: 0 };
    /** @type {Map<string, number>} */
    this.gutters = new Map();
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** The size of the drawing, which is not higher than the map needs. @param {number} width @param {number} height */
  size(width, height) {
    this.room = { width, height };
    const f = this.frame();
    return { width, height: Math.min(height, Math.ceil(f.y + f.h + LEGEND)) };
  }

  /** @param {number} n */
  queryLabel(n) {
    return labelOf(this.scene.doc, this.record, "query", this.scene.state.batch, n);
  }

  /** @param {number} n */
  keyLabel(n) {
    return labelOf(this.scene.doc, this.record, "key", this.scene.state.batch, n);
  }

  /** @param {"query" | "key"} side @param {number} n */
  wholeLabel(side, n) {
    return wholeLabel(this.scene.doc, this.record, side, this.scene.state.batch, n);
  }

  /** The position and size of the map in the drawing. @returns {Frame} */
  frame() {
    const { width, height } = this.room;
    const [, , q, k] = this.record.shape;
    const { state } = this.scene;
    const { left, top } = this.gutterSizes();
    const [wide, high] = [Math.max(40, width - left - 14), Math.max(40, height - top - LEGEND)];
    const fit = Math.min(wide / k, high / q, LARGEST);
    const cell = state.zoom > 0 ? Math.max(state.zoom, fit) : fit;
    const [w, h] = [Math.min(wide, k * cell), Math.min(high, q * cell)];
    const x = Math.round(left + (wide - w) / 2);
    return {
      x, y: top, w, h, cell, fit, margin: x - left,
      left: Math.min(Math.max(state.x, 0), Math.max(0, k - w / cell)),
      top: Math.min(Math.max(state.y, 0), Math.max(0, q - h / cell)),
    };
  }

  /** The space for labels, which is that of the longest, up to a limit or to the space that the cells leave. */
  gutterSizes() {
    const { width, height } = this.room;
    const [, , q, k] = this.record.shape;
    const [least, low] = [Math.min(150, width * 0.28), Math.min(130, height * 0.25)];
    const [across, down] = [this.gutter("query", q), this.gutter("key", k)];
    const byWidth = Math.min(LARGEST, (width - 36 - Math.min(across, least)) / k); // a cell
    const top = Math.round(24 + Math.min(down, Math.max(low, height - LEGEND - 24 - q * byWidth)));
    const byHeight = Math.min(LARGEST, (height - top - LEGEND) / q);
    return { top, left: Math.round(22 + Math.min(across, Math.max(least, width - 36 - k * byHeight))) };
  }

  /** The width of the longest label of a side. @param {"query" | "key"} side @param {number} n */
  gutter(side, n) {
    const key = [this.scene.state.record, this.scene.state.batch, side].join("/");
    let found = this.gutters.get(key);
    if (found === undefined) {
      const label = side === "query" ? (/** @type {number} */ at) => this.queryLabel(at) : (/** @type {number} */ at) => this.keyLabel(at);
      found = Math.max(14, widest(label, n, { size: 13, bold: true }) + 8);
      this.gutters.set(key, found);
    }
    return found;
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    this.room = { width, height };
    const f = this.frame();
    const overview = this.overview();
    const tops = overview ? topsOf(this.scene, this.scene.state.record, overview) : NO_TOPS;
    p.clip(f.x, f.y, f.w, f.h, () => {
      p.rect(f.x, f.y, f.w, f.h, { fill: this.scene.theme.pending });
      this.drawCells(p, f, overview, tops);
      this.drawLines(p, f);
    });
    p.rect(f.x - 0.5, f.y - 0.5, f.w + 1, f.h + 1, { stroke: this.scene.theme.line }); // around the cells
    this.drawLabels(p, f);
    this.drawChosen(p, f);
    this.drawLegend(p, f, tops, overview);
    if (p.screen && f.cell > 1.5 * f.fit && overview) this.drawInset(p, f, overview);
  }

  overview() {
    const { source, state } = this.scene;
    return source.overview(state.record, state.batch, state.head);
  }

  /** @param {Painter} p @param {Frame} f @param {import("./types.js").Overview | null} overview @param {Tops} tops */
  drawCells(p, f, overview, tops) {
    const [, , q, k] = this.record.shape;
    const { source, state } = this.scene;
    if (p.vector && (f.w / f.cell) * (f.h / f.cell) <= VECTOR_CELLS) return this.drawSingly(p, f, tops);
    let pool = 1;
    while (pool * f.cell * p.ratio < 1) pool *= 2; // at least one pixel for each cell
    const exact = overview && overview.rows === q && overview.cols === k;
    if (overview) drawBlock(p, overview, this.scene, state.record, f.x - f.left * f.cell, f.y - f.top * f.cell, k * f.cell, q * f.cell);
    if (!exact && pool <= source.maxPool) this.drawTiles(p, f, pool, tops);
    if (f.cell >= 26) this.drawNumbers(p, f, tops);
  }

  /** @param {Painter} p @param {Frame} f @param {number} pool @param {Tops} tops */
  drawTiles(p, f, pool, tops) {
    const { source, state } = this.scene;
    const span = source.side * pool;
    const [, , q, k] = this.record.shape;
    const [bottom, right] = [Math.min(q, f.top + f.h / f.cell), Math.min(k, f.left + f.w / f.cell)];
    for (let tr = Math.floor(f.top / span); tr * span < bottom; tr++) {
      for (let tc = Math.floor(f.left / span); tc * span < right; tc++) {
        const tile = source.tile(state.record, state.batch, state.head, pool, tr, tc);
        if (!tile) continue;
        const [x, y] = [f.x + (tc * span - f.left) * f.cell, f.y + (tr * span - f.top) * f.cell];
        const from = (tr * span) / q;
        const canvas = paintedBlock(tile, tops, this.scene, from, from + (tile.rows * pool) / q);
        p.image(canvas, x, y, tile.cols * pool * f.cell, tile.rows * pool * f.cell);
      }
    }
  }

  /** The first and last visible row and column. @param {Frame} f */
  sight(f) {
    const [, , q, k] = this.record.shape;
    return {
      r0: Math.max(0, Math.floor(f.top)), r1: Math.min(q, Math.ceil(f.top + f.h / f.cell - 1e-6)),
      c0: Math.max(0, Math.floor(f.left)), c1: Math.min(k, Math.ceil(f.left + f.w / f.cell - 1e-6)),
    };
  }

  /** Draw one rectangle for each cell, for SVG. @param {Painter} p @param {Frame} f @param {Tops} tops */
  drawSingly(p, f, tops) {
    const { state, theme } = this.scene;
    const table = colorTable(tops.signed ? "signed" : state.palette, theme.dark);
    this.eachCell(f, (w, x, y, i) => {
      const fill = isWeight(w) ? colorAt(table, place(w, topAt(tops, i, this.record.shape[2]), state.scale, tops.signed)) : theme.hidden;
      p.rect(x, y, f.cell + 0.3, f.cell + 0.3, { fill });
    });
    if (f.cell >= 26) this.drawNumbers(p, f, tops);
  }

  /** @param {Frame} f @param {(w: number, x: number, y: number, i: number) => void} draw */
  eachCell(f, draw) {
    const { r0, r1, c0, c1 } = this.sight(f);
    const block = windowOf(this.scene, this.scene.state.head, r0, r1, c0, c1);
    if (!block) return;
    for (let i = r0; i < r1; i++) {
      for (let j = c0; j < c1; j++) {
        const w = block.values[(i - r0) * block.cols + j - c0];
        draw(w, f.x + (j - f.left) * f.cell, f.y + (i - f.top) * f.cell, i);
      }
    }
  }

  /** @param {Painter} p @param {Frame} f @param {Tops} tops */
  drawNumbers(p, f, tops) {
    const { state, theme } = this.scene;
    const table = colorTable(tops.signed ? "signed" : state.palette, theme.dark);
    const long = f.cell >= 46;
    const size = Math.max(9, Math.min(15, f.cell * (long ? 0.26 : 0.34)));
    this.eachCell(f, (w, x, y, i) => {
      if (!isWeight(w)) return;
      const fill = inkOn(table, place(w, topAt(tops, i, this.record.shape[2]), state.scale, tops.signed));
      const text = long ? longWeight(w) : shortWeight(w);
      p.text(text, x + f.cell / 2, y + f.cell / 2 + 0.5, { fill, size, align: "center", alpha: Math.abs(w) < 0.01 ? 0.55 : 1 });
    });
  }

  /** Draw thin lines between large cells. @param {Painter} p @param {Frame} f */
  drawLines(p, f) {
    if (f.cell < 12) return;
    const { r0, r1, c0, c1 } = this.sight(f);
    const shape = { stroke: this.scene.theme.surface, width: f.cell > 24 ? 1 : 0.5, alpha: 0.4 };
    for (let i = r0 + 1; i < r1; i++) {
      const y = f.y + (i - f.top) * f.cell;
      p.line(f.x, y, f.x + f.w, y, shape);
    }
    for (let j = c0 + 1; j < c1; j++) {
      const x = f.x + (j - f.left) * f.cell;
      p.line(x, f.y, x, f.y + f.h, shape);
    }
  }

  /** The cell under the pointer, or else the chosen cell. */
  marked() {
    const { row, col } = this.scene.state;
    return this.under ?? { row, col };
  }

  /** @param {Painter} p @param {Frame} f */
  drawLabels(p, f) {
    const { r0, r1, c0, c1 } = this.sight(f);
    const { theme } = this.scene;
    const marked = this.marked();
    const size = Math.max(10, Math.min(13, f.cell * 0.8 + 3));
    const step = Math.max(1, Math.ceil((size + 3) / f.cell));
    const room = f.x - f.margin - 26;
    for (const i of thinned(r0, r1, step, marked.row)) {
      const y = f.y + (i + 0.5 - f.top) * f.cell;
      if (y < f.y - 1 || y > f.y + f.h + 1) continue;
      const on = i === marked.row;
      const style = { size, align: "right", fill: on ? theme.accent : theme.ink, bold: on };
      p.text(fittedText(this.queryLabel(i), room, style), f.x - 6, y, { ...style, whole: this.wholeLabel("query", i) });
    }
    const flat = this.labelsLieFlat(f, c0, c1, size);
    for (const j of thinned(c0, c1, flat ? 1 : step, marked.col)) {
      const x = f.x + (j + 0.5 - f.left) * f.cell;
      if (x < f.x - 1 || x > f.x + f.w + 1) continue;
      const on = j === marked.col;
      const style = { size, align: flat ? "center" : "left", fill: on ? theme.accent : theme.ink, bold: on, turn: flat ? 0 : -90 };
      p.text(fittedText(this.keyLabel(j), flat ? f.cell - 2 : f.y - 26, style), x, flat ? f.y - 11 : f.y - 6, { ...style, whole: this.wholeLabel("key", j) });
    }
    const soft = { fill: theme.soft, size: 11 };
    p.text(phrase("keysAxis"), f.x, 9, soft);
    p.text(phrase("queriesAxis"), f.margin + 9, f.y, { ...soft, turn: -90, align: "right" });
  }

  /** Whether the label of every visible key fits horizontally above its column. @param {Frame} f @param {number} c0 @param {number} c1 @param {number} size */
  labelsLieFlat(f, c0, c1, size) {
    if (f.cell < 18) return false;
    for (let j = c0; j < c1; j++) if (textWidth(this.keyLabel(j), { size, bold: true }) > f.cell - 3) return false;
    return true;
  }

  /** @param {Painter} p @param {Frame} f */
  drawChosen(p, f) {
    const { theme, state } = this.scene;
    const { row, col } = this.marked();
    if (f.cell < SMALL) return this.drawTicks(p, f, row, col);
    const side = f.cell;
    const [x, y] = [f.x + (col - f.left) * f.cell, f.y + (row - f.top) * f.cell];
    p.clip(f.x - 1, f.y - 1, f.w + 2, f.h + 2, () => {
      const line = { stroke: theme.accent, width: 1.5, alpha: 0.85 };
      p.rect(f.x - 3, y, f.w + 6, side, line);
      p.rect(x, f.y - 3, side, f.h + 6, line);
      const [cx, cy] = [f.x + (state.col - f.left) * f.cell, f.y + (state.row - f.top) * f.cell];
      p.rect(cx - 1, cy - 1, side + 2, side + 2, { stroke: theme.surface, width: 4 });
      p.rect(cx - 1, cy - 1, side + 2, side + 2, { stroke: theme.accent, width: 2.5 });
    });
  }

  /** Mark a row and a column outside the map. @param {Painter} p @param {Frame} f @param {number} row @param {number} col */
  drawTicks(p, f, row, col) {
    const [x, y] = [f.x + (col + 0.5 - f.left) * f.cell, f.y + (row + 0.5 - f.top) * f.cell];
    const line = { stroke: this.scene.theme.accent, width: Math.max(2, f.cell) };
    if (y >= f.y && y <= f.y + f.h) for (const at of [f.x - 6, f.x + f.w + 1]) p.line(at, y, at + 5, y, line);
    if (x >= f.x && x <= f.x + f.w) for (const at of [f.y - 6, f.y + f.h + 1]) p.line(x, at, x, at + 5, line);
  }

  /** @param {Painter} p @param {Frame} f @param {Tops} tops @param {import("./types.js").Overview | null} overview */
  drawLegend(p, f, tops, overview) {
    const { state, theme } = this.scene;
    const style = { fill: theme.soft, size: 11 };
    const ends = barEnds(this.scene, tops, this.record);
    const room = this.room.width;
    const width = Math.max(Math.min(180, room * 0.4), Math.min(textWidth(ends.join("   "), style) + 8, room * 0.55));
    ends[1] = fittedText(ends[1], width - 24, style);
    const [x, y] = [Math.max(20, Math.min(f.x, room - width - 150)), f.y + f.h + 16];
    drawColorBar(p, this.scene, tops.signed ? "signed" : state.palette, ends, x, y, width);
    const beside = x + width + 31;
    const swatch = (/** @type {string} */ fill, /** @type {string} */ text, /** @type {number} */ at) => {
      p.rect(beside - 15, at, 9, 9, { fill, stroke: theme.line });
      p.text(fittedText(text, room - beside - 4, style), beside, at + 5, style);
    };
    if (overview?.values.includes(HIDDEN)) swatch(theme.hidden, phrase("hiddenByMask"), y);
    else if (tops.signed) p.text(fittedText(phrase("blueNegative"), room - beside + 11, style), beside - 15, y + 5, style);
    const done = overview?.done ?? 0;
    if (done < 1) swatch(theme.pending, phrase("notComputed", { done: Math.floor(100 * done) }), y + 14);
    if (done < 1) p.rect(f.x, f.y - 4, Math.max(2, f.w * done), 3, { fill: theme.accent }); // progress along the upper edge
  }

  /** Draw the whole map with a frame around its visible part, in a corner away from the marked cell. @param {Painter} p @param {Frame} f @param {import("./types.js").Overview} overview */
  drawInset(p, f, overview) {
    const [, , q, k] = this.record.shape;
    const side = Math.min(110, f.w * 0.3, f.h * 0.3);
    const [w, h] = q > k ? [Math.max(8, (side * k) / q), side] : [side, Math.max(8, (side * q) / k)];
    const { row, col } = this.marked();
    const right = (col + 0.5 - f.left) * f.cell < f.w / 2 || (row + 0.5 - f.top) * f.cell > f.h / 2;
    const [x, y] = [right ? f.x + f.w - w - 8 : f.x + 8, f.y + 8];
    p.rect(x - 3, y - 3, w + 6, h + 6, { fill: this.scene.theme.surface, stroke: this.scene.theme.line, radius: 3 });
    drawBlock(p, overview, this.scene, this.scene.state.record, x, y, w, h);
    p.rect(x + (f.left / k) * w, y + (f.top / q) * h, Math.max(3, (f.w / f.cell / k) * w), Math.max(3, (f.h / f.cell / q) * h), {
      stroke: this.scene.theme.accent, width: 2,
    });
  }

  // ---- input

  /** @param {number} x @param {number} y */
  cellAt(x, y) {
    const f = this.frame();
    const [row, col] = [Math.floor(f.top + (y - f.y) / f.cell), Math.floor(f.left + (x - f.x) / f.cell)];
    const [, , q, k] = this.record.shape;
    const inside = x >= f.x && x < f.x + f.w && y >= f.y && y < f.y + f.h;
    return inside && row >= 0 && row < q && col >= 0 && col < k ? { row, col } : null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.under = this.cellAt(x, y);
  }

  leave() {
    this.under = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    const found = this.cellAt(x, y);
    if (found) this.scene.set(found);
  }

  /** @param {number} x @param {number} y */
  open(x, y) {
    this.zoom(2, x, y);
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    const f = this.frame();
    if (f.cell <= f.fit) return; // the whole map is visible
    this.place(f.cell, f.left - dx / f.cell, f.top - dy / f.cell);
  }

  /** Set zoom and position, limited to the edges of the map. @param {number} zoom @param {number} x @param {number} y */
  place(zoom, x, y) {
    const changed = this.scene.set({ zoom, x, y });
    const { left, top } = this.frame();
    this.scene.set({ x: left, y: top });
    return changed;
  }

  /** Zoom about a fixed point. @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    const f = this.frame();
    const cell = Math.min(96, f.cell * factor);
    if (cell <= f.fit * 1.001) return this.scene.set({ zoom: 0, x: 0, y: 0 });
    if (cell === f.cell) return false; // the largest zoom
    const [col, row] = [f.left + (x - f.x) / f.cell, f.top + (y - f.y) / f.cell];
    return this.place(cell, col - (x - f.x) / cell, row - (y - f.y) / cell);
  }

  /** @param {number} _dx @param {number} dy @param {number} x @param {number} y */
  wheel(_dx, dy, x, y) {
    return this.zoom(Math.exp(-dy / 400), x, y);
  }

  /** The browser scrolls the page by touch if the whole map is visible. */
  touch() {
    return this.scene.state.zoom > 0 ? "none" : "pan-y";
  }

  /** @param {string} key @param {boolean} shift */
  key(key, shift) {
    const { state } = this.scene;
    const step = shift ? 10 : 1;
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] };
    const f = this.frame();
    if (moves[key]) this.go(state.row + moves[key][0], state.col + moves[key][1]);
    else if (key === "Home") this.go(state.row, 0);
    else if (key === "End") this.go(state.row, this.record.shape[3] - 1);
    else if (key === "+" || key === "=") this.zoom(1.5, ...this.middle(f));
    else if (key === "-") this.zoom(1 / 1.5, ...this.middle(f));
    else if (key === "0") this.scene.set({ zoom: 0, x: 0, y: 0 });
    else if (key === "Enter") this.scene.set({ view: "steps" });
    else return false;
    return true;
  }

  /** The position of the chosen cell if it is visible, else the middle. @param {Frame} f @returns {[number, number]} */
  middle(f) {
    const { row, col } = this.scene.state;
    const [x, y] = [f.x + (col + 0.5 - f.left) * f.cell, f.y + (row + 0.5 - f.top) * f.cell];
    const inside = x > f.x && x < f.x + f.w && y > f.y && y < f.y + f.h;
    return inside ? [x, y] : [f.x + f.w / 2, f.y + f.h / 2];
  }

  /** Choose a cell and scroll to it. @param {number} row @param {number} col */
  go(row, col) {
    const [, , q, k] = this.record.shape;
    row = Math.min(q - 1, Math.max(0, row));
    col = Math.min(k - 1, Math.max(0, col));
    const f = this.frame();
    const nearest = (/** @type {number} */ at, /** @type {number} */ start, /** @type {number} */ count) =>
      at < start ? at : at + 1 > start + count ? at + 1 - count : start;
    this.under = null;
    this.scene.set({ row, col, x: nearest(col, f.left, f.w / f.cell), y: nearest(row, f.top, f.h / f.cell) });
  }

  hint() {
    return phrase("heatHint");
  }

  label() {
    const { state, doc } = this.scene;
    const [, , q, k] = this.record.shape;
    return phrase("heatLabel", { record: recordText(doc.records[state.record], state.record), head: headText(this.record, state.head), q, k });
  }
}

/** Every step-th number of a range, and the marked number instead of its close neighbours. @param {number} from @param {number} to @param {number} step @param {number} marked */
function* thinned(from, to, step, marked) {
  const start = Math.ceil(from / step) * step;
  for (let n = start; n < to; n += step) if (n === marked || Math.abs(n - marked) >= step || marked < from || marked >= to) yield n;
  if (marked >= from && marked < to && marked % step) yield marked;
}
