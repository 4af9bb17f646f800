// @ts-check
/** The Steps view, which shows how one weight is computed, from query and key to the share of the output. */
import { isWeight, magnitude, stronger } from "./arrays.js";
import { rankOf } from "./cells.js";
import { signedColor } from "./color.js";
import { phrase } from "./language.js";
import { fittedText, textWidth } from "./paint.js";
import { cellNumber, headText, labelOf, numberText, percent, weightText } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./types.js").Steps} Steps */
/** @typedef {import("./paint.js").Painter} Painter */

const MARGIN = 18;

export class StepsView {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
  }

  get record() {
    return this.scene.doc.records[this.scene.state.record];
  }

  words() {
    const { doc, state } = this.scene;
    return {
      query: labelOf(doc, this.record, "query", state.batch, state.row),
      key: labelOf(doc, this.record, "key", state.batch, state.col),
    };
  }

  steps() {
    const { source, state } = this.scene;
    return source.cell(state.record, state.batch, state.head, state.row, state.col);
  }

  /** The layout of the vectors, with at most sixteen squares in a line. @param {number} width @param {number} count */
  strip(width, count) {
    const room = Math.min(width, 980) - 2 * MARGIN - 44;
    const most = Math.max(1, Math.min(count, 16, Math.floor(room / 36)));
    const lines = Math.ceil(count / most);
    const perLine = Math.ceil(count / Math.max(1, lines)); // lines of equal length
    return { perLine, lines, cell: Math.min(46, room / Math.max(1, perLine)) };
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    const count = this.steps()?.q?.length ?? 0;
    const { lines } = this.strip(width, count);
    return { width, height: Math.max(height, 512 + (count ? 40 + lines * 128 : 0)) };
  }

  /** @param {Painter} p @param {number} width @param {number} _height */
  draw(p, width, _height) {
    const { theme, state } = this.scene;
    const steps = this.steps();
    const { query, key } = this.words();
    const room = Math.min(width, 980) - 2 * MARGIN;
    const title = { fill: theme.ink, size: 18, bold: true };
    p.text(fittedText(phrase("stepsTitle", { query, key }), room, title), MARGIN, 24, title);
    const where = phrase("stepsWhere", { row: state.row, col: state.col, head: headText(this.record, state.head) });
    p.text(where, MARGIN, 47, { fill: theme.soft, size: 12 });
    if (!steps) return void p.text(`${phrase("waiting")} …`, MARGIN, 90, { fill: theme.soft });
    let y = 78;
    if (steps.q && steps.k) y = this.drawVectors(p, steps, width, y);
    else y = this.drawNothingKnown(p, y, room);
    y = this.drawSums(p, steps, y, room);
    this.drawShare(p, steps, y, room);
  }

  /** @param {Painter} p @param {number} y @param {number} room */
  drawNothingKnown(p, y, room) {
    const { theme, state } = this.scene;
    const why = state.head < 0 ? phrase("meanHasNone") : phrase("weightsOnly");
    p.text(fittedText(why, room, { size: 13 }), MARGIN, y + 4, { fill: theme.soft, size: 13 });
    return y + 34;
  }

  /** Draw q, k, and the contribution of each dimension. @param {Painter} p @param {Steps} steps @param {number} width @param {number} y */
  drawVectors(p, steps, width, y) {
    const { theme } = this.scene;
    const [q, k] = [/** @type {number[]} */ (steps.q), /** @type {number[]} */ (steps.k)];
    const parts = contributions(steps);
    const { perLine, lines, cell } = this.strip(width, q.length);
    const sum = steps.v ? "v · tanh(q + k)" : "q × k";
    const long = phrase("contributions", { sum });
    const narrow = textWidth(long, { size: 13 }) > width - 2 * MARGIN - 30;
    this.heading(p, "1", narrow ? phrase("contributionsShort", { sum }) : long, y);
    y += 26;
    const most = Math.max(...parts.map(Math.abs), 1e-12);
    const scale = Math.max(...q.map(Math.abs), 1e-12);
    const scaleK = Math.max(...k.map(Math.abs), 1e-12);
    for (let line = 0; line < lines; line++) {
      for (const [n, name] of ["q", "k"].entries()) p.text(name, MARGIN + 4, y + 11 + n * 24, { fill: theme.soft, size: 12, mono: true });
      p.text(steps.v ? phrase("sumMark") : "q×k", MARGIN + 4, y + 82, { fill: theme.soft, size: 11, mono: true });
      p.line(MARGIN + 40, y + 82, MARGIN + 40 + perLine * cell, y + 82, { stroke: theme.line });
      for (let n = 0; n < perLine && line * perLine + n < q.length; n++) {
        const d = line * perLine + n;
        const x = MARGIN + 40 + n * cell;
        this.square(p, x, y, cell, q[d], q[d] / scale);
        this.square(p, x, y + 24, cell, k[d], k[d] / scaleK);
        const high = (28 * Math.abs(parts[d])) / most;
        p.rect(x + 1, parts[d] > 0 ? y + 82 - high : y + 82, Math.max(1, cell - 2), high, { fill: signedColor(parts[d] > 0 ? 0.9 : -0.9, theme.dark) });
        p.text(cellNumber(parts[d]), x + cell / 2, parts[d] > 0 ? y + 92 : y + 72, { fill: theme.soft, size: 9, align: "center" });
        p.text(String(d), x + cell / 2, y + 118, { fill: theme.soft, size: 9, align: "center" });
      }
      y += 128;
    }
    return y + 12;
  }

  /** @param {Painter} p @param {number} x @param {number} y @param {number} cell @param {number} value @param {number} t */
  square(p, x, y, cell, value, t) {
    const { theme } = this.scene;
    p.rect(x + 0.5, y, Math.max(1, cell - 1), 21, { fill: signedColor(t, theme.dark), radius: 2 });
    const fill = theme.dark && Math.abs(t) > 0.72 ? theme.page : theme.ink; // such squares are bright in the dark theme
    p.text(cellNumber(value), x + cell / 2, y + 11, { fill, size: 9.5, align: "center" });
  }

  /** @param {Painter} p @param {string} number @param {string} text @param {number} y */
  heading(p, number, text, y) {
    const { theme } = this.scene;
    p.rect(MARGIN, y - 9, 18, 18, { fill: theme.accent, radius: 9 });
    p.text(number, MARGIN + 9, y + 0.5, { fill: theme.surface, size: 11, bold: true, align: "center" });
    p.text(text, MARGIN + 27, y, { fill: theme.ink, size: 13 });
  }

  /** Draw one line for each of product, scale, bias, mask and softmax. @param {Painter} p @param {Steps} steps @param {number} y @param {number} room */
  drawSums(p, steps, y, room) {
    const { theme } = this.scene;
    for (const [n, [name, sum, value]] of sums(steps).entries()) {
      p.rect(MARGIN, y - 14, room, 29, { fill: n % 2 ? theme.surface : theme.page, radius: 4 });
      this.heading(p, String(n + firstSum(steps)), name, y);
      const end = MARGIN + room - 8;
      p.text(value, end, y, { fill: theme.ink, size: 14, bold: true, align: "right", mono: true });
      const left = MARGIN + 40 + textWidth(name, { size: 13 });
      const space = end - textWidth(value, { size: 14, bold: true, mono: true }) - 14 - left;
      const style = { fill: theme.soft, size: 12, align: "right", mono: true };
      p.text(fittedText(sum, space, style), end - textWidth(value, { size: 14, bold: true, mono: true }) - 12, y, style);
      y += 31;
    }
    return y + 16;
  }

  /** Draw the share of the output that this key contributes, and the whole row. @param {Painter} p @param {Steps} steps @param {number} y @param {number} room */
  drawShare(p, steps, y, room) {
    const { theme, state, source } = this.scene;
    const { query, key } = this.words();
    this.heading(p, String(sums(steps).length + firstSum(steps)), phrase("outputShare"), y);
    const row = source.row(state.record, state.batch, state.head, state.row);
    const bar = y + 20;
    p.rect(MARGIN, bar, room, 16, { fill: theme.line, alpha: 0.5, radius: 3 });
    p.rect(MARGIN, bar, Math.min(room, Math.max(1, room * Math.abs(steps.weight))), 16, { fill: theme.accent, radius: 3 });
    const text = steps.weight < 0 ? phrase("subtracted", { key, query, weight: weightText(-steps.weight) }) : phrase("shareOfOutput", { share: percent(steps.weight), query, key });
    p.text(fittedText(text, room, { size: 13 }), MARGIN, bar + 32, { fill: theme.ink, size: 13 });
    if (!row) return;
    const found = rankOf(this.record, row, state.row, state.col);
    p.text(found ? phrase("rankOfKeys", { rank: found.rank, n: found.n }) : phrase("maskHides"), MARGIN, bar + 51, { fill: theme.soft, size: 12 });
    this.drawRow(p, row, bar + 66, room);
  }

  /** Draw the weights of the row as bars, pooled if there are more keys than pixels. @param {Painter} p @param {Float32Array} row @param {number} y @param {number} room */
  drawRow(p, row, y, room) {
    const { theme, state } = this.scene;
    const bins = Math.min(row.length, Math.floor(room));
    const whole = room;
    room = Math.min(room, bins * 44);
    const most = row.reduce((a, b) => Math.max(a, magnitude(b)), 1e-12);
    const mine = Math.floor((state.col * bins) / row.length);
    for (let bin = 0; bin < bins; bin++) {
      let w = 0;
      for (let j = Math.ceil((bin * row.length) / bins); j < ((bin + 1) * row.length) / bins; j++) w = stronger(w, isWeight(row[j]) ? row[j] : 0);
      const high = (64 * Math.abs(w)) / most;
      const x = MARGIN + (bin * room) / bins;
      p.rect(x, y + 64 - high, Math.max(0.8, room / bins - (bins < room / 3 ? 1 : 0)), high, { fill: bin === mine ? theme.accent : w < 0 ? signedColor(-0.9, theme.dark) : theme.soft, alpha: bin === mine ? 1 : 0.55 });
    }
    p.line(MARGIN, y + 64.5, MARGIN + room, y + 64.5, { stroke: theme.line });
    const at = MARGIN + ((mine + 0.5) * room) / bins;
    p.line(at, y + 66, at, y + 72, { stroke: theme.accent, width: 2 });
    const weight = weightText(most);
    const text = this.record.signed ? phrase("rowWeightsSigned", { weight }) : phrase("rowWeights", { weight });
    p.text(fittedText(text, whole, { size: 11 }), MARGIN, y + 84, { fill: theme.soft, size: 11 });
  }

  hover() {}

  leave() {}

  click() {}

  /** @param {string} key @param {boolean} shift */
  key(key, shift) {
    const { state, set } = this.scene;
    const step = shift ? 10 : 1;
    const [, , q, k] = this.record.shape;
    const within = (/** @type {number} */ n, /** @type {number} */ most) => Math.min(most - 1, Math.max(0, n));
    if (key === "ArrowUp") set({ row: within(state.row - step, q) });
    else if (key === "ArrowDown") set({ row: within(state.row + step, q) });
    else if (key === "ArrowLeft") set({ col: within(state.col - step, k) });
    else if (key === "ArrowRight") set({ col: within(state.col + step, k) });
    else if (key === "Enter") set({ view: "heat" });
    else return false;
    return true;
  }

  hint() {
    return phrase("stepsHint");
  }

  label() {
    const steps = this.steps();
    const { query, key } = this.words();
    if (!steps) return phrase("stepsWaiting", { waiting: phrase("waiting") });
    const lines = sums(steps).map(([name, sum, value]) => `${name}: ${sum} ${value}`);
    return phrase("stepsLabel", { query, key, lines: lines.join(". "), share: percent(steps.weight) });
  }

  numbers() {
    const steps = this.steps();
    if (!steps?.q || !steps.k) return "";
    return phrase("stepsNumbers", { q: listed(steps.q), k: listed(steps.k), parts: listed(contributions(steps)) });
  }
}

/** Numbers, separated by commas. @param {number[]} values */
function listed(values) {
  return values.map(cellNumber).join(", ");
}

/** The contribution of each dimension to the score. @param {Steps} steps */
function contributions(steps) {
  const { q, k, v } = steps;
  if (!q || !k) return [];
  return v ? v.map((x, n) => x * Math.tanh(q[n] + k[n])) : q.map((x, n) => x * k[n]);
}

/** The number of the first line, which is 2 if query and key are drawn before it. @param {Steps} steps */
function firstSum(steps) {
  return steps.q && steps.k ? 2 : 1;
}

/** The steps of the computation of a weight, each as its name, its formula and its result. @param {Steps} steps @returns {[string, string, string][]} */
export function sums(steps) {
  if (!steps.q) {
    return steps.hidden ? [[phrase("stepMask"), phrase("keyHidden"), phrase("hidden")]] : [[phrase("stepWeight"), "", weightText(steps.weight)]];
  }
  const scaled = steps.product * steps.scale;
  const score = scaled + steps.bias;
  /** @type {[string, string, string][]} */
  const lines = [
    [steps.v ? phrase("stepSum") : phrase("stepProduct"), steps.v ? "Σ v·tanh(q + k)" : "q · k", numberText(steps.product)],
    [phrase("stepScale"), `${numberText(steps.product)} × ${numberText(steps.scale)}`, numberText(scaled)],
  ];
  if (steps.hasBias) lines.push([phrase("stepBias"), `${numberText(scaled)} + ${numberText(steps.bias)}`, numberText(score)]);
  lines.push([phrase("stepMask"), steps.hidden ? phrase("keyHidden") : phrase("keySeen"), steps.hidden ? phrase("hidden") : numberText(score)]);
  const sum = steps.hidden ? "exp(−∞)" : `exp(${numberText(score)} − ${numberText(steps.lse)})`;
  lines.push([phrase("stepSoftmax"), sum, weightText(steps.weight)]);
  return lines;
}
