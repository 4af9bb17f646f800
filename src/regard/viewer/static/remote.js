// @ts-check
/** A source that requests weights from the server. */
import { magnitude } from "./arrays.js";
import { phrase } from "./language.js";
import { mostHeads } from "./sources.js";
import { Recent } from "./work.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Overview} Overview */
/** @typedef {import("./types.js").Steps} Steps */
/** @typedef {import("./types.js").DocumentInfo} DocumentInfo */

const AT_A_TIME = 4;
const MOST_WAITING = 256; // requests; older ones are dropped, since the view has moved on
const OVERVIEW_CELLS = 1024; // a side
const THUMBNAIL_CELLS = 64;
const ASK_AGAIN = 600; // milliseconds between requests of an unfinished overview

export class RemoteSource {
  /** @param {DocumentInfo} doc */
  constructor(doc) {
    this.doc = doc;
    this.side = 512;
    this.squareSide = 64;
    this.maxPool = 4;
    this.near = false;
    this.problem = "";
    this.changed = () => {};
    // Each cache holds more than one drawing needs. Otherwise a drawing would request dropped entries forever.
    const heads = mostHeads(doc);
    /** @type {Recent<Block>} */
    this.tiles = new Recent(96);
    /** @type {Recent<Block>} */
    this.squares = new Recent(64 + 9 * heads);
    /** @type {Recent<Float32Array>} */
    this.rows = new Recent(64 + 2 * heads);
    /** @type {Recent<Steps>} */
    this.cells = new Recent(256);
    /** @type {Recent<import("./types.js").Received>} */
    this.means = new Recent(64);
    /** @type {Recent<Overview>} */
    this.overviews = new Recent(24);
    /** @type {Recent<Overview>} */
    this.thumbnails = new Recent(64 + doc.records.length * heads);
    /** @type {Set<string>} */
    this.pending = new Set();
    /** @type {{key: string, go: () => Promise<void>}[]} */
    this.queue = [];
    this.active = 0;
  }

  /** @param {number} record @param {number} b @param {number} h @returns {Overview | null} */
  overview(record, b, h) {
    return this.fromAfar(this.overviews, record, b, h, OVERVIEW_CELLS);
  }

  /** @param {number} record @param {number} b @param {number} h @returns {Overview | null} */
  thumbnail(record, b, h) {
    return this.fromAfar(this.thumbnails, record, b, h, THUMBNAIL_CELLS);
  }

  /** @param {Recent<Overview>} held @param {number} record @param {number} b @param {number} h @param {number} side */
  fromAfar(held, record, b, h, side) {
    const key = `overview?record=${record}&b=${b}&h=${h}&side=${side}`;
    const found = held.get(key);
    if (!found || found.done < 1) this.ask(key, (reply) => this.keepOverview(held, key, reply));
    return found ?? null;
  }

  /** Store an overview, and return whether to request it again later. @param {Recent<Overview>} held @param {string} key @param {Response} reply */
  async keepOverview(held, key, reply) {
    const done = Number(reply.headers.get("X-Regard-Done"));
    const block = await blockOf(reply);
    const max = block.values.reduce((x, y) => Math.max(x, magnitude(y)), 0);
    held.set(key, { ...block, max, done });
    if (done < 1) {
      setTimeout(() => {
        this.pending.delete(key);
        this.changed();
      }, ASK_AGAIN);
    }
    return done < 1;
  }

  /** @param {number} record @param {number} b @param {number} h @param {number} pool @param {number} tr @param {number} tc @returns {Block | null} */
  tile(record, b, h, pool, tr, tc) {
    const key = `tile?record=${record}&b=${b}&h=${h}&pool=${pool}&row=${tr}&col=${tc}`;
    const found = this.tiles.get(key);
    if (found) return found;
    this.ask(key, async (reply) => this.tiles.set(key, await blockOf(reply)));
    return null;
  }

  /** A small tile. @param {number} record @param {number} b @param {number} h @param {number} tr @param {number} tc @returns {Block | null} */
  square(record, b, h, tr, tc) {
    const key = `square?record=${record}&b=${b}&h=${h}&row=${tr}&col=${tc}`;
    const found = this.squares.get(key);
    if (found) return found;
    this.ask(key, async (reply) => this.squares.set(key, await blockOf(reply)));
    return null;
  }

  /** Whether no request is pending. */
  idle() {
    return this.active === 0 && this.queue.length === 0;
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

  /** @param {number} record @param {number} b @param {number} h @param {number} from @param {number} to @returns {import("./types.js").Received | null} */
  received(record, b, h, from, to) {
    const key = `received?record=${record}&b=${b}&h=${h}&from=${from}&to=${to}`;
    const found = this.means.get(key);
    if (found) return found;
    this.ask(key, async (reply) => {
      const queries = Number(reply.headers.get("X-Regard-Queries"));
      this.means.set(key, { values: new Float32Array(await reply.arrayBuffer()), queries });
    });
    return null;
  }

  /**
   * Queue a request once. The newest requests are sent first, and the oldest are dropped.
   * @param {string} key
   * @param {(reply: Response) => Promise<boolean | void>} keep
   */
  ask(key, keep) {
    if (this.pending.has(key)) return;
    this.pending.add(key);
    this.queue.push({ key, go: () => this.fetch(key, keep) });
    if (this.queue.length > MOST_WAITING) {
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

  /** @param {string} key @param {(reply: Response) => Promise<boolean | void>} keep */
  async fetch(key, keep) {
    try {
      const reply = await fetch(key, { cache: "no-store", credentials: "omit", redirect: "error" });
      if (!reply.ok) return this.failed(key, phrase("serverAnswered", { status: reply.status, text: await reply.text() }));
      const later = await keep(reply);
      if (!later) this.pending.delete(key); // after the reply is stored, or a drawing in between would request it again
      this.problem = "";
    } catch (error) {
      this.failed(key, phrase("serverSilent", { problem: error instanceof Error ? error.message : String(error) }));
    }
  }

  /** @param {string} key @param {string} problem */
  failed(key, problem) {
    this.problem = problem;
    setTimeout(() => {
      this.pending.delete(key); // the next drawing requests it again
      this.changed();
    }, 5000);
  }
}

/** @param {Response} reply @returns {Promise<Block>} */
async function blockOf(reply) {
  const rows = Number(reply.headers.get("X-Regard-Rows"));
  const values = new Float32Array(await reply.arrayBuffer());
  return { rows, cols: values.length / rows, values };
}

/** Replace null by minus infinity, which JSON does not have. @param {any} steps @returns {Steps} */
function withNumbers(steps) {
  const number = (/** @type {number | null} */ x) => (x === null ? -Infinity : x);
  return { ...steps, lse: number(steps.lse), product: number(steps.product), bias: number(steps.bias) };
}
