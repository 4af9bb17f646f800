// @ts-check
/** Weights asked of the server that sent the page, piece by piece. */
import { Recent } from "./work.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Overview} Overview */
/** @typedef {import("./types.js").Steps} Steps */
/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */

const AT_A_TIME = 4;
const ASK_AGAIN = 600; // milliseconds between looks at an overview that is not finished

export class RemoteSource {
  /** @param {DocumentInfo} doc */
  constructor(doc) {
    this.doc = doc;
    this.side = 512;
    this.maxPool = 4;
    this.near = false;
    this.problem = "";
    this.changed = () => {};
    /** @type {Recent<Block>} */
    this.tiles = new Recent(48);
    /** @type {Recent<Float32Array>} */
    this.rows = new Recent(64);
    /** @type {Recent<Steps>} */
    this.cells = new Recent(256);
    /** @type {Map<string, Overview>} */
    this.overviews = new Map();
    /** @type {Set<string>} */
    this.pending = new Set();
    /** @type {{key: string, go: () => Promise<void>}[]} */
    this.queue = [];
    this.active = 0;
  }

  /** @param {number} record @param {number} b @param {number} h @returns {Overview | null} */
  overview(record, b, h) {
    const key = `overview?record=${record}&b=${b}&h=${h}`;
    const found = this.overviews.get(key);
    if (!found || found.done < 1) this.ask(key, (reply) => this.keepOverview(key, reply));
    return found ?? null;
  }

  /** @param {string} key @param {Response} reply */
  async keepOverview(key, reply) {
    const rows = Number(reply.headers.get("X-Regard-Rows"));
    const done = Number(reply.headers.get("X-Regard-Done"));
    const values = new Float32Array(await reply.arrayBuffer());
    const max = values.reduce((x, y) => Math.max(x, y), 0);
    this.overviews.set(key, { rows, cols: values.length / rows, values, max, done });
    if (done < 1) {
      this.pending.add(key); // not again at once
      setTimeout(() => {
        this.pending.delete(key);
        this.changed();
      }, ASK_AGAIN);
    }
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} pool @param {number} tr @param {number} tc @returns {Block | null} */
  tile(record, b, h, pool, tr, tc) {
    const key = `tile?record=${record}&b=${b}&h=${h}&pool=${pool}&row=${tr}&col=${tc}`;
    const found = this.tiles.get(key);
    if (found) return found;
    this.ask(key, async (reply) => {
      const rows = Number(reply.headers.get("X-Regard-Rows"));
      const values = new Float32Array(await reply.arrayBuffer());
      this.tiles.set(key, { rows, cols: values.length / rows, values });
    });
    return null;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} i */
  row(record, b, h, i) {
    const key = `row?record=${record}&b=${b}&h=${h}&i=${i}`;
    const found = this.rows.get(key);
    if (found) return found;
    this.ask(key, async (reply) => this.rows.set(key, new Float32Array(await reply.arrayBuffer())));
    return null;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} i @param {number} j */
  cell(record, b, h, i, j) {
    const key = `cell?record=${record}&b=${b}&h=${h}&i=${i}&j=${j}`;
    const found = this.cells.get(key);
    if (found) return found;
    this.ask(key, async (reply) => this.cells.set(key, withNumbers(await reply.json())));
    return null;
  }

  /**
   * Ask once; the newest questions first, and only the newest few: what was panned past is not worth an answer.
   * @param {string} key
   * @param {(reply: Response) => Promise<void> | void} keep
   */
  ask(key, keep) {
    if (this.pending.has(key)) return;
    this.pending.add(key);
    this.queue.push({ key, go: () => this.fetch(key, keep) });
    if (this.queue.length > 32) {
      const dropped = this.queue.shift();
      if (dropped) this.pending.delete(dropped.key);
    }
    this.next();
  }

  next() {
    while (this.active < AT_A_TIME && this.queue.length) {
      const job = this.queue.pop();
      this.active += 1;
      job?.go().finally(() => {
        this.active -= 1;
        this.next();
        this.changed();
      });
    }
  }

  /** @param {string} key @param {(reply: Response) => Promise<void> | void} keep */
  async fetch(key, keep) {
    try {
      const reply = await fetch(key, { cache: "no-store", credentials: "omit", redirect: "error" });
      if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
      this.pending.delete(key);
      await keep(reply);
      this.problem = "";
    } catch (error) {
      this.problem = `No answer from the server (${error instanceof Error ? error.message : error}). Is it still running?`;
      setTimeout(() => {
        this.pending.delete(key); // asked for again with the next drawing
        this.changed();
      }, 5000);
    }
  }
}

/** JSON has no infinities: they come as null. @param {any} steps @returns {Steps} */
function withNumbers(steps) {
  const number = (/** @type {number | null} */ x) => (x === null ? -Infinity : x);
  return { ...steps, lse: number(steps.lse), product: number(steps.product), bias: number(steps.bias) };
}
