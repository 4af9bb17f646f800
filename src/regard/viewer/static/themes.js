// @ts-check
/** The light and the dark theme, and the detection of a notebook's theme. */

/** @typedef {import("./types.js").Theme} Theme */

const LIGHT = {
  page: "#f4f5f8", surface: "#ffffff", raised: "#ffffff", ink: "#161a23", soft: "#5b6475", line: "#d5d9e2",
  accent: "#c2410c", hidden: "#e3e6ec", pending: "#f6e7c8",
};
const DARK = {
  page: "#10131a", surface: "#171b24", raised: "#202634", ink: "#e9ecf3", soft: "#9aa4b6", line: "#323a4a",
  accent: "#ffab5e", hidden: "#262c39", pending: "#4a3f22",
};

/**
 * Set the colours of a theme as CSS variables of an element, and return them. They are defined here and not in the style
 * sheet, since an element that a notebook has not attached yet has no computed style.
 * @param {HTMLElement} host @param {boolean} dark @returns {Theme}
 */
export function putTheme(host, dark) {
  const colors = dark ? DARK : LIGHT;
  host.dataset.theme = dark ? "dark" : "light";
  for (const [name, value] of Object.entries(colors)) host.style.setProperty(`--${name}`, value);
  return { dark, ...colors };
}

/** Whether the surroundings of an element are dark, or null if that is unknown. @param {HTMLElement} host @returns {boolean | null} */
export function darkAround(host) {
  const { body } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false"; // JupyterLab and Notebook 7
  const kind = body.dataset.vscodeThemeKind ?? ""; // VS Code
  if (kind) return !kind.includes("light");
  for (let at = host.parentElement; at; at = at.parentElement) {
    const [r, g, b, alpha = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    if (alpha > 0.5) return 0.2126 * r + 0.7152 * g + 0.0722 * b < 110;
  }
  return null;
}

/** Call a function when the notebook changes its theme, until the signal is aborted. @param {() => void} changed @param {AbortSignal} signal */
export function watchTheme(changed, signal) {
  const observer = new MutationObserver(changed);
  for (const node of [document.documentElement, document.body]) observer.observe(node, { attributes: true });
  signal.addEventListener("abort", () => observer.disconnect());
}
