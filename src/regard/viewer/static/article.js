// @ts-check
/** Several viewers in one page, with text between them. */
import { App } from "./app.js";
import { Blobs, bytesOf } from "./arrays.js";
import { phrase, useLanguage } from "./language.js";
import { Pictures } from "./pictures.js";
import { LocalSource } from "./sources.js";

/** @param {string} id */
function contentOf(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(phrase("elementMissing", { id }));
  return found.textContent ?? "";
}

/** Start one viewer in its place. @param {HTMLElement} place */
export function startView(place) {
  const number = place.dataset.view ?? "";
  const host = document.createElement("div");
  host.style.setProperty("--height", `${place.dataset.height}px`);
  place.replaceChildren(host);
  try {
    const doc = JSON.parse(contentOf(`regard-document-${number}`));
    const blobs = new Blobs((blob) => bytesOf(contentOf(`regard-blob-${number}-${blob}`)));
    const pictures = new Pictures(doc.pictures, (blob) => blobs.bytes(blob));
    return new App(host, doc, new LocalSource(doc, blobs), pictures, { address: false });
  } catch (error) {
    host.textContent = phrase("viewFailed", { problem: error instanceof Error ? error.message : String(error) });
    throw error;
  }
}

useLanguage(document.documentElement.lang);
for (const place of document.querySelectorAll("[data-view]")) startView(/** @type {HTMLElement} */ (place));
