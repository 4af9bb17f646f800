// @ts-check
/** A scheduler that runs long jobs in short slices, and a cache of the most recently used values. */

const SLICE = 10; // milliseconds until the browser may draw

/** A scheduler that runs the newest urgent job first, and background jobs when there is none. */
export class Work {
  constructor() {
    /** @type {{job: Iterator<void>, dropped: () => void}[]} */
    this.wanted = [];
    /** @type {{job: Iterator<void>, dropped: () => void}[]} */
    this.background = [];
    this.running = false;
  }

  /**
   * @param {Iterator<void>} job
   * @param {boolean} urgent
   * @param {() => void} dropped called if the job is dropped in favour of newer ones
   */
  add(job, urgent, dropped) {
    (urgent ? this.wanted : this.background).push({ job, dropped });
    if (this.wanted.length > 48) this.wanted.shift()?.dropped();
    if (!this.running) {
      this.running = true;
      setTimeout(() => this.slice(), 0);
    }
  }

  slice() {
    const end = performance.now() + SLICE;
    while (performance.now() < end) {
      const list = this.wanted.length ? this.wanted : this.background;
      if (!list.length) break;
      const at = this.wanted.length ? list.length - 1 : 0;
      const current = list[at];
      if (current.job.next().done) list.splice(list.indexOf(current), 1);
    }
    this.running = this.wanted.length + this.background.length > 0;
    if (this.running) setTimeout(() => this.slice(), 0);
  }
}

/** A cache that keeps the most recently used values. @template T */
export class Recent {
  /** @param {number} limit */
  constructor(limit) {
    this.limit = limit;
    /** @type {Map<string, T>} */
    this.held = new Map();
  }

  /** @param {string} key @returns {T | undefined} */
  get(key) {
    const found = this.held.get(key);
    if (found !== undefined) {
      this.held.delete(key);
      this.held.set(key, found); // the newest is the last
    }
    return found;
  }

  /** @param {string} key @param {T} value */
  set(key, value) {
    this.held.delete(key);
    this.held.set(key, value);
    while (this.held.size > this.limit) this.held.delete(/** @type {string} */ (this.held.keys().next().value));
  }
}
