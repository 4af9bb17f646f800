// @ts-check
/** The tabs, the buttons at the top, and the list of keyboard shortcuts. */
import { element } from "./text.js";

/** @typedef {import("./types.js").State} State */

const NAMES = { grid: "Model", heat: "Heat map", flow: "Flow", text: "Text", steps: "Steps", image: "Picture" };
const HELP = [
  ["arrow keys", "choose another query or key (with Shift, ten further)"],
  ["+  −  0", "zoom in, zoom out, show the whole map (also with the wheel or two fingers)"],
  ["[  ]", "previous layer, next layer"],
  [",  .", "previous head, next head"],
  ["m", "mean of all heads"],
  ["s", "switch whether clicks and arrow keys choose the query or the key (Flow, Text and Picture)"],
  ["f", "find a token (Enter goes to the next match, Shift+Enter to the previous one)"],
  ["Enter", "open the heat map (in Model), open the steps (in Heat map and Text), pin a token (in Flow)"],
  ["t", "switch between light and dark"],
  ["?", "show this list"],
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
    button("PNG", "Save this view as PNG", () => app.save("png")),
    button("SVG", "Save this view as SVG", () => app.save("svg")),
    button("◐", "Switch between light and dark", () => app.switchTheme()),
    button("?", "Keyboard shortcuts", () => app.help?.showModal()),
  );
}

/** The dialog with the keyboard shortcuts. @param {string[]} shown the available views */
export function makeHelp(shown) {
  const digits = [`1 … ${shown.length}`, shown.map(nameOf).join(", ")];
  const lines = [digits, ...HELP].flatMap(([keys, what]) => [element("dt", {}, keys), element("dd", {}, what)]);
  const close = element("button", { type: "button" }, "Close");
  const dialog = element("dialog", { "aria-label": "Keyboard shortcuts" }, element("h2", {}, "Keyboard shortcuts"), element("dl", {}, ...lines), close);
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
