// The live pictures have the theme of the page. A fragment is set and not a property, since a page that is opened
// as a file may not reach into another one.
(function () {
  "use strict";

  function apply() {
    const dark = document.documentElement.dataset.theme === "dark";
    for (const frame of document.querySelectorAll("figure.live iframe")) {
      const [page, state] = frame.dataset.src.split("#");
      const parts = [state, `theme=${dark ? "dark" : "light"}`].filter(Boolean);
      const address = `${page}#${parts.join("&")}`;
      if (frame.getAttribute("src") !== address) frame.setAttribute("src", address);
    }
  }

  addEventListener("DOMContentLoaded", apply);
  new MutationObserver(apply).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
})();
