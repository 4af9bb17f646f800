// @ts-check
/** The viewer in a page, from a file or from the server. */
import { App } from "./app.js";
import { Blobs, bytesOf } from "./arrays.js";
import { phrase, useLanguage } from "./language.js";
import { Pictures } from "./pictures.js";
import { RemoteSource } from "./remote.js";
import { LocalSource } from "./sources.js";

/** @param {string} id */
function textIn(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(phrase("elementMissing", { id }));
  return found.textContent ?? "";
}

/** Start the viewer with the data of the page. */
export function startPage() {
  const host = /** @type {HTMLElement} */ (document.getElementById("regard"));
  try {
    const doc = JSON.parse(textIn("regard-document"));
    const blobs = new Blobs((blob) => bytesOf(textIn(`regard-blob-${blob}`)));
    const pictures = new Pictures(doc.pictures, (blob) => blobs.bytes(blob));
    const remote = doc.records[0].source.type === "remote";
    const source = remote ? new RemoteSource(doc) : new LocalSource(doc, blobs);
    return new App(host, doc, source, pictures, { address: true });
  } catch (error) {
    host.textContent = phrase("pageFailed", { problem: error instanceof Error ? error.message : String(error) });
    throw error;
  }
}

useLanguage(document.documentElement.lang);
startPage();
