// @ts-check
/** Weights computed row by row as exp(scale · q·k + bias − lse), with HIDDEN where the mask hides a pair. */
import { HIDDEN, headOffset, isWeight } from "./arrays.js";

/** @typedef {import("./arrays.js").Blobs} Blobs */
/** @typedef {import("./types.js").SourceSpec} SourceSpec */
/** @typedef {import("./types.js").MaskSpec} MaskSpec */
/** @typedef {import("./types.js").BiasSpec} BiasSpec */
/** @typedef {import("./types.js").Steps} Steps */

/** Sets out[j] to 1 if query i may attend to key c0 + j, else to 0. @typedef {(i: number, c0: number, out: Uint8Array) => void} Allow */
/** Adds the bias of query i and key c0 + j to out[j]. @typedef {(i: number, c0: number, out: Float32Array) => void} AddBias */

/** Access to the weights of a map.
 * @typedef {object} Reader
 * @property {number} work the number of products for one weight
 * @property {(b: number, h: number, i: number, c0: number, out: Float32Array) => void} row
 * @property {(b: number, h: number, i: number, j: number) => Steps} cell
 */

/**
 * @param {SourceSpec} spec
 * @param {number[]} shape
 * @param {Blobs} blobs
 * @returns {Reader}
 */
export function readerOf(spec, shape, blobs) {
  if (spec.type === "recomputed") return new RecomputedReader(spec, shape, blobs);
  if (spec.type === "weights") return new StoredReader(spec, shape, blobs);
  if (spec.type === "mean" && spec.of) return new MeanReader(spec, shape, blobs);
  if (spec.type === "windows" && spec.of) return new WindowsReader(spec, shape, blobs);
  throw new Error(`unknown source ${spec.type}`);
}

class RecomputedReader {
  /** @param {SourceSpec} spec @param {number[]} shape @param {Blobs} blobs */
  constructor(spec, shape, blobs) {
    const { q, k, lse, middle } = spec;
    if (!q || !k || !lse || !middle) throw new Error("a recomputed map without q, k or lse");
    this.refs = { q, k, lse, middle };
    this.spec = spec;
    this.shape = shape;
    this.blobs = blobs;
    this.scale = spec.scale ?? 1;
    this.width = q.shape[3];
    this.work = spec.v ? 12 * this.width : this.width;
    this.v = spec.v ? blobs.floats(spec.v, 0, this.width) : null;
    /** @type {Map<number, ReturnType<RecomputedReader["prepare"]>>} */
    this.heads = new Map();
    this.keep = new Uint8Array(shape[3]);
  }

  /** Decode the numbers of one head of one sequence. @param {number} b @param {number} h */
  prepare(b, h) {
    const [, heads, queries, keys] = this.shape;
    const { q, k, lse, middle } = this.refs;
    const groups = k.shape[1];
    const group = Math.floor(h / (heads / groups));
    const width = this.width;
    const known = this.blobs.floats(k, (b * groups + group) * keys * width, keys * width);
    const shared = this.blobs.floats(middle, (b * groups + group) * width, width);
    for (let n = 0; n < known.length; n++) known[n] += shared[n % width];
    return {
      q: this.blobs.floats(q, (b * heads + h) * queries * width, queries * width),
      k: known,
      lse: this.blobs.floats(lse, (b * heads + h) * queries, queries),
      allow: this.spec.mask ? compileMask(this.spec.mask, this.shape, this.blobs, b, h) : null,
      addBias: this.spec.bias ? compileBias(this.spec.bias, this.shape, this.blobs, b, h) : null,
    };
  }

  /** @param {number} b @param {number} h */
  head(b, h) {
    const key = b * this.shape[1] + h;
    let found = this.heads.get(key);
    if (!found) {
      if (this.heads.size >= 32) this.heads.delete(/** @type {number} */ (this.heads.keys().next().value));
      found = this.prepare(b, h);
      this.heads.set(key, found);
    }
    return found;
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} c0 @param {Float32Array} out */
  row(b, h, i, c0, out) {
    const head = this.head(b, h);
    const n = out.length;
    this.scores(head, i, c0, out);
    head.addBias?.(i, c0, out);
    const lse = head.lse[i];
    for (let j = 0; j < n; j++) out[j] = lse === -Infinity ? 0 : Math.exp(out[j] - lse);
    if (!head.allow) return;
    const keep = this.keep.subarray(0, n);
    head.allow(i, c0, keep);
    for (let j = 0; j < n; j++) if (!keep[j]) out[j] = HIDDEN;
  }

  /** @param {ReturnType<RecomputedReader["prepare"]>} head @param {number} i @param {number} c0 @param {Float32Array} out */
  scores(head, i, c0, out) {
    const { width, scale, v } = this;
    const { q, k } = head;
    const at = i * width;
    for (let j = 0; j < out.length; j++) {
      const kj = (c0 + j) * width;
      let sum = 0;
      if (v) for (let n = 0; n < width; n++) sum += v[n] * Math.tanh(q[at + n] + k[kj + n]);
      else for (let n = 0; n < width; n++) sum += q[at + n] * k[kj + n];
      out[j] = sum * scale;
    }
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} j @returns {Steps} */
  cell(b, h, i, j) {
    const head = this.head(b, h);
    const { width, scale } = this;
    const one = new Float32Array(1);
    this.scores(head, i, j, one);
    const product = one[0] / scale;
    const scaled = one[0];
    head.addBias?.(i, j, one);
    const bias = one[0] - scaled;
    const weight = new Float32Array(1);
    this.row(b, h, i, j, weight);
    return {
      q: Array.from(head.q.subarray(i * width, (i + 1) * width)),
      k: Array.from(head.k.subarray(j * width, (j + 1) * width)),
      v: this.v ? Array.from(this.v) : null,
      product, scale, bias, hasBias: Boolean(head.addBias),
      hidden: !isWeight(weight[0]), lse: head.lse[i], weight: isWeight(weight[0]) ? weight[0] : 0,
    };
  }
}

class StoredReader {
  /** @param {SourceSpec} spec @param {number[]} shape @param {Blobs} blobs */
  constructor(spec, shape, blobs) {
    if (!spec.codes || !spec.tops) throw new Error("stored weights without their numbers");
    this.codes = spec.codes;
    this.tops = spec.tops;
    this.steps = spec.steps ?? 65535;
    this.shape = shape;
    this.blobs = blobs;
    this.work = 1;
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} c0 @param {Float32Array} out */
  row(b, h, i, c0, out) {
    const [, heads, queries, keys] = this.shape;
    const row = (b * heads + h) * queries + i;
    const unit = this.blobs.floats(this.tops, row, 1)[0] / this.steps;
    const codes = this.blobs.integers(this.codes, row * keys + c0, out.length);
    for (let j = 0; j < out.length; j++) out[j] = codes[j] * unit;
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} j @returns {Steps} */
  cell(b, h, i, j) {
    return weightAlone(this, b, h, i, j);
  }
}

class MeanReader {
  /** @param {SourceSpec} spec @param {number[]} shape @param {Blobs} blobs */
  constructor(spec, shape, blobs) {
    this.count = spec.heads ?? 1;
    const inner = [shape[0], this.count, shape[2], shape[3]];
    this.inner = readerOf(/** @type {SourceSpec} */ (spec.of), inner, blobs);
    this.work = this.count * this.inner.work;
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} c0 @param {Float32Array} out */
  row(b, h, i, c0, out) {
    meanRow(this.inner, this.count, b, i, c0, out);
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} j @returns {Steps} */
  cell(b, h, i, j) {
    return weightAlone(this, b, h, i, j);
  }
}

/** Attention inside windows of a picture, in the coordinates of the picture. Pairs in different windows are hidden. */
class WindowsReader {
  /** @param {SourceSpec} spec @param {number[]} shape @param {Blobs} blobs */
  constructor(spec, shape, blobs) {
    const { image = [1, 1], side = 1, shift = 0 } = spec;
    this.inner = readerOf(/** @type {SourceSpec} */ (spec.of), spec.shape ?? shape, blobs);
    const down = Math.ceil(image[0] / side), across = Math.ceil(image[1] / side); // windows, the last ones padded
    this.windows = down * across;
    this.window = new Int32Array(shape[3]);
    this.place = new Int32Array(shape[3]);
    for (let n = 0; n < shape[3]; n++) {
      const y = (Math.floor(n / image[1]) - shift + down * side) % (down * side); // the row after the roll
      const x = ((n % image[1]) - shift + across * side) % (across * side);
      this.window[n] = Math.floor(y / side) * across + Math.floor(x / side);
      this.place[n] = (y % side) * side + (x % side);
    }
    this.part = new Float32Array(side * side);
    this.work = Math.max(1, (this.inner.work * side * side) / shape[3]);
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} c0 @param {Float32Array} out */
  row(b, h, i, c0, out) {
    this.inner.row(b * this.windows + this.window[i], h, this.place[i], 0, this.part);
    for (let j = 0; j < out.length; j++) {
      out[j] = this.window[c0 + j] === this.window[i] ? this.part[this.place[c0 + j]] : HIDDEN;
    }
  }

  /** @param {number} b @param {number} h @param {number} i @param {number} j @returns {Steps} */
  cell(b, h, i, j) {
    if (this.window[i] !== this.window[j]) return weightAlone(this, b, h, i, j);
    return this.inner.cell(b * this.windows + this.window[i], h, this.place[i], this.place[j]);
  }
}

/** A cell of which only the weight is known. @param {{row: Reader["row"]}} reader @param {number} b @param {number} h @param {number} i @param {number} j @returns {Steps} */
export function weightAlone(reader, b, h, i, j) {
  const one = new Float32Array(1);
  reader.row(b, h, i, j, one);
  return {
    q: null, k: null, v: null, product: NaN, scale: NaN, bias: 0, hasBias: false,
    hidden: !isWeight(one[0]), lse: NaN, weight: isWeight(one[0]) ? one[0] : 0,
  };
}

/**
 * The mean over heads. A pair is hidden if every head hides it.
 * @param {Reader} reader @param {number} heads @param {number} b @param {number} i @param {number} c0 @param {Float32Array} out
 */
export function meanRow(reader, heads, b, i, c0, out) {
  const part = new Float32Array(out.length);
  const seen = new Uint8Array(out.length);
  out.fill(0);
  for (let h = 0; h < heads; h++) {
    reader.row(b, h, i, c0, part);
    for (let j = 0; j < out.length; j++) {
      if (isWeight(part[j])) {
        out[j] += part[j] / heads;
        seen[j] = 1;
      }
    }
  }
  for (let j = 0; j < out.length; j++) if (!seen[j]) out[j] = HIDDEN;
}

/**
 * Compile a mask for one sequence and one head.
 * @param {MaskSpec} spec @param {number[]} shape @param {Blobs} blobs @param {number} b @param {number} h
 * @returns {Allow}
 */
export function compileMask(spec, shape, blobs, b, h) {
  const shift = shape[3] - shape[2]; // both sequences end together
  const inner = (/** @type {MaskSpec} */ part) => compileMask(part, shape, blobs, b, h);
  switch (spec.kind) {
    case "And": return combined(inner(spec.left), inner(spec.right), (x, y) => x & y);
    case "Or": return combined(inner(spec.left), inner(spec.right), (x, y) => x | y);
    case "Not": return combined(inner(spec.inner), (_i, _c, out) => out.fill(1), (x, y) => x ^ y);
    case "Causal": {
      const table = spec.offset?.array;
      const offset = table ? blobs.integers(table, table.shape[0] > 1 ? b : 0, 1)[0] : spec.offset ?? shift;
      return between(() => -Infinity, (i) => i + offset);
    }
    case "Window":
      return between(
        (i) => (spec.left === null ? -Infinity : i + shift - spec.left),
        (i) => (spec.right === null ? Infinity : i + shift + spec.right),
      );
    case "GlobalTokens": {
      const chosen = new Set(/** @type {number[]} */ (spec.positions));
      return (i, c0, out) => {
        const all = chosen.has(i + shift);
        for (let j = 0; j < out.length; j++) out[j] = all || chosen.has(c0 + j) ? 1 : 0;
      };
    }
    case "Blocks": return blockMask(spec, blobs, h);
    case "Padding": return paddingMask(spec.keep.array, blobs, b);
    case "Stored": return storedMask(spec.keep.array, blobs, b, h);
    default: throw new Error(`unknown mask ${spec.kind}`);
  }
}

/** @param {Allow} left @param {Allow} right @param {(x: number, y: number) => number} how @returns {Allow} */
function combined(left, right, how) {
  return (i, c0, out) => {
    const other = new Uint8Array(out.length);
    left(i, c0, out);
    right(i, c0, other);
    for (let j = 0; j < out.length; j++) out[j] = how(out[j], other[j]);
  };
}

/** @param {(i: number) => number} first @param {(i: number) => number} last @returns {Allow} */
function between(first, last) {
  return (i, c0, out) => {
    const low = first(i) - c0;
    const high = last(i) - c0;
    for (let j = 0; j < out.length; j++) out[j] = j >= low && j <= high ? 1 : 0;
  };
}

/** @param {Uint8Array} bytes @param {number} n */
function bit(bytes, n) {
  return (bytes[Math.floor(n / 8)] >> (n & 7)) & 1; // n may exceed 2^31, where >> would overflow
}

/** @param {MaskSpec} spec @param {Blobs} blobs @param {number} h @returns {Allow} */
function blockMask(spec, blobs, h) {
  const { shape, blob } = spec.layout.array;
  const [rows, cols] = spec.size;
  const bits = blobs.bytes(blob);
  const start = (shape[0] > 1 ? h : 0) * shape[1] * shape[2];
  return (i, c0, out) => {
    const line = start + Math.floor(i / rows) * shape[2];
    for (let j = 0; j < out.length; j++) out[j] = bit(bits, line + Math.floor((c0 + j) / cols));
  };
}

/** @param {import("./types.js").ArrayRef} keep @param {Blobs} blobs @param {number} b @returns {Allow} */
function paddingMask(keep, blobs, b) {
  const row = keep.shape[0] > 1 ? b : 0;
  if (keep.dtype !== "bits") {
    const length = blobs.integers(keep, row, 1)[0];
    return between(() => -Infinity, () => length - 1);
  }
  const bits = blobs.bytes(keep.blob);
  const start = row * keep.shape[1];
  return (_i, c0, out) => {
    for (let j = 0; j < out.length; j++) out[j] = bit(bits, start + c0 + j);
  };
}

/** @param {import("./types.js").ArrayRef} keep @param {Blobs} blobs @param {number} b @param {number} h @returns {Allow} */
function storedMask(keep, blobs, b, h) {
  const { length } = keep.shape; // (q,k) means (1,1,q,k), and (b,q,k) means (b,1,q,k)
  const shape = length === 4 ? keep.shape : length === 3 ? [keep.shape[0], 1, keep.shape[1], keep.shape[2]] : [1, 1, ...keep.shape];
  const bits = blobs.bytes(keep.blob);
  const start = headOffset(shape, b, h);
  const [, , rows, cols] = shape;
  return (i, c0, out) => {
    const line = start + (rows > 1 ? i : 0) * cols;
    for (let j = 0; j < out.length; j++) out[j] = bit(bits, line + (cols > 1 ? c0 + j : 0));
  };
}

/**
 * Compile a bias for one sequence and one head.
 * @param {BiasSpec} spec @param {number[]} shape @param {Blobs} blobs @param {number} b @param {number} h
 * @returns {AddBias}
 */
export function compileBias(spec, shape, blobs, b, h) {
  if (spec.kind === "sum") {
    const parts = (spec.parts ?? []).map((part) => compileBias(part, shape, blobs, b, h));
    return (i, c0, out) => parts.forEach((part) => part(i, c0, out));
  }
  if (!spec.array) throw new Error(`unknown bias ${spec.kind}`);
  const held = spec.array.shape;
  const start = headOffset(held, b, h);
  if (spec.kind === "distance") {
    const table = blobs.floats(spec.array, start, held[2]);
    return (i, c0, out) => {
      const at = c0 - i + shape[2] - 1;
      for (let j = 0; j < out.length; j++) out[j] += table[at + j];
    };
  }
  const [, , rows, cols] = held;
  const values = blobs.floats(spec.array, start, rows * cols);
  return (i, c0, out) => {
    const line = (rows > 1 ? i : 0) * cols;
    for (let j = 0; j < out.length; j++) out[j] += values[line + (cols > 1 ? c0 + j : 0)];
  };
}
