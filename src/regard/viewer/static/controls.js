// @ts-check
/** The controls above the drawing. */
import { headColor, headInk } from "./color.js";
import { phrase } from "./language.js";
import { patchesOf, pictureWords } from "./patches.js";
import { TOPS_KNOWN, topMode } from "./scales.js";
import { PAIRS, PALETTES, SCALES_KNOWN } from "./state.js";
import { element, headNumber, headText, recordText, visible } from "./text.js";
import { asideText, hasPair } from "./tokens.js";

/** @typedef {import("./types.js").Scene} Scene */

export class Controls {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    const { doc } = scene;
    this.record = this.select(phrase("layer"), doc.records.map((record, n) => [String(n), recordText(record, n), recordText(record, n, visible(record.name))]), (value) => scene.set({ record: Number(value) }));
    this.head = this.select(phrase("head"), [], (value) => scene.set({ head: Number(value) }));
    this.batch = this.select(phrase("sequence"), [], (value) => scene.set({ batch: Number(value) }));
    this.scale = this.select(phrase("scale"), SCALES_KNOWN.map((name) => [name, scaleName(name)]), (scale) => scene.set({ scale }));
    this.palette = this.select(phrase("colours"), PALETTES.map((name) => [name, name === "ink" ? phrase("coloursInk") : phrase("coloursBright")]), (palette) => scene.set({ palette }));
    this.top = this.select(phrase("scaleEnd"), [], (top) => scene.set({ top }));
    this.by = this.select(phrase("colouredBy"), [["query", phrase("byQuery")], ["all", phrase("byAll")]], (by) => scene.set({ by }));
    this.pair = this.select(phrase("sentences"), PAIRS.map((pair) => [pair, pair ? `${pair[0]} → ${pair[1]}` : phrase("all")]), (pair) => scene.set({ pair }));
    this.aside = this.checkbox((on) => scene.set({ aside: on ? 1 : 0 }));
    this.strongest = element("button", { type: "button", title: phrase("strongestOnly") }, phrase("strongest"));
    this.strongest.addEventListener("click", () => scene.set({ min: -1 }));
    this.min = this.slider(phrase("linesFrom"), (min) => scene.set({ min }));
    this.opacity = this.slider(phrase("overlay"), (opacity) => scene.set({ opacity }));
    this.picture = this.select(phrase("picture"), [], (value) => scene.set({ picture: Number(value) }));
    this.sinks = this.checkbox((on) => scene.set({ sinks: on ? 1 : 0 }));
    this.sinks.name.textContent = phrase("takeOutSinks");
    this.side = this.select(phrase("choose"), [["query", phrase("query")], ["key", phrase("key")]], (side) => scene.set({ side }));
    this.chips = element("div", { class: "chips", role: "group", "aria-label": phrase("headsInFlow") });
    this.zoom = this.zoomButtons();
    this.root = element(
      "div", { class: "controls" }, this.record.box, this.head.box, this.batch.box, this.by.box, this.scale.box, this.top.box,
      this.palette.box, this.zoom, this.min.box, this.strongest, this.picture.box, this.side.box, this.opacity.box, this.sinks.box, this.chips, this.pair.box,
      this.aside.box,
    );
    this.heads = "";
  }

  /** @param {string} name @param {string[][]} options @param {(value: string) => void} chosen */
  select(name, options, chosen) {
    const input = element("select");
    this.options(input, options);
    input.addEventListener("change", () => chosen(input.value));
    return { input, box: element("label", {}, element("span", {}, name), input) };
  }

  /** @param {HTMLSelectElement} input @param {string[][]} options the value of each, its text, and its whole text if that is longer */
  options(input, options) {
    input.replaceChildren(...options.map(([value, text, whole]) => element("option", { value, title: whole ?? text }, text)));
  }

  /** @param {string} name @param {(value: number) => void} moved */
  slider(name, moved) {
    const input = element("input", { type: "range", min: "0", max: "1", step: "0.01" });
    const shown = element("output");
    input.addEventListener("input", () => moved(Number(input.value)));
    return { input, shown, box: element("label", {}, element("span", {}, name), input, shown) };
  }

  /** @param {(on: boolean) => void} changed */
  checkbox(changed) {
    const input = element("input", { type: "checkbox" });
    const name = element("span");
    input.addEventListener("change", () => changed(input.checked));
    return { input, name, box: element("label", { class: "check" }, input, name) };
  }

  zoomButtons() {
    const button = (/** @type {string} */ key, /** @type {string} */ face, /** @type {string} */ name) => {
      const made = element("button", { type: "button", "aria-label": name, title: `${name} (${key})`, "data-key": key }, face);
      return made;
    };
    return element("div", { class: "buttons", role: "group", "aria-label": phrase("zoom") }, button("-", "−", phrase("zoomOut")), button("0", phrase("whole"), phrase("wholeMap")), button("+", "+", phrase("zoomIn")));
  }

  /** Update the controls to the state. */
  update() {
    const { doc, state } = this.scene;
    const record = doc.records[state.record];
    const [b, h] = record.shape;
    const shape = `${b}/${h}/${record.heads ?? ""}`;
    if (shape !== this.heads) {
      this.heads = shape;
      const heads = Array.from({ length: h }, (_, n) => [String(n), headText(record, n)]);
      this.options(this.head.input, h > 1 ? [...heads, ["-1", headText(record, -1)]] : heads);
      this.options(this.batch.input, Array.from({ length: b }, (_, n) => [String(n), String(n)]));
      this.makeChips(record);
    }
    this.record.input.value = String(state.record);
    this.record.input.title = this.record.input.selectedOptions[0]?.title ?? "";
    this.head.input.value = String(state.head);
    this.batch.input.value = String(state.batch);
    this.scale.input.value = state.scale;
    this.palette.input.value = state.palette;
    this.side.input.value = state.side;
    this.min.input.value = String(Math.max(0, state.min));
    this.min.shown.textContent = state.min < 0 ? "" : state.min.toFixed(2);
    this.strongest.setAttribute("aria-pressed", String(state.min < 0));
    this.by.input.value = state.by;
    this.pair.input.value = state.pair;
    this.updateWords(record);
    this.updatePictures(record);
    this.opacity.input.value = String(state.opacity);
    this.opacity.shown.textContent = state.opacity.toFixed(2);
    this.showOnlyUsed(b, h);
    this.paintChips();
  }

  /** Update texts that depend on the record. @param {import("./types.js").RecordInfo} record */
  updateWords(record) {
    const { doc, state } = this.scene;
    const tops = TOPS_KNOWN.map((top) => [top, top === "auto" ? phrase("endAutomatic", { end: endName(topMode(record, top)) }) : endName(top)]);
    const key = tops.join();
    if (this.top.input.dataset.key !== key) this.options(this.top.input, tops);
    this.top.input.dataset.key = key;
    this.top.input.value = state.top;
    const tokens = asideText(doc, record, Math.min(state.batch, record.shape[0] - 1));
    this.aside.name.textContent =
      state.view === "flow" ? phrase("hideTokens", { tokens }) : state.view === "text" ? phrase("leaveOutTokens", { tokens }) : phrase("scaleWithoutTokens", { tokens });
    this.aside.input.checked = state.aside === 1;
    this.aside.box.hidden = !tokens || state.view === "steps" || state.view === "image";
  }

  /** @param {import("./types.js").RecordInfo} record */
  updatePictures(record) {
    const { doc, state } = this.scene;
    const names = patchesOf(doc, record, state.batch).map((patches, n) => [String(n), patches.name]);
    const key = names.join("/");
    if (this.picture.input.dataset.key !== key) this.options(this.picture.input, names);
    this.picture.input.dataset.key = key;
    this.picture.input.value = String(state.picture);
    this.picture.box.hidden = state.view !== "image" || names.length < 2;
    this.sinks.input.checked = state.sinks === 1;
    this.sinks.box.hidden = state.view !== "image" || !names.length || !pictureWords(doc, record, state.batch);
  }

  /** @param {number} b @param {number} h */
  showOnlyUsed(b, h) {
    const { doc, state } = this.scene;
    const { view } = state;
    this.record.box.hidden = doc.records.length < 2 || view === "grid";
    const words = view === "flow" || view === "text";
    this.head.box.hidden = h < 2 || view === "grid" || view === "flow";
    this.top.box.hidden = view !== "heat" && view !== "grid";
    this.by.box.hidden = view !== "text";
    this.pair.box.hidden = !words || !hasPair(doc, doc.records[state.record], state.batch);
    this.strongest.hidden = view !== "flow";
    this.batch.box.hidden = b < 2;
    this.scale.box.hidden = view === "flow" || view === "steps";
    this.palette.box.hidden = (view !== "heat" && view !== "grid") || doc.records[state.record].signed;
    this.zoom.hidden = view !== "heat";
    this.min.box.hidden = view !== "flow";
    this.side.box.hidden = view !== "image" && view !== "text";
    this.chips.hidden = view !== "flow" || h < 2;
    this.opacity.box.hidden = view !== "image" || !doc.pictures.length;
  }

  /** @param {import("./types.js").RecordInfo} record */
  makeChips(record) {
    const h = record.shape[1];
    const all = element("button", { type: "button" }, phrase("all"));
    all.addEventListener("click", () => this.scene.set({ heads: "all", head: Math.max(0, this.scene.state.head) }));
    const chips = Array.from({ length: h }, (_, head) => {
      const chip = element("button", { type: "button", class: "chip", "aria-label": headText(record, head) }, String(headNumber(record, head)));
      chip.addEventListener("click", (event) => this.toggle(head, event.shiftKey));
      return chip;
    });
    const mean = element("button", { type: "button" }, phrase("mean"));
    mean.addEventListener("click", () => this.scene.set({ heads: null, head: -1 }));
    this.chips.replaceChildren(all, mean, ...chips);
  }

  /** Add or remove a head. If all heads are shown, or with Shift, show this head alone. @param {number} head @param {boolean} alone */
  toggle(head, alone) {
    const { state } = this.scene;
    if (alone || state.heads === "all" || state.head < 0) return this.scene.set({ heads: null, head });
    const now = state.heads ?? [state.head];
    const next = now.includes(head) ? now.filter((one) => one !== head) : [...now, head];
    if (next.length === 1) this.scene.set({ heads: null, head: next[0] });
    else if (next.length) this.scene.set({ heads: next, head: next.includes(state.head) ? state.head : next[0] });
  }

  paintChips() {
    const { state, theme, doc } = this.scene;
    const h = doc.records[state.record].shape[1];
    const [all, mean, ...chips] = /** @type {HTMLElement[]} */ ([...this.chips.children]);
    const isMean = state.heads === null && state.head < 0;
    all?.setAttribute("aria-pressed", String(state.heads === "all"));
    mean?.setAttribute("aria-pressed", String(isMean));
    chips.forEach((chip, head) => {
      const on = state.heads === null ? state.head === head : state.heads === "all" || state.heads.includes(head);
      chip.setAttribute("aria-pressed", String(on));
      chip.style.borderColor = headColor(head, h, theme.dark);
      chip.style.backgroundColor = on ? headColor(head, h, theme.dark) : "transparent";
      chip.style.color = on ? headInk(head, h, theme.dark) : "";
    });
  }
}

/** @param {string} scale */
function scaleName(scale) {
  return scale === "root" ? phrase("scaleRoot") : scale === "log" ? phrase("scaleLog") : phrase("scaleLinear");
}

/** The name of the weight at the end of the colour scale. @param {string} mode */
function endName(mode) {
  return mode === "row" ? phrase("endRow") : mode === "percentile" ? phrase("endPercentile") : phrase("endLargest");
}
