// @ts-check
/** Perceptually uniform colour scales, computed in OKLab, and colours for any number of heads. */

/** @typedef {[number, number, number]} Rgb */

/**
 * An OKLCH colour as sRGB bytes. The chroma is lowered if the colour is outside sRGB.
 * @param {number} light 0 to 1
 * @param {number} chroma
 * @param {number} hue in degrees
 * @returns {Rgb}
 */
export function oklch(light, chroma, hue) {
  for (let c = chroma; ; c -= 0.004) {
    const rgb = linearRgb(light, Math.max(c, 0), hue);
    if (c <= 0 || rgb.every((x) => x >= -0.0005 && x <= 1.0005)) {
      return /** @type {Rgb} */ (rgb.map((x) => Math.round(255 * gamma(Math.min(1, Math.max(0, x))))));
    }
  }
}

/** @param {number} light @param {number} chroma @param {number} hue @returns {number[]} */
function linearRgb(light, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

/** @param {number} x */
function gamma(x) {
  return x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
}

/** Lightness changes evenly from t = 0 to 1, or from 0.5 to both ends, so equal steps of weight look like equal steps. */
const SCALES = {
  /** violet, blue, green, yellow @param {number} t @returns {Rgb} */
  bright: (t) => oklch(0.26 + 0.67 * t, 0.1 + 0.08 * t, 305 - 200 * t),
  /** from the paper to the ink @param {number} t @returns {Rgb} */
  ink: (t) => oklch(0.99 - 0.69 * t, 0.012 + 0.16 * Math.sin(Math.PI * Math.min(1, t * 1.05) * 0.62), 262 + 14 * t),
  /** from the dark to the light @param {number} t @returns {Rgb} */
  glow: (t) => oklch(0.2 + 0.76 * t, 0.015 + 0.15 * Math.sin(Math.PI * t), 262 - 170 * t),
  /** blue for negative weights, red for positive weights, the paper for 0 at t = 0.5 @param {number} t @returns {Rgb} */
  signedLight: (t) => oklch(0.97 - 0.47 * Math.abs(2 * t - 1), 0.2 * Math.abs(2 * t - 1), t < 0.5 ? 258 : 28),
  /** the same on a dark page @param {number} t @returns {Rgb} */
  signedDark: (t) => oklch(0.25 + 0.5 * Math.abs(2 * t - 1), 0.2 * Math.abs(2 * t - 1), t < 0.5 ? 250 : 35),
};

/** @type {Map<string, Uint8Array>} */
const tables = new Map();

/**
 * 256 colours of three bytes each. "ink" is light on a light page, and "glow" takes its place on a dark one. "signed"
 * is for maps with negative weights.
 * @param {string} palette
 * @param {boolean} dark
 */
export function colorTable(palette, dark) {
  const name = palette === "signed" ? (dark ? "signedDark" : "signedLight") : palette === "ink" ? (dark ? "glow" : "ink") : "bright";
  let table = tables.get(name);
  if (!table) {
    table = new Uint8Array(768);
    for (let n = 0; n < 256; n++) table.set(SCALES[name](n / 255), 3 * n);
    tables.set(name, table);
  }
  return table;
}

/**
 * The position of a weight on the colour scale, 0 to 1. On a signed scale, 0.5 is a weight of 0.
 * @param {number} weight
 * @param {number} max the magnitude at the end of the scale
 * @param {string} scale
 * @param {boolean} signed
 */
export function place(weight, max, scale, signed = false) {
  const t = max > 0 ? Math.min(1, Math.max(0, signed ? Math.abs(weight) : weight) / max) : 0;
  const size = scale === "root" ? Math.sqrt(t) : scale === "log" && t > 0 ? Math.max(0, 1 + Math.log10(t) / 4) : t; // four decades
  return signed ? (1 + (weight < 0 ? -size : size)) / 2 : size;
}

/** @param {Uint8Array} table @param {number} t */
export function colorAt(table, t) {
  const n = 3 * Math.round(255 * Math.min(1, Math.max(0, t)));
  return `rgb(${table[n]},${table[n + 1]},${table[n + 2]})`;
}

/** Black or white, whichever has more contrast to this colour. @param {Uint8Array} table @param {number} t */
export function inkOn(table, t) {
  const n = 3 * Math.round(255 * Math.min(1, Math.max(0, t)));
  const [r, g, b] = [table[n], table[n + 1], table[n + 2]].map((x) => (x / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.22 ? "#10131a" : "#ffffff";
}

/**
 * The colour of one of several heads. Hues are spread evenly, and neighbours also differ in lightness.
 * @param {number} head
 * @param {number} heads
 * @param {boolean} dark
 */
export function headColor(head, heads, dark) {
  const [r, g, b] = headRgb(head, heads, dark);
  return `rgb(${r},${g},${b})`;
}

/** @param {number} head @param {number} heads @param {boolean} dark */
function headRgb(head, heads, dark) {
  const hue = 25 + (360 * head) / Math.max(heads, 1);
  return oklch((dark ? 0.78 : 0.58) + (head % 2 ? -0.07 : 0.03), 0.16, hue);
}

/** Black or white on a head's colour, with a contrast of at least 4.58. @param {number} head @param {number} heads @param {boolean} dark */
export function headInk(head, heads, dark) {
  const [r, g, b] = headRgb(head, heads, dark).map((x) => (x > 10 ? ((x / 255 + 0.055) / 1.055) ** 2.4 : x / 3294.6));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.1791 ? "#000000" : "#ffffff";
}

/** Blue for negative numbers, red for positive ones. @param {number} t −1 to 1 @param {boolean} dark */
export function signedColor(t, dark) {
  const size = Math.min(1, Math.abs(t));
  const light = dark ? 0.27 + 0.45 * size : 0.97 - 0.37 * size;
  const [r, g, b] = oklch(light, 0.17 * size, t < 0 ? 255 : 30);
  return `rgb(${r},${g},${b})`;
}
