// @ts-check
/** Translation of mouse, pen and touch events to hover, click, pan and zoom. */

/** @typedef {import("./types.js").View} View */

const STILL = 5; // pixels that the pointer may move during a click

export class Pointers {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => View} view
   * @param {() => void} done
   */
  constructor(canvas, view, done) {
    this.canvas = canvas;
    this.view = view;
    this.done = done;
    /** @type {Map<number, {x: number, y: number}>} */
    this.down = new Map();
    this.moved = 0;
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("pointermove", (event) => this.dragged(event));
    canvas.addEventListener("pointerup", (event) => this.released(event, true));
    canvas.addEventListener("pointercancel", (event) => this.released(event, false));
    canvas.addEventListener("pointerleave", () => this.left());
    canvas.addEventListener("dblclick", (event) => this.doubled(event));
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
  }

  /** @param {MouseEvent} event */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** @param {PointerEvent} event */
  pressed(event) {
    if (event.button) return;
    this.down.set(event.pointerId, this.at(event));
    if (this.down.size === 1) this.moved = 0;
    if (this.view().pan) this.canvas.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  dragged(event) {
    const here = this.at(event);
    const before = this.down.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") this.view().hover(here.x, here.y);
      this.canvas.style.cursor = this.view().pan ? "crosshair" : "pointer";
      this.done();
      return;
    }
    this.moved += Math.hypot(here.x - before.x, here.y - before.y);
    const others = [...this.down].filter(([id]) => id !== event.pointerId);
    if (others.length) this.pinched(before, here, others[0][1]);
    else if (this.moved > STILL) {
      this.view().leave();
      this.view().pan?.(here.x - before.x, here.y - before.y);
      this.canvas.style.cursor = "grabbing";
    }
    this.down.set(event.pointerId, here);
    this.done();
  }

  /** Zoom by the distance of two fingers, and pan by their middle. @param {{x: number, y: number}} before @param {{x: number, y: number}} here @param {{x: number, y: number}} other */
  pinched(before, here, other) {
    const apart = (/** @type {{x: number, y: number}} */ p) => Math.max(10, Math.hypot(p.x - other.x, p.y - other.y));
    this.moved += STILL;
    this.view().zoom?.(apart(here) / apart(before), (here.x + other.x) / 2, (here.y + other.y) / 2);
    this.view().pan?.((here.x - before.x) / 2, (here.y - before.y) / 2);
  }

  /** @param {PointerEvent} event @param {boolean} meant */
  released(event, meant) {
    const here = this.at(event);
    if (this.down.delete(event.pointerId) && meant && this.moved <= STILL) this.view().click(here.x, here.y);
    this.canvas.style.cursor = "";
    this.done();
  }

  left() {
    if (this.down.size) return;
    this.view().leave();
    this.done();
  }

  /** @param {MouseEvent} event */
  doubled(event) {
    const here = this.at(event);
    this.view().open?.(here.x, here.y);
    this.done();
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    const here = this.at(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    const used = this.view().wheel?.(event.deltaX * lines, event.deltaY * lines, here.x, here.y);
    if (!used) return;
    event.preventDefault();
    this.done();
  }
}
