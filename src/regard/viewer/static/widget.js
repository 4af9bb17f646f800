// @ts-check
/** The viewer as a notebook widget, which gets the document from the widget model. */
import { App } from "./app.js";
import { Blobs } from "./arrays.js";
import { useLanguage } from "./language.js";
import { Pictures } from "./pictures.js";
import { LocalSource } from "./sources.js";

/** Render the widget, and return a function that the notebook calls to remove it. @param {{model: {get: (name: string) => any}, el: HTMLElement}} context */
export function render({ model, el }) {
  useLanguage(model.get("language"));
  const doc = JSON.parse(model.get("document"));
  /** @type {DataView[]} */
  const held = model.get("blobs");
  const blobs = new Blobs((blob) => new Uint8Array(held[blob].buffer, held[blob].byteOffset, held[blob].byteLength));
  const host = document.createElement("div");
  host.style.setProperty("--height", `${model.get("height")}px`);
  el.append(host);
  const pictures = new Pictures(doc.pictures, (blob) => blobs.bytes(blob));
  const app = new App(host, doc, new LocalSource(doc, blobs), pictures, { address: false });
  return () => app.destroy();
}

export default { render };
