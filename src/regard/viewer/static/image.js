// @ts-check
/** The Picture view, which draws the weights of one query over the patches of an image. If queries are words, they stand above it. */
import { isWeight, magnitude } from "./arrays.js";
import { drawColorBar } from "./cells.js";
import { colorTable, place } from "./color.js";
import { element2d, fittedText } from "./paint.js";
import { PictureWords } from "./picture_words.js";
import { scaleEnds } from "./scales.js";
import { STILL_ASKING, headNumber, headText, labelOf, recordText, weightText } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {{x: number, y: number, w: number, h: number}} Box */

const TITLE_ROOM = 34; // above the picture
const BAR_ROOM = 48; // below the picture, for the colour bar
const HEAD_GAP = 6;

export class ImageView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {number | null} the patch under the pointer */
    this.under = null;
    this.words = new PictureWords(scene);
    /** @type {number | null} the word under the pointer, whose weights are shown */
    this.word = null;
    this.room = { width: 0, height: 0 };
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** The size of the drawing, which is no higher than the picture and the heads below it need. @param {number} width @param {number} height */
  size(width, height) {
    const { lines, side } = this.headSizes(width);
    const around = this.top(width) + BAR_ROOM + lines * (side + 20) + 8;
    const enough = around + this.widest(width) / this.ratio();
    return { width, height: this.record.keyGrid ? Math.min(enough, Math.max(height, around + 220)) : height };
  }

  /** The height of the words and the title above the picture. @param {number} width */
  top(width) {
    return this.words.height(width) + TITLE_ROOM;
  }

  /** The query whose weights are shown, which is the word under the pointer or the chosen query. */
  rowRead() {
    return this.word ?? this.scene.state.row;
  }

  /** Width over height of the picture, or of the grid of patches without a picture. */
  ratio() {
    const [rows, cols] = this.record.keyGrid ?? [1, 1];
    const picture = this.picture();
    return picture ? picture.width / picture.height : cols / rows;
  }

  /** The largest width of the picture in a drawing of this width. @param {number} width */
  widest(width) {
    return Math.min(width - 24, 720 * Math.max(1, this.ratio()));
  }

  picture() {
    return this.scene.pictures.get(this.scene.state.batch);
  }

  /** The position of the picture. @returns {Box} */
  box() {
    const ratio = this.ratio();
    const { lines, side } = this.headSizes(this.room.width);
    const top = this.top(this.room.width);
    const high = this.room.height - top - BAR_ROOM - lines * (side + 20) - 8;
    const w = Math.min(this.widest(this.room.width), high * ratio);
    return { x: (this.room.width - w) / 2, y: top, w, h: w / ratio };
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
    this.words.draw(p, width, this.word);
    this.drawTitle(p);
    this.drawOver(p, box, this.scene.state.head, true);
    this.drawMarks(p, box);
    this.drawHeads(p);
  }

  /** @param {Painter} p */
  drawTitle(p) {
    const { theme } = this.scene;
    const text = `Weights of ${this.name("query", this.rowRead())}`;
    const style = { fill: theme.ink, size: 14, bold: true, align: "center" };
    p.text(fittedText(text, this.room.width - 20, style), this.room.width / 2, this.top(this.room.width) - 18, style);
  }

  /** The key whose weight is shown, which is the patch under the pointer or the chosen key. */
  keyRead() {
    return this.under === null ? this.scene.state.col : this.record.keyExtra + this.under;
  }

  sameGrid() {
    const { queryGrid, keyGrid } = this.record;
    return Boolean(queryGrid && keyGrid && queryGrid[0] === keyGrid[0] && queryGrid[1] === keyGrid[1]);
  }

  /** @param {"query" | "key"} side @param {number} n */
  name(side, n) {
    const { doc, state } = this.scene;
    const { queryGrid, queryExtra, queryTokens, keyGrid, keyExtra, keyTokens } = this.record;
    const [grid, extra, tokens] = side === "key" ? [keyGrid, keyExtra, keyTokens] : [queryGrid, queryExtra, queryTokens];
    if (tokens) return `“${labelOf(doc, this.record, side, state.batch, n)}”`;
    if (!grid) return `${side} ${n}`;
    if (n < extra) return extra === 1 ? "the class token" : `extra token ${n}`;
    return `the patch in row ${Math.floor((n - extra) / grid[1])}, column ${(n - extra) % grid[1]}`;
  }

  /** Draw the picture with the weights over it. @param {Painter} p @param {Box} box @param {number} head @param {boolean} large */
  drawOver(p, box, head, large) {
    const { theme, state, source } = this.scene;
    const [rows, cols] = /** @type {number[]} */ (this.record.keyGrid);
    const picture = this.picture();
    if (picture) p.image(picture, box.x, box.y, box.w, box.h, { smooth: true });
    else p.rect(box.x, box.y, box.w, box.h, { fill: theme.hidden });
    const row = source.row(state.record, state.batch, head, this.rowRead());
    if (!row) return;
    const patches = row.subarray(this.record.keyExtra, this.record.keyExtra + rows * cols);
    const max = patches.reduce((a, b) => Math.max(a, magnitude(b)), 0);
    const { signed } = this.record;
    const overlay = element2d(cols, rows); // one pixel for each patch, so that patches have no seams
    const pixels = overlay.context.createImageData(cols, rows);
    const table = colorTable(signed ? "signed" : "bright", theme.dark);
    for (let n = 0; n < patches.length; n++) {
      const t = place(patches[n], max, state.scale, signed);
      const strong = signed ? Math.abs(2 * t - 1) : t;
      const alpha = picture ? state.opacity * (0.25 + 0.75 * strong) : isWeight(patches[n]) ? 1 : 0;
      pixels.data.set(table.subarray(3 * Math.round(255 * t), 3 * Math.round(255 * t) + 3), 4 * n);
      pixels.data[4 * n + 3] = Math.round(255 * alpha);
    }
    overlay.context.putImageData(pixels, 0, 0);
    p.image(overlay.canvas, box.x, box.y, box.w, box.h);
    if (large) this.drawLegend(p, box, max, patches.reduce((a, b) => a + (isWeight(b) ? b : 0), 0));
  }

  /** @param {Painter} p @param {Box} box @param {number} max @param {number} total */
  drawLegend(p, box, max, total) {
    const { width } = this.room;
    const bar = Math.min(180, width * 0.4);
    const x = Math.max(12, Math.min(box.x, width - bar - 200));
    const { signed } = this.record;
    drawColorBar(p, this.scene, signed ? "signed" : "bright", scaleEnds(max, this.scene.state.scale, signed), x, box.y + box.h + 8, bar);
    const style = { fill: this.scene.theme.soft, size: 11 };
    const text = `sum over all patches: ${weightText(total)}`;
    p.text(fittedText(text, width - x - bar - 20, style), x + bar + 14, box.y + box.h + 13, style);
  }

  /** Frame the patch of the query, and the key whose weight is shown with a thinner line. @param {Painter} p @param {Box} box */
  drawMarks(p, box) {
    const { queryExtra, keyExtra } = this.record;
    this.drawMark(p, box, this.keyRead() - keyExtra, "#ffffff", 2);
    if (!this.sameGrid()) return;
    this.drawMark(p, box, this.scene.state.row - queryExtra, "#ffffff", 4);
    this.drawMark(p, box, this.scene.state.row - queryExtra, this.scene.theme.accent, 2.5);
  }

  /** @param {Painter} p @param {Box} box @param {number} n the patch @param {string} stroke @param {number} width */
  drawMark(p, box, n, stroke, width) {
    const [rows, cols] = /** @type {number[]} */ (this.record.keyGrid);
    if (n < 0 || n >= rows * cols) return;
    const [w, h] = [box.w / cols, box.h / rows];
    p.rect(box.x + (n % cols) * w, box.y + Math.floor(n / cols) * h, w, h, { stroke, width });
  }

  /** The size of the pictures of heads below the main picture, and their number of lines. @param {number} width */
  headSizes(width) {
    const heads = this.record.shape[1];
    const side = Math.max(44, Math.min(72, (width - 24) / heads - HEAD_GAP)); // large enough for a finger
    const perLine = Math.max(1, Math.min(heads, Math.floor((width - 24 + HEAD_GAP) / (side + HEAD_GAP))));
    return { side, perLine, lines: heads === 1 ? 0 : Math.ceil(heads / perLine) }; // the only head is the picture above
  }

  /** The positions of the pictures of heads. */
  headBoxes() {
    const { side, perLine, lines } = this.headSizes(this.room.width);
    if (!lines) return [];
    const left = (this.room.width - perLine * (side + HEAD_GAP) + HEAD_GAP) / 2;
    const top = this.room.height - lines * (side + 20) - 2;
    return Array.from({ length: this.record.shape[1] }, (_, n) => ({
      x: left + (n % perLine) * (side + HEAD_GAP), y: top + Math.floor(n / perLine) * (side + 20), w: side, h: side,
    }));
  }

  /** The largest box with the proportions of the picture inside a square. @param {Box} square @returns {Box} */
  centered({ x, y, w, h }) {
    const ratio = this.ratio();
    const [wide, high] = [w * Math.min(1, ratio), h / Math.max(1, ratio)];
    return { x: x + (w - wide) / 2, y: y + (h - high) / 2, w: wide, h: high };
  }

  /** @param {Painter} p */
  drawHeads(p) {
    const { theme, state } = this.scene;
    this.headBoxes().forEach((box, head) => {
      this.drawOver(p, this.centered(box), head, false);
      const on = state.head === head;
      if (on) p.rect(box.x - 1, box.y - 1, box.w + 2, box.h + 2, { stroke: theme.accent, width: 2.5 });
      p.text(String(headNumber(this.record, head)), box.x + box.w / 2, box.y + box.h + 10, { fill: on ? theme.accent : theme.soft, size: 11, align: "center", bold: on });
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
    this.word = this.words.at(x, y, this.room.width);
  }

  leave() {
    this.under = this.word = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    if (!this.record.keyGrid) return;
    const word = this.words.at(x, y, this.room.width);
    if (word !== null) return this.scene.set({ row: word });
    const head = this.headBoxes().findIndex((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h);
    if (head >= 0) return this.scene.set({ head });
    const patch = this.patchAt(x, y);
    if (patch === null) return;
    const query = this.sameGrid() && this.scene.state.side === "query";
    this.scene.set(query ? { row: this.record.queryExtra + patch } : { col: this.record.keyExtra + patch });
  }

  /** @param {string} key */
  key(key) {
    const { state, set } = this.scene;
    const [, , q, k] = this.record.shape;
    const { queryGrid, queryExtra, keyGrid, keyExtra } = this.record;
    const keys = state.side === "key";
    const [grid, extra, at, total] = keys ? [keyGrid, keyExtra, state.col, k] : [queryGrid, queryExtra, state.row, q];
    const down = grid && at >= extra ? grid[1] : 1;
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -down, ArrowDown: down };
    if (moves[key] === undefined) return false;
    const to = Math.min(total - 1, Math.max(0, at + moves[key]));
    this.under = this.word = null;
    set(keys ? { col: to } : { row: to });
    return true;
  }

  /** The query, the key and the weight under the pointer, or the chosen ones. */
  reading() {
    const { state, source } = this.scene;
    const row = source.row(state.record, state.batch, state.head, this.rowRead());
    return { query: this.name("query", this.rowRead()), key: this.name("key", this.keyRead()), weight: row ? weightText(row[this.keyRead()]) : STILL_ASKING };
  }

  hint() {
    const chosen = this.scene.state.side === "query" && this.sameGrid() ? "query" : "key";
    const words = this.words.height(this.room.width) ? "Point at a word to see its weights, click to choose it. " : "";
    const heads = this.record.shape[1] > 1 ? " Click a small picture to choose its head." : "";
    return `${words}Point at a patch to read its weight, click to choose it as the ${chosen}.${heads}`;
  }

  label() {
    const { state } = this.scene;
    if (!this.record.keyGrid) return "The keys of this layer are not patches of a picture.";
    const { query, key, weight } = this.reading();
    return `Picture with the weights of ${query}, ${recordText(this.record, state.record)}, ${headText(this.record, state.head)}. At ${key}: ${weight}. Arrow keys choose another ${state.side}, s switches between query and key.`;
  }
}
