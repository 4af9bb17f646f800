// @ts-check
/** The panel beside the drawing, with the chosen query and key and the largest weights of the query. */
import { magnitude } from "./arrays.js";
import { rankOf, strongest } from "./cells.js";
import { phrase } from "./language.js";
import { element, headText, labelOf, percent, weightText, wholeLabel } from "./text.js";

/** @typedef {import("./types.js").Scene} Scene */

const SHOWN = 10;

export class Panel {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    this.query = numberInput(phrase("queryInput"));
    this.key = numberInput(phrase("keyInput"));
    this.queryWord = element("span", { class: "word" });
    this.keyWord = element("span", { class: "word" });
    this.weight = element("output", { class: "weight" });
    this.rank = element("p", { class: "soft" });
    this.shows = element("p", { class: "shows" });
    this.find = this.search();
    this.body = element("tbody");
    this.caption = element("caption");
    this.root = element(
      "aside", { class: "panel", "aria-label": phrase("chosenCell") },
      this.shows, this.find.box,
      element("div", { class: "pair" },
        element("label", {}, `${phrase("queryField")} `, this.query), this.queryWord,
        element("label", {}, `${phrase("keyField")} `, this.key), this.keyWord),
      this.weight, this.rank,
      element("table", {}, this.caption, headings(), this.body),
    );
    this.query.addEventListener("change", () => scene.set({ row: Number(this.query.value) || 0 }));
    this.key.addEventListener("change", () => scene.set({ col: Number(this.key.value) || 0 }));
    this.shown = "";
  }

  /** Update the panel to the state. @param {string} shows a sentence of the view about what it shows */
  update(shows) {
    if (this.shows.textContent !== shows) this.shows.textContent = shows;
    this.shows.hidden = !shows;
    this.updateFind();
    const { doc, state, source } = this.scene;
    const record = doc.records[state.record];
    const [, , q, k] = record.shape;
    const row = source.row(state.record, state.batch, state.head, state.row);
    const key = [state.record, state.batch, state.head, state.row, state.col, row !== null].join("/");
    if (key === this.shown) return;
    this.shown = key;
    this.query.max = String(q - 1);
    this.key.max = String(k - 1);
    this.query.value = String(state.row);
    this.key.value = String(state.col);
    for (const [node, side, n] of /** @type {[HTMLElement, "query" | "key", number][]} */ ([[this.queryWord, "query", state.row], [this.keyWord, "key", state.col]])) {
      node.textContent = labelOf(doc, record, side, state.batch, n);
      node.title = wholeLabel(doc, record, side, state.batch, n);
    }
    this.weight.textContent = row ? weightText(row[state.col]) : "…";
    this.rank.textContent = row ? rankText(record, row, state.row, state.col) : "";
    this.fill(row);
  }

  /** The search field, in which Enter goes to the next match. */
  search() {
    const { scene } = this;
    const input = element("input", { type: "search", placeholder: phrase("findHint"), "aria-label": phrase("findToken") });
    const shown = element("output");
    input.addEventListener("input", () => scene.set({ find: input.value }));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") scene.findNext(event.shiftKey ? -1 : 1);
    });
    return { input, shown, box: element("label", { class: "find" }, element("span", {}, phrase("find")), input, shown) };
  }

  updateFind() {
    const { state } = this.scene;
    if (this.find.input.value !== state.find) this.find.input.value = state.find;
    const found = state.find.trim() ? this.scene.tokensFound().length : -1;
    this.find.shown.textContent = found < 0 ? "" : found === 1 ? phrase("oneToken") : phrase("tokenCount", { n: found });
  }

  /** @param {Float32Array | null} row */
  fill(row) {
    const { doc, state } = this.scene;
    const record = doc.records[state.record];
    this.caption.textContent = phrase("largestWeights", { head: headText(record, state.head) });
    const best = row ? strongest(record, row, state.row, SHOWN) : [];
    const top = best.length ? magnitude(best[0].weight) : 1;
    this.body.replaceChildren(...best.map(({ key, weight }) => {
      const word = labelOf(doc, record, "key", state.batch, key);
      const bar = element("span", { class: "bar" });
      bar.style.width = `${(100 * magnitude(weight)) / (top || 1)}%`;
      bar.classList.toggle("negative", weight < 0);
      const pick = element("button", { type: "button", "aria-label": phrase("keyWeight", { n: key, word, weight: weightText(weight) }), title: wholeLabel(doc, record, "key", state.batch, key) }, word);
      pick.addEventListener("click", () => this.scene.set({ col: key }));
      const line = element("tr", {},
        element("td", { class: "number" }, String(key)), element("th", { scope: "row" }, pick),
        element("td", { class: "track" }, bar), element("td", { class: "number" }, weightText(weight)));
      if (key === state.col) line.setAttribute("aria-current", "true");
      return line;
    }));
  }

  /** One sentence about the chosen cell, for screen readers. */
  sentence() {
    const { doc, state, source } = this.scene;
    const record = doc.records[state.record];
    const row = source.row(state.record, state.batch, state.head, state.row);
    const query = labelOf(doc, record, "query", state.batch, state.row);
    const key = labelOf(doc, record, "key", state.batch, state.col);
    const weight = row ? phrase("weightAndRank", { weight: weightText(row[state.col]), rank: rankText(record, row, state.row, state.col) }) : phrase("waiting");
    return phrase("cellSentence", { row: state.row, query, col: state.col, key, weight });
  }
}

/** A weight beside the other weights of its row. @param {import("./types.js").RecordInfo} record @param {Float32Array} row @param {number} query @param {number} col */
function rankText(record, row, query, col) {
  const found = rankOf(record, row, query, col);
  if (!found) return phrase("maskHides");
  const { rank, n } = found;
  if (record.signed) return row[col] < 0 ? phrase("negativeRank", { rank, n }) : phrase("rankBySize", { rank, n });
  return phrase("shareAndRank", { share: percent(row[col]), rank, n });
}

/** The headings of the table, for screen readers only. */
function headings() {
  const names = [phrase("columnNumber"), phrase("columnKey"), phrase("columnShare"), phrase("columnWeight")].map((name) => element("th", { scope: "col" }, element("span", { class: "unseen" }, name)));
  return element("thead", {}, element("tr", {}, ...names));
}

/** @param {string} label */
function numberInput(label) {
  return element("input", { type: "number", min: "0", step: "1", "aria-label": label, inputmode: "numeric" });
}
