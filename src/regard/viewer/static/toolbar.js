// @ts-check
/** The tabs, the buttons at the top, and the list of keyboard shortcuts. */
import { phrase } from "./language.js";
import { element } from "./text.js";

/** @typedef {import("./types.js").State} State */

/** @param {string} view */
function nameOf(view) {
  switch (view) {
    case "grid": return phrase("viewGrid");
    case "heat": return phrase("viewHeat");
    case "flow": return phrase("viewFlow");
    case "text": return phrase("viewText");
    case "steps": return phrase("viewSteps");
    default: return phrase("viewImage");
  }
}

/** The keys and their meanings. @param {string[]} shown the available views */
function shortcuts(shown) {
  return [
    [`1 … ${shown.length}`, shown.map(nameOf).join(phrase("wordSeparator"))],
    [phrase("arrowKeys"), phrase("helpArrows")],
    ["+  −  0", phrase("helpZoom")],
    ["[  ]", phrase("helpLayers")],
    [",  .", phrase("helpHeads")],
    ["m", phrase("helpMean")],
    ["s", phrase("helpSide")],
    ["f", phrase("helpFind")],
    ["Enter", phrase("helpEnter")],
    ["t", phrase("helpTheme")],
    ["?", phrase("helpList")],
  ];
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
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": phrase("views") }, ...tabs);
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
    button("PNG", phrase("savePng"), () => app.save("png")),
    button("SVG", phrase("saveSvg"), () => app.save("svg")),
    button("◐", phrase("switchTheme"), () => app.switchTheme()),
    button("?", phrase("shortcuts"), () => app.help?.showModal()),
  );
}

/** The dialog with the keyboard shortcuts. @param {string[]} shown the available views */
export function makeHelp(shown) {
  const lines = shortcuts(shown).flatMap(([keys, what]) => [element("dt", {}, keys), element("dd", {}, what)]);
  const close = element("button", { type: "button" }, phrase("close"));
  const dialog = element("dialog", { "aria-label": phrase("shortcuts") }, element("h2", {}, phrase("shortcuts")), element("dl", {}, ...lines), close);
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
