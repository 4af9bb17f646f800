// @ts-check
/** The application, which owns the views, the controls and the state that they share. */
import { Controls } from "./controls.js";
import { makeActions, makeHelp, makeTabs } from "./toolbar.js";
import { FlowView } from "./flow.js";
import { GridView } from "./grid.js";
import { HeatView } from "./heat.js";
import { ImageView } from "./image.js";
import { languageCode, phrase } from "./language.js";
import { CanvasPainter } from "./paint.js";
import { Panel } from "./panel.js";
import { patchesOf } from "./patches.js";
import { Pointers } from "./pointers.js";
import { asPng, asSvg, download, fileName } from "./save.js";
import { fitted, formatState, initialState, parseState, viewsOf } from "./state.js";
import { TextView } from "./text_view.js";
import { StepsView } from "./steps.js";
import { element, headText, labelOf, shortened, visible, weightText, wholeLabel } from "./text.js";
import { tokensWith } from "./tokens.js";
import { darkAround, putTheme, watchTheme } from "./themes.js";

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").View} View */

const NARROW = 720; // pixels; up to this width there is one column, with the class narrow in viewer.css
const LONGEST_READ = 40; // characters of a token in the line above the drawing
let apps = 0; // viewers in this page so far, for unique element ids

export class App {
  /**
   * @param {HTMLElement} host
   * @param {import("./types.js").DocumentInfo} doc
   * @param {import("./types.js").Source} source
   * @param {import("./pictures.js").Pictures} pictures
   * @param {{address: boolean}} options whether the state is stored in the URL
   */
  constructor(host, doc, source, pictures, options) {
    this.host = host;
    this.options = options;
    this.doc = doc;
    this.source = source;
    this.pictures = pictures;
    /** @type {State} */
    this.state = options.address ? parseState(doc, location.hash) : initialState(doc);
    this.theme = putTheme(host, false);
    this.id = `regard-${(apps += 1)}`;
    this.shown = viewsOf(doc);
    this.queued = false;
    this.written = "";
    this.begun = false;
    /** @type {boolean | null} whether to announce the view or only the cell once its numbers arrive; null for neither */
    this.unheard = null;
    this.ends = new AbortController();
    this.set = this.set.bind(this);
    this.redraw = this.redraw.bind(this);
    /** @type {Record<string, View>} */
    this.views = { grid: new GridView(this), heat: new HeatView(this), flow: new FlowView(this), text: new TextView(this), steps: new StepsView(this), image: new ImageView(this) };
    this.build();
    this.listen();
    source.changed = pictures.changed = () => this.redraw();
    this.retheme();
    this.update();
  }

  get view() {
    return this.views[this.state.view];
  }

  build() {
    this.canvas = element("canvas", { tabindex: "0", role: "application", "aria-roledescription": phrase("drawing") });
    this.stage = element("div", { class: "stage" }, this.canvas);
    this.drawing = element("div", { class: "drawing", role: "tabpanel", id: `${this.id}-drawing` });
    this.readout = element("p", { class: "readout", "aria-hidden": "true" });
    this.hint = element("p", { class: "hint" });
    this.note = element("footer");
    this.live = element("div", { class: "unseen", "aria-live": "polite", role: "status" });
    this.controls = new Controls(this);
    this.panel = new Panel(this);
    this.tabs = makeTabs(this);
    this.help = makeHelp(this.shown);
    const title = visible(this.doc.title);
    this.host.replaceChildren(
      element("header", {}, element("span", { class: "brand" }, "Regard"), element("h1", { title }, title), makeActions(this)),
      this.tabs, this.controls.root,
      element("main", {}, this.drawing, this.panel.root),
      this.note, this.live, this.help,
    );
    this.drawing.append(element("div", { class: "words" }, this.readout, this.hint), this.stage);
    this.host.classList.add("regard");
    this.host.lang = languageCode();
    this.host.setAttribute("data-lm-suppress-shortcuts", "true"); // else a notebook would handle our keys
  }

  listen() {
    new Pointers(/** @type {HTMLCanvasElement} */ (this.canvas), () => this.view, this.redraw);
    const { signal } = this.ends;
    const heard = this.options.address ? document : this.host; // in a page of its own, the focus does not matter
    heard.addEventListener("keydown", (event) => this.pressed(/** @type {KeyboardEvent} */ (event)), { signal });
    this.controls?.zoom.addEventListener("click", (event) => {
      const key = /** @type {HTMLElement} */ (event.target).dataset.key;
      if (key) this.view.key(key, false);
    });
    this.stage?.addEventListener("scroll", this.redraw);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.host);
    this.sizes.observe(/** @type {Element} */ (this.stage));
    this.resized();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.checkTheme(), { signal });
    if (!this.options.address) watchTheme(() => this.checkTheme(), signal);
    if (this.options.address) addEventListener("hashchange", () => this.followAddress(), { signal });
  }

  followAddress() {
    if (location.hash === this.written) return;
    this.state = parseState(this.doc, location.hash);
    this.retheme();
    this.update();
  }

  /** Adapt to the width of the viewer, which in a notebook is not that of the window. */
  resized() {
    this.checkTheme(); // a first size means that the viewer was attached to the page
    this.host.classList.toggle("narrow", this.host.clientWidth <= NARROW);
    this.redraw();
  }

  /** Remove the viewer and its listeners. A notebook does this whenever it renders a cell again. */
  destroy() {
    this.ends.abort();
    this.sizes?.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.telling);
    this.source.changed = this.pictures.changed = () => {};
    this.host.remove();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const at = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName) || this.help?.open) return;
    const onButton = at.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ");
    if (onButton || !(this.pressedAnywhere(event.key) || this.view.key(event.key, event.shiftKey))) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Handle a key with the same meaning in every view. @param {string} key */
  pressedAnywhere(key) {
    const { state } = this;
    const [, h] = this.doc.records[state.record].shape;
    const view = this.shown[Number(key) - 1];
    if (view) this.set({ view });
    else if (key === "[" || key === "]") this.set({ record: state.record + (key === "]" ? 1 : -1) });
    else if (key === "," || key === ".") this.set({ head: Math.min(h - 1, Math.max(0, state.head + (key === "." ? 1 : -1))) });
    else if (key === "m" && h > 1) this.set({ head: -1 });
    else if (key === "f") this.panel?.find.input.focus();
    else if (key === "s") this.set({ side: state.side === "key" ? "query" : "key" });
    else if (key === "t") this.switchTheme();
    else if (key === "?") this.help?.showModal();
    else return false;
    return true;
  }

  // ---- the state

  /** @param {Partial<State>} changes @returns {boolean} whether anything changed */
  set(changes) {
    const before = { ...this.state };
    Object.assign(this.state, changes);
    fitted(this.doc, this.state);
    if (this.state.record !== before.record) Object.assign(this.state, { zoom: 0, x: 0, y: 0 });
    const moved = this.state.row !== before.row || this.state.record !== before.record || this.state.view !== before.view;
    if (moved && changes.scroll === undefined && !this.queryInSight()) this.state.scroll = -1;
    const changed = (/** @type {string} */ name) => String(this.state[/** @type {keyof State} */ (name)]) !== String(before[/** @type {keyof State} */ (name)]);
    this.update();
    const whole = changed("view") || changed("side") || Boolean(before.pin) !== Boolean(this.state.pin);
    if (whole || ["record", "head", "batch", "row", "col"].some(changed)) this.tell(whole);
    return Object.keys(before).some(changed);
  }

  /** Whether the chosen query is visible in a view that scrolls. */
  queryInSight() {
    const { row, view } = this.state;
    if (view === "text") return /** @type {TextView} */ (this.views.text).hasInSight(row);
    return view !== "flow" || /** @type {FlowView} */ (this.views.flow).hasInSight(row);
  }

  tokensFound() {
    const { doc, state } = this;
    const record = doc.records[state.record];
    const n = record.shape[state.side === "key" ? 3 : 2];
    const side = state.side === "key" ? "key" : "query";
    const labels = Array.from({ length: n }, (_, at) => wholeLabel(doc, record, side, state.batch, at));
    return tokensWith(labels, state.find);
  }

  /** @param {number} step 1 for the next, −1 for the one before */
  findNext(step) {
    const found = this.tokensFound();
    if (!found.length) return;
    const { side, row, col, view } = this.state;
    const at = side === "key" ? col : row;
    const next = step > 0 ? found.find((n) => n > at) ?? found[0] : found.findLast((n) => n < at) ?? found[found.length - 1];
    if (view === "heat") /** @type {HeatView} */ (this.view).go(side === "key" ? row : next, side === "key" ? next : col);
    else this.set(side === "key" ? { col: next } : { row: next });
  }

  update() {
    this.controls?.update();
    this.tabs?.querySelectorAll("button").forEach((tab) => {
      const on = tab.dataset.view === this.state.view;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    });
    this.host.dataset.view = this.state.view;
    this.drawing?.setAttribute("aria-labelledby", `${this.id}-${this.state.view}`);
    if (this.canvas) this.canvas.style.touchAction = this.view.touch?.() ?? "auto";
    this.remember();
    this.redraw();
  }

  /** Write the state to the URL, shortly after the last change. */
  remember() {
    if (!this.options.address) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.written = formatState(this.doc, this.state);
      try {
        history.replaceState(null, "", this.written);
      } catch {
        this.written = ""; // a page in a sandboxed frame cannot change its URL
      }
    }, 150);
  }

  /** Announce the choice to screen readers, shortly after the last change. @param {boolean} whole whether to describe the whole view */
  tell(whole) {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      const text = whole || this.state.view === "grid" ? this.view.label() : this.panel?.sentence() ?? "";
      const asking = text.includes(phrase("waiting"));
      if (!asking || this.unheard === null) this.say(text); // announced once while the answer is awaited
      this.unheard = asking ? whole : null;
    }, 120);
  }

  /** @param {string} text */
  say(text) {
    if (this.live) this.live.textContent = text;
  }

  // ---- drawing

  redraw() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  size() {
    const stage = /** @type {HTMLElement} */ (this.stage);
    const narrow = this.host.classList.contains("narrow");
    const height = narrow ? Math.min(620, 0.72 * innerHeight) : stage.clientHeight;
    return this.view.size(Math.max(240, stage.clientWidth), Math.max(240, height));
  }

  paint() {
    const { canvas, theme } = this;
    if (!canvas || !this.host.isConnected) return;
    const { width, height } = this.size();
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 16000 / Math.max(width, height));
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(w / width, 0, 0, h / height, 0, 0);
    context.fillStyle = theme.surface;
    context.fillRect(0, 0, width, height);
    this.view.draw(new CanvasPainter(context, true), width, height);
    canvas.setAttribute("aria-label", `${this.view.label()} ${this.view.numbers?.() ?? ""}`.trim());
    this.panel?.update(this.view.shows?.() ?? "");
    if (this.hint && this.hint.textContent !== this.view.hint()) this.hint.textContent = this.view.hint();
    this.showReadout();
    this.showNote();
    if (this.unheard !== null) this.tell(this.unheard); // the awaited numbers may have arrived
    if (!this.begun && this.state.view === "grid") /** @type {GridView} */ (this.view).revealChosen();
    this.begun = true;
  }

  /** The visible part of the drawing. */
  band() {
    const stage = /** @type {HTMLElement} */ (this.stage);
    return { top: stage.scrollTop, bottom: stage.scrollTop + stage.clientHeight, left: stage.scrollLeft };
  }

  /** Scroll a part of the drawing into view. @param {{x: number, y: number, w: number, h: number}} box */
  reveal(box) {
    const stage = /** @type {HTMLElement} */ (this.stage);
    stage.scrollTop = Math.min(box.y, Math.max(stage.scrollTop, box.y + box.h - stage.clientHeight));
    stage.scrollLeft = Math.min(box.x, Math.max(stage.scrollLeft, box.x + box.w - stage.clientWidth));
  }

  /** Show the weight under the pointer, or the chosen one, in one line. */
  showReadout() {
    if (!this.readout) return;
    const { state, doc } = this;
    const under = /** @type {any} */ (this.view).under;
    if (state.view === "grid") {
      const { record, head } = under ?? state;
      this.readout.textContent = this.readout.title = `${visible(doc.records[record].name)} · ${headText(doc.records[record], head)}`;
      return;
    }
    const reading = state.view === "heat" ? this.readCell(under ?? state) : this.shownReading();
    if (!reading) return void (this.readout.textContent = this.readout.title = "");
    const { query, key, weight } = reading; // isolated, since a right-to-left word would reverse the arrow
    this.readout.replaceChildren(element("bdi", {}, shortened(query, LONGEST_READ)), " → ", element("bdi", {}, shortened(key, LONGEST_READ)), `   ${weight}`);
    this.readout.title = `${query} → ${key}   ${weight}`;
  }

  shownReading() {
    if (this.state.view === "image" && !patchesOf(this.doc, this.doc.records[this.state.record], this.state.batch).length) return null;
    return this.view.reading?.() ?? null;
  }

  /** @param {{row: number, col: number}} cell */
  readCell({ row, col }) {
    const { state, doc } = this;
    const record = doc.records[state.record];
    const found = this.source.row(state.record, state.batch, state.head, row);
    const [query, key] = [labelOf(doc, record, "query", state.batch, row), labelOf(doc, record, "key", state.batch, col)];
    return { query, key, weight: found ? weightText(found[col]) : "…" };
  }

  showNote() {
    const record = this.doc.records[this.state.record];
    const text = [this.source.problem, record.dropped ? phrase("leftOut", { what: visible(record.dropped) }) : "", record.note ? phrase("note", { what: visible(record.note) }) : "", precision(record)];
    const note = text.filter(Boolean).join(" ");
    if (this.note && this.note.textContent !== note) this.note.textContent = note;
    this.note?.classList.toggle("problem", Boolean(this.source.problem));
  }

  // ---- looks

  switchTheme() {
    this.state.theme = this.theme.dark ? "light" : "dark";
    this.retheme();
    this.update();
  }

  retheme() {
    this.theme = putTheme(this.host, this.state.theme === "auto" ? this.prefersDark() : this.state.theme === "dark");
    this.controls?.update();
    this.redraw();
  }

  /** Whether the notebook around the viewer, or else the system, is dark. */
  prefersDark() {
    const around = this.options.address || !this.host.isConnected ? null : darkAround(this.host);
    return around ?? matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** Apply the theme again, after it may have changed or the viewer was attached. */
  checkTheme() {
    if (this.state.theme === "auto" && this.host.isConnected && this.prefersDark() !== this.theme.dark) this.retheme();
  }

  /** @param {"png" | "svg"} kind */
  async save(kind) {
    const under = /** @type {any} */ (this.view).under;
    this.view.leave(); // the element under the pointer is not highlighted in the file
    try {
      const draw = async () => (kind === "png" ? asPng(this, this.view, this.size()) : asSvg(this, this.view, this.size()));
      let blob = await draw();
      for (let n = 0; n < 100 && !this.source.idle(); n++) {
        await new Promise((done) => setTimeout(done, 100)); // wait for tiles that the screen did not need
        blob = await draw();
      }
      download(blob, fileName(this, kind));
      this.say(phrase("saved", { kind: kind.toUpperCase() }));
    } catch (error) {
      this.say(phrase("notSaved", { problem: error instanceof Error ? error.message : String(error) }));
    }
    if (under) this.redraw();
  }
}

/** A sentence about the precision of the weights of a record. @param {import("./types.js").RecordInfo} record */
export function precision(record) {
  const { source, error, measuredRows } = record;
  if (source.type === "remote") return phrase("fullPrecision");
  const apart = error === 0 ? phrase("noError") : error.toExponential(1).replace("-", "−");
  let inner = source;
  while ((inner.type === "mean" || inner.type === "windows") && inner.of) inner = inner.of;
  if (inner.type === "weights") return phrase("storedPrecision", { steps: inner.steps ?? 0, error: apart });
  return phrase("halfPrecision", { error: apart, rows: measuredRows ?? 0 });
}
