// @ts-check
/** The source that computes weights in the page. */
import { HIDDEN, PENDING, isWeight, magnitude, stronger } from "./arrays.js";
import { meanRow, readerOf, weightAlone } from "./weights.js";
import { Recent, Work } from "./work.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Overview} Overview */
/** @typedef {import("./types.js").Steps} Steps */
/** @typedef {import("./types.js").Received} Received */
/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */
/** @typedef {import("./weights.js").Reader} Reader */

const OVERVIEW_SIDE = 128;
const MOST_QUERIES = 1024; // of which a mean is taken; application.py has the same number
const AT_ONCE = 3e6; // products that are computed without a pause

/** @param {number} n @param {number} most */
export function overviewSide(n, most) {
  return Math.min(n, most);
}

/** @param {DocumentInfo} doc */
export function mostHeads(doc) {
  return Math.max(...doc.records.map((record) => record.shape[1]));
}

/** A source that computes weights from the data of the page. */
export class LocalSource {
  /** @param {DocumentInfo} doc @param {import("./arrays.js").Blobs} blobs */
  constructor(doc, blobs) {
    this.doc = doc;
    this.blobs = blobs;
    this.side = this.squareSide = 256;
    this.maxPool = 8;
    this.near = true;
    this.problem = "";
    this.changed = () => {};
    this.work = new Work();
    /** @type {Map<number, Reader>} */
    this.readers = new Map();
    /** @type {Recent<Block>} */
    this.tiles = new Recent(320); // more than a large screen shows
    /** @type {Recent<Float32Array>} */
    this.rows = new Recent(1024 + 64 * mostHeads(doc)); // more than the Flow view shows
    /** @type {Recent<Received>} */
    this.means = new Recent(64);
    /** @type {Map<string, Overview>} */
    this.overviews = new Map();
    /** @type {Set<string>} */
    this.pending = new Set();
  }

  /** The reader of a record, where head −1 is the mean of all heads. @param {number} record @param {number} h @returns {Reader} */
  reader(record, h) {
    let reader = this.readers.get(record);
    const { source, shape } = this.doc.records[record];
    if (!reader) {
      reader = readerOf(source, shape, this.blobs);
      this.readers.set(record, reader);
    }
    if (h >= 0) return reader;
    const whole = reader;
    /** @type {Reader} */
    const mean = {
      work: whole.work * shape[1],
      row: (b, _h, i, c0, out) => meanRow(whole, shape[1], b, i, c0, out),
      cell: (b, _h, i, j) => weightAlone(mean, b, -1, i, j),
    };
    return mean;
  }

  /** @param {number} record @param {number} b @param {number} h @returns {Overview | null} */
  overview(record, b, h) {
    const key = `${record}/${b}/${h}`;
    const found = this.overviews.get(key);
    if (found) return found;
    const { shape, overview } = this.doc.records[record];
    if (overview && h >= 0) return this.storedOverview(key, record, overview, b, h);
    const rows = overviewSide(shape[2], OVERVIEW_SIDE);
    const cols = overviewSide(shape[3], OVERVIEW_SIDE);
    const made = { rows, cols, values: new Float32Array(rows * cols).fill(PENDING), max: 0, done: 0 };
    this.overviews.set(key, made);
    const reader = this.reader(record, h);
    const job = overviewJob(reader, shape, b, h, made, this.changedSometimes());
    this.begin(job, shape[2] * shape[3] * reader.work, false, () => this.overviews.delete(key));
    return made;
  }

  /** @param {string} key @param {number} record @param {{codes: import("./types.js").ArrayRef, tops: import("./types.js").ArrayRef}} stored @param {number} b @param {number} h */
  storedOverview(key, record, stored, b, h) {
    const [, heads, rows, cols] = stored.codes.shape;
    const codes = this.blobs.integers(stored.codes, (b * heads + h) * rows * cols, rows * cols);
    const top = this.blobs.floats(stored.tops, b * heads + h, 1)[0];
    const decode = this.doc.records[record].signed ? signedOverviewWeight : overviewWeight;
    const values = Float32Array.from(codes, (code) => (code === 0 ? HIDDEN : top * decode(code)));
    const made = { rows, cols, values, max: top, done: 1 };
    this.overviews.set(key, made);
    return made;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} pool @param {number} tr @param {number} tc @returns {Block | null} */
  tile(record, b, h, pool, tr, tc) {
    const key = `${record}/${b}/${h}/${pool}/${tr}/${tc}`;
    const found = this.tiles.get(key);
    if (found) return found;
    if (this.pending.has(key)) return null;
    const [, , queries, keys] = this.doc.records[record].shape;
    const span = this.side * pool;
    const [r0, c0] = [tr * span, tc * span];
    const [r1, c1] = [Math.min(queries, r0 + span), Math.min(keys, c0 + span)];
    const reader = this.reader(record, h);
    this.pending.add(key);
    const finished = (/** @type {Block} */ block) => {
      this.pending.delete(key);
      this.tiles.set(key, block);
      this.changed();
    };
    const job = tileJob(reader, b, h, pool, r0, r1, c0, c1, finished);
    this.begin(job, (r1 - r0) * (c1 - c0) * reader.work, true, () => this.pending.delete(key));
    return this.tiles.get(key) ?? null;
  }

  /** A small tile. @param {number} record @param {number} b @param {number} h @param {number} tr @param {number} tc */
  square(record, b, h, tr, tc) {
    return this.tile(record, b, h, 1, tr, tc);
  }

  /** @param {number} record @param {number} b @param {number} h */
  thumbnail(record, b, h) {
    return this.overview(record, b, h);
  }

  /** Whether no computation for a drawing is pending. */
  idle() {
    return this.work.wanted.length === 0;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} i */
  row(record, b, h, i) {
    const key = `${record}/${b}/${h}/${i}`;
    let found = this.rows.get(key);
    if (!found) {
      found = new Float32Array(this.doc.records[record].shape[3]);
      this.reader(record, h).row(b, h, i, 0, found);
      this.rows.set(key, found);
    }
    return found;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} i @param {number} j */
  cell(record, b, h, i, j) {
    return this.reader(record, h).cell(b, h, i, j);
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} from @param {number} to @returns {Received | null} */
  received(record, b, h, from, to) {
    const key = `received/${record}/${b}/${h}/${from}/${to}`;
    const found = this.means.get(key);
    if (found || this.pending.has(key)) return found ?? null;
    const reader = this.reader(record, h);
    const queries = spreadQueries(from, to);
    const [, , , keys] = this.doc.records[record].shape;
    this.pending.add(key);
    const job = receivedJob(reader, b, h, queries, keys, (values) => {
      this.pending.delete(key);
      this.means.set(key, { values, queries: queries.length });
      this.changed();
    });
    this.begin(job, queries.length * keys * reader.work, true, () => this.pending.delete(key));
    return this.means.get(key) ?? null;
  }

  /** Run a small job at once, so that nothing flickers, and queue a large one. @param {Iterator<void>} job @param {number} cost @param {boolean} urgent @param {() => void} dropped */
  begin(job, cost, urgent, dropped) {
    if (cost > AT_ONCE) {
      this.work.add(job, urgent, dropped);
      return;
    }
    while (!job.next().done);
  }

  /** A function that reports progress to the views, at most every 120 milliseconds. */
  changedSometimes() {
    let last = 0;
    return (/** @type {boolean} */ final) => {
      const now = performance.now();
      if (final || now - last > 120) {
        last = now;
        this.changed();
      }
    };
  }
}

/**
 * @param {Reader} reader @param {number} b @param {number} h @param {number} pool
 * @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1 @param {(block: Block) => void} finished
 * @returns {Generator<void>}
 */
function* tileJob(reader, b, h, pool, r0, r1, c0, c1, finished) {
  const rows = Math.ceil((r1 - r0) / pool);
  const cols = Math.ceil((c1 - c0) / pool);
  const values = new Float32Array(rows * cols).fill(HIDDEN);
  const line = new Float32Array(c1 - c0);
  let cost = 0;
  for (let i = r0; i < r1; i++) {
    reader.row(b, h, i, c0, line);
    const at = Math.floor((i - r0) / pool) * cols;
    for (let j = 0; j < line.length; j++) {
      const cell = at + (pool === 1 ? j : Math.floor(j / pool));
      values[cell] = stronger(values[cell], line[j]);
    }
    cost += line.length * reader.work;
    if (cost > 1e6) {
      cost = 0;
      yield;
    }
  }
  finished({ rows, cols, values });
}

/** The share of the largest weight that a code of 1 to 255 stands for; payload.py writes the codes. @param {number} code */
function overviewWeight(code) {
  return ((code - 1) / 254) ** 2;
}

/** The same for maps with negative weights. @param {number} code */
function signedOverviewWeight(code) {
  return Math.sign(code - 128) * ((code - 128) / 127) ** 2;
}

/** At most so many queries, evenly spread. @param {number} from @param {number} to */
function spreadQueries(from, to) {
  const count = Math.min(to - from, MOST_QUERIES);
  return Array.from({ length: count }, (_, n) => from + Math.floor(((n + 0.5) * (to - from)) / count));
}

/**
 * @param {Reader} reader @param {number} b @param {number} h @param {number[]} queries @param {number} keys
 * @param {(values: Float32Array) => void} finished
 * @returns {Generator<void>}
 */
function* receivedJob(reader, b, h, queries, keys, finished) {
  const total = new Float32Array(keys);
  const line = new Float32Array(keys);
  let [counted, cost] = [0, 0];
  for (const i of queries) {
    reader.row(b, h, i, 0, line);
    if (line.some((w) => magnitude(w) > 0)) counted += 1; // a query that sees no key is no part of the mean
    for (let j = 0; j < keys; j++) if (isWeight(line[j])) total[j] += line[j];
    cost += keys * reader.work;
    if (cost > 1e6) {
      cost = 0;
      yield;
    }
  }
  finished(total.map((w) => w / Math.max(1, counted)));
}

/**
 * @param {Reader} reader @param {number[]} shape @param {number} b @param {number} h @param {Overview} made
 * @param {(final: boolean) => void} progress
 * @returns {Generator<void>}
 */
function* overviewJob(reader, shape, b, h, made, progress) {
  const [, , queries, keys] = shape;
  const line = new Float32Array(keys);
  let cost = 0;
  for (let i = 0; i < queries; i++) {
    reader.row(b, h, i, 0, line);
    const at = Math.floor((i * made.rows) / queries) * made.cols;
    for (let j = 0; j < keys; j++) {
      const cell = at + Math.floor((j * made.cols) / keys);
      made.values[cell] = stronger(made.values[cell], line[j]);
      if (magnitude(line[j]) > made.max) made.max = magnitude(line[j]);
    }
    made.done = (i + 1) / queries;
    cost += keys * reader.work;
    if (cost > 1e6) {
      cost = 0;
      progress(false);
      yield;
    }
  }
  progress(true);
}
