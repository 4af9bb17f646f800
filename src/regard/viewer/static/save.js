// @ts-check
/** Saving of a view as a PNG or an SVG file. */
import { phrase } from "./language.js";
import { CanvasPainter, SvgPainter, element2d, fittedText } from "./paint.js";
import { headText, recordText, visible } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./types.js").View} View */

const CAPTION = 34;

/** @param {Scene} scene @param {View} view @param {{width: number, height: number}} size @param {import("./paint.js").Painter} p */
function drawAll(scene, view, size, p) {
  const { state, doc, theme } = scene;
  p.rect(0, 0, size.width, size.height + CAPTION, { fill: theme.surface });
  const where = state.view === "grid" ? phrase("allHeads") : `${recordText(doc.records[state.record], state.record)} · ${headText(doc.records[state.record], state.head)}`;
  const style = { fill: theme.ink, size: 13, bold: true };
  p.text(fittedText(`${visible(doc.title)} — ${where}`, size.width - 24, style), 12, 18, style);
  p.lower(CAPTION, () => view.draw(p, size.width, size.height));
}

/** @param {Scene} scene @param {View} view @param {{width: number, height: number}} size @returns {Promise<Blob>} */
export function asPng(scene, view, size) {
  const scale = Math.min(2, 8000 / Math.max(size.width, size.height + CAPTION));
  const { canvas, context } = element2d(Math.round(size.width * scale), Math.round((size.height + CAPTION) * scale));
  context.scale(scale, scale);
  drawAll(scene, view, size, new CanvasPainter(context));
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error(phrase("tooLarge")))), "image/png");
  });
}

/** @param {Scene} scene @param {View} view @param {{width: number, height: number}} size */
export function asSvg(scene, view, size) {
  const painter = new SvgPainter(size.width, size.height + CAPTION);
  drawAll(scene, view, size, painter);
  return new Blob([painter.toString()], { type: "image/svg+xml" });
}

/** A file name that is valid on any file system. @param {Scene} scene @param {string} ending */
export function fileName(scene, ending) {
  const { state, doc } = scene;
  const record = state.view === "grid" ? "all" : doc.records[state.record].name;
  const plain = record.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
  return `attention-${state.view}-${plain || state.record}.${ending}`;
}

/** @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
