// @ts-check
/** The pictures of a document, decoded for drawing. */

export class Pictures {
  /**
   * @param {{type: string, blob: number}[]} infos
   * @param {(blob: number) => Uint8Array} read
   */
  constructor(infos, read) {
    this.infos = infos;
    this.read = read;
    /** @type {(ImageBitmap | null)[]} */
    this.ready = infos.map(() => null);
    /** @type {Set<number>} */
    this.asked = new Set();
    this.changed = () => {};
  }

  /** The picture of a sequence of the batch, or null until it is decoded. @param {number} n */
  get(n) {
    if (n < this.infos.length && !this.asked.has(n)) {
      this.asked.add(n);
      const bytes = new Uint8Array(this.read(this.infos[n].blob)); // a copy, since a Blob needs its own buffer
      createImageBitmap(new Blob([bytes], { type: this.infos[n].type })).then(
        (picture) => {
          this.ready[n] = picture;
          this.changed();
        },
        () => {}, // if decoding fails, the patches are drawn without the picture
      );
    }
    return this.ready[n] ?? null;
  }
}
