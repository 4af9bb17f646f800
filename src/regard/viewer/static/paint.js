// @ts-check
/** Two painters with the same methods, one for canvas (screen and PNG) and one for SVG. */

/** @typedef {{fill?: string, stroke?: string, width?: number, alpha?: number, radius?: number, dash?: number[]}} Shape */
/** @typedef {{fill?: string, size?: number, align?: string, baseline?: string, turn?: number, bold?: boolean, mono?: boolean, alpha?: number, whole?: string}} TextStyle */
/** @typedef {{alpha?: number, smooth?: boolean, from?: [number, number, number, number]}} ImageStyle */
/** @typedef {CanvasPainter | SvgPainter} Painter */

import { graphemes } from "./text.js";

const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** @param {TextStyle} style */
function font(style) {
  return `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.mono ? MONO : SANS}`;
}

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;
/** @type {Map<string, number>} */
const widths = new Map();

/** The width of a text in pixels. @param {string} text @param {TextStyle} style */
export function textWidth(text, style = {}) {
  const key = `${font(style)}\n${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    ruler ??= /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    ruler.font = font(style);
    found = ruler.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(key, found);
  }
  return found;
}

/** The width of the widest of many texts. Only the 200 texts with the most letters are measured. @param {(n: number) => string} text @param {number} count @param {TextStyle} style */
export function widest(text, count, style) {
  const letters = (/** @type {string} */ word) => word.length + (word.match(/[\u1100-\uffff]/g) ?? []).length; // East Asian letters count twice
  const texts = Array.from({ length: count }, (_, n) => text(n));
  const longest = [...new Set(texts)].map((word) => ({ word, size: letters(word) })).sort((a, b) => b.size - a.size).slice(0, 200);
  return longest.reduce((most, { word }) => Math.max(most, textWidth(word, style)), 0);
}

/** A text, shortened with … at its end or in its middle to fit a width. @param {string} text @param {number} width @param {TextStyle} style @param {boolean} inside */
export function fittedText(text, width, style = {}, inside = false) {
  if (textWidth(text, style) <= width) return text;
  const letters = graphemes(text);
  const cut = (/** @type {number} */ n) => {
    const last = inside ? n >> 1 : 0;
    return `${letters.slice(0, n - last).join("")}…${last ? letters.slice(-last).join("") : ""}`;
  };
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(cut(middle), style) <= width) low = middle;
    else high = middle - 1;
  }
  return low ? cut(low) : "";
}

export class CanvasPainter {
  /** @param {CanvasRenderingContext2D} context @param {boolean} screen whether the canvas is on the screen, not for a file */
  constructor(context, screen = false) {
    this.context = context;
    this.screen = screen;
    this.vector = false;
    this.ratio = context.getTransform().a; // device pixels for each CSS pixel
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {Shape} shape */
  rect(x, y, w, h, shape) {
    const c = this.context;
    c.globalAlpha = shape.alpha ?? 1;
    c.beginPath();
    if (shape.radius) c.roundRect(x, y, w, h, shape.radius);
    else c.rect(x, y, w, h);
    this.finish(shape);
  }

  /** @param {Shape} shape */
  finish(shape) {
    const c = this.context;
    if (shape.fill) {
      c.fillStyle = shape.fill;
      c.fill();
    }
    if (shape.stroke) {
      c.strokeStyle = shape.stroke;
      c.lineWidth = shape.width ?? 1;
      c.setLineDash(shape.dash ?? []);
      c.stroke();
    }
    c.globalAlpha = 1;
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {Shape} shape */
  line(x0, y0, x1, y1, shape) {
    const c = this.context;
    c.globalAlpha = shape.alpha ?? 1;
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    this.finish(shape);
  }

  /** Draw a curve that is horizontal at both ends. @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {Shape} shape */
  curve(x0, y0, x1, y1, shape) {
    const c = this.context;
    const bend = (x1 - x0) * 0.42;
    c.globalAlpha = shape.alpha ?? 1;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    this.finish(shape);
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, style) {
    const c = this.context;
    c.globalAlpha = style.alpha ?? 1;
    c.font = font(style);
    c.fillStyle = style.fill ?? "#000";
    c.textAlign = /** @type {CanvasTextAlign} */ (style.align ?? "left");
    c.textBaseline = /** @type {CanvasTextBaseline} */ (style.baseline ?? "middle");
    if (style.turn) {
      c.save();
      c.translate(x, y);
      c.rotate((style.turn * Math.PI) / 180);
      c.fillText(text, 0, 0);
      c.restore();
    } else c.fillText(text, x, y);
    c.globalAlpha = 1;
  }

  /** @param {CanvasImageSource} image @param {number} x @param {number} y @param {number} w @param {number} h @param {ImageStyle} style */
  image(image, x, y, w, h, style = {}) {
    const c = this.context;
    c.globalAlpha = style.alpha ?? 1;
    c.imageSmoothingEnabled = Boolean(style.smooth);
    if (style.from) c.drawImage(image, ...style.from, x, y, w, h);
    else c.drawImage(image, x, y, w, h);
    c.globalAlpha = 1;
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {() => void} draw */
  clip(x, y, w, h, draw) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(x, y, w, h);
    c.clip();
    draw();
    c.restore();
  }

  /** Draw with everything shifted down by y. @param {number} y @param {() => void} draw */
  lower(y, draw) {
    this.context.save();
    this.context.translate(0, y);
    draw();
    this.context.restore();
  }
}

const SVG = "http://www.w3.org/2000/svg";

export class SvgPainter {
  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.screen = false;
    this.vector = true;
    this.ratio = 1;
    this.root = document.createElementNS(SVG, "svg");
    this.put(this.root, { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    /** @type {Element} */
    this.at = this.root;
    this.clips = 0;
  }

  /** @param {Element} node @param {Record<string, string | number | undefined>} attributes */
  put(node, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === undefined) continue;
      const plain = typeof value === "number" ? Number(value.toFixed(3)) : value;
      if (name === "xmlns") continue; // the serialiser adds it
      node.setAttribute(name, String(plain));
    }
    return node;
  }

  /** @param {string} tag @param {Record<string, string | number | undefined>} attributes */
  add(tag, attributes) {
    const node = this.put(document.createElementNS(SVG, tag), attributes);
    this.at.append(node);
    return node;
  }

  /** @param {Shape} shape */
  strokes(shape) {
    return {
      fill: shape.fill ?? "none", stroke: shape.stroke, opacity: shape.alpha === 1 ? undefined : shape.alpha,
      "stroke-width": shape.stroke ? shape.width ?? 1 : undefined, "stroke-dasharray": shape.dash?.join(" "),
    };
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {Shape} shape */
  rect(x, y, w, h, shape) {
    this.add("rect", { x, y, width: Math.max(0, w), height: Math.max(0, h), rx: shape.radius, ...this.strokes(shape) });
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {Shape} shape */
  line(x0, y0, x1, y1, shape) {
    this.add("line", { x1: x0, y1: y0, x2: x1, y2: y1, ...this.strokes(shape) });
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {Shape} shape */
  curve(x0, y0, x1, y1, shape) {
    const bend = (x1 - x0) * 0.42;
    const points = [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1].map((n) => Number(n.toFixed(2)));
    const [a, b, c, d, e, f, g, h] = points;
    this.add("path", { d: `M${a} ${b}C${c} ${d} ${e} ${f} ${g} ${h}`, ...this.strokes(shape) });
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, style) {
    const anchors = { left: "start", center: "middle", right: "end" };
    const shift = { middle: 0.35, top: 0.8, bottom: -0.2, alphabetic: 0 };
    const size = style.size ?? 12;
    const dy = size * (shift[/** @type {keyof typeof shift} */ (style.baseline ?? "middle")] ?? 0);
    const node = this.add("text", {
      x, y: style.turn ? y : y + dy, fill: style.fill, "font-size": size, opacity: style.alpha,
      "font-family": style.mono ? MONO : SANS, "font-weight": style.bold ? 600 : undefined,
      "text-anchor": anchors[/** @type {keyof typeof anchors} */ (style.align ?? "left")],
      dy: style.turn ? dy : undefined,
      transform: style.turn ? `rotate(${style.turn} ${Number(x.toFixed(3))} ${Number(y.toFixed(3))})` : undefined,
    });
    node.textContent = text;
    if (style.whole !== undefined && style.whole !== text) node.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: style.whole }));
  }

  /** @param {CanvasImageSource} image @param {number} x @param {number} y @param {number} w @param {number} h @param {ImageStyle} style */
  image(image, x, y, w, h, style = {}) {
    const size = /** @type {{width: number, height: number}} */ (/** @type {unknown} */ (image));
    const from = style.from ?? [0, 0, size.width, size.height];
    const copy = element2d(Math.max(1, Math.round(from[2])), Math.max(1, Math.round(from[3])));
    copy.context.imageSmoothingEnabled = false;
    copy.context.drawImage(image, ...from, 0, 0, copy.canvas.width, copy.canvas.height);
    this.add("image", {
      x, y, width: w, height: h, href: copy.canvas.toDataURL("image/png"), opacity: style.alpha,
      preserveAspectRatio: "none", "image-rendering": style.smooth ? undefined : "pixelated",
    });
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {() => void} draw */
  clip(x, y, w, h, draw) {
    const id = `clip${(this.clips += 1)}`;
    const path = this.add("clipPath", { id });
    path.append(this.put(document.createElementNS(SVG, "rect"), { x, y, width: w, height: h }));
    const outer = this.at;
    this.at = this.add("g", { "clip-path": `url(#${id})` });
    draw();
    this.at = outer;
  }

  /** @param {number} y @param {() => void} draw */
  lower(y, draw) {
    const outer = this.at;
    this.at = this.add("g", { transform: `translate(0 ${y})` });
    draw();
    this.at = outer;
  }

  toString() {
    return new XMLSerializer().serializeToString(this.root);
  }
}

/** A new canvas and its context. @param {number} width @param {number} height */
export function element2d(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return { canvas, context: /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")) };
}
