// @ts-check
/** The Picture view, which draws the weights of one query over the patches of an image. If queries are words, they stand above it. */
import { isWeight, magnitude } from "./arrays.js";
import { drawColorBar } from "./cells.js";
import { colorTable, place } from "./color.js";
import { phrase } from "./language.js";
import { element2d, fittedText } from "./paint.js";
import { patchesOf, pictureWords, sinkPatches } from "./patches.js";
import { PictureWords } from "./picture_words.js";
import { scaleEnds } from "./scales.js";
import { headNumber, headText, labelOf, recordText, sideNumber, sideText, visible, weightText } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** @typedef {import("./patches.js").Patches} Patches */
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
    /** @type {{key: string, found: Uint8Array}[]} the sinks of the last heads and pictures */
    this.sinksKnown = [];
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  /** The patches of the chosen picture, or null if the keys are no patches. */
  get patches() {
    const { doc, state } = this.scene;
    return patchesOf(doc, this.record, state.batch)[state.picture] ?? null;
  }

  /** The size of the drawing, which is no higher than the picture and the heads below it need. @param {number} width @param {number} height */
  size(width, height) {
    const { lines, side } = this.headSizes(width);
    const around = this.top(width) + BAR_ROOM + lines * (side + 20) + 8;
    const enough = around + this.widest(width) / this.ratio();
    return { width, height: this.patches ? Math.min(enough, Math.max(height, around + 220)) : height };
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
    const picture = this.picture();
    return picture ? picture.width / picture.height : this.patches?.ratio ?? 1;
  }

  /** The largest width of the picture in a drawing of this width. @param {number} width */
  widest(width) {
    return Math.min(width - 24, 720 * Math.max(1, this.ratio()));
  }

  /** The picture below the patches. Null if there is none, or if the model may have cropped or padded it. */
  picture() {
    const number = this.patches?.picture ?? null;
    return number === null || this.misfit() ? null : this.scene.pictures.get(number);
  }

  /** Why the patches cannot be laid over the picture, or "". */
  misfit() {
    const patches = this.patches;
    const picture = patches && patches.picture !== null ? this.scene.pictures.get(patches.picture) : null;
    if (!patches || !picture || patches.stretched || !patches.size) return "";
    const tolerance = 0.5 / Math.max(patches.rows, patches.cols);
    if (Math.abs(picture.width / picture.height / patches.ratio - 1) <= tolerance) return "";
    const [modelHeight, modelWidth] = patches.size;
    return phrase("misfit", { width: picture.width, height: picture.height, modelWidth, modelHeight });
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
    if (!this.patches) {
      const text = this.absence();
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

  /** Why there is no picture. */
  absence() {
    const { pictures } = this.record;
    const why = pictures === null ? null : this.scene.doc.layouts[pictures].unplaced;
    return why ? visible(why) : phrase("notPatches");
  }

  /** @param {Painter} p */
  drawTitle(p) {
    const { theme } = this.scene;
    const text = this.misfit() || phrase("weightsOf", { query: this.name("query", this.rowRead()) });
    const style = { fill: theme.ink, size: 14, bold: true, align: "center" };
    p.text(fittedText(text, this.room.width - 20, style), this.room.width / 2, this.top(this.room.width) - 18, style);
  }

  /** The key whose weight is shown, which is the patch under the pointer or the chosen key. */
  keyRead() {
    return this.under === null ? this.scene.state.col : this.patches?.keys[this.under] ?? this.scene.state.col;
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
    const patches = side === "key" && this.record.pictures !== null ? this.patches : null;
    const at = patches ? patches.keys.indexOf(n) : -1;
    if (patches && at >= 0) return phrase("patch", { row: Math.floor(at / patches.cols), col: at % patches.cols });
    if (tokens) return `“${labelOf(doc, this.record, side, state.batch, n)}”`;
    if (!grid) return sideNumber(side, n);
    if (n < extra) return extra === 1 ? phrase("classToken") : phrase("extraToken", { n });
    return phrase("patch", { row: Math.floor((n - extra) / grid[1]), col: (n - extra) % grid[1] });
  }

  /** Draw the picture with the weights over it. @param {Painter} p @param {Box} box @param {number} head @param {boolean} large */
  drawOver(p, box, head, large) {
    const { theme, state, source } = this.scene;
    const { rows, cols, keys } = /** @type {Patches} */ (this.patches);
    const picture = this.picture();
    if (picture) p.image(picture, box.x, box.y, box.w, box.h, { smooth: true });
    else p.rect(box.x, box.y, box.w, box.h, { fill: theme.hidden });
    const row = source.row(state.record, state.batch, head, this.rowRead());
    if (!row) return;
    const patches = this.weightsOver(row, head, state.picture);
    const total = keys.reduce((a, key) => a + (isWeight(row[key]) ? row[key] : 0), 0);
    const sinks = this.sinks(head, state.picture);
    const max = this.largest(row, head);
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
    const over = this.patchBox(box);
    p.clip(box.x, box.y, box.w, box.h, () => p.image(overlay.canvas, over.x, over.y, over.w, over.h)); // patches of padding lie outside
    if (!large) return;
    sinks?.forEach((sink, n) => sink && this.drawCross(p, over, n));
    this.drawLegend(p, box, max, total, sinks ? sinks.reduce((a, b) => a + b, 0) : null);
  }

  /** The weights of a row over the patches of a picture, with 0 for sinks that are taken out. @param {Float32Array} row @param {number} head @param {number} picture */
  weightsOver(row, head, picture) {
    const { doc, state } = this.scene;
    const { keys } = patchesOf(doc, this.record, state.batch)[picture];
    const sinks = this.sinks(head, picture);
    return Float32Array.from(keys, (key, n) => (sinks?.[n] && isWeight(row[key]) ? 0 : row[key]));
  }

  /** The largest weight of a row over all pictures of the sequence, which have one scale. @param {Float32Array} row @param {number} head */
  largest(row, head) {
    const { doc, state } = this.scene;
    const all = patchesOf(doc, this.record, state.batch).map((_, n) => this.weightsOver(row, head, n));
    return all.reduce((most, weights) => weights.reduce((a, b) => Math.max(a, magnitude(b)), most), 0);
  }

  /** The place of all patches in a picture that is drawn in a box. @param {Box} box @returns {Box} */
  patchBox(box) {
    const [left, top, right, bottom] = this.patches?.box ?? [0, 0, 1, 1];
    return { x: box.x + left * box.w, y: box.y + top * box.h, w: (right - left) * box.w, h: (bottom - top) * box.h };
  }

  /** Which patches of a picture are sinks, or null if they are not taken out. @param {number} head @param {number} picture */
  sinks(head, picture) {
    const { doc, source, state } = this.scene;
    const [patches, words] = [patchesOf(doc, this.record, state.batch)[picture], pictureWords(doc, this.record, state.batch)];
    if (!state.sinks || !patches || !words) return null;
    const key = [state.record, state.batch, head, picture].join("/");
    const known = this.sinksKnown.find((entry) => entry.key === key);
    if (known) return known.found;
    const last = this.record.kind === "causal" ? patches.keys.reduce((a, b) => Math.max(a, b), 0) : -1;
    const after = words.filter((word) => word > last);
    const found = sinkPatches(after.map((word) => source.row(state.record, state.batch, head, word)), patches.keys);
    if (found) this.sinksKnown = [{ key, found }, ...this.sinksKnown].slice(0, 256);
    return found;
  }

  /** Cross out a sink. @param {Painter} p @param {Box} over the place of all patches @param {number} n */
  drawCross(p, over, n) {
    const { rows, cols } = /** @type {Patches} */ (this.patches);
    const [w, h] = [over.w / cols, over.h / rows];
    const [x, y] = [over.x + (n % cols) * w, over.y + Math.floor(n / cols) * h];
    p.line(x, y, x + w, y + h, { stroke: "#ffffff", width: 1 });
    p.line(x, y + h, x + w, y, { stroke: "#ffffff", width: 1 });
  }

  /** @param {Painter} p @param {Box} box @param {number} max @param {number} total @param {number | null} sinks taken out */
  drawLegend(p, box, max, total, sinks) {
    const { width } = this.room;
    const bar = Math.min(180, width * 0.4);
    const x = Math.max(12, Math.min(box.x, width - bar - 200));
    const { signed } = this.record;
    drawColorBar(p, this.scene, signed ? "signed" : "bright", scaleEnds(max, this.scene.state.scale, signed), x, box.y + box.h + 8, bar);
    const style = { fill: this.scene.theme.soft, size: 11 };
    const sum = phrase("patchSum", { weight: weightText(total) });
    const text = sinks === null ? sum : sinks === 1 ? phrase("oneSink", { sum }) : phrase("sinkCount", { sum, n: sinks });
    p.text(fittedText(text, width - x - bar - 20, style), x + bar + 14, box.y + box.h + 13, style);
  }

  /** Frame the patch of the query, and the key whose weight is shown with a thinner line. @param {Painter} p @param {Box} box */
  drawMarks(p, box) {
    const { queryExtra } = this.record;
    this.drawMark(p, box, this.patches?.keys.indexOf(this.keyRead()) ?? -1, "#ffffff", 2);
    if (!this.sameGrid()) return;
    this.drawMark(p, box, this.scene.state.row - queryExtra, "#ffffff", 4);
    this.drawMark(p, box, this.scene.state.row - queryExtra, this.scene.theme.accent, 2.5);
  }

  /** @param {Painter} p @param {Box} box @param {number} n the patch @param {string} stroke @param {number} width */
  drawMark(p, box, n, stroke, width) {
    const { rows, cols } = /** @type {Patches} */ (this.patches);
    if (n < 0 || n >= rows * cols) return;
    const over = this.patchBox(box);
    const [w, h] = [over.w / cols, over.h / rows];
    p.rect(over.x + (n % cols) * w, over.y + Math.floor(n / cols) * h, w, h, { stroke, width });
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
    if (!this.patches) return null;
    const { rows, cols } = this.patches;
    const box = this.patchBox(this.box());
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
    if (!this.patches) return;
    const word = this.words.at(x, y, this.room.width);
    if (word !== null) return this.scene.set({ row: word });
    const head = this.headBoxes().findIndex((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h);
    if (head >= 0) return this.scene.set({ head });
    const patch = this.patchAt(x, y);
    if (patch === null) return;
    const query = this.sameGrid() && this.scene.state.side === "query";
    this.scene.set(query ? { row: this.record.queryExtra + patch } : { col: this.patches.keys[patch] });
  }

  /** @param {string} key */
  key(key) {
    const { doc, state, set } = this.scene;
    const [, , q, k] = this.record.shape;
    if (this.record.pictures !== null && this.patches) return this.keyAmongWords(key, pictureWords(doc, this.record, state.batch) ?? []);
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

  /** Move to another word, or to another patch of the picture. @param {string} key @param {number[]} words */
  keyAmongWords(key, words) {
    const { state, set } = this.scene;
    const { keys, cols } = /** @type {Patches} */ (this.patches);
    const [places, now, down] = state.side === "key" ? [Array.from(keys), state.col, cols] : [words, state.row, 1];
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -down, ArrowDown: down };
    if (moves[key] === undefined || !places.length) return false;
    const at = places.indexOf(now);
    const to = places[at < 0 ? 0 : Math.min(places.length - 1, Math.max(0, at + moves[key]))];
    this.under = this.word = null;
    set(state.side === "key" ? { col: to } : { row: to });
    return true;
  }

  /** The query, the key and the weight under the pointer, or the chosen ones. */
  reading() {
    const { state, source } = this.scene;
    const row = source.row(state.record, state.batch, state.head, this.rowRead());
    return { query: this.name("query", this.rowRead()), key: this.name("key", this.keyRead()), weight: row ? weightText(row[this.keyRead()]) : phrase("waiting") };
  }

  hint() {
    const chosen = this.scene.state.side === "query" && this.sameGrid() ? "query" : "key";
    const words = this.words.height(this.room.width) ? phrase("pointWord") : "";
    const heads = this.record.shape[1] > 1 ? phrase("clickPicture") : "";
    return [words, phrase("pointPatch", { side: sideText(chosen) }), heads].filter(Boolean).join(phrase("sentenceSeparator"));
  }

  label() {
    const { state } = this.scene;
    if (!this.patches) return this.absence();
    const { query, key, weight } = this.reading();
    const side = sideText(state.side === "key" ? "key" : "query");
    const text = phrase("imageLabel", { query, record: recordText(this.record, state.record), head: headText(this.record, state.head), key, weight, side });
    return [this.misfit(), text].filter(Boolean).join(phrase("sentenceSeparator"));
  }
}
