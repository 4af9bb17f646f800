// @ts-check
/** The binary data of a document as arrays of numbers. */

/** @typedef {import("./types.js").ArrayRef} ArrayRef */

/** The value of a pair that the mask hides. Weights may be negative, but never this large. tiles.py has the same numbers. */
export const HIDDEN = -(2 ** 100);
/** The value of a cell of an overview that is not computed yet. */
export const PENDING = -(2 ** 101);

/** Whether a value is a weight, and neither hidden nor pending. @param {number} w */
export function isWeight(w) {
  return w > HIDDEN;
}

/** The magnitude of a weight, and 0 for a pair without one. @param {number} w */
export function magnitude(w) {
  return w > HIDDEN ? Math.abs(w) : 0;
}

/** The one of two values that a pooled cell keeps: the weight of the larger magnitude, else a hidden pair. @param {number} a @param {number} b */
export function stronger(a, b) {
  return a > HIDDEN && b > HIDDEN ? (Math.abs(b) > Math.abs(a) ? b : a) : Math.max(a, b);
}

/** @type {Float32Array | null} */
let halves = null;

/** A table of all 65,536 half-precision numbers. */
function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) halves[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
    else halves[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return halves;
}

/** @param {string} text in base64 */
export function bytesOf(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let n = 0; n < binary.length; n++) bytes[n] = binary.charCodeAt(n);
  return bytes;
}

/** The blobs of a document, decoded when first used. */
export class Blobs {
  /** @param {(blob: number) => Uint8Array} read */
  constructor(read) {
    this.read = read;
    /** @type {Map<number, Uint8Array>} */
    this.held = new Map();
  }

  /** @param {number} blob */
  bytes(blob) {
    let found = this.held.get(blob);
    if (!found) {
      found = this.read(blob);
      if (found.byteOffset % 4) found = found.slice(); // typed arrays must be aligned
      this.held.set(blob, found);
    }
    return found;
  }

  /**
   * A range of the numbers of an array.
   * @param {ArrayRef} ref
   * @param {number} start
   * @param {number} count
   * @returns {Float32Array}
   */
  floats(ref, start, count) {
    const bytes = this.bytes(ref.blob);
    if (ref.dtype === "f32") return new Float32Array(bytes.buffer, bytes.byteOffset + 4 * start, count);
    const out = new Float32Array(count);
    const codes = this.integers(ref, start, count);
    if (ref.dtype === "f16") {
      const table = halfTable();
      const unit = ref.unit ?? 1;
      for (let n = 0; n < count; n++) out[n] = table[codes[n]] * unit;
    } else out.set(codes);
    return out;
  }

  /**
   * The stored integers, or the bits of half-precision numbers.
   * @param {ArrayRef} ref
   * @param {number} start
   * @param {number} count
   */
  integers(ref, start, count) {
    const bytes = this.bytes(ref.blob);
    const at = bytes.byteOffset;
    if (ref.dtype === "u8") return new Uint8Array(bytes.buffer, at + start, count);
    if (ref.dtype === "i8") return new Int8Array(bytes.buffer, at + start, count);
    if (ref.dtype === "i16") return new Int16Array(bytes.buffer, at + 2 * start, count);
    if (ref.dtype === "i32") return new Int32Array(bytes.buffer, at + 4 * start, count);
    return new Uint16Array(bytes.buffer, at + 2 * start, count);
  }
}

/**
 * The index of the first number of a sequence and a head in an array (b or 1, h or 1, …). Axes of size 1 are shared.
 * @param {number[]} shape
 * @param {number} b
 * @param {number} h
 */
export function headOffset(shape, b, h) {
  const rest = shape.slice(2).reduce((x, y) => x * y, 1);
  return ((shape[0] > 1 ? b : 0) * shape[1] + (shape[1] > 1 ? h : 0)) * rest;
}
