// @ts-check
/** Attention of one query over the patches of a picture. */
import { colorTable, place } from "./color.js";
import { element2d, fittedText } from "./paint.js";
import { headText, labelOf, recordText, weightText } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {{x: number, y: number, w: number, h: number}} Box */

const HEADS_STRIP = 96; // height of the row of heads
const IMAGE_TOP = 34;

export class ImageView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {number | null} the patch that is pointed at */
    this.under = null;
    this.room = { width: 0, height: 0 };
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    return { width, height: Math.max(height, 320) };
  }

  picture() {
    return this.scene.pictures.get(this.scene.state.batch);
  }

  /** Where the picture is drawn. @returns {Box} */
  box() {
    const [rows, cols] = this.record.keyGrid ?? [1, 1];
    const picture = this.picture();
    const ratio = picture ? picture.width / picture.height : cols / rows;
    const [wide, high] = [this.room.width - 24, this.room.height - IMAGE_TOP - HEADS_STRIP - 28];
    const w = Math.min(wide, high * ratio, 720 * Math.max(1, ratio));
    return { x: (this.room.width - w) / 2, y: IMAGE_TOP, w, h: w / ratio };
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    this.room = { width, height };
    const { theme } = this.scene;
    if (!this.record.keyGrid) {
      const text = "The keys of this layer are not patches of a picture.";
      p.text(fittedText(text, width - 24, { size: 14 }), width / 2, height / 2, { fill: theme.soft, size: 14, align: "center" });
      return;
    }
    const box = this.box();
    this.drawTitle(p);
    this.drawOver(p, box, this.scene.state.head, true);
    this.drawQuery(p, box);
    this.drawHeads(p);
  }

  /** @param {Painter} p */
  drawTitle(p) {
    const { theme } = this.scene;
    const text = `${this.queryName(this.query())} looks at …`;
    const style = { fill: theme.ink, size: 14, bold: true, align: "center" };
    p.text(fittedText(text, this.room.width - 20, style), this.room.width / 2, 16, style);
  }

  /** The query whose attention is shown: the patch pointed at where queries are patches too. */
  query() {
    return this.under !== null && this.sameGrid() ? this.record.queryExtra + this.under : this.scene.state.row;
  }

  sameGrid() {
    const { queryGrid, keyGrid } = this.record;
    return Boolean(queryGrid && keyGrid && queryGrid[0] === keyGrid[0] && queryGrid[1] === keyGrid[1]);
  }

  /** @param {number} n */
  queryName(n) {
    const { doc, state } = this.scene;
    const { queryGrid, queryExtra, queryTokens } = this.record;
    if (queryTokens) return `“${labelOf(doc, this.record, "query", state.batch, n)}”`;
    if (!queryGrid) return `query ${n}`;
    if (n < queryExtra) return queryExtra === 1 ? "the class token" : `extra token ${n}`;
    return `the patch in row ${Math.floor((n - queryExtra) / queryGrid[1])}, column ${(n - queryExtra) % queryGrid[1]}`;
  }

  /** The picture with weights over it. @param {Painter} p @param {Box} box @param {number} head @param {boolean} large */
  drawOver(p, box, head, large) {
    const { theme, state, source } = this.scene;
    const [rows, cols] = /** @type {number[]} */ (this.record.keyGrid);
    const picture = this.picture();
    if (picture) p.image(picture, box.x, box.y, box.w, box.h, { smooth: true });
    else p.rect(box.x, box.y, box.w, box.h, { fill: theme.hidden });
    const row = source.row(state.record, state.batch, head, this.query());
    if (!row) return;
    const patches = row.subarray(this.record.keyExtra, this.record.keyExtra + rows * cols);
    const max = patches.reduce((a, b) => Math.max(a, b), 0);
    const overlay = element2d(cols, rows); // a pixel a patch: no seams where patches meet
    const pixels = overlay.context.createImageData(cols, rows);
    const table = colorTable("bright", theme.dark);
    for (let n = 0; n < patches.length; n++) {
      const t = place(patches[n], max, state.scale);
      const alpha = picture ? state.opacity * (0.25 + 0.75 * t) : patches[n] < 0 ? 0 : 1;
      pixels.data.set(table.subarray(3 * Math.round(255 * t), 3 * Math.round(255 * t) + 3), 4 * n);
      pixels.data[4 * n + 3] = Math.round(255 * alpha);
    }
    overlay.context.putImageData(pixels, 0, 0);
    p.image(overlay.canvas, box.x, box.y, box.w, box.h);
    if (large) this.drawLegend(p, box, max, patches.reduce((a, b) => a + Math.max(b, 0), 0));
  }

  /** @param {Painter} p @param {Box} box @param {number} max @param {number} total */
  drawLegend(p, box, max, total) {
    const { theme } = this.scene;
    const text = `brightest patch ${weightText(max)} · all patches together ${weightText(total)}`;
    const style = { fill: theme.soft, size: 11, align: "center" };
    p.text(fittedText(text, this.room.width - 20, style), this.room.width / 2, box.y + box.h + 13, style);
  }

  /** The patch that asks. @param {Painter} p @param {Box} box */
  drawQuery(p, box) {
    const { queryGrid, queryExtra } = this.record;
    const n = this.query() - queryExtra;
    if (!queryGrid || !this.sameGrid() || n < 0) return;
    const [w, h] = [box.w / queryGrid[1], box.h / queryGrid[0]];
    const [x, y] = [box.x + (n % queryGrid[1]) * w, box.y + Math.floor(n / queryGrid[1]) * h];
    p.rect(x, y, w, h, { stroke: "#ffffff", width: 4 });
    p.rect(x, y, w, h, { stroke: this.scene.theme.accent, width: 2.5 });
  }

  /** Boxes of the heads below the picture, as many as fit. */
  headBoxes() {
    const heads = this.record.shape[1];
    const side = Math.max(30, Math.min(72, (this.room.width - 24) / heads - 6));
    const count = Math.min(heads, Math.floor((this.room.width - 24) / (side + 6)));
    const left = (this.room.width - count * (side + 6) + 6) / 2;
    const y = this.room.height - HEADS_STRIP + 4;
    return Array.from({ length: count }, (_, n) => ({ x: left + n * (side + 6), y, w: side, h: side }));
  }

  /** @param {Painter} p */
  drawHeads(p) {
    const { theme, state } = this.scene;
    this.headBoxes().forEach((box, head) => {
      this.drawOver(p, box, head, false);
      const on = state.head === head;
      if (on) p.rect(box.x - 1, box.y - 1, box.w + 2, box.h + 2, { stroke: theme.accent, width: 2.5 });
      p.text(String(head), box.x + box.w / 2, box.y + box.h + 10, { fill: on ? theme.accent : theme.soft, size: 11, align: "center", bold: on });
    });
  }

  /** @param {number} x @param {number} y @returns {number | null} */
  patchAt(x, y) {
    if (!this.record.keyGrid) return null;
    const [rows, cols] = this.record.keyGrid;
    const box = this.box();
    const [row, col] = [Math.floor(((y - box.y) / box.h) * rows), Math.floor(((x - box.x) / box.w) * cols)];
    return row >= 0 && row < rows && col >= 0 && col < cols ? row * cols + col : null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.under = this.patchAt(x, y);
  }

  leave() {
    this.under = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    if (!this.record.keyGrid) return;
    const head = this.headBoxes().findIndex((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h);
    if (head >= 0) return this.scene.set({ head });
    const patch = this.patchAt(x, y);
    if (patch === null) return;
    this.scene.set(this.sameGrid() ? { row: this.record.queryExtra + patch } : { col: this.record.keyExtra + patch });
  }

  /** @param {string} key */
  key(key) {
    const { state, set } = this.scene;
    const [, , q] = this.record.shape;
    const { queryGrid, queryExtra } = this.record;
    const down = queryGrid && state.row >= queryExtra ? queryGrid[1] : 1;
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -down, ArrowDown: down };
    if (moves[key] === undefined) return false;
    const row = state.row + moves[key];
    this.under = null;
    set({ row: Math.min(q - 1, Math.max(0, row)) });
    return true;
  }

  label() {
    const { state } = this.scene;
    if (!this.record.keyGrid) return "The keys of this layer are not patches of a picture.";
    return `Picture: where ${this.queryName(this.query())} looks, ${recordText(this.record, state.record)}, ${headText(state.head)}. Arrow keys choose another query.`;
  }
}
