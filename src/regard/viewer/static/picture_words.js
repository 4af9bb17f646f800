// @ts-check
/** The queries as lines of words above a picture, of which one is chosen. Long texts show the lines around it. */
import { fittedText, textWidth } from "./paint.js";
import { pictureWords } from "./patches.js";
import { runningText, wordsOf } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */
/** @typedef {import("./paint.js").Painter} Painter */
/** A word with its line and its position in the line. @typedef {{n: number, text: string, line: number, x: number, w: number}} PlacedWord */

const WORDS_TOP = 6;
const WORDS_LINE = 28;
const WORDS_MARGIN = 12;
const WORDS_PAD = 4; // at both sides of a word
const WORDS_SPACE = 3; // between words, besides the padding
const WORDS_MOST = 4; // lines
const WORDS_LETTERS = { size: 15 };

export class PictureWords {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {{key: string, placed: PlacedWord[], lines: number}} */
    this.held = { key: "", placed: [], lines: 0 };
  }

  /** All words in lines of this width. There are none if the queries have no labels or are patches. @param {number} width */
  layout(width) {
    const { state } = this.scene;
    const key = [state.record, state.batch, width].join("/");
    if (key !== this.held.key) this.held = { key, ...this.makeLayout(width) };
    return this.held;
  }

  /** @param {number} width @returns {{placed: PlacedWord[], lines: number}} */
  makeLayout(width) {
    const { doc, state } = this.scene;
    const record = doc.records[state.record];
    const words = wordsOf(doc, record, "query", state.batch);
    // In a prompt with pictures, the words stand between tokens of the pictures.
    const among = pictureWords(doc, record, state.batch);
    if (!words || !(among || (record.keyGrid && !record.queryGrid))) return { placed: [], lines: 0 };
    const places = among ?? words.map((_, n) => n);
    const right = width - WORDS_MARGIN;
    let [line, x] = [0, WORDS_MARGIN];
    const placed = runningText(places.map((n) => words[n])).map(({ text, gap }, at) => {
      const shown = fittedText(text, right - WORDS_MARGIN - 2 * WORDS_PAD, WORDS_LETTERS);
      const w = textWidth(shown, WORDS_LETTERS) + 2 * WORDS_PAD;
      if (gap && x > WORDS_MARGIN) x += WORDS_SPACE;
      if (x + w > right && x > WORDS_MARGIN) [line, x] = [line + 1, WORDS_MARGIN];
      const word = { n: places[at], text: shown, line, x, w };
      x += w;
      return word;
    });
    return { placed, lines: line + 1 };
  }

  /** The height of the visible lines. @param {number} width */
  height(width) {
    const { lines } = this.layout(width);
    return lines ? WORDS_TOP + Math.min(lines, WORDS_MOST) * WORDS_LINE : 0;
  }

  /** The visible words with the positions of their boxes. @param {number} width */
  inSight(width) {
    const { placed, lines } = this.layout(width);
    const chosen = placed.find(({ n }) => n === this.scene.state.row)?.line ?? 0;
    const first = Math.max(0, Math.min(lines - WORDS_MOST, chosen - Math.floor(WORDS_MOST / 2)));
    const seen = placed.filter(({ line }) => line >= first && line < first + WORDS_MOST);
    return seen.map((word) => ({ ...word, y: WORDS_TOP + (word.line - first) * WORDS_LINE, h: WORDS_LINE - 4 }));
  }

  /** @param {Painter} p @param {number} width @param {number | null} under the word under the pointer */
  draw(p, width, under) {
    const { theme, state } = this.scene;
    for (const { n, text, x, y, w, h } of this.inSight(width)) {
      const chosen = n === state.row;
      if (chosen) p.rect(x, y, w, h, { fill: theme.accent, radius: 4 });
      else if (n === under) p.rect(x, y, w, h, { stroke: theme.accent, width: 1.5, radius: 4 });
      p.text(text, x + w / 2, y + h / 2, { ...WORDS_LETTERS, fill: chosen ? theme.surface : theme.ink, align: "center" });
    }
  }

  /** The word at a position, or null. @param {number} x @param {number} y @param {number} width @returns {number | null} */
  at(x, y, width) {
    const found = this.inSight(width).find((word) => x >= word.x && x < word.x + word.w && y >= word.y && y < word.y + word.h);
    return found ? found.n : null;
  }
}
