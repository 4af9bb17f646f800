// @ts-check
/** The Model view, with a thumbnail for each layer and head. */
import { drawBlock } from "./cells.js";
import { phrase } from "./language.js";
import { fittedText, textWidth } from "./paint.js";
import { mostHeads } from "./sources.js";
import { headNumber, headText, kindText, nameText, recordText, visible } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */

const GRID_TOP = 26;
const THUMB_GAP = 5;
const SMALLEST = 56; // pixels along a side of a thumbnail; layers beyond the window are scrolled to

export class GridView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{record: number, head: number} | null} */
    this.under = null;
    this.left = 60;
    this.side = 40;
  }

  get heads() {
    return mostHeads(this.scene.doc);
  }

  /** The title of a column, if all rows have the same heads. @param {number} head */
  column(head) {
    const [first, ...rest] = this.scene.doc.records;
    const same = rest.every((record) => String(record.heads) === String(first.heads));
    return same ? headNumber(first, head) : head;
  }

  /** @param {number} n */
  rowLabel(n) {
    const record = this.scene.doc.records[n];
    if (record.layer === null) return nameText(record);
    return record.role ? `${kindText(record.role)} ${record.layer}` : `${record.layer} ${kindText(record.kind)}`;
  }

  /** The size of the drawing, whose thumbnails are as small as needed to show all layers, but not below SMALLEST. @param {number} width @param {number} height */
  size(width, height) {
    const { records } = this.scene.doc;
    const widest = Math.max(...records.map((_, n) => textWidth(this.rowLabel(n), { size: 12, bold: true })));
    this.left = Math.min(widest + 14, Math.max(56, width * 0.2));
    const room = (width - this.left - 12) / this.heads - THUMB_GAP;
    const most = Math.min(this.heads <= 4 ? 190 : 140, Math.max(SMALLEST, (height - GRID_TOP - 10) / records.length - THUMB_GAP));
    this.side = Math.min(most, Math.max(records.length * this.heads > 1500 ? 14 : 19, room));
    return {
      width: Math.max(width, this.left + this.heads * (this.side + THUMB_GAP) + 6),
      height: GRID_TOP + records.length * (this.side + THUMB_GAP) + 10,
    };
  }

  /** @param {number} record @param {number} head */
  corner(record, head) {
    return { x: this.left + head * (this.side + THUMB_GAP), y: GRID_TOP + record * (this.side + THUMB_GAP) };
  }

  /** @param {Painter} p @param {number} width @param {number} height */
  draw(p, width, height) {
    const { doc, theme, state } = this.scene;
    const mark = this.under ?? { record: state.record, head: state.head };
    doc.records.forEach((record, n) => {
      for (let head = 0; head < record.shape[1]; head++) this.drawThumbnail(p, n, head);
    });
    if (mark.head >= 0) {
      const { x, y } = this.corner(mark.record, mark.head);
      p.rect(x - 1.5, y - 1.5, this.side + 3, this.side + 3, { stroke: theme.accent, width: 2.5, radius: 3 });
    }
    const { top, left } = this.scrolled(p);
    if (left) p.rect(left, 0, this.left - 4, height, { fill: theme.surface });
    this.drawRowLabels(p, left, mark.record);
    if (top) p.rect(0, top, width, GRID_TOP - 3, { fill: theme.surface });
    this.drawHeadNumbers(p, top, mark.head);
    if (top || left) p.rect(left, top, this.left - 4, GRID_TOP - 3, { fill: theme.surface });
    if (this.heads > 3) p.text(phrase("headColumn"), left + 4, top + 13, { fill: theme.soft, size: 11 });
  }

  /** How far the drawing is scrolled. The labels stay in sight on the screen, and at the edges in a file. @param {Painter} p */
  scrolled(p) {
    return p.screen ? this.scene.band() : { top: 0, left: 0 };
  }

  /** @param {Painter} p @param {number} left @param {number} chosen the record */
  drawRowLabels(p, left, chosen) {
    const { doc, theme } = this.scene;
    doc.records.forEach((record, n) => {
      const on = chosen === n;
      const style = { fill: on ? theme.accent : theme.ink, size: 12, bold: on };
      const whole = record.layer === null ? visible(record.name) : this.rowLabel(n);
      p.text(fittedText(this.rowLabel(n), this.left - 8, style, true), left + 4, this.corner(n, 0).y + this.side / 2, { ...style, whole });
    });
  }

  /** @param {Painter} p @param {number} top @param {number} chosen the head */
  drawHeadNumbers(p, top, chosen) {
    const { theme } = this.scene;
    for (let head = 0; head < this.heads; head++) {
      const on = chosen === head;
      const style = { fill: on ? theme.accent : theme.soft, size: 11, align: "center", bold: on };
      const text = this.heads <= 3 ? phrase("headNumber", { n: this.column(head) }) : String(this.column(head));
      if (this.side > 18 || head % 4 === 0) p.text(text, this.corner(0, head).x + this.side / 2, top + 13, style);
    }
  }

  /** @param {Painter} p @param {number} n @param {number} head */
  drawThumbnail(p, n, head) {
    const { source, doc, state, theme } = this.scene;
    const [b, , q, k] = doc.records[n].shape;
    const { x, y } = this.corner(n, head);
    const { top, bottom } = this.scene.band();
    if (p.screen && (y + this.side < top || y > bottom)) return; // the server need not compute thumbnails out of sight
    const long = Math.max(q, k);
    const [w, h] = [Math.max(4, (this.side * k) / long), Math.max(4, (this.side * q) / long)];
    const [left, above] = [x + (this.side - w) / 2, y + (this.side - h) / 2];
    p.rect(left, above, w, h, { fill: theme.pending, radius: 2 });
    const overview = source.thumbnail(n, Math.min(state.batch, b - 1), head);
    if (!overview || !overview.done) return;
    drawBlock(p, overview, this.scene, n, left, above, w, h);
  }

  /** @param {number} x @param {number} y */
  at(x, y) {
    const { top, left } = this.scene.band();
    if (y < top + GRID_TOP || x < left + this.left) return null; // on a label
    const record = Math.floor((y - GRID_TOP) / (this.side + THUMB_GAP));
    const head = Math.floor((x - this.left) / (this.side + THUMB_GAP));
    const found = this.scene.doc.records[record];
    return found && head >= 0 && head < found.shape[1] ? { record, head } : null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.under = this.at(x, y);
  }

  leave() {
    this.under = null;
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    const found = this.at(x, y);
    if (found) this.scene.set({ ...found, view: "heat", zoom: 0, x: 0, y: 0 });
  }

  /** @param {string} key */
  key(key) {
    const { doc, state } = this.scene;
    const heads = (/** @type {number} */ n) => doc.records[n].shape[1];
    let { record, head } = state;
    if (key === "ArrowUp") record = Math.max(0, record - 1);
    else if (key === "ArrowDown") record = Math.min(doc.records.length - 1, record + 1);
    else if (key === "ArrowLeft") head = Math.max(0, head - 1);
    else if (key === "ArrowRight") head = head + 1;
    else if (key === "Enter" || key === " ") {
      this.scene.set({ view: "heat" });
      return true;
    } else return false;
    this.under = null;
    head = Math.min(head, heads(record) - 1);
    this.scene.set({ record, head });
    this.revealChosen();
    return true;
  }

  /** Scroll the chosen head into sight. */
  revealChosen() {
    const { record, head } = this.scene.state;
    const { x, y } = this.corner(record, Math.max(0, head));
    const [above, beside] = [GRID_TOP + THUMB_GAP, this.left + THUMB_GAP]; // the labels cover this much
    this.scene.reveal({ x: x - beside, y: y - above, w: beside + this.side + THUMB_GAP, h: above + this.side + THUMB_GAP });
  }

  hint() {
    return phrase("gridHint");
  }

  label() {
    const { doc, state } = this.scene;
    const record = doc.records[state.record];
    return phrase("gridLabel", { rows: doc.records.length, heads: this.heads, record: recordText(record, state.record), head: headText(record, state.head) });
  }
}
