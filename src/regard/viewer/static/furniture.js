// @ts-check
/** What stands around the views: tabs, buttons, and the list of keys. */
import { element } from "./text.js";

/** @typedef {import("./types.js").State} State */

const NAMES = { grid: "Model", heat: "Heat map", flow: "Flow", text: "Text", steps: "Steps", image: "Picture" };
const HELP = [
  ["arrow keys", "choose another query or key (Shift: ten at a time)"],
  ["+  −  0", "zoom in, zoom out, whole map; also the wheel and two fingers"],
  ["[  ]", "layer before, layer after"],
  [",  .", "head before, head after"],
  ["m", "mean of all heads"],
  ["s", "arrow keys and clicks choose queries, or keys (flow, text and picture)"],
  ["f", "find a token; Enter goes to the next, Shift and Enter to the one before"],
  ["Enter", "open: from the model to a heat map, from there to the steps; in the flow: pin a token"],
  ["t", "light or dark"],
  ["?", "this list"],
];

/** @param {string} view */
function nameOf(view) {
  return NAMES[/** @type {keyof typeof NAMES} */ (view)];
}

/** @param {{id: string, shown: string[], state: State, set: (changes: Partial<State>) => boolean}} app */
export function makeTabs(app) {
  const { shown } = app;
  const tabs = shown.map((view) => {
    const ids = { id: `${app.id}-${view}`, "aria-controls": `${app.id}-drawing` };
    const tab = element("button", { type: "button", role: "tab", "data-view": view, ...ids }, nameOf(view));
    tab.addEventListener("click", () => app.set({ view }));
    return tab;
  });
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...tabs);
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = shown[(shown.indexOf(app.state.view) + step + shown.length) % shown.length];
    app.set({ view: next });
    tabs[shown.indexOf(next)].focus();
    event.stopPropagation();
  });
  return list;
}

/** @param {{save: (kind: "png" | "svg") => void, switchTheme: () => void, help?: HTMLDialogElement}} app */
export function makeActions(app) {
  const button = (/** @type {string} */ face, /** @type {string} */ name, /** @type {() => void} */ act) => {
    const made = element("button", { type: "button", title: name, "aria-label": name }, face);
    made.addEventListener("click", act);
    return made;
  };
  return element(
    "div", { class: "actions" },
    button("PNG", "Save what is seen as PNG", () => app.save("png")),
    button("SVG", "Save what is seen as SVG", () => app.save("svg")),
    button("◐", "Light or dark", () => app.switchTheme()),
    button("?", "Keys", () => app.help?.showModal()),
  );
}

/** The list of keys. @param {string[]} shown the views there are */
export function makeHelp(shown) {
  const digits = [`1 … ${shown.length}`, shown.map(nameOf).join(", ")];
  const lines = [digits, ...HELP].flatMap(([keys, what]) => [element("dt", {}, keys), element("dd", {}, what)]);
  const close = element("button", { type: "button" }, "Close");
  const dialog = element("dialog", { "aria-label": "Keys" }, element("h2", {}, "Keys"), element("dl", {}, ...lines), close);
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
